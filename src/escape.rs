//! Escapes text for embedding in other languages.
//!
//! Names, comments and file names are untrusted. They must not end the comment or string that contains them, be read
//! as markup, or control the terminal or editor that displays them. All exporters, reports and messages use the
//! functions of this module.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character affects the display of the surrounding text instead of being displayed.
///
/// These are control characters (C0, delete, C1, including tabs and line feeds), line and paragraph separators, which
/// some readers treat as line ends, bidirectional marks, and two noncharacters that XML does not allow.
pub fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FFFE}' | '\u{FFFF}') || is_bidirectional(c)
}

/// Whether a character sets the direction of the surrounding text.
pub fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{206F}')
}

/// Escapes prose for a terminal: lines and tabs stay, other such characters become `\u{1b}`.
pub fn prose(text: &str) -> Cow<'_, str> {
    spelled(text, |c| is_steering(c) && !matches!(c, '\n' | '\t'))
}

/// As [`prose`], but keeps color sequences `ESC[..m`.
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

/// As [`prose`], on one line, for example in a comment: line feeds and tabs are escaped, too.
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

/// The replacement glyph, one for one so that columns stay aligned: `␛` for an escape, `�` for a bidirectional mark.
pub fn stand_in(c: char) -> char {
    match c {
        '\0'..='\u{1F}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{FFFD}'),
        '\u{7F}' => '\u{2421}',
        '\u{FEFF}' => '\u{FFFD}',
        c if is_steering(c) => '\u{FFFD}',
        c => c,
    }
}

/// A quoted Python string.
pub fn python_string(text: &str) -> String {
    format!("\"{}\"", python_text(text))
}

/// The contents of a Python string, also inside triple quotes.
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

/// A quoted MLIR string: bytes that are not printable ASCII become two hexadecimal digits.
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

/// Escapes text for XML and HTML, also inside quotes.
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

/// A JSON document with such characters escaped. They occur only inside strings, so the meaning is unchanged.
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

/// As [`json`], for a `<script>` element of HTML: also escapes `<`, which in JSON occurs only inside strings.
pub fn json_in_html(document: &str) -> String {
    json(document).replace('<', "\\u003c")
}

/// The contents of a quoted Graphviz string, where `\` begins an escape and `&` an entity.
pub fn dot(text: &str) -> String {
    line(text).replace('&', "&amp;").replace('\\', "\\\\").replace('"', "\\\"")
}

/// The contents of a quoted Mermaid string. Mermaid reads markup there, except for its escapes `#60;`, and directives
/// `%%{` anywhere.
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

/// A string or number as a TOML value, where these are written as in JSON.
///
/// # Panics
/// If the value cannot be converted to JSON.
pub fn toml_value(value: &impl Serialize) -> String {
    json(&serde_json::to_string(value).expect("a plain value")).into_owned()
}

/// Escapes as `\u001b`; all such characters have four digits.
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
