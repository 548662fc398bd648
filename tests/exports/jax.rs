//! Runs JAX modules on forced host devices: results equal those of whole arrays, and the lowered program contains the
//! plan's collectives.
//!
//! Requires Python with JAX: the one named by `SHARDC_PYTHON`, `target/python` (created by `.ci/install`), or
//! `python3`. Without it, the tests are skipped with a message; with `SHARDC_TOOLS=required` they fail. A part of the
//! programs also runs in a newer JAX, that of `target/python-3.12`, if `.ci/install` could create it.
#![allow(clippy::print_stdout, missing_docs)]

use crate::common::page;
use crate::common::tools::pythons;
use crate::common::{apart, programs, sets, short_name};
use itertools::Itertools;
use serde_json::Value;
use shardc::collective::{Collective, CollectiveKind};
use shardc::compiler::{self, Options, Spelling};
use shardc::costs::CostModel;
use shardc::export::{jax, stablehlo};
use shardc::layout::Layout;
use shardc::mesh::{AxisSet, Mesh};
use shardc::operator::Operator;
use shardc::plan::{Plan, StepOp, unroll};
use shardc::syntax::Extent;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longer dims are halved while they are even.
const LONGEST: u64 = 32;

/// A collective: its kind in StableHLO, its groups, and the minimum bytes received per device.
type Seen = (String, BTreeSet<BTreeSet<u64>>, u64);

/// The plan of a program with its long dims shortened.
fn small_plan(source: &str, costs: CostModel) -> Plan {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{found:?}"));
    let mut sizes: Vec<(String, Extent)> = Vec::new();
    for name in program.dims.names() {
        let mut size = program.dims.named(name).expect("a dim of the program").size;
        while size > LONGEST && size.is_multiple_of(2) {
            size /= 2;
        }
        let size = if program.repeats.is_empty() || name != "LAYERS" { size } else { 2 };
        let tried = [sizes.clone(), vec![(name.to_owned(), Extent::Size(size))]].concat();
        // Dims defined by others follow them.
        if compiler::check_with(source, &tried, Spelling::Exact, None).is_ok() {
            sizes = tried;
        }
    }
    let program = compiler::check_with(source, &sizes, Spelling::Exact, None).ok().and_then(|(program, _)| program);
    let program = program.unwrap_or_else(|| panic!("not legal with {sizes:?}\n{source}"));
    let options = Options { costs, ..Options::default() };
    let topology = compiler::machine(&program, &options).expect("a machine");
    compiler::plan(&program, &topology, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"))
}

/// The target language, which determines the available collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tongue {
    Jax,
    StableHlo,
}

/// The collectives of a plan with unrolled repeats.
fn planned(plan: &Plan, tongue: Tongue) -> Vec<Seen> {
    let mesh = &plan.program.mesh;
    let mut seen = Vec::new();
    for id in plan.ids() {
        let StepOp::Collective(collective) = &plan.step(id).op else { continue };
        let mut from = plan.step(plan.operands(id)[0]).layout.clone();
        // A routed move is exported as the chain that it replaces.
        let Collective::Reshard { by, .. } = collective else {
            seen.extend(sent(collective, &from, mesh, tongue));
            continue;
        };
        for collective in by {
            seen.extend(sent(collective, &from, mesh, tongue));
            from.sharding = collective.apply(&from.sharding, mesh).expect("a chain of moves");
        }
    }
    seen
}

/// The exported form of a collective; nothing if nothing is sent.
fn sent(collective: &Collective, from: &Layout, mesh: &Mesh, tongue: Tongue) -> Vec<Seen> {
    if let Collective::Shift(shift) = collective {
        let extent = from.local_extents(mesh)[usize::from(shift.dim)];
        let n = collective.axes(&from.sharding, mesh).group_size(mesh);
        let everyone = groups(mesh, mesh.axis_ids().collect(), collective);
        let row = from.local_bytes(mesh).0 / extent;
        let parts = shift.parts(extent).filter(|part| !shift.pairs(part.blocks, n).is_empty());
        let part = |part: shardc::shift::Part| {
            ("collective_permute".to_owned(), everyone.clone(), row * (part.from.end - part.from.start))
        };
        return parts.map(part).collect();
    }
    one_sent(collective, from, mesh, tongue).into_iter().collect()
}

