//! Files in, text out.

use super::render::{self, RenderOptions};
use super::{Failure, Format};
use crate::compiler::{self, Options, Spelling};
use crate::diag::{Diagnostics, Severity};
use crate::picture::terminal::Paint;
use crate::program::Program;
use crate::report::document;
use crate::topology;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

/// The most bytes of a source that are read; the parser refuses less than that with a better message.
const MOST_BYTES: u64 = 64 << 20;

/// A source text with the name to call it by.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
    /// Sizes of dims that take the place of the written ones.
    sizes: Vec<(String, u64)>,
    spelling: Spelling,
}

impl Source {
    /// What has a name and no text.
    pub(super) fn nowhere(name: &str) -> Source {
        Source { name: name.to_owned(), text: String::new(), sizes: Vec::new(), spelling: Spelling::Exact }
    }

    /// The source with sizes of dims given from outside.
    pub(super) fn with(self, sizes: &[(String, u64)]) -> Source {
        Source { sizes: sizes.to_vec(), ..self }
    }

    /// The source, read leniently if that is asked for.
    pub(super) fn leniently(self, lenient: bool) -> Source {
        Source { spelling: if lenient { Spelling::Lenient } else { Spelling::Exact }, ..self }
    }

    /// The program, if it is one, and what was found.
    pub(super) fn check(&self) -> Result<(Option<Program>, Diagnostics), Failure> {
        compiler::check_with(&self.text, &self.sizes, self.spelling)
            .map_err(|error| Failure::Call(format!("`--set`: {error} (in `{}`)", self.name)))
    }

    /// Whether only what is written communicates.
    pub(super) fn check_strict(&self, program: &Program, options: &Options) -> Result<(), Diagnostics> {
        compiler::check_strict(&self.text, &self.sizes, self.spelling, program, options)
    }
}

/// `B=16`
pub(super) fn size(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.split_once('=').ok_or("write a dim and its size: `B=16`")?;
    let size = size.trim().parse().map_err(|_| format!("`{}` is not a size", size.trim()))?;
    Ok((name.trim().to_owned(), size))
}

/// Reads a file, or standard input for `-`.
pub(super) fn source(path: &str) -> Result<Source, Failure> {
    let call = |error: std::io::Error| Failure::Call(format!("cannot read `{path}`: {error}"));
    let mut bytes = Vec::new();
    if path == "-" {
        std::io::stdin().take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(call)?;
    } else {
        std::fs::File::open(path).map_err(call)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(call)?;
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::Call(format!("`{path}` is larger than {} MiB", MOST_BYTES >> 20)));
    }
    let name = if path == "-" { "<stdin>".to_owned() } else { path.to_owned() };
    let text = String::from_utf8(bytes).map_err(|_| Failure::Call(format!("`{path}` is not text (UTF-8)")))?;
    Ok(Source { name, text, sizes: Vec::new(), spelling: Spelling::Exact })
}

/// A profile by name, or from a TOML file.
pub(super) fn hardware(name: &str) -> Result<topology::Hardware, Failure> {
    if let Some(hardware) = topology::Hardware::named(name) {
        return Ok(hardware);
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        let names: Vec<String> = topology::Hardware::names().map(|name| name.to_string()).collect();
        return Err(Failure::Call(format!(
            "no hardware is called `{name}`; known are {}, or a .toml file",
            names.join(", ")
        )));
    }
    let file = source(name)?;
    topology::Hardware::from_toml(&file.text).map_err(|error| {
        say(&render(&Diagnostics::of(&error), &file));
        Failure::Call(format!("`{name}` is not a hardware profile"))
    })
}

/// Checks a source and says what was found; text goes to standard error.
pub(super) fn checked(source: &Source, options: &Options, format: Format) -> Result<(Program, Diagnostics), Failure> {
    let (program, diagnostics) = quietly(source, options, format)?;
    match format {
        Format::Text => say(&render(&diagnostics, source)),
        Format::Json => {}
    }
    Ok((program, diagnostics))
}

/// Checks a source and says what is wrong; of a right one nothing is said.
pub(super) fn quietly(source: &Source, options: &Options, format: Format) -> Result<(Program, Diagnostics), Failure> {
    let (program, mut diagnostics) = source.check()?;
    let strict = program.as_ref().filter(|_| options.strict).map(|program| source.check_strict(program, options));
    if let Some(Err(found)) = strict {
        diagnostics.extend(found);
        return Err(fault(source, &diagnostics, format));
    }
    program.map(|program| (program, diagnostics.clone())).ok_or_else(|| fault(source, &diagnostics, format))
}

