//! Products: contracted dims, and splitting a chain into binary products.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use super::expr::Operand;
use super::layouts::{RequestedDim, Written};
use super::{Definition, ValueId, Wanted};
use crate::dtype::DType;
use crate::function::{ByNumber, Function, Scalar};
use crate::layout::{Dim, DimId};
use crate::span::Span;
use crate::syntax::{Contraction, Expr, ExprKind, Name};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};

impl Checker {
    /// A chain of factors; numbers scale the rest.
    pub(super) fn product(
        &mut self,
        factors: &[Expr],
        contraction: &Contraction,
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<Operand> {
        // A single array among numbers is all that the result's dims are about.
        let single = factors.iter().filter(|factor| self.number(factor, 0).is_none()).count() == 1;
        let mut scale: Option<f64> = None;
        let mut arrays: Vec<ValueId> = Vec::new();
        let mut sizes: Vec<&Name> = Vec::new();
        for factor in factors {
            match self.expr(factor, requested.filter(|_| single))? {
                Operand::Number(number) => {
                    sizes.extend(self.size_named(factor));
                    scale = Some(scale.unwrap_or(1.0) * number);
                }
                Operand::Array(id) => arrays.push(id),
            }
        }
        // A forgotten array of the same name would go unseen.
        for name in sizes.iter().filter(|_| !arrays.is_empty()) {
            let (size, at) = (self.size(name).unwrap_or_default(), name.span);
            self.diagnostics.push(&CheckError::SizeAsNumber {
                help: "write `.*` to keep the number, or declare the array".to_owned(),
                name: name.node.clone(),
                size,
                at,
            });
        }
        let id = match (arrays.as_slice(), contraction) {
            ([], _) => return Ok(Operand::Number(scale.unwrap_or(1.0))),
            ([one], Contraction::Implied) => *one,
            ([_], Contraction::Local(_) | Contraction::Named(_)) => {
                let why = "one factor is a number and has no dims".to_owned();
                let help = "use `*` with a number".to_owned();
                return Err(CheckError::ContractionUnclear { why, at: span, help }.into());
            }
            ([left, right], Contraction::Local(sign)) => self.local(*left, *right, requested, [*sign, span])?,
            (many, Contraction::Local(_) | Contraction::Implied) => self.implied(many, requested, span)?,
            (many, Contraction::Named(names)) => self.named(many, names, requested, span)?,
        };
        match scale {
            Some(c) => {
                Ok(Operand::Array(self.map(Function::ByNumber(ByNumber::Scale, Scalar(c)), &[id], requested, span)?))
            }
            None => Ok(Operand::Array(id)),
        }
    }

    /// The name of a dim used as a factor for its size.
    fn size_named<'e>(&self, factor: &'e Expr) -> Option<&'e Name> {
        match &factor.kind {
            ExprKind::Array(array) => array.name.as_ref().filter(|name| !self.constants.contains_key(&name.node)),
            _ => None,
        }
    }

    /// `A *_J B`: exactly these dims are contracted, other shared dims are batch dims.
    fn named(
        &mut self,
        factors: &[ValueId],
        names: &[Name],
        requested: Option<&[RequestedDim]>,
        span: Span,
    ) -> Checked<ValueId> {
        let mut contracted: Vec<Dim> = Vec::new();
        let mut named = Vec::new();
        for name in names {
            named.extend(self.dims_named(&name.node, name.span)?.into_iter().map(|dim| (name, dim)));
        }
        for (name, dim) in named {
            if let Some(without) = factors.iter().find(|id| !self.value(**id).dims.contains(&dim)) {
                let array = format!("`{}`", self.show(*without));
                let shared: Vec<String> =
                    self.shared(factors).iter().map(|dim| format!("`{}`", self.dims.name(dim.id))).collect();
                let offer = if shared.is_empty() {
                    "the factors share no dims".to_owned()
                } else {
                    format!("the factors share {}", shared.join(", "))
                };
                let (dim, operand) = (name.node.clone(), self.use_place(*without));
                return Err(CheckError::DimNotShared { dim, array, offer, at: name.span, operand }.into());
            }
            contracted.push(dim);
        }
        let kept: Vec<Dim> = self.union(factors).into_iter().filter(|dim| !contracted.contains(dim)).collect();
        let ordered = match requested {
            Some(requested) => self.matched(requested, &kept),
            None => kept.clone(),
        };
        if let Some(lost) = kept.iter().find(|dim| !ordered.contains(dim)) {
            return Err(self.lost(*lost, factors));
        }
        self.chain(factors, ordered, span)
    }

    fn implied(&mut self, factors: &[ValueId], requested: Option<&[RequestedDim]>, span: Span) -> Checked<ValueId> {
        match (requested, factors) {
            (Some(requested), _) => {
                let result = self.kept(factors, requested)?;
                self.chain(factors, result, span)
            }
            (None, [first, rest @ ..]) => {
                let mut product = *first;
                for factor in rest {
                    let result = self.matmul_dims(product, *factor, span)?;
                    product = self.chain(&[product, *factor], result, span)?;
                }
                Ok(product)
            }
            (None, []) => unreachable!("a product has factors"),
        }
    }

    /// The dims of a result with known dims: the others are contracted.
    fn kept(&self, factors: &[ValueId], requested: &[RequestedDim]) -> Checked<Vec<Dim>> {
        let union = self.union(factors);
        let kept = self.matched(requested, &union);
        let shared = self.shared(factors);
        for dim in union.iter().filter(|dim| !kept.contains(dim)) {
            if !shared.contains(dim) || self.dims.is_literal(dim.id) {
                let strange = self.unmatched(requested, &union).filter(|_| !self.dims.is_literal(dim.id));
                if let Some(RequestedDim::Dim(strange)) = strange.map(|place| requested[place]) {
                    let (name, strange) = (self.dims.name(dim.id), self.dims.name(strange.id));
                    let owner = factors.iter().copied().find(|id| self.value(*id).dims.contains(dim));
                    let owner = owner.unwrap_or(factors[0]);
                    let help = format!("no factor has `{strange}`: write `{name}` for `{strange}` in the result");
                    let (array, at) = (self.show(owner), self.use_place(owner));
                    return Err(CheckError::DimLost { dim: name, array, at, help }.into());
                }
                return Err(self.lost(*dim, factors));
            }
        }
        Ok(kept)
    }

    /// The inferred dims of a product of two: one shared dim, and one more on each side.
    fn matmul_dims(&self, left: ValueId, right: ValueId, span: Span) -> Checked<Vec<Dim>> {
        let shared = self.shared(&[left, right]);
        let names: Vec<String> = shared.iter().map(|dim| format!("`{}`", self.dims.name(dim.id))).collect();
        let why = match shared.as_slice() {
            [] => {
                if let Some((array, help)) = [left, right].into_iter().find_map(|id| self.nameless(id)) {
                    let why = format!("the factors share no dim, as those of `{array}` have no names");
                    return Err(CheckError::ContractionUnclear { why, at: span, help }.into());
                }
                "the factors share no dim".to_owned()
            }
            [one] if self.dims.is_literal(one.id) => return Err(self.lost(*one, &[left, right])),
            [one] => {
                let only = [left, right].into_iter().find(|id| self.value(*id).dims.len() < 2);
                match only {
                    Some(_) => format!("{} may be contracted or kept, as one factor has no other dim", names[0]),
                    None => {
                        let union = self.union(&[left, right]);
                        return Ok(union.into_iter().filter(|dim| dim != one).collect());
                    }
                }
            }
            [_, _, ..] => format!("the factors share {}", names.join(", ")),
        };
        let union: Vec<String> = self.union(&[left, right]).iter().map(|dim| self.dims.name(dim.id)).collect();
        let keep = format!("`C[{}]_? = ..` keeps all dims, in any layout", union.join(", "));
        let shared: Vec<String> = shared.iter().map(|dim| self.dims.name(dim.id)).collect();
        let contracts = match shared.as_slice() {
            [] => String::new(),
            [one] => format!("`*_{one}` contracts `{one}`; "),
            many => {
                let each = many.iter().map(|one| format!("`*_{one}`")).collect::<Vec<_>>().join(" or ");
                format!("{each} contracts one and keeps the others, `*_{{{}}}` contracts all; ", many.join(","))
            }
        };
        // Only where one factor has all dims of the other: two matrices that share one dim are a product of matrices.
        let has_all =
            |one: ValueId, other: ValueId| self.value(other).dims.iter().all(|dim| self.value(one).dims.contains(dim));
        let is_elementwise = !shared.is_empty() && (has_all(left, right) || has_all(right, left));
        let elementwise = if is_elementwise { "`.*` multiplies elementwise; " } else { "" };
        // Dims that are written as numbers are never the same dim.
        let literals = |id: ValueId| {
            let dims = self.value(id).dims.iter().filter(|dim| self.dims.is_literal(dim.id));
            dims.map(|dim| dim.size).collect::<BTreeSet<u64>>()
        };
        let alike = literals(left).intersection(&literals(right)).max().copied();
        let naming = alike.map(|size| {
            format!("give the dim of {size} that both have a name, `dims {{{}: {size}}}`; ", self.free_name())
        });
        let help = format!("{}{elementwise}{contracts}{keep}", naming.unwrap_or_default());
        Err(CheckError::ContractionUnclear { why, at: span, help }.into())
    }

    /// A named array all of whose dims are numbers, and how it is written with names.
    fn nameless(&self, id: ValueId) -> Option<(String, String)> {
        let value = self.value(id);
        let array = value.name.clone()?;
        if value.dims.is_empty() || !value.dims.iter().all(|dim| self.dims.is_literal(dim.id)) {
            return None;
        }
        // The only declared dim of each size.
        let twin = |size: u64| {
            let mut alike = self.dims.names().filter(|name| self.dims.named(name).is_some_and(|dim| dim.size == size));
            alike.next().filter(|_| alike.next().is_none())
        };
        let names: Option<Vec<&str>> = value.dims.iter().map(|dim| twin(dim.size)).collect();
        let help = match names.filter(|names| names.iter().all_unique()) {
            Some(names) => {
                let sizes =
                    names.iter().zip(&value.dims).map(|(name, dim)| format!("`{name}` is {}", dim.size)).join(", ");
                format!("declare it with names: `{array}: {}[{}]`; {sizes}", value.dtype, names.join(", "))
            }
            None => "declare its dims with names, `dims {I: 64, J: 256}`, and write them in both arrays".to_owned(),
        };
        Some((array, help))
    }

    /// The dims shared by two or more factors, in order of first occurrence.
    fn shared(&self, factors: &[ValueId]) -> Vec<Dim> {
        let count = |dim: &Dim| factors.iter().filter(|id| self.value(**id).dims.contains(dim)).count();
        self.union(factors).into_iter().filter(|dim| count(dim) > 1).collect()
    }

    /// A dim that the result lacks and that cannot be contracted.
    fn lost(&self, dim: Dim, factors: &[ValueId]) -> Failure {
        let owner = factors.iter().find(|id| self.value(**id).dims.contains(&dim)).copied().unwrap_or(factors[0]);
        if !self.dims.is_literal(dim.id) {
            return self.unrelated(dim, factors).unwrap_or_else(|| self.dim_lost(dim, owner));
        }
        CheckError::LiteralContracted { size: dim.size, name: self.free_name().to_owned(), at: self.use_place(owner) }
            .into()
    }

    /// A lost dim of a product whose factors share no dim, where the other factor has a lost dim of the same size.
    fn unrelated(&self, dim: Dim, factors: &[ValueId]) -> Option<Failure> {
        let [left, right] = factors else { return None };
        let [one, other] = if self.value(*left).dims.contains(&dim) { [*left, *right] } else { [*right, *left] };
        let twin =
            self.value(other).dims.iter().find(|twin| twin.size == dim.size && !self.dims.is_literal(twin.id))?;
        if !self.shared(factors).is_empty() {
            return None;
        }
        let [dim_name, twin_name] = [dim, *twin].map(|dim| self.dims.name(dim.id));
        let [array, second] = [one, other].map(|id| self.show(id));
        let short = |id: ValueId| self.value(id).name.clone().unwrap_or_else(|| self.show(id));
        let help = format!(
            "`{}` and `{}` share no dim; if `{dim_name}` and `{twin_name}` are one dim, give it one name, or rename it: \
             `rename_{{{twin_name}->{dim_name}}}({second})`",
            short(one),
            short(other)
        );
        Some(CheckError::DimLost { dim: dim_name, array, at: self.use_place(one), help }.into())
    }

    /// A name for a dim that is not taken.
    fn free_name(&self) -> &'static str {
        let taken = |name: &&str| self.named_dims.contains_key(*name);
        ["J", "D", "F", "H", "N", "M"].into_iter().find(|name| !taken(name)).unwrap_or("Inner")
    }

    /// Binary products from left to right; each keeps the dims that a later factor or the result needs.
    fn chain(&mut self, factors: &[ValueId], result: Vec<Dim>, span: Span) -> Checked<ValueId> {
        self.check_product_open(factors, self.union(factors).len() > result.len())?;
        // How many of the factors still to come have each dim.
        let mut needed: BTreeMap<DimId, usize> = BTreeMap::new();
        for dim in factors.iter().flat_map(|id| &self.value(*id).dims) {
            *needed.entry(dim.id).or_default() += 1;
        }
        let mut product = factors[0];
        for (place, factor) in factors.iter().enumerate() {
            for dim in &self.value(*factor).dims {
                *needed.entry(dim.id).or_default() -= 1;
            }
            if place == 0 {
                continue;
            }
            let later = |dim: &Dim| needed.get(&dim.id).is_some_and(|count| *count > 0);
            let dims = if place + 1 == factors.len() {
                result.clone()
            } else {
                let union = self.union(&[product, *factor]);
                union.into_iter().filter(|dim| later(dim) || result.contains(dim)).collect()
            };
            let dtype = self.product_dtype(product, *factor, span)?;
            product =
                self.add(dtype, dims, Definition::Product { operands: [product, *factor], local: false }, span)?;
        }
        Ok(product)
    }

    fn product_dtype(&mut self, left: ValueId, right: ValueId, at: Span) -> Checked<DType> {
        match self.value(left).dtype.product(self.value(right).dtype) {
            Some(dtype) => Ok(dtype),
            None => Err(self.dtypes_differ("product", [left, right], at)),
        }
    }
}

