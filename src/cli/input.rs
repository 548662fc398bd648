//! Reading sources and printing results.

use super::render::{self, RenderOptions};
use super::{Failure, Format, sources, terminal};
use crate::amount;
use crate::compiler::{self, Options, Spelling};
use crate::diag::{Diagnostics, Severity, did_you_mean, nearest};
use crate::escape;
use crate::export::{msccl, mscclpp};
use crate::picture::terminal::Paint;
use crate::program::Program;
use crate::report::document;
use crate::schedule::is_schedule;
use crate::syntax::{AxisShape, Extent};
use crate::topology;
use anstream::AutoStream;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

/// Upper limit on the bytes of a source. The parser's own limit is lower and has a better message.
const MOST_BYTES: u64 = 64 << 20;

/// A source text and its display name.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
    /// Sizes that override the written ones.
    sizes: Vec<(String, Extent)>,
    spelling: Spelling,
}

impl Source {
    /// A source with a name and empty text.
    pub(super) fn nowhere(name: &str) -> Source {
        Source::of(name, String::new())
    }

    /// A source with a name and a text.
    pub(super) fn of(name: &str, text: String) -> Source {
        Source { name: name.to_owned(), text, sizes: Vec::new(), spelling: Spelling::Exact }
    }

    /// Sets the sizes that override the written ones.
    pub(super) fn with(self, sizes: &[(String, Extent)]) -> Source {
        Source { sizes: sizes.to_vec(), ..self }
    }

    /// Sets lenient parsing.
    pub(super) fn leniently(self, lenient: bool) -> Source {
        Source { spelling: if lenient { Spelling::Lenient } else { Spelling::Exact }, ..self }
    }

    /// The title in exported files: the path as given, or the file name of an absolute path.
    pub(super) fn title(&self) -> &str {
        let path = Path::new(&self.name);
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if path.is_absolute() => name,
            _ => &self.name,
        }
    }

    /// Checks the program; returns it, if it is valid, and the diagnostics.
    ///
    /// - `given`: the profile that overrides that of the program.
    pub(super) fn check(&self, given: Option<&topology::Hardware>) -> Result<(Option<Program>, Diagnostics), Failure> {
        if let Some(kind) = other_kind(&self.name, &self.text) {
            return Err(Failure::Call(format!("`{}` is {kind}", escape::line(&self.name))));
        }
        compiler::check_with(&self.text, &self.sizes, self.spelling, given)
            .map_err(|error| Failure::Call(format!("`--set`: {error} (in `{}`)", self.name)))
    }

    /// Checks that only written collectives and moves communicate.
    pub(super) fn check_strict(&self, program: &Program, options: &Options) -> Result<(), Diagnostics> {
        compiler::check_strict(&self.text, &self.sizes, self.spelling, program, options)
    }
}

/// Whether a text is an MSCCL or MSCCL++ file.
pub(super) fn is_foreign(text: &str) -> bool {
    msccl::is_msccl(text) || mscclpp::is_mscclpp(text)
}

/// Names the kind of a file that is not a program, and the commands for it.
fn other_kind(name: &str, text: &str) -> Option<String> {
    let start = text.trim_start();
    if is_foreign(text) {
        return Some("an MSCCL or MSCCL++ file; use `shardc prove`, `time` or `run`".to_owned());
    }
    if start.starts_with("# snapshot of `") {
        return Some("a snapshot; `shardc snapshot` compares programs with their snapshots".to_owned());
    }
    if start.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        let schema = text.split_once("\"schema\"").and_then(|(_, rest)| rest.split('"').nth(1));
        let schema = schema.map(|schema| format!(" (`{}`)", escape::line(schema))).unwrap_or_default();
        return Some(format!("JSON{schema}, not a program; `shardc init` writes an example program"));
    }
    if !start.starts_with('{') && is_schedule(text) {
        return Some("a schedule, the output of `shardc compile`; use `shardc run`, `time` or `prove`".to_owned());
    }
    if start.starts_with("module @") || start.starts_with("module {") || start.starts_with("HloModule") {
        return Some("a module of XLA; use `shardc import` for StableHLO, `shardc audit` for compiled HLO".to_owned());
    }
    if start.starts_with('<') {
        return Some("XML, not a program; `shardc init` writes an example program".to_owned());
    }
    Path::new(name).extension().is_some_and(|extension| extension == "py").then(|| {
        "a Python file; lower the function, `jax.jit(f).lower(..).as_text()`, and use `shardc import`".to_owned()
    })
}

