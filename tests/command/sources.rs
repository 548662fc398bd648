//! The table of rows of the sources names tests that exist.

use std::path::Path;

const ROWS: &str = include_str!("../cases/sources.md");

#[test]
fn every_row_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows: Vec<&str> = ROWS.lines().filter(|line| line.contains("`tests/") || line.contains("`src/")).collect();
    for row in &rows {
        let test = row.trim_end_matches([' ', '|']).rsplit("| ").next().unwrap_or_default();
        let names: Vec<&str> = test.split('`').skip(1).step_by(2).collect();
        let [file, function] = names.as_slice() else { panic!("{row}") };
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{row}: {error}"));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let is_test = |pair: &[&str]| pair[0] == "#[test]" && pair[1].starts_with(&format!("fn {function}()"));
        assert!(lines.windows(2).any(is_test), "{row}");
    }
    assert!(rows.len() >= 20, "{} rows", rows.len());
}
