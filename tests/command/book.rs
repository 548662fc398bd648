//! Checks the book: every program, command, output and link of the pages that `docs/SUMMARY.md` lists.
//!
//! - A block below `<!-- mlp.shard -->` is a file, which `shardc check` must accept, or reject below `<!-- mlp.shard:
//!   wrong -->`. Other files, such as `cluster.toml`, are only written.
//! - In a `console` block, each line `$ shardc ..` is run in a folder with the files above it, and the lines below it
//!   are its output. A line `...` matches any number of lines. `console status=1` is the exit status of the last
//!   command. Paths in `examples/` and `tests/` are those of the repository.
//! - `console full` is run in full runs only, and when the page is written.
//! - A block of another program, such as `sh` or `python`, is not run; `<!-- not run: REASON -->` above it gives the
//!   reason.
//!
//! `SHARDC_BOOK=write cargo test --test command book` updates the outputs that contain no `...`.

use crate::common::page::{Fence, fences, outside, remade};
use crate::common::process::{shardc, text};
use crate::common::sets;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Pages that another test or benchmark checks or writes, or whose commands need other machines (`mpi.md`).
const KEPT: [(&str, &str); 13] = [
    ("corpus.md", "tests/planner/corpus_table.rs"),
    ("documents.md", "tests/command/reference_pages.rs"),
    ("formats.md", "tests/exports/export.rs"),
    ("growth.md", "benches/growth.rs"),
    ("audit.md", "tests/language/imported.rs"),
    ("import.md", "tests/language/imported.rs"),
    ("language.md", "tests/language/reference.rs"),
    ("machines.md", "tests/clock/measured.rs"),
    ("methods.md", "tests/clock/method_table/mod.rs"),
    ("mpi.md", "tests/mpi.rs"),
    ("planning.md", "tests/planner/planning.rs"),
    ("schedules.md", "tests/schedules/given.rs"),
    ("sweep.md", "tests/command/sweep.rs"),
];

/// Figures of the course that occur in the book and its formulas, and the sizes that they refer to.
const BOOK: [&str; 19] = [
    "1 us",
    "1491 us",
    "16,384 bytes",
    "174.4 us",
    "186 us",
    "23 us",
    "31.07 us",
    "35.0 us",
    "62.14 us",
    "373 us",
    "377 us",
    "45 kB",
    "46 us",
    "5.8 us",
    "524,288 bytes",
    "537 MB",
    "560 us",
    "746 us",
    "90 kB",
];

/// Languages of blocks that are neither run nor written, and need no reason.
const PLAIN: [&str; 1] = ["text"];

/// The paths of all pages in `docs`, relative to it, without the summary.
fn pages() -> BTreeSet<String> {
    let docs = Path::new(ROOT).join("docs");
    let name = |path: PathBuf| {
        let below = path.strip_prefix(&docs).expect("below docs").iter();
        below.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    crate::common::files_of("docs", "md").into_iter().map(name).filter(|name| name != "SUMMARY.md").collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|_| panic!("{path} is missing"))
}

/// The words of a command line, with `"..."` as one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, piece) in line.split('"').enumerate() {
        match place % 2 {
            0 => words.extend(piece.split_whitespace().map(str::to_owned)),
            _ => words.push(piece.to_owned()),
        }
    }
    words
}

/// Copies a file or a folder of the repository to the same path below `folder`.
fn copy(path: &str, folder: &Path) {
    let from = Path::new(ROOT).join(path);
    if from.is_dir() {
        for entry in std::fs::read_dir(from).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            copy(&format!("{path}/{}", name.to_string_lossy()), folder);
        }
    } else if from.is_file() {
        let to = folder.join(path);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::fs::copy(from, to).expect("a copy");
    }
}

/// Exit status and output lines of a command, errors last.
fn run(line: &str, folder: &Path) -> (i32, Vec<String>) {
    let words = words(line);
    assert_eq!(words.first().map(String::as_str), Some("shardc"), "`{line}`: only `shardc` is run");
    for word in words.iter().filter(|word| word.starts_with("examples/") || word.starts_with("tests/")) {
        copy(word, folder);
    }
    let arguments = words.iter().skip(1).map(String::as_str);
    let plain = ["--color", "never", "--width", "120", "--no-progress"];
    let output = shardc(folder, &arguments.chain(plain).collect::<Vec<_>>()).output().expect("it runs");
    let printed = text(&output.stdout) + &text(&output.stderr);
    let printed = printed.trim_matches('\n').lines().map(|line| line.trim_end().to_owned()).collect();
    (output.status.code().unwrap_or(-1), printed)
}

