//! Conversion of JSON to a schedule: resolves names; `verify` checks the rest.

use super::{
    ArrayDocument, AxisDocument, CutDocument, DefinitionDocument, Document, DocumentError, MeshDocument, OpDocument,
    OperationDocument, OutputDocument, RouteDocument, SCHEMA, ShardingDocument, SourcesDocument,
};
use crate::einsum::Einsum;
use crate::kernel::Kernel;
use crate::layout::Sharding;
use crate::mesh::{Axes, Axis, AxisId, Mesh, Wiring};
use crate::operator::Operator;
use crate::schedule::methods::Method;
use crate::schedule::verify::{Flaw, Place};
use crate::schedule::{
    Array, ArrayId, CoordMap, Cut, Dense, Malformed, OpId, OpKind, Operation, Output, Region, Route, Schedule, Sources,
    words,
};
use crate::shift::Shift;
use crate::span::Span;
use crate::supply::{Supply, Table};
use std::sync::Arc;

pub(super) fn schedule(document: Document) -> Result<Schedule, DocumentError> {
    if document.schema != SCHEMA {
        return Err(DocumentError::Schema(short(&document.schema)));
    }
    let mut schedule = Schedule::new(mesh(document.mesh)?);
    for (index, entry) in document.arrays.into_iter().enumerate() {
        let array = array(Place::Array(index), entry)?;
        schedule.arrays.push(array);
    }
    for (index, entry) in document.operations.into_iter().enumerate() {
        let reader = Reader { mesh: &schedule.mesh, place: Place::Operation(index) };
        let (operation, operands) = reader.operation(entry)?;
        // An edge to a value that is not there yet cannot even be drawn.
        if let Some(late) = operands.iter().find(|operand| operand.index() >= index) {
            return Err(Malformed { place: reader.place, flaw: Flaw::LateOperand(late.index()) }.into());
        }
        schedule.push(operation, &operands);
    }
    let id = |value: u32| OpId::new(value as usize);
    schedule.kernels = document.kernels.into_iter().map(|kernel| kernel.into_iter().map(id).collect()).collect();
    let read = |(place, entry): (Place, OutputDocument)| {
        let sharding = Reader { mesh: &schedule.mesh, place }.sharding(entry.sharding)?;
        Ok(Output { value: OpId::new(entry.value as usize), array: ArrayId(entry.array), sharding })
    };
    let outputs = document.outputs.into_iter().enumerate().map(|(index, entry)| (Place::Output(index), entry));
    let outputs = outputs.map(read).collect::<Result<_, DocumentError>>()?;
    let assertions = document.assertions.into_iter().enumerate();
    let assertions = assertions.map(|(index, entry)| (Place::Assertion(index), entry));
    schedule.assertions = assertions.map(read).collect::<Result<_, DocumentError>>()?;
    schedule.outputs = outputs;
    Ok(schedule)
}

/// Expected word: an operator.
const OPERATORS: &str = "an operator such as `sum` or `max`";

fn known<T>(place: Place, word: &str, what: &'static str, value: Option<T>) -> Result<T, DocumentError> {
    value.ok_or_else(|| DocumentError::Word { place: place.to_string(), word: short(word), what })
}

/// Excerpt of a word, which may be as long as the document.
fn short(word: &str) -> String {
    word.chars().take(64).collect()
}

fn mesh(document: MeshDocument) -> Result<Mesh, DocumentError> {
    let axes = document.axes.into_iter().map(axis).collect::<Result<_, _>>()?;
    let mut mesh = Mesh::new(axes).ok_or(DocumentError::Mesh)?;
    for view in document.views {
        let part = |name: &String| known(Place::Mesh, name, "an axis of the mesh", mesh.axis_named(name));
        let parts: Vec<AxisId> = view.parts.iter().map(part).collect::<Result<_, _>>()?;
        mesh = mesh.joined(&parts, axis(view.axis)?).ok_or(DocumentError::Mesh)?;
    }
    Ok(mesh)
}

fn axis(document: AxisDocument) -> Result<Axis, DocumentError> {
    let AxisDocument { name, size, wiring, over } = document;
    let wiring =
        wiring.map(|word| known(Place::Mesh, &word, "`ring`, `line`, `switch` or `full`", Wiring::from_word(&word)));
    Ok(Axis { name, size, wiring: wiring.transpose()?, over })
}

