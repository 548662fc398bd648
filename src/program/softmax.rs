//! Softmax as a maximum, a sum and a product, each of which may run over a sharded dim.
//!
//! ```text
//! P = softmax_T(S)      m = f32(max_T(S))   z = sum_T(exp(S - m))   P = bf16(1 / z .* exp(S - m))
//! ```
//!
//! It computes the same up to rounding: like a softmax it keeps intermediates in at least `f32`. Only `m` and `z`, which
//! lack the dim, are combined over devices.

use super::{Definition, Program, Using, Value, ValueId, Wanted};
use crate::dtype::DType;
use crate::function::{Binary, Filler, Function, Unary};
use crate::layout::Dim;
use crate::operator::Operator;
use std::collections::BTreeSet;
use std::ops::Range;

impl Program {
    /// The values of softmax functions.
    pub fn softmaxes(&self) -> impl Iterator<Item = ValueId> + '_ {
        let is_softmax = |id: &ValueId| {
            matches!(self.value(*id).definition, Definition::Map { function: Function::Softmax { .. }, .. })
        };
        self.value_ids().filter(is_softmax)
    }

    /// The program with these softmax values expanded.
    #[must_use]
    pub fn with_softmaxes_split(&self, split: &BTreeSet<ValueId>) -> Program {
        let mut copy = Copy { values: Vec::new(), renumbered: Vec::new() };
        let mut bodies: Vec<Range<usize>> = Vec::new();
        for id in self.value_ids() {
            if self.repeats.iter().any(|repeat| repeat.body.start == id.index()) {
                bodies.push(copy.values.len()..copy.values.len());
            }
            copy.take(self.value(id).clone(), split.contains(&id));
            if self.repeats.iter().any(|repeat| repeat.body.end == id.index() + 1)
                && let Some(body) = bodies.last_mut()
            {
                body.end = copy.values.len();
            }
        }
        self.clone().with_values(copy.values, &copy.renumbered, &bodies)
    }
}

/// Values copied in order.
struct Copy {
    values: Vec<Value>,
    /// The new id of each old value.
    renumbered: Vec<ValueId>,
}

impl Copy {
    fn take(&mut self, mut value: Value, is_split: bool) {
        for operand in value.definition.operands_mut() {
            *operand = self.renumbered[operand.index()];
        }
        if let (true, Definition::Map { function: Function::Softmax { dim }, operands }) = (is_split, &value.definition)
        {
            value.definition = self.parts(&value, usize::from(*dim), operands[0]);
        }
        let id = self.push(value);
        self.renumbered.push(id);
    }

    fn push(&mut self, value: Value) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("a few values for each byte of source"));
        self.values.push(value);
        id
    }

    /// The expansion of a softmax: the preceding values, and the final operation.
    ///
    /// - `dim`: its place in the result.
    fn parts(&mut self, softmax: &Value, dim: usize, operand: ValueId) -> Definition {
        let along = softmax.dims[dim];
        let map = |function, operands| Definition::Map { function, operands };
        let own = self.values[operand.index()].dtype;
        let wide = if own.bits() < DType::F32.bits() { DType::F32 } else { own };
        let part = |dtype, keeps: bool, definition| {
            let dims = softmax.dims.iter().copied().filter(|own| keeps || *own != along).collect();
            let (name, wanted, span) = (None, Wanted::Free, softmax.span);
            Value {
                name,
                dtype,
                dims,
                definition,
                wanted,
                using: Using::default(),
                pin: None,
                span,
                call: softmax.call,
            }
        };
        let most = self.push(part(own, false, Definition::Reduce { operator: Operator::Max, operand }));
        // They are computed twice rather than kept: so both times they stay inside of a kernel.
        let [summed, scaled] = [(); 2].map(|()| {
            let cast = map(Function::Cast(wide), vec![most]);
            let most = if wide == own { most } else { self.push(part(wide, false, cast)) };
            let below = self.push(part(wide, true, map(Function::Binary(Binary::Sub), vec![operand, most])));
            self.push(part(wide, true, map(Function::Unary(Unary::Exp), vec![below])))
        });
        // A softmax has 0 where its dim is padded, and so have its powers.
        let fill = self.padding(operand, along).map(|valid| Function::Fill {
            dim: u8::try_from(dim).expect("arrays have few dims"),
            valid,
            with: Filler::Zero,
        });
        let summed = match fill {
            Some(fill) => self.push(part(wide, true, map(fill, vec![summed]))),
            None => summed,
        };
        let sum = self.push(part(wide, false, Definition::Reduce { operator: Operator::Sum, operand: summed }));
        let inverse = self.push(part(wide, false, map(Function::Unary(Unary::Recip), vec![sum])));
        let mut last = map(Function::Binary(Binary::Mul), vec![inverse, scaled]);
        for function in fill.into_iter().chain((wide != own).then_some(Function::Cast(own))) {
            let before = self.push(part(wide, true, last));
            last = map(function, vec![before]);
        }
        last
    }

    /// Where the padding of a dim begins in a softmax operand: it is filled there.
    fn padding(&self, operand: ValueId, dim: Dim) -> Option<u64> {
        let filled = &self.values[operand.index()];
        match filled.definition {
            Definition::Map { function: Function::Fill { dim: place, valid, with: Filler::Least }, .. } => {
                (filled.dims[usize::from(place)] == dim).then_some(valid)
            }
            _ => None,
        }
    }
}
