//! `C[..] = A` between all layouts of a matrix on three axes, open sums included.

use crate::distance::Graph;
use crate::layout::{Layout, mesh_text};
use crate::moves::Family;
use crate::planner::{Machine, codes};
use crate::{MODELS, whole};
use itertools::iproduct;

const MESH: [u64; 3] = [2, 2, 2];

fn source(sizes: [u64; 2], from: &Layout, to: &Layout) -> String {
    let ([i, j], mesh, names) = (sizes, mesh_text(&MESH), ["I", "J"]);
    format!("{mesh}\ndims {{I: {i}, J: {j}}}\nA: bf16{}\nC{} = A\n", from.text(&names), to.text(&names))
}

#[test]
fn all_92_layouts() {
    let machine = Machine::new(&mesh_text(&MESH));
    let each = if whole() { 1 } else { 17 };
    for (sizes, model) in iproduct!([[16, 32], [512, 256], [4096, 8192]], MODELS) {
        let planner = machine.planner(model);
        let graph = Graph::new(&sizes, &MESH, model, Family::Written);
        assert_eq!(graph.layouts.len(), 92);
        let (mut ways, mut none) = (0, 0);
        for (from, to) in iproduct!(&graph.layouts, &graph.layouts) {
            let Some(least) = graph.distance(from, to) else {
                none += 1;
                continue;
            };
            ways += 1;
            assert!(graph.edge(from, to).is_none_or(|edge| least <= edge), "a single move is a chain");
            if (whole() || from.is_first_of_its_kind()) && ways % each == 0 {
                planner.agrees(&source(sizes, from, to), least);
            }
        }
        assert_eq!((ways, none), (5139, 3325));
    }
}

/// Only sums that are open can be asked for.
#[test]
fn no_way_means_that_a_sum_would_be_opened() {
    let graph = Graph::new(&[16, 16], &MESH, MODELS[0], Family::Written);
    for (from, to) in iproduct!(&graph.layouts, &graph.layouts) {
        let opens = to.open.iter().any(|axis| !from.open.contains(axis));
        assert_eq!(graph.distance(from, to).is_none(), opens);
        if opens && (whole() || from.is_first_of_its_kind()) {
            assert_eq!(codes(&source([16, 16], from, to)), ["open-sum-invented"]);
        }
    }
}
