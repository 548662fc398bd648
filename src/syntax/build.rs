//! Builds the AST from the grammar's matches: absolute spans, parsed numbers, distinguished forms.

use super::error::SyntaxError;
use super::grammar::Rule;
use super::{
    AxisDecl, CollectiveName, DimDecl, DimSize, Expr, ExprKind, KernelDecl, LinkDecl, Name, PartDecl, PinRef, SizeExpr,
    SizeKind, SizeSign, UsingRef,
};
use super::{Statement, StatementKind, Target};
use crate::dtype::DType;
use crate::link::LinkState;
use crate::mesh::Wiring;
use crate::span::{Span, Spanned};
use pest::iterators::Pair;

pub(super) type Result<T> = std::result::Result<T, SyntaxError>;

/// Builds the AST of one statement.
pub(super) struct Builder {
    /// Offset of the statement in the source.
    start: usize,
    /// Whether a missing `_` is accepted.
    lenient: bool,
}

impl Builder {
    pub(super) fn new(start: usize, lenient: bool) -> Builder {
        Builder { start, lenient }
    }

    /// Whether lenient parsing is on.
    pub(super) fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Builds the statement of one of the `.._statement` rules.
    pub(super) fn statement(&self, pair: Pair<'_, Rule>, span: Span) -> Result<Statement> {
        let kind = match pair.as_rule() {
            Rule::mesh_statement => self.mesh(pair)?,
            Rule::axis_statement => self.view(pair)?,
            Rule::dims_statement => {
                let block = pair.into_inner().find(|pair| pair.as_rule() == Rule::dim_block);
                let sizes = block.into_iter().flat_map(Pair::into_inner);
                let sizes = sizes.filter(|pair| pair.as_rule() == Rule::dim_size);
                StatementKind::Dims(sizes.map(|pair| self.dim_size(pair)).collect::<Result<_>>()?)
            }
            Rule::output_statement => {
                let names = pair.into_inner().filter(|pair| pair.as_rule() == Rule::array_name);
                StatementKind::Output(names.map(|pair| self.name(&pair)).collect())
            }
            Rule::repeat_statement => {
                let count = find(pair, Rule::size_sum).expect("a block says how often");
                StatementKind::Repeat { count: self.size(count)?, body: Vec::new() }
            }
            Rule::def_statement => {
                let name = find(pair.clone(), Rule::array_name).expect("a function has a name");
                let parameters = pair.into_inner().filter(|part| part.as_rule() == Rule::parameter);
                let parameters = parameters.map(|part| self.target(part)).collect::<Result<_>>()?;
                StatementKind::Def { name: self.name(&name), parameters, body: Vec::new() }
            }
            Rule::kernel_statement => StatementKind::Kernel(self.kernel(pair)?),
            Rule::return_statement => {
                let value = find(pair, Rule::expr).expect("a value is returned");
                StatementKind::Return(self.expr(value)?)
            }
            Rule::link_statement => StatementKind::Link(self.link(pair)?),
            Rule::expect_statement => StatementKind::Expect(self.expectation(pair)?),
            Rule::limit_statement => {
                let (measure, amount) = self.bound(pair)?;
                StatementKind::Limit { measure, amount }
            }
            _ => self.array_statement(pair)?,
        };
        Ok(Statement { kind, span })
    }

    fn mesh(&self, pair: Pair<'_, Rule>) -> Result<StatementKind> {
        let mut axes = Vec::new();
        let mut hardware = None;
        for part in pair.into_inner() {
            if part.as_rule() == Rule::axis_block {
                let declared = part.into_inner().filter(|pair| pair.as_rule() == Rule::axis);
                axes = declared.map(|pair| self.axis(pair)).collect::<Result<_>>()?;
            } else if part.as_rule() == Rule::mesh_call {
                axes = self.mesh_call(part)?;
            } else if part.as_rule() == Rule::on {
                hardware = find(part, Rule::hardware).map(|pair| self.name(&pair));
            }
        }
        Ok(StatementKind::Mesh { axes, hardware })
    }

