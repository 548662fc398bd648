//! Composed dims: after `dims {N = K*M}`, `N` is `K` and `M` merged, `K` major.
//!
//! As written, and as later stages have it:
//!
//! ```text
//! q[B, N_XY, H] = x[B, D] * w[D, N_XY, H]      # K: 4, M: 8, mesh {X: 4, Y: 2}
//! q[B, K_X, M_Y, H] = x[B, D] * w[D, K_X, M_Y, H]
//! ```
//!
//! Arrays are row-major, so `[N]` and `[K, M]` are the same elements in the same order. Axes on `N` split it into equal
//! blocks; they split `K` and `M` alike if the first of them use up `K` before the others split `M`. Each device then
//! holds the same elements under either name, so splitting and merging dims is free. Axes that would straddle two parts
//! are rejected.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use crate::layout::{Dim, Sharding};
use crate::mesh::AxisId;
use crate::span::Span;

/// Axes with their places, as written.
pub(super) type Placed = Vec<(AxisId, Span)>;

impl Checker {
    /// The meaning of a dim name: one dim, or the parts of it.
    pub(super) fn dims_named(&mut self, name: &str, at: Span) -> Checked<Vec<Dim>> {
        match self.parts.get(name) {
            Some(parts) if parts.is_empty() => Err(Failure::Reported),
            Some(parts) => Ok(parts.clone()),
            None => Ok(vec![self.dim(name, at)?]),
        }
    }

    /// Distributes the axes on a dim over its parts: each part is used up before the next is split.
    ///
    /// # Errors
    /// An axis that would straddle two parts.
    pub(super) fn spread(&self, name: &str, parts: &[Dim], axes: Placed) -> Checked<Vec<Placed>> {
        let mut spread: Vec<Placed> = vec![Vec::new(); parts.len()];
        let last = parts.len().saturating_sub(1);
        let (mut at, mut left) = (0, parts.first().map_or(1, |dim| dim.size));
        for (axis, place) in axes {
            let size = self.mesh.size(axis);
            while left == 1 && size > 1 && at < last {
                at += 1;
                left = parts[at].size;
            }
            if left.is_multiple_of(size) {
                left /= size;
            } else if at < last {
                return Err(self.cut_across(name, parts, at, axis, left, place));
            }
            // The last part is padded.
            spread[at].push((axis, place));
        }
        Ok(spread)
    }

    fn cut_across(&self, name: &str, parts: &[Dim], part: usize, axis: AxisId, left: u64, at: Span) -> Failure {
        let written: Vec<String> = parts.iter().map(|dim| self.dims.name(dim.id)).collect();
        let sizes: Vec<String> = parts.iter().map(|dim| dim.size.to_string()).collect();
        let (axis, size) = (self.mesh.axis(axis).name.clone(), self.mesh.size(axis));
        // What the part at hand leaves of the axis must fit the next one, which is padded if it is the last.
        let rest = size / left;
        let fits = size.is_multiple_of(left) && (part + 2 == parts.len() || parts[part + 1].size.is_multiple_of(rest));
        let (this, next) = (&written[part], &written[part + 1]);
        let split = if left > 1 && fits {
            format!(
                "write `axis {axis} = {{{axis}1: {left}, {axis}2: {rest}}}` below the mesh, so that `{axis}1` cuts \
                 `{this}` and `{axis}2` cuts `{next}`; or "
            )
        } else {
            String::new()
        };
        let help = format!(
            "`{this}` has {left} left for the {size} of `{axis}`: {split}leave `{name}` whole over `{axis}`, with a copy on each \
             device; or shard another dim over `{axis}`"
        );
        let (name, parts, sizes) = (name.to_owned(), written.join("*"), sizes.join("*"));
        CheckError::CutAcross { name, parts, sizes, axis, size, help, at }.into()
    }

