//! The wording of documentation, help texts, diagnostics and outputs: hard-to-decode phrases are forbidden.

use crate::common::process::{shardc, text};
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Phrases that occur nowhere in texts for users.
const PHRASES: [&str; 60] = [
    "a word of another system",
    "and another name is one letter away",
    "and here\n",
    "and tells the lines",
    "and tells the time",
    "another number of names than of extents",
    "as it is asked for",
    "at best hops",
    "beyond counting",
    "Contest",
    "could tell",
    "devices that do alike",
    "do not know of it",
    "files of other tools",
    "first wrong here",
    "frugal",
    "gets lost",
    "had in a few",
    "hops, not bytes",
    "is asked for",
    "is given to no array",
    "is no amount of",
    "is no method for",
    "is told of",
    "it is told",
    "laid out otherwise",
    "leans on",
    "lets only",
    "loses by",
    "Let's",
    "let's",
    "made whole",
    "moves in one of them alone",
    "new, kept",
    "no method for",
    "no plan of these moves",
    "no way to compute",
    "nobody could",
    "not as kept",
    "of devices that do",
    "off by at most",
    "one after the other (",
    "parts statements",
    "rounding may cost",
    "so many moves",
    "So many moves",
    "stands beside each",
    "takes less simulated time",
    "Tell all",
    "Tell for",
    "Tell what",
    "told_axes",
    "to be told",
    "toll of",
    "What is told",
    "what it is told",
    "What moves, what",
    "whatever the plan",
    "where rounding",
    "which is told",
];

/// Identifiers that have better names.
const NAMES: [&str; 8] =
    ["told_axes", "told_dtypes", "with_toll", "Wish", "Contest", "flows.rs", "waves.rs", "is_next_to_nothing"];

/// Phrases that occur in no literal of the library and on no page: riddles and personified machinery.
const HABITS: [&str; 5] = [" is no ", "obody", "omebody", " so many ", " is none."];

/// Doc comments that consist of one of these say nothing about the item.
const LONE: [&str; 40] = [
    "All of it",
    "Another",
    "By rank",
    "From 0",
    "From whom",
    "How much",
    "In words",
    "None",
    "Nobody",
    "Nothing",
    "Of it",
    "Of them",
    "Of what",
    "Of which",
    "One",
    "Other",
    "So many",
    "That",
    "The other",
    "The others",
    "The rest",
    "The same",
    "These",
    "This one",
    "Those",
    "To here",
    "To these",
    "To whom",
    "Until when",
    "What",
    "What follows",
    "What should",
    "When",
    "Where",
    "Which",
    "Which one",
    "Who",
    "Whose",
    "Why not",
    "With what",
];

/// Files below a folder with one of these extensions, except in folders that draw pictures and the page of a report.
fn files(place: &str, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let path = Path::new(ROOT).join(place);
    if path.is_file() {
        found.push(path);
        return;
    }
    for entry in std::fs::read_dir(&path).expect("a folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let inner = format!("{place}/{name}");
        if ["src/picture", "src/report/html"].contains(&inner.as_str()) {
            continue;
        }
        let is_wanted = extensions.iter().any(|extension| name.ends_with(extension));
        if Path::new(ROOT).join(&inner).is_dir() || is_wanted {
            files(&inner, extensions, found);
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// The part of a source before its unit tests.
fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]").next().unwrap_or_default()
}

/// The text inside the string literals of a source, one line after the other.
fn literals(source: &str) -> String {
    let mut found = String::new();
    for line in source.lines() {
        let code = line.trim_start();
        if code.starts_with("//")
            || code.contains("reason =")
            || code.contains("expect(\"")
            || code.contains("unreachable!")
        {
            continue;
        }
        found.extend(code.split('"').skip(1).step_by(2).flat_map(|text| [text, "\n"]));
    }
    found
}

/// The help of the command, of each of its commands, and the pages of the manual.
fn help() -> Vec<(String, String)> {
    let run = |arguments: &[&str]| text(&shardc(ROOT, arguments).output().expect("it runs").stdout);
    let all = run(&["--help"]);
    let section =
        all.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list of commands");
    let commands: Vec<&str> = section.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 15, "{all}");
    let of = |command: &&str| (format!("shardc {command} --help"), run(&[command, "--help"]));
    commands
        .iter()
        .filter(|command| **command != "help")
        .map(of)
        .chain([("shardc --help".to_owned(), all.clone())])
        .collect()
}

/// All texts for users, by their place: pages, examples, expected outputs, help.
fn texts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for place in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"] {
        files(place, &[], &mut found);
    }
    files("docs", &[".md"], &mut found);
    files("src/explain/pages", &[".md"], &mut found);
    files("examples", &[".shard", ".schedule", ".md"], &mut found);
    files("snapshots", &[".snap"], &mut found);
    let named = |path: &PathBuf| (path.display().to_string(), read(path));
    found.iter().map(named).chain(help()).collect()
}

#[test]
fn phrases_that_had_to_be_decoded_stay_out() {
    let mut sources = Vec::new();
    files("src", &[".rs"], &mut sources);
    let sources = sources.iter().map(|path| (path.display().to_string(), literals(without_tests(&read(path)))));
    for (place, text) in texts().into_iter().chain(sources) {
        for phrase in PHRASES {
            assert!(!text.contains(phrase), "{place}: `{phrase}`");
        }
    }
}

#[test]
fn names_are_the_fields_own() {
    let mut found = Vec::new();
    files("src", &[".rs"], &mut found);
    files("ARCHITECTURE.md", &[], &mut found);
    for path in found {
        let text = read(&path);
        for name in NAMES {
            let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let mut parts = text.split(name);
            parts.next();
            assert!(!parts.any(is_word), "{}: `{name}`", path.display());
        }
    }
}

#[test]
fn users_read_no_riddles() {
    let mut pages = Vec::new();
    for place in ["README.md", "docs/language.md", "docs/planning.md", "docs/schedules.md", "docs/sweep.md"] {
        files(place, &[], &mut pages);
    }
    for place in ["commands", "concepts", "course", "introduction", "tutorial"] {
        files(&format!("docs/{place}.md"), &[], &mut pages);
    }
    files("docs/coming-from", &[".md"], &mut pages);
    files("docs/cookbook", &[".md"], &mut pages);
    files("src/explain/pages", &[".md"], &mut pages);
    let mut sources = Vec::new();
    files("src", &[".rs"], &mut sources);
    let pages = pages.iter().map(|path| (path, read(path)));
    for (path, text) in pages.chain(sources.iter().map(|path| (path, literals(without_tests(&read(path)))))) {
        for habit in HABITS {
            assert!(!text.contains(habit), "{}: `{habit}`", path.display());
        }
    }
    for (place, text) in help() {
        assert!(HABITS.iter().all(|habit| !text.contains(habit)), "{place}: {text}");
    }
}

/// A doc comment names the item or says what it does.
#[test]
fn doc_comments_say_something() {
    let mut found = Vec::new();
    files("src", &[".rs"], &mut found);
    for path in found {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let is_doc = |line: Option<&&str>| line.is_some_and(|line| line.starts_with("///"));
        for (number, line) in lines.iter().enumerate() {
            let Some(said) = line.strip_prefix("/// ") else { continue };
            let is_alone =
                !is_doc(number.checked_sub(1).and_then(|above| lines.get(above))) && !is_doc(lines.get(number + 1));
            let said = said.trim_end_matches('.');
            assert!(!(is_alone && LONE.contains(&said)), "{}:{}: `{said}`", path.display(), number + 1);
        }
    }
}
