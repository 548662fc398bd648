//! What is known while a program is checked.

use super::declarations::Ground;
use super::dtypes::ToldDTypes;
use super::error::{CheckError, Checked};
use super::functions::Declared;
use super::grid::Views;
use super::{Alias, Definition, Expectation, Limit, Repeat, Value, ValueId, Wanted};
use crate::diag::Diagnostics;
use crate::dtype::DType;
use crate::layout::{Dim, DimId, Dims, Sharding};
use crate::link::DegradedLink;
use crate::mesh::{AxisSet, Mesh};
use crate::method::Method;
use crate::operator::Operator;
use crate::span::{Span, Spanned};
use crate::syntax::{Ast, Name};
use std::collections::{BTreeMap, BTreeSet};

/// The state of the checker: the program so far, and what its names mean.
pub(super) struct Checker {
    pub(super) mesh: Mesh,
    pub(super) hardware: Option<Name>,
    /// The last statement that declares axes.
    pub(super) axes: Span,
    /// The networks that axes lie over.
    pub(super) networks: Vec<Name>,
    /// The links that are degraded.
    pub(super) links: Vec<Spanned<DegradedLink>>,
    pub(super) dims: Dims,
    /// By name; `None` where that was told to be wrong.
    pub(super) named_dims: BTreeMap<String, Option<Dim>>,
    /// The least common multiple of the numbers of shards in which layouts so far cut each dim.
    pub(super) splits: BTreeMap<DimId, u64>,
    /// Dims that stand for several, major first.
    pub(super) parts: BTreeMap<String, Vec<Dim>>,
    /// Names that stand for several axes, major first.
    pub(super) views: Views,
    /// Unknown axes that were told of.
    pub(super) told_axes: BTreeSet<String>,
    pub(super) values: Vec<Value>,
    /// Over which axes each value can be an open sum while its layout is free.
    pub(super) sums: Vec<BTreeMap<Operator, AxisSet>>,
    /// Where the layout of each value is written.
    pub(super) places: Vec<Span>,
    /// The arrays by name: an index into `bindings`.
    pub(super) scope: BTreeMap<String, usize>,
    pub(super) bindings: Vec<Binding>,
    /// Where each value was used last.
    pub(super) uses: BTreeMap<ValueId, Span>,
    /// What `output` lines name.
    pub(super) aliases: Vec<Alias>,
    pub(super) outputs: Vec<ValueId>,
    /// The blocks that were checked.
    pub(super) repeats: Vec<Repeat>,
    /// So many statements of blocks inside of bodies were checked.
    pub(super) written_out: usize,
    /// What `expect` lines say.
    pub(super) expectations: Vec<Expectation>,
    /// What `limit` lines say.
    pub(super) limits: Vec<Limit>,
    /// How deep the expression at hand is nested.
    pub(super) depth: usize,
    /// How many blocks are open.
    pub(super) bodies: usize,
    /// The functions so far, by name.
    pub(super) functions: BTreeMap<String, Declared>,
    /// Numbers that have a name.
    pub(super) constants: BTreeMap<String, f64>,
    /// So many statements of functions were checked.
    pub(super) called: usize,
    /// The functions of which the statements are being checked, by their places in order.
    pub(super) calls: Vec<usize>,
    pub(super) diagnostics: Diagnostics,
    /// The method that the statement at hand asks for.
    pub(super) method: Option<Method>,
    /// The name of the result of the statement at hand.
    pub(super) target: Option<String>,
    /// Words of statements that could not be read.
    pub(super) lost: BTreeSet<String>,
    /// Whether the sizes of the mesh are those that are written.
    pub(super) sound: bool,
    /// Whether parts of an axis could not be read.
    pub(super) parts_lost: bool,
    /// See [`Ast::rebound`].
    pub(super) rebound: BTreeMap<String, u32>,
    /// See [`Ast::nameless`].
    pub(super) nameless: bool,
    /// Values that were told to be said in another layout than they have, by that layout.
    pub(super) told_layouts: BTreeSet<(ValueId, String)>,
    /// See `dtypes.rs`.
    pub(super) told_dtypes: ToldDTypes,
}

/// A name and what it stands for, from one statement to the next that binds it again.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    /// `None` for an unnamed result.
    pub(super) name: Option<String>,
    /// `None` where the statement has an error: uses of it are passed over.
    pub(super) value: Option<ValueId>,
    pub(super) place: Span,
    /// An input, not a result.
    pub(super) input: bool,
    pub(super) used: bool,
    /// Bound again further down.
    pub(super) shadowed: bool,
    /// Known inside of a body only.
    pub(super) local: bool,
    /// Handed on by a body, whose next iteration uses it.
    pub(super) carried: bool,
}

impl Checker {
    /// The most dims of an array.
    pub(super) const MOST_DIMS: usize = 32;
    /// Arrays have fewer elements than this.
    pub(super) const ELEMENTS: u64 = 1 << 60;

