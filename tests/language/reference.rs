//! Checks the language reference: the results of its programs and the printed reports. The same applies to
//! `cases/rules.md`, which has a correct and a wrong program for each rule; there the correct ones are also computed.
//!
//! The outputs are generated here: `INSTA_UPDATE=always cargo test --test language reference` writes them into the
//! page.

use crate::common::programs;
use shardc::cli::render::{RenderOptions, render};
use shardc::compiler::{self, Options, Spelling};
use shardc::costs::CostModel;
use shardc::diag::Diagnostics;
use shardc::expect;
use shardc::explain::PAGES;
use shardc::report::{Findings, text};
use shardc::sim::values;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A fenced block of the page: ```` ```shard tells=CODE ````.
struct Block<'a> {
    /// The word after the fence, `shard` or `text`.
    language: &'a str,
    /// The text after that word.
    say: &'a str,
    text: &'a str,
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/language.md")
}

/// The rules, each with programs that follow and that break it.
const RULES: &str = include_str!("../cases/rules.md");

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut fences = page.split("```");
    let mut found = Vec::new();
    // Text between fences is alternately outside and inside of blocks.
    while let (Some(_), Some(inside)) = (fences.next(), fences.next()) {
        let (info, text) = inside.split_once('\n').expect("a fence ends its line");
        let (language, say) = info.split_once(' ').unwrap_or((info, ""));
        found.push(Block { language, say, text });
    }
    found
}

/// A complete program of the page; one without a mesh gets the prelude.
fn whole(page: &str, block: &Block<'_>) -> String {
    let has_mesh = block.text.lines().any(|line| line.to_lowercase().starts_with("mesh") || line.starts_with("{'"));
    let prelude = blocks(page).into_iter().find(|block| block.say == "prelude").expect("a prelude");
    if has_mesh { block.text.to_owned() } else { format!("{}{}", prelude.text, block.text) }
}

/// All diagnostics of a program up to its schedule and its expectations, and the table of its steps.
fn findings(source: &str) -> (Diagnostics, String) {
    let (program, mut diagnostics) = compiler::check(source);
    let Some(program) = program else { return (diagnostics, String::new()) };
    let options = Options::default();
    let written = match source.lines().any(|line| line == "# --strict") {
        true => compiler::check_strict(source, &[], Spelling::Exact, &program, &options),
        false => Ok(()),
    };
    match written.and_then(|()| compiler::compile(&program, &options)) {
        Err(found) => {
            diagnostics.extend(found);
            (diagnostics, String::new())
        }
        Ok(compiled) => {
            diagnostics.extend(expect::judge(&compiled.plan, &compiled.topology, None));
            let plan = text::plan(&Findings::new(&compiled.plan, &compiled.topology), None);
            let table = plan.trim_start_matches('\n').split("\n\n").next().unwrap_or_default();
            (diagnostics, table.lines().map(|line| format!("{}\n", line.trim_end())).collect())
        }
    }
}

fn codes(diagnostics: &Diagnostics) -> BTreeSet<&str> {
    diagnostics.iter().map(|found| found.code.as_str()).collect()
}

fn report(diagnostics: &Diagnostics, name: &str, source: &str) -> String {
    render(diagnostics, name, source, RenderOptions::default())
}

#[test]
fn the_programs_of_the_reference_do_what_it_says() {
    let page = std::fs::read_to_string(page()).expect("the page");
    let programs = do_what_it_says(&page);
    assert!(programs >= 35, "{programs} programs");
}

#[test]
fn every_rule_is_kept() {
    let programs = do_what_it_says(RULES);
    assert!(programs >= 100, "{programs} programs");
}