/// A local product and its dims.
pub(super) struct Local<'a> {
    pub(super) operands: [ValueId; 2],
    pub(super) contracted: &'a [Dim],
    /// The place of its sign.
    pub(super) sign: Span,
}

impl Checker {
    /// `A *_LOCAL B`: no communication before it, and the contracted axes stay open.
    fn local(
        &mut self,
        left: ValueId,
        right: ValueId,
        requested: Option<&[RequestedDim]>,
        [sign, span]: [Span; 2],
    ) -> Checked<ValueId> {
        let factors = [left, right];
        let dims = match requested {
            Some(requested) => self.kept(&factors, requested)?,
            None => self.matmul_dims(left, right, span)?,
        };
        self.check_product_open(&factors, true)?;
        let dtype = self.product_dtype(left, right, span)?;
        let contracted: Vec<Dim> = self.shared(&factors).into_iter().filter(|dim| !dims.contains(dim)).collect();
        let local = Local { operands: factors, contracted: &contracted, sign };
        let sharding = self.local_sharding(&local, &dims)?;
        let id = self.add(dtype, dims, Definition::Product { operands: factors, local: true }, span)?;
        self.values[id.index()].wanted = Wanted::Exact(sharding);
        Ok(id)
    }

    /// Checks the written layout of a local product against its actual one.
    pub(super) fn check_local(&self, id: ValueId, written: &Written, name: &str) -> Checked<()> {
        let value = self.value(id);
        let local = matches!(value.definition, Definition::Product { local: true, .. });
        if !local || self.exact(id).is_some_and(|gives| written.wanted.allows(gives)) {
            return Ok(());
        }
        let (gives, said) = (self.show_as(id, name), format!("{name}{}", written.text));
        Err(CheckError::LocalResult { gives, said, at: written.span }.into())
    }
}