    fn axis(&self, pair: Pair<'_, Rule>) -> Result<AxisDecl> {
        let wiring = find(pair.clone(), Rule::wiring).map(|pair| {
            let all = Wiring::ALL;
            let span = self.span(&pair);
            let known = all.into_iter().find(|wiring| wiring.to_string() == pair.as_str());
            let unknown = || SyntaxError::UnknownWiring { word: pair.as_str().to_owned(), at: span.into() };
            known.map(|node| Spanned { node, span }).ok_or_else(unknown)
        });
        let over = find(pair.clone(), Rule::over).and_then(|over| find(over, Rule::network));
        let over = over.map(|network| self.name(&network));
        let mut parts = pair.into_inner();
        let name = self.declared(parts.next())?;
        let mut sizes = parts.filter(|part| part.as_rule() == Rule::size_sum).map(|part| self.size(part));
        let size = sizes.next().expect("an axis has its size")?;
        Ok(AxisDecl { name, size, more: sizes.collect::<Result<_>>()?, wiring: wiring.transpose()?, over })
    }

    /// A declared kernel. Each fact is stated once.
    fn kernel(&self, pair: Pair<'_, Rule>) -> Result<KernelDecl> {
        let name = self.name(&find(pair.clone(), Rule::array_name).expect("a kernel has a name"));
        let (mut parameters, mut result) = (Vec::new(), None);
        let (mut sharded, mut flops, mut bytes, mut reference) = (None, None, None, None);
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::parameter => parameters.push(self.target(part)?),
                Rule::target => result = Some(self.target(part)?),
                Rule::kernel_fact => {
                    let word = part.clone().into_inner().next().expect("a fact begins with its word");
                    let dims = part.clone().into_inner().filter(|part| part.as_rule() == Rule::fact_dim);
                    let again = match (word.as_str(), find(part.clone(), Rule::size_sum)) {
                        ("flops", Some(size)) => flops.replace(self.size(size)?).is_some(),
                        ("bytes", Some(size)) => bytes.replace(self.size(size)?).is_some(),
                        ("reference", _) => {
                            let formula = find(part.clone(), Rule::expr).expect("a reference has its formula");
                            reference.replace(self.expr(formula)?).is_some()
                        }
                        _ => {
                            let dims = dims.map(|dim| self.declared(Some(only(dim)))).collect::<Result<Vec<_>>>()?;
                            sharded.replace(dims).is_some()
                        }
                    };
                    if again {
                        return Err(SyntaxError::UnexpectedText {
                            found: word.as_str().to_owned(),
                            expected: "the end of the statement".to_owned(),
                            at: self.span(&word).into(),
                            help: Some(format!("`{}` is stated twice; keep one", word.as_str())),
                        });
                    }
                }
                _ => {}
            }
        }
        let (result, sharded) = (result.expect("a kernel has a result"), sharded.unwrap_or_default());
        Ok(KernelDecl { name, parameters, result, sharded, flops, bytes, reference })
    }

    /// A link and its state.
    fn link(&self, pair: Pair<'_, Rule>) -> Result<LinkDecl> {
        let ends = find(pair.clone(), Rule::ends).expect("a link has two ends");
        let state = match find(pair, Rule::share).and_then(|share| find(share, Rule::percent)) {
            None => LinkState::Down,
            Some(percent) => {
                let number = percent.as_str().parse().ok().filter(|number| (1..=100).contains(number));
                let at = self.span(&percent).into();
                LinkState::Percent(
                    number.ok_or_else(|| SyntaxError::BadPercent { number: percent.as_str().to_owned(), at })?,
                )
            }
        };
        let both_ways = find(ends.clone(), Rule::both_ways).is_some();
        let mut places = ends.into_inner().filter(|part| part.as_rule() == Rule::place).map(|part| self.place(part));
        let mut place = || places.next().expect("a link leads from one place to another");
        Ok(LinkDecl { from: place()?, to: place()?, both_ways, state })
    }

    /// Coordinates, `(0,1)`.
    fn place(&self, pair: Pair<'_, Rule>) -> Result<Spanned<Vec<u64>>> {
        let span = self.span(&pair);
        let numbers = pair.into_inner().filter(|part| part.as_rule() == Rule::integer);
        let node = numbers.map(|number| Ok(self.integer(&number)?.node)).collect::<Result<_>>()?;
        Ok(Spanned { node, span })
    }

    /// An axis and its parts.
    fn view(&self, pair: Pair<'_, Rule>) -> Result<StatementKind> {
        let axis = self.declared(find(pair.clone(), Rule::declared))?;
        let block = find(pair, Rule::part_block).expect("a view has its parts");
        let parts = block.into_inner().filter(|part| part.as_rule() == Rule::part).map(|part| {
            let mut parts = part.into_inner();
            let name = self.declared(parts.next())?;
            let size = self.size(parts.next_back().expect("a part has its size"))?;
            Ok(PartDecl { name, size })
        });
        Ok(StatementKind::View { axis, parts: parts.collect::<Result<_>>()? })
    }

    /// A dim and its size.
    fn dim_size(&self, pair: Pair<'_, Rule>) -> Result<DimDecl> {
        let mut parts = pair.into_inner();
        let name = self.declared(parts.next())?;
        let size = parts.next_back().expect("a declaration has its size");
        let size = match size.as_rule() {
            Rule::parts => {
                let names = size.into_inner().filter(|part| part.as_rule() == Rule::declared);
                DimSize::Parts(names.map(|part| self.declared(Some(part))).collect::<Result<_>>()?)
            }
            _ => DimSize::Is(self.size(size)?),
        };
        Ok(DimDecl { name, size })
    }

    /// The declared name.
    pub(super) fn declared(&self, pair: Option<Pair<'_, Rule>>) -> Result<Name> {
        let named = pair.expect("a declaration begins with its name");
        let named = if named.as_rule() == Rule::quoted { only(named) } else { named };
        Ok(self.name(&named))
    }

    /// A size: numbers, names, operators and parentheses.
    pub(super) fn size(&self, pair: Pair<'_, Rule>) -> Result<SizeExpr> {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::count | Rule::size => SizeKind::Number(self.count(&pair)?),
            Rule::declared => SizeKind::Name(self.declared(Some(pair))?.node),
            Rule::size_atom | Rule::literal_atom => {
                let mut parts = pair.into_inner();
                let first = parts.next().expect("a size has a part");
                match parts.next().filter(|_| first.as_rule() == Rule::open_paren) {
                    Some(inner) => SizeKind::Group(Box::new(self.size(inner)?)),
                    None => return self.size(first),
                }
            }
            // A sum, a product or a literal: a chain of parts.
            _ => {
                let mut parts = pair.into_inner();
                let first = self.size(parts.next().expect("a chain begins with a size"))?;
                let mut rest = Vec::new();
                while let (Some(sign), Some(operand)) = (parts.next(), parts.next()) {
                    rest.push((size_sign(sign.as_str()), self.size(operand)?));
                }
                if rest.is_empty() {
                    return Ok(first);
                }
                SizeKind::Chain { first: Box::new(first), rest }
            }
        };
        Ok(SizeExpr { kind, span })
    }

    /// An input, a result or an arrow.
    fn array_statement(&self, pair: Pair<'_, Rule>) -> Result<StatementKind> {
        let (mut typing, mut value, mut result) = (None, None, None);
        let (mut by, mut using, mut donated) = (None, None, None);
        let mut parts = pair.into_inner();
        let first = parts.next().expect("the statement begins with an expression");
        let sign =
            find(first.clone(), Rule::relation).filter(|sign| sign.as_str() == "==").map(|sign| self.span(&sign));
        let left = self.expr(first)?;
        for part in parts {
            match part.as_rule() {
                Rule::typing => typing = Some(part),
                Rule::donated => donated = Some(self.span(&part)),
                Rule::value => value = find(part, Rule::expr),
                Rule::by => by = Some(self.pin(part)),
                Rule::using => using = Some(self.using(part)?),
                Rule::result => {
                    let mut parts = part.into_inner();
                    let arrow = parts.next().map(|arrow| self.span(&arrow)).unwrap_or_default();
                    result = parts.next().map(|target| (arrow, target));
                }
                _ => {}
            }
        }
        if let Some(at) = donated.filter(|_| value.is_some() || result.is_some()) {
            return Err(SyntaxError::UnexpectedText {
                found: "donated".to_owned(),
                expected: "the value".to_owned(),
                at: at.into(),
                help: Some(super::expected::ONLY_INPUTS_ARE_DONATED.to_owned()),
            });
        }
        match (value, result) {
            (Some(_), Some((_, second))) => {
                Err(SyntaxError::TwoResults { first: left.span.into(), second: self.span(&second).into() })
            }
            (Some(value), None) => {
                let target = self.left_target(left, typing)?;
                Ok(StatementKind::Assign { target, value: self.expr(value)?, by, using })
            }
            (None, second) if typing.is_some() => match second {
                Some((arrow, _)) => Err(SyntaxError::UnexpectedText {
                    found: "->".to_owned(),
                    expected: "the end of the statement".to_owned(),
                    at: arrow.into(),
                    help: Some("declare an input on its own line: `A: bf16[I, J]`".to_owned()),
                }),
                None => match (by.map(|pin| ("by", pin.strategy.span)), using.map(|using| ("using", using.span()))) {
                    (Some((word, span)), _) | (None, Some((word, span))) => Err(SyntaxError::UnexpectedText {
                        found: word.to_owned(),
                        expected: "the end of the statement".to_owned(),
                        at: span.into(),
                        help: Some("an input has no collectives; write this where the array is used".to_owned()),
                    }),
                    (None, None) => self.input(left, typing, donated.is_some()),
                },
            },
            (None, Some((_, target))) => {
                Ok(StatementKind::Assign { target: self.target(target)?, value: left, by, using })
            }
            (None, None) => match (sign, &left.kind) {
                (Some(at), ExprKind::Binary { left, right, .. }) => Err(SyntaxError::UnexpectedText {
                    found: "==".to_owned(),
                    expected: "`=`".to_owned(),
                    at: at.into(),
                    help: Some(format!("write a result with a single `=`: `{left} = {right}`")),
                }),
                _ => self.value_alone(left, by, using),
            },
        }
    }

    /// The clause `by gather(A)`.
    fn pin(&self, pair: Pair<'_, Rule>) -> PinRef {
        let strategy = find(pair.clone(), Rule::strategy).expect("`by` is followed by a word");
        let operands = find(pair, Rule::pinned).into_iter().flat_map(Pair::into_inner);
        let operands = operands.filter(|part| part.as_rule() == Rule::array_name).map(|part| self.name(&part));
        PinRef { strategy: self.name(&strategy), operands: operands.collect() }
    }

    /// An input: `A: bf16[I_X, J]`, `A: bf16[I_X, J] donated`.
    fn input(&self, left: Expr, typing: Option<Pair<'_, Rule>>, donated: bool) -> Result<StatementKind> {
        let is_output = matches!(&left.kind, ExprKind::Array(array) if array.brackets.is_none()
            && array.name.as_ref().is_some_and(|name| matches!(name.node.as_str(), "output" | "outputs")));
        let target = self.left_target(left, typing).map_err(|error| match error {
            SyntaxError::UnknownDType { word, at } if is_output => SyntaxError::Slip {
                title: "`output` is not followed by a colon".to_owned(),
                label: "expected a dtype or no colon".to_owned(),
                help: format!("write `output {word}`"),
                at,
            },
            error => error,
        })?;
        let (Some(name), Some(dtype)) = (target.name, target.dtype) else {
            return Err(not_a_result(':', None, target.span));
        };
        match target.brackets {
            Some(brackets) => Ok(StatementKind::Input { name, dtype, brackets, donated }),
            None => Err(SyntaxError::DTypeWithoutBrackets { word: dtype.node.to_string(), at: dtype.span.into() }),
        }
    }

    /// The clause `using meet_in_middle_ring, pipeline(8)`.
    fn using(&self, pair: Pair<'_, Rule>) -> Result<UsingRef> {
        let method = find(pair.clone(), Rule::method).map(|method| self.name(&method));
        let pieces = find(pair, Rule::pipeline).and_then(|pipeline| find(pipeline, Rule::integer));
        let pieces = pieces.map(|pieces| self.integer(&pieces)).transpose()?;
        Ok(UsingRef { method, pieces })
    }

    /// Checks that a bare value is an unnamed output: a collective or an array with brackets states its layout; any other
    /// value needs a name.
    fn value_alone(&self, value: Expr, by: Option<PinRef>, using: Option<UsingRef>) -> Result<StatementKind> {
        match &value.kind {
            ExprKind::Collective { .. } => {}
            ExprKind::Array(array) if array.brackets.is_some() => {}
            ExprKind::Call { function, .. } if self.lenient && CollectiveName::begins(&function.node).is_some() => {}
            ExprKind::Array(_)
            | ExprKind::Number(_)
            | ExprKind::Product { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Neg(_)
            | ExprKind::Call { .. } => {
                return Err(SyntaxError::NoResult { at: value.span.into(), help: unassigned(&value) });
            }
        }
        let target = Target { name: None, dtype: None, brackets: None, span: value.span };
        Ok(StatementKind::Assign { target, value, by, using })
    }

    /// The left side of `=` or `:`, as a result.
    fn left_target(&self, left: Expr, typing: Option<Pair<'_, Rule>>) -> Result<Target> {
        let sign = if typing.is_some() { ':' } else { '=' };
        let ExprKind::Array(array) = left.kind else {
            return Err(not_a_result(sign, None, left.span));
        };
        let Some(typing) = typing else {
            return Ok(Target { name: array.name, dtype: array.dtype, brackets: array.brackets, span: array.span });
        };
        if array.brackets.is_some() || array.dtype.is_some() {
            // `A[I_X, J]: bf16`.
            let typed = self.typing(typing).ok().filter(|(_, brackets)| brackets.is_none() && array.dtype.is_none());
            let declared = typed.and_then(|(dtype, _)| {
                let brackets = array.brackets.as_ref()?;
                Some(format!("{}: {}{brackets}", array.name.as_ref()?.node, dtype.node))
            });
            return Err(not_a_result(sign, declared, left.span));
        }
        let span = array.span.join(self.span(&typing));
        let (dtype, brackets) = self.typing(typing)?;
        Ok(Target { name: array.name, dtype: Some(dtype), brackets, span })
    }

    /// The right side of an arrow.
    fn target(&self, pair: Pair<'_, Rule>) -> Result<Target> {
        let span = self.span(&pair);
        let (mut name, mut dtype, mut brackets) = (None, None, None);
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::array_name => name = Some(self.name(&part)),
                Rule::typing => {
                    let (typed, bracketed) = self.typing(part)?;
                    (dtype, brackets) = (Some(typed), bracketed);
                }
                _ => brackets = Some(self.brackets(part)?),
            }
        }
        let array = self.array(name, brackets, span)?;
        Ok(Target { name: array.name, dtype: dtype.or(array.dtype), brackets: array.brackets, span })
    }

    fn typing(&self, pair: Pair<'_, Rule>) -> Result<(Spanned<DType>, Option<super::Brackets>)> {
        let brackets = find(pair.clone(), Rule::brackets).map(|pair| self.brackets(pair)).transpose()?;
        let word = find(pair, Rule::dtype).expect("`:` is followed by a dtype");
        let span = self.span(&word);
        match word.as_str().parse() {
            Ok(node) => Ok((Spanned { node, span }, brackets)),
            Err(_) => Err(SyntaxError::UnknownDType { word: word.as_str().to_owned(), at: span.into() }),
        }
    }

    /// The span of a pair, without trailing blanks.
    pub(super) fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        // A rule that ends with something optional takes the blanks in front of it; its last word does not.
        let mut last = pair.clone();
        while let Some(inner) = last.clone().into_inner().next_back() {
            last = inner;
        }
        Span::new(self.start + pair.as_span().start(), self.start + last.as_span().end())
    }

    /// A name; every prime becomes `'`.
    pub(super) fn name(&self, pair: &Pair<'_, Rule>) -> Name {
        Spanned { node: pair.as_str().replace(['’', '′'], "'"), span: self.span(pair) }
    }

    /// A number, `8192` or `8k`.
    fn count(&self, pair: &Pair<'_, Rule>) -> Result<u64> {
        let text = pair.as_str();
        let (digits, times) = match text.as_bytes().last() {
            Some(b'k') => (&text[..text.len() - 1], 1 << 10),
            Some(b'M') => (&text[..text.len() - 1], 1 << 20),
            _ => (text, 1),
        };
        let number = digits.parse().ok().and_then(|number: u64| number.checked_mul(times));
        number.ok_or_else(|| number_too_large(text, self.span(pair)))
    }

    pub(super) fn integer(&self, pair: &Pair<'_, Rule>) -> Result<Spanned<u64>> {
        let span = self.span(pair);
        match pair.as_str().parse() {
            Ok(node) => Ok(Spanned { node, span }),
            Err(_) => Err(number_too_large(pair.as_str(), span)),
        }
    }
}

