//! Files in, text out.

use super::render::{self, RenderOptions};
use super::{Failure, Format, terminal};
use crate::amount;
use crate::compiler::{self, Options, Spelling};
use crate::diag::{Diagnostics, Severity};
use crate::escape;
use crate::picture::terminal::Paint;
use crate::program::Program;
use crate::report::document;
use crate::topology;
use anstream::AutoStream;
use std::io::{Read, Write};
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
    Ok((name.trim().to_owned(), number(size)?))
}

/// `16`, `4k`, `1M`
pub(super) fn number(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, times) = match text.strip_suffix('k').map(|digits| (digits, 1 << 10)) {
        Some(thousands) => thousands,
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let size = digits.parse().ok().and_then(|size: u64| size.checked_mul(times));
    size.ok_or_else(|| format!("`{text}` is not a size"))
}

/// `0`, `500ns`, in picoseconds.
pub(super) fn latency(text: &str) -> Result<u64, String> {
    let picoseconds = if text == "0" { Some(0) } else { amount::read(text, &amount::TIME) };
    let picoseconds = picoseconds.and_then(|time| u64::try_from(time).ok());
    picoseconds.ok_or_else(|| "write a time with its unit, such as `500ns` or `1us`, or `0`".to_owned())
}

/// Reads a file, or standard input for `-`. Pipes and devices that are named are read to their end.
pub(super) fn source(path: &str) -> Result<Source, Failure> {
    if path == "-" {
        return text("<stdin>".to_owned(), bytes(Path::new(path), std::io::stdin())?);
    }
    source_at(Path::new(path))
}

/// The same of a file, whatever its name.
pub(super) fn source_at(path: &Path) -> Result<Source, Failure> {
    let file = std::fs::File::open(path).map_err(|error| unread(path, &error))?;
    text(path.to_string_lossy().into_owned(), bytes(path, file)?)
}

fn text(name: String, bytes: Vec<u8>) -> Result<Source, Failure> {
    let wrong = |_| Failure::Call(format!("`{}` is not text (UTF-8)", escape::line(&name)));
    let text = String::from_utf8(bytes).map_err(wrong)?;
    Ok(Source { name, text, sizes: Vec::new(), spelling: Spelling::Exact })
}

/// All that there is to read, if it is not too much.
fn bytes(path: &Path, from: impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unread(path, &error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::Call(format!("`{}` is larger than {} MiB", shown(path), MOST_BYTES >> 20)));
    }
    Ok(bytes)
}

/// The content of a file that was found and not named: a pipe or a device would be waited for in vain.
fn bytes_of_regular(path: &Path) -> Result<Vec<u8>, Failure> {
    if !std::fs::metadata(path).map_err(|error| unread(path, &error))?.is_file() {
        return Err(Failure::Call(format!("cannot read `{}`: it is no regular file", shown(path))));
    }
    bytes(path, std::fs::File::open(path).map_err(|error| unread(path, &error))?)
}

/// The text of a file that was found and not named, if it is there; one that is no text is empty.
pub(super) fn text_beside(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => Ok(Some(String::from_utf8(bytes_of_regular(path)?).unwrap_or_default())),
    }
}

/// Why a file could not be read.
pub(super) fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Call(format!("cannot read `{}`: {error}", shown(path)))
}

/// A profile by name, or from a TOML file.
pub(super) fn hardware(name: &str) -> Result<topology::Hardware, Failure> {
    if let Some(hardware) = topology::Hardware::named(name) {
        return Ok(hardware);
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        let help = topology::Hardware::unknown(name);
        return Err(Failure::Call(format!("no hardware is called `{name}`; {help}")));
    }
    let file = source(name)?;
    topology::Hardware::from_toml(&file.text).map_err(|error| {
        tell(&Diagnostics::of(&error), &file);
        Failure::Call(format!("`{name}` is not a hardware profile"))
    })
}

/// Checks a source and says what was found; text goes to standard error.
pub(super) fn checked(source: &Source, options: &Options, format: Format) -> Result<(Program, Diagnostics), Failure> {
    let (program, diagnostics) = quietly(source, options, format)?;
    match format {
        Format::Text => tell(&diagnostics, source),
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
            tell(diagnostics, source);
            say(&summary(diagnostics));
        }
        Format::Json => {
            let document = document::check(&source.name, &source.text, diagnostics);
            return print_json(&document).err().unwrap_or(Failure::Program);
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
            tell(breaches, source);
            say(&summary(breaches));
        }
        Format::Json => {}
    }
    Err(Failure::Program)
}

/// Whether standard output is a terminal that may be coloured.
pub(super) fn paint() -> Paint {
    if terminal::has_colors(&std::io::stdout()) { Paint::Color } else { Paint::Plain }
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

/// Prints a message to standard error; a closed pipe is ignored.
pub(super) fn say(text: &str) {
    std::io::stderr().write_all(escape::prose(text).as_bytes()).ok();
}

/// Diagnostics to standard error, drawn for this terminal.
pub(super) fn tell(diagnostics: &Diagnostics, source: &Source) {
    let color = terminal::has_colors(&std::io::stderr());
    let options = RenderOptions { color, ..RenderOptions::default() };
    let text = render::render(diagnostics, &source.name, &source.text, options);
    match color {
        true => drop(AutoStream::always(std::io::stderr()).write_all(escape::painted(&text).as_bytes())),
        false => say(&text),
    }
}

/// Words for people to standard output. A reader that has gone away ends the command quietly.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    put(&escape::prose(text))
}

/// The same of words with colours, if this terminal takes them.
pub(super) fn print_painted(text: &str) -> Result<(), Failure> {
    match paint() {
        Paint::Color => written(AutoStream::always(std::io::stdout().lock()), &escape::painted(text)),
        Paint::Plain => print(text),
    }
}

/// A document to standard output, as it is.
pub(super) fn put(text: &str) -> Result<(), Failure> {
    written(std::io::stdout().lock(), text)
}

fn written(mut out: impl Write, text: &str) -> Result<(), Failure> {
    super::effort::is_done();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Call(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// One JSON document on a line.
pub(super) fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    put(&format!("{}\n", json(document)?))
}

/// A document as JSON on one line.
pub(super) fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(document).map_err(|error| Failure::Call(error.to_string()))?;
    Ok(escape::json(&json).into_owned())
}

/// A path as messages show it, on one line.
pub(super) fn shown(path: &Path) -> String {
    escape::line(&path.to_string_lossy()).into_owned()
}

/// The files of a folder whose names end in `.0.et`, `.1.et`, .., by that number.
pub(super) fn numbered(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let call = |error: std::io::Error| unread(path, &error);
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(call)? {
        let file = entry.map_err(call)?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(rest) = name.strip_suffix(".et") else { continue };
        let Some(rank) = rest.rsplit('.').next().and_then(|rank| rank.parse::<u32>().ok()) else { continue };
        if found.insert(rank, bytes_of_regular(&file)?).is_some() {
            return Err(Failure::Call(format!("`{}` has two files of rank {rank}", shown(path))));
        }
    }
    if found.is_empty() || !found.keys().copied().eq(0..u32::try_from(found.len()).unwrap_or(u32::MAX)) {
        let wanted = "a file for each rank, `NAME.0.et`, `NAME.1.et`, ..";
        return Err(Failure::Call(format!("`{}` is no folder of traces: it should have {wanted}", shown(path))));
    }
    Ok(found.into_values().collect())
}
