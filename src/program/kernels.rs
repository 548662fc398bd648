//! Declared kernels: `kernel sort(x[B, D]) -> [B, D], shard B, flops 20*B*D`.
//!
//! A kernel is called like a function: its dims stand for those passed in. What it computes is unknown, so its operands
//! are closed, and only the dims that it declares may be sharded.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::layouts::RequestedDim;
use super::{Definition, ValueId, einsum};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::function::Function;
use crate::kernel::{Formula, FormulaStep, Kernel, Local, MOST_OPERANDS};
use crate::layout::{Dim, DimId};
use crate::span::Span;
use crate::syntax::{Brackets, DimName, DimRef, Expr, KernelDecl, SizeExpr, Subscript};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Checker {
    /// Registers a kernel; its sizes are computed at each call.
    pub(super) fn declare_kernel(&mut self, kernel: &KernelDecl) {
        let wrong = |why: &str, at: Span, help: String| CheckError::KernelDeclaration {
            name: kernel.name.node.clone(),
            why: why.to_owned(),
            at,
            help,
        };
        let mut errors = Vec::new();
        if let Some(surplus) = kernel.parameters.get(MOST_OPERANDS) {
            let most = MOST_OPERANDS;
            errors.push(wrong(
                "has too many parameters",
                surplus.span,
                format!("a kernel has at most {most} operands"),
            ));
        }
        let mut own = BTreeSet::new();
        for parameter in &kernel.parameters {
            match &parameter.brackets {
                Some(brackets) => own.extend(names(&self.resolved(brackets))),
                None => {
                    let help = format!("write its dims: `{parameter}[B, D]`");
                    errors.push(wrong("has a parameter without dims", parameter.span, help));
                }
            }
        }
        if kernel.result.brackets.is_none() {
            let help = "write the dims of the result: `-> [B, D]`".to_owned();
            errors.push(wrong("has a result without dims", kernel.result.span, help));
        }
        for target in kernel.parameters.iter().chain([&kernel.result]) {
            let brackets = target.brackets.as_ref().map(|brackets| self.resolved(brackets).into_owned());
            if let Some((at, dim)) = brackets.as_ref().and_then(laid_out) {
                let help = match dim {
                    Some(dim) => format!("remove the axes; `shard {dim}` says that `{dim}` may be sharded"),
                    None => "remove the braces; operands are closed, and sharded dims that the result lacks are summed"
                        .to_owned(),
                };
                errors.push(wrong("declares a layout", at, help));
            }
        }
        for dim in kernel.sharded.iter().filter(|dim| !own.contains(&dim.node)) {
            let help = match own.len() {
                0 => "a kernel shards dims of its parameters".to_owned(),
                _ => format!("the dims of its parameters are {}", quoted_names(&own)),
            };
            errors.push(wrong("shards a dim that no parameter has", dim.span, help));
        }
        for error in &errors {
            self.diagnostics.push(error);
        }
        self.register(Arc::new(kernel.clone()), !errors.is_empty());
    }

    /// The result of a kernel for these operands, whose dims the names in its declaration stand for.
    pub(super) fn opaque(&mut self, declared: &KernelDecl, operands: Vec<ValueId>, span: Span) -> Checked<ValueId> {
        self.check_closed(&operands, &declared.name.node)?;
        let Some(brackets) = &declared.result.brackets else { return Err(Failure::Reported) };
        let requested = self.brackets(brackets, "", false)?.requested;
        let dim = |request: RequestedDim| match request {
            RequestedDim::Dim(dim) => dim,
            RequestedDim::Literal(size) => self.dims.add(None, size),
        };
        let dims: Vec<Dim> = requested.into_iter().map(dim).collect();
        let mut sharded: BTreeSet<DimId> = BTreeSet::new();
        for name in &declared.sharded {
            sharded.extend(self.dims_named(&name.node, name.span)?.iter().map(|dim| dim.id));
        }
        let of = |dims: &[Dim]| -> Vec<DimId> { dims.iter().map(|dim| dim.id).collect() };
        let own: Vec<Vec<DimId>> = operands.iter().map(|id| of(&self.value(*id).dims)).collect();
        let einsum = Einsum::with_new_dims(&own, &of(&dims));
        let mut all: Vec<Dim> = Vec::new();
        for dim in operands.iter().flat_map(|id| &self.value(*id).dims).chain(&dims) {
            if !all.iter().any(|known| known.id == dim.id) {
                all.push(*dim);
            }
        }
        let cost = |size: &SizeExpr| -> Checked<u64> {
            let help = "the sizes of a kernel are those of its dims and of declared dims";
            Ok(size.value(&mut |name| self.size_of(&name.node)).map_err(|flaw| CheckError::size(flaw, help))?)
        };
        let flops = declared.flops.as_ref().map(cost).transpose()?.unwrap_or(0);
        let bytes = declared.bytes.as_ref().map(cost).transpose()?;
        let made = declared.reference.as_ref().map(|formula| self.formula(declared, formula, &operands, &dims));
        let made = made.transpose()?;
        let of_formula = made.as_ref().map(|(_, dtype)| *dtype);
        let kernel = Kernel {
            name: declared.name.node.clone(),
            einsum,
            lengths: all.iter().map(|dim| dim.size).collect(),
            sharded: all.iter().map(|dim| sharded.contains(&dim.id)).collect(),
            flops,
            bytes,
            formula: made.map(|(formula, _)| formula),
        };
        let stated = declared.result.dtype.as_ref().map(|dtype| dtype.node);
        let dtype = stated.or(of_formula).unwrap_or(self.value(operands[0]).dtype);
        self.add(dtype, dims, Definition::Kernel { kernel: Arc::new(kernel), operands }, span)
    }

    /// What a kernel computes on its operands, and the dtype of it. Its values are no values of the program.
    fn formula(
        &mut self,
        declared: &KernelDecl,
        formula: &Expr,
        operands: &[ValueId],
        dims: &[Dim],
    ) -> Checked<(Formula, DType)> {
        let before = self.values.len();
        let requested: Vec<RequestedDim> = dims.iter().map(|dim| RequestedDim::Dim(*dim)).collect();
        let mut id = self.array_expr(formula, Some(&requested))?;
        if let Some(dtype) = declared.result.dtype.as_ref().filter(|dtype| dtype.node != self.value(id).dtype) {
            id = self.cast(id, dtype.node, dtype.span)?;
        }
        let wrong = |why: &str, help: String| CheckError::KernelDeclaration {
            name: declared.name.node.clone(),
            why: why.to_owned(),
            at: formula.span,
            help,
        };
        if self.value(id).dims != dims {
            let help = format!("the formula is `{}`", self.show(id));
            return Err(wrong("declares other dims than its reference has", help).into());
        }
        let dtype = self.value(id).dtype;
        let place = |id: ValueId| match id.index().checked_sub(before) {
            Some(step) => Some(operands.len() + step),
            None => operands.iter().position(|operand| *operand == id),
        };
        let mut steps = Vec::new();
        for index in before..self.values.len() {
            let own = ValueId(u32::try_from(index).expect("fewer values than bytes of source"));
            let value = self.value(own);
            let einsum = || einsum(&self.values, own);
            let op = match &value.definition {
                Definition::Product { local: false, .. } => Some(Local::Product(einsum())),
                Definition::Reduce { operator, .. } => Some(Local::Reduce(*operator, einsum())),
                Definition::Map { function, .. } => Some(Local::Map(*function, einsum())),
                Definition::Rename { .. } => Some(Local::Map(Function::Identity, einsum())),
                Definition::Product { local: true, .. }
                | Definition::Input { .. }
                | Definition::Kernel { .. }
                | Definition::Move { .. }
                | Definition::Collective { .. } => None,
            };
            let of: Option<Vec<usize>> = value.definition.operands().iter().map(|id| place(*id)).collect();
            let (Some(op), Some(of)) = (op, of) else {
                let help = "a reference computes with the operands alone: products, reductions and functions; what is made of \
                            `iota`, such as a mask, is an operand"
                    .to_owned();
                return Err(wrong("has a reference that is not local", help).into());
            };
            steps.push(FormulaStep { op, operands: of, dtype: value.dtype });
        }
        let result = place(id).ok_or(Failure::Reported)?;
        self.values.truncate(before);
        self.sums.truncate(before);
        self.places.truncate(before);
        self.uses.retain(|id, _| id.index() < before);
        Ok((Formula { steps, result }, dtype))
    }

    /// The size of a dim, or the product of its parts.
    fn size_of(&self, name: &str) -> Option<u64> {
        let parts = self.parts.get(name).filter(|parts| !parts.is_empty());
        let parts = parts.and_then(|parts| parts.iter().try_fold(1u64, |size, dim| size.checked_mul(dim.size)));
        parts.or_else(|| self.named_dims.get(name).copied().flatten().map(|dim| dim.size))
    }
}

fn names(brackets: &Brackets) -> Vec<String> {
    let named = brackets.dims.iter().filter_map(|item| match &item.dim {
        DimName::Named(name) => Some(name.clone()),
        DimName::Literal(_) => None,
    });
    named.collect()
}

fn quoted_names(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The first place of brackets that states a layout, with its dim.
fn laid_out(brackets: &Brackets) -> Option<(Span, Option<String>)> {
    let with_axes = |item: &&DimRef| matches!(item.subscript, Some(Subscript::Axes(_) | Subscript::Hole(_)));
    let dim = brackets.dims.iter().find(with_axes).map(|item| {
        let name = match &item.dim {
            DimName::Named(name) => name.clone(),
            DimName::Literal(size) => size.to_string(),
        };
        (item.span, Some(name))
    });
    dim.or_else(|| brackets.open.as_ref().map(|open| (open.span, None)))
}
