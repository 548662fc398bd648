//! Changes that need more than the checker knows at the error: the whole statement, or others of the program.
//!
//! ```text
//! y[B_X, F_Y] = x * Win      `Win: bf16[D, F_Y]` first
//! y[B_X] = x * W             `y[B_X, F_Y] = x * W`, or `y[B_X] = sum_F(x * W)`
//! B = 16; D = 64             `dims {B: 16, D: 64}`
//! ```

use crate::diag::{Diagnostic, Diagnostics, Edit, Fix};
use crate::span::{LineIndex, Span};
use crate::syntax::{Ast, Brackets, DimName, Expr, ExprKind, Statement, StatementKind};

/// Changes for an error, to be tried.
pub(super) fn changes(found: &Diagnostic, source: &str, ast: &Ast) -> Vec<Fix> {
    let place = found.span();
    let Some(at) = ast.statements.iter().position(|one| one.span.start <= place.start && place.start < one.span.end)
    else {
        return Vec::new();
    };
    match found.code.as_str() {
        "unknown-array" => missing_array(place, source, &ast.statements[..at], &ast.statements[at]),
        "dim-lost" => lost_dim(&found.message, source, &ast.statements[at]),
        _ => Vec::new(),
    }
}

/// An array that is not declared: an input that is never used, or a declaration with the dims that the product needs.
fn missing_array(place: Span, source: &str, before: &[Statement], statement: &Statement) -> Vec<Fix> {
    let missing = place.text(source);
    let inputs = before.iter().filter_map(|statement| match &statement.kind {
        StatementKind::Input { name, dtype, brackets, .. } => Some((name.node.as_str(), dtype.node, brackets)),
        _ => None,
    });
    let inputs: Vec<_> = inputs.collect();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let uses = |name: &str| source.split(|c| !is_part(c)).filter(|word| *word == name).count();
    let unused = inputs.iter().filter(|(name, ..)| uses(name) == 1).map(|(name, ..)| {
        let said = format!("`{name}`, which is never used, for `{missing}`");
        Fix { said: Some(said), ..Fix::new(Edit::Replace(place), (*name).to_owned()) }
    });
    let declared = needed(missing, statement, &|name| {
        inputs.iter().find(|(input, ..)| *input == name).map(|(_, dtype, brackets)| (dtype.to_string(), *brackets))
    });
    unused.chain(declared.map(|line| Fix::new(Edit::Before, line))).collect()
}

/// The declaration of a factor: the dims that the other factor sums over, and those of the result that it lacks.
fn needed<'a>(
    missing: &str,
    statement: &Statement,
    input: &dyn Fn(&str) -> Option<(String, &'a Brackets)>,
) -> Option<String> {
    let StatementKind::Assign { target, value, .. } = &statement.kind else { return None };
    let ExprKind::Product { factors, .. } = &value.kind else { return None };
    let names: Vec<&str> = factors.iter().filter_map(array).collect();
    let [one, two] = names.as_slice() else { return None };
    let other = if *one == missing { two } else { one };
    let ((dtype, has), result) = (input(other)?, target.brackets.as_ref()?);
    let summed = has.dims.iter().filter(|dim| !result.dims.iter().any(|kept| kept.dim == dim.dim));
    let new = result.dims.iter().filter(|dim| !has.dims.iter().any(|own| own.dim == dim.dim));
    let whole = summed.map(|dim| match &dim.dim {
        DimName::Named(name) => name.clone(),
        DimName::Literal(size) => size.to_string(),
    });
    let dims: Vec<String> = whole.chain(new.map(ToString::to_string)).collect();
    (!dims.is_empty()).then(|| format!("{missing}: {dtype}[{}]", dims.join(", ")))
}

/// The name of an array without brackets.
fn array(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Array(array) if array.brackets.is_none() => array.name.as_ref().map(|name| name.node.as_str()),
        _ => None,
    }
}