fn one_sent(collective: &Collective, from: &Layout, mesh: &Mesh, tongue: Tongue) -> Option<Seen> {
    if !collective.kind().sends() {
        return None;
    }
    let axes = collective.axes(&from.sharding, mesh);
    let operator = from.sharding.operator.combiner();
    // The exported program sends all elements, used or not.
    let bytes = collective.bytes_received(&Layout { used: None, ..from.clone() }, mesh).0;
    let local = from.local_bytes(mesh).0;
    let members = axes.group_size(mesh);
    // Collectives without a JAX primitive are composed of others.
    let (kind, bytes) = match (collective.kind(), operator) {
        (CollectiveKind::AllGather, _) => ("all_gather", bytes),
        (CollectiveKind::ReduceScatter, operator) if operator == Operator::Sum || tongue == Tongue::StableHlo => {
            ("reduce_scatter", bytes)
        }
        (CollectiveKind::ReduceScatter, _) => ("all_to_all", bytes),
        (CollectiveKind::AllReduce, Operator::Mul) if tongue == Tongue::Jax => ("all_gather", local * (members - 1)),
        (CollectiveKind::AllReduce, _) => ("all_reduce", bytes),
        (CollectiveKind::AllToAll, _) => ("all_to_all", bytes),
        (CollectiveKind::Permute, _) => ("collective_permute", bytes),
        (CollectiveKind::Broadcast, _) => ("all_reduce", 2 * (local * (members - 1)).div_ceil(members)),
        (CollectiveKind::Reshard | CollectiveKind::Shift | CollectiveKind::Slice | CollectiveKind::Open, _) => {
            return None;
        }
    };
    Some((kind.to_owned(), groups(mesh, axes, collective), bytes))
}

/// Groups of devices that differ along these axes only. For a permute, all groups form one list of pairs.
fn groups(mesh: &Mesh, axes: AxisSet, collective: &Collective) -> BTreeSet<BTreeSet<u64>> {
    let mut groups: BTreeMap<Vec<u32>, BTreeSet<u64>> = BTreeMap::new();
    for device in mesh.devices() {
        let others = mesh.axis_ids().filter(|axis| !axes.contains(*axis));
        let place = others.map(|axis| mesh.coordinate(device, axis)).collect();
        groups.entry(place).or_default().insert(u64::from(device.0));
    }
    match collective {
        Collective::Permute { .. } | Collective::Shift(_) => [(0..mesh.device_count() as u64).collect()].into(),
        _ => groups.into_values().collect(),
    }
}

/// The collectives of a lowered program.
fn lowered(answer: &Value) -> Vec<Seen> {
    let list = answer["collectives"].as_array().expect("a list");
    let number = |value: &Value| value.as_u64().expect("a number");
    list.iter()
        .map(|one| {
            let kind = one["kind"].as_str().expect("a kind").to_owned();
            let groups: Vec<Vec<u64>> = one["groups"]
                .as_array()
                .expect("groups")
                .iter()
                .map(|group| group.as_array().expect("a group").iter().map(number).collect())
                .collect();
            let (local, members) = (number(&one["bytes"]), groups[0].len() as u64);
            let share = (local * (members - 1)).div_ceil(members);
            let bytes = match kind.as_str() {
                "all_gather" => local * (members - 1),
                "reduce_scatter" | "all_to_all" => share,
                "all_reduce" => 2 * share,
                "collective_permute" => local,
                other => panic!("no such collective is planned: {other}"),
            };
            let groups = match kind.as_str() {
                // Each device is a source and a destination once.
                "collective_permute" => {
                    let of = |place: usize| -> BTreeSet<u64> { groups.iter().map(|pair| pair[place]).collect() };
                    assert_eq!(of(0), of(1));
                    [of(0)].into()
                }
                _ => groups.into_iter().map(|group| group.into_iter().collect()).collect(),
            };
            (kind, groups, bytes)
        })
        .collect()
}

/// Writes the modules, runs them, and returns the answers by name.
fn driven(python: &Path, folder: &str, modules: &BTreeMap<String, String>) -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in modules {
        std::fs::write(folder.join(name.replace('/', "__")), text).expect("a file");
    }
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jax/drive.py");
    let output = Command::new(python).arg(driver).arg(&folder).output().expect("python runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let name = |answer: &Value| answer["name"].as_str().expect("a name").replace("__", "/");
    answers.into_iter().map(|answer| (name(&answer), answer)).collect()
}

