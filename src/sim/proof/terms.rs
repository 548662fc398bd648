//! Terms: the arrays of the dense computation, hash-consed so that equal computations have equal ids.
//!
//! Two canonicalizations apply. A renaming is the operand itself, and chains of transpositions are merged. Operands
//! of commutative operations are sorted by id.

use super::boxes::Interval;
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::function::{Binary, Function};
use crate::kernel::Kernel;
use crate::mesh::{AxisId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Array, Dense, MOST_ELEMENTS};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// An array of the dense computation; it need not be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TermId(u32);

impl TermId {
    /// The term at a position of the table.
    pub(super) fn new(index: usize) -> TermId {
        TermId(u32::try_from(index).expect("terms are numbered in 32 bits"))
    }

    /// Position in the table. Operands come first.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where the elements of a term come from.
pub(super) enum Origin<'a> {
    /// An input; the field is the position of the array.
    Input(usize),
    /// Each element comes from the element at the same position of this term.
    Of(TermId),
    /// Each element is computed from those selected by the einsum's indices.
    Computed(&'a Einsum, &'a [TermId]),
    /// As computed, but from all elements of the indices that a declared kernel needs whole, in an unknown way.
    Opaque(&'a Kernel, &'a [TermId]),
}

/// The definition of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Definition {
    /// An input array, by its position in the schedule's list.
    Input(usize),
    /// A product of two terms.
    Product { einsum: Einsum, operands: [TermId; 2], dtype: DType },
    /// A term reduced over the indices that are missing in the result.
    Reduce { operator: Operator, einsum: Einsum, operand: TermId, dtype: DType },
    /// The pieces of an open array before a function is applied to them, or their sum before it is completed.
    Pending { of: TermId, pending: Pending },
    /// A function of terms; the identity only for transpositions.
    Map { function: Function, einsum: Einsum, operands: Vec<TermId>, dtype: DType },
    /// A declared kernel: equal calls with equal operands have equal results.
    Kernel { kernel: Arc<Kernel>, operands: Vec<TermId>, dtype: DType },
}

/// A function still to be applied to pieces, or to their sum, to obtain the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pending {
    /// Each piece must be squared.
    Square,
    /// The sum must be divided.
    Over(u64),
}

/// A term, with the name used in messages.
#[derive(Clone, Debug)]
struct Term {
    definition: Definition,
    name: String,
    dims: Vec<String>,
    extents: Vec<u64>,
}

/// A coordinate, by its position in the table of [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CoordinateId(u32);

/// A way to decompose a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Coordinate {
    /// The contracted index of a product or a reduction.
    Contracted(TermId, Index),
    /// The position along an axis over which the value of an input operation is open. Two operations may decompose
    /// one array differently, so each has its own coordinate.
    Open(usize, AxisId),
    /// The position along an axis, for a term that is kept on the first device and 0 on the others. Masks of the blocks
    /// of one term decompose it alike.
    Masked(TermId, AxisId),
    /// The left or right operand of an elementwise sum.
    Side(TermId),
    /// A coordinate of one operand of a product.
    Of(TermId, usize, CoordinateId),
}

/// The entity that a coordinate enumerates.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// A contracted index of a term.
    Index(TermId, Index),
    /// The positions along an axis.
    Axis(AxisId),
    /// The operands of a sum.
    Sides,
}

/// All terms and coordinates of a proof.
#[derive(Debug, Default)]
pub(super) struct Terms {
    terms: Vec<Term>,
    ids: HashMap<Definition, TermId>,
    coordinates: Vec<(Coordinate, u64, String)>,
    coordinate_ids: HashMap<Coordinate, CoordinateId>,
}

/// A part of an array, as shown to users: `C[I 0..4, K 2..3]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The name of the array.
    pub array: Box<str>,
    /// Name and range (first, one past the last) of each dim.
    pub ranges: Box<[(String, u64, u64)]>,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(|(dim, start, end)| format!("{dim} {start}..{end}")).collect();
        write!(f, "{}[{}]", self.array, ranges.join(", "))
    }
}

