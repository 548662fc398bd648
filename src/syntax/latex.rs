//! The wrappers of LaTeX, blanked out: what is left is the notation, and every byte of it stands near where it stood.
//!
//! ```text
//! \[\textbf{AllGather}_X A[I_X, J] \rightarrow &\ A[I, J]\]
//!            AllGather_X A[I_X, J] \rightarrow    A[I, J] ;
//! ```
//!
//! No byte is added, so that places in the result are places in the source. What is taken out inside a word moves to
//! its front, where a blank is allowed.

/// Words that only dress what stands in their braces.
const DRESS: [&str; 8] = ["text", "textbf", "textit", "textrm", "mathbf", "mathrm", "mathit", "boldsymbol"];
/// Words that say nothing here.
const SILENT: [&str; 8] = ["left", "right", "quad", "qquad", "displaystyle", "big", "Big", "limits"];

/// The source without wrappers, as long as it was.
pub(super) fn unwrapped(source: &str) -> String {
    let mut page = Page { source, kept: String::with_capacity(source.len()), word: String::new(), pads: [0, 0] };
    let mut braces: Vec<bool> = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let width = match c {
            '#' => {
                let end = rest.find('\n').unwrap_or(rest.len());
                page.keep(&rest[..end]);
                end
            }
            '\\' => page.command(rest, &mut braces),
            '$' | '&' => page.drop(1),
            '{' => {
                braces.push(false);
                page.keep("{")
            }
            '}' if braces.pop() == Some(true) => page.drop(1),
            c => page.keep(&rest[..c.len_utf8()]),
        };
        at += width;
    }
    page.flush();
    page.kept
}

/// What was read, written anew.
struct Page<'a> {
    source: &'a str,
    kept: String,
    /// What cannot be torn apart.
    word: String,
    /// Bytes that were taken out before and inside that word, and those behind it.
    pads: [usize; 2],
}