/// Parses `B=16` or `X=4x4 over dcn`.
pub(super) fn size(text: &str) -> Result<(String, Extent), String> {
    let expected = || match text.split_once(':') {
        Some((name, size)) => format!("write `{}={}`", name.trim(), size.trim()),
        None => "expected a name and a size, such as `B=16`".to_owned(),
    };
    let (name, size) = text.split_once('=').ok_or_else(expected)?;
    match number(size) {
        Ok(0) => Err("sizes are 1 or more".to_owned()),
        Err(why) if size.contains(',') => Err(format!("{why}; `shardc sweep` takes several sizes")),
        Ok(size) => Ok((name.trim().to_owned(), Extent::Size(size))),
        Err(why) => match AxisShape::parse(size) {
            Some(shape) => Ok((name.trim().to_owned(), Extent::Axis(shape))),
            None => Err(why),
        },
    }
}

/// Parses `16`, `4k` or `1M`.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, times) = match text.strip_suffix('k').map(|digits| (digits, 1 << 10)) {
        Some(thousands) => thousands,
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let size = digits.parse().ok().and_then(|size: u64| size.checked_mul(times));
    size.ok_or_else(|| format!("`{text}` is not a size"))
}

/// Parses `0` or `500ns`; returns picoseconds.
pub(super) fn latency(text: &str) -> Result<u64, String> {
    let picoseconds = if text == "0" { Some(0) } else { amount::read(text, &amount::TIME) };
    let picoseconds = picoseconds.and_then(|time| u64::try_from(time).ok());
    picoseconds.ok_or_else(|| "expected `0` or a time with a unit, such as `500ns` or `1us`".to_owned())
}

/// Reads a file, or standard input for `-`. Pipes and devices are read to their end.
pub(super) fn source(path: &str) -> Result<Source, Failure> {
    if path == "-" {
        return text("<stdin>".to_owned(), bytes(Path::new(path), std::io::stdin())?);
    }
    source_at(Path::new(path))
}

/// Reads a file, even if it is called `-`.
pub(super) fn source_at(path: &Path) -> Result<Source, Failure> {
    let file = std::fs::File::open(path).map_err(|error| unread(path, &error))?;
    sources::remember(path);
    text(path.to_string_lossy().into_owned(), bytes(path, file)?)
}

fn text(name: String, bytes: Vec<u8>) -> Result<Source, Failure> {
    let wrong = |_| Failure::Call(format!("`{}` is not text (UTF-8)", escape::line(&name)));
    let text = String::from_utf8(bytes).map_err(wrong)?;
    Ok(Source { name, text, sizes: Vec::new(), spelling: Spelling::Exact })
}

/// Reads to the end, up to [`MOST_BYTES`].
fn bytes(path: &Path, from: impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unread(path, &error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::Call(format!("`{}` is larger than {} MiB", shown(path), MOST_BYTES >> 20)));
    }
    Ok(bytes)
}

/// Reads a file that was found in a folder. Pipes and devices are refused, since reading them could block.
fn bytes_of_regular(path: &Path) -> Result<Vec<u8>, Failure> {
    if !std::fs::metadata(path).map_err(|error| unread(path, &error))?.is_file() {
        return Err(Failure::Call(format!("cannot read `{}`: not a regular file", shown(path))));
    }
    bytes(path, std::fs::File::open(path).map_err(|error| unread(path, &error))?)
}

/// Reads the text of a file if it exists; a file that is not UTF-8 counts as empty.
pub(super) fn text_beside(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => Ok(Some(String::from_utf8(bytes_of_regular(path)?).unwrap_or_default())),
    }
}

/// The failure `cannot read ..`.
pub(super) fn unread(path: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::IsADirectory {
        let help = "this command takes one file; `shardc check` and `shardc fmt` take folders";
        return Failure::Call(format!("cannot read `{}`: it is a folder; {help}", shown(path)));
    }
    Failure::Call(format!("cannot read `{}`: {error}", shown(path)))
}

/// The failure for an unknown name: the name that was probably meant, or all names.
pub(super) fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Failure {
    let known: Vec<&str> = known.collect();
    Failure::Call(match (nearest(name, known.iter().copied()), known.as_slice()) {
        (Some(near), _) => format!("unknown {what} `{name}`; {}", did_you_mean(near)),
        (None, []) => format!("unknown {what} `{name}`; there are none"),
        (None, known) => format!("unknown {what} `{name}`; {what}s are `{}`", known.join("`, `")),
    })
}

/// Loads a hardware profile by name or from a TOML file.
pub(super) fn hardware(name: &str) -> Result<topology::Hardware, Failure> {
    if let Some(hardware) = topology::Hardware::named(name) {
        return Ok(hardware);
    }
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        let help = topology::Hardware::unknown(name);
        return Err(Failure::Call(format!("unknown hardware `{name}`; {help}")));
    }
    let file = source(name)?;
    topology::Hardware::from_toml(&file.text).map_err(|error| {
        tell(&Diagnostics::of(&error), &file);
        Failure::Call(format!("`{name}` is not a hardware profile"))
    })
}

