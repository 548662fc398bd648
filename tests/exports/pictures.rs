//! Timelines and graphs agree with the simulation, and their target tools accept them.

use crate::common::process::fed;
use crate::common::tools::there;
use crate::common::{compile, programs, short_name};
use itertools::Itertools;
use serde_json::Value;
use shardc::compiler::{self, Compiled, Options};
use shardc::costs::CostModel;
use shardc::escape;
use shardc::picture::blocks::Blocks;
use shardc::picture::graph::{Graph, Node};
use shardc::picture::lanes::lanes;
use shardc::picture::palette::Kind;
use shardc::picture::svg::{self, Named};
use shardc::picture::terminal::Paint;
use shardc::picture::timeline::{Scope, Timeline, step_names};
use shardc::picture::trace::trace;
use shardc::schedule::OpId;
use shardc::sim::clock::{self, Record, Resource, Timing};
use shardc::units::Time;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;

/// The examples that compile quickly, compiled once for all tests.
fn examples() -> &'static [(String, Compiled)] {
    static EXAMPLES: LazyLock<Vec<(String, Compiled)>> = LazyLock::new(|| {
        let small = programs("examples").into_iter().filter(|path| !short_name(path).contains("/models/"));
        let compiled = small.map(|path| {
            let source = std::fs::read_to_string(&path).expect("an example");
            (short_name(&path), compile(&source))
        });
        compiled.collect()
    });
    &EXAMPLES
}

fn example(name: &str) -> Compiled {
    compile(&std::fs::read_to_string(format!("examples/{name}.shard")).expect("an example"))
}

fn recorded(compiled: &Compiled) -> (Timing, Record) {
    clock::run_recorded(&compiled.schedule, &compiled.topology).expect("a time")
}

fn timeline(compiled: &Compiled, scope: Scope) -> Timeline {
    let (timing, record) = recorded(compiled);
    Timeline::new(&compiled.schedule, &compiled.topology, (&timing, &record), Some(&compiled.plan), scope)
}

/// The record agrees with the run: each link is busy as long as the simulator counts, never with two operations at
/// once, and only during the operation.
#[test]
fn the_record_is_what_the_clock_did() {
    for (name, compiled) in examples() {
        let (timing, record) = recorded(compiled);
        assert_eq!(timing, clock::run(&compiled.schedule, &compiled.topology).expect("a time"), "{name}");
        assert!(!record.cut, "{name}");
        let mut busy: BTreeMap<Resource, (Time, Time)> = BTreeMap::new();
        for used in &record.uses {
            let (sum, until) = busy.entry(used.resource).or_default();
            assert!(*until <= used.start && used.start <= used.finish, "{name}: {used:?}");
            (*sum, *until) = (*sum + (used.finish - used.start), used.finish);
            let interval = timing.operation(used.operation);
            assert!(interval.start <= used.start && used.finish <= interval.finish, "{name}: {used:?}");
        }
        let mut engines = vec![Time::ZERO; timing.engines.len()];
        for (resource, (sum, _)) in &busy {
            match resource {
                Resource::Link(link) => assert_eq!(timing.link(*link).busy, *sum, "{name}"),
                Resource::Engine(_, engine) => engines[engine.index()] = engines[engine.index()].max(*sum),
            }
        }
        assert_eq!(engines, timing.engines, "{name}");
        // Unused links represent no busy links: the busy ones are images of the used ones.
        let most = busy.iter().filter(|(resource, _)| matches!(resource, Resource::Link(_))).map(|(_, (sum, _))| *sum);
        assert_eq!(most.max().unwrap_or_default(), timing.busiest_link_time(), "{name}");
    }
}

#[test]
fn timelines_are_drawn_in_80_columns() {
    let (mut plain, mut color) = (String::new(), String::new());
    for name in ["megatron_mlp", "fsdp_mlp", "attention", "furiosa/all_reduce", "machines/two_levels", "book/case1"] {
        let compiled = example(name);
        let timeline = timeline(&compiled, Scope::Kinds);
        for (text, paint) in [(&mut plain, Paint::Plain), (&mut color, Paint::Color)] {
            *text += &format!("{name}\n{}\n", lanes(&timeline, compiled.topology.scale, paint, 80));
        }
    }
    insta::with_settings!({snapshot_path => "../../snapshots/show", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("timeline", plain);
        insta::assert_snapshot!("timeline_color", color.replace('\x1b', "␛"));
    });
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    let compiled = example("fsdp_mlp");
    let narrow = lanes(&timeline(&compiled, Scope::Kinds), compiled.topology.scale, Paint::Plain, 50);
    assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
}