/// A dim that the result lacks: kept, or summed over.
fn lost_dim(message: &str, source: &str, statement: &Statement) -> Vec<Fix> {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some(dim), Some(array)) = (quoted.first(), quoted.get(1)) else { return Vec::new() };
    let StatementKind::Assign { target, value, .. } = &statement.kind else { return Vec::new() };
    let Some(brackets) = &target.brackets else { return Vec::new() };
    let text = brackets.span.text(source);
    let Some(end) = text.find(']') else { return Vec::new() };
    let items = array.split_once('[').and_then(|(_, items)| items.split_once(']')).map_or("", |(items, _)| items);
    let item = items
        .split(", ")
        .find(|item| item.strip_prefix(dim).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')));
    let item = item.unwrap_or(dim);
    // An axis shards one dim of the result.
    let is_spent = item.split_once('_').is_some_and(|(_, axes)| text.contains(&format!("_{axes}")));
    let item = if is_spent { dim } else { item };
    let comma = if text[1..end].trim().is_empty() { "" } else { ", " };
    let kept = format!("{}{comma}{item}{}", &text[..end], &text[end..]);
    let summed = format!("sum_{dim}({})", value.span.text(source));
    [(brackets.span, kept), (value.span, summed)]
        .map(|(span, text)| rewritten(source, statement.span, span, text))
        .to_vec()
}

/// A change within a statement, worded as the new statement.
fn rewritten(source: &str, statement: Span, at: Span, text: String) -> Fix {
    let fix = Fix::new(Edit::Replace(at), text);
    let before = source.get(statement.range().start..at.range().start).unwrap_or_default();
    let behind = source.get(at.range().end..statement.range().end).unwrap_or_default();
    Fix { said: Some(format!("`{before}{}{behind}`", fix.text)), ..fix }
}

/// Dims that are written as results, `B = 16`, are one mistake: the first error gets the declaration, the others go.
pub(super) fn declare_sizes(source: &str, ast: &Ast, diagnostics: &mut Diagnostics) {
    let sizes = ast.statements.iter().map(|statement| size(statement).map(|(name, size)| (statement.span, name, size)));
    let sizes: Vec<_> = sizes.collect();
    let Some(first) = sizes.iter().position(Option::is_some) else { return };
    let run: Vec<_> = sizes[first..].iter().map_while(Option::as_ref).collect();
    let names: Vec<&str> = run.iter().map(|(_, name, _)| *name).collect();
    let span = run.iter().map(|(span, ..)| *span).reduce(Span::join).unwrap_or_default();
    let items: Vec<String> = run.iter().map(|(_, name, size)| format!("{name}: {size}")).collect();
    let line = format!("dims {{{}}}", items.join(", "));
    let index = LineIndex::new(source);
    let [from, to] = [span.start, span.end].map(|at| index.line_column(source, at).0);
    let place = if from == to { format!("line {from}") } else { format!("lines {from} to {to}") };
    let said = format!("`{line}` for {place}");
    let is_about = |found: &Diagnostic| {
        let dim = found.message.split('`').nth(1).unwrap_or_default();
        found.code == "unknown-dim" && names.contains(&dim)
    };
    let mut reported = false;
    diagnostics.retain(|found| !is_about(found) || !std::mem::replace(&mut reported, true));
    for found in diagnostics.iter_mut().filter(|found| is_about(found)) {
        found.fixes = vec![Fix { said: Some(said.clone()), ..Fix::new(Edit::Replace(span), line.clone()) }];
    }
}

/// `B = 16`.
fn size(statement: &Statement) -> Option<(&str, f64)> {
    let StatementKind::Assign { target, value, .. } = &statement.kind else { return None };
    let (name, None, ExprKind::Number(number)) = (target.name.as_ref()?, &target.brackets, &value.kind) else {
        return None;
    };
    (number.0 >= 1.0 && number.0.fract() == 0.0).then_some((&name.node, number.0))
}