/// Checks a source and prints its diagnostics to standard error.
pub(super) fn checked(source: &Source, options: &Options, format: Format) -> Result<(Program, Diagnostics), Failure> {
    let (program, diagnostics) = quietly(source, options, format)?;
    match format {
        Format::Text => tell(&diagnostics, source),
        Format::Json => {}
    }
    Ok((program, diagnostics))
}

/// Checks a source; prints diagnostics only if it is invalid.
pub(super) fn quietly(source: &Source, options: &Options, format: Format) -> Result<(Program, Diagnostics), Failure> {
    let start = Instant::now();
    let (program, mut diagnostics) = source.check(options.hardware.as_ref())?;
    if options.hardware.is_some() {
        diagnostics.retain(|found| found.code != "default-hardware");
    }
    took("checked", start);
    let strict = program.as_ref().filter(|_| options.strict).map(|program| source.check_strict(program, options));
    if let Some(Err(found)) = strict {
        diagnostics.extend(found);
        return Err(fault(source, &diagnostics, format));
    }
    program.map(|program| (program, diagnostics.clone())).ok_or_else(|| fault(source, &diagnostics, format))
}

/// Prints the diagnostics of an invalid program.
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

/// Prints failed expectations after the report; JSON has them in its document.
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

/// Whether standard output takes colours.
pub(super) fn paint() -> Paint {
    if terminal::has_colors(&std::io::stdout()) { Paint::Color } else { Paint::Plain }
}

/// Formats `2 errors, 1 warning`.
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

/// Prints diagnostics to standard error; with `--quiet` only errors.
pub(super) fn tell(diagnostics: &Diagnostics, source: &Source) {
    let errors;
    let diagnostics = if terminal::is_quiet() {
        errors = {
            let mut found = diagnostics.clone();
            found.retain(|found| found.severity == Severity::Error);
            found
        };
        &errors
    } else {
        diagnostics
    };
    let color = terminal::has_colors(&std::io::stderr());
    let options = RenderOptions { color, width: terminal::error_width(), ..RenderOptions::default() };
    let text = render::render(diagnostics, &source.name, &source.text, options);
    match color {
        true => drop(AutoStream::always(std::io::stderr()).write_all(escape::painted(&text).as_bytes())),
        false => say(&text),
    }
}

/// Prints how long a stage took, with `--verbose`.
pub(super) fn took(stage: &str, start: Instant) {
    if terminal::is_verbose() {
        say(&format!("{stage} in {:.3} s\n", start.elapsed().as_secs_f64()));
    }
}

/// Prints text to standard output. A closed pipe is ignored.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    put(&escape::prose(text))
}

/// Prints text with colours if the terminal takes them.
pub(super) fn print_painted(text: &str) -> Result<(), Failure> {
    match paint() {
        Paint::Color => written(AutoStream::always(std::io::stdout().lock()), &escape::painted(text)),
        Paint::Plain => print(text),
    }
}

/// Writes a document to standard output without escaping.
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

/// Prints a JSON document on one line.
pub(super) fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    put(&format!("{}\n", json(document)?))
}

/// Serializes a document as JSON on one line.
pub(super) fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(document).map_err(|error| Failure::Call(error.to_string()))?;
    Ok(escape::json(&json).into_owned())
}

/// Formats a path for a message, on one line.
pub(super) fn shown(path: &Path) -> String {
    escape::line(&path.to_string_lossy()).into_owned()
}

/// Reads the files of a folder whose names end in `.0.et`, `.1.et`, .., in that order.
pub(super) fn numbered(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let call = |error: std::io::Error| unread(path, &error);
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(call)? {
        let file = entry.map_err(call)?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(rest) = name.strip_suffix(".et") else { continue };
        let Some(rank) = rest.rsplit('.').next().and_then(|rank| rank.parse::<u32>().ok()) else { continue };
        if found.insert(rank, bytes_of_regular(&file)?).is_some() {
            return Err(Failure::Call(format!("`{}` has two files for rank {rank}", shown(path))));
        }
    }
    if found.is_empty() || !found.keys().copied().eq(0..u32::try_from(found.len()).unwrap_or(u32::MAX)) {
        let wanted = "one file per rank, `NAME.0.et`, `NAME.1.et`, ..";
        return Err(Failure::Call(format!("`{}` is not a folder of traces; expected {wanted}", shown(path))));
    }
    Ok(found.into_values().collect())
}
