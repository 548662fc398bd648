//! Every code has a page, every page has a code, and the programs on it behave as described.

use shardc::advice;
use shardc::compiler::{self, Options, Spelling};
use shardc::diag::Diagnostics;
use shardc::expect;
use shardc::explain::{self, PAGES};
use shardc::method::Method;
use shardc::report::given::Given;
use shardc::schedule::{Unread, from_text, is_schedule};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Codes without a page: no program or schedule leads to them.
const WITHOUT_PAGE: &[(&str, &str)] = &[
    ("proof-malformed-array", "arrays that no program declares"),
    ("schedule-other-mesh", "a schedule that is timed on the machine of another one"),
    ("schedule-route", "a schedule that is timed without its proof"),
    ("schedule-kept-gather", "a gather that the compiler keeps as one: ours"),
    ("block-missing", "a schedule that is run without its proof"),
    ("replicas-differ", "a schedule that is run without its proof"),
    ("recipe-missing", "a plan that is lowered without its recipes"),
];

/// Pages without a wrong program, with the reason.
const WITHOUT_WRONG: &[(&str, &str)] = &[
    ("fabric-axis", "a program cannot name a profile of a file"),
    ("fabric-size", "a program cannot name a profile of a file"),
    ("too-deep", "the program would not fit on a page"),
    ("statement-too-long", "the program would not fit on a page"),
    ("source-too-large", "the program would not fit on a page"),
    ("too-many-statements", "the program would not fit on a page"),
    ("too-many-errors", "the program would not fit on a page"),
    ("control-character", "it cannot be shown on a page"),
    ("schedule-too-large", "the text would not fit on a page"),
    ("schedule-too-long", "the profile would have to be another one"),
    ("schedule-schema", "the mistake is in a document, not in a text"),
    ("proof-too-large", "the text would not fit on a page"),
    ("in-call", "it comes with what is wrong in a function"),
    ("no-plan", "a program that checks has a plan"),
    ("hardware-profile", "the mistake is in a profile, not in a program"),
    ("no-common-tick", "the mistake is in a profile, not in a program"),
    ("schedule-switch-sum", "the machine is at fault, not the schedule"),
    ("kernel-without-numbers", "the program is right, and can be timed"),
    ("too-large-to-compute", "the program is right, the machine too small"),
    ("algorithm-unreadable", "the mistake is in a file of another tool"),
    ("audit-unreadable", "the mistake is in a module, not in a program"),
    ("import-no-mesh", "the mistake is in a module, not in a program"),
    ("import-too-large", "the mistake is in a module, not in a program"),
    ("import-unreadable", "the mistake is in a module, not in a program"),
    ("import-unsupported", "the mistake is in a module, not in a program"),
    ("algorithm-wrong", "the mistake is in a file of another tool"),
    ("not-exported", "the program is right, the format too small"),
    ("input-missing", "the mistake is in the data of a run"),
    ("input-mismatch", "the mistake is in the data of a run"),
];

/// All codes that the sources can emit: every `code("..")`.
fn codes_of_sources() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).expect("a source");
                let found = text.split("code(\"").skip(1).filter_map(|rest| rest.split('"').next());
                codes.extend(found.map(str::to_owned));
            }
        }
    }
    codes
}

/// All codes that a program produces up to its schedule, of any severity.
fn codes(source: &str) -> BTreeSet<String> {
    if is_schedule(source) {
        return codes_of_schedule(source);
    }
    let options = Options { strict: source.contains("--strict"), ..Options::default() };
    let spelling = if source.contains("--lenient") { Spelling::Lenient } else { Spelling::Exact };
    let (program, mut diagnostics) = compiler::check_with(source, &[], spelling, None).expect("no sizes to set");
    match program.map(|program| compiler::compile(&program, &options)) {
        None => {}
        Some(Err(found)) => diagnostics.extend(found),
        Some(Ok(compiled)) => {
            diagnostics.extend(advice::wasted(&compiled.plan));
            diagnostics.extend(expect::judge(&compiled.plan, &compiled.topology, None));
        }
    }
    diagnostics.iter().map(|found| found.code.clone()).collect()
}

/// All codes that a schedule produces.
fn codes_of_schedule(source: &str) -> BTreeSet<String> {
    let all = |found: Diagnostics| found.iter().map(|found| found.code.clone()).collect();
    let written = match from_text(source) {
        Ok(written) => written,
        Err(Unread::Text(found) | Unread::Malformed(found)) => return all(found),
    };
    let given = Given { schedule: written.schedule, places: Some(written.places) };
    let topology = compiler::machine_of(&given.schedule, &Options::default()).expect("a machine");
    match compiler::prove(&given.schedule, &topology) {
        Ok(_) => BTreeSet::new(),
        Err(flaw) => all(given.flaw(&flaw)),
    }
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let pages: BTreeSet<String> = PAGES.iter().map(|page| page.code.to_owned()).collect();
    let internal = |code: &String| WITHOUT_PAGE.iter().any(|(without, _)| code == without);
    let codes: BTreeSet<String> = codes_of_sources().into_iter().filter(|code| !internal(code)).collect();
    let missing: Vec<_> = codes.difference(&pages).collect();
    let stale: Vec<_> = pages.difference(&codes).collect();
    assert!(missing.is_empty(), "write src/explain/pages/ for {missing:?}");
    assert!(stale.is_empty(), "no source emits {stale:?}");
    assert!(PAGES.is_sorted_by_key(|page| page.code), "in the order of the codes");
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/explain/pages")).expect("the pages");
    assert_eq!(files.count(), PAGES.len(), "a page that is not listed");
}

