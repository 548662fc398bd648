//! State of the program checker.

use super::declarations::Ground;
use super::dtypes::ReportedDTypes;
use super::error::{CheckError, Checked};
use super::functions::Declared;
use super::grid::Views;
use super::{Alias, Definition, Expectation, Limit, Repeat, Using, Value, ValueId, Wanted};
use crate::diag::Diagnostics;
use crate::dtype::DType;
use crate::layout::{Dim, DimId, Dims, Sharding};
use crate::link::DegradedLink;
use crate::mesh::{AxisSet, Mesh};
use crate::operator::Operator;
use crate::span::{Span, Spanned};
use crate::syntax::{Ast, Name};
use std::collections::{BTreeMap, BTreeSet};

/// The checker: the program so far, and the meaning of its names.
pub(super) struct Checker {
    pub(super) mesh: Mesh,
    pub(super) hardware: Option<Name>,
    /// The last statement that declares axes.
    pub(super) axes: Span,
    /// The networks of axes.
    pub(super) networks: Vec<Name>,
    /// The degraded links.
    pub(super) links: Vec<Spanned<DegradedLink>>,
    pub(super) dims: Dims,
    /// Dims by name; `None` after a reported error.
    pub(super) named_dims: BTreeMap<String, Option<Dim>>,
    /// For each dim the least common multiple of the shard counts of the layouts so far.
    pub(super) splits: BTreeMap<DimId, u64>,
    /// Dims made of other dims, major first.
    pub(super) parts: BTreeMap<String, Vec<Dim>>,
    /// Names for several axes, major first.
    pub(super) views: Views,
    /// Unknown axes already reported.
    pub(super) reported_axes: BTreeSet<String>,
    pub(super) values: Vec<Value>,
    /// The axes over which each value of free layout can be an open sum.
    pub(super) sums: Vec<BTreeMap<Operator, AxisSet>>,
    /// Where the layout of each value is written.
    pub(super) places: Vec<Span>,
    /// Arrays by name, as indices into `bindings`.
    pub(super) scope: BTreeMap<String, usize>,
    pub(super) bindings: Vec<Binding>,
    /// The last use of each value.
    pub(super) uses: BTreeMap<ValueId, Span>,
    /// The names in `output` lines.
    pub(super) aliases: Vec<Alias>,
    pub(super) outputs: Vec<ValueId>,
    /// The checked blocks.
    pub(super) repeats: Vec<Repeat>,
    /// Number of checked statements in blocks inside bodies.
    pub(super) written_out: usize,
    /// The `expect` lines.
    pub(super) expectations: Vec<Expectation>,
    /// The `limit` lines.
    pub(super) limits: Vec<Limit>,
    /// Nesting depth of the current expression.
    pub(super) depth: usize,
    /// Number of open blocks.
    pub(super) bodies: usize,
    /// Functions by name.
    pub(super) functions: BTreeMap<String, Declared>,
    /// Named numbers.
    pub(super) constants: BTreeMap<String, f64>,
    /// Number of checked statements of functions.
    pub(super) called: usize,
    /// The functions being checked, outermost first, by index.
    pub(super) calls: Vec<usize>,
    pub(super) diagnostics: Diagnostics,
    /// How the collectives of the current statement are to be done.
    pub(super) using: Using,
    /// The result name of the current statement.
    pub(super) target: Option<String>,
    /// The value of the current statement.
    pub(super) assigned: Option<Span>,
    /// Words of statements that failed to parse.
    pub(super) lost: BTreeSet<String>,
    /// Whether the mesh sizes are as written, without an error.
    pub(super) sound: bool,
    /// Whether parts of an axis failed to parse.
    pub(super) parts_lost: bool,
    /// See [`Ast::rebound`].
    pub(super) rebound: BTreeMap<String, u32>,
    /// See [`Ast::nameless`].
    pub(super) nameless: bool,
    /// Layout mismatches already reported, by value and layout.
    pub(super) reported_layouts: BTreeSet<(ValueId, String)>,
    /// See `dtypes.rs`.
    pub(super) reported_dtypes: ReportedDTypes,
}

/// A name and its meaning, up to the next statement that binds it again.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    /// `None` for an unnamed result.
    pub(super) name: Option<String>,
    /// `None` after an error in the statement; uses are ignored.
    pub(super) value: Option<ValueId>,
    pub(super) place: Span,
    /// Whether it is an input.
    pub(super) input: bool,
    pub(super) used: bool,
    /// Whether it is bound again further down.
    pub(super) shadowed: bool,
    /// Whether it is local to a body.
    pub(super) local: bool,
    /// Whether a body carries it to the next iteration.
    pub(super) carried: bool,
}

impl Checker {
    /// Limit on the dims of an array.
    pub(super) const MOST_DIMS: usize = 32;
    /// Exclusive limit on the elements of an array.
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
            reported_axes: BTreeSet::new(),
            using: Using::default(),
            target: None,
            assigned: None,
            lost: ast.lost.clone(),
            sound,
            parts_lost,
            rebound: ast.rebound.clone(),
            nameless: ast.nameless,
            reported_layouts: BTreeSet::new(),
            reported_dtypes: ReportedDTypes::default(),
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

    /// Adds an unnamed value of free layout.
    pub(super) fn add(&mut self, dtype: DType, dims: Vec<Dim>, definition: Definition, span: Span) -> Checked<ValueId> {
        let using = self.using;
        self.add_value(Value {
            name: None,
            dtype,
            dims,
            definition,
            wanted: Wanted::Free,
            using,
            pin: None,
            span,
            call: None,
        })
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

    /// A value.
    pub(super) fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Where a value's layout is written.
    pub(super) fn place(&self, id: ValueId) -> Span {
        self.places[id.index()]
    }

    /// A value's layout, if known.
    pub(super) fn exact(&self, id: ValueId) -> Option<&Sharding> {
        match &self.value(id).wanted {
            Wanted::Exact(sharding) => Some(sharding),
            Wanted::Partly(_) | Wanted::Free => None,
        }
    }

    /// The current use of a value.
    pub(super) fn use_place(&self, id: ValueId) -> Span {
        self.uses.get(&id).copied().unwrap_or(self.value(id).span)
    }

    /// Formats a value as written, `A[I_X, J]`; an unnamed one as its brackets.
    pub(super) fn show(&self, id: ValueId) -> String {
        self.show_as(id, self.value(id).name.as_deref().unwrap_or_default())
    }

    /// Formats a value as written, under another name.
    pub(super) fn show_as(&self, id: ValueId, name: &str) -> String {
        format!("{name}{}", self.value(id).brackets(&self.mesh, &self.dims))
    }

    /// Binds a name, or an unnamed result, to a value; `None` after an error.
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

    /// The current meaning of a name.
    pub(super) fn binding(&self, name: &str) -> Option<&Binding> {
        self.scope.get(name).map(|index| &self.bindings[*index])
    }
}

/// Formats an array for a message.
pub(super) fn quoted(name: &str) -> String {
    if name.is_empty() { "an unnamed array".to_owned() } else { format!("`{name}`") }
}
