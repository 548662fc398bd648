//! Statements that begin with a word or a sign of another language: loops, functions, branches, imports, comments.

use super::call::{closing, is_integer, is_name};
use super::{Foreign, Offer};
use crate::syntax::known::{Known, pieces, word_of};
use crate::syntax::split::is_blank;

/// Words that begin an import.
const IMPORTS: [&str; 2] = ["import", "from"];

/// Whether a statement is an import.
pub(in crate::syntax) fn is_import(text: &str) -> bool {
    IMPORTS.contains(&word_of(text))
}

/// What a statement of another language is called.
fn foreign(text: &str, length: usize, title: impl Into<String>, label: &str, words: impl Into<String>) -> Foreign {
    let at = 0..length.min(text.len());
    Foreign { at, title: title.into(), label: label.to_owned(), offers: Vec::new(), words: words.into() }
}

impl Foreign {
    fn offering(self, offers: impl IntoIterator<Item = Offer>) -> Foreign {
        Foreign { offers: offers.into_iter().collect(), ..self }
    }
}

/// Statements that begin with a keyword or a sign of another language.
pub(super) fn by_first_word(text: &str, known: Known<'_>) -> Option<Foreign> {
    let word = word_of(text);
    let rest = text[word.len()..].trim_matches(is_blank);
    let is_word = !rest.is_empty() && text[word.len()..].starts_with(is_blank);
    match word {
        "" => by_first_sign(text),
        _ if text.contains("= lambda ") => lambda(text, word),
        "repeat" if first_line(rest).ends_with([':', ')']) || first_line(rest).ends_with(" do") => {
            let count = first_line(rest).trim_end_matches("do").trim_matches(['(', ')', ':', ' ']);
            Some(repeated(text, count, known))
        }
        "repeat" if is_word && (is_integer(first_line(rest)) || is_name(first_line(rest))) => {
            Some(repeated(text, first_line(rest), known))
        }
        "with" if is_word => Some(context(text, known)),
        "for" | "while" if is_word => {
            let range = rest.split("range(").nth(1).and_then(|range| range.split(')').next());
            let count = range.and_then(|range| match pieces(range).as_slice() {
                [count] | ["0", count] => Some(*count),
                _ => None,
            });
            Some(repeated(text, count.unwrap_or_default(), known))
        }
        "def" | "fn" | "class" if is_word => Some(function(text, word, rest, known)),
        "return" if pieces(rest).len() > 1 && known.in_function() => {
            let words = "a function returns one array; write a function for each";
            Some(foreign(text, word.len(), "a function returns one array", "returns several arrays", words))
        }
        "return" if is_word && !known.in_function() => {
            let title = "`return` outside of a function";
            let found = foreign(text, word.len(), title, "not in a function", "results are declared by `output C`");
            Some(found.offering([Offer::line(format!("output {rest}"))]))
        }
        "let" | "const" | "var" | "auto" | "val" if is_word && rest.contains(['=', ':']) => {
            let words = "a statement begins with the name of the array: `A: bf16[I, J]`, `C = A * B`";
            let found = foreign(text, word.len(), format!("unsupported keyword `{word}`"), "not a keyword", words);
            Some(found.offering([Offer::line(rest.to_owned())]))
        }
        "import" | "from" if is_word => Some(import(text, known)),
        "if" | "else" | "elif" if is_word || text == "else:" => Some(branch(text, word, rest, known)),
        "assert" if is_word && !rest.contains(" < ") => {
            let words = "remove the line: shapes and layouts are checked where arrays are declared and used; `expect` states \
                         what a plan may cost";
            let found =
                foreign(text, word.len(), "unsupported statement `assert`", "programs have no assertions", words);
            Some(found.offering([Offer::line(String::new())]))
        }
        "shard" | "place" | "partition" | "distribute" | "replicate" if is_word => {
            let words = "axes are written after the dims of an array, where it is declared or computed: `A: bf16[I_X, J]`, \
                         `C[I_X, J] = A * B`; `A[I, J_X] = A` moves it";
            Some(foreign(text, word.len(), format!("unsupported statement `{word}`"), "not a statement", words))
        }
        _ => ternary(text, known),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

/// Comments and decorators.
fn by_first_sign(text: &str) -> Option<Foreign> {
    let comment = "comments begin with `#` and end with the line";
    if let Some(rest) = text.strip_prefix("//") {
        let line = format!("# {}", rest.trim_start_matches('/').trim());
        return Some(
            foreign(text, 2, "comments begin with `#`", "not a comment", comment).offering([Offer::line(line)]),
        );
    }
    if ["/*", "--", "\"\"\"", "'''"].iter().any(|sign| text.starts_with(sign)) {
        let length = if text.starts_with(['"', '\'']) { 3 } else { 2 };
        let inner = text.trim_matches(['/', '*', '-', '"', '\'', ' ']);
        let found = foreign(text, length, "comments begin with `#`", "not a comment", comment);
        let is_line = !inner.contains('\n') && text.len() > length;
        return Some(found.offering(is_line.then(|| Offer::line(format!("# {inner}")))));
    }
    let name = text.strip_prefix('@').filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))?;
    let length = name.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.')).unwrap_or(name.len());
    let title = format!("unsupported decorator `@{}`", &name[..length]);
    let words = "remove the decorator; programs have no transformations";
    let removed = Offer {
        said: Some("the decorator; programs have no transformations".to_owned()),
        ..Offer::line(String::new())
    };
    Some(foreign(text, length + 1, title, "programs have no transformations", words).offering([removed]))
}

