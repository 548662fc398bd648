//! Operators of other languages.

use super::call::operand;
use super::{Foreign, Offer};
use crate::syntax::known::Known;
use crate::syntax::split::is_blank;

/// An operator and its operands.
struct Signed<'a> {
    /// The text before the left operand.
    before: &'a str,
    left: &'a str,
    right: &'a str,
    behind: &'a str,
}

impl<'a> Signed<'a> {
    /// The operands next to the sign: names, numbers, and what is in brackets.
    fn around(text: &'a str, at: usize, sign: &str) -> Option<Signed<'a>> {
        let head = text[..at].trim_end_matches(is_blank);
        let start = head.char_indices().rev().scan(0i32, |depth, (at, c)| {
            *depth += i32::from(matches!(c, ')' | ']' | '}')) - i32::from(matches!(c, '(' | '[' | '{'));
            let is_part = *depth > 0 || c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '(' | '[' | '{');
            (*depth >= 0 && is_part).then_some(at)
        });
        let start = start.last()?;
        let tail = &text[at + sign.len()..];
        let begin = tail.len() - tail.trim_start_matches(is_blank).len();
        let length = tail[begin..].char_indices().scan(0i32, |depth, (at, c)| {
            *depth += i32::from(matches!(c, '(' | '[' | '{')) - i32::from(matches!(c, ')' | ']' | '}'));
            let is_part = *depth > 0 || c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ')' | ']' | '}');
            (*depth >= 0 && is_part).then_some(at + c.len_utf8())
        });
        let length = length.last()?;
        let (right, behind) = (&tail[begin..begin + length], &tail[begin + length..]);
        Some(Signed { before: &text[..start], left: &head[start..], right, behind })
    }

    fn with(&self, value: &str) -> String {
        let alone =
            self.before.trim_end_matches(is_blank).ends_with('=') && self.behind.trim_matches(is_blank).is_empty();
        let value = if alone { value.to_owned() } else { operand(value) };
        format!("{}{value}{}", self.before, self.behind)
    }
}

pub(super) fn by_sign(text: &str, known: Known<'_>) -> Option<Foreign> {
    let found = |at: usize, sign: &str, label: &str, offers: Vec<Offer>, words: &str| {
        let title = format!("`{sign}` is not an operator");
        let at = at..at + sign.len();
        Some(Foreign { at, title, label: label.to_owned(), offers, words: words.to_owned() })
    };
    let words = [(" and ", "and"), (" or ", "or"), ("&&", "and"), ("||", "or")];
    if let Some((at, sign, word)) = words.into_iter().find_map(|(sign, word)| Some((text.find(sign)?, sign, word))) {
        let start = text.find(" = ").map_or(0, |equals| equals + 3).min(at);
        let [left, right] = [&text[start..at], &text[at + sign.len()..]].map(|side| side.trim_matches(is_blank));
        let line = format!("{}{word}({left}, {right})", &text[..start]);
        let begin = at + sign.len() - sign.trim_start().len();
        let words = "masks are combined by `and(M, N)`, `or(M, N)` and `not(M)`";
        return found(begin, sign.trim(), "masks are combined by functions", vec![Offer::line(line)], words);
    }
    if let Some(at) = text.find('%').filter(|_| text.contains('=')) {
        let signed = Signed::around(text, at, "%");
        let offers = signed.map_or_else(Vec::new, |signed| {
            let (left, right) = (signed.left, signed.right);
            let whole = Offer::line(signed.with(&format!("{left} - {right} * i32(f32({left}) / {right})")));
            let dtype = known.dtype(left).unwrap_or("f32");
            let float = signed.with(&format!("{left} - {right} * {dtype}(i32({left} / {right}))"));
            vec![whole, Offer { otherwise: true, ..Offer::line(float) }]
        });
        let words = "the remainder of whole numbers is `A - n * i32(f32(A) / n)`";
        return found(at, "%", "remainder", offers, words);
    }
    let divided = text.find("//").filter(|at| {
        let behind = text[at + 2..].trim_matches(is_blank);
        !behind.is_empty()
            && behind.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.()".contains(&c))
            && text.contains('=')
    });
    if let Some(at) = divided {
        let signed = Signed::around(text, at, "//");
        let offers = signed.map_or_else(Vec::new, |signed| {
            let (left, right) = (signed.left, signed.right);
            let inner = left.strip_prefix('(').and_then(|left| left.strip_suffix(')')).unwrap_or(left);
            let whole = signed.with(&format!("i32(f32({inner}) / {right})"));
            vec![Offer::line(signed.with(&format!("{left} / {right}"))), Offer::line(whole).with(" for whole numbers")]
        });
        let words = "arrays are divided by `/`; the quotient of whole numbers is `i32(f32(A) / n)`";
        return found(at, "//", "floor division", offers, words);
    }
    let at = text.find(" // ")?;
    let (before, comment) = (text[..at].trim_end(), text[at + 4..].trim());
    Some(Foreign {
        at: at + 1..at + 3,
        title: "comments begin with `#`".to_owned(),
        label: "not a comment".to_owned(),
        offers: vec![Offer::line(format!("{before}  # {comment}"))],
        words: "comments begin with `#` and end with the line".to_owned(),
    })
}