fn einsum(place: Place, word: &str) -> Result<Einsum, DocumentError> {
    known(place, word, "an einsum such as `ab,bc->ac`", words::einsum(word))
}

fn kernel(place: Place, word: &str) -> Result<Arc<Kernel>, DocumentError> {
    known(place, word, words::KERNELS, words::kernel(word).map(Arc::new))
}

fn array(place: Place, document: ArrayDocument) -> Result<Array, DocumentError> {
    let definition = match document.definition {
        DefinitionDocument::Input => Dense::INPUT,
        DefinitionDocument::DonatedInput => Dense::Input { supply: Supply::Donated },
        DefinitionDocument::Iota => Dense::Input { supply: Supply::Counted },
        DefinitionDocument::Table(elements) => Dense::Input { supply: Supply::Table(Table::new(elements)) },
        DefinitionDocument::Product { operands, einsum: word } => {
            Dense::Product { operands: operands.map(ArrayId), einsum: einsum(place, &word)? }
        }
        DefinitionDocument::Reduce { operator, operand, einsum: word } => Dense::Reduce {
            operator: known(place, &operator, OPERATORS, words::operator(&operator))?,
            operand: ArrayId(operand),
            einsum: einsum(place, &word)?,
        },
        DefinitionDocument::Call { kernel: word, operands } => {
            Dense::Kernel { kernel: kernel(place, &word)?, operands: operands.into_iter().map(ArrayId).collect() }
        }
        DefinitionDocument::Map { function, operands, einsum: word } => Dense::Map {
            function: known(place, &function, "a function", words::function(&function))?,
            operands: operands.into_iter().map(ArrayId).collect(),
            einsum: einsum(place, &word)?,
        },
    };
    let dtype = known(place, &document.dtype, "an element type", document.dtype.parse().ok())?;
    let valid = document.valid.unwrap_or_else(|| document.extents.clone());
    Ok(Array { name: document.name, dtype, dims: document.dims, extents: document.extents, valid, definition })
}

/// Resolves the names of one operation or output.
struct Reader<'a> {
    mesh: &'a Mesh,
    place: Place,
}