/// Whether lines match a pattern, in which `...` is any number of lines.
fn matches(pattern: &[&str], lines: &[String]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..])),
        Some((first, rest)) => lines.first().is_some_and(|line| line == first) && matches(rest, &lines[1..]),
    }
}

/// The body of a `console` block with the outputs of its commands.
fn console(fence: &Fence<'_>, folder: &Path, failures: &mut Vec<String>) -> String {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in fence.body.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, expected))) => expected.push(line),
            (None, None) => panic!("line {}: a block begins with `$ `", fence.line),
        }
    }
    let mut made = String::new();
    let count = commands.len();
    for (place, (command, mut expected)) in commands.into_iter().enumerate() {
        while expected.last().is_some_and(|line| line.is_empty()) {
            expected.pop();
        }
        let (status, found) = run(command, folder);
        let stated = match fence.info.split_once("status=") {
            Some((_, stated)) if place + 1 == count => stated.parse().expect("an exit status"),
            _ => 0,
        };
        if status != stated {
            failures.push(format!("line {}: `{command}`: exit status {status}\n{}", fence.line, found.join("\n")));
        }
        let is_elided = expected.contains(&"...");
        if is_elided && !matches(&expected, &found) {
            failures.push(format!("line {}: `{command}` prints\n{}", fence.line, found.join("\n")));
        }
        let found = found.iter().map(String::as_str).collect();
        let lines = if is_elided { expected } else { found };
        let gap = if place == 0 { "" } else { "\n" };
        writeln!(made, "{gap}$ {command}").expect("a string");
        lines.iter().for_each(|line| made.extend([line, "\n"]));
    }
    made
}

fn is_written() -> bool {
    std::env::var("SHARDC_BOOK").is_ok_and(|asked| asked == "write")
}

/// The page with the outputs of its commands. Failures that cannot be written are appended to the list.
fn made(page: &str, failures: &mut Vec<String>) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    remade(page, |fence| {
        let marker = fence.marker.unwrap_or_default();
        let (file, how) = marker.split_once(": ").unwrap_or((marker, ""));
        let is_command = |line: &str| line.trim_start_matches("$ ").starts_with("shardc ");
        let is_program = fence.language() == "shard" || fence.body.starts_with("mesh ");
        if fence.language() == "console" {
            // Those that take long.
            if fence.info.contains("full") && !sets::are_full() && !is_written() {
                return fence.body.to_owned();
            }
            return console(&fence, folder.path(), failures);
        } else if file == "not run" {
            assert!(how.len() > 10, "line {}: why is this not run?", fence.line);
        } else if !file.contains(' ') && file.contains('.') {
            std::fs::write(folder.path().join(file), fence.body).expect("a file");
            if file.ends_with(".shard") {
                let (status, found) = run(&format!("shardc check {file}"), folder.path());
                let stated = i32::from(how == "wrong");
                if status != stated {
                    failures.push(format!("line {}: `{file}`: exit status {status}\n{}", fence.line, found.join("\n")));
                }
            }
        } else if is_program || !PLAIN.contains(&fence.language()) || fence.body.lines().any(is_command) {
            failures.push(format!("line {}: neither a file nor run, and no reason is stated", fence.line));
        }
        fence.body.to_owned()
    })
}