#[test]
fn the_wrong_program_of_a_page_breaks_its_rule_and_no_other() {
    let mut failures = Vec::new();
    for page in PAGES {
        match page.wrong() {
            Some(wrong) => {
                let found = codes(wrong);
                if found != BTreeSet::from([page.code.to_owned()]) {
                    failures.push(format!("{}: {found:?}", page.code));
                }
            }
            None if WITHOUT_WRONG.iter().any(|(code, _)| *code == page.code) => {}
            None => failures.push(format!("{} has no wrong program", page.code)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_right_program_of_a_page_is_right() {
    for page in PAGES {
        assert!(page.right().is_some() || page.wrong().is_none(), "{}", page.code);
        let found = page.right().map(codes).unwrap_or_default();
        assert!(found.is_empty(), "{}: {found:?}", page.code);
    }
}

/// Programs that are too large for a page.
#[test]
fn programs_too_large_for_a_page_have_their_code() {
    let many = "A = B\n".repeat(100_001);
    for (source, code) in [
        (format!("C = {}A{}", "(".repeat(100), ")".repeat(100)), "too-deep"),
        (format!("C = {}A", "A * ".repeat(20_000)), "statement-too-long"),
        (" ".repeat((16 << 20) + 1), "source-too-large"),
        (many, "too-many-statements"),
        ("C =\n".repeat(1001), "too-many-errors"),
        ("\u{1}".to_owned(), "control-character"),
    ] {
        assert!(codes(&source).contains(code), "{code}");
    }
}

#[test]
fn the_page_of_methods_has_them_all() {
    let page = PAGES.iter().find(|page| page.code == "unknown-method").expect("a page");
    for method in Method::ALL {
        assert!(page.text.contains(&format!("`{}`", method.name())), "{}", method.name());
    }
}

#[test]
fn a_page_has_a_heading_and_a_sentence() {
    for page in PAGES {
        assert!(page.text.starts_with(&format!("# {}\n\n", page.code)), "{}", page.code);
        let sentence = page.sentence();
        assert!(sentence.ends_with('.') && !sentence.contains('\n') && sentence.len() < 140, "{}", page.code);
        assert!(page.text.ends_with('\n') && !page.text.ends_with("\n\n"), "{}", page.code);
    }
}

#[test]
fn the_command_explains() {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_shardc")).arg("explain").args(arguments).output().expect("the command runs")
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = run(&[]);
    assert_eq!((all.status.code(), text(&all.stdout).lines().count()), (Some(0), PAGES.len() + 2));
    let page = run(&["axis-reused"]);
    assert_eq!(text(&page.stdout), explain::page("axis-reused").expect("a page").text);
    for (word, near) in
        [("axis-resued", "`axis-reused`"), ("reused-axis", "`axis-reused`"), ("dtype", "`dtype-mismatch`")]
    {
        let unknown = run(&[word]);
        assert_eq!(unknown.status.code(), Some(2), "{word}");
        assert!(text(&unknown.stderr).contains(near), "{word}: {}", text(&unknown.stderr));
    }
    assert!(text(&run(&["zzzzzz"]).stderr).contains("`shardc explain` lists all codes"));
    let json: serde_json::Value = serde_json::from_str(&text(&run(&["--format", "json"]).stdout)).expect("JSON");
    assert_eq!(
        (&json["schema"], json["codes"].as_array().map(Vec::len)),
        (&"shardc.explain/1".into(), Some(PAGES.len()))
    );
}

/// The page of all functions has those of the help for an unknown one, and the programs on both pages are right.
#[test]
fn topics_are_complete_and_right() {
    let (_, found) = compiler::check("mesh {X: 2} on tpu_v5e\ndims {I: 8}\nA: f32[I]\nC = qqqqqq(A)\n");
    let help = found.iter().find_map(|found| found.help.clone()).expect("a list");
    let (_, functions) = explain::TOPICS.iter().find(|(name, _)| *name == "functions").expect("a page");
    let words: BTreeSet<&str> =
        functions.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    // A name in the table may have a dim after it.
    let is_listed = |name: &str| {
        words.iter().any(|word| *word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')))
    };
    let names = help.trim_start_matches("functions are ").split(" and casts").next().expect("names").split(", ");
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 40, "{help}");
    let missing: Vec<&&str> = names.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for (name, text) in explain::TOPICS {
        let program = text.split("```shard\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
        let found = codes(program);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}
