//! Reference pages: `docs/documents.md` is generated from the schemas, and `docs/profiles.md` lists every key of a hardware
//! profile. `SHARDC_BOOK=write cargo test --test command reference_pages` writes the former.

use crate::common::process::{shardc, text};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The schemas, in the order of the page.
const SCHEMAS: [&str; 4] = ["report", "commands", "algorithm", "schedule"];

const HEAD: &str = "\
# JSON documents

With `--format json`, a command prints one document per line. Its key `schema` names the form and the version: a minor version of
`shardc` adds keys, a major version changes or removes them. `docs/*.schema.json` describe the documents exactly; these tables are
generated from them. Keys in brackets are optional. `a.b` is the key `b` of the object `a`, and `a[].b` that of each object of the
list `a`.
";

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|_| panic!("{path} is missing"))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

/// The unit of a figure, by its key.
fn unit(path: &str) -> &'static str {
    let key = path.rsplit(['.', ']']).find(|part| !part.is_empty()).unwrap_or_default();
    let is_count = ["not_compared", "elements", "messages"].iter().any(|word| key.contains(word));
    match key {
        _ if key.ends_with("_ps") => "picoseconds",
        _ if key.ends_with("_s") => "seconds",
        _ if key.contains("bytes") || key == "bandwidth" => "bytes",
        _ if key.contains("flops") => "operations",
        "one_way" | "hbm_bandwidth" => "bytes per second",
        _ if is_count => "count",
        _ => "",
    }
}

/// The type of a value in words.
fn type_of(schema: &Value) -> String {
    let or = |items: &Value| {
        let names: BTreeSet<String> = items.as_array().expect("alternatives").iter().map(type_of).collect();
        names.into_iter().collect::<Vec<_>>().join(" or ")
    };
    if let Some(name) = schema["$ref"].as_str() {
        return format!("`{}`", name.trim_start_matches("#/$defs/"));
    }
    if !schema["const"].is_null() {
        return format!("`{}`", schema["const"]);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    for key in ["oneOf", "anyOf"] {
        if schema[key].is_array() {
            return or(&schema[key]);
        }
    }
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Value::String(name) if name == "array" && schema["items"].is_object() => {
            format!("list of {}", type_of(&schema["items"]))
        }
        Value::String(name) if name == "array" => "list".to_owned(),
        Value::String(name) if name == "object" => match properties(schema) {
            Some(keys) if keys.len() == 1 => format!("object with `{}`", keys.keys().next().expect("one")),
            _ => "object".to_owned(),
        },
        Value::String(name) => name.clone(),
        _ => "any".to_owned(),
    }
}

/// Rows of the keys of an object: path, whether it is required, and its schema. Inline objects are flattened.
fn rows<'s>(schema: &'s Value, path: &str, found: &mut Vec<(String, bool, &'s Value)>) {
    let required: BTreeSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, value) in properties(schema).into_iter().flatten().filter(|(key, _)| *key != "schema") {
        let own = format!("{path}{key}");
        found.push((own.clone(), required.contains(key.as_str()), value));
        rows(value, &format!("{own}."), found);
        rows(&value["items"], &format!("{own}[]."), found);
    }
}

fn table(schema: &Value, known: &BTreeSet<String>) -> String {
    let mut found = Vec::new();
    rows(schema, "", &mut found);
    found.retain(|(path, ..)| !known.contains(path));
    let mut text = "\n| key | type | unit | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for (path, is_required, value) in found {
        let key = if is_required { format!("`{path}`") } else { format!("[`{path}`]") };
        let about = value["description"].as_str().unwrap_or_default().replace('|', "\\|");
        let cells = [key, type_of(value), unit(&path).to_owned(), about];
        let cells = cells
            .iter()
            .fold("|".to_owned(), |row, cell| format!("{row} {cell}{}|", if cell.is_empty() { "" } else { " " }));
        writeln!(text, "{cells}").expect("a string");
    }
    text
}

/// The page of all documents.
fn documents() -> String {
    let mut page = HEAD.to_owned();
    for name in SCHEMAS {
        let schema: Value = serde_json::from_str(&read(&format!("docs/{name}.schema.json"))).expect("JSON");
        let of_plan: BTreeSet<String> = {
            let mut found = Vec::new();
            rows(&schema["$defs"]["plan"], "", &mut found);
            found.into_iter().map(|(path, ..)| path).collect()
        };
        let alternatives = schema["oneOf"].as_array().into_iter().flatten();
        let resolved = alternatives.map(|one| match one["$ref"].as_str() {
            Some(place) => schema.pointer(place.trim_start_matches('#')).expect("a definition"),
            None => one,
        });
        let whole = properties(&schema).is_some().then_some(&schema);
        for document in resolved.chain(whole) {
            let version = document["properties"]["schema"]["const"].as_str().expect("a version");
            write!(page, "\n## `{version}`\n").expect("a string");
            let about = document["title"].as_str().or(document["description"].as_str());
            let about =
                about.filter(|about| *about != version).map(|about| format!("{}.", about.trim_end_matches('.')));
            let is_more = ["shardc.time/1", "shardc.run/1"].contains(&version);
            let more = is_more.then(|| "The keys of `shardc.plan/1`, and:".to_owned());
            if let Some(words) = about.or(more) {
                write!(page, "\n{words}\n").expect("a string");
            }
            page.push_str(&table(document, if is_more { &of_plan } else { const { &BTreeSet::new() } }));
        }
        let shared = schema["$defs"].as_object().into_iter().flatten();
        let shared =
            shared.filter(|(_, schema)| schema["properties"]["schema"].is_null() && properties(schema).is_some());
        for (place, (definition, schema)) in shared.enumerate() {
            if place == 0 {
                write!(page, "\n## Objects of {} documents\n", if name == "report" { "these" } else { name })
                    .expect("a string");
            }
            write!(page, "\n### `{definition}`\n").expect("a string");
            if let Some(about) = schema["description"].as_str() {
                write!(page, "\n{}.\n", about.trim_end_matches('.')).expect("a string");
            }
            page.push_str(&table(schema, &BTreeSet::new()));
        }
    }
    page
}

