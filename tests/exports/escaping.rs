//! Names, comments, file names and values stay plain text in every output format: the language's own parser reads the
//! output, finds the same structure as without them, and returns the text. Terminal output contains no control
//! sequences.
//!
//! Python and Graphviz are used where installed; with `SHARDC_TOOLS=required` they must be.
#![allow(missing_docs)]

use crate::common::compile;
use crate::common::process::{self, fed};
use crate::common::tools::{pythons, skipped, there};
use serde_json::Value;
use shardc::diag::Diagnostics;
use shardc::escape::{self, is_steering};
use shardc::export::{jax, mscclpp, stablehlo};
use shardc::picture::graph::{Graph, Node};
use shardc::picture::palette::Kind;
use shardc::picture::svg::{self, Named};
use shardc::picture::trace::trace;
use shardc::plan::unroll;
use shardc::report::{html, snapshot};
use shardc::sim::clock;
use shardc::topology::Hardware;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program whose last line is a statement with a comment.
const PROGRAM: &str = "\
mesh {X: 4 ring} on tpu_v5e
dims {I: 8, J: 8, K: 8}
A: f32[I_X, J]
B: f32[J, K]
C[I, K] = A * B # ";

/// Hostile texts: every control character, and everything that ends a comment, a string, a line or a tag in one of
/// the languages.
fn hostile() -> Vec<String> {
    let steering = ('\0'..=char::MAX).filter(|c| is_steering(*c) && *c != '\n');
    let each = steering.map(|c| format!("a{c}import os; os.system('x')"));
    let words = [
        "\"\"\"\nimport os\n\"\"\"",
        "a\\",
        "a\\\"b'''",
        "*/ } // a\r\nfunc.func @evil() {",
        "</script><script>alert(1)</script><!--",
        "]]>&lt;&#x3c;&amp;<b a=\"'\">",
        "%%{init: {'theme': 'dark'}}%%",
        "\"] --> x[\"y",
        "#60;#quot;`a` **b** _c_ [d](javascript:e)",
        "\\N \\G \\l \\x41 \\u0041 {a|b}",
        "# coding: utf-7",
        "\u{1b}]0;title\u{7}\u{1b}[31m\u{9b}2J",
        "\u{202e}} \u{2066}if\u{2069}",
        "\u{FEFF}\u{FFFE}\u{FFFF}é漢😀",
    ];
    each.chain(words.map(str::to_owned)).collect()
}

fn given(tool: &str, arguments: &[&str], input: &[u8]) -> Output {
    fed(Command::new(tool).args(arguments), input)
}