/// Mismatches between the results and those of whole arrays.
fn off(name: &str, answer: &Value) -> Vec<String> {
    if let Some(error) = answer["error"].as_str() {
        return vec![format!("{name}: {error}")];
    }
    let differences = answer["differences"].as_object().expect("differences").iter();
    let is_off = |found: &Value| {
        let (difference, exact) = (found[0].as_f64().expect("a number"), found[1].as_bool().expect("a flag"));
        if exact { difference > 0.0 } else { difference > 0.05 }
    };
    differences.filter(|(_, found)| is_off(found)).map(|(output, found)| format!("{name}: {output} {found}")).collect()
}

/// Modules, and their expected collectives.
#[derive(Clone, Default)]
struct Cases {
    modules: BTreeMap<String, String>,
    wanted: BTreeMap<String, Vec<Seen>>,
}

impl Cases {
    fn add_python(&mut self, name: &str, source: &str, plan: &Plan) {
        let name = format!("{name}.py");
        let options = jax::Options { main: true };
        self.modules.insert(name.clone(), jax::module(plan, &name, source, options));
        self.wanted.insert(name, planned(&unroll::unroll(plan).expect("short enough"), Tongue::Jax));
    }

    fn add_manual(&mut self, name: &str, source: &str, plan: &Plan) {
        let (name, plan) = (format!("{name}.manual.mlir"), unroll::unroll(plan).expect("short enough"));
        let options = stablehlo::Options { manual: true };
        self.modules.insert(name.clone(), stablehlo::module(&plan, source, options));
        self.wanted.insert(name, planned(&plan, Tongue::StableHlo));
    }

    /// Adds a module of whole arrays; the compiler chooses its collectives.
    fn add_whole(&mut self, name: &str, source: &str, plan: &Plan) {
        let (name, plan) = (format!("{name}.mlir"), unroll::unroll(plan).expect("short enough"));
        self.modules.insert(name.clone(), stablehlo::module(&plan, source, stablehlo::Options::default()));
        self.wanted.insert(name, Vec::new());
    }

    /// Adds a JAX module of whole arrays with constraints.
    fn add_constraints(&mut self, name: &str, source: &str, plan: &Plan) {
        let name = format!("{name}.constraints.py");
        self.modules.insert(name.clone(), jax::constraints(plan, &name, source));
        self.wanted.insert(name, Vec::new());
    }

    /// Every `each`-th program in all its forms.
    fn some(&self, each: usize) -> Cases {
        let program = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let programs: BTreeSet<String> = self.modules.keys().map(|name| program(name)).collect();
        let some: BTreeSet<String> = programs.into_iter().step_by(each).collect();
        let mut cases = self.clone();
        cases.modules.retain(|name, _| some.contains(&program(name)));
        cases.wanted.retain(|name, _| some.contains(&program(name)));
        cases
    }

    /// Runs all programs in the first JAX. In a newer one, runs every `each`-th program, or all in a full run.
    fn run(&self, pythons: &[PathBuf], folder: &str, each: usize) {
        let Some((first, newer)) = pythons.split_first() else { return };
        self.run_in(first, folder);
        let some = self.some(if sets::are_full() { 1 } else { each });
        newer.iter().for_each(|python| some.run_in(python, &format!("{folder}-newer")));
    }

