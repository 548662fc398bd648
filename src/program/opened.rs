//! `open_X(b)`: a closed array as an open sum; the first device along X holds it, the others hold zeros.

use super::checker::Checker;
use super::error::{CheckError, Checked};
use super::{Definition, Value, ValueId, Wanted};
use crate::collective::Collective;
use crate::mesh::AxisSet;
use crate::operator::Operator;
use crate::span::Span;
use crate::syntax::{Expr, Name};

impl Checker {
    /// Adds the opened array; `word` is the function's name.
    pub(super) fn opened(&mut self, word: &Name, subscript: &[Name], argument: &Expr, span: Span) -> Checked<ValueId> {
        let operand = self.array_expr(argument, None)?;
        let mut axes = AxisSet::NONE;
        for (axis, at) in self.axes(subscript)? {
            if axes.contains(axis) {
                let why = format!("`{}` is used twice", self.mesh.axis(axis).name);
                return Err(self.not_opened(operand, subscript, why, "remove one of them", at));
            }
            axes = axes.union(AxisSet::one(axis));
        }
        let at = subscript.iter().fold(word.span, |span, item| span.join(item.span));
        let Some(from) = self.exact(operand).cloned() else {
            let (array, what) = (self.show(operand), format!("`{}`", text(subscript)));
            let help = "write its layout in brackets".to_owned();
            let from = self.place(operand);
            return Err(CheckError::LayoutUnknown { array, what, at: argument.span, from, help }.into());
        };
        let dtype = self.value(operand).dtype;
        if !Operator::Sum.takes(dtype) {
            let why = format!("an open sum does not support {dtype}");
            return Err(self.not_opened(operand, subscript, why, "open a numeric array", at));
        }
        let collective = Collective::Open { axes };
        let Some(to) = collective.apply(&from, &self.mesh) else {
            let spent = axes.intersection(from.used());
            let why = match spent.iter().next() {
                Some(axis) => format!("`{}` already shards it", self.mesh.axis(axis).name),
                None => format!("it is already an open {}; two operators cannot be combined", from.operator),
            };
            return Err(self.not_opened(operand, subscript, why, "use an axis that is not in its layout", at));
        };
        let dims = self.value(operand).dims.clone();
        let definition = Definition::Collective { collective, from, operand };
        let (wanted, using) = (Wanted::Exact(to), self.using);
        self.add_value(Value { name: None, dtype, dims, definition, wanted, using, pin: None, span, call: None })
    }

    fn not_opened(
        &self,
        operand: ValueId,
        subscript: &[Name],
        why: String,
        help: &str,
        at: Span,
    ) -> super::error::Failure {
        let (collective, shown) = (format!("`{}`", text(subscript)), self.show(operand));
        let help = help.to_owned();
        CheckError::CollectiveAxis {
            fixes: Vec::new(),
            collective,
            operand: shown,
            why,
            at,
            from: self.place(operand),
            help,
        }
        .into()
    }
}

/// Formats `open_X`.
fn text(subscript: &[Name]) -> String {
    let words: Vec<&str> = subscript.iter().map(|word| word.node.as_str()).collect();
    match words.as_slice() {
        [one] => format!("open_{one}"),
        many => format!("open_{{{}}}", many.join(",")),
    }
}