/// A separate folder for a test, removed at the end.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// JAX modules: Python parses the same statements as without the text, and the docstring contains the file name.
#[test]
fn python_reads_nothing_but_the_module() {
    // Exits with the name if the docstring is right, with an error if the text is not Python, and otherwise with a
    // different tree.
    const READ: &str = "\
import ast, io, json, sys, tokenize
plain, *cases = json.load(sys.stdin)
def tree(text):
    found = ast.parse(text.encode())
    docstring = found.body.pop(0).value.value
    return docstring, ast.dump(found)
_, wanted = tree(plain['module'])
for case in cases:
    list(tokenize.tokenize(io.BytesIO(case['module'].encode()).readline))
    docstring, found = tree(case['module'])
    assert found == wanted, case
    assert docstring.startswith(case['name'] + ' for JAX: '), (docstring, case['name'])
";
    if !there("python3", "--version") {
        return;
    }
    let compiled = compile(PROGRAM);
    type Write = fn(&shardc::plan::Plan, &str, &str) -> String;
    let whole: Write = |plan, name, text| jax::module(plan, name, text, jax::Options { main: true });
    for write in [whole, jax::constraints] {
        let case = |text: &str| {
            let module = write(&compiled.plan, text, &format!("{PROGRAM}{text}"));
            assert!(!module.replace('\n', "").contains(is_steering), "{module}");
            serde_json::json!({ "name": text, "module": module })
        };
        let cases: Vec<Value> = std::iter::once("plain".to_owned()).chain(hostile()).map(|text| case(&text)).collect();
        let output = given("python3", &["-c", READ], serde_json::to_string(&cases).expect("JSON").as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// StableHLO: a comment ends at its line end, so the text without comment lines is unchanged.
#[test]
fn mlir_reads_nothing_but_the_module() {
    let compiled = compile(PROGRAM);
    let plan = unroll::unroll(&compiled.plan).expect("a plan");
    for manual in [false, true] {
        let bare = |text: &str| {
            let module = stablehlo::module(&plan, &format!("{PROGRAM}{text}"), stablehlo::Options { manual });
            assert!(!module.replace('\n', "").contains(is_steering), "{module}");
            let code = module.lines().filter(|line| !line.trim_start().starts_with("//"));
            code.collect::<Vec<_>>().join("\n")
        };
        for text in hostile() {
            assert_eq!(bare(&text), bare("plain"), "{text:?}");
        }
    }
}

/// The same with MLIR's own parser: each module equals the one without the text.
#[test]
fn mlir_parses_nothing_but_the_module() {
    const PARSE: &str = "import json, sys\n\
        from jax._src.interpreters import mlir\n\
        from jax._src.lib.mlir import ir\n\
        def parsed(text):\n\
        \x20   with mlir.make_ir_context():\n\
        \x20       return str(ir.Module.parse(text))\n\
        plain, *others = json.load(sys.stdin)\n\
        plain = parsed(plain)\n\
        assert 'func' in plain\n\
        for text in others:\n\
        \x20   assert parsed(text) == plain, text\n";
    let pythons = pythons();
    let compiled = compile(PROGRAM);
    let plan = unroll::unroll(&compiled.plan).expect("a plan");
    for manual in [false, true] {
        let module = |text: &str| stablehlo::module(&plan, &format!("{PROGRAM}{text}"), stablehlo::Options { manual });
        let modules: Vec<String> =
            ["plain".to_owned()].into_iter().chain(hostile()).map(|text| module(&text)).collect();
        let input = serde_json::to_vec(&modules).expect("texts");
        for python in &pythons {
            let output = given(python.to_str().expect("a path"), &["-c", PARSE], &input);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

fn labelled(text: &str) -> Graph {
    let node = |lines: &[&str]| Node {
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        kind: Kind::Local,
        group: Some(0),
    };
    let nodes = vec![node(&["first", text]), node(&[text])];
    Graph { nodes, edges: vec![(0, 1)], groups: [(0, text.to_owned())].into() }
}

/// Graphviz: the picture contains the text and two nodes.
#[test]
fn graphviz_shows_the_text() {
    if !there("dot", "-V") {
        return;
    }
    let all = hostile();
    // All graphs are passed as one input; Graphviz draws each.
    let graphs: String = all.iter().map(|text| labelled(text).dot()).collect();
    let output = given("dot", &["-Tsvg"], graphs.as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let drawn = String::from_utf8(output.stdout).expect("text");
    let pictures: Vec<&str> = drawn.split_inclusive("</svg>").filter(|text| text.contains("<svg")).collect();
    assert_eq!(pictures.len(), all.len());
    let plain = |text: &str| text.replace('\u{A0}', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    for (text, picture) in all.iter().zip(pictures) {
        let picture = &picture[picture.find("<svg").expect("its start")..];
        let document = roxmltree::Document::parse(picture).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let texts = document.descendants().filter(|node| node.has_tag_name("text"));
        let mut found: Vec<String> = texts.map(|node| plain(node.text().unwrap_or_default())).collect();
        found.sort();
        let shown = plain(&escape::line(text));
        let mut wanted = vec!["first".to_owned(), shown.clone(), shown.clone(), shown];
        wanted.sort();
        assert_eq!(found, wanted, "{text:?}");
    }
}

/// Mermaid: quoted strings contain words and numbered characters, which decode to the text.
#[test]
fn mermaid_shows_the_text() {
    for text in hostile() {
        let graph = labelled(&text).mermaid();
        assert_eq!(graph.lines().count(), labelled("plain").mermaid().lines().count(), "{graph}");
        assert!(!graph.contains("%%") && !graph.replace('\n', "").contains(is_steering), "{graph}");
        let line = graph.lines().find(|line| line.trim_start().starts_with("n1[")).expect("a node");
        let inside = line.trim().strip_prefix("n1[\"").and_then(|rest| rest.strip_suffix("\"]:::local"));
        let inside = inside.expect("a quoted label");
        assert!(!inside.contains(['"', '<', '>', '`', '*', '_', '\\', '&']), "{inside}");
        let mut shown = String::new();
        for (place, part) in inside.split('#').enumerate() {
            let Some((number, rest)) = part.split_once(';').filter(|_| place > 0) else {
                assert_eq!(place, 0, "{inside}");
                shown.push_str(part);
                continue;
            };
            shown.extend(number.parse().ok().and_then(char::from_u32));
            shown.push_str(rest);
        }
        assert_eq!(shown, escape::line(&text));
    }
}

/// The same with Mermaid in a browser: each label is the text, and there are no other elements.
#[test]
fn mermaid_draws_the_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser/node_modules");
    let has_mermaid = folder.join("mermaid/dist/mermaid.min.js").exists();
    if !has_mermaid {
        skipped("Mermaid");
    }
    if !has_mermaid || !there("node", "--version") || !there("chromium", "--version") {
        return;
    }
    let texts = hostile();
    let graphs: Vec<String> = texts.iter().map(|text| labelled(text).mermaid()).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/mermaid.mjs");
    let chromium = String::from_utf8(given("which", &["chromium"], b"").stdout).expect("a path");
    let arguments = [script.to_str().expect("a path"), folder.to_str().expect("a path"), chromium.trim()];
    let output = given("node", &arguments, &serde_json::to_vec(&graphs).expect("texts"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let drawn: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // At the ends of a label, Mermaid treats these as white space.
    let plain = |text: &str| text.replace(['\u{A0}', '\u{FEFF}'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    for (text, drawn) in texts.iter().zip(drawn.as_array().expect("a list")) {
        let labels = |kind: &str| -> Vec<String> {
            drawn[kind].as_array().expect("labels").iter().map(|label| plain(label.as_str().expect("text"))).collect()
        };
        let shown = plain(&escape::line(text));
        assert_eq!(labels("nodes"), [plain(&format!("first{}", escape::line(text))), shown.clone()], "{text:?}");
        assert_eq!((labels("groups"), &drawn["scripts"]), (vec![shown], &Value::from(0)), "{text:?}");
    }
}

/// SVG: parsed as XML, it contains the text and as many elements as without it.
#[test]
fn svg_shows_the_text() {
    let compiled = compile(PROGRAM);
    let (plan, layout) = (&compiled.plan, &compiled.plan.step(compiled.plan.own_layouts()[0]).layout);
    let drawn = |name: &str| svg::layouts(&[Named { name, layout }], &plan.program.mesh, &plan.program.dims);
    let plain = drawn("plain");
    let count = roxmltree::Document::parse(&plain).expect("XML").descendants().filter(|node| node.is_element()).count();
    for text in hostile() {
        let picture = drawn(&text);
        let document = roxmltree::Document::parse(&picture).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(document.descendants().filter(|node| node.is_element()).count(), count, "{text:?}");
        let shown = escape::xml(&text);
        assert!(picture.contains(&shown) && !picture.replace('\n', "").contains(is_steering), "{picture}");
    }
}

/// HTML reports: two scripts, which are the report's own, and the document with the unchanged text.
#[test]
fn html_shows_the_text() {
    let none = Diagnostics::default();
    for text in hostile() {
        let page = html::refused(html::Source { name: &text, text: &text, diagnostics: &none });
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2), "{text:?}");
        assert!(!page.replace('\n', "").contains(is_steering), "{text:?}");
        assert!(page.contains(&format!("<title>{} - shardc</title>", escape::xml(&text))), "{text:?}");
        let (_, data) = page.split_once("id=\"data\">").expect("the document");
        let data: Value = serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
        let lines: Vec<&str> =
            data["program"]["lines"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
        assert_eq!(lines, text.lines().collect::<Vec<_>>());
    }
}

/// JSON: the strings decode to the text.
#[test]
fn json_has_the_text() {
    let compiled = compile(PROGRAM);
    let (_, record) = clock::run_recorded(&compiled.schedule, &compiled.topology).expect("a time");
    for text in hostile() {
        let steps = vec![text.clone(); 8];
        let document = trace(&compiled.schedule, &compiled.topology, &record, &steps);
        assert!(!document.trim_end().contains(is_steering), "{text:?}");
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let mut events = document["traceEvents"].as_array().expect("events").iter();
        assert!(events.any(|event| event["name"] == text.as_str()), "{text:?}");
        let plan = mscclpp::read(&format!(
            "{{\"name\": {}, \"collective\": \"allgather\", \"protocol\": \"Simple\", \"inplace\": false, \"gpus\": []}}",
            serde_json::to_string(&text).expect("JSON")
        ));
        let plan = plan.expect("a plan");
        let written = mscclpp::write(&plan);
        assert!(!written.replace('\n', "").contains(is_steering), "{text:?}");
        assert_eq!(mscclpp::read(&written).expect("a plan"), plan);
    }
}

/// TOML: a profile is read back unchanged.
#[test]
fn toml_has_the_text() {
    for text in hostile() {
        let hardware = Hardware { description: text.clone(), ..Hardware::named("h100").expect("shipped") };
        let written = hardware.to_toml();
        assert!(!written.replace('\n', "").contains(is_steering), "{text:?}");
        assert_eq!(Hardware::from_toml(&written), Ok(hardware), "{text:?}");
    }
}

/// A snapshot has the same number of lines for any file name and options.
#[test]
fn a_snapshot_keeps_its_lines() {
    let compiled = compile(PROGRAM);
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
    let plain = snapshot::snapshot("plain", "plain", &compiled, &timing);
    for text in hostile() {
        let written = snapshot::snapshot(&text, &text, &compiled, &timing);
        assert_eq!(written.lines().count(), plain.lines().count(), "{text:?}");
        assert!(!written.replace('\n', "").contains(is_steering), "{text:?}");
        let change = snapshot::compare(&plain, &written).expect("another name");
        assert_eq!((change.schedule, change.head.len()), ((0, 0), 4), "{text:?}: {change:?}");
    }
}

fn shardc(folder: &Path, arguments: &[&str], input: &str) -> Output {
    fed(&mut process::shardc(folder, arguments), input)
}

/// Asserts that the output of a command contains no control sequences.
fn is_harmless(output: &Output, what: &str) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(stream.clone()).expect("text");
        assert!(!text.replace(['\n', '\t'], "").contains(is_steering), "{what}: {text:?}");
        assert!(!text.contains("panicked"), "{what}: {text}");
    }
    assert!(matches!(output.status.code(), Some(0..=2)), "{what}: {:?}", output.status);
}

/// Programs, schedules and profiles with invisible characters are refused at their place, so that a comment cannot
/// hide a line from the compiler or a meaning from the reader.
#[test]
fn texts_with_control_characters_are_refused_at_their_place() {
    let folder = folder();
    let schedule = "mesh {X: 2 ring}\narray A: f32[I 4] = input # ";
    let profile = Hardware::named("h100").expect("shipped").to_toml() + "# ";
    let wrong = ["\u{1b}[31m", "\rD[I, K] = C", "\u{202e}", "\u{2066}", "\u{85}", "\u{2028}", "\0", "\u{9b}2J"];
    for wrong in wrong {
        let place =
            |text: &str| format!(":{}:{}", text.lines().count(), text.lines().last().expect("one").chars().count() + 1);
        for (text, what) in [(PROGRAM, "program"), (schedule, "schedule"), (&*profile, "profile")] {
            let source = if what == "schedule" {
                format!("{text}{wrong}\n%a = input A[I_X] : f32[2]\n")
            } else {
                format!("{text}{wrong}\n")
            };
            let output = match what {
                "profile" => {
                    std::fs::write(folder.path().join("p.toml"), &source).expect("a file");
                    shardc(folder.path(), &["hardware", "p.toml"], "")
                }
                _ => shardc(folder.path(), &["run", "-"], &source),
            };
            is_harmless(&output, what);
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains(&place(text)), "{what} with {wrong:?}: {told}");
            assert!(told.contains("unexpected"), "{what} with {wrong:?}: {told}");
            assert!(matches!(output.status.code(), Some(1 | 2)) && output.stdout.is_empty(), "{what} with {wrong:?}");
        }
    }
    // This once produced a module that executed the text after the carriage return.
    for to in ["jax", "jax-constraints", "stablehlo"] {
        let output = shardc(folder.path(), &["export", "-", "--to", to], &format!("{PROGRAM}a\rimport os\n"));
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    }
    // CRLF, tabs and a byte order mark are accepted, because editors write them.
    let source = format!("\u{FEFF}{PROGRAM}\ta\n").replace('\n', "\r\n");
    assert!(shardc(folder.path(), &["run", "-"], &source).status.success());
}

/// Schedule names are printed in many places, so names that cannot be printed are refused.
#[test]
fn schedules_with_names_that_cannot_be_shown_are_refused() {
    let folder = folder();
    let written = "mesh {X: 2 ring}\narray A: f32[I 4] = input\n%a = input A[I_X] : f32[2]\noutput %a = A[I_X]\n";
    let right = shardc(folder.path(), &["prove", "-"], written);
    assert!(right.status.success(), "{}", String::from_utf8_lossy(&right.stderr));
    let schedule = shardc::schedule::from_text(written).expect("a schedule").schedule;
    let document: Value = serde_json::from_str(&shardc::schedule::to_json(&schedule)).expect("JSON");
    for text in hostile() {
        for pointer in ["/arrays/0/name", "/arrays/0/dims/0"] {
            let mut document = document.clone();
            *document.pointer_mut(pointer).expect("a name") = text.clone().into();
            for command in ["prove", "time"] {
                let output = shardc(folder.path(), &[command, "-", "--format", "json"], &document.to_string());
                is_harmless(&output, &text);
                assert_eq!(output.status.success(), !text.contains(is_steering), "{text:?}: {output:?}");
                is_harmless(&shardc(folder.path(), &[command, "-"], &document.to_string()), &text);
            }
            if !text.contains(is_steering) {
                let output = shardc(folder.path(), &["export", "-", "--to", "schedule-dot"], &document.to_string());
                assert!(output.status.success(), "{output:?}");
            }
        }
    }
}

/// Terminal output is harmless for any names and contents of files and arguments.
#[test]
fn terminals_are_never_steered() {
    let folder = folder();
    let evil = "\u{1b}]0;t\u{7}\u{1b}[31m\u{9b}2J\u{202e}\r\u{2028}";
    let program = format!("{evil}.shard");
    std::fs::write(folder.path().join(&program), format!("{PROGRAM}\n")).expect("a file");
    let wrong = format!("{evil} wrong.shard");
    std::fs::write(folder.path().join(&wrong), "mesh {X: 2} on tpu_v5e\nA: f32[I_X]\n").expect("a file");
    std::fs::write(folder.path().join(format!("{evil}.toml")), format!("name = \"{}\"", evil.escape_unicode()))
        .expect("a file");
    let schedule = format!("{evil}.schedule");
    std::fs::write(folder.path().join(&schedule), "mesh {X: 2 ring}\n%a = ?\n").expect("a file");
    std::fs::write(folder.path().join("a.xml"), format!("<algo name=\"{0}\" coll=\"&#x9b;{0}\"/>", "\u{9b}\u{202e}"))
        .expect("a file");
    std::fs::write(folder.path().join("a.json"), "{\"gpus\": [], \"threadblocks\": \"\\u001b[31m\", \"\\u009b\": 1}")
        .expect("a file");
    std::fs::create_dir(folder.path().join(evil)).expect("a folder");
    let out = format!("{evil}/out");
    let why = format!("C {evil}");
    let calls: Vec<Vec<&str>> = vec![
        vec!["check", &program, &wrong],
        vec!["check", &program, &wrong, "--format", "json"],
        vec!["run", &program],
        vec!["run", &wrong],
        vec!["run", evil],
        vec!["run", "missing\u{1b}[31m.shard"],
        vec![evil],
        vec!["run", &program, evil],
        vec!["plan", &program, "--set", evil],
        vec!["plan", &program, "--set", "\u{1b}[31mI=4"],
        vec!["plan", &program, "--why", evil],
        vec!["plan", &program, "--why", &why],
        vec!["plan", &program, "--hardware", evil],
        vec!["plan", &program, "--hardware", "\u{1b}[31m.toml"],
        vec!["hardware", "\u{1b}]0;t\u{7}\u{1b}[31m\u{9b}2J\u{202e}\r\u{2028}.toml"],
        vec!["run", &program, "--input", evil],
        vec!["run", &program, "--input", "A=\u{1b}[31m.npy"],
        vec!["run", &program, "--input", "\u{1b}[31m=a.npy"],
        vec!["run", &program, "--save", "C=\u{1b}[31m/a.npy"],
        vec!["run", &program, "--save", "\u{1b}[31m=a.npy"],
        vec!["run", &program, "--save", "C=\u{1b}[31m"],
        vec!["show", &program, evil],
        vec!["fmt", "--check", &program],
        vec!["fmt", &wrong],
        vec!["snapshot", evil],
        vec!["snapshot", "."],
        vec!["snapshot", ".", "--check"],
        vec!["snapshot", ".", "--format", "json"],
        vec!["prove", &schedule],
        vec!["prove", evil],
        vec!["prove", "a.xml"],
        vec!["prove", "a.json"],
        vec!["explain", evil],
        vec!["man", evil],
        vec!["completions", evil],
        vec!["report", &program, "-o", &out],
        vec!["report", &program, "-o", evil],
        vec!["export", &program, "--to", "jax"],
        vec!["export", &program, "--to", "msccl"],
        vec!["export", &program, "--to", "mscclpp"],
        vec!["export", &program, "--to", "goal"],
        vec!["export", &program, "--to", "stablehlo", "--step", evil],
        vec!["export", &program, "--to", "msccl", "--step", evil],
        vec!["compile", &program, "-o", "missing\u{1b}[31m/out"],
        vec!["time", "a.xml", "--mesh", evil],
    ];
    for call in calls {
        is_harmless(&shardc(folder.path(), &call, ""), &format!("{call:?}"));
    }
}

/// Each hostile text would be detected by at least one of the readers here.
#[test]
fn all_that_steers_is_tried() {
    let all: String = hostile().concat();
    let ranges = ['\0'..='\u{1F}', '\u{7F}'..='\u{9F}', '\u{2028}'..='\u{202E}', '\u{2066}'..='\u{2069}'];
    assert!(ranges.into_iter().flatten().all(|c| all.contains(c)));
    assert!(PathBuf::from(env!("CARGO_BIN_EXE_shardc")).exists());
}
