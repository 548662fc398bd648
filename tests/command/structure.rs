//! The module table of ARCHITECTURE.md: it lists every module folder, and none depends on one below it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders of the table with their lines: `plan` for `src/plan/`.
fn places() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).expect("it is there");
    let begin = text.find("## Dependency order").expect("the section of the table");
    let section = text[begin + 3..].split("\n## ").next().expect("a section");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut places = BTreeMap::new();
    for (row, line) in rows.enumerate() {
        let cell = line.split('|').nth(1).expect("a cell");
        for place in cell.split('`').filter(|word| word.ends_with(".rs") || word.ends_with('/')) {
            let place = place.trim_start_matches("src/").trim_end_matches('/').trim_end_matches(".rs");
            if !place.contains('/') {
                places.entry(place.to_owned()).or_insert(row);
            }
        }
    }
    places
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains("tests"));
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            found.push(path);
        }
    }
}

/// The modules of the crate that a file names, excluding its tests.
fn dependencies_of(text: &str) -> Vec<String> {
    let own = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        own.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let mut names = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let listed = rest.strip_prefix('{').map(|rest| rest.split(';').next().unwrap_or_default());
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let word = |text: &str| text.chars().take_while(|letter| is_letter(*letter)).collect::<String>();
        match listed {
            Some(list) => names.extend(list.split(',').map(|entry| word(entry.trim()))),
            None => names.push(word(rest)),
        }
    }
    names
}

#[test]
fn no_module_depends_on_a_later_stage() {
    let places = places();
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 300, "{}", files.len());
    for path in files {
        let place = path.strip_prefix(&root).expect("inside").components().next().expect("a name");
        let name = place.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        if name == "lib" {
            continue;
        }
        let own = places.get(&name).unwrap_or_else(|| panic!("`{name}` is not in the table"));
        for other in dependencies_of(&std::fs::read_to_string(&path).expect("a source")) {
            let row = places.get(&other);
            assert!(row.is_none_or(|row| row <= own), "{} depends on `{other}`, a later stage", path.display());
        }
    }
}

/// Unsafe code per file; new uses must be added here.
#[test]
fn unsafe_code_is_counted() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lints = std::fs::read_to_string(manifest.join("Cargo.toml")).expect("a manifest");
    assert!(lints.contains("\nunsafe_code = \"deny\"\n"), "unsafe code needs a stated exception");
    let mut found = Vec::new();
    for folder in ["src", "benches", "examples", "fuzz"] {
        sources(&manifest.join(folder), &mut found);
    }
    let word = ["un", "safe"].concat();
    let is_word = |line: &&str| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|part| part == word);
    let mut counts = BTreeMap::new();
    for path in found {
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let count = code.filter(is_word).filter(|line| !line.contains("reason =")).count();
        if count > 0 {
            counts.insert(path.strip_prefix(manifest).expect("inside").display().to_string(), count);
        }
    }
    // matrixmultiply has only an unsafe interface: it is used by the library's call, which checks all bounds
    // first, and by a benchmark that compares the library with it.
    let known = [("benches/values.rs", 1), ("src/sim/values/gemm.rs", 1)];
    assert_eq!(counts, known.map(|(path, count)| (path.to_owned(), count)).into());
}