/// Several lines of imports are one mistake.
fn import(text: &str, known: Known<'_>) -> Foreign {
    let lines: Vec<&str> = known.lines().take_while(|line| is_import(line)).collect();
    let words = "remove the line; programs have no imports";
    let found = foreign(text, word_of(text).len(), "programs have no imports", "not a statement", words);
    let removed = match lines.len() {
        0 | 1 => Offer { said: Some("the line".to_owned()), ..Offer::line(String::new()) },
        count => {
            let length = lines.iter().map(|line| line.len() + 1).sum::<usize>() - 1;
            let said = format!("lines {} to {}", known.line(), known.line() + count - 1);
            Offer::block(String::new(), length, said)
        }
    };
    found.offering([removed])
}

/// A loop.
fn repeated(text: &str, count: &str, known: Known<'_>) -> Foreign {
    let head = first_line(text);
    let is_count = is_integer(count) || is_name(count);
    let title = match word_of(text) {
        "repeat" => "the body of `repeat` is written in braces".to_owned(),
        word => format!("unsupported loop `{word}`"),
    };
    let shown = if is_count { count } else { "4" };
    let words = format!("a loop is written `repeat {shown} {{`, the statements of its body, and `}}`");
    let found = foreign(head, head.trim_end_matches(['{', ':', ' ']).len(), title, "loops are written `repeat`", words);
    let opened = format!("repeat {count} {{");
    if !is_count {
        return found;
    }
    if text.ends_with('{') {
        return found.offering([Offer::line(opened)]);
    }
    found.offering(braced(&opened, known))
}

/// `with mesh:`, `with jax.set_mesh(mesh):` and their bodies.
fn context(text: &str, known: Known<'_>) -> Foreign {
    let words = "remove the line; a program has one mesh, which its first line declares: `mesh {X: 4} on tpu_v5p`";
    let found = foreign(text, "with".len(), "unsupported statement `with`", "programs have no contexts", words);
    let Some(body) = known.body() else {
        return found.offering([Offer {
            said: Some("the line; a program has one mesh".to_owned()),
            ..Offer::line(String::new())
        }]);
    };
    let statements = body.statements().join(&format!("\n{}", body.indent));
    let said = format!("`{statements}` for lines {} to {}: a program has one mesh", known.line(), body.last);
    found.offering([Offer::block(statements, body.range.end, said)])
}

/// The head of a block and the indented lines below it, in braces.
fn braced(head: &str, known: Known<'_>) -> Option<Offer> {
    let body = known.body()?;
    let text = format!("{head}{}\n{}}}", body.text, body.indent);
    let said = format!("`{head}` here and `}}` below line {}", body.last);
    Some(Offer::block(text, body.range.end, said))
}

/// A function of Python or Rust.
fn function(text: &str, word: &str, rest: &str, known: Known<'_>) -> Foreign {
    let head = first_line(rest);
    let signature = signature(rest);
    let words = format!("a function is written `def {signature} {{`, the statements of its body, `return y` and `}}`");
    let opened = format!("def {signature} {{");
    if word != "def" {
        return foreign(
            text,
            word.len(),
            format!("unsupported keyword `{word}`"),
            "functions are written `def`",
            words,
        );
    }
    let colon = head.find('(').and_then(|open| {
        let close = closing(head, open)?;
        Some(close + head[close..].find(':')?)
    });
    let place = colon.map(|colon| text.len() - text[word.len()..].trim_start().len() + colon);
    let Some((colon, place)) = colon.zip(place) else {
        let title = "a function has parameters in brackets, and its body in braces";
        let found = foreign(text, text.find('{').unwrap_or(text.len()), title, "not the head of a function", words);
        return found.offering(text.ends_with('{').then(|| Offer::line(opened)));
    };
    let body = head[colon + 1..].trim();
    let title = "the body of a function is written in braces";
    let found = foreign(text, 0, title, "expected `{`", words);
    let found = Foreign { at: place..place + 1, ..found };
    if body.is_empty() {
        return found.offering(braced(&opened, known));
    }
    found.offering([Offer::line(format!("{opened} {body} }}"))])
}