    /// The part of a composed dim that takes the next axes: the first that is not used up.
    pub(super) fn part_to_cut(&self, name: &str, dims: &[Dim], from: &Sharding) -> Option<usize> {
        let parts = self.parts.get(name)?;
        let places: Vec<usize> = parts.iter().filter_map(|part| dims.iter().position(|dim| dim == part)).collect();
        let free = |place: &&usize| dims[**place].size > from.dims[**place].group_size(&self.mesh);
        places.iter().find(free).or(places.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use crate::diag::Severity;
    use crate::program::testing::{check_text, codes};
    use itertools::Itertools;

    const GROUND: &str = "mesh {X: 4, Y: 2, Z: 2} on tpu_v5e\ndims {B: 4, D: 16, K: 4, M: 8, H: 2, N = K*M}\n";

    fn program(body: &str) -> String {
        let (program, diagnostics) = check_text(&format!("{GROUND}{body}"));
        program.unwrap_or_else(|| panic!("{body}: {diagnostics:?}")).to_string()
    }

    #[test]
    fn one_dim_and_its_parts_are_the_same() {
        let one = "q: bf16[B, N_XY, H]\nqg[B, K_X, M_Y, H] = relu(q)\nout[B, N_XY, H] = relu(qg)";
        let parts = "q: bf16[B, K_X, M_Y, H]\nqg[B, K_X, M_Y, H] = relu(q)\nout[B, K_X, M_Y, H] = relu(qg)";
        assert_eq!(program(one), program(parts));
        // The split and the merge alone are no step.
        let moved = program("q: bf16[B, N_X, H]\nqg[B, K_X, M, H] = q\nback[B, N_X, H] = qg");
        assert_eq!(moved.matches(" = move").count(), 2, "{moved}");
    }

    #[test]
    fn a_contraction_of_the_whole_is_one_of_its_parts() {
        let one = program("o: bf16[B, N_X, H]\nw: bf16[N_X, H, D]\ny[B, D] = o *_{N,H} w");
        assert_eq!(one, program("o: bf16[B, K_X, M, H]\nw: bf16[K_X, M, H, D]\ny[B, D] = o *_{K,M,H} w"));
    }

    #[test]
    fn axes_that_cut_across_are_refused() {
        for (body, code) in [
            // Y leaves two of K's four, and X wants four.
            ("q: bf16[N_YX]\noutput q", "cut-across"),
            ("q: bf16[N_{X,Y,Z}, K]\noutput q", "dim-repeated"),
            ("q: bf16[N]\nr = softmax_N(q)", "dim-of-parts"),
            ("dims {P = K*K}\nq: bf16[P]\noutput q", "part-repeated"),
            ("dims {P = K*R}\nq: bf16[P]\noutput q", "unknown-dim"),
        ] {
            let (_, diagnostics) = check_text(&format!("{GROUND}{body}"));
            assert_eq!(codes(&diagnostics, Severity::Error), [code], "{body}");
        }
    }

    /// The parts of the axis in the help compile, and pad no dim that was not padded.
    #[test]
    fn parts_of_an_axis_that_are_offered_fit() {
        let (mut refused, mut offered) = (0, 0);
        for (k, m, l, y) in itertools::iproduct!(1..=6, 1..=4, 1..=3, 2..=12) {
            let (mesh, rest) = (format!("mesh {{Y: {y}}} on tpu_v5e\n"), "q: bf16[N_Y]\noutput q");
            let dims = format!("dims {{K: {k}, M: {m}, L: {l}, N = K*M*L}}\n");
            let (program, diagnostics) = check_text(&format!("{mesh}{dims}{rest}"));
            let Some(found) = diagnostics.iter().find(|_| program.is_none()) else { continue };
            assert_eq!(found.code, "cut-across", "{mesh}{dims}");
            refused += 1;
            let help = found.help.as_deref().expect("a help");
            let Some((_, line)) = help.split_once("write `axis") else { continue };
            let (line, _) = line.split_once('`').expect("the end of a line");
            let changed = format!("{mesh}axis{line}\n{dims}{rest}");
            assert!(check_text(&changed).0.is_some(), "{changed}\n{help}");
            offered += 1;
        }
        assert!(refused > 100 && offered > 50, "{offered} of {refused}");
    }

    /// For every list of axes: the distribution is accepted exactly if each device holds the same elements either way.
    #[test]
    fn a_spread_keeps_every_block() {
        let sizes = [("X", 4u64), ("Y", 2), ("Z", 2)];
        let lists = (0..=3).flat_map(|n| sizes.iter().permutations(n));
        for list in lists {
            let word: String = list.iter().map(|(name, _)| *name).collect();
            let subscript = if word.is_empty() { String::new() } else { format!("_{word}") };
            let (found, _) = check_text(&format!("{GROUND}q: bf16[N{subscript}]\noutput q"));
            // A list of axes for K and one for M, such that the blocks of 32 elements are boxes of 4 by 8.
            let legal = (0..=list.len()).any(|cut| {
                let group = |list: &[&(&str, u64)]| list.iter().map(|(_, size)| size).product::<u64>();
                let (major, minor) = (group(&list[..cut]), group(&list[cut..]));
                4 % major == 0 && 8 % minor == 0 && (minor == 1 || major == 4)
            });
            assert_eq!(found.is_some(), legal, "{word}");
        }
    }
}
