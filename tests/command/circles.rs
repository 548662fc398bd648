//! Finds import cycles between files. Only cycles in which several files share one type are allowed; they are named
//! below.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module, by its path from the crate root.
type Module = Vec<String>;

/// The file at the center of each allowed cycle: it defines a type to which the other files of its folder add
/// methods, or uses what they produce.
const ALLOWED: [(&str, &str); 4] = [
    ("program/checker", "Checker"),
    ("recipe/tuner", "Tuner"),
    ("sim/proof/run", "Run"),
    ("engine/mpi/session", "Session"),
];

/// A source file: its definitions, and the paths that it names, each as the words between `::`.
struct Source {
    defined: BTreeSet<String>,
    /// Imported names, with their paths.
    taken: Vec<(String, Vec<String>)>,
    /// Other paths.
    named: Vec<Vec<String>>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(path: &str) -> Vec<String> {
    path.split("::").map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

/// Every path of an import tree, with the name that it binds.
fn expanded(prefix: &[String], tree: &str, found: &mut Vec<(String, Vec<String>)>) {
    let Some((head, list)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = [prefix, &words(path)].concat();
        let name = if name.is_empty() { path.last().cloned().unwrap_or_default() } else { name.trim().to_owned() };
        return found.push((name, path.into_iter().filter(|word| word != "self" || prefix.is_empty()).collect()));
    };
    let prefix = [prefix, &words(head)].concat();
    let (mut depth, mut from) = (0, 0);
    let list = &list[..list.rfind('}').expect("a closing brace")];
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !list[from..at].trim().is_empty() {
                    expanded(&prefix, list[from..at].trim(), found);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

fn read(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).expect("a source");
    let own = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let code: String = own.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let (mut taken, mut rest) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        let import = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].trim_end();
            before.is_empty() || before.ends_with(['}', ')']) || before.ends_with("pub") || before.ends_with('\n')
        });
        match import {
            Some(at) if !statement[at..].contains(['=', '(']) => {
                expanded(&[], statement[at + 4..].trim_end_matches(';'), &mut taken);
                rest.push_str(&statement[..at]);
            }
            _ => rest.push_str(statement),
        }
    }
    let kinds = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "macro_rules! "];
    let defined =
        rest.lines().flat_map(|line| kinds.iter().filter_map(|kind| Some(&line[line.find(kind)? + kind.len()..])));
    let defined = defined.map(|name| name.chars().take_while(|c| is_word(*c)).collect()).collect();
    let paths = rest.split(|c: char| !is_word(c) && c != ':').filter(|word| word.contains("::"));
    let plain = rest.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
    let named = paths.chain(plain).map(words).filter(|path| !path.is_empty());
    Source { defined, taken, named: named.collect::<BTreeSet<_>>().into_iter().collect() }
}

/// The source files by module. Imports between a module and one that contains it are ignored.
struct Files(BTreeMap<Module, Source>);

impl Files {
    fn read(folder: &Path, module: &[String], files: &mut BTreeMap<Module, Source>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                Files::read(&path, &[module, &[stem]].concat(), files);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !stem.contains("tests") {
                let is_face = ["mod", "lib", "main"].contains(&stem.as_str());
                let module = if is_face { module.to_vec() } else { [module, &[stem]].concat() };
                files.insert(module, read(&path));
            }
        }
    }

    /// The path from the crate root.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Module> {
        let ups = path.iter().take_while(|word| *word == "super").count();
        match path.first().map(String::as_str)? {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat()),
            first => self.0.contains_key(&[module, &[first.to_owned()]].concat()).then(|| [module, path].concat()),
        }
    }

    /// The file that defines the item of a path.
    fn home(&self, path: &[String], depth: usize) -> Option<Module> {
        let (module, rest) =
            (0..=path.len()).rev().find_map(|n| self.0.contains_key(&path[..n]).then(|| path.split_at(n)))?;
        let (Some(name), source) = (rest.first(), &self.0[module]) else { return Some(module.to_vec()) };
        let handed_on = source.taken.iter().find(|(taken, _)| taken == name).filter(|_| !source.defined.contains(name));
        let further = handed_on.filter(|_| depth < 8).and_then(|(_, from)| self.absolute(module, from));
        further.and_then(|from| self.home(&[&from, &rest[1..]].concat(), depth + 1)).or_else(|| Some(module.to_vec()))
    }

    fn dependencies_of(&self, module: &Module) -> BTreeSet<Module> {
        let source = &self.0[module];
        // A re-export is not a use.
        let first =
            |path: &[String]| source.taken.iter().find(|(name, _)| *name == path[0]).map(|(_, from)| from.clone());
        let used = source.named.iter().filter_map(|path| Some([first(path)?, path[1..].to_vec()].concat()));
        let direct = source.named.iter().filter(|path| path.len() > 1).cloned();
        let homes = used.chain(direct).filter_map(|path| self.home(&self.absolute(module, &path)?, 0));
        homes.filter(|home| !home.starts_with(module) && !module.starts_with(home)).collect()
    }

    /// The files that are on cycles, or between two of them, when the allowed ones are left out.
    fn in_circles(&self) -> Vec<Module> {
        let is_allowed = |module: &Module| ALLOWED.iter().any(|(file, _)| *file == module.join("/"));
        let kept = self.0.keys().filter(|module| !is_allowed(module));
        let mut users: BTreeMap<&Module, BTreeSet<Module>> =
            kept.map(|module| (module, self.dependencies_of(module))).collect();
        loop {
            // A file that imports none of the remaining files is on no cycle.
            let left: BTreeSet<Module> = users.keys().map(|module| (*module).clone()).collect();
            let before = users.len();
            users.retain(|_, on| on.iter().any(|other| left.contains(other)));
            let used: BTreeSet<Module> = users.values().flatten().cloned().collect();
            users.retain(|module, _| used.contains(*module));
            if users.len() == before {
                return users.into_keys().cloned().collect();
            }
        }
    }
}

#[test]
fn files_lean_on_each_other_in_circles_only_through_a_type_that_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    Files::read(&root.join("src"), &[], &mut files);
    let files = Files(files);
    // The parser recognizes imports of names, of modules, and through re-exports.
    let module = |path: &str| words(&path.replace('/', "::"));
    for (from, to) in [("plan/build", "plan/alternatives"), ("plan/lazy", "plan/search"), ("cli/plan", "report/why")] {
        assert!(files.dependencies_of(&module(from)).contains(&module(to)), "{from} depends on {to}");
    }
    assert_eq!(files.in_circles(), Vec::<Module>::new(), "these are in circles");
    let told = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("it is there");
    for (file, name) in ALLOWED {
        assert!(files.0[&module(file)].defined.contains(name), "{file} defines {name}");
        assert!(told.contains(&format!("`{name}`")), "ARCHITECTURE.md names {name}");
    }
}