/// `f = lambda x: relu(x)`.
fn lambda(text: &str, word: &str) -> Option<Foreign> {
    let (head, body) = text.split_once("= lambda ")?.1.split_once(':')?;
    let (head, body) = (head.trim(), body.trim());
    let words = format!("a function is written `def {word}({head}) {{`, `return {body}` and `}}`");
    let at = text.find("= lambda ").map(|at| at + 2..at + 8)?;
    let offer = Offer::line(format!("def {word}({head}) {{ return {body} }}"));
    let found = foreign(text, 0, "unsupported syntax `lambda`", "functions are written `def`", words);
    Some(Foreign { at, ..found }.offering([offer]))
}

/// `mlp(x, W)` of `mlp(x: bf16[B, D], W) -> y:`, parameters without types of other languages.
fn signature(text: &str) -> String {
    let Some((name, rest)) = text.split_once('(').filter(|(name, _)| is_name(name.trim())) else {
        return "f(x, W)".to_owned();
    };
    let Some(end) = closing(text, name.len()) else { return "f(x, W)".to_owned() };
    let parameters = pieces(&rest[..end - name.len() - 1]);
    let plain = parameters.into_iter().map(|parameter| match parameter.split_once(':') {
        Some((_, dtype)) if dtype.contains('[') => parameter.trim(),
        Some((name, _)) => name.trim(),
        None => parameter.split('=').next().unwrap_or_default().trim(),
    });
    format!("{}({})", name.trim(), plain.collect::<Vec<_>>().join(", "))
}

const BRANCHES: &str = "programs have no branches";

/// A branch: on sizes, it is decided before the program runs; on elements, `where` selects.
fn branch(text: &str, word: &str, rest: &str, known: Known<'_>) -> Foreign {
    let words = "programs have no branches; `where(M, A, B)` selects elements by a mask such as `M = A > 0`";
    let found = foreign(text, word.len(), BRANCHES, "not a statement", words);
    let condition = rest.trim_end_matches([':', '{', ' ']);
    let Some(body) = known.body().filter(|_| word == "if") else { return found };
    let below = known.lines().nth(body.last + 1 - known.line()).map(word_of);
    let statements = body.statements().join(&format!("\n{}", body.indent));
    if matches!(below, Some("else" | "elif")) {
        return found;
    }
    match decided(condition, known) {
        Some((true, why)) => {
            let said = format!("`{statements}` for lines {} to {}: {why}", known.line(), body.last);
            found.offering([Offer::block(statements, body.range.end, said)])
        }
        Some((false, why)) => {
            let said = format!("lines {} to {}: {why}", known.line(), body.last);
            found.offering([Offer::block(String::new(), body.range.end, said)])
        }
        None => found,
    }
}

/// `y = x if B > 8 else 2 * x`.
fn ternary(text: &str, known: Known<'_>) -> Option<Foreign> {
    let at = text.find(" if ")?;
    let (before, behind) = (&text[..at], &text[at + 4..]);
    let (condition, otherwise) = behind.split_once(" else ")?;
    let (target, value) = before.split_once('=')?;
    let target = target.trim_end();
    let words = "programs have no branches; `where(M, A, B)` selects elements by a mask such as `M = A > 0`";
    let found = Foreign { at: at + 1..at + 3, ..foreign(text, 0, BRANCHES, "not an operator", words) };
    Some(match decided(condition.trim(), known) {
        Some((holds, why)) => {
            let line = format!("{target} = {}", if holds { value.trim() } else { otherwise.trim() });
            found.offering([Offer::line(line).with(&format!(": {why}"))])
        }
        None => {
            let line = format!("{target} = where({}, {}, {})", condition.trim(), value.trim(), otherwise.trim());
            found.offering([Offer::line(line)])
        }
    })
}

/// Whether a comparison of a dim or an axis with a number holds, and why.
fn decided(condition: &str, known: Known<'_>) -> Option<(bool, String)> {
    let signs = ["<=", ">=", "==", "!=", "<", ">"];
    let (name, sign, number) = signs
        .into_iter()
        .find_map(|sign| condition.split_once(sign).map(|(left, right)| (left.trim(), sign, right.trim())))?;
    let sizes = known.sizes();
    let size = sizes.iter().find(|(dim, _)| *dim == name).map(|(_, size)| *size).or_else(|| known.size(name))?;
    let (left, right): (u64, u64) = (size.parse().ok()?, number.parse().ok()?);
    let holds = match sign {
        "<=" => left <= right,
        ">=" => left >= right,
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        _ => left > right,
    };
    Some((holds, format!("`{name}` is {size}, so the condition {} holds", if holds { "always" } else { "never" })))
}
