//! `shardc sweep --output` in a real browser: its plots and its table show the figures of the JSON document.

use crate::common::process::{shardc, text};
use crate::report_html::browser;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const MLP: &str = "mesh {X: 8, Y: 2} on tpu_v5e\ndims {B: 512, D: 1024, F: 1024}\nx: bf16[B_X, D]\nW: bf16[D_Y, F_X]\n\
                   y[B_X, F] = x * W\nlimit memory 4MB\noutput y\n";

/// The arguments of three sweeps: lines with points that have no plan, axes one after the other, and one point.
const SWEEPS: [&[&str]; 3] = [
    &["--set", "X=2,8", "--hardware", "tpu_v5e,h100", "--set", "B=64..16k", "--crossings", "--overlap", "none"],
    &["--set", "X=8,2x2,4x2", "--overlap", "none"],
    &["--overlap", "none"],
];

#[test]
fn plots_show_the_figures_of_the_points() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = root.join("target/pages");
    std::fs::create_dir_all(&pages).expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m.shard"), MLP).expect("a file");
    let mut made = Vec::new();
    for (number, arguments) in SWEEPS.iter().enumerate() {
        let path = pages.join(format!("sweep_{number}.html"));
        let output = ["--output", path.to_str().expect("a name"), "--format", "json"];
        let run =
            shardc(folder.path(), &[&["sweep", "m.shard"], *arguments, &output].concat()).output().expect("it runs");
        assert!(run.status.success(), "{}", text(&run.stderr));
        let document: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        made.push((path, document));
    }
    let Some((folder, chromium)) = browser() else { return };
    let mut command = Command::new("node");
    command.arg(root.join("tests/browser/sweep.mjs")).args([&folder, &chromium, &root.join("target/screenshots")]);
    let output = command.args(made.iter().map(|(path, _)| path)).output().expect("node runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let none = Value::Array(Vec::new());
    for (seen, (_, document)) in seen.iter().zip(&made) {
        assert_eq!((&seen["errors"], &seen["requests"], &seen["nameless"]), (&none, &none, &Value::from(0)));
        assert!(seen["width"].as_u64() <= Some(1280) && seen["phone"].as_u64() <= Some(390), "{seen}");
        let points = document["points"].as_array().expect("points");
        assert_eq!(seen["rows"].as_array().map(Vec::len), Some(points.len()));
        assert_eq!(seen["crossings"].as_array().map(Vec::len), document["crossings"].as_array().map(Vec::len));
        let planned: Vec<&Value> = points.iter().filter(|point| point["figures"].is_object()).collect();
        let keys =
            ["time_s", "exposed_s", "compute_s", "bytes_received_per_device", "peak_bytes_per_device", "utilisation"];
        let plots = seen["plots"].as_array().expect("plots");
        assert_eq!(plots.len(), keys.len());
        for (plot, key) in plots.iter().zip(keys) {
            assert_eq!(plot["outside"], 0, "{plot}");
            assert!(plot["lines"] == seen["legend"].as_array().map_or(1, |legend| legend.len().max(1)), "{plot}");
            let drawn = plot["points"].as_array().expect("points");
            assert_eq!(drawn.len(), planned.len(), "{plot}");
            // A larger figure is drawn higher, an equal one at the same height.
            let height = |drawn: &Value| drawn[2].as_f64().expect("a height");
            let mut heights: Vec<f64> = drawn.iter().map(height).collect();
            let mut figures: Vec<f64> =
                planned.iter().map(|point| point["figures"][key].as_f64().expect("a figure")).collect();
            heights.sort_by(|a, b| b.total_cmp(a));
            figures.sort_by(f64::total_cmp);
            for (heights, figures) in heights.windows(2).zip(figures.windows(2)) {
                let is_same = (figures[1] - figures[0]).abs() <= figures[1].abs() * 1e-9;
                assert!(is_same == (heights[0] - heights[1] < 1e-6), "{key}: {heights:?} {figures:?}");
            }
        }
    }
    let lines = |place: usize| seen[place]["legend"].as_array().map(Vec::len);
    assert_eq!((lines(0), lines(1), lines(2)), (Some(4), Some(0), Some(0)));
}