impl Terms {
    /// The term of a declared array, given the terms of its operands; `None` if it has too many elements.
    pub(super) fn declare(&mut self, place: usize, array: &Array, known: &[TermId]) -> Option<TermId> {
        let term = match &array.definition {
            Dense::Input { .. } => {
                let (name, dims, extents) = (array.name.clone(), array.dims.clone(), array.extents.clone());
                self.term(Definition::Input(place), name, dims, extents)?
            }
            Dense::Product { operands, einsum } => {
                let operands = operands.map(|operand| known[operand.index()]);
                self.product(einsum, operands, array.dtype)?.0
            }
            Dense::Reduce { operator, operand, einsum } => {
                self.reduce(*operator, einsum, known[operand.index()], array.dtype)?.0
            }
            Dense::Kernel { kernel, operands } => {
                let operands: Vec<TermId> = operands.iter().map(|operand| known[operand.index()]).collect();
                self.kernel(kernel, &operands, array.dtype)?
            }
            Dense::Map { function, operands, einsum } => {
                let operands: Vec<TermId> = operands.iter().map(|operand| known[operand.index()]).collect();
                self.map(*function, einsum, &operands, array.dtype)?.0
            }
        };
        // The first array with this value names the term. Generated names start with a parenthesis.
        let named = &mut self.terms[term.0 as usize];
        if named.name.starts_with('(') {
            named.name.clone_from(&array.name);
            named.dims.clone_from(&array.dims);
        }
        Some(term)
    }

    /// The product of two terms, and whether its canonical form swaps them.
    ///
    /// Returns `None` if extents differ or the product has too many elements.
    pub(super) fn product(
        &mut self,
        einsum: &Einsum,
        operands: [TermId; 2],
        dtype: DType,
    ) -> Option<(TermId, Canonical)> {
        let canonical = Canonical::new(einsum, &operands, true);
        let operands = if canonical.swapped { [operands[1], operands[0]] } else { operands };
        let (dims, extents) = self.shape(&canonical.einsum, &operands)?;
        let name = self.made_up("", &operands);
        let einsum = canonical.einsum.clone();
        let term = self.term(Definition::Product { einsum, operands, dtype }, name, dims, extents)?;
        Some((term, canonical))
    }

    /// The reduction of a term. Returns as [`Terms::product`].
    pub(super) fn reduce(
        &mut self,
        operator: Operator,
        einsum: &Einsum,
        operand: TermId,
        dtype: DType,
    ) -> Option<(TermId, Canonical)> {
        let canonical = Canonical::new(einsum, &[operand], false);
        let (dims, extents) = self.shape(&canonical.einsum, &[operand])?;
        let name = self.made_up(operator.name(), &[operand]);
        let einsum = canonical.einsum.clone();
        let term = self.term(Definition::Reduce { operator, einsum, operand, dtype }, name, dims, extents)?;
        Some((term, canonical))
    }

    /// The term of the pieces of an array, or of their sum, while a function is pending.
    pub(super) fn pending(&mut self, of: TermId, pending: Pending) -> TermId {
        if pending == Pending::Over(1) {
            return of;
        }
        let Term { dims, extents, .. } = self.terms[of.0 as usize].clone();
        let name = self.made_up("pieces of", &[of]);
        let known = self.term(Definition::Pending { of, pending }, name, dims, extents);
        known.expect("it has as many elements as the array itself")
    }

    /// For a pending term: its array and the pending function.
    pub(super) fn is_pending(&self, term: TermId) -> Option<(TermId, Pending)> {
        match &self.terms[term.0 as usize].definition {
            Definition::Pending { of, pending } => Some((*of, *pending)),
            Definition::Input(_)
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Kernel { .. }
            | Definition::Map { .. } => None,
        }
    }

