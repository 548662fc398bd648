//! `shardc report` in a real browser: it loads without errors and without network, and interactions show the
//! compiler's data. Without Chromium, node and playwright-core (installed by `.ci/install`) the test is skipped with
//! a message; with `SHARDC_TOOLS=required` it fails. Screenshots are in `target/screenshots`.
#![allow(clippy::print_stderr)]

use crate::common::sets;
use crate::common::tools::skipped;
use itertools::Itertools;
use serde_json::Value;
use shardc::compiler::{self, Compiled, Options};
use shardc::costs::CostModel;
use shardc::picture::blocks::{Along, Blocks};
use shardc::plan::StepId;
use shardc::report::html::{Source, report};
use shardc::report::{Findings, text};
use shardc::sim::clock;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Text that could be mistaken for markup.
const ODD: &str = "\
# </script><script>document.title = 'taken'</script> <!-- <b>bold</b> & &lt; 🙂 {{data}}
mesh {X: 2, Y: 2} on tpu_v5e
dims {I: 16, J': 8, K: 4}
A': bf16[I_X, J']  # Ünïcode 数 \"quotes\" and 'quotes' \\u003c ]]>
B: bf16[J'_Y, K]
unused: bf16[K_X]
C[I_X, K] = A' * B
";

fn examples() -> Vec<(String, String)> {
    let names = [
        "megatron_mlp",
        "fsdp_mlp",
        "book/case3_by_hand",
        "book/all_to_all",
        "machines/two_levels",
        "machines/degraded",
        "blocks/parts_of_a_ring",
        "blocks/layers",
        "furiosa/reduce_scatter",
    ];
    let read = |name: &str| std::fs::read_to_string(format!("examples/{name}.shard")).expect("an example");
    let each = if sets::are_full() { 1 } else { names.len() };
    let some = names.iter().step_by(each);
    let mut all: Vec<(String, String)> = some.map(|name| (name.replace('/', "_"), read(name))).collect();
    all.push(("odd".to_owned(), ODD.to_owned()));
    all.push(("large".to_owned(), LARGE.to_owned()));
    if sets::are_full() {
        all.push(("seventy".to_owned(), seventy()));
        all.push(("experts".to_owned(), read("models/moe_mixtral")));
        all.push(("heads".to_owned(), HEADS.to_owned()));
    }
    all
}

/// A program of seventy statements on 256 devices.
fn seventy() -> String {
    let mut text =
        String::from("mesh {X: 16 ring, Y: 16 ring} on tpu_v5e\ndims {B: 4096, D: 8192, F: 32768}\nx0: bf16[B_X, D]\n");
    for layer in 0..17 {
        writeln!(text, "Win{layer}: bf16[D_X, F_Y]\nWout{layer}: bf16[F_Y, D_X]").expect("a string");
        writeln!(text, "h{layer}[B_X, F_Y] = x{layer} * Win{layer}").expect("a string");
        writeln!(text, "x{}[B_X, D] = gelu(h{layer}) * Wout{layer}", layer + 1).expect("a string");
    }
    text
}

/// Arrays with three cut dims, and an uncut last one.
const HEADS: &str = "\
mesh {X: 2, Y: 2, Z: 4} on tpu_v5e
dims {B: 8, S: 16, N: 8, H: 4}
q: bf16[B_X, S_Y, N_Z, H]
k: bf16[B_X, S_Y, N_Z, H]
r: bf16[B_YX, S, H]
y[B_X, S_Y, N_Z, H] = q + k
z[B_X, S_YZ, N, H] = y
w[B, S_X, H] = r
";

/// An AllReduce over all axes of a torus of 8960 devices.
const LARGE: &str = "\
mesh {X: 16 ring, Y: 20 ring, Z: 28 ring} on tpu_v5p
dims {I: 8960, J: 4096}
A: bf16[I, J]{U_XYZ}
AllReduce_XYZ(A[I, J]{U_XYZ}) -> A[I, J]
";

fn page(name: &str, source: &str) -> (String, Compiled) {
    let (program, diagnostics) = compiler::check(source);
    // Closed forms plan large programs quickly; the choice of the plan is irrelevant here.
    let options = Options { costs: CostModel::Book, alternatives: true, ..Options::default() };
    let compiled = compiler::compile(&program.unwrap_or_else(|| panic!("{name}: {diagnostics:?}")), &options);
    let compiled = compiled.unwrap_or_else(|found| panic!("{name}: {found:?}"));
    let (timing, record) = clock::run_recorded(&compiled.schedule, &compiled.topology).expect("a time");
    let text = Source { name, text: source, diagnostics: &diagnostics };
    (report(text, &compiled, (&timing, &record), Options::default().lowering, false), compiled)
}

/// The data embedded in a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("the data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

/// The block of a device after a collective, derived only from the layout in the plan.
fn holds(compiled: &Compiled, id: StepId, device: shardc::mesh::DeviceId) -> String {
    let (plan, step) = (&compiled.plan, compiled.plan.step(id));
    let mesh = &plan.program.mesh;
    let ranges = step.layout.dims.iter().enumerate().map(|(place, dim)| {
        let range = step.layout.sharding.local_range(place, dim.size, mesh, device);
        format!("{} {}..{}", plan.program.dims.name(dim.id), range.start, range.end)
    });
    ranges.collect::<Vec<_>>().join(", ")
}

/// Program text is data: a page contains only its own markup.
#[test]
fn text_is_never_markup() {
    let (page, _) = page("<img src=x onerror=alert(1)>", ODD);
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert!(!page.contains("<img") && !page.contains("<b>") && !page.contains("<!--"));
    let data = data(&page);
    let lines: Vec<&str> =
        data["program"]["lines"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    assert_eq!(lines, ODD.lines().collect::<Vec<_>>());
}

/// Asserts that pages of large programs and meshes have at most a few megabytes.
fn stays_small(name: &str, page: &str) {
    let most = if name == "large" { 5_000_000 } else { 3_000_000 };
    assert!(page.len() < most, "{name}: {} bytes", page.len());
    eprintln!("{name}: {} bytes", page.len());
}

/// A wrong program has a page as well, which shows the errors, and the exit code reports failure.
#[test]
fn a_wrong_program_has_a_page() {
    let path = std::env::temp_dir().join(format!("shardc-report-{}.html", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
    let output = command
        .args(["report", "tests/cases/wrong/axis_on_two_dims.shard", "-o"])
        .arg(&path)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&path).expect("a page");
    assert_eq!(data(&page)["program"]["diagnostics"][0]["code"], "axis-reused");
    std::fs::remove_file(path).expect("the file");
}

/// The paths of the browser and its driver.
pub(crate) fn browser() -> Option<(PathBuf, PathBuf)> {
    let folder = std::env::var_os("SHARDC_BROWSER").map_or_else(|| PathBuf::from("target/browser"), PathBuf::from);
    let chromium = PathBuf::from("/usr/bin/chromium");
    let node = Command::new("node").arg("--version").output().is_ok();
    let mut missing = Vec::new();
    if !folder.join("node_modules/playwright-core").exists() {
        missing.push(format!("playwright-core in {}", folder.display()));
    }
    if !chromium.exists() {
        missing.push("chromium".to_owned());
    }
    if !node {
        missing.push("node".to_owned());
    }
    if missing.is_empty() {
        return Some((folder.canonicalize().expect("it exists"), chromium));
    }
    skipped(&missing.join(", "));
    None
}

#[test]
fn pages_work_in_a_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = root.join("target/pages");
    std::fs::create_dir_all(&pages).expect("a folder");
    let mut made = Vec::new();
    for (name, source) in examples() {
        let (page, compiled) = page(&name, &source);
        stays_small(&name, &page);
        let path = pages.join(format!("{name}.html"));
        std::fs::write(&path, page).expect("a file");
        made.push((path, source, Some(compiled)));
    }
    let wrong = std::fs::read_to_string("tests/cases/wrong/axis_on_two_dims.shard").expect("a case");
    let found = compiler::check(&wrong).1;
    let path = pages.join("wrong.html");
    std::fs::write(&path, shardc::report::html::refused(Source { name: "wrong", text: &wrong, diagnostics: &found }))
        .expect("a file");
    made.push((path, wrong, None));
    let Some((folder, chromium)) = browser() else { return };
    let mut command = Command::new("node");
    command.arg(root.join("tests/browser/report.mjs")).args([&folder, &chromium, &root.join("target/screenshots")]);
    let output = command.args(made.iter().map(|(path, ..)| path)).output().expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (seen, (_, source, compiled)) in seen.as_array().expect("pages").iter().zip(&made) {
        looked_at(seen, source, compiled.as_ref());
    }
}

/// Pages whose first collective is also played with animations.
const ANIMATED: [&str; 4] = ["megatron_mlp", "experts", "heads", "odd"];

/// Compares observations of a page with its program.
fn looked_at(seen: &Value, source: &str, compiled: Option<&Compiled>) {
    let name = seen["name"].as_str().expect("a name");
    let none: Vec<Value> = Vec::new();
    for list in ["errors", "requests", "nameless"] {
        assert_eq!(seen[list].as_array(), Some(&none), "{name}: {list}");
    }
    assert_eq!(seen["foreign"], 0, "{name}");
    let lines: Vec<&str> = seen["lines"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    assert_eq!(lines, source.lines().collect::<Vec<_>>(), "{name}");
    assert!(seen["desktopWidth"].as_u64() <= Some(1280) && seen["phoneWidth"].as_u64() <= Some(390), "{name}: {seen}");
    prints(name, &seen["printed"]);
    let milliseconds = seen["desktopMilliseconds"].as_u64().expect("a time");
    eprintln!("{name}: opens in {milliseconds} ms");
    // Takes two seconds on an idle machine.
    assert!(milliseconds < 6000, "{name}: {milliseconds} ms");
    let Some(compiled) = compiled else {
        assert!(seen["findings"][0].as_str().is_some_and(|text| text.contains("axis-reused")), "{seen}");
        assert_eq!(seen["marks"].as_array().map(Vec::len), Some(2), "{name}");
        return;
    };
    let plan = &compiled.plan;
    let done = plan.ids().filter(|id| plan.is_done(*id)).count();
    assert_eq!((&seen["steps"], &seen["unfolded"]), (&done.into(), &done.into()), "{name}");
    let place = plan.ids().filter(|id| plan.is_done(*id)).position(|id| {
        plan.case(id).is_some() && plan.choice(plan.step(id).value).is_some_and(|choice| choice.alternatives.len() > 1)
    });
    assert!(place.is_some() || name != "megatron_mlp", "the alternatives are listed");
    if let Some(place) = place {
        assert!(seen["ways"][place].as_u64() > Some(1), "{name}: {}", seen["ways"]);
    }
    zoomed(name, &seen["timeline"]);
    let moved: Vec<StepId> = plan.ids().filter(|id| plan.communicates(*id)).collect();
    let collectives = seen["collectives"].as_array().expect("a list");
    assert!(!collectives.is_empty() || moved.is_empty() || name == "large", "{name}: nothing to play");
    // No click is lost during animations: one for each event leads to the end.
    if ANIMATED.contains(&name) {
        let events = &collectives[0]["events"];
        let end = seen["animated"].as_str().unwrap_or_default();
        assert!(end.starts_with(&format!("Event {events} of {events},")) && end.ends_with("Done."), "{name}: {end}");
    }
    let names = shardc::picture::timeline::step_names(plan);
    let mut unseen = moved.iter();
    for played in collectives {
        let id = unseen
            .find(|id| played["name"] == names[id.index()].as_str())
            .unwrap_or_else(|| panic!("{name}: {played}"));
        assert!(played["events"].as_u64() > Some(0), "{name}: {played}");
        assert_eq!((&played["begin"], &played["end"]), (&played["again"], &played["jumped"]), "{name}");
        let rows = played["end"].as_array().expect("devices");
        assert!(!rows.is_empty(), "{name}: {played}");
        for row in rows {
            let device = plan.program.mesh.devices().find(|device| row[0] == plan.program.mesh.place(*device).as_str());
            let (expected, text) = (holds(compiled, *id, device.expect("a device")), row[1].as_str().expect("text"));
            let open = !plan.step(*id).layout.sharding.open.is_empty();
            // Pieces that have been used in computations are removed when the last one arrives.
            let in_pieces = plan.overlap.pipeline(*id).is_some() && !text.is_empty();
            assert!(
                text == expected || in_pieces || (open && text.starts_with(&expected)),
                "{name} {}: {row}, not {expected}",
                played["name"]
            );
        }
    }
    if !collectives.is_empty() {
        assert!(
            seen["keyboard"].as_str().is_some_and(|text| text.starts_with("Event 1 of")),
            "{name}: {}",
            seen["keyboard"]
        );
    }
    assert_eq!(seen["theme"], serde_json::json!([["light", "false"], ["dark", "true"]]), "{name}");
    let first = seen["sections"].as_array().and_then(|all| all.get(..2)).unwrap_or_default();
    assert_eq!(first, ["summary", "timeline"], "{name}: what is looked for stands first");
    let figures = ["Time", "Exposed communication", "Received per device", "Peak memory per device"];
    assert_eq!(seen["figures"], serde_json::json!(figures), "{name}");
    summarised(name, compiled, seen);
    let named = seen["named"].as_array().expect("colours");
    assert!(named.iter().all_unique(), "{name}: {named:?}");
    placed(name, &seen["onMesh"]);
    // No device is drawn too thin, however it is divided.
    for size in seen["drawn"].as_array().expect("sizes") {
        let [width, height] = [0, 1].map(|side| size[side].as_f64().expect("a length"));
        assert!(width < 8.0 * height && height < 8.0 * width && height < 300.0, "{name}: {width} x {height}");
    }
    blocks(name, compiled, &seen["blocks"]);
}

/// Asserts that the top of the page shows the time, its bound, and the resource that limits it, as the compiler does.
fn summarised(name: &str, compiled: &Compiled, seen: &Value) {
    let findings = Findings::new(&compiled.plan, &compiled.topology);
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    let values: Vec<&str> = seen["values"].as_array().expect("values").iter().filter_map(Value::as_str).collect();
    let time = findings.seconds(timing.makespan).to_string();
    assert!(values.len() == 4 && values[0].starts_with(&time), "{name}: {values:?}, not {time}");
    let limits = seen["limit"].as_array().expect("limits").iter().filter_map(Value::as_str);
    let expected = text::limit(&findings).map(|limit| limit.to_lowercase() + ".");
    assert_eq!(limits.map(str::to_lowercase).collect_vec(), expected.into_iter().collect_vec(), "{name}");
}

/// Asserts that printed pages are light in both themes, and that nothing is cut off.
fn prints(name: &str, printed: &Value) {
    assert_eq!(
        (&printed["paper"], &printed["ink"]),
        (&"rgb(255, 255, 255)".into(), &"rgb(27, 27, 27)".into()),
        "{name}"
    );
    assert!(printed["width"].as_u64() <= Some(720) && printed["cut"] == serde_json::json!([]), "{name}: {printed}");
    assert_eq!(printed["themes"], serde_json::json!(["dark", "light", "dark"]), "{name}");
}

/// Asserts that devices with equal blocks show them at the same position of their frame, and others at other positions.
fn placed(name: &str, meshes: &Value) {
    for mesh in meshes.as_array().expect("meshes") {
        let devices: Vec<(&str, &str)> = mesh
            .as_array()
            .expect("devices")
            .iter()
            .filter_map(|one| Some((one[0].as_str()?, one[1].as_str()?)))
            .collect();
        let (blocks, places) = (devices.iter().map(|one| one.0).unique(), devices.iter().map(|one| one.1).unique());
        let pairs = devices.iter().unique().count();
        assert_eq!((blocks.count(), places.count()), (pairs, pairs), "{name}: {devices:?}");
    }
}

/// Asserts that zooming in halves the visible range, and can be undone.
fn zoomed(name: &str, views: &Value) {
    let Some(all) = views["all"].as_array() else { return };
    let length = |view: &str| views[view][1].as_f64().expect("a time") - views[view][0].as_f64().expect("a time");
    let close = |left: f64, right: f64| (left - right).abs() <= 1e-6 * right;
    assert_eq!(all[0], 0, "{name}");
    assert!(close(length("in"), length("all") / 2.0), "{name}: {views}");
    assert!(views["later"][0].as_f64() > views["in"][0].as_f64(), "{name}: {views}");
    assert_eq!(views["key"], views["all"], "{name}");
    assert!(close(length("plus"), length("all") / 2.0), "{name}: {views}");
    assert!(length("wheel") < 0.9 * length("all"), "{name}: {views}");
    assert!(views["colors"].as_u64() > Some(3), "{name}: {views}");
}

/// Asserts that the page computes the same holders of each block as the compiler.
fn blocks(name: &str, compiled: &Compiled, pictures: &Value) {
    let plan = &compiled.plan;
    let mesh = &plan.program.mesh;
    for (id, array) in plan.own_layouts().into_iter().map(|id| (id, plan.array(id))).take(8) {
        let blocks = Blocks::new(&plan.step(id).layout, mesh, &plan.program.dims);
        let drawn = pictures.as_array().expect("pictures").iter().find(|picture| {
            picture[0].as_str().is_some_and(|label| {
                label
                    .strip_prefix(&array)
                    .is_some_and(|rest| rest.starts_with(": ") && !rest.contains("each device with"))
            })
        });
        let drawn = drawn.unwrap_or_else(|| panic!("{name}: no picture of {array}"));
        let titles: Vec<&str> = drawn[1].as_array().expect("titles").iter().filter_map(Value::as_str).collect();
        if blocks.dims.iter().any(|dim| dim.ranges.len() > 16) || blocks.count() > 16 {
            continue;
        }
        let expected = blocks.all().map(|block| {
            let range = |(dim, at): (&shardc::picture::blocks::Split, &usize)| {
                format!("{} {}..{}", dim.name, dim.ranges[*at].start.min(dim.size), dim.ranges[*at].end.min(dim.size))
            };
            let ranges: Vec<String> = blocks.dims.iter().zip(&block).map(range).collect();
            let devices: Vec<String> = blocks.devices(&block).iter().map(Along::to_string).collect();
            format!("{} on ({})", ranges.join(", "), devices.join(","))
        });
        assert_eq!(titles, expected.collect::<Vec<_>>(), "{name}: {array}");
    }
}
