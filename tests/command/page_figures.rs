//! Counts and figures in the text of pages whose commands are not run: each is in a table or a block of its page, which a test
//! or a documented command makes, or has its source here.

use crate::common::page::{fences, outside};
use std::collections::BTreeSet;
use std::path::Path;

/// Figures in the text, and the test, source or script that they come from.
const SOURCES: [(&str, &[&str], &str); 9] = [
    ("corpus.md", &["5 %"], "tests/planner/corpus_table.rs"),
    ("formats.md", &["1 %"], "src/export/msccl/build.rs"),
    ("import.md", &["0.737 GB", "664 MB"], "tests/imported/xla.py"),
    ("machines.md", &["90 %", "16.6 us", "7.1 us"], "tests/measured/collectives.csv"),
    // Sizes and time limits.
    ("growth.md", &["8.4 ms", "2.4 ms", "20 us"], "benches/exchange.rs"),
    ("mpi.md", &["0.5 s", "1 s", "4 MB"], "src/engine/mpi"),
    ("planning.md", &["0.01 %", "1 %", "139.8 us", "46.60 us", "2.70 ms"], "tests/planner/overlap.rs"),
    ("planning.md", &["161 MB", "4.2 s"], "tests/resources/measure.py"),
    ("schedules.md", &["186.4 us", "193.7 us", "1 us", "194 us"], "tests/schedules/given.rs"),
];

/// Pages that are not run by the test of the book.
const PAGES: [&str; 11] = [
    "corpus.md",
    "formats.md",
    "growth.md",
    "audit.md",
    "import.md",
    "machines.md",
    "methods.md",
    "mpi.md",
    "planning.md",
    "schedules.md",
    "sweep.md",
];

/// Commands that make the figures of a page that no test can check, such as times on a machine.
const COMMANDS: [(&str, &str, &str); 7] = [
    ("growth.md", "cargo bench --bench growth", "benches/growth.rs"),
    ("growth.md", "cargo bench --bench clock", "benches/clock.rs"),
    ("growth.md", "cargo bench --bench exchange", "benches/exchange.rs"),
    ("planning.md", "cargo bench --bench planner", "benches/planner/main.rs"),
    ("audit.md", "python tests/imported/constrain.py shardc FOLDER --table", "tests/imported/constrain.py"),
    ("import.md", "python tests/imported/xla.py shardc FOLDER", "tests/imported/xla.py"),
    ("mpi.md", "mpirun -n 8 shardc calibrate --engine mpi --against here.toml", "src/cli/calibrate.rs"),
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is missing", path.display()))
}

#[test]
fn figures_of_text_have_a_source() {
    let mut unknown = Vec::new();
    for name in PAGES {
        let page = read(&format!("docs/{name}"));
        let (rows, text): (Vec<String>, Vec<String>) =
            outside(&page).lines().map(str::to_owned).partition(|line| line.starts_with('|'));
        let blocks: Vec<&str> = fences(&page).iter().map(|fence| fence.body).collect();
        let known: BTreeSet<String> =
            super::book::figures(&(rows.join("\n") + "\n" + &blocks.join("\n"))).into_iter().collect();
        let stated: BTreeSet<String> = super::book::figures(&text.join("\n")).into_iter().collect();
        let listed = SOURCES.iter().filter(|(page, ..)| *page == name);
        let sourced: BTreeSet<&str> = listed.flat_map(|(_, figures, _)| figures.iter().copied()).collect();
        let measured = name == "machines.md";
        for figure in stated.iter().filter(|figure| !known.contains(*figure) && !sourced.contains(figure.as_str())) {
            // Errors of the fits are generated between markers.
            if !(measured && page.contains(&format!(" {figure}")) && figure.ends_with('%')) {
                unknown.push(format!("docs/{name}: {figure}"));
            }
        }
        unknown.extend(
            sourced
                .iter()
                .filter(|figure| !stated.contains(**figure))
                .map(|figure| format!("docs/{name} has no {figure}")),
        );
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    for (_, _, source) in SOURCES {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(source).exists(), "{source} is missing");
    }
}

/// Pages with times of a machine name the command that makes them.
#[test]
fn measured_pages_name_their_command() {
    for (page, command, source) in COMMANDS {
        let text = read(&format!("docs/{page}")).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(command), "docs/{page} does not name `{command}`");
        read(source);
    }
}

/// Counts of models, profiles and measurements in the README and the book.
#[test]
fn counts_are_right() {
    let files = |folder: &str, ending: &str| {
        let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder");
        entries
            .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(ending)))
            .count()
    };
    let grouped = |rows: usize| format!("{},{:03}", rows / 1000, rows % 1000);
    let models = files("tests/models", ".shard");
    let [collectives, products] = ["collectives", "products"]
        .map(|name| grouped(read(&format!("tests/measured/{name}.csv")).lines().count() - 1));
    for page in ["README.md", "docs/introduction.md"] {
        assert!(read(page).contains(&format!("{models} small model")), "{page}: {models} models");
    }
    for page in ["README.md", "docs/machines.md", "docs/concepts.md"] {
        let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("{collectives} NCCL collectives")) && text.contains("nine GPUs"), "{page}");
        assert!(page == "README.md" || text.contains(&products), "{page}: {products}");
    }
    let profiles = std::fs::read_dir("src/topology/profiles").expect("a folder");
    let fitted = profiles.filter(|entry| {
        let text = std::fs::read_to_string(entry.as_ref().expect("an entry").path()).expect("a profile");
        text.contains("[[network.measured]]")
    });
    assert_eq!(fitted.count(), 9, "nine GPUs");
    let repeated = read("tests/measured/collectives.csv");
    let of = |dtype: &str| {
        let row = repeated
            .lines()
            .find(|row| row.starts_with("h100_sxm,") && row.contains(&format!(",AllToAll,{dtype},8,16384,")));
        row.and_then(|row| row.rsplit(',').next()?.parse::<f64>().ok()).expect("a row")
    };
    let text = read("docs/machines.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("took {:.1} us in f16 and {:.1} us in i8", of("f16"), of("i8"))));
}