    /// The result of a declared kernel; `None` if extents differ or it has too many elements.
    pub(super) fn kernel(&mut self, kernel: &Arc<Kernel>, operands: &[TermId], dtype: DType) -> Option<TermId> {
        let extents: Vec<Vec<u64>> = operands.iter().map(|operand| self.extents(*operand).to_vec()).collect();
        if kernel.block(&extents)? != kernel.lengths {
            return None;
        }
        let dims = kernel.einsum.result.iter().map(|index| self.index_name(&kernel.einsum, operands, *index)).collect();
        let (extents, name) = (kernel.result(&kernel.lengths), self.made_up(&kernel.name, operands));
        let definition = Definition::Kernel { kernel: kernel.clone(), operands: operands.to_vec(), dtype };
        self.term(definition, name, dims, extents)
    }

    /// A function of terms. Returns as [`Terms::product`].
    pub(super) fn map(
        &mut self,
        function: Function,
        einsum: &Einsum,
        operands: &[TermId],
        dtype: DType,
    ) -> Option<(TermId, Canonical)> {
        if let (Function::Binary(Binary::Mul), [left, right]) = (function, operands) {
            return self.product(einsum, [*left, *right], dtype);
        }
        let canonical = Canonical::new(einsum, operands, function == Function::Binary(Binary::Add));
        let mut operands = operands.to_vec();
        if canonical.swapped {
            operands.swap(0, 1);
        }
        let (dims, extents) = self.shape(&canonical.einsum, &operands)?;
        let name = self.made_up(&function.to_string(), &operands);
        let term = if function == Function::Identity {
            self.transposed(canonical.einsum.clone(), operands[0], dtype, name, dims, extents)?
        } else {
            let einsum = canonical.einsum.clone();
            self.term(Definition::Map { function, einsum, operands, dtype }, name, dims, extents)?
        };
        Some((term, canonical))
    }

    /// The operand with permuted dims. Returns the operand itself if nothing changes, and merges two transpositions
    /// into one.
    fn transposed(
        &mut self,
        einsum: Einsum,
        operand: TermId,
        dtype: DType,
        name: String,
        dims: Vec<String>,
        extents: Vec<u64>,
    ) -> Option<TermId> {
        let (einsum, operand) = match &self.terms[operand.0 as usize].definition {
            Definition::Map { function: Function::Identity, einsum: inner, operands, .. } => {
                // The operand of a canonical identity has the indices 0, 1, ..; so does the inner one.
                let result = einsum.result.iter().map(|index| inner.result[usize::from(*index)]).collect();
                (Einsum { operands: inner.operands.clone(), result }, operands[0])
            }
            Definition::Input(_)
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Pending { .. }
            | Definition::Kernel { .. }
            | Definition::Map { .. } => (einsum, operand),
        };
        if einsum.operands[0] == einsum.result {
            return Some(operand);
        }
        let function = Function::Identity;
        self.term(Definition::Map { function, einsum, operands: vec![operand], dtype }, name, dims, extents)
    }

