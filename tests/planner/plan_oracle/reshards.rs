//! `C[..] = A` between all layouts of a matrix on three axes, including open sums.

use super::MODELS;
use super::distance::Graph;
use super::layout::{Layout, mesh_text};
use super::moves::Family;
use super::planner::{Machine, codes};
use super::price::Model;
use crate::common::sets;
use itertools::{Itertools, iproduct};

const MESH: [u64; 3] = [2, 2, 2];

fn source(mesh: &[u64], sizes: [u64; 2], from: &Layout, to: &Layout) -> String {
    let ([i, j], mesh, names) = (sizes, mesh_text(mesh), ["I", "J"]);
    format!("{mesh}\ndims {{I: {i}, J: {j}}}\nA: bf16{}\nC{} = A\n", from.text(&names), to.text(&names))
}

#[test]
fn all_92_layouts() {
    let machine = Machine::new(&mesh_text(&MESH));
    let each = if sets::are_full() { 1 } else { 17 };
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
            if (sets::are_full() || from.is_first_of_its_kind()) && ways % each == 0 {
                planner.agrees(&source(&MESH, sizes, from, to), least);
            }
        }
        assert_eq!((ways, none), (5139, 3325));
    }
}

/// With four axes, all orders are searched, too: a scattered sum over four axes, and four axes that change the dim.
#[test]
fn four_axes_in_any_order() {
    let (mesh, sizes) = ([2; 4], [1 << 12, 1 << 12]);
    let machine = Machine::new(&mesh_text(&mesh));
    let planner = machine.planner(Model::Book);
    let graph = Graph::new(&sizes, &mesh, Model::Book, Family::Written);
    let all: Vec<usize> = (0..4).collect();
    let open = Layout { dims: vec![Vec::new(); 2], open: all.clone() };
    let cut = Layout { dims: vec![all.clone(), Vec::new()], open: Vec::new() };
    for order in all.into_iter().permutations(4).step_by(if sets::are_full() { 1 } else { 5 }) {
        let to = Layout { dims: vec![Vec::new(), order], open: Vec::new() };
        for from in [&open, &cut] {
            let least = graph.distance(from, &to).expect("a move");
            assert_eq!(graph.edge(from, &to), Some(least));
            planner.agrees(&source(&mesh, sizes, from, &to), least);
        }
    }
}

/// Only sums that are already open can be requested.
#[test]
fn no_way_means_that_a_sum_would_be_opened() {
    let graph = Graph::new(&[16, 16], &MESH, MODELS[0], Family::Written);
    for (from, to) in iproduct!(&graph.layouts, &graph.layouts) {
        let opens = to.open.iter().any(|axis| !from.open.contains(axis));
        assert_eq!(graph.distance(from, to).is_none(), opens);
        if opens && (sets::are_full() || from.is_first_of_its_kind()) {
            assert_eq!(codes(&source(&MESH, [16, 16], from, to)), ["open-sum-invented"]);
        }
    }
}

/// For arrays of three dims, no move is cheaper than the chain found. An exchange between several pairs of dims at
/// once, `[I_X, J_Y, K] -> [I, J, K_XY]`, which no statement can express, would improve 5 % of the paths, by at most
/// half of the time and a quarter of the bytes.
#[test]
fn three_dims() {
    let (mesh, sizes) = ([2, 2], [64, 128, 256]);
    let names = ["I", "J", "K"];
    let machine = Machine::new(&mesh_text(&mesh));
    for model in MODELS {
        let planner = machine.planner(model);
        let [written, all] = [Family::Written, Family::All].map(|family| Graph::new(&sizes, &mesh, model, family));
        let (mut ways, mut better, mut most) = (0, 0, 1.0_f64);
        for (from, to) in iproduct!(&written.layouts, &written.layouts) {
            let Some(least) = written.distance(from, to) else { continue };
            assert!(written.edge(from, to).is_none_or(|edge| least <= edge));
            ways += 1;
            let beyond = all.distance(from, to).expect("a way");
            if beyond < least {
                better += 1;
                most = most.max(least.0 as f64 / beyond.0 as f64);
            }
            if from.is_first_of_its_kind() && (sets::are_full() || ways % 5 == 0) {
                let (from, to) = (from.text(&names), to.text(&names));
                let dims = "dims {I: 64, J: 128, K: 256}";
                planner.agrees(&format!("{}\n{dims}\nA: bf16{from}\nC{to} = A\n", mesh_text(&mesh)), least);
            }
        }
        let told = match model {
            Model::Book => (573, 30, 2.0),
            Model::Bytes => (573, 24, 4.0 / 3.0),
        };
        assert_eq!((ways, better, most), told, "{model:?}");
    }
}
