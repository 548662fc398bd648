//! Builds expressions and arrays from the grammar's matches.

use super::build::{Builder, Result, find, number_too_large, only};
use super::error::SyntaxError;
use super::grammar::Rule;
use super::{
    ArrayRef, BinaryOp, Brackets, CollectiveName, Contraction, DimName, DimRef, Expr, ExprKind, Name, OpenRef,
    Subscript,
};
use crate::diag::did_you_mean;
use crate::dtype::DType;
use crate::function::{Relation, Scalar};
use crate::operator::Operator;
use crate::span::{Span, Spanned};
use pest::iterators::Pair;

/// Limit on expression height: brackets, and left-nested chains such as `A + B + C`.
///
/// Later stages recurse over expressions; the limit bounds their stack.
pub(super) const TALLEST: usize = 256;

/// An expression and its height.
struct Tall {
    expr: Expr,
    height: usize,
}

impl Tall {
    fn leaf(kind: ExprKind, span: Span) -> Tall {
        Tall { expr: Expr { kind, span }, height: 1 }
    }

    /// A node above parts of this height.
    fn above(height: usize, kind: ExprKind, span: Span) -> Result<Tall> {
        if height >= TALLEST {
            return Err(SyntaxError::TooDeep { most: TALLEST, at: span.into() });
        }
        Ok(Tall { expr: Expr { kind, span }, height: height + 1 })
    }
}

/// Operators between two factors.
enum Sign {
    /// `.*` or `/`.
    Elementwise(BinaryOp),
    /// `*`, `*_J`.
    Product(Contraction),
}

impl Builder {
    /// Builds a whole expression.
    pub(super) fn expr(&self, pair: Pair<'_, Rule>) -> Result<Expr> {
        self.relation(pair).map(|tall| tall.expr)
    }

    fn relation(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let mut parts = pair.into_inner();
        let left = self.sum(parts.next().expect("an expression begins with a sum"))?;
        let (Some(sign), Some(right)) = (parts.next(), parts.next()) else { return Ok(left) };
        let relation = Relation::from_sign(sign.as_str()).expect("the grammar knows these signs");
        binary(BinaryOp::Is(relation), left, self.sum(right)?)
    }

    fn sum(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let mut parts = pair.into_inner();
        let mut left = self.term(parts.next().expect("a sum has a term"))?;
        while let (Some(sign), Some(right)) = (parts.next(), parts.next()) {
            let op = if sign.as_str() == "+" { BinaryOp::Add } else { BinaryOp::Sub };
            left = binary(op, left, self.term(right)?)?;
        }
        Ok(left)
    }

    fn term(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let mut parts = pair.into_inner();
        let mut left = self.factor(parts.next().expect("a product has a factor"))?;
        // Whether `left` is a chain that the next plain sign continues; a chain in parentheses is not.
        let mut chain = false;
        while let (Some(sign), Some(right)) = (parts.next(), parts.next()) {
            let right = self.factor(right)?;
            let span = left.expr.span.join(right.expr.span);
            let height = left.height.max(right.height);
            let contraction = match self.sign(sign) {
                Sign::Elementwise(op) => {
                    chain = false;
                    left = binary(op, left, right)?;
                    continue;
                }
                Sign::Product(contraction) => contraction,
            };
            let implied = contraction == Contraction::Implied;
            if let (true, true, ExprKind::Product { factors, .. }) = (chain, implied, &mut left.expr.kind) {
                factors.push(right.expr);
                left.expr.span = span;
                left.height = left.height.max(right.height + 1);
                if left.height > TALLEST {
                    return Err(SyntaxError::TooDeep { most: TALLEST, at: span.into() });
                }
                continue;
            }
            let factors = vec![left.expr, right.expr];
            left = Tall::above(height, ExprKind::Product { factors, contraction }, span)?;
            chain = implied;
        }
        Ok(left)
    }

    fn sign(&self, sign: Pair<'_, Rule>) -> Sign {
        let whole = self.span(&sign);
        let mut parts = sign.into_inner();
        match parts.next().map(|part| part.as_rule()) {
            Some(Rule::slash) => return Sign::Elementwise(BinaryOp::Div),
            Some(Rule::dot_star) => return Sign::Elementwise(BinaryOp::Mul),
            _ => {}
        }
        let names = parts.next().map(|subscript| self.items(subscript)).unwrap_or_default();
        Sign::Product(match names.as_slice() {
            [] => Contraction::Implied,
            [only] if only.node == "LOCAL" => Contraction::Local(whole),
            _ => Contraction::Named(names),
        })
    }

