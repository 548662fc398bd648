//! JSON documents conform to their schemas, `docs/schedule.schema.json`, `docs/report.schema.json` and
//! `docs/commands.schema.json`, and the schemas accept no others.

use crate::common::process::{fed, shardc};
use crate::common::{compile, files_of, programs, short_name, small_examples};
use jsonschema::Validator;
use serde_json::{Value, json};
use shardc::compiler::{self, Options};
use shardc::costs::CostModel;
use shardc::diag::Diagnostics;
use shardc::dtype::DType;
use shardc::recipe::Lowering;
use shardc::report::given::{Given, Outcome};
use shardc::report::why::Product;
use shardc::report::{Findings, document};
use shardc::schedule::{DocumentError, from_json, from_text, to_json};
use shardc::sim::{clock, values};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The examples that compile quickly.
fn small_programs() -> Vec<PathBuf> {
    small_examples().collect()
}

fn schema(name: &str) -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let text = std::fs::read_to_string(path).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("a schema");
    jsonschema::draft202012::new(&schema).expect("a schema")
}

fn assert_valid(schema: &Validator, name: &str, document: &impl serde::Serialize) -> Value {
    let document = serde_json::to_value(document).expect("JSON");
    let errors: Vec<String> =
        schema.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}\n{document}");
    document
}

