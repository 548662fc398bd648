//! Wrong programs, one idea each: the code, the line, and the whole report.

use crate::common::programs;
use shardc::cli::render::{RenderOptions, render};
use shardc::compiler::{self, Options, Spelling};
use shardc::diag::{Diagnostic, Diagnostics, Severity};
use shardc::program::Program;
use shardc::span::{LineIndex, Span};
use shardc::syntax::parse;

/// The announced errors of a case: `# error: code` on the wrong line.
fn announced(source: &str) -> Vec<(usize, String)> {
    let lines = source.lines().zip(1..);
    lines.filter_map(|(line, number)| Some((number, line.split_once("# error: ")?.1.trim().to_owned()))).collect()
}

fn is_strict(source: &str) -> bool {
    source.lines().next().is_some_and(|line| line.contains("--strict"))
}

/// The diagnostics, with the options that the case names in its first line.
fn check(source: &str) -> (Option<Program>, Diagnostics) {
    let (program, mut diagnostics) = compiler::check(source);
    let refused = program
        .as_ref()
        .filter(|_| is_strict(source))
        .map(|program| compiler::check_strict(source, &[], Spelling::Exact, program, &Options::default()));
    match refused {
        Some(Err(found)) => {
            diagnostics.extend(found);
            (None, diagnostics)
        }
        Some(Ok(())) | None => (program, diagnostics),
    }
}

#[test]
fn every_wrong_program_is_refused_where_it_is_wrong() {
    let mut failures = Vec::new();
    let cases = programs("tests/cases/wrong");
    assert!(cases.len() >= 80, "{}", cases.len());
    for path in cases {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).expect("a case");
        assert!(source.starts_with("# "), "{name} does not say what it shows");
        let (program, diagnostics) = check(&source);
        let index = LineIndex::new(&source);
        let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let mut found: Vec<(usize, String)> =
            errors.map(|found| (index.line_column(&source, found.span().start).0, found.code.clone())).collect();
        found.sort();
        if found != announced(&source) || program.is_some() {
            failures.push(format!("{name}: {found:?} instead of {:?}", announced(&source)));
        }
        let report = render(&diagnostics, &format!("{name}.shard"), &source, RenderOptions::default());
        insta::with_settings!({
            snapshot_path => "../../snapshots/wrong",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name.as_str(), format!("{source}\n{report}"));
        });
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The cases of a file with short cases, separated by blank lines. Separate comments are headings.
fn short(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n")
        .map(str::trim_end)
        .filter(|case| !case.is_empty() && !case.lines().all(|line| line.starts_with('#')))
}

/// Short cases: each has one error where it is announced, and the reports of all form one snapshot.
fn each_is_wrong_where_it_says(name: &str, cases: impl Iterator<Item = (String, Option<Program>, Diagnostics)>) {
    let mut reports = String::new();
    for (source, program, diagnostics) in cases {
        let index = LineIndex::new(&source);
        let mut errors = Diagnostics::default();
        for found in diagnostics.iter() {
            assert_eq!(found.labels.iter().filter(|label| label.primary).count(), 1, "{source}");
            assert!(found.labels.iter().all(|label| label.span.range().end <= source.len()), "{source}");
            if found.severity == Severity::Error {
                errors.push(found);
            }
        }
        let places = errors.iter().map(|found| (index.line_column(&source, found.span().start).0, found.code.clone()));
        assert_eq!(places.collect::<Vec<_>>(), announced(&source), "{source}");
        assert!(announced(&source).len() == 1 && program.is_none(), "{source}");
        reports += &format!("{}\n", render(&errors, "short.shard", &source, RenderOptions::default()));
    }
    insta::with_settings!({
        snapshot_path => "../../snapshots/wrong",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, reports);
    });
}

#[test]
fn short_programs() {
    let mut cases = short(include_str!("../cases/short/programs.txt"));
    let before = cases.next().expect("a mesh and dims");
    each_is_wrong_where_it_says(
        "short_programs",
        cases.map(|case| {
            let source = format!("{before}\n{case}\n");
            let (program, diagnostics) = compiler::check(&source);
            let helps = |found: &Diagnostic| found.severity == Severity::Note || found.help.is_some();
            assert!(diagnostics.iter().all(helps), "{source}");
            (source, program, diagnostics)
        }),
    );
}

/// The programs of `cases/short/foreign.txt`, each with its mesh and dims.
pub(crate) fn foreign_programs() -> Vec<String> {
    let mut cases = short(include_str!("../cases/short/foreign.txt"));
    let before = cases.next().expect("a mesh and dims");
    let declares = |line: &str| line.starts_with("mesh") || line.starts_with("dims");
    let whole = |case: &str| match case.lines().any(declares) {
        true => format!("{case}\n"),
        false => format!("{before}\n{case}\n"),
    };
    cases.map(whole).collect()
}

#[test]
fn foreign_vocabulary() {
    let cases = foreign_programs().into_iter().map(|source| {
        let (program, diagnostics) = compiler::check(&source);
        let helps = |found: &Diagnostic| found.help.as_deref().is_some_and(|help| !help.is_empty());
        assert!(diagnostics.iter().all(|found| found.severity == Severity::Note || helps(found)), "{source}");
        (source, program, diagnostics)
    });
    each_is_wrong_where_it_says("foreign_vocabulary", cases);
}

#[test]
fn short_statements() {
    let cases = short(include_str!("../cases/short/statements.txt"));
    each_is_wrong_where_it_says("short_statements", cases.map(|case| (case.to_owned(), None, parse(case).1)));
}

/// Every suggested change makes the program correct when applied.
#[test]
fn every_change_that_is_offered_helps() {
    let mut offered = 0;
    for path in programs("tests/cases/wrong") {
        let source = std::fs::read_to_string(&path).expect("a case");
        if is_strict(&source) {
            // Changes in several places belong together: see `tests/language/strict.rs`.
            continue;
        }
        let (_, diagnostics) = check(&source);
        let errors: Vec<_> = diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
        let [error] = errors.as_slice() else { continue };
        let start = source[..error.span().start as usize].rfind('\n').map_or(0, |newline| newline + 1);
        let end = source[start..].find(" # error").map_or(source.len(), |length| start + length);
        for fix in &error.fixes {
            let changed = fix.apply(&source, Span::new(start, end));
            let (program, found) = check(&changed);
            assert!(program.is_some(), "{}\n{changed}\n{found:?}", path.display());
            assert!(error.help.as_deref().unwrap_or_default().contains(&fix.text), "{}", path.display());
            offered += 1;
        }
    }
    assert!(offered >= 40, "{offered} changes");
}

/// Diagnostics that propose changes include at least one that helps.
#[test]
fn proposals_of_wrong_layouts_help() {
    let codes =
        ["layout-mismatch", "axis-reused", "local-layout", "open-sum-misuse", "gather-major", "collective-result"];
    // These have no fix, or need two changes.
    let hopeless = ["axis_twice", "axis_on_a_dim_and", "open_sums_over_different_axes", "several_mistakes"];
    for path in programs("tests/cases/wrong") {
        let source = std::fs::read_to_string(&path).expect("a case");
        let (_, diagnostics) = compiler::check(&source);
        for found in diagnostics.iter().filter(|found| codes.contains(&found.code.as_str())) {
            let name = path.file_stem().expect("a file").to_string_lossy();
            if !hopeless.iter().any(|start| name.starts_with(start)) {
                assert!(!found.fixes.is_empty(), "{name}: {:?}", found.help);
            }
        }
    }
}
