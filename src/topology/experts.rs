//! Measured exchanges of tokens with their experts, as one kernel each way.
//!
//! The experts are spread over the devices. *Dispatch* sends the row of a token once to each device that has one of the
//! token's experts, and *combine* sends the results back, where they are added. Such kernels route by the tokens
//! themselves; an AllToAll of slots sends every slot, used or not.

use super::quantity;
use crate::dtype::DType;
use crate::units::{Bytes, Rate, Time, TimeScale};
use serde::{Deserialize, Serialize};

/// Figures of both ways.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// From the tokens to their experts.
    pub dispatch: Rows,
    /// Back to the tokens.
    pub combine: Rows,
}

/// Figures of an exchange of rows, on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Launch time of the kernel, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub start: u64,
    /// Time per element of one row, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub element: u64,
    /// Time per token, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub token: u64,
    /// Time per copy of a row, in picoseconds.
    #[serde(deserialize_with = "quantity::time")]
    pub copy: u64,
    /// Bytes per second of the copies.
    #[serde(deserialize_with = "quantity::bandwidth")]
    pub one_way: Rate,
}

/// The tokens of a device and their experts, which are chosen evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Number of devices, at least one.
    pub devices: u64,
    /// Number of tokens of each device.
    pub tokens: u64,
    /// Elements of a row, of two bytes each.
    pub width: u64,
    /// Number of experts of a token.
    pub chosen: u64,
    /// Number of all experts.
    pub experts: u64,
}

impl Tokens {
    /// Expected number of copies that a device makes of its tokens, rounded: one for each device with an expert of the
    /// token.
    ///
    /// Of `e` experts, each device has `s`, the last of them what remains. With `s` of them it has none of the `k` experts of a
    /// token with probability `C(e - s, k) / C(e, k)`.
    pub fn copies(&self) -> u64 {
        let each = self.experts.div_ceil(self.devices.max(1)).max(1);
        let reached = |own: u64| {
            let others = |place: u64| (self.experts - own).saturating_sub(place) as f64 / (self.experts - place) as f64;
            1.0 - (0..self.chosen.min(self.experts)).map(others).product::<f64>()
        };
        let devices = (self.experts / each) as f64 * reached(each) + reached(self.experts % each);
        let copies = self.tokens as f64 * devices;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "casts of floats keep to the range"
        )]
        let copies = copies.round() as u64;
        copies
    }

    /// Bytes of all copies.
    pub fn bytes(&self) -> Bytes {
        let elements = self.copies().saturating_mul(self.width);
        Bytes(DType::Bf16.bytes(1).saturating_mul(elements))
    }
}

impl Rows {
    /// Time of an exchange.
    pub fn time(&self, scale: TimeScale, tokens: Tokens) -> Time {
        let of = |each: u64, count: u64| scale.picoseconds(each.saturating_mul(count));
        scale.picoseconds(self.start)
            + of(self.element, tokens.width)
            + of(self.token, tokens.tokens)
            + of(self.copy, tokens.copies())
            + scale.at_rate(u128::from(tokens.bytes().0), self.one_way)
    }
}

/// A profile's entry in base units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ExpertsDocument {
    dispatch: RowsDocument,
    combine: RowsDocument,
}

#[derive(Clone, Debug, Serialize)]
struct RowsDocument {
    start_ps: u64,
    /// Per element of one row.
    element_ps: u64,
    /// Per token.
    token_ps: u64,
    /// Per copy of a row.
    copy_ps: u64,
    /// Bytes per second of the copies.
    one_way: Rate,
}

impl From<&Experts> for ExpertsDocument {
    fn from(experts: &Experts) -> ExpertsDocument {
        ExpertsDocument { dispatch: experts.dispatch.into(), combine: experts.combine.into() }
    }
}

impl From<Rows> for RowsDocument {
    fn from(Rows { start, element, token, copy, one_way }: Rows) -> RowsDocument {
        RowsDocument { start_ps: start, element_ps: element, token_ps: token, copy_ps: copy, one_way }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use itertools::Itertools;

    /// All choices of experts, each equally likely, where devices have as many experts or not.
    #[test]
    fn copies_are_those_of_all_choices() {
        for (devices, experts) in (1..=8).cartesian_product(1..=8usize) {
            for chosen in 1..=experts {
                let all = (0..experts).combinations(chosen).collect::<Vec<_>>();
                let each = experts.div_ceil(devices);
                let of = |choice: &Vec<usize>| choice.iter().map(|expert| expert / each).unique().count();
                let copies: usize = all.iter().map(of).sum();
                let (devices, experts, chosen) = (devices as u64, experts as u64, chosen as u64);
                let tokens = Tokens { devices, tokens: all.len() as u64, width: 1, chosen, experts };
                assert_eq!(tokens.copies(), copies as u64, "{tokens:?}");
            }
        }
    }
}