/// Says what is wrong with a program.
pub(super) fn fault(source: &Source, diagnostics: &Diagnostics, format: Format) -> Failure {
    match format {
        Format::Text => {
            say(&render(diagnostics, source));
            say(&summary(diagnostics));
        }
        Format::Json => {
            let document = document::check(&source.name, &source.text, diagnostics);
            print_json(&document).ok();
        }
    }
    Failure::Program
}

/// Tells which expectations do not hold, after the report; in JSON they are in its document.
pub(super) fn judged(source: &Source, breaches: &Diagnostics, format: Format) -> Result<(), Failure> {
    if breaches.is_empty() {
        return Ok(());
    }
    match format {
        Format::Text => {
            say(&render(breaches, source));
            say(&summary(breaches));
        }
        Format::Json => {}
    }
    Err(Failure::Program)
}

/// Diagnostics as text for this terminal.
pub(super) fn render(diagnostics: &Diagnostics, source: &Source) -> String {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    render::render(diagnostics, &source.name, &source.text, RenderOptions { color, ..RenderOptions::default() })
}

/// Whether standard output is a terminal that may be coloured.
pub(super) fn paint() -> Paint {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if color { Paint::Color } else { Paint::Plain }
}

/// `2 errors, 1 warning`
pub(super) fn summary(diagnostics: &Diagnostics) -> String {
    let count = |severity, word: &str| {
        let n = diagnostics.count(severity);
        (n > 0).then(|| format!("{n} {word}{}", if n == 1 { "" } else { "s" }))
    };
    let counts: Vec<String> =
        [count(Severity::Error, "error"), count(Severity::Warning, "warning")].into_iter().flatten().collect();
    if counts.is_empty() { String::new() } else { format!("{}\n", counts.join(", ")) }
}

/// To standard error; a closed pipe is nobody's fault.
pub(super) fn say(text: &str) {
    anstream::stderr().write_all(text.as_bytes()).ok();
}

/// To standard output. A reader that has gone away ends the command quietly.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// One JSON document on a line.
pub(super) fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(document).map_err(|error| Failure::Call(error.to_string()))?;
    print(&format!("{json}\n"))
}

/// Writes a file whole or not at all; what may be done with it stays as it was. A device is written to.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let call = |error: std::io::Error| Failure::Call(format!("cannot write `{}`: {error}", path.display()));
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let old = std::fs::metadata(path);
    if old.as_ref().is_ok_and(|old| !old.is_file() && !old.is_dir()) {
        return std::fs::write(path, content).map_err(call);
    }
    let permissions = old.map(|old| old.permissions());
    let written = std::fs::write(&beside, content).and_then(|()| match permissions {
        Ok(permissions) => std::fs::set_permissions(&beside, permissions),
        Err(_) => Ok(()),
    });
    written.and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
        std::fs::remove_file(&beside).ok();
        call(error)
    })
}

/// Writes a new folder of files, whole or not at all.
pub(super) fn write_folder<'f>(path: &Path, files: impl Iterator<Item = (String, &'f [u8])>) -> Result<(), Failure> {
    let call = |error: std::io::Error| Failure::Call(format!("cannot write `{}`: {error}", path.display()));
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = std::path::PathBuf::from(beside);
    let fill = || {
        std::fs::create_dir(&beside)?;
        for (name, bytes) in files {
            std::fs::write(beside.join(name), bytes)?;
        }
        // Over an empty folder it goes, over a full one it does not.
        std::fs::rename(&beside, path)
    };
    fill().map_err(|error| {
        std::fs::remove_dir_all(&beside).ok();
        call(error)
    })
}

/// The files of a folder whose names end in `.0.et`, `.1.et`, .., by that number.
pub(super) fn numbered(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let call = |error: std::io::Error| Failure::Call(format!("cannot read `{}`: {error}", path.display()));
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(call)? {
        let file = entry.map_err(call)?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(rest) = name.strip_suffix(".et") else { continue };
        let Some(rank) = rest.rsplit('.').next().and_then(|rank| rank.parse::<u32>().ok()) else { continue };
        let mut bytes = Vec::new();
        std::fs::File::open(&file).map_err(call)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(call)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Failure::Call(format!("`{}` is larger than {} MiB", file.display(), MOST_BYTES >> 20)));
        }
        if found.insert(rank, bytes).is_some() {
            return Err(Failure::Call(format!("`{}` has two files of rank {rank}", path.display())));
        }
    }
    if found.is_empty() || !found.keys().copied().eq(0..u32::try_from(found.len()).unwrap_or(u32::MAX)) {
        let wanted = "a file for each rank, `NAME.0.et`, `NAME.1.et`, ..";
        return Err(Failure::Call(format!("`{}` is no folder of traces: it should have {wanted}", path.display())));
    }
    Ok(found.into_values().collect())
}
