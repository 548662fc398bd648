//! `A[I, J] * B[J, K] -> C[I, K]` in every layout of the three arrays.

use super::MODELS;
use super::layout::{Layout, mesh_text, primes};
use super::moves::Family;
use super::planner::Machine;
use super::price::Model;
use super::tree::World;
use crate::common::sets;
use itertools::iproduct;

const A: [usize; 2] = [0, 1];
const B: [usize; 2] = [1, 2];
const C: [usize; 2] = [0, 2];

fn source(mesh: &[u64], sizes: [u64; 3], [a, b, c]: [&Layout; 3]) -> String {
    let [i, j, k] = sizes;
    let (head, dims) = (mesh_text(mesh), format!("dims {{I: {i}, J: {j}, K: {k}}}"));
    let (a, b, c) = (a.text(&["I", "J"]), b.text(&["J", "K"]), c.text(&["I", "K"]));
    format!("{head}\n{dims}\nA: bf16{a}\nB: bf16{b}\nC{c} = A * B\n")
}

/// Compares the plan of every `each`-th program. Returns the number of programs.
fn compare(mesh: &[u64], sizes: [u64; 3], model: Model, each: usize) -> usize {
    let machine = Machine::new(&mesh_text(mesh));
    let planner = machine.planner(model);
    let (parts, of) = match model {
        // In the book's formulas, a part of an axis would have its own links.
        Model::Book => (mesh.to_vec(), (0..mesh.len()).map(|axis| vec![axis]).collect()),
        Model::Bytes => primes(mesh),
    };
    let world = World::new(&sizes, &parts, model, Family::Written);
    let layouts = |[i, j]: [usize; 2]| {
        let sizes = [sizes[i], sizes[j]];
        Layout::closed(2, mesh.len()).into_iter().filter(move |layout| layout.divides(&sizes, mesh))
    };
    let pairs = iproduct!(layouts(A), layouts(B));
    let mut count = 0;
    for (a, b) in pairs {
        let made = world.product(&world.input(&A, &a.in_parts(&of)), &world.input(&B, &b.in_parts(&of)), &C);
        for c in layouts(C) {
            count += 1;
            if count % each == 0 {
                let least = made.price(&c.in_parts(&of)).expect("a product can be brought into every closed layout");
                planner.agrees(&source(mesh, sizes, [&a, &b, &c]), least);
            }
        }
    }
    count
}

#[test]
fn the_27_layouts_on_one_axis() {
    let shapes = [[16, 32, 64], [4096, 64, 8192], [8192, 8192, 64], [512, 8192, 4096]];
    for (axis, sizes, model) in iproduct!([2, 4, 8], shapes, MODELS) {
        assert_eq!(compare(&[axis], sizes, model, 1), 27);
    }
}

/// An axis that does not divide a dim cannot shard it.
#[test]
fn sizes_that_do_not_divide() {
    let mut count = 0;
    for (sizes, model) in iproduct!(iproduct!([4, 6, 8], [4, 6, 8], [4, 6, 8]), MODELS) {
        count += compare(&[4], sizes.into(), model, 1);
    }
    assert_eq!(count, 770);
}

#[test]
fn the_1331_layouts_on_two_axes() {
    let each = if sets::are_full() { 1 } else { 17 };
    for (mesh, sizes) in [([2, 2], [1024, 4096, 2048]), ([4, 2], [1024, 4096, 512])] {
        for model in MODELS {
            assert_eq!(compare(&mesh, sizes, model, each), 1331);
        }
    }
}

/// `D = A * B * C` is a product of a product: all 81 layouts of the four arrays on one axis, and some on two.
#[test]
fn products_of_three() {
    let sizes: [u64; 4] = [64, 1024, 256, 512];
    for (mesh, each) in [(vec![2], 1), (vec![4], 1), (vec![2, 2], if sets::are_full() { 7 } else { 211 })] {
        let machine = Machine::new(&mesh_text(&mesh));
        for model in MODELS {
            let (parts, of) = match model {
                Model::Book => (mesh.clone(), (0..mesh.len()).map(|axis| vec![axis]).collect()),
                Model::Bytes => primes(&mesh),
            };
            let planner = machine.planner(model);
            let world = World::new(&sizes, &parts, model, Family::Written);
            let closed = || Layout::closed(2, mesh.len());
            let all = iproduct!(closed(), closed(), closed(), closed());
            let mut count = 0;
            for (a, b, c, d) in all.step_by(each) {
                let input = |dims: [usize; 2], layout: &Layout| world.input(&dims, &layout.in_parts(&of));
                let first = world.product(&input([0, 1], &a), &input([1, 2], &b), &[0, 2]);
                let made = world.product(&first, &input([2, 3], &c), &[0, 3]);
                let least = made.price(&d.in_parts(&of)).expect("a product can be brought into every closed layout");
                let text = |layout: &Layout, names: [&str; 2]| layout.text(&names);
                let (a, b) = (text(&a, ["I", "J"]), text(&b, ["J", "K"]));
                let (c, d) = (text(&c, ["K", "L"]), text(&d, ["I", "L"]));
                let head = format!("{}\ndims {{I: 64, J: 1024, K: 256, L: 512}}", mesh_text(&mesh));
                planner.agrees(&format!("{head}\nA: bf16{a}\nB: bf16{b}\nC: bf16{c}\nD{d} = A * B * C\n"), least);
                count += 1;
            }
            assert!(count >= 69, "{mesh:?}: {count}");
        }
    }
}