    fn run_in(&self, python: &Path, folder: &str) {
        let answers = driven(python, folder, &self.modules);
        let (mut collectives, mut faults) = (0, Vec::new());
        for (name, wanted) in &self.wanted {
            let answer = &answers[name];
            let found = off(name, answer);
            if answer["error"].is_null() && lowered(answer) != *wanted {
                faults.push(format!("{name}: {:?}\ninstead of {wanted:?}", lowered(answer)));
            }
            faults.extend(found);
            collectives += wanted.len();
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        println!("{} modules, {collectives} collectives", self.wanted.len());
    }
}

/// The layouts of a matrix on three axes: `[I_XZ, J]{U_Y}`.
fn layouts() -> Vec<String> {
    let mut found = Vec::new();
    for places in (0..3).map(|_| 0..4usize).multi_cartesian_product() {
        let on = |place: usize| -> Vec<char> {
            "XYZ".chars().zip(&places).filter(|(_, at)| **at == place).map(|(axis, _)| axis).collect()
        };
        let (rows, columns, open) = (on(1), on(2), on(3));
        for i in rows.iter().permutations(rows.len()) {
            for j in columns.iter().permutations(columns.len()) {
                let under =
                    |axes: &[&char]| if axes.is_empty() { String::new() } else { format!("_{}", axes.iter().join("")) };
                let sum = if open.is_empty() { String::new() } else { format!("{{U_{}}}", open.iter().join("")) };
                found.push(format!("[I{}, J{}]{sum}", under(&i), under(&j)));
            }
        }
    }
    assert_eq!(found.len(), 92);
    found
}

/// Arrays in each layout, moved to some others; every 26th one unless the run is full.
fn reshards() -> impl Iterator<Item = String> {
    let all = layouts();
    let each = if sets::are_full() { 1 } else { 26 };
    let closed: Vec<String> = all.iter().filter(|layout| !layout.contains('{')).cloned().collect();
    all.into_iter().enumerate().step_by(each).map(move |(number, from)| {
        let moved = (0..5).map(|place| {
            let to = &closed[(number * 7 + place * 11) % closed.len()];
            format!("B{place}{to} = A\noutput B{place}\n")
        });
        let ground = "mesh {X: 2, Y: 2, Z: 2} on tpu_v5p\ndims {I: 16, J: 8}\n";
        format!("{ground}A: i32{from}\n{}", moved.collect::<String>())
    })
}

/// The correct programs of the language rules, with their prelude.
fn rules() -> Vec<String> {
    let page = include_str!("../cases/rules.md");
    let mut blocks = page.split("```shard").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    let prelude = blocks.next().and_then(|block| block.strip_prefix(" prelude\n")).expect("a prelude");
    let right = blocks.filter_map(|block| block.strip_prefix('\n'));
    let is_mesh = |line: &str| line.to_lowercase().starts_with("mesh") || line.starts_with("{'");
    let whole = |block: &str| match block.lines().any(is_mesh) {
        true => block.to_owned(),
        false => format!("{prelude}{block}"),
    };
    right.map(whole).collect()
}

/// The page about JAX shows real output; JAX is not needed.
#[test]
fn the_page_is_true() {
    const PAGE: &str = include_str!("../../docs/coming-from/jax.md");
    let source = page::block(PAGE, "mlp.shard");
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{found:?}"));
    let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
    assert!(shardc::expect::judge(&compiled.plan, &compiled.topology, None).iter().next().is_none());
    let module = jax::module(&compiled.plan, "mlp.shard", source, jax::Options::default());
    let device = page::block(PAGE, "device.py");
    assert!(module.contains(device), "{module}");
}

/// The instructions in `docs/coming-from/jax.md`: the module as a script, on the available devices.
#[test]
fn a_module_is_a_script() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("megatron_mlp.py");
    let written = Command::new(env!("CARGO_BIN_EXE_shardc"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["export", "examples/megatron_mlp.shard", "--to", "jax", "--main", "-o"])
        .arg(&path)
        .output()
        .expect("the command runs");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    for python in pythons() {
        let run = Command::new(python).arg(&path).env("JAX_PLATFORMS", "cpu").env_remove("XLA_FLAGS").output();
        let run = run.expect("python runs");
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert!(text.contains("us on 8 devices") && text.contains("Out: matches the dense result"), "{text}");
    }
}

/// A body starts with a closed array and receives an open sum, which is closed once before the loop.
#[test]
fn what_a_body_begins_with_is_moved_before_its_loop() {
    let ground = "mesh {Z: 2} on tpu_v5e\ndims {I: 4, J: 4}\nD: f32[J, I_Z]\nD * D -> F[J_?]\n";
    let mut cases = Cases::default();
    for (name, costs) in [("bytes", CostModel::Bytes), ("book", CostModel::Book), ("exact", CostModel::Exact)] {
        for times in 1..3 {
            let source = format!("{ground}repeat {times} {{\n    F = tanh(F)\n}}\noutput F\n");
            let plan = small_plan(&source, costs);
            let module = jax::module(&plan, name, &source, jax::Options::default());
            let (before, body) = module.split_once("    def layer(").expect("a loop");
            let looped = body.split("return").next().unwrap_or_default();
            assert!(before.contains("lax.") && !looped.contains("lax."), "{module}");
            cases.add_python(&format!("{name}_{times}"), &source, &plan);
        }
    }
    cases.run(&pythons(), "bodies", 1);
}

/// Loops over several carried and stacked arrays, of all that may be special about them.
#[test]
fn loops_run_in_jax() {
    let ground = "mesh {X: 2, Y: 2} on tpu_v5e\ndims {B: 8, D: 8, F: 7}\nx: f32[B_X, D]\n";
    let body = "    W: f32[D_X, F_Y]\n    V: f32[F_Y, D_X]\n    t[B_X, D] = tanh(x * W) * V\n";
    let cases = [
        // One array takes the place of another; the stacks are padded.
        ("swap", format!("y: f32[B, D]\nrepeat 3 {{\n{body}    y = x\n    x = t + y\n}}\noutput x, y\n"), true),
        // Two start with the same array, which is needed in the body and afterwards.
        (
            "start",
            format!("y = x\nz = x\nrepeat 2 {{\n{body}    y = t + x\n    z = y - z\n}}\noutput x, y, z\n"),
            false,
        ),
        // Partial results are stacked, too.
        ("open", "repeat 2 {\n    P: f32[B_X, D]{U_Y}\n    x = x + AllReduce_Y(P)\n}\noutput x\n".to_owned(), true),
        // One loop after another, the first without stacks.
        ("two", format!("repeat 2 {{\n    x = tanh(x)\n}}\nrepeat 2 {{\n{body}    x = x + t\n}}\noutput x\n"), true),
    ];
    let mut modules = Cases::default();
    for (name, text, keeps_names) in cases {
        let source = format!("{ground}{text}");
        let plan = small_plan(&source, CostModel::Exact);
        let module = jax::module(&plan, name, &source, jax::Options::default());
        let function = module.split("def device").nth(1).and_then(|rest| rest.split("def run").next());
        let scans = function.expect("a function").lines().filter(|line| line.contains("lax.scan"));
        for line in scans.filter(|_| keeps_names) {
            let (names, call) = line.trim().split_once(", _ = lax.scan(layer, ").expect("a call");
            assert!(call.starts_with(names), "{line}");
        }
        modules.add_python(name, &source, &plan);
        modules.add_manual(name, &source, &plan);
        modules.add_constraints(name, &source, &plan);
    }
    modules.run(&pythons(), "loops", 2);
}

#[test]
fn rules_and_reshards_run_in_jax() {
    let pythons = pythons();
    if pythons.is_empty() {
        return;
    }
    let named = |word: &'static str| move |(number, source): (usize, String)| (format!("{word}_{number:03}"), source);
    let sources = rules().into_iter().enumerate().map(named("rule"));
    let sources: Vec<(String, String)> = sources.chain(reshards().enumerate().map(named("reshard"))).collect();
    let mut cases = Cases::default();
    for (number, (name, source)) in sources.iter().enumerate() {
        if number % 2 > 0 && !sets::are_full() {
            continue;
        }
        let plan = small_plan(source, CostModel::Book);
        cases.add_python(name, source, &plan);
        if number % 12 == 0 || sets::are_full() {
            cases.add_manual(name, source, &plan);
        }
    }
    cases.run(&pythons, "rules", 12);
}

/// Row lookups with several layouts of the table and the row numbers, with reordered dims, and with padded rows.
#[test]
fn lookups_run_in_jax() {
    let pythons = pythons();
    if pythons.is_empty() {
        return;
    }
    let tables = ["V, D", "V_X, D", "V_YX, D", "D_Y, V_X", "V_X, D, F_Y", "D, V_Y, F"];
    let numbers = [("B", "B"), ("B_X, S", "S, B"), ("S, B_Y", "B_X, S")];
    let mut cases = Cases::default();
    for (number, (table, (ids, first))) in tables.into_iter().cartesian_product(numbers).enumerate() {
        let (ids_dtype, dtype) = if number % 2 == 0 { ("i32", "f32") } else { ("i64", "bf16") };
        let last = if table.contains('F') { "F, D" } else { "D" };
        for rows in [8, 7] {
            let source = format!(
                "mesh {{X: 4, Y: 2}} on tpu_v5p\ndims {{B: 8, S: 4, V: {rows}, D: 4, F: 6}}\nids: {ids_dtype}[{ids}]\n\
                 E: {dtype}[{table}]\ny[{first}, {last}] = {dtype}(ids == iota_V) * E"
            );
            // With overlap, a plan may move the comparison instead of the rows.
            let plan = apart(&source).plan;
            let text = jax::module(&plan, "lookup", &source, jax::Options { main: false });
            assert!(text.contains("rows_of(") && text.contains("jnp.take"), "{source}\n{text}");
            cases.add_python(&format!("lookup_{number}_{rows}"), &source, &plan);
        }
    }
    cases.run(&pythons, "lookups", 6);
}

/// Programs on 4-bit integers: weights, functions, and collectives. `k` has the ends of the range, at which results wrap.
const FOUR_BITS: [&str; 3] = [
    "mesh {X: 4, Y: 2} on tpu_v5e\n\
     dims {B: 16, D: 32, F: 64, G: 6}\n\
     x: bf16[B_X, D]\n\
     W: i4[D_Y, F]\n\
     s: bf16[F]\n\
     y[B_X, F] = (x * W) .* s\n\
     q: i4[B_X, D]\n\
     r: i4[D, F_Y]\n\
     z[B_X, F_Y] = q * r\n\
     t = sum_D(q)\n\
     u: u4[B_X, G]\n\
     v = i8(u) - 3\n\
     w = max_D(q)\n\
     n[B, G] = u4(v + 3)\n\
     m = q .* q\n\
     output y, z, t, v, w, n, m\n",
    "mesh {X: 4, Y: 2} on tpu_v5e\n\
     dims {B: 16, D: 32, E: 6, N: 5, K: 64}\n\
     q: i4[B_X, D]{U_Y}\n\
     a[B_X, D] = q\n\
     b[B, D_X] = a\n\
     c: i4[B_X, E]\n\
     d: u4[B_X, E]\n\
     e = c + d\n\
     f = c .* i16(d)\n\
     f2 = d .* d\n\
     g = where(c > 2, c, 1)\n\
     h[B, E] = c\n\
     i[B_X, E] = shift_B(c, 1)\n\
     j: f32[B_X, E]\n\
     k = i4(100 * j)\n\
     l = u4(100 * j)\n\
     m = c ** 2 * 3\n\
     n = min_E(d)\n\
     o = i32(c == 1)\n\
     r = cumsum_B(i32(c))\n\
     s: i4[E, K_Y]\n\
     t = d * s\n\
     u: i8[E, K_Y]\n\
     v = c * u\n\
     w = abs(c) + -c\n\
     x = max(c, 3)\n\
     y: f8e4m3[D, E]\n\
     z = a * y\n\
     ids: u4[N_X]\n\
     T: f32[D, K_Y]\n\
     p = take_D(T, ids)\n\
     tb: i4[B_X, D_Y]\n\
     pk = slice_{D->E}(tb, 4)\n\
     a2 = 5 * c\n\
     a3 = 9 * d + 9\n\
     a4 = min(c, 100)\n\
     a5[B_X, E] = max(c, -20)\n\
     b1 = abs(k) + -k\n\
     b2 = 5 * k\n\
     b3 = k .* k\n\
     b4 = k * s\n\
     b5 = sum_E(k)\n\
     b6 = max(k, 3)\n\
     b7 = max_E(l)\n\
     output b1, b2, b3, b4, b5, b6, b7, a2, a3, a4, a5, b, e, f, f2, g, h, i, k, l, m, n, o, r, t, v, w, x, z, p, pk\n",
    "mesh {X: 4, Y: 2} on tpu_v5e\n\
     dims {B: 16, D: 32}\n\
     a: i4[B_X, D]\n\
     c: u4[B, D]{U_X}\n\
     g: i4[B_X, D]{ROOT_Y}\n\
     h: i4[B, D]{MAX_XY}\n\
     s: i4[B_X, D]{SQUARE_ADD_Y}\n\
     p: u4[B_X, D_Y]\n\
     gathered[B, D] = a\n\
     scattered[B_X, D] = c\n\
     summed[B, D] = c\n\
     exchanged[B, D_X] = a\n\
     broadcast[B_X, D] = g\n\
     greatest[B, D] = h\n\
     squares[B_X, D] = s\n\
     permuted[B_Y, D] = p\n\
     turned[B_XY, D] = p\n\
     output gathered, scattered, summed, exchanged, broadcast, greatest, squares, permuted, turned\n",
];

/// JAX computes 4-bit integers on few devices and mixes them with nothing, so that modules compute in 8 bits.
#[test]
fn four_bits_run_in_jax() {
    let pythons = pythons();
    if pythons.is_empty() {
        return;
    }
    let mut cases = Cases::default();
    for (number, source) in FOUR_BITS.into_iter().enumerate() {
        let (name, plan) = (format!("four_{number}"), small_plan(source, CostModel::default()));
        cases.add_python(&name, source, &plan);
        cases.add_manual(&name, source, &plan);
        cases.add_whole(&name, source, &plan);
        cases.add_constraints(&name, source, &plan);
    }
    cases.run(&pythons, "four", 1);
}

/// Declared kernels with a reference and without one, in every form: with summed dims that the result lacks, in several
/// dtypes, in functions and loops. The driver sets the functions of those without a reference.
#[test]
fn kernels_run_in_jax() {
    const MM: &str = "kernel mm(x[B, D], w[D, K]) -> [B, K], shard B, D, K, reference x * w\n";
    const WIDE: &str = "kernel mm(x[B, D], w[D, K]) -> f32[B, K], shard B, D, K, reference f32(x) * f32(w)\n";
    const SHARES: &str = "kernel shares(x[B, D]) -> [B, D], shard B, reference x / (1 + sum_D(x .* x))\n";
    const TOTAL: &str = "kernel total(x[B, D]) -> [D], shard B, D, reference sum_B(x)\n";
    let pythons = pythons();
    if pythons.is_empty() {
        return;
    }
    let mut sources = Vec::new();
    let layouts =
        [("[B_X, D_Y]", "[D_Y, K]"), ("[B, D_XY]", "[D_XY, K]"), ("[B_Y, D]", "[D, K_X]"), ("[B, D]", "[D_Y, K]")];
    let dtypes = ["f32", "bf16", "f16", "i32", "i64", "f64"];
    for ((number, (x, w)), result) in layouts.into_iter().enumerate().cartesian_product(["", "[B_X, K]", "[B_Y, K_X]"])
    {
        let dtype = dtypes[sources.len() % dtypes.len()];
        sources.push(format!("{MM}x: {dtype}{x}\nw: {dtype}{w}\ny{result} = mm(x, w)\n"));
        if number < 2 {
            let open = if number == 0 { "[B_X, K]{U_Y}" } else { "[B, K]{U_XY}" };
            sources.push(format!("{WIDE}x: bf16{x}\nw: {dtype}{w}\ny{open} = mm(x, w)\noutput y\n"));
        }
    }
    for (dtype, x) in dtypes.into_iter().take(3).cartesian_product(["[B_XY, D]", "[B_Y, D_X]"]) {
        sources.push(format!("{SHARES}x: {dtype}{x}\ny{x} = shares(x)\n"));
        sources.push(format!("{TOTAL}x: {dtype}{x}\ny[D] = total(x)\nz = total(f32(x))\noutput y, z\n"));
    }
    let attend = "kernel attend(q[B, S, N, H], k[B, T, N, H], v[B, T, N, H]) -> [B, S, N, H], shard B, S, N, \
                  reference softmax_T(0.5 * (q *_H k)) *_T v\nq: bf16[B_X, S, N_Y, H]\nk: bf16[B_X, T, N_Y, H]\n\
                  v: bf16[B, T_X, N_Y, H]\no[B_X, S_Y, N, H] = attend(q, k, v)\n";
    sources.push(attend.to_owned());
    // Dtypes that only a reference has; names of arrays that are those of functions in the module.
    sources.push(
        "kernel halves(x[B, D]) -> i32[B, D], shard B, D, reference i32(100 * x)\nx: f32[B_X, D_Y]\n\
         kernel_1: f32[B_X, D]\nKERNELS: f32[B_X, D]\ny = halves(x)\nz = halves(kernel_1 + KERNELS)\noutput y, z\n"
            .to_owned(),
    );
    sources.push(
        "kernel exact(x[B, D]) -> [B, D], shard B, reference f32(f64(x) / 3)\nx: f32[B_X, D]\ny = exact(x)\n"
            .to_owned(),
    );
    sources.push(
        "kernel count(x[B, D]) -> [D], shard B, reference f32(sum_B(i64(100 * x)))\nx: f32[B_X, D_Y]\ny = count(x)\n"
            .to_owned(),
    );
    sources.push(format!(
        "{SHARES}def twice(x[B, D]) {{\nreturn shares(shares(x))\n}}\nx: f32[B_X, D_Y]\nrepeat 3 {{\nx = twice(x)\n}}\noutput x\n"
    ));
    // Rows of padding, which a kernel may compute anything of.
    sources.push(format!("{SHARES}x: f32[U_XY, D]\ny[U_XY, D] = shares(x + 1)\nz[D] = sum_U(y)\noutput y, z\n"));
    for dtype in ["f32", "bf16"] {
        sources.push(format!("kernel sort(x[B, D]) -> [B, D], shard B\nx: {dtype}[B_X, D_Y]\ny[B, D_Y] = sort(x)\n"));
        // A part of the channels is summed on each device.
        sources.push(format!(
            "kernel convolution(x[B, P, Q, D], w[R, S, D, K]) -> [B, P, Q, K], shard B, D, K\n\
             x: {dtype}[B_X, P, Q, D_Y]\nw: {dtype}[R, S, D_Y, K]\ny[B_X, P, Q, K] = convolution(x, w)\n"
        ));
    }
    let ground =
        "mesh {X: 2, Y: 2} on tpu_v5p\ndims {B: 8, D: 8, K: 4, S: 4, T: 4, N: 4, H: 4, P: 6, Q: 5, R: 3, U: 7}\n";
    let mut cases = Cases::default();
    for (number, source) in sources.into_iter().enumerate() {
        let (name, source) = (format!("kernel_{number:02}"), format!("{ground}{source}"));
        let plan = small_plan(&source, CostModel::Bytes);
        cases.add_python(&name, &source, &plan);
        cases.add_manual(&name, &source, &plan);
        if number % 6 == 0 || sets::are_full() {
            cases.add_whole(&name, &source, &plan);
            cases.add_constraints(&name, &source, &plan);
        }
    }
    cases.run(&pythons, "kernels", 8);
}

/// Without a function for a kernel, a module says which one is missing.
#[test]
fn a_kernel_without_a_function_is_named() {
    let source = "mesh {X: 2} on tpu_v5p\ndims {B: 8, D: 8}\nkernel sort'(x[B, D]) -> [B, D], shard B\nx: f32[B_X, D]\n\
                  y = sort'(x)\n";
    let plan = small_plan(source, CostModel::Bytes);
    let module = jax::module(&plan, "sorted.py", source, jax::Options::default());
    assert!(module.contains("KERNELS = {}") && module.contains("KERNELS[\"sort'\"](x)"), "{module}");
    let text = stablehlo::module(&plan, source, stablehlo::Options { manual: true });
    assert!(
        text.contains("stablehlo.custom_call @\"sort'\"(%shard0) : (tensor<4x8xf32>) -> tensor<4x8xf32>"),
        "{text}"
    );
}

#[test]
fn plans_of_examples_and_corpus_run_in_jax() {
    let pythons = pythons();
    if pythons.is_empty() {
        return;
    }
    let files = [programs("examples"), programs("tests/corpus/small")].concat();
    let mut cases = Cases::default();
    for (number, path) in files.into_iter().enumerate() {
        if number % 6 > 0 && !sets::are_full() {
            continue;
        }
        let (name, source) = (short_name(&path), std::fs::read_to_string(&path).expect("text"));
        let plan = small_plan(&source, CostModel::default());
        // The devices of the driver.
        if plan.program.mesh.device_count() > 64 {
            continue;
        }
        cases.add_python(&name, &source, &plan);
        if number % 12 == 0 || sets::are_full() {
            cases.add_manual(&name, &source, &plan);
        }
        // The compiler shards these itself, so only every 18th program is run unless the run is full.
        if number % 18 == 0 || sets::are_full() {
            cases.add_whole(&name, &source, &plan);
            cases.add_constraints(&name, &source, &plan);
        }
    }
    cases.run(&pythons, "jax", 4);
}