#[test]
fn cuts_stand_for_lines() {
    let lines = ["a", "b", "c"].map(str::to_owned);
    assert!(matches(&["a", "...", "c"], &lines) && matches(&["...", "c", "..."], &lines));
    assert!(!matches(&["a", "c"], &lines) && !matches(&["a", "..."], &lines[1..]) && !matches(&["...", "b"], &lines));
    assert_eq!(words(r#"shardc plan a --why "y by gather(W)""#), ["shardc", "plan", "a", "--why", "y by gather(W)"]);
}

#[test]
fn what_the_book_shows_is_real() {
    let kept: BTreeMap<_, _> = KEPT.into();
    let own: Vec<String> = pages().into_iter().filter(|page| !kept.contains_key(page.as_str())).collect();
    let check = |page: &String| {
        let path = format!("docs/{page}");
        let (old, mut failures) = (read(&path), Vec::new());
        let new = made(&old, &mut failures);
        if new != old && is_written() {
            std::fs::write(Path::new(ROOT).join(&path), new).expect("a page that can be written");
        } else if new != old {
            let differing = old.lines().zip(new.lines()).find(|(old, new)| old != new);
            failures.push(format!("{differing:?}; `SHARDC_BOOK=write cargo test --test command book` writes it anew"));
        }
        failures.into_iter().map(|failure| format!("{path}: {failure}")).collect::<Vec<_>>()
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = own.iter().map(|page| scope.spawn(move || check(page))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a page")).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// All pages of the repository for users and developers.
fn all_pages() -> impl Iterator<Item = String> {
    let top = std::fs::read_dir(ROOT).expect("the repository").map(|entry| entry.expect("an entry").file_name());
    let top = top.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.ends_with(".md"));
    let docs = ["SUMMARY.md".to_owned()].into_iter().chain(pages()).map(|page| format!("docs/{page}"));
    top.chain(docs).chain(["fuzz/README.md".to_owned()])
}

/// Shell commands are `console` blocks that are run, or have a reason for not being run.
#[test]
fn commands_that_are_not_run_have_a_reason() {
    for path in all_pages() {
        let page = read(&path);
        for fence in fences(&page).into_iter().filter(|fence| ["sh", "bash", "shell"].contains(&fence.language())) {
            let reason = fence.marker.and_then(|marker| marker.strip_prefix("not run: "));
            assert!(reason.is_some(), "{path}: line {}: why is this not run?", fence.line);
        }
    }
}

/// The command lines of blocks that the tests do not run: each line or comment-free part of it from `shardc` on.
fn command_lines<'p>(fence: &Fence<'p>) -> Vec<Vec<String>> {
    let is_command = |word: &&str| *word == "shardc" || word.ends_with("/shardc");
    let mut found = Vec::new();
    for line in fence.body.lines() {
        let line = line.trim_start_matches("$ ").split([';', '>']).next().unwrap_or_default();
        // A comment, or a description in a second column.
        let line = [" #", "   "].iter().fold(line.trim(), |line, end| line.split(end).next().unwrap_or_default());
        let Some(place) = line.split_whitespace().position(|word| is_command(&word)) else { continue };
        // A container and a package are not called with the options of the command.
        let before = line.split_whitespace().take(place).collect::<Vec<_>>().join(" ");
        let is_called = before.is_empty() || ["mpirun", "nice"].iter().any(|runner| before.starts_with(runner));
        if is_called {
            let from = line.find("shardc").map_or(line.len(), |at| at + "shardc".len());
            found.push(words(&line[from..]));
        }
    }
    found
}

/// Commands in blocks that are not run, on pages and in documents of machines, are commands of `shardc`: their options
/// exist and take these values. Tests and benchmarks that a page names exist, too.
#[test]
fn commands_that_are_not_run_are_right() {
    let (mut count, mut wrong) = (0, Vec::new());
    let cargo = read("Cargo.toml");
    for path in all_pages() {
        let page = read(&path);
        for fence in fences(&page) {
            for mut arguments in command_lines(&fence) {
                // With `--help`, everything before it is parsed and nothing is done.
                arguments.push("--help".to_owned());
                let output = shardc(ROOT, &arguments).output().expect("it runs");
                count += 1;
                // A file that is shown to be refused, or an output in which a command is quoted.
                if !output.status.success() && fence.language() != "text" {
                    wrong.push(format!("{path}: line {}: {arguments:?}\n{}", fence.line, text(&output.stderr)));
                } else if !output.status.success() {
                    wrong.push(format!("{path}: line {}: {arguments:?}", fence.line));
                }
            }
        }
        let words: Vec<&str> = page.split(|c: char| c.is_whitespace() || "`,.;()".contains(c)).collect();
        for pair in words.windows(2) {
            let exists = match pair[0] {
                "--test" => {
                    Path::new(ROOT).join(format!("tests/{}/main.rs", pair[1])).exists()
                        || Path::new(ROOT).join(format!("tests/{}.rs", pair[1])).exists()
                }
                "--bench" => cargo.contains(&format!("[[bench]]\nname = \"{}\"", pair[1])),
                _ => continue,
            };
            count += 1;
            if !exists {
                wrong.push(format!("{path}: `{} {}`", pair[0], pair[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "{count} commands");
}

/// The figures in a text: `430.4 us`, `1.06x`, `512,000 bytes`.
pub(super) fn figures(text: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(|c: char| "(),.;:`|".contains(c)).to_owned();
    let words: Vec<String> = text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || ".,".contains(c));
    let units = ["ns", "us", "ms", "s", "bytes", "kB", "MB", "GB", "%"];
    let pairs = words.windows(2).filter(|pair| is_number(&pair[0]) && units.contains(&pair[1].as_str()));
    let ratios =
        words.iter().filter(|word| word.strip_suffix('x').is_some_and(|rest| is_number(rest) && !rest.is_empty()));
    pairs.map(|pair| pair.join(" ")).chain(ratios.cloned()).collect()
}

/// Figures in the text of a page are printed by a command on it, or come from the course or from another page.
#[test]
fn figures_are_printed() {
    let kept: BTreeMap<_, _> = KEPT.into();
    let machines = outside(&read("docs/machines.md"));
    let mut unknown = Vec::new();
    for name in pages().into_iter().filter(|page| !kept.contains_key(page.as_str())) {
        let page = read(&format!("docs/{name}"));
        let printed: String = fences(&page).iter().map(|fence| fence.body).collect();
        let printed = figures(&printed).into_iter().chain(figures(&machines)).collect::<BTreeSet<_>>();
        let of_book = |figure: &String| name == "course.md" && BOOK.contains(&figure.as_str());
        let own = figures(&outside(&page)).into_iter().filter(|figure| !printed.contains(figure) && !of_book(figure));
        unknown.extend(own.map(|figure| format!("docs/{name}: {figure}")));
    }
    assert!(unknown.is_empty(), "no command prints\n{}", unknown.join("\n"));
}

/// The page of commands contains every command and every option of the help.
#[test]
fn the_page_of_commands_is_complete() {
    let page = read("docs/commands.md");
    let help = |arguments: &[&str]| text(&shardc(ROOT, arguments).output().expect("it runs").stdout);
    let all = help(&["--help"]);
    let list = all.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list of commands");
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    assert!(commands.len() > 15, "{all}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(page.contains(&format!("`shardc {command}")), "docs/commands.md lacks `shardc {command}`");
        for line in help(&[command, "--help"]).lines() {
            let option = line.split([' ', '<']).find(|word| word.starts_with("--")).unwrap_or_default();
            let is_named = line.trim_start().starts_with('-') && option != "--help";
            assert!(!is_named || page.contains(option), "docs/commands.md lacks `{option}` of `shardc {command}`");
        }
    }
}

/// The summary lists each page once, and the tests that check pages exist.
#[test]
fn the_summary_lists_every_page() {
    let summary = read("docs/SUMMARY.md");
    let mut listed = BTreeSet::new();
    for target in links(&summary) {
        assert!(listed.insert(target.clone()), "docs/SUMMARY.md lists {target} twice");
    }
    assert_eq!(listed, pages());
    for (page, test) in KEPT {
        assert!(listed.contains(page), "{page} is not a page");
        assert!(Path::new(ROOT).join(test).exists(), "{test} is missing");
    }
    let book = read("book.toml");
    assert!(book.contains("\nsrc = \"docs\"\n") && book.contains("\nbuild-dir = \"target/book\"\n"), "{book}");
}

/// Link targets of a page, except those in its blocks and in code.
fn links(page: &str) -> Vec<String> {
    let outside = outside(page);
    let paragraphs = outside.split("\n\n").map(|paragraph| paragraph.split('`').step_by(2).collect::<String>());
    let targets = |text: String| {
        let found = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    paragraphs.flat_map(targets).collect()
}

/// Anchors of the headings of a page, as generated by GitHub and mdBook.
fn anchors(page: &str) -> BTreeSet<String> {
    let outside = outside(page);
    let headings = outside.lines().filter(|line| line.starts_with('#'));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for heading in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = counts.entry(anchor.clone()).or_default();
        found.insert(if *count == 0 { anchor.clone() } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let (mut broken, mut count) = (Vec::new(), 0);
    for path in all_pages() {
        let page = read(&path);
        for link in links(&page).into_iter().filter(|link| !link.contains(':')) {
            count += 1;
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, at)| (file, Some(at)));
            let folder = Path::new(ROOT).join(&path).parent().expect("a folder").to_owned();
            let target = if file.is_empty() { Path::new(ROOT).join(&path) } else { folder.join(file) };
            let is_found = match anchor {
                None => target.exists(),
                Some(anchor) => std::fs::read_to_string(&target).is_ok_and(|page| anchors(&page).contains(anchor)),
            };
            if !is_found {
                broken.push(format!("{path}: ({link})"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(count > 100, "{count} links");
}