/// The meaning of an operator between sizes; all product signs are equal.
fn size_sign(sign: &str) -> SizeSign {
    match sign {
        "+" => SizeSign::Plus,
        "-" => SizeSign::Minus,
        "/" => SizeSign::Over,
        "**" => SizeSign::Power,
        _ => SizeSign::Times,
    }
}

pub(super) fn number_too_large(digits: &str, span: Span) -> SyntaxError {
    let number = if digits.len() > 24 { format!("{}..", &digits[..20]) } else { digits.to_owned() };
    SyntaxError::NumberTooLarge { number, at: span.into() }
}

/// The first part that matches a `rule`.
pub(super) fn find(pair: Pair<'_, Rule>, rule: Rule) -> Option<Pair<'_, Rule>> {
    pair.into_inner().find(|part| part.as_rule() == rule)
}

/// The first part.
pub(super) fn only(pair: Pair<'_, Rule>) -> Pair<'_, Rule> {
    pair.into_inner().next().expect("the grammar gives it a part")
}

/// The left side of `=` or `:` is not an array name; `declared` is the declaration that was likely meant.
fn not_a_result(sign: char, declared: Option<String>, at: Span) -> SyntaxError {
    let help = match declared {
        Some(line) => format!("write `{line}`"),
        None => "write the value to the right of `=` or before an arrow: `C = ..`, `.. -> C`".to_owned(),
    };
    SyntaxError::NotAResult { sign, at: at.into(), help }
}

/// Help for a value without a name.
fn unassigned(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Neg(inner) if matches!(inner.kind, ExprKind::Neg(_)) => {
            "comments begin with `#`; assign a value with `C = ..`".to_owned()
        }
        _ => "write `C = ..` or `.. -> C`".to_owned(),
    }
}
