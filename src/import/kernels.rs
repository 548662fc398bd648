//! Declarations of the kernels that an imported program calls.

use super::dims::{Dim, Dims};
use super::names::{free_name, is_reserved};
use super::output::{Expr, Kernel, WIDTH};
use crate::escape;
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

/// The kernels of a program, each declared once for all calls that it fits.
#[derive(Debug, Default)]
pub(super) struct Declared {
    names: HashMap<String, String>,
    /// In the order of their first calls.
    kernels: Vec<(String, Rc<Kernel>)>,
    taken: HashSet<String>,
}

impl Declared {
    /// Declares the kernels that are called in an expression.
    pub(super) fn add(&mut self, expr: &Expr, dims: &mut Dims) {
        expr.walk(&mut |expr| {
            let Expr::Kernel(kernel, _) = expr else { return };
            let form = form(kernel, dims);
            if self.names.contains_key(&form) {
                return;
            }
            // Dims and collectives begin with a capital.
            let is_taken =
                is_reserved(&kernel.word) || kernel.word.starts_with(|letter: char| letter.is_ascii_uppercase());
            let word = if is_taken { format!("op_{}", kernel.word) } else { kernel.word.clone() };
            let name = free_name(&word, |name| self.taken.insert(name.to_owned()));
            self.names.insert(form, name.clone());
            self.kernels.push((name, kernel.clone()));
        });
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|(name, _)| name.as_str())
    }

    /// The name of the kernel of a call.
    pub(super) fn name(&self, kernel: &Kernel, dims: &mut Dims) -> String {
        self.names.get(&form(kernel, dims)).cloned().unwrap_or_default()
    }

    /// The declarations, a line or more for each.
    pub(super) fn text(&self, dims: &mut Dims, dim_names: &HashMap<Dim, String>) -> String {
        let mut text = String::new();
        for (name, kernel) in &self.kernels {
            let mut named = |all: &[Dim]| -> Vec<String> {
                let leaves = all.iter().flat_map(|dim| dims.leaves(*dim)).unique();
                leaves.map(|leaf| dim_names[&leaf].clone()).collect()
            };
            let letters = ["a", "b", "c", "d"];
            let parameters = kernel.parameters.iter().zip(letters);
            let parameters = parameters.map(|(own, letter)| format!("{letter}[{}]", named(own).join(", "))).join(", ");
            let result = named(&kernel.result).join(", ");
            let mut facts = vec![format!("kernel {name}({parameters}) -> {}[{result}]", kernel.dtype)];
            if !kernel.sharded.is_empty() {
                facts.push(format!("shard {}", named(&kernel.sharded).join(", ")));
            }
            if kernel.factor > 0 {
                let factor = (kernel.factor != 1 || kernel.counted.is_empty()).then(|| kernel.factor.to_string());
                facts.push(format!("flops {}", factor.into_iter().chain(named(&kernel.counted)).join("*")));
            }
            if !kernel.notes.is_empty() {
                let _ = writeln!(text, "# {}", escape::line(&kernel.notes.join("; ")));
            }
            let line = facts.join(", ");
            let line = if line.len() > WIDTH { facts.join(",\n    ") } else { line };
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

/// Equal for calls of one kernel: what it computes, and how its dims are cut and shared. Dims of operands stand for any
/// others of their sizes, those that only the result has for themselves.
fn form(kernel: &Kernel, dims: &mut Dims) -> String {
    let mut text = kernel.identity.clone();
    let mut numbers: HashMap<Dim, usize> = HashMap::new();
    for own in &kernel.parameters {
        text.push_str(" |");
        for leaf in own.iter().flat_map(|dim| dims.leaves(*dim)).collect::<Vec<_>>() {
            let next = numbers.len();
            let _ = write!(text, " {}:{}", numbers.entry(leaf).or_insert(next), dims.size(leaf));
        }
    }
    for all in [&kernel.result, &kernel.sharded, &kernel.counted] {
        text.push_str(" |");
        for leaf in all.iter().flat_map(|dim| dims.leaves(*dim)) {
            let _ = match numbers.get(&leaf) {
                Some(number) => write!(text, " {number}"),
                None => write!(text, " {leaf:?}"),
            };
        }
    }
    let _ = write!(text, " {}", kernel.factor);
    text
}