    fn factor(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let mut signs = Vec::new();
        let (mut value, mut exponent) = (None, None);
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::minus => signs.push(self.span(&part)),
                Rule::power => {}
                Rule::exponent => exponent = Some(self.factor(part)?),
                _ => value = Some(self.atom(part)?),
            }
        }
        let mut value = value.expect("a sign is followed by a value");
        if let Some(exponent) = exponent {
            value = binary(BinaryOp::Power, value, exponent)?;
        }
        signs.into_iter().rev().try_fold(value, |value, sign| {
            let span = sign.join(value.expr.span);
            Tall::above(value.height, ExprKind::Neg(Box::new(value.expr)), span)
        })
    }

    fn atom(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let span = self.span(&pair);
        match pair.as_rule() {
            Rule::number => match pair.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Tall::leaf(ExprKind::Number(Scalar(number)), span)),
                _ => Err(number_too_large(pair.as_str(), span)),
            },
            Rule::group => self.group(pair),
            Rule::collective => self.collective(pair, span),
            Rule::named => self.named(pair, span),
            Rule::lost_collective => self.lost_collective(pair, span),
            _ => {
                let brackets = self.brackets(pair)?;
                Ok(Tall::leaf(ExprKind::Array(self.array(None, Some(brackets), span)?), span))
            }
        }
    }

    /// An expression in parentheses; its span includes them.
    fn group(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let span = self.span(&pair);
        let inner = find(pair, Rule::expr).expect("parentheses hold an expression");
        let mut inner = self.relation(inner)?;
        inner.expr.span = span;
        Ok(inner)
    }

    fn collective(&self, pair: Pair<'_, Rule>, span: Span) -> Result<Tall> {
        let mut parts = pair.into_inner().filter(|part| part.as_rule() != Rule::colon);
        let head = parts.next().expect("a collective has its word");
        let at = self.span(&head);
        let mut head = head.into_inner();
        let word = head.next().expect("the head begins with the word");
        let node = match word.as_str() {
            "AllGather" => CollectiveName::AllGather,
            "ReduceScatter" => CollectiveName::ReduceScatter,
            "AllReduce" => CollectiveName::AllReduce,
            "Broadcast" => CollectiveName::Broadcast,
            _ => CollectiveName::AllToAll,
        };
        let kind = Spanned { node, span: at };
        let items = head.next();
        if let Some(lost) = items.as_ref().filter(|items| items.as_rule() == Rule::lost_items && !self.is_lenient()) {
            return Err(SyntaxError::UnexpectedText {
                found: lost.as_str().to_owned(),
                expected: "several items in braces".to_owned(),
                at: at.into(),
                help: Some(did_you_mean(&format!("{node}_{{{}}}", lost.as_str()))),
            });
        }
        let subscript = items.map(|items| self.items(items)).unwrap_or_default();
        let operand = parts.next().expect("a collective has an operand");
        let argument = if operand.as_rule() == Rule::group { self.group(operand)? } else { self.operand(operand)? };
        let height = argument.height;
        let argument = Box::new(argument.expr);
        Tall::above(height, ExprKind::Collective { kind, subscript, argument }, span)
    }

    /// `AllGatherX A[I_X]`: in lenient mode, a call of an unknown function.
    fn lost_collective(&self, pair: Pair<'_, Rule>, span: Span) -> Result<Tall> {
        let head = find(pair.clone(), Rule::lost_head).expect("the head comes first");
        let name = find(pair.clone(), Rule::array_name).expect("an operand has a name");
        if !self.is_lenient() {
            let strict = CollectiveName::begins(head.as_str());
            return Err(SyntaxError::UnexpectedText {
                found: name.as_str().to_owned(),
                expected: "an operator, `->`, `=` or the end of the statement".to_owned(),
                at: self.span(&name).into(),
                help: strict.map(|(kind, axes)| did_you_mean(&format!("{kind}_{axes}"))),
            });
        }
        let brackets = find(pair, Rule::brackets).map(|pair| self.brackets(pair)).transpose()?;
        let operand = self.span(&name).join(brackets.as_ref().map_or(self.span(&name), |brackets| brackets.span));
        let array = ExprKind::Array(self.array(Some(self.name(&name)), brackets, operand)?);
        let arguments = vec![Expr { kind: array, span: operand }];
        let call = ExprKind::Call { function: self.name(&head), subscript: Vec::new(), arguments };
        Ok(Tall::leaf(call, span))
    }

    /// An array where nothing else is possible.
    fn operand(&self, pair: Pair<'_, Rule>) -> Result<Tall> {
        let span = self.span(&pair);
        let name = find(pair.clone(), Rule::array_name).map(|name| self.name(&name));
        let brackets = find(pair, Rule::brackets).map(|pair| self.brackets(pair)).transpose()?;
        Ok(Tall::leaf(ExprKind::Array(self.array(name, brackets, span)?), span))
    }

    /// An array or a call.
    fn named(&self, pair: Pair<'_, Rule>, span: Span) -> Result<Tall> {
        let mut parts = pair.clone().into_inner();
        let head = parts.next().expect("it begins with a name");
        let Some(group) = parts.next().filter(|part| part.as_rule() == Rule::arguments) else {
            return self.operand(pair);
        };
        let (function, subscript) = if head.as_rule() == Rule::function {
            let mut head = head.into_inner();
            let name = self.name(&head.next().expect("a function has its name"));
            (name, head.next().map(|items| self.items(items)).unwrap_or_default())
        } else {
            cut_subscript(self.name(&head))
        };
        let (mut arguments, mut height) = (Vec::new(), 0);
        for part in group.into_inner().filter(|part| part.as_rule() == Rule::expr) {
            let argument = self.relation(part)?;
            height = height.max(argument.height);
            arguments.push(argument.expr);
        }
        Tall::above(height, ExprKind::Call { function, subscript, arguments }, span)
    }

    /// The words after `_`, in braces or alone.
    pub(super) fn items(&self, pair: Pair<'_, Rule>) -> Vec<Name> {
        match pair.as_rule() {
            Rule::items | Rule::lost_items | Rule::axes => {
                let words = pair.into_inner().filter(|part| matches!(part.as_rule(), Rule::item | Rule::axis_word));
                words.map(|part| self.name(&part)).collect()
            }
            _ => vec![self.name(&pair)],
        }
    }

    /// An array by name and brackets; a dtype in place of the name is allowed.
    pub(super) fn array(&self, name: Option<Name>, brackets: Option<Brackets>, span: Span) -> Result<ArrayRef> {
        let dtype = name.as_ref().and_then(|name| {
            let node = name.node.parse::<DType>().ok()?;
            Some(Spanned { node, span: name.span })
        });
        match (name, dtype) {
            (Some(name), Some(_)) if brackets.is_none() => {
                Err(SyntaxError::DTypeWithoutBrackets { word: name.node, at: name.span.into() })
            }
            (_, Some(dtype)) => Ok(ArrayRef { name: None, dtype: Some(dtype), brackets, span }),
            (name, None) => Ok(ArrayRef { name, dtype: None, brackets, span }),
        }
    }

    pub(super) fn brackets(&self, pair: Pair<'_, Rule>) -> Result<Brackets> {
        let span = self.span(&pair);
        let (mut dims, mut rest, mut free, mut open) = (Vec::new(), None, None, None);
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::dim => dims.push(self.dim(part)?),
                Rule::ellipsis => rest = Some(self.span(&part)),
                Rule::free => free = Some(self.span(&part)),
                Rule::open_sum => open = Some(self.open_sum(part)?),
                _ => {}
            }
        }
        Ok(Brackets { dims, rest, free, open, span })
    }

    fn dim(&self, pair: Pair<'_, Rule>) -> Result<DimRef> {
        let span = self.span(&pair);
        let mut parts = pair.into_inner();
        let word = parts.next().expect("a dim has its name or size");
        let dim = match word.as_rule() {
            Rule::literal => DimName::Literal(self.size(word)?),
            _ => DimName::Named(self.name(&word).node),
        };
        let subscript = parts.next().map(|part| match part.as_rule() {
            Rule::hole => Subscript::Hole(self.span(&part)),
            _ => Subscript::Axes(self.items(part)),
        });
        Ok(DimRef { dim, subscript, span })
    }

    fn open_sum(&self, pair: Pair<'_, Rule>) -> Result<OpenRef> {
        let span = self.span(&pair);
        if let Some(lost) = find(pair.clone(), Rule::lost_word) {
            let word = self.name(&lost);
            let strict = cut_operator(&word.node);
            return match strict {
                Some(_) if self.is_lenient() => Ok(OpenRef { operator: word, axes: Vec::new(), root: None, span }),
                Some(_) | None => Err(SyntaxError::UnexpectedText {
                    found: word.node.clone(),
                    expected: "an operator and its axes, as in `{U_X}`".to_owned(),
                    at: word.span.into(),
                    help: strict.map(|(operator, axes)| did_you_mean(&format!("{{{operator}_{axes}}}"))),
                }),
            };
        }
        let root = find(pair.clone(), Rule::integer).map(|root| self.integer(&root)).transpose()?;
        let word = find(pair, Rule::open_word).expect("an open sum has its word");
        let operator = self.name(&only(word.clone()));
        let axes = word.into_inner().nth(1).map(|axes| self.items(axes)).unwrap_or_default();
        Ok(OpenRef { operator, axes, root, span })
    }
}

fn binary(op: BinaryOp, left: Tall, right: Tall) -> Result<Tall> {
    let span = left.expr.span.join(right.expr.span);
    let height = left.height.max(right.height);
    let (left, right) = (Box::new(left.expr), Box::new(right.expr));
    Tall::above(height, ExprKind::Binary { op, left, right }, span)
}

/// `UX` is `U` over `X`, `MAXXY` is `MAX` over `XY`.
pub(super) fn cut_operator(word: &str) -> Option<(&'static str, &str)> {
    let words = Operator::ALL.into_iter().map(Operator::word);
    words.filter_map(|operator| Some((operator, word.strip_prefix(operator)?))).find(|(_, axes)| !axes.is_empty())
}

/// `softmax_T` is the function `softmax` over `T`: the first `_` begins the subscript.
fn cut_subscript(name: Name) -> (Name, Vec<Name>) {
    let Some((function, item)) = name.node.split_once('_') else { return (name, Vec::new()) };
    let end = name.span.start as usize + function.len();
    let item = Spanned { node: item.to_owned(), span: Span::new(end + 1, name.span.end as usize) };
    (Spanned { node: function.to_owned(), span: Span::new(name.span.start as usize, end) }, vec![item])
}