    pub(super) fn new(ground: Ground, ast: &Ast, diagnostics: Diagnostics) -> Checker {
        let Ground { mesh, sound, parts_lost, hardware, networks, dims, named_dims, parts, views, axes } = ground;
        Checker {
            mesh,
            hardware,
            axes,
            networks,
            links: Vec::new(),
            dims,
            named_dims,
            splits: BTreeMap::new(),
            parts,
            views,
            told_axes: BTreeSet::new(),
            method: None,
            target: None,
            lost: ast.lost.clone(),
            sound,
            parts_lost,
            rebound: ast.rebound.clone(),
            nameless: ast.nameless,
            told_layouts: BTreeSet::new(),
            told_dtypes: ToldDTypes::default(),
            values: Vec::new(),
            sums: Vec::new(),
            places: Vec::new(),
            scope: BTreeMap::new(),
            bindings: Vec::new(),
            uses: BTreeMap::new(),
            aliases: Vec::new(),
            outputs: Vec::new(),
            repeats: Vec::new(),
            bodies: 0,
            functions: BTreeMap::new(),
            constants: BTreeMap::new(),
            called: 0,
            calls: Vec::new(),
            written_out: 0,
            expectations: Vec::new(),
            limits: Vec::new(),
            depth: 0,
            diagnostics,
        }
    }

    /// Adds a value without a name, of free layout.
    pub(super) fn add(&mut self, dtype: DType, dims: Vec<Dim>, definition: Definition, span: Span) -> Checked<ValueId> {
        let method = self.method;
        self.add_value(Value { name: None, dtype, dims, definition, wanted: Wanted::Free, method, pin: None, span })
    }

    /// Adds a value.
    pub(super) fn add_value(&mut self, value: Value) -> Checked<ValueId> {
        let array = || quoted(value.name.as_deref().unwrap_or_default());
        let (rank, most) = (value.dims.len(), Self::MOST_DIMS);
        if rank > most {
            return Err(CheckError::TooManyDims { array: array(), rank, most, at: value.span }.into());
        }
        let elements = value.dims.iter().try_fold(1u64, |n, dim| n.checked_mul(dim.size));
        if elements.is_none_or(|n| n >= Self::ELEMENTS) {
            let elements = elements.map_or_else(|| "2^64 or more".to_owned(), |n| n.to_string());
            return Err(CheckError::ArrayTooLarge { array: array(), elements, at: value.span }.into());
        }
        let id = ValueId(u32::try_from(self.values.len()).expect("fewer values than bytes of source"));
        self.sums.push(self.possible_sums(&value));
        self.places.push(value.span);
        self.values.push(value);
        Ok(id)
    }

    /// One value.
    pub(super) fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Where its layout is written.
    pub(super) fn place(&self, id: ValueId) -> Span {
        self.places[id.index()]
    }

    /// Its layout, if it is known.
    pub(super) fn exact(&self, id: ValueId) -> Option<&Sharding> {
        match &self.value(id).wanted {
            Wanted::Exact(sharding) => Some(sharding),
            Wanted::Partly(_) | Wanted::Free => None,
        }
    }

    /// Where it is used at hand.
    pub(super) fn use_place(&self, id: ValueId) -> Span {
        self.uses.get(&id).copied().unwrap_or(self.value(id).span)
    }

    /// As it is written, `A[I_X, J]`; an unnamed one has brackets only.
    pub(super) fn show(&self, id: ValueId) -> String {
        self.show_as(id, self.value(id).name.as_deref().unwrap_or_default())
    }

    /// As it is written under another name.
    pub(super) fn show_as(&self, id: ValueId, name: &str) -> String {
        format!("{name}{}", self.value(id).brackets(&self.mesh, &self.dims))
    }

    /// Binds a name, or an unnamed result, to a value; `None` if the value is not known for an error.
    pub(super) fn bind(&mut self, name: Option<&str>, value: Option<ValueId>, place: Span, input: bool) {
        if let Some(name) = name {
            self.constants.remove(name);
        }
        if let Some(name) = name
            && let Some(before) = self.scope.insert(name.to_owned(), self.bindings.len())
        {
            self.bindings[before].shadowed = true;
        }
        let name = name.map(str::to_owned);
        self.bindings.push(Binding {
            name,
            value,
            place,
            input,
            used: false,
            shadowed: false,
            local: false,
            carried: false,
        });
    }

    /// What the name stands for here.
    pub(super) fn binding(&self, name: &str) -> Option<&Binding> {
        self.scope.get(name).map(|index| &self.bindings[*index])
    }
}

/// An array in a message.
pub(super) fn quoted(name: &str) -> String {
    if name.is_empty() { "an array without a name".to_owned() } else { format!("`{name}`") }
}
