//! Part 3 of "How To Scale Your Model" as a program: every array statement in the book's order, typed by a person who
//! had read only the book. Each group is a separate program. It checks, or it is refused for the reason that the book
//! gives for it being invalid or wrong.

use crate::common::errors;

const BOOK: &str = include_str!("../cases/book_part3.txt");

/// Sizes of all dims that the book uses without one.
const DIMS: &str = "dims {A: 64, B: 64, D: 64, E: 64, F: 64, I: 128, J: 2048, K: 64, M: 64, N: 64}";
const MESH: &str = "mesh {X: 2, Y: 2, Z: 2}";

/// Shorthand inside the book's sentences that is not a statement: no brackets, or no dims at all.
const PROSE: [&str; 2] = ["F_Y -> F", "C * B * x"];

/// Groups that show several layouts of one array: each line is a separate program.
fn side_by_side(title: &str) -> bool {
    ["figure", "Visualizing", "all the cases", "Question 2", "along either axis", "part 1", "prose", "strateg"]
        .iter()
        .any(|word| title.contains(word))
}

struct Statement {
    line: usize,
    text: &'static str,
    invalid: bool,
}

/// A program: its mesh and its statements.
struct Group {
    mesh: String,
    statements: Vec<Statement>,
}

fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let (mut mesh, mut apart) = (MESH.to_owned(), false);
    for (line, text) in BOOK.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if let Some(title) = text.strip_prefix("## ") {
            (mesh, apart) = (MESH.to_owned(), side_by_side(title));
            groups.push(Group { mesh: mesh.clone(), statements: Vec::new() });
        } else if text.starts_with("mesh =") {
            mesh = text.to_owned();
            groups.push(Group { mesh: mesh.clone(), statements: Vec::new() });
        } else if let Some(written) = text.strip_prefix("mesh ") {
            // The book writes both `Mesh({..})` and `{..}`.
            let written = if written.starts_with("Mesh") { written.to_owned() } else { format!("mesh {written}") };
            mesh = written.replace("X': 8, 'Y': 4}", "X': 8, 'Y': 4, 'Z': 1}");
            groups.push(Group { mesh: mesh.clone(), statements: Vec::new() });
        } else if !text.is_empty() && !text.starts_with('#') {
            let (statement, note) = text.split_once('#').unwrap_or((text, ""));
            let invalid = note.trim().starts_with("invalid");
            if apart || invalid {
                groups.push(Group { mesh: mesh.clone(), statements: Vec::new() });
            }
            let group = groups.last_mut().expect("a group has a title");
            group.statements.push(Statement { line, text: statement.trim(), invalid });
        }
    }
    groups.retain(|group| !group.statements.is_empty());
    groups
}

#[test]
fn every_array_statement_of_the_book() {
    let (mut checked, mut refused) = (0, Vec::new());
    for group in groups() {
        let statements = group.statements.iter().filter(|statement| !PROSE.contains(&statement.text));
        let body: Vec<&str> = statements.map(|statement| statement.text).collect();
        if body.is_empty() {
            continue;
        }
        let lines: Vec<usize> = group.statements.iter().map(|statement| statement.line).collect();
        let found = errors(&format!("{}\n{DIMS}\n{}", group.mesh, body.join("\n")));
        if group.statements.iter().any(|statement| statement.invalid) {
            assert_eq!(found.len(), 1, "lines {lines:?}: {body:?} gives {found:?}");
            refused.push((body.join("; "), found[0].clone()));
        } else {
            assert!(found.is_empty(), "lines {lines:?}: {body:?} gives {found:?}");
            checked += body.len();
        }
    }
    assert!(checked >= 75, "only {checked} statements check");
    assert_eq!(
        refused,
        [
            ("A[I_X, J_X]", "axis-reused"),
            ("A[I_X, J] * B[J, K_X] -> C[I_X, K_X]", "axis-reused"),
            ("AllGather_Z([B_X, D_Y]{U_Z})", "collective-axis"),
        ]
        .map(|(text, code)| (text.to_owned(), code.to_owned()))
    );
}
