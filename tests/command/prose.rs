//! The wording of all texts of the repository, from documentation to comments: hard-to-decode phrases are forbidden.

use crate::common::process::{shardc, text};
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Phrases that occur in no text of the repository.
const PHRASES: [&str; 84] = [
    "a word of another system",
    "all else does",
    "and another name is one letter away",
    "and here\n",
    "and tells the lines",
    "and tells the time",
    "another number of",
    "are looked at",
    "as it is asked for",
    "at best hops",
    "at best operations",
    "beyond counting",
    "canonical spelling",
    "Contest",
    "could tell",
    "Dark or light",
    "devices that do alike",
    "do alike",
    "do not know of it",
    "files of other tools",
    "first wrong here",
    "frugal",
    "gets lost",
    "had in a few",
    "has been told",
    "hops, not bytes",
    "inputs are made of",
    "is asked for",
    "is given to no array",
    "is no amount of",
    "is no method for",
    "is told",
    "it is told",
    "it rewrites them",
    "laid out otherwise",
    "lean on",
    " leans on",
    "lets only",
    "lines that lack",
    "lines went",
    "looked at before",
    "loses by",
    "Let's",
    "let's",
    "made whole",
    "moves in one of them alone",
    "new, kept",
    "no method for",
    "no plan avoids",
    "no plan of these moves",
    "no way to compute",
    "not as kept",
    "nothing was found",
    "of devices that do",
    "off by at most",
    "one after the other (",
    "parts statements",
    "planned again until",
    "rounding may cost",
    "stands beside",
    "takes less simulated time",
    "tell the time",
    "Tell all",
    "Tell for",
    "Tell what",
    "tells the lines",
    "that do alike",
    "that is told",
    "the time only",
    "told as",
    "told of",
    "to be told",
    "toll of",
    "unless it says",
    "waits for whom",
    "What is told",
    "what it is told",
    "What moves, what",
    "what was not chosen",
    "whatever the plan",
    "where layouts are",
    "where rounding",
    "Which small integers",
    "which is told",
];

/// Identifiers that have better names.
const NAMES: [&str; 20] = [
    "Contest",
    "Made",
    "Moved",
    "Wish",
    "colours_of",
    "flows.rs",
    "frugal",
    "granted",
    "is_cut",
    "is_full",
    "is_next_to_nothing",
    "told_axes",
    "told_dtypes",
    "told_latex",
    "told_layouts",
    "toll",
    "waves.rs",
    "winner",
    "winners",
    "with_toll",
];

/// Words of riddles and personified machinery; they occur in no text of the repository.
const HABITS: [&str; 4] = ["nobody", "somebody", "so many", "told"];

/// Words after which `is no` is plain English: `there is no deadlock`, and before which: `is no longer used`.
const PLAIN_BEFORE: [&str; 1] = ["there"];
const PLAIN_AFTER: [&str; 10] =
    ["longer", "more", "better", "faster", "slower", "larger", "cheaper", "less", "greater", "disadvantage"];

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

/// Folders and files with texts.
const PLACES: [&str; 13] = [
    ".ci",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "benches",
    "docs",
    "examples",
    "fuzz",
    "grammar",
    "python",
    "snapshots",
];

/// The endings of files with texts.
const TEXTS: [&str; 13] =
    ["css", "html", "js", "json", "md", "mjs", "pest", "py", "rs", "schedule", "shard", "snap", "toml"];

/// Files below a folder with one of these extensions.
fn files(place: &str, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let path = Path::new(ROOT).join(place);
    if path.is_file() {
        found.push(path);
        return;
    }
    for entry in std::fs::read_dir(&path).expect("a folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let inner = format!("{place}/{name}");
        let is_wanted = Path::new(&name).extension().is_some_and(|own| extensions.iter().any(|one| own == *one));
        let is_folder = Path::new(ROOT).join(&inner).is_dir() && !["target", "__pycache__"].contains(&name.as_str());
        if is_folder || is_wanted {
            files(&inner, extensions, found);
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// The comments and string literals of a source, line by line.
fn prose(source: &str) -> String {
    let mut found = String::new();
    for line in source.lines() {
        let code = line.trim_start();
        if code.starts_with("//") {
            found.extend([code, "\n"]);
        } else {
            found.extend(code.split('"').skip(1).step_by(2).flat_map(|text| [text, "\n"]));
            found.extend(code.split_once(" // ").into_iter().flat_map(|(_, comment)| [comment, "\n"]));
        }
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

/// All texts of the repository, by their place: pages, grammars, profiles, examples, expected outputs, help, comments
/// and string literals of sources. Data and this list of phrases are excluded.
fn texts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    PLACES.iter().chain(&["src", "tests"]).for_each(|place| files(place, &TEXTS, &mut found));
    assert!(found.len() > 1500, "{} texts", found.len());
    let own = Path::new(ROOT).join(file!());
    let text_of = |path: PathBuf| {
        let text = read(&path);
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        (path.display().to_string(), if is_source { prose(&text) } else { text })
    };
    found.into_iter().filter(|path| *path != own).map(text_of).chain(help()).collect()
}

/// Words of a text, without the characters around them.
fn words(line: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    // Not the arguments of formats, such as `{told}`.
    line.split_whitespace().filter(|word| !word.contains('{')).map(bare).collect()
}

/// Whether a line says `X is no Y`, which is harder to read than `X is not a Y`.
fn says_is_no(line: &str) -> bool {
    let words = words(line);
    let word = |place: Option<usize>| place.and_then(|place| words.get(place)).map(String::as_str).unwrap_or_default();
    (1..words.len()).filter(|place| words[place - 1] == "is" && words[*place] == "no").any(|place| {
        let (before, after) = (word(place.checked_sub(2)), word(Some(place + 1)));
        !before.is_empty() && !PLAIN_BEFORE.contains(&before) && !PLAIN_AFTER.contains(&after)
    })
}

#[test]
fn phrases_that_had_to_be_decoded_stay_out() {
    let mut wrong = Vec::new();
    for (place, text) in texts() {
        for phrase in PHRASES.iter().filter(|phrase| text.contains(**phrase)) {
            wrong.push(format!("{place}: `{phrase}`"));
        }
        for line in text.lines() {
            let padded = format!(" {} ", words(line).join(" "));
            let habits = HABITS.iter().filter(|habit| padded.contains(&format!(" {habit} ")));
            wrong.extend(habits.map(|habit| format!("{place}: `{habit}`: {line}")));
            if says_is_no(line) {
                wrong.push(format!("{place}: `is no`: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn riddles_are_found() {
    assert!(says_is_no("/// A rename is no move.") && says_is_no("`Q` is no axis"));
    assert!(!says_is_no("where there is no deadlock") && !says_is_no("a value that is no longer needed"));
    assert_eq!(prose("let a = \"b\"; // c\n// d\n"), "b\nc\n// d\n");
}

#[test]
fn names_are_the_fields_own() {
    let mut found = Vec::new();
    ["src", "tests", "benches", "examples"].iter().for_each(|place| files(place, &["rs"], &mut found));
    files("ARCHITECTURE.md", &[], &mut found);
    let own = Path::new(ROOT).join(file!());
    for path in found.into_iter().filter(|path| *path != own) {
        let text = read(&path);
        for name in NAMES {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_word = |(at, _): (usize, &str)| {
                !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
            };
            assert!(!text.match_indices(name).any(is_word), "{}: `{name}`", path.display());
        }
    }
}

/// A doc comment names the item or says what it does.
#[test]
fn doc_comments_say_something() {
    let mut found = Vec::new();
    files("src", &["rs"], &mut found);
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