/// A trace conforms to the Trace Event Format: each use is a complete event of a named thread, and events of a thread
/// do not overlap, in whole nanoseconds as viewers count.
#[test]
fn traces_are_in_the_trace_event_format() {
    for (name, compiled) in examples() {
        let (timing, record) = recorded(compiled);
        let text = trace(&compiled.schedule, &compiled.topology, &record, &step_names(&compiled.plan));
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let events = document["traceEvents"].as_array().expect("a list of events");
        let number =
            |event: &Value, key: &str| event[key].as_f64().unwrap_or_else(|| panic!("{name}: {key} of {event}"));
        let whole =
            |event: &Value, key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{name}: {key} of {event}"));
        let mut named = Vec::new();
        let mut until: BTreeMap<(u64, u64), f64> = BTreeMap::new();
        let mut seconds = 0.0;
        for event in events {
            assert!(event["name"].is_string() && event["args"].is_object(), "{name}: {event}");
            let thread = (whole(event, "pid"), whole(event, "tid"));
            match event["ph"].as_str() {
                Some("M") => {
                    if event["name"] == "thread_name" {
                        assert!(event["args"]["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
                        named.push(thread);
                    }
                }
                Some("X") => {
                    assert!(named.contains(&thread), "{name}: a thread without a name has {event}");
                    let (start, length) = (number(event, "ts"), number(event, "dur"));
                    let before = until.entry(thread).or_default();
                    // Whole nanoseconds as decimal microseconds: the error of a sum of two is far below one.
                    assert!(length >= 0.0 && start >= *before - 1e-6, "{name}: {event}");
                    *before = start + length;
                    seconds += number(&event["args"], "seconds");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        let end = until.values().copied().fold(0.0, f64::max);
        assert!(end <= compiled.topology.scale.seconds(timing.makespan) * 1e6 + 1e-3, "{name}");
        let busy: Time = record.uses.iter().map(|used| used.finish - used.start).sum();
        let busy = compiled.topology.scale.seconds(busy);
        assert!((seconds - busy).abs() <= 1e-9 * busy, "{name}: {seconds} and {busy}");
    }
}

/// Unrolled layers on 256 devices: many steps of each kind, and arrays with many blocks.
fn written_out(layers: usize) -> Compiled {
    let mut text = String::from("mesh {X: 16 ring, Y: 16 ring} on tpu_v5e\ndims {B: 4096, D: 8192, F: 32768}\n");
    text.push_str("x0: bf16[B_X, D]\n");
    for layer in 0..layers {
        text += &format!("Win{layer}: bf16[D_X, F_Y]\nWout{layer}: bf16[F_Y, D_X]\n");
        text += &format!("h{layer}[B_X, F_Y] = x{layer} * Win{layer}\n");
        text += &format!("x{}[B_X, D] = gelu(h{layer}) * Wout{layer}\n", layer + 1);
    }
    let options = Options { costs: CostModel::Book, ..Options::default() };
    let program = compiler::check(&text).0.expect("a right program");
    compiler::preview(&program, &options).expect("a plan")
}

/// All steps of a timeline have different colors, and the colors of a kind have one hue.
#[test]
fn each_step_has_a_color_of_its_own() {
    let compiled = written_out(12);
    let timeline = timeline(&compiled, Scope::Kinds);
    let (used, colors) = (timeline.used(), timeline.colors());
    assert!(used.len() > 100, "{used:?}");
    assert!(used.iter().map(|step| colors[*step as usize]).all_unique());
    let kinds: Vec<Kind> = used.iter().map(|step| timeline.kinds[*step as usize]).collect();
    assert!([Kind::Product, Kind::AllGather, Kind::ReduceScatter].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    let picture = svg::timeline(&timeline, compiled.topology.scale);
    // Only the first of many steps are labelled.
    for (place, step) in used.iter().enumerate().take(60) {
        assert!(
            picture.contains(&format!(">{} {}</text>", place + 1, escape::xml(&timeline.step(*step)))),
            "{picture}"
        );
        assert!(picture.contains(&format!("fill=\"{}\"", colors[*step as usize])));
    }
}

/// Pictures of large programs fit on a page, and arrays with equal drawings are drawn once.
#[test]
fn pictures_of_large_programs_fit_a_page() {
    for layers in [1, 12, 60] {
        let compiled = written_out(layers);
        let plan = &compiled.plan;
        let names: Vec<String> = plan.own_layouts().into_iter().map(|id| plan.array(id)).collect();
        let layouts = plan.own_layouts().into_iter().map(|id| &plan.step(id).layout);
        let arrays: Vec<Named<'_>> = names.iter().zip(layouts).map(|(name, layout)| Named { name, layout }).collect();
        let layouts = svg::layouts(&arrays, &plan.program.mesh, &plan.program.dims);
        let timeline = svg::timeline(&timeline(&compiled, Scope::Kinds), compiled.topology.scale);
        for picture in [&layouts, &timeline] {
            let (_, size) = picture.split_once("viewBox=\"0 0 ").expect("a size");
            let (width, rest) = size.split_once(' ').expect("a width");
            let (height, _) = rest.split_once('"').expect("a height");
            let [width, height]: [usize; 2] = [width, height].map(|number| number.parse().expect("a number"));
            assert!(width <= 1250 && height <= 2400, "{layers} layers: {width} x {height}");
        }
        let bold = layouts.matches("class=\"t\"").count();
        assert!(bold <= 16, "{bold} lines of names");
        assert!(names.iter().all(|name| layouts.contains(&escape::xml(name))), "each array is named");
    }
}

/// Three cut dims are all drawn: each block has a row and a column of its own.
#[test]
fn three_cut_dims_are_drawn() {
    let source = "mesh {X: 2, Y: 2, Z: 2} on tpu_v5e\ndims {B: 8, S: 16, N: 8, H: 4}\n\
                  q: bf16[B_X, S_Y, N_Z, H]\nr: bf16[B_X, S_Y, H]\ns: bf16[B_X, S, H]\n\
                  output q\noutput r\noutput s\n";
    let compiled = compile(source);
    let plan = &compiled.plan;
    let drawn = |name: &str| {
        let id = plan.own_layouts().into_iter().find(|id| plan.array(*id).starts_with(name)).expect("an array");
        Blocks::new(&plan.step(id).layout, &plan.program.mesh, &plan.program.dims).rows_and_column()
    };
    assert_eq!(drawn("q"), (vec![0, 1], Some(2)));
    assert_eq!(drawn("r"), (vec![0], Some(1)));
    assert_eq!(drawn("s"), (vec![0], None));
}

/// Graphs beyond Mermaid's limits are folded: every operation is counted in one node, and no limit is exceeded.
#[test]
fn schedules_beyond_the_limits_of_mermaid_are_folded() {
    let compiled = example("models/tensor_parallel");
    let (schedule, plan) = (&compiled.schedule, Some(&compiled.plan));
    let whole = Graph::of_schedule(schedule, plan);
    let beyond = whole.beyond_mermaid(&whole.mermaid()).expect("it is too large");
    assert!(beyond.contains("characters, at most 50000") && beyond.contains("edges, at most 500"), "{beyond}");
    let folded = Graph::of_folded_schedule(schedule, plan);
    assert_eq!(folded.beyond_mermaid(&folded.mermaid()), None);
    let count = |node: &Node| match node.lines[0].split_once(" x ") {
        Some((count, _)) => count.parse().expect("a number"),
        None => 1,
    };
    assert_eq!(folded.nodes.iter().map(count).sum::<usize>(), whole.nodes.len());
    assert!(folded.edges.iter().all(|(from, to)| from != to) && folded.edges.iter().all_unique());
    assert_eq!(folded.groups, whole.groups);
    let small = Graph::of_plan(&compiled.plan);
    assert_eq!(small.beyond_mermaid(&small.mermaid()), None);
}

/// A graph whose labels could be mistaken for markup.
fn odd() -> Graph {
    let texts = [
        "<script>alert(1)</script>",
        "a \"quote\" and \\n a slash\\",
        "naïve 数 🙂 \u{202e}",
        "end #quot; ; --> x",
        "",
    ];
    let node =
        |text: &&str| Node { lines: vec![(*text).to_owned(), "B_X".to_owned()], kind: Kind::Local, group: Some(0) };
    let groups = BTreeMap::from([(0, "\"]; <b>".to_owned())]);
    Graph { nodes: texts.iter().map(node).collect(), edges: vec![(0, 1), (1, 2)], groups }
}

/// Graphviz draws every graph, with a box for each node and an arrow for each edge. Skipped with a message if
/// Graphviz is missing.
#[test]
fn graphviz_draws_the_graphs() {
    if !there("dot", "-V") {
        return;
    }
    let mut graphs = vec![("odd".to_owned(), odd())];
    for (name, compiled) in examples() {
        graphs.push((format!("plan of {name}"), Graph::of_plan(&compiled.plan)));
        if compiled.schedule.operations.node_count() < 100 {
            graphs.push((name.clone(), Graph::of_schedule(&compiled.schedule, Some(&compiled.plan))));
        }
    }
    for (name, graph) in graphs {
        let output = fed(Command::new("dot").arg("-Tsvg"), graph.dot());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let svg = String::from_utf8(output.stdout).expect("text");
        let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
        assert_eq!((count("node"), count("edge")), (graph.nodes.len(), graph.edges.len()), "{name}");
        assert!(!svg.contains("<script"), "{name}");
    }
}

/// The graph of a schedule contains exactly its operations and operands.
#[test]
fn graphs_have_a_node_for_each_step_and_operation() {
    for (name, compiled) in examples() {
        let (plan, schedule) = (&compiled.plan, &compiled.schedule);
        let graph = Graph::of_plan(plan);
        assert_eq!(
            (graph.nodes.len(), graph.edges.len()),
            (plan.steps.node_count(), plan.steps.edge_count()),
            "{name}"
        );
        let graph = Graph::of_schedule(schedule, Some(plan));
        let (nodes, edges) = (schedule.operations.node_count(), schedule.operations.edge_count());
        assert_eq!((graph.nodes.len(), graph.edges.len()), (nodes, edges), "{name}");
        for (from, to) in graph.edges {
            assert!(schedule.operands(OpId::new(to)).contains(&OpId::new(from)), "{name}");
        }
    }
}

/// Mermaid reads no markup from text, because special characters are written as numbers.
#[test]
fn text_stays_text_in_mermaid() {
    let text = odd().mermaid();
    for line in text.lines().filter(|line| line.contains("[\"")) {
        let (_, rest) = line.split_once("[\"").expect("quoted");
        let (inside, _) = rest.rsplit_once("\"]").expect("quoted");
        assert!(!inside.replace("<br/>", "").contains(['<', '>', '"', '`', '\\']), "{line}");
    }
    insta::with_settings!({snapshot_path => "../../snapshots/show", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("mermaid", Graph::of_plan(&example("megatron_mlp").plan).mermaid() + &text);
    });
}

/// Pictures are well-formed XML: each tag is closed, and names are not parsed as tags.
#[test]
fn pictures_are_well_formed() {
    for (name, compiled) in examples() {
        let plan = &compiled.plan;
        let names: Vec<String> = plan.own_layouts().into_iter().map(|id| plan.array(id)).collect();
        let layouts = plan.own_layouts().into_iter().map(|id| &plan.step(id).layout);
        let arrays: Vec<Named<'_>> = names.iter().zip(layouts).map(|(name, layout)| Named { name, layout }).collect();
        let text = svg::layouts(&arrays, &plan.program.mesh, &plan.program.dims);
        well_formed(name, &text);
        for array in &arrays {
            assert!(text.contains(&escape::xml(array.name)), "{name}: {}", array.name);
        }
        well_formed(name, &svg::timeline(&timeline(compiled, Scope::Kinds), compiled.topology.scale));
    }
    assert_eq!(escape::xml("<a b=\"'&\u{1}\">"), "&lt;a b=&quot;&#39;&amp;\\u{1}&quot;&gt;");
}

/// Asserts that every tag is closed in the order of opening, and that quotes are paired.
fn well_formed(name: &str, text: &str) {
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').unwrap_or_else(|| panic!("{name}: <{part}"));
        assert!(tag.matches('"').count() % 2 == 0 && !rest.contains('>'), "{name}: <{part}");
        let word = tag.split([' ', '/']).next().unwrap_or_default();
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(closed), _) => assert_eq!(open.pop().as_deref(), Some(closed), "{name}"),
            (None, true) => {}
            (None, false) => open.push(word.to_owned()),
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

/// The pictures of the README are generated: `SHARDC_PICTURES=write` updates them.
#[test]
fn the_pictures_of_the_readme_are_true() {
    let source = std::fs::read_to_string("examples/megatron_mlp.shard").expect("an example");
    assert!(compiler::check(&source).0.is_some());
    let compiled = example("megatron_mlp");
    let plan = &compiled.plan;
    let names: Vec<String> = plan.own_layouts().into_iter().map(|id| plan.array(id)).collect();
    let layouts = plan.own_layouts().into_iter().map(|id| &plan.step(id).layout);
    let arrays: Vec<Named<'_>> = names.iter().zip(layouts).map(|(name, layout)| Named { name, layout }).collect();
    let pictures = [
        ("docs/pictures/layouts.svg", svg::layouts(&arrays, &plan.program.mesh, &plan.program.dims)),
        ("docs/pictures/timeline.svg", svg::timeline(&timeline(&compiled, Scope::Kinds), compiled.topology.scale)),
    ];
    for (path, picture) in pictures {
        if std::env::var("SHARDC_PICTURES").is_ok_and(|wish| wish == "write") {
            std::fs::create_dir_all("docs/pictures").expect("a folder");
            std::fs::write(path, &picture).expect("a file");
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), picture, "{path} is out of date");
    }
}
