//! `shardc show`: layouts drawn as blocks, with and without color, and never wider than a terminal.

use shardc::compiler::{self, Options};
use shardc::picture::terminal::{Paint, blocks};

/// Each kind of layout: cut along one or several dims, replicated, open, padded, too large to draw completely, and
/// with more dims than a screen shows.
const PROGRAM: &str = "\
mesh {X: 4, Y: 2, Z: 32}
dims {I: 4096, J: 512, K: 30, L: 4}
matrix: bf16[I_X, J_Y]
copies: f32[I, J]
sum: f32[I, J]{U_X}
rows: f32[I_XY, J]
columns: f32[I, J_YX]
large: f32[I_Z, J_XY]
uneven: f32[K_X, J]
deep: f32[L_X, K_Y, I, J_Z]
line: i32[I_X]
";

fn drawn(paint: Paint) -> String {
    let program = compiler::check(&format!("{PROGRAM}{}", used())).0.expect("a right program");
    let options = Options::default();
    let topology = compiler::machine(&program, &options).expect("a machine");
    let plan = compiler::plan(&program, &topology, &options).expect("a plan");
    let inputs = plan.ids().filter(|id| plan.operands(*id).is_empty());
    let draw = |id| blocks(&plan.array(id), &plan.step(id).layout, &plan.program.mesh, &plan.program.dims, (paint, 80));
    inputs.map(draw).collect::<Vec<_>>().join("\n")
}

/// Uses all inputs; an unused input would cause a warning and have no step.
fn used() -> String {
    let names = PROGRAM.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| format!("output {name}\n")).collect()
}

#[test]
fn layouts_are_drawn_in_80_columns() {
    let text = drawn(Paint::Plain);
    insta::with_settings!({snapshot_path => "../../snapshots/show", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("plain", text);
        insta::assert_snapshot!("color", drawn(Paint::Color).replace('\x1b', "␛"));
    });
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line == line.trim_end()), "{text}");
}

/// Color output differs only in color.
#[test]
fn colour_only_colours() {
    let plain = |text: &str| {
        let text: String = text
            .split('\x1b')
            .enumerate()
            .map(|(place, part)| if place == 0 { part } else { part.split_once('m').expect("a colour").1 })
            .collect();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(plain(&drawn(Paint::Color)), plain(&drawn(Paint::Plain)));
}
