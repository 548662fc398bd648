//! `shardc sweep` and `shardc diff`: the outputs in `docs/sweep.md` are real, and each point equals the result of
//! `shardc plan`.

use crate::common::page::remade;
use crate::common::process::{shardc, text};
use crate::common::sets;
use serde_json::Value;
use std::path::Path;

/// The document with the outputs of its commands.
fn made(document: &str, folder: &Path) -> String {
    remade(document, |fence| {
        let marker = fence.marker.expect("a marker");
        if marker.starts_with("sweep ") {
            let output = shardc(folder, &marker.split(' ').collect::<Vec<_>>()).output().expect("it runs");
            assert!(output.status.success(), "{marker}: {}", text(&output.stderr));
            return text(&output.stdout);
        }
        std::fs::write(folder.join(marker), fence.body).expect("a file");
        fence.body.to_owned()
    })
}

#[test]
fn the_document_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sweep.md");
    let document = std::fs::read_to_string(&path).expect("the document");
    let folder = tempfile::tempdir().expect("a folder");
    let made = made(&document, folder.path());
    if std::env::var("SHARDC_SWEEP").is_ok_and(|asked| asked == "write") {
        std::fs::write(&path, &made).expect("the document is written");
        return;
    }
    assert_eq!(made, document, "`SHARDC_SWEEP=write cargo test --test command sweep` writes it anew");
}

const MLP: &str = "mesh {X: 8, Y: 2} on tpu_v5e\ndims {B: 512, D: 1024, F: 1024}\nx: bf16[B_X, D]\nW: bf16[D_Y, F_X]\n\
                   y[B_X, F] = x * W\nlimit memory 4MB\noutput y\n";

/// The best point is the one with the fastest plan, according to separate plans.
#[test]
fn points_are_plans() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m.shard"), MLP).expect("a file");
    let json = |arguments: &[&str]| -> Value {
        let output = shardc(folder.path(), arguments).output().expect("it runs");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let sizes = ["--set", "B=512,16k", "--set", "X=1..16", "--set", "Y=1..16", "--devices", "16", "--format", "json"];
    let swept = json(&[&["sweep", "m.shard"][..], &sizes].concat());
    let points = swept["points"].as_array().expect("points");
    assert_eq!(points.len(), 10);
    let mut best = [f64::INFINITY; 2];
    for point in points {
        let sizes = point["sizes"].as_array().expect("sizes").iter();
        let size = |size: &Value| format!("{}={}", size["name"].as_str().expect("a name"), size["size"]);
        let set: Vec<String> = sizes.flat_map(|given| ["--set".to_owned(), size(given)]).collect();
        let plan = [&["plan", "m.shard", "--format", "json"][..], &set.iter().map(String::as_str).collect::<Vec<_>>()];
        let plan = json(&plan.concat());
        let Some(figures) = point["figures"].as_object() else {
            assert!(plan["diagnostics"].as_array().is_some_and(|found| !found.is_empty()), "{point} {plan}");
            assert!(point["error"].as_str().is_some_and(|why| why.starts_with("limit-exceeded")), "{point}");
            continue;
        };
        let received = &plan["totals"]["bytes_received_per_device"];
        assert_eq!(figures["bytes_received_per_device"], *received, "{point}\n{plan}");
        let row = usize::from(point["sizes"][0]["size"] != 512);
        best[row] = best[row].min(figures["time_s"].as_f64().expect("a time"));
    }
    for row in [0, 1] {
        let marked =
            points.iter().filter(|point| point["best"] == true && (point["sizes"][0]["size"] != 512) == (row == 1));
        let marked: Vec<f64> = marked.filter_map(|point| point["figures"]["time_s"].as_f64()).collect();
        assert!(marked == [best[row]] || marked.is_empty() && best[row].is_infinite(), "{marked:?} {best:?}");
    }
    assert!(best[0].is_finite());
}

#[test]
fn what_cannot_be_swept_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m.shard"), MLP).expect("a file");
    let told = |arguments: &[&str]| {
        let output = shardc(folder.path(), &[&["sweep", "m.shard"][..], arguments].concat()).output().expect("it runs");
        (output.status.code(), text(&output.stderr) + &text(&output.stdout))
    };
    for (arguments, code, words) in [
        (&["--set", "Q=1..4"][..], 2, "unknown dim or axis `Q`"),
        (&["--set", "B=8..4"], 2, "is not a valid range"),
        (&["--set", "B=1", "--set", "B=2"], 2, "is given twice"),
        (&["--set", "B=1..1M+1"], 2, "more than 65536 points"),
        (&["--set", "X=1..4", "--devices", "7"], 2, "no mesh of the sweep has 7 devices"),
        (&["--set", "B=1M"], 1, "limit-exceeded"),
        (&["--set", "X=0"], 1, "size-zero"),
        (&["--hardware", "abacus"], 2, "abacus"),
    ] {
        let (found, text) = told(arguments);
        assert!(found == Some(code) && text.contains(words), "{arguments:?}: {found:?} {text}");
    }
}

/// The report lists each difference between two plans once, and nothing that both have in common.
#[test]
fn plans_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.shard"), MLP).expect("a file");
    std::fs::write(folder.path().join("b.shard"), MLP.replace("W: bf16[D_Y, F_X]", "W: bf16[D, F]")).expect("a file");
    let diff =
        |second: &str| text(&shardc(folder.path(), &["diff", "a.shard", second]).output().expect("it runs").stdout);
    let same = diff("a.shard");
    assert!(!same.contains("different layouts") && !same.contains("only in"), "{same}");
    let found = diff("b.shard");
    assert!(found.contains("W[D_Y, F_X] -> W[D, F]") && found.contains("communication only in a.shard\n- "), "{found}");
    assert!(!found.contains("communication only in b.shard"), "{found}");
}

/// Ten thousand points of the FSDP program of the book's thresholds, with the time that they take; 100 unless the run is full.
#[expect(clippy::print_stdout, reason = "a long run prints its time")]
#[test]
fn ten_thousand_points() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/thresholds.md")).expect("the page");
    let (_, program) = page.split_once("<!-- fsdp.shard -->\n```shard\n").expect("the program");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("fsdp.shard"), program.split("```").next().expect("a block")).expect("a file");
    let count = if sets::are_full() { 10_000 } else { 100 };
    let start = std::time::Instant::now();
    let set = format!("B=64..{}+64", 64 * count);
    let arguments = ["sweep", "fsdp.shard", "--set", &set, "--overlap", "none", "--format", "csv"];
    let output = shardc(folder.path(), &arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    println!("{count} points: {:.1?}", start.elapsed());
    let lines = text(&output.stdout);
    let times: Vec<f64> = lines
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(3).and_then(|time| time.parse().ok()).expect("a time"))
        .collect();
    assert_eq!(times.len(), count);
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1] * 1.0001), "more rows take longer");
}
