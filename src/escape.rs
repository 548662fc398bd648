//! Text inside text of another language: how each target says that a character is only a character.
//!
//! Names, comments and file names come from outside. Whatever they hold, they must not end the comment or the string
//! that they stand in, be read as markup, or steer the terminal and the editor that show them. Every exporter, report
//! and message takes its escaping from here.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character changes how the text around it is shown instead of being shown itself.
///
/// These are control characters (C0, delete, C1; tabs and line feeds too), the separators of lines and paragraphs that
/// some readers end a line at, the bidirectional marks that reorder what surrounds them, and two codes that are no
/// characters, which XML has not.
pub fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FFFE}' | '\u{FFFF}') || is_bidirectional(c)
}

/// Whether a character sets the direction of the text around it.
pub fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{206F}')
}

/// Prose for a terminal: lines and tabs stay, other steering characters are spelled `\u{1b}`.
pub fn prose(text: &str) -> Cow<'_, str> {
    spelled(text, |c| is_steering(c) && !matches!(c, '\n' | '\t'))
}

/// Prose with colours of our own: `ESC[..m`, which sets them, stays as well.
pub fn painted(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut shown = prose(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        let introducer = if part[end..].starts_with('m') { "\u{1b}[" } else { "\\u{1b}[" };
        shown.push_str(introducer);
        shown.push_str(&prose(part));
    }
    shown
}

/// The same on one line, as in a comment: line feeds and tabs are spelled as well.
pub fn line(text: &str) -> Cow<'_, str> {
    spelled(text, is_steering)
}

fn spelled(text: &str, is_spelled: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_spelled) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_spelled(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// The character to draw instead, one for one, so that columns stay: `␛` for an escape, `�` for a bidirectional mark.
pub fn stand_in(c: char) -> char {
    match c {
        '\0'..='\u{1F}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{FFFD}'),
        '\u{7F}' => '\u{2421}',
        '\u{FEFF}' => '\u{FFFD}',
        c if is_steering(c) => '\u{FFFD}',
        c => c,
    }
}

/// A string of Python, in its quotes.
pub fn python_string(text: &str) -> String {
    format!("\"{}\"", python_text(text))
}

/// What stands in a string of Python, or in its triple quotes.
pub fn python_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            c if is_steering(c) => escaped.push_str(&utf16(c)),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A string of MLIR, in its quotes: bytes that are not printable ASCII by two hexadecimal digits.
pub fn mlir_string(text: &str) -> String {
    let mut escaped = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => escaped.extend(['\\', char::from(byte)]),
            b' '..=b'~' => escaped.push(char::from(byte)),
            byte => write!(escaped, "\\{byte:02X}").expect("a string takes all"),
        }
    }
    escaped.push('"');
    escaped
}

/// Text of XML and HTML, also within quotes.
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A document of JSON with the same meaning that shows what it holds: outside of strings JSON has no such characters.
pub fn json(document: &str) -> Cow<'_, str> {
    let is_raw = |c: char| is_steering(c) && c != '\n';
    if !document.chars().any(is_raw) {
        return Cow::Borrowed(document);
    }
    let mut escaped = String::with_capacity(document.len() + 8);
    for c in document.chars() {
        if is_raw(c) { escaped.push_str(&utf16(c)) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// The same inside a `<script>` of HTML, where `<` begins markup; in JSON it stands in strings only.
pub fn json_in_html(document: &str) -> String {
    json(document).replace('<', "\\u003c")
}

/// What stands within the quotes of Graphviz, where `\` begins an escape and `&` an entity.
pub fn dot(text: &str) -> String {
    line(text).replace('&', "&amp;").replace('\\', "\\\\").replace('"', "\\\"")
}

/// What stands within the quotes of Mermaid, which reads markup there, but for its own escapes `#60;`, and directives,
/// `%%{`, wherever they are.
pub fn mermaid(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '"' | '<' | '>' | '&' | '#' | '`' | '*' | '_' | '\\' | ';' => {
                write!(escaped, "#{};", u32::from(c)).expect("a string takes all");
            }
            c => escaped.push(c),
        }
    }
    escaped.replace("%%", "#37;#37;")
}

/// A word or a number as a value of TOML, where these are written as in JSON.
///
/// # Panics
/// If the value cannot be JSON.
pub fn toml_value(value: &impl Serialize) -> String {
    json(&serde_json::to_string(value).expect("a plain value")).into_owned()
}

/// `\u001b`; all steering characters have four digits.
fn utf16(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = char> {
        ('\0'..=char::MAX).filter(|c| is_steering(*c))
    }

    #[test]
    fn what_steers_is_never_left_raw() {
        let text: String = all().chain("\"'<&>\\\u{FFFE}\u{FEFF}é".chars()).collect();
        assert!(all().count() > 64 && all().all(|c| u32::from(c) <= 0xFFFF));
        let shown = [
            line(&text).into_owned(),
            python_string(&text),
            mlir_string(&text),
            xml(&text),
            json(&serde_json::to_string(&text).expect("a string")).into_owned(),
            dot(&text),
            mermaid(&text),
            toml_value(&text),
            text.chars().map(stand_in).collect(),
        ];
        for shown in shown {
            assert!(!shown.contains(is_steering), "{shown:?}");
        }
        assert!(!prose(&text).replace(['\n', '\t'], "").contains(is_steering));
        assert_eq!(prose("a\u{1b}[31m\tb\n\u{202e}"), "a\\u{1b}[31m\tb\n\\u{202e}");
        assert_eq!(
            painted("\u{1b}[1;31ma\u{1b}[0m\u{1b}[2J\u{1b}]0;b\u{7}"),
            "\u{1b}[1;31ma\u{1b}[0m\\u{1b}[2J\\u{1b}]0;b\\u{7}"
        );
        assert_eq!(line("a\r\nb"), "a\\u{d}\\u{a}b");
    }

    #[test]
    fn readers_get_back_what_was_written() {
        let text: String = all().chain("\"'<&>\\ é😀".chars()).collect();
        assert_eq!(
            serde_json::from_str::<String>(&json(&serde_json::to_string(&text).expect("a string"))).ok(),
            Some(text.clone())
        );
        let toml: toml::Table = toml::from_str(&format!("a = {}", toml_value(&text))).expect("TOML");
        assert_eq!(toml["a"].as_str(), Some(text.as_str()));
        let shown = xml(&text);
        let document = format!("<a b=\"{shown}\">{shown}</a>");
        let document = roxmltree::Document::parse(&document).expect("XML");
        let root = document.root_element();
        assert_eq!(root.text(), Some(&*line(&text)));
        assert_eq!(root.attribute("b"), root.text());
    }

    #[test]
    fn what_is_harmless_stays() {
        let text = "C[I, J]{U_X} = A * B -> é 漢字 😀 %3";
        assert_eq!([prose(text), line(text)], [text, text]);
        assert!(matches!(line(text), Cow::Borrowed(_)));
        assert_eq!(mermaid("%3 a %% %%{init} %%%"), "%3 a #37;#37; #37;#37;{init} #37;#37;%");
        assert_eq!(dot("a\"\\&"), "a\\\"\\\\&amp;");
        assert_eq!(mlir_string("X\u{1b}é\"\\"), "\"X\\1B\\C3\\A9\\\"\\\\\"");
    }
}
