//! Wrong programs, one idea each: the code, the line, and the whole report as a reader meets it.

mod common;

use common::programs;
use shardc::cli::render::{RenderOptions, render};
use shardc::compiler;
use shardc::diag::Severity;
use shardc::span::LineIndex;

/// Where the errors of a case are announced: `# error: code` on the wrong line.
fn announced(source: &str) -> Vec<(usize, String)> {
    let lines = source.lines().zip(1..);
    lines.filter_map(|(line, number)| Some((number, line.split_once("# error: ")?.1.trim().to_owned()))).collect()
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
        let (program, diagnostics) = compiler::check(&source);
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
            snapshot_path => "../snapshots/wrong",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name.as_str(), format!("{source}\n{report}"));
        });
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