    fn term(&mut self, definition: Definition, name: String, dims: Vec<String>, extents: Vec<u64>) -> Option<TermId> {
        if let Some(known) = self.ids.get(&definition) {
            return Some(*known);
        }
        let elements = extents.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))?;
        if elements > MOST_ELEMENTS {
            return None;
        }
        let id = TermId(u32::try_from(self.terms.len()).ok()?);
        self.ids.insert(definition.clone(), id);
        self.terms.push(Term { definition, name, dims, extents });
        Some(id)
    }

    /// Names and extents of the dims of a result.
    fn shape(&self, einsum: &Einsum, operands: &[TermId]) -> Option<(Vec<String>, Vec<u64>)> {
        let extents: Vec<Vec<u64>> = operands.iter().map(|operand| self.extents(*operand).to_vec()).collect();
        let lengths = einsum.lengths(&extents)?;
        let dims = einsum.result.iter().map(|index| self.index_name(einsum, operands, *index)).collect();
        let extents = einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect();
        Some((dims, extents))
    }

    fn index_name(&self, einsum: &Einsum, operands: &[TermId], index: Index) -> String {
        let found = einsum.operands.iter().zip(operands).find_map(|(indices, operand)| {
            let dim = indices.iter().position(|known| *known == index)?;
            self.terms[operand.0 as usize].dims.get(dim).cloned()
        });
        found.unwrap_or_default()
    }

    fn made_up(&self, function: &str, operands: &[TermId]) -> String {
        let names: Vec<&str> = operands.iter().map(|operand| self.terms[operand.0 as usize].name.as_str()).collect();
        let name = if function.is_empty() { names.join(" * ") } else { format!("{function} {}", names.join(", ")) };
        // Names of undeclared terms contain those of their operands; limit their length.
        if name.len() > 200 { "(an intermediate)".to_owned() } else { format!("({name})") }
    }

    /// Extents of a term.
    pub(super) fn extents(&self, term: TermId) -> &[u64] {
        &self.terms[term.0 as usize].extents
    }

    /// Name of a term, for messages.
    pub(super) fn name(&self, term: TermId) -> &str {
        &self.terms[term.0 as usize].name
    }

    /// A region of a term, for messages.
    pub(super) fn slot(&self, term: TermId, region: &[Interval]) -> Slot {
        let term = &self.terms[term.0 as usize];
        let ranges = term.dims.iter().zip(region).map(|(dim, range)| (dim.clone(), range.start, range.end));
        Slot { array: term.name.as_str().into(), ranges: ranges.collect() }
    }

    /// Where the elements of a term come from.
    pub(super) fn origin(&self, term: TermId) -> Origin<'_> {
        match &self.terms[term.index()].definition {
            Definition::Input(place) => Origin::Input(*place),
            Definition::Pending { of, .. } => Origin::Of(*of),
            Definition::Product { einsum, operands, .. } => Origin::Computed(einsum, operands),
            Definition::Reduce { einsum, operand, .. } => Origin::Computed(einsum, std::slice::from_ref(operand)),
            Definition::Map { einsum, operands, .. } => Origin::Computed(einsum, operands),
            Definition::Kernel { kernel, operands, .. } => Origin::Opaque(kernel, operands),
        }
    }

    /// What a coordinate enumerates.
    pub(super) fn counted(&self, mut id: CoordinateId) -> Counted {
        loop {
            match self.coordinates[id.0 as usize].0 {
                Coordinate::Contracted(term, index) => return Counted::Index(term, index),
                Coordinate::Open(_, axis) | Coordinate::Masked(_, axis) => return Counted::Axis(axis),
                Coordinate::Side(_) => return Counted::Sides,
                Coordinate::Of(_, _, inner) => id = inner,
            }
        }
    }

    fn coordinate(&mut self, coordinate: Coordinate, length: u64, name: String) -> CoordinateId {
        if let Some(known) = self.coordinate_ids.get(&coordinate) {
            return *known;
        }
        let id = CoordinateId(u32::try_from(self.coordinates.len()).expect("the budget of a proof is far below"));
        self.coordinate_ids.insert(coordinate, id);
        self.coordinates.push((coordinate, length, name));
        id
    }

    /// The coordinate of a contracted index of a product, numbered as in its canonical form.
    pub(super) fn contracted_coordinate(&mut self, product: TermId, index: Index, length: u64) -> CoordinateId {
        let name = match &self.terms[product.0 as usize].definition {
            Definition::Product { einsum, operands, .. } => self.index_name(einsum, operands, index),
            Definition::Reduce { einsum, operand, .. } => self.index_name(einsum, &[*operand], index),
            Definition::Kernel { kernel, operands, .. } => self.index_name(&kernel.einsum, operands, index),
            Definition::Input(_) | Definition::Pending { .. } | Definition::Map { .. } => String::new(),
        };
        self.coordinate(Coordinate::Contracted(product, index), length, name)
    }

    /// The coordinate of the pieces of an open input.
    pub(super) fn open_coordinate(&mut self, operation: usize, axis: AxisId, mesh: &Mesh) -> CoordinateId {
        let name = format!("axis {}", mesh.axis(axis).name);
        self.coordinate(Coordinate::Open(operation, axis), mesh.size(axis), name)
    }

    /// The coordinate of what a mask leaves of a term.
    pub(super) fn masked_coordinate(&mut self, term: TermId, axis: AxisId, mesh: &Mesh) -> CoordinateId {
        let name = format!("axis {}", mesh.axis(axis).name);
        self.coordinate(Coordinate::Masked(term, axis), mesh.size(axis), name)
    }

    /// The coordinate that distinguishes the operands of an elementwise sum.
    pub(super) fn side_coordinate(&mut self, sum: TermId) -> CoordinateId {
        let name = format!("operand of {}", self.name(sum));
        self.coordinate(Coordinate::Side(sum), 2, name)
    }

    /// The product's coordinate for a coordinate of an operand.
    pub(super) fn inner_coordinate(&mut self, product: TermId, operand: usize, inner: CoordinateId) -> CoordinateId {
        let (_, length, name) = self.coordinates[inner.0 as usize].clone();
        self.coordinate(Coordinate::Of(product, operand, inner), length, name)
    }

    /// Number of parts that the coordinate distinguishes.
    pub(super) fn coordinate_length(&self, id: CoordinateId) -> u64 {
        self.coordinates[id.0 as usize].1
    }

    /// Name of a coordinate: a contracted dim, `axis X`, or `operand of C`.
    pub(super) fn coordinate_name(&self, id: CoordinateId) -> &str {
        &self.coordinates[id.0 as usize].2
    }

    /// Names of the dims of a term.
    pub(super) fn dims(&self, term: TermId) -> &[String] {
        &self.terms[term.0 as usize].dims
    }

    /// Formats limits: `J 4..8, axis X 1..2`.
    pub(super) fn limits(&self, limits: &[(CoordinateId, Interval)]) -> String {
        let words: Vec<String> = limits
            .iter()
            .map(|(id, interval)| format!("{} {}..{}", self.coordinates[id.0 as usize].2, interval.start, interval.end))
            .collect();
        words.join(", ")
    }
}