#[test]
fn the_page_of_documents_is_that_of_the_schemas() {
    let (path, made) = (Path::new(ROOT).join("docs/documents.md"), documents());
    if std::env::var("SHARDC_BOOK").is_ok_and(|asked| asked == "write") {
        std::fs::write(&path, &made).expect("a page that can be written");
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == made, "`SHARDC_BOOK=write cargo test --test command reference_pages` writes docs/documents.md");
    assert!(page.lines().count() > 300, "{} lines", page.lines().count());
}

/// Words in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The words that a profile accepts where `zzz` is written, from the error.
fn expected(profile: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.toml"), profile).expect("a file");
    let output = shardc(folder.path(), &["hardware", "p.toml"]).output().expect("it runs");
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{profile}\n{printed}");
    let flat: String =
        printed.lines().map(|line| line.trim_start_matches([' ', '×', '│'])).collect::<Vec<_>>().join(" ");
    let (_, known) = flat.split_once("expected ").unwrap_or_else(|| panic!("{profile}\n{printed}"));
    quoted(known.split("╭─").next().unwrap_or(known))
}

/// A key or a word that no profile has, in each table: what is accepted instead is on the page.
#[test]
fn the_page_of_profiles_has_every_key() {
    let page = read("docs/profiles.md");
    let listed: BTreeMap<String, &str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`'))
        .map(|(key, rest)| (key.to_owned(), rest))
        .collect();
    let whole = text(&shardc(ROOT, &["hardware", "h100"]).output().expect("it runs").stdout);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (place, with) in [
        ("name =", "zzz = 1\nname ="),
        ("\none_way =", "\nzzz = 1\none_way ="),
        ("collectives = { start", "zzz = 1\ncollectives = { start"),
        ("collectives = { start", "collectives = { zzz = 1, start"),
        ("protocols = [{ latency", "protocols = [{ zzz = 1, latency"),
        ("[[beyond]]", "[[network.links]]\nzzz = 1\n[[beyond]]"),
        ("[products.bf16]", "[products.zzz]"),
        ("units =", "zzz = 1\nunits ="),
        ("{ rows =", "{ zzz = 1, rows ="),
        ("[experts]", "[experts]\nzzz = 1"),
        ("dispatch = { start", "dispatch = { zzz = 1, start"),
    ] {
        let known = expected(&whole.replacen(place, with, 1));
        assert!(!known.is_empty(), "{place}");
        for key in known {
            let is_unit = ["fp8", "bf16", "int8"].contains(&key.as_str());
            assert!(
                if is_unit { page.contains(&format!("[products.{key}]")) } else { listed.contains_key(&key) },
                "{key}"
            );
            seen.insert(key);
        }
    }
    let mut words = BTreeSet::new();
    for key in ["hop_rule", "local_moves", "fusion", "switch", "attached"] {
        let line = whole.lines().find(|line| line.starts_with(&format!("{key} ="))).expect("a key");
        for word in expected(&whole.replacen(line, &format!("{key} = \"zzz\""), 1)) {
            assert!(listed[key].contains(&format!("`{word}`")), "{key} = {word}: {}", listed[key]);
            words.insert(word);
        }
    }
    let engines = format!("{whole}\n[engines]\nmain = [\"zzz\"]\n");
    let work = expected(&engines);
    assert!(work.iter().all(|word| listed.contains_key(word)), "{work:?}");
    // The page has no other keys.
    seen.extend(work);
    let others: Vec<&String> = listed.keys().filter(|key| !seen.contains(*key)).collect();
    assert!(others.is_empty() && words.len() > 8, "{others:?}");
}

/// Figures that a profile needs are marked as required.
#[test]
fn the_page_of_profiles_says_what_is_required() {
    let page = read("docs/profiles.md");
    let whole = text(&shardc(ROOT, &["hardware", "tpu_v5e"]).output().expect("it runs").stdout);
    let folder = tempfile::tempdir().expect("a folder");
    let keys = whole.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key);
    for key in keys.filter(|key| !key.starts_with('#')).collect::<BTreeSet<_>>() {
        let line = whole.lines().find(|line| line.starts_with(&format!("{key} ="))).expect("a line");
        std::fs::write(folder.path().join("p.toml"), whole.replacen(line, "", 1)).expect("a file");
        let is_needed = !shardc(folder.path(), &["hardware", "p.toml"]).output().expect("it runs").status.success();
        let row = page.lines().find(|row| row.starts_with(&format!("| `{key}` |"))).expect("a row");
        assert_eq!(row.split('|').nth(3).map(str::trim), Some(if is_needed { "yes" } else { "" }), "{row}");
    }
}