/// A correct program computes the same as without a mesh.
#[test]
fn what_keeps_the_rules_is_computed() {
    let mut computed = 0;
    for block in blocks(RULES).iter().filter(|block| block.language == "shard" && block.say != "prelude") {
        let source = whole(RULES, block);
        let (Some(program), _) = compiler::check(&source) else { continue };
        let options = Options { costs: CostModel::Book, ..Options::default() };
        // A limit may be violated on purpose.
        let Ok(compiled) = compiler::compile(&program, &options) else { continue };
        let inputs = values::inputs(&compiled.schedule, 1).expect("small");
        let dense = values::dense(&compiled.schedule, &inputs).expect("small");
        let run = values::run(&compiled.schedule, &inputs).expect("small");
        let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.within, "{source}\n{numerics:?}\n{}", compiled.plan);
        computed += 1;
    }
    assert!(computed >= 50, "{computed} programs");
}

/// Checks the diagnostics of the programs of a page. Returns the number of programs.
fn do_what_it_says(page: &str) -> usize {
    let mut failures = Vec::new();
    let programs: Vec<Block<'_>> = blocks(page).into_iter().filter(|block| block.language == "shard").collect();
    for block in programs.iter().filter(|block| block.say != "prelude") {
        let source = whole(page, block);
        let (diagnostics, _) = findings(&source);
        let mut found = codes(&diagnostics);
        // This note is explained by the page.
        found.remove("implicit-input");
        let told = match block.say.strip_prefix("tells=") {
            Some(told) => told.split(',').collect(),
            None if block.say.is_empty() => BTreeSet::new(),
            None => panic!("what does ```shard {} mean?", block.say),
        };
        if found != told {
            failures.push(format!("{told:?} expected:\n{}\n{}", block.text, report(&diagnostics, "program", &source)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    programs.len()
}

#[test]
fn what_the_reference_shows_is_real() {
    let old = std::fs::read_to_string(page()).expect("the page");
    let new = made(&old);
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(page(), &new).expect("a page that can be written");
    } else {
        assert!(
            new == old,
            "run `INSTA_UPDATE=always cargo test --test language reference` and look at `git diff docs`"
        );
    }
}

/// The page with all generated parts: `text` blocks and the table of codes.
fn made(page: &str) -> String {
    let mut out = String::new();
    let mut last_program = String::new();
    for (place, piece) in page.split("```").enumerate() {
        if place > 0 {
            out.push_str("```");
        }
        let inside = place % 2 == 1;
        match piece.split_once('\n') {
            Some((info, _)) if inside && info.starts_with("text") => {
                out.push_str(info);
                out.push('\n');
                out.push_str(&shown(info, &last_program));
            }
            Some((info, body)) if inside && info.starts_with("shard") => {
                let (language, say) = info.split_once(' ').unwrap_or((info, ""));
                last_program = whole(page, &Block { language, say, text: body });
                out.push_str(piece);
            }
            _ => out.push_str(piece),
        }
    }
    with_codes(&out)
}

/// The contents of a block: `text steps` and `text report` of the preceding program, `text report of CASE` of a case.
fn shown(info: &str, program: &str) -> String {
    match info.strip_prefix("text ").unwrap_or_default().split_once(" of ") {
        Some(("report", case)) => {
            let path = programs("tests/cases/wrong").into_iter().find(|path| path.ends_with(format!("{case}.shard")));
            let path = path.unwrap_or_else(|| panic!("no case is called {case}"));
            let source = std::fs::read_to_string(path).expect("a case");
            // Without the line that describes the case, and the one that announces the error.
            let source: Vec<&str> =
                source.lines().skip(1).map(|line| line.split(" # error").next().unwrap_or_default()).collect();
            let source = source.join("\n");
            report(&findings(&source).0, &format!("{case}.shard"), &source)
        }
        None if info == "text steps" => findings(program).1,
        None if info == "text report" => report(&findings(program).0, "program.shard", program),
        _ => panic!("what does ```{info} show?"),
    }
}

/// The page with the table of all codes.
fn with_codes(page: &str) -> String {
    let (start, end) = ("<!-- codes -->\n", "<!-- end of codes -->");
    let (before, rest) = page.split_once(start).expect("a place for the codes");
    let (_, after) = rest.split_once(end).expect("the end of the codes");
    let rows: String = PAGES.iter().map(|page| format!("| `{}` | {} |\n", page.code, page.sentence())).collect();
    format!("{before}{start}| code | meaning |\n| --- | --- |\n{rows}{end}{after}")
}