impl Page<'_> {
    /// Keeps a text; its length.
    fn keep(&mut self, text: &str) -> usize {
        let last = self.word.chars().next_back();
        let first = text.chars().next();
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'';
        let bound = |last: char, first: char| inside(last) && inside(first) || last == '_' || first == '_';
        let holds = |last: char, first: char| bound(last, first) && !last.is_whitespace() && !first.is_whitespace();
        if !matches!((last, first), (Some(last), Some(first)) if holds(last, first)) {
            self.flush();
        }
        self.pads = [self.pads[0] + self.pads[1], 0];
        self.word.push_str(text);
        text.len()
    }

    /// Removes this number of bytes.
    fn drop(&mut self, width: usize) -> usize {
        self.pads[usize::from(!self.word.is_empty())] += width;
        width
    }

    /// Writes the word.
    fn flush(&mut self) {
        let [before, behind] = std::mem::take(&mut self.pads);
        self.kept.extend(std::iter::repeat_n(' ', before));
        self.kept.push_str(&std::mem::take(&mut self.word));
        self.pads = [behind, 0];
        if self.kept.len() + behind == self.source.len() {
            self.kept.extend(std::iter::repeat_n(' ', behind));
            self.pads = [0, 0];
        }
    }

    /// A command at the start of `rest`; its length, as far as it is dealt with.
    fn command(&mut self, rest: &str, braces: &mut Vec<bool>) -> usize {
        let name_end = rest[1..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        let name = &rest[1..name_end];
        let behind = &rest[name_end..];
        let braced = |text: &str| text.find('}').map(|end| end + 1).filter(|_| text.starts_with('{'));
        match name {
            "" => match rest[1..].chars().next() {
                // A line of a display, or its end, ends a statement.
                Some('\\' | ']') => {
                    self.drop(1);
                    1 + self.keep(";")
                }
                Some('[' | '(' | ')' | ' ' | ',' | ';' | ':' | '!') => self.drop(2),
                Some(_) | None => self.drop(1),
            },
            "begin" | "end" => {
                let end = behind.strip_prefix('{').and_then(|_| braced(behind)).unwrap_or(0);
                self.drop(name_end + end)
            }
            "textcolor" | "color" => {
                let color = braced(behind).unwrap_or(0);
                let width = self.drop(name_end + color);
                width + self.open(&behind[color..], braces)
            }
            name if DRESS.contains(&name) => {
                let width = self.drop(name_end);
                width + self.open(behind, braces)
            }
            name if SILENT.contains(&name) => self.drop(name_end),
            "times" => {
                let width = self.keep("*");
                width + self.drop(name_end - width)
            }
            "ldots" | "dots" | "cdots" => {
                let width = self.keep("...");
                width + self.drop(name_end - width)
            }
            // `\cdot` and `\to` are signs of the notation.
            _ => self.keep(&rest[..name_end]),
        }
    }

    /// The brace that a wrapper opens, if it does.
    fn open(&mut self, text: &str, braces: &mut Vec<bool>) -> usize {
        if !text.starts_with('{') {
            return 0;
        }
        braces.push(true);
        self.drop(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_displays_of_the_book() {
        for (latex, plain) in [
            (r"$A[I_{XY}, J]$", "A[I_{XY}, J]"),
            (r"\(A[I_{XY}, J] \rightarrow A[I_Y, J]\)", r"A[I_{XY}, J] \rightarrow A[I_Y, J]"),
            (
                r"\[\mathbf{A}[I, J_X] \cdot \mathbf{B}[J, K] \rightarrow \mathbf{C}[I, K]\]",
                r"A [I, J_X] \cdot B [J, K] \rightarrow C [I, K] ;",
            ),
            (r"\textbf{AllGather}_X[I, J_X] \rightarrow \mathbf{A}[I, J]", r"AllGather_X[I, J_X] \rightarrow A [I, J]"),
            (r"\textbf{AllGather}_{XY}(A[I_{XY}, J])", "AllGather_{XY}(A[I_{XY}, J])"),
            (
                r"\textbf{A}[I, J_X] \cdot_\text{LOCAL} \textbf{B}[J_X, K] \rightarrow C[I, K] \{\ U_X \}",
                r"A [I, J_X] \cdot_LOCAL B [J_X, K] \rightarrow C[I, K] { U_X }",
            ),
            (
                r"\begin{align*} \textbf{ReduceScatter}_{Y,J} : A[I_X,J] \{U_Y\} \rightarrow &\ A[I_X, J_Y] \\ B \end{align*}",
                r"ReduceScatter_{Y,J} : A[I_X,J] {U_Y } \rightarrow A[I_X, J_Y] ; B",
            ),
            (r"$A \times B$", "A * B"),
            (r"$A[I_X, J, \ldots]$", "A[I_X, J, ... ]"),
            (r"A[I_{\textcolor{red}{X}}, J]", "A[I_{ X }, J]"),
            (r"\left[ I_X \right]", "[ I_X ]"),
            (r"d\_model # \text{kept}", r"d_model # \text{kept}"),
        ] {
            let found = unwrapped(latex);
            assert_eq!(words(&found).replace(" [", "["), plain.replace(" [", "["), "{latex}");
            assert_eq!(found.len(), latex.len(), "{latex}");
        }
    }

    /// Nothing but blanks is added, and lines keep their length, whatever the text.
    #[test]
    fn the_length_stays() {
        let parts =
            ["\\", "text", "{", "}", "A", "_", " ", "\\\\", "\\[", "\\]", "$", "#", "\n", "·", "\\left", "[", "&"];
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let text: String = (0..random.usize(..12)).map(|_| parts[random.usize(..parts.len())]).collect();
            let found = unwrapped(&text);
            assert_eq!(found.len(), text.len(), "{text:?} {found:?}");
            let (lines, kept): (Vec<_>, Vec<_>) = (text.lines().collect(), found.lines().collect());
            assert!(lines.iter().map(|line| line.len()).eq(kept.iter().map(|line| line.len())), "{text:?} {found:?}");
        }
    }

    #[test]
    fn the_notation_itself_stays() {
        for text in
            ["A[I_X, J] * B[J, K] -> C[I, K]{U_X}", "mesh {X: 4}\n  dims {I: 2*D}", "W_in' = relu(A) # it's $5", ""]
        {
            assert_eq!(unwrapped(text), text);
        }
    }
}