/// An einsum in canonical form: equal computations have equal forms.
#[derive(Clone, Debug)]
pub(super) struct Canonical {
    /// Indices are numbered by first appearance, operands are in canonical order.
    pub(super) einsum: Einsum,
    /// Whether the operands were swapped.
    pub(super) swapped: bool,
}

impl Canonical {
    fn new(einsum: &Einsum, operands: &[TermId], commutes: bool) -> Canonical {
        let straight = renumbered(einsum);
        if let (true, [left, right]) = (commutes, operands) {
            let reversed = Einsum { operands: einsum.operands.iter().rev().cloned().collect(), ..einsum.clone() };
            let reversed = renumbered(&reversed);
            if (right, left, &reversed) < (left, right, &straight) {
                return Canonical { einsum: reversed, swapped: true };
            }
        }
        Canonical { einsum: straight, swapped: false }
    }
}

/// The same einsum with indices numbered by first appearance.
fn renumbered(einsum: &Einsum) -> Einsum {
    let mut seen: Vec<Index> = Vec::new();
    let mut number = |indices: &Vec<Index>| -> Vec<Index> {
        indices
            .iter()
            .map(|index| {
                let place = seen.iter().position(|known| known == index).unwrap_or_else(|| {
                    seen.push(*index);
                    seen.len() - 1
                });
                Index::try_from(place).expect("there are no more places than indices")
            })
            .collect()
    };
    let operands = einsum.operands.iter().map(&mut number).collect();
    Einsum { operands, result: number(&einsum.result) }
}