impl Reader<'_> {
    fn axis(&self, name: &str) -> Result<AxisId, DocumentError> {
        known(self.place, name, "an axis of the mesh", self.mesh.axis_named(name))
    }

    /// Checks for distinct axes.
    fn axes(&self, names: &[String]) -> Result<Vec<AxisId>, DocumentError> {
        let mut axes = Vec::new();
        for name in names {
            let axis = self.axis(name)?;
            if axes.contains(&axis) {
                return Err(Malformed { place: self.place, flaw: Flaw::Axes }.into());
            }
            axes.push(axis);
        }
        Ok(axes)
    }

    fn sharding(&self, document: ShardingDocument) -> Result<Sharding, DocumentError> {
        let mut dims = Vec::new();
        for names in &document.dims {
            dims.push(self.axes(names)?.into_iter().collect());
        }
        let open: Axes = self.axes(&document.open)?.into_iter().collect();
        let mut operator = match &document.operator {
            Some(word) => self.operator(word)?,
            None => Operator::Sum,
        };
        if let Some(rank) = document.root {
            let rooted = operator.with_root(rank, open, self.mesh);
            operator = known(self.place, &rank.to_string(), "the rank of a `root` along its axes", rooted)?;
        }
        let mut sharding = Sharding { dims, open: open.set(), operator };
        sharding.set_open(open.set());
        Ok(sharding)
    }

    fn operator(&self, word: &str) -> Result<Operator, DocumentError> {
        known(self.place, word, OPERATORS, words::operator(word))
    }

    fn operation(&self, document: OperationDocument) -> Result<(Operation, Vec<OpId>), DocumentError> {
        let [start, end] = document.span;
        let method = document.method.map(|word| known(self.place, &word, "a method", Method::from_name(&word)));
        let operation = Operation {
            kind: self.kind(document.op)?,
            dtype: known(self.place, &document.dtype, "an element type", document.dtype.parse().ok())?,
            extents: document.extents,
            step: document.step,
            method: method.transpose()?.map(Method::name),
            span: Span { start, end },
        };
        Ok((operation, document.operands.into_iter().map(|operand| OpId::new(operand as usize)).collect()))
    }

    fn kind(&self, document: OpDocument) -> Result<OpKind, DocumentError> {
        Ok(match document {
            OpDocument::Input { array, sharding } => {
                OpKind::Input { array: ArrayId(array), sharding: self.sharding(sharding)? }
            }
            OpDocument::Slice { view, region } => OpKind::Slice { view, region: self.region(region)? },
            OpDocument::Shuffle { sources, route } => OpKind::Shuffle {
                sources: self.sources(sources)?,
                route: match route {
                    RouteDocument::Hops(hops) => Route::Hops(hops),
                    RouteDocument::Shortest => Route::Shortest,
                },
            },
            OpDocument::Add { operator } => OpKind::Add { operator: self.operator(&operator)? },
            OpDocument::Assemble { view, places, zeros } => {
                let places: Result<Vec<Region>, DocumentError> =
                    places.into_iter().map(|place| self.region(place)).collect();
                OpKind::Assemble { view, places: places?, zeros }
            }
            OpDocument::AllGather { axes, dim } => OpKind::AllGather { axes: self.axes(&axes)?, dim: dim as usize },
            OpDocument::SwitchSum { axes, operator } => {
                OpKind::SwitchSum { axes: self.axes(&axes)?, operator: self.operator(&operator)? }
            }
            OpDocument::MatMul { einsum: word } => OpKind::MatMul { einsum: einsum(self.place, &word)? },
            OpDocument::Reduce { operator, einsum: word } => {
                OpKind::Reduce { operator: self.operator(&operator)?, einsum: einsum(self.place, &word)? }
            }
            OpDocument::Map { function, einsum: word } => OpKind::Map {
                function: known(self.place, &function, "a function", words::function(&function))?,
                einsum: einsum(self.place, &word)?,
            },
            OpDocument::Call { kernel: word } => OpKind::Kernel(kernel(self.place, &word)?),
            OpDocument::Mask { axes } => OpKind::Mask { axes: self.axes(&axes)? },
            OpDocument::Reshape {} => OpKind::Reshape,
            OpDocument::Fill { dim, valid, with, block } => OpKind::Fill {
                dim: dim as usize,
                valid,
                with: known(self.place, &with, "`zero`, `one`, `least` or `greatest`", words::filler(&with))?,
                block: self.map(block, Flaw::Padding)?,
            },
            OpDocument::Shift { dim, by, wraps, length, block } => {
                let flaw = |flaw| DocumentError::from(Malformed { place: self.place, flaw });
                let dim = u8::try_from(dim).map_err(|_| flaw(Flaw::UnknownDim(dim as usize)))?;
                OpKind::Shift { shift: Shift { dim, by, wraps }, length, block: self.map(block, Flaw::Shift)? }
            }
        })
    }

    /// A coordinate map. Other cuts are a flaw.
    fn map(&self, document: CutDocument, flaw: Flaw) -> Result<CoordMap, DocumentError> {
        match self.cut(document)? {
            Cut::At(map) => Ok(map),
            Cut::Whole | Cut::Range { .. } => Err(Malformed { place: self.place, flaw }.into()),
        }
    }

    fn region(&self, document: Vec<CutDocument>) -> Result<Region, DocumentError> {
        document.into_iter().map(|cut| self.cut(cut)).collect()
    }

    fn cut(&self, document: CutDocument) -> Result<Cut, DocumentError> {
        Ok(match document {
            CutDocument::Whole => Cut::Whole,
            CutDocument::Range([start, end]) => Cut::Range { start, end },
            CutDocument::Affine { terms, constant, modulo } => {
                let terms: Result<Vec<(AxisId, i64)>, DocumentError> =
                    terms.into_iter().map(|(name, factor)| Ok((self.axis(&name)?, factor))).collect();
                Cut::At(CoordMap::Affine { terms: terms?, constant, modulo })
            }
            CutDocument::Table { axes, entries } => Cut::At(CoordMap::Table { axes: self.axes(&axes)?, entries }),
        })
    }

    fn sources(&self, document: SourcesDocument) -> Result<Sources, DocumentError> {
        Ok(match document {
            SourcesDocument::Shift { axes, by, wrap } => {
                Sources::Shift { axes: self.axes(&axes)?.into_iter().collect(), by, wrap }
            }
            SourcesDocument::Table { axes, entries } => Sources::Table { axes: self.axes(&axes)?, entries },
        })
    }
}