/// The document with single changes: each value replaced by an invalid one, each key removed, each object with an
/// additional key.
fn changes(document: &Value) -> Vec<(String, Value)> {
    let mut pointers = vec![String::new()];
    let mut changed = Vec::new();
    while let Some(pointer) = pointers.pop() {
        let with = |change: &dyn Fn(&mut Value)| {
            let mut copy = document.clone();
            change(copy.pointer_mut(&pointer).expect("it is there"));
            copy
        };
        changed.push((format!("{pointer} replaced"), with(&|value| *value = json!({"wrong": 0}))));
        match document.pointer(&pointer).expect("it is there") {
            Value::Object(fields) => {
                let more = |value: &mut Value| drop(value.as_object_mut().expect("it").insert("more".into(), json!(0)));
                changed.push((format!("{pointer} with more"), with(&more)));
                for key in fields.keys() {
                    let less = |value: &mut Value| drop(value.as_object_mut().expect("it").remove(key));
                    changed.push((format!("{pointer} without {key}"), with(&less)));
                    pointers.push(format!("{pointer}/{key}"));
                }
            }
            Value::Array(items) => pointers.extend((0..items.len().min(12)).map(|at| format!("{pointer}/{at}"))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    changed
}

/// A schedule with every kind of operation and definition.
const ALL_KINDS: &str = "\
mesh {X: 2 ring, R: 4 = {Q: 2, P: 2}}
array A: f32[T 6 of 8, I 4] = input
array B: f32[I 4, K 2] = input
array C: f32[T 6 of 8, K 2] = A * B by ab,bc->ac
array F: f32[T 6 of 8, K 2] = fill(0, 6, least) C by ab->ab
array M: f32[K 2] = reduce max F by ab->b
array E: f32[K 2] = exp M by a->a
step 1
%a = input A[T_X, I] : f32[4, 4]
%b = input B[I, K] : f32[4, 2]
%c = mat_mul ab,bc->ac %a, %b : f32[4, 2]
%f = fill least dim 0 from 6 on, block (0,1) over X %c : f32[4, 2]
%m = reduce max ab->b %f : f32[2]
%o = shuffle (1,0) via X+1 %m : f32[2] using line
%n = add max %m, %o : f32[2]
%e = map exp a->a %n : f32[2]
%s = slice [(0,1) over Q] of [2, 1] %e : f32[1]
%t = slice (-,0) over P dim 0 %s : f32[1]
%g = all_gather over Q dim 0 %e : f32[4]
%p = shuffle (1,-) via P %e : f32[2]
%u = assemble %e at [:] : f32[2]
output %e = E[K]
";

/// The schema accepts a changed document if and only if its fields can be parsed.
#[test]
fn schedules() {
    let schema = schema("schedule.schema.json");
    for path in small_programs() {
        let compiled = compile(&std::fs::read_to_string(&path).expect("an example"));
        let document: Value = serde_json::from_str(&to_json(&compiled.schedule)).expect("JSON");
        assert_valid(&schema, &short_name(&path), &document);
    }
    let all = ALL_KINDS.replace("slice [(0,1) over Q] of [2, 1] %e", "slice [(0,1) over Q, :] of [2, 1] %e");
    let all = from_text(&all).unwrap_or_else(|error| panic!("{error:?}")).schedule;
    let document = assert_valid(&schema, "all", &serde_json::from_str::<Value>(&to_json(&all)).expect("JSON"));
    let changes = changes(&document);
    assert!(changes.len() > 500, "{}", changes.len());
    let mut taken = 0;
    for (what, changed) in changes {
        let read = match from_json(&changed.to_string()) {
            Ok(_) | Err(DocumentError::Malformed(_)) => true,
            Err(_) => false,
        };
        assert_eq!(schema.is_valid(&changed), read, "{what}");
        taken += usize::from(read);
    }
    assert!(taken > 20, "{taken}");
}

/// Reports of the small examples and of every wrong program.
#[test]
fn reports() {
    let schema = schema("report.schema.json");
    let mut samples: Vec<(String, Value)> = Vec::new();
    for path in small_programs() {
        let (name, source) = (short_name(&path), std::fs::read_to_string(&path).expect("an example"));
        let compiled = compile(&source);
        let (plan, topology) = (&compiled.plan, &compiled.topology);
        let (_, found) = compiler::check(&source);
        let findings = Findings::new(plan, topology);
        let timed =
            |timing| document::plan(&name, &source, &findings, &found).timed(&findings, timing, &compiled.proof);
        let with_methods = Findings::new(plan, topology).with_methods(Lowering::default());
        let timing = clock::run(&compiled.schedule, topology).expect("a time");
        let planned = assert_valid(&schema, &name, &document::plan(&name, &source, &with_methods, &found));
        assert_valid(&schema, &name, &timed(&timing));
        let inputs = values::inputs(&compiled.schedule, 0).expect("small");
        let dense = values::dense(&compiled.schedule, &inputs).expect("small");
        let run = values::run(&compiled.schedule, &inputs).expect("small");
        let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
        let ran = assert_valid(&schema, &name, &timed(&timing).ran(&numerics));
        if name.ends_with("case2") {
            samples.extend([(format!("{name} planned"), planned), (format!("{name} run"), ran)]);
        }
    }
    for path in programs("tests/cases/wrong") {
        let (name, source) = (short_name(&path), std::fs::read_to_string(&path).expect("a case"));
        let found = compiler::check(&source).1;
        let document = assert_valid(&schema, &name, &document::check(&name, &source, &found));
        if samples.len() < 3 && !found.is_empty() {
            samples.push((name, document));
        }
    }
    for path in files_of("examples/schedules", "schedule") {
        let (name, source) = (short_name(&path), std::fs::read_to_string(&path).expect("an example"));
        let written = from_text(&source).unwrap_or_else(|error| panic!("{error:?}"));
        let given = Given { schedule: written.schedule, places: Some(written.places) };
        let topology = compiler::machine_of(&given.schedule, &Options::default()).expect("a machine");
        let proof = compiler::prove(&given.schedule, &topology);
        let timing = clock::run(&given.schedule, &topology).expect("a time");
        let outcome = Outcome {
            proof: proof.as_ref().ok(),
            timing: Some(&timing),
            numerics: None,
            diagnostics: proof.as_ref().err().map(|flaw| given.flaw(flaw)).unwrap_or_default(),
        };
        let document = assert_valid(&schema, &name, &given.document(&name, &source, &topology, &outcome));
        samples.push((name, document));
    }
    assert!(samples.len() >= 7, "{}", samples.len());
    for (name, document) in samples {
        for (what, changed) in changes(&document) {
            // A key that may be missing is one that the schema does not require.
            let fits = schema.is_valid(&changed);
            assert!(!fits || what.contains(" without "), "{name}: {what}");
        }
    }
}

/// With and without a requested alternative, with all prices known and with bounds.
#[test]
fn why_a_product_is_done_so() {
    let schema = schema("report.schema.json");
    let source = "mesh {X: 4 ring, Y: 2 ring} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\nA: bf16[I, J_X]\nB: bf16[J, K_Y]\n\
                  C[I, K] = A * B\nD[I_X, K] = relu(C) * C\noutput D\n";
    for costs in [CostModel::Book, CostModel::Exact, CostModel::Bytes] {
        let compiled = crate::common::compile_with(source, costs);
        let (plan, topology) = (&compiled.plan, &compiled.topology);
        let findings = Findings::new(plan, topology);
        let products = findings.products.iter();
        let why: Vec<Product> = products
            .flat_map(|product| {
                let asked = product.clone().asked("by reduce", &findings.totals, &findings.products, findings.topology);
                [product.clone(), asked]
            })
            .collect();
        let report = document::plan("why", source, &findings, &Diagnostics::default());
        let document = assert_valid(&schema, "why", &report.with_why(&why));
        assert!(document["why"].as_array().is_some_and(|why| why.len() >= 2), "{document}");
    }
}

/// The output of a command: one document per line.
fn printed(folder: &Path, arguments: &[&str], input: &str) -> Vec<Value> {
    let output = fed(shardc(folder, arguments).args(["--format", "json"]), input);
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The documents of these commands conform, and no changed ones.
#[test]
fn documents_of_commands() {
    let (commands, reports) = (schema("commands.schema.json"), schema("report.schema.json"));
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    let source = std::fs::read_to_string("examples/megatron_mlp.shard").expect("an example");
    let partial = "mesh {X: 4, Y: 2} on tpu_v5e\ndims {I: 64}\nA: bf16[I_X]{U_Y}\noutput A\n";
    let profile = std::fs::read_to_string("src/topology/profiles/h100_book.toml").expect("a profile");
    put("a.shard", &source);
    put("loose.shard", &source.replace(" = ", "="));
    put("partial.shard", partial);
    put("p.toml", &format!("broadcast_limit = \"1MB\"\n{profile}").replace("name = \"h100_book\"", "name = \"own\""));
    let all = |arguments: &[&str], input: &str| printed(folder.path(), arguments, input);
    let mut found = vec![all(&["fmt", "--check", "a.shard", "loose.shard"], ""), all(&["fmt", "-"], &source)];
    let module = "sdy.mesh @mesh = <[\"X\"=2]>\nfunc.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {\n  return %arg0 : tensor<8xf32>\n}\n";
    found.push(all(&["import", "-"], module));
    found.push(all(&["snapshot", "a.shard"], ""));
    put("a.shard", &source.replace("D: 256", "D: 512"));
    put("lost.shard.snapshot", "");
    found.push(all(&["snapshot", "--check", "."], ""));
    found.extend([all(&["explain"], ""), all(&["explain", "axis-reused"], "")]);
    found.extend([all(&["hardware"], ""), all(&["hardware", "p.toml"], "")]);
    found.push(all(&["sweep", "loose.shard", "--set", "B=1024,7", "--hardware", "tpu_v5e,p.toml"], ""));
    found.push(all(&["sweep", "loose.shard", "--set", "B=8..1Mx512", "--crossings"], ""));
    put("other.shard", &source.replace("D, F_Y", "D_Y, F"));
    found.push(all(&["diff", "loose.shard", "other.shard"], ""));
    let module = "HloModule m, num_partitions=8\nENTRY %e (p: f32[]) -> f32[] {\n  %r = f32[64] all-gather(%p), \
                  replica_groups={}, metadata={source_file=\"a.py\" source_line=3}\n  \
                  %s = f32[64] all-gather(%p), replica_groups={{0,1,2,7},{3,4,5,6}}\n}\n";
    put("m.hlo", module);
    found.extend(
        [&["--program", "loose.shard"][..], &["--mesh", "X=4, Y=2"]]
            .map(|with| all(&[&["audit", "m.hlo"], with].concat(), "")),
    );
    put("tight.shard", &format!("{source}limit memory 200kB\n"));
    found.push(all(&["tune", "tight.shard", "--devices", "4,8", "--open"], ""));
    found.push(all(&["tune", "loose.shard", "--devices", "8", "--hardware", "h100"], ""));
    let found: Vec<Value> = found.into_iter().flatten().collect();
    let shown = [&["show", "a.shard"][..], &["show", "a.shard", "Out"], &["show", "partial.shard"]];
    let shown: Vec<Value> = shown.into_iter().flat_map(|arguments| all(arguments, "")).collect();
    let named: BTreeSet<&str> = found.iter().chain(&shown).filter_map(|document| document["schema"].as_str()).collect();
    let wanted = [
        "shardc.audit/1",
        "shardc.diff/1",
        "shardc.explain/1",
        "shardc.fmt/1",
        "shardc.hardware/1",
        "shardc.import/1",
        "shardc.show/1",
        "shardc.snapshot/1",
        "shardc.sweep/1",
        "shardc.tune/1",
    ];
    assert!(named.iter().eq(&wanted), "{named:?}");
    let states: BTreeSet<&str> = found.iter().filter_map(|document| document["state"].as_str()).collect();
    assert!(states.len() >= 3, "{states:?}");
    for (schema, documents) in [(&commands, &found), (&reports, &shown)] {
        for document in documents {
            assert_valid(schema, &document["schema"].to_string(), document);
            // All pages have the same form, and so have all profiles; one of each is changed.
            if document["codes"].as_array().or(document["profiles"].as_array()).is_some_and(|all| all.len() > 1) {
                continue;
            }
            for (what, changed) in changes(document) {
                let optional = what == " without text";
                assert_eq!(schema.is_valid(&changed), optional, "{what} of {document}");
            }
        }
    }
}

/// Every document that a command prints has a schema.
/// All places of the schemas that list the dtypes list all of them.
#[test]
fn dtypes_are_those_of_the_language() {
    fn lists(schema: &Value, found: &mut Vec<Vec<String>>) {
        match schema {
            Value::Array(items) => {
                let words: Vec<String> = items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect();
                if words.iter().any(|word| word == "bf16") {
                    found.push(words);
                }
                items.iter().for_each(|item| lists(item, found));
            }
            Value::Object(fields) => fields.values().for_each(|field| lists(field, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for name in ["schedule", "report", "commands"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/{name}.schema.json"));
        let schema = std::fs::read_to_string(path).expect("a schema");
        lists(&serde_json::from_str(&schema).expect("JSON"), &mut found);
    }
    assert!(found.len() >= 3);
    let all = DType::ALL.map(|dtype| dtype.to_string());
    assert!(found.iter().all(|list| *list == all), "{found:?}");
}

#[test]
fn every_document_has_a_schema() {
    let known: String =
        files_of("docs", "json").iter().map(|path| std::fs::read_to_string(path).expect("it")).collect();
    // The data embedded in a report page is read by that page only.
    for path in files_of("src", "rs").into_iter().filter(|path| !short_name(path).starts_with("src/report/html")) {
        let source = std::fs::read_to_string(&path).expect("a source");
        for part in source.split("\"shardc.").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(
                !name.contains('/') || known.contains(&format!("\"shardc.{name}\"")),
                "shardc.{name} has no schema"
            );
        }
    }
}
