//! `load[G, E] = table(3, 1, 0, 4)`, `load[G, E] = zipf(1.2, 4096)`: arrays of whole numbers that the program states.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::layouts::{RequestedDim, Written};
use super::{Definition, Using, Value, ValueId, Wanted};
use crate::dtype::DType;
use crate::layout::{Dim, Sharding};
use crate::span::Span;
use crate::supply::{Supply, Table};
use crate::syntax::{Expr, Name, Target};

/// The functions that make a table.
pub(super) const TABLES: [&str; 2] = ["table", "zipf"];

/// Help for the numbers of a distribution.
const ZIPF: &str =
    "the exponent, the sum of each row, and perhaps a number that shuffles its elements: `zipf(1.2, 4096, 7)`";

/// Whether a word names a function that makes a table.
pub(super) fn is_table(word: &str) -> bool {
    TABLES.contains(&word)
}

/// Why a table was not made where it stands.
pub(super) fn misplaced(name: &str, at: Span) -> CheckError {
    let help = format!("write a statement of its own, with the dims of the table: `load[G, E] = {}`", example(name));
    CheckError::TableAlone { name: name.to_owned(), at, help }
}

fn example(name: &str) -> &'static str {
    if name == "zipf" { "zipf(1.2, 4096)" } else { "table(3, 1, 0, 4)" }
}

impl Checker {
    /// Whether a call makes a table; a function of the program may have its name.
    pub(super) fn makes_table(&self, function: &Name) -> bool {
        is_table(&function.node) && !self.functions.contains_key(&function.node)
    }

    /// A statement that makes a table.
    ///
    /// - `written`: the brackets of the target.
    pub(super) fn tabled(
        &mut self,
        target: &Target,
        written: Option<&Written>,
        function: &Name,
        arguments: &[Expr],
        span: Span,
    ) -> Checked<()> {
        let Some(written) = written else {
            return Err(misplaced(&function.node, function.span).into());
        };
        let dims: Vec<Dim> = written
            .requested
            .iter()
            .map(|request| match request {
                RequestedDim::Dim(dim) => *dim,
                RequestedDim::Literal(size) => self.dims.add(None, *size),
            })
            .collect();
        let before = self.values.len();
        let numbers = match function.node.as_str() {
            "zipf" => self.zipf(&dims, function, arguments)?,
            _ => self.listed(&dims, function, arguments)?,
        };
        let id = self.add_value(Value {
            name: target.name.as_ref().map(|name| name.node.clone()),
            dtype: DType::I32,
            dims,
            definition: Definition::Input { supply: Supply::Table(numbers) },
            wanted: Wanted::Exact(Sharding::replicated(written.requested.len())),
            using: Using::default(),
            pin: None,
            span,
            call: None,
        })?;
        self.places[id.index()] = written.span;
        let id = self.as_declared(id, target)?;
        let id = self.laid_out(id, before, written, true, span)?;
        let value = &mut self.values[id.index()];
        value.name = target.name.as_ref().map(|name| name.node.clone());
        value.span = span;
        let place = target.name.as_ref().map_or(target.span, |name| name.span);
        self.bind(target.name.as_ref().map(|name| name.node.as_str()), Some(id), place, false);
        Ok(())
    }

    /// The table in the dtype of the target.
    fn as_declared(&mut self, id: ValueId, target: &Target) -> Checked<ValueId> {
        match &target.dtype {
            Some(dtype) if dtype.node != DType::I32 => self.cast(id, dtype.node, dtype.span),
            Some(_) | None => Ok(id),
        }
    }

    /// `table(3, 1, 0, 4)`: the elements in row-major order.
    fn listed(&self, dims: &[Dim], function: &Name, arguments: &[Expr]) -> Checked<Table> {
        let wanted = elements(dims).ok_or_else(|| too_large(function))?;
        if arguments.len() != wanted {
            let sizes: Vec<String> = dims.iter().map(|dim| dim.size.to_string()).collect();
            let takes = if wanted == 1 { "1 number".to_owned() } else { format!("{wanted} numbers") };
            let help = match sizes.as_slice() {
                [] => "an array without dims has one element".to_owned(),
                [only] => format!("the dim on the left has {only} elements"),
                many => format!("the dims on the left have {} elements, in row-major order", many.join(" x ")),
            };
            let (name, count, at) = (function.node.clone(), arguments.len(), function.span);
            return Err(CheckError::Arguments { help, name, takes, count, at }.into());
        }
        let number = |(place, expr): (usize, &Expr)| {
            let found = self.number(expr, 0);
            whole(found).ok_or_else(|| Failure::from(wrong(function, place, "no whole number of 32 bits", expr.span)))
        };
        let numbers: Checked<Vec<i32>> = arguments.iter().enumerate().map(number).collect();
        Ok(Table::new(numbers?))
    }

    /// `zipf(1.2, 4096)`: along the last dim, 4096 in shares that fall with the power 1.2 of the position. A third number
    /// shuffles them.
    fn zipf(&self, dims: &[Dim], function: &Name, arguments: &[Expr]) -> Checked<Table> {
        let ([exponent, total] | [exponent, total, _]) = arguments else {
            let (name, count, at) = (function.node.clone(), arguments.len(), function.span);
            let (help, takes) = (ZIPF.to_owned(), "two or three numbers".to_owned());
            return Err(CheckError::Arguments { help, name, takes, count, at }.into());
        };
        let all = elements(dims).ok_or_else(|| too_large(function))?;
        let power = self.number(exponent, 0).filter(|power| (0.0..=64.0).contains(power));
        let power = power.ok_or_else(|| wrong(function, 0, "not a number from 0 to 64", exponent.span))?;
        let sum = whole(self.number(total, 0)).and_then(|sum| u32::try_from(sum).ok());
        let sum = sum.ok_or_else(|| wrong(function, 1, "no whole number of 31 bits", total.span))?;
        let length = dims.last().map_or(1, |dim| usize::try_from(dim.size).unwrap_or(all));
        let seed = |expr: &Expr| {
            let seed = whole(self.number(expr, 0)).and_then(|seed| u64::try_from(seed).ok());
            seed.ok_or_else(|| Failure::from(wrong(function, 2, "no whole number of 31 bits", expr.span)))
        };
        let shuffle = arguments.get(2).map(seed).transpose()?;
        Ok(Table::zipf(power, sum, (length, all / length.max(1)), shuffle))
    }
}

/// Number of elements; `None` above the limit of a table.
fn elements(dims: &[Dim]) -> Option<usize> {
    let count = dims.iter().try_fold(1u64, |count, dim| count.checked_mul(dim.size))?;
    usize::try_from(count).ok().filter(|count| *count <= Table::MOST)
}

/// A whole number of 32 bits.
fn whole(number: Option<f64>) -> Option<i32> {
    let number = number.filter(|number| number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX))?;
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number in this range")]
    Some(number as i32)
}

fn wrong(function: &Name, place: usize, what: &str, at: Span) -> CheckError {
    let help = match function.node.as_str() {
        "zipf" => ZIPF.to_owned(),
        _ => "a table is `i32`; cast it to another dtype in a statement below".to_owned(),
    };
    let (name, argument) = (function.node.clone(), (place + 1).to_string());
    CheckError::Argument { help, name, argument, what: what.to_owned(), at }
}

fn too_large(function: &Name) -> CheckError {
    let (help, name) = (format!("a table has at most {} elements", Table::MOST), function.node.clone());
    CheckError::TableAlone { name, at: function.span, help }
}
