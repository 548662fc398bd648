//! The text around a statement: the arrays, dims and axes declared above it, so that suggestions name the reader's own
//! words, and the indented lines below it.

use std::ops::Range;

/// Most bytes before a statement that are searched.
const MOST_SEARCHED: usize = 32 << 10;

/// The text around a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    before: &'a str,
    /// From the statement on.
    rest: &'a str,
    /// The line of the statement, counted from 1.
    line: usize,
}

impl<'a> Known<'a> {
    /// The text of `source` around byte `start`.
    pub(super) fn around(source: &'a str, start: usize) -> Known<'a> {
        let mut from = start.saturating_sub(MOST_SEARCHED);
        while !source.is_char_boundary(from) {
            from += 1;
        }
        let [above, before] = [0, from].map(|from| source.get(from..start).unwrap_or_default());
        let line = above.matches('\n').count() + 1;
        Known { before, rest: source.get(start..).unwrap_or_default(), line }
    }

    /// The blanks before the statement in its line; `None` if it shares the line with another one.
    fn indent(self) -> Option<&'a str> {
        let line = &self.before[self.before.rfind('\n').map_or(0, |newline| newline + 1)..];
        line.chars().all(char::is_whitespace).then_some(line)
    }

    /// The lines below the first line of the statement that are indented deeper.
    pub(super) fn body(self) -> Option<Body<'a>> {
        let indent = self.indent()?;
        let head = self.rest.find('\n').unwrap_or(self.rest.len());
        let (mut end, mut at, mut lines) = (head, head, 0);
        let mut last = 0;
        for line in self.rest[head..].split('\n').skip(1) {
            at += 1 + line.len();
            lines += 1;
            let depth = line.len() - line.trim_start().len();
            if line.trim().is_empty() {
                continue;
            }
            if depth <= indent.len() {
                break;
            }
            (end, last) = (at, lines);
        }
        (last > 0).then(|| Body { text: &self.rest[head..end], range: head..end, indent, last: self.line + last })
    }

    /// The word that begins the line above, and those below the statement, next one first.
    pub(super) fn word_above(self) -> &'a str {
        word_of(self.before.trim_end().rsplit('\n').next().unwrap_or_default())
    }

    /// The lines from the statement on.
    pub(super) fn lines(self) -> impl Iterator<Item = &'a str> {
        self.rest.split('\n')
    }

    /// The line of the statement, counted from 1.
    pub(super) fn line(self) -> usize {
        self.line
    }

    /// The declared dims with their sizes.
    pub(super) fn sizes(self) -> Vec<(&'a str, &'a str)> {
        self.blocks("dims").into_iter().flatten().collect()
    }

    /// The only declared dim of a size.
    pub(super) fn dim_of(self, size: &str) -> Option<&'a str> {
        let sizes = self.sizes();
        let mut fit = sizes.into_iter().filter(|(_, other)| *other == size);
        fit.next().filter(|_| fit.next().is_none()).map(|(name, _)| name)
    }

    /// Whether a text is an axis, or a run of axes of one letter.
    pub(super) fn is_axes(self, text: &str) -> bool {
        let axes = self.axes();
        let is_axis = |word: &str| axes.iter().any(|(name, _)| *name == word);
        !text.is_empty() && (is_axis(text) || text.chars().all(|c| is_axis(c.encode_utf8(&mut [0; 4]))))
    }

    /// The axes of the mesh with their sizes.
    pub(super) fn axes(self) -> Vec<(&'a str, &'a str)> {
        let mesh = self.blocks("mesh").into_iter().next().unwrap_or_default();
        mesh.into_iter().filter_map(|(name, size)| Some((name, size.split_whitespace().next()?))).collect()
    }

    /// The names and sizes in each block `word {name: size, ..}`, which may take several lines.
    fn blocks(self, word: &str) -> Vec<Vec<(&'a str, &'a str)>> {
        let mut blocks = Vec::new();
        let mut open: Option<Items<'a>> = None;
        let statements = self.before.lines().flat_map(|line| line.split('#').next().unwrap_or_default().split(';'));
        for text in statements {
            let text = match &open {
                Some(_) => text,
                None => match text.trim_start().strip_prefix(word).and_then(|text| text.split_once('{')) {
                    Some((_, text)) => text,
                    None => continue,
                },
            };
            let mut items = open.take().unwrap_or_default();
            match text.split_once('}') {
                Some((last, _)) => {
                    items.read(last);
                    blocks.push(items.ended());
                }
                None => {
                    items.read(text);
                    open = Some(items);
                }
            }
        }
        blocks
    }

    /// The name of the axis in this place of the mesh.
    pub(super) fn axis(self, place: usize) -> String {
        self.axes().get(place).map_or(["X", "Y", "Z"][place.min(2)], |(name, _)| *name).to_owned()
    }

    /// The size of an axis.
    pub(super) fn size(self, axis: &str) -> Option<&'a str> {
        self.axes().into_iter().find(|(name, _)| *name == axis).map(|(_, size)| size)
    }

    /// Whether the statement stands in the body of a function.
    pub(super) fn in_function(self) -> bool {
        let head =
            self.before.rfind("\ndef ").map(|at| at + 1).or_else(|| self.before.starts_with("def ").then_some(0));
        head.is_some_and(|head| self.before[head..].matches('{').count() > self.before[head..].matches('}').count())
    }

    /// The text after the name in each line that declares an array, the last line first.
    fn declared(self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.before.lines().rev().filter_map(move |line| {
            let line = line.split('#').next().unwrap_or_default().trim();
            let result = line.rsplit_once("->").map_or(line, |(_, result)| result.trim_start());
            let rest = result.strip_prefix(name).filter(|_| !name.is_empty())?.trim_start();
            (rest.starts_with([':', '[', '=']) && !rest.starts_with("==")).then_some(rest)
        })
    }

    /// Whether an array of this name is declared or computed above.
    pub(super) fn is_array(self, name: &'a str) -> bool {
        self.declared(name).next().is_some()
    }

    /// The declared dtype of an array.
    pub(super) fn dtype(self, name: &'a str) -> Option<&'a str> {
        self.declared(name).find_map(|rest| Some(rest.strip_prefix(':')?.split_once('[')?.0.trim()))
    }

    /// The brackets of an array as declared last, and the text behind them.
    fn brackets(self, name: &'a str) -> Option<(&'a str, &'a str)> {
        self.declared(name).find_map(|rest| {
            let rest = if rest.starts_with(':') { &rest[rest.find('[')?..] } else { rest };
            rest.strip_prefix('[')?.split_once(']')
        })
    }

    /// The dims of an array as declared last, with their axes.
    pub(super) fn items(self, name: &'a str) -> Option<Vec<&'a str>> {
        let items = pieces(self.brackets(name)?.0);
        (!items.is_empty()).then_some(items)
    }

    /// The operator and the axes of the open sum of an array as declared last.
    pub(super) fn open(self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let sum = self.brackets(name)?.1.trim_start().strip_prefix('{')?;
        // `{U_{X,Y}}`.
        let end = if sum.contains("_{") { "}}" } else { "}" };
        let (operator, axes) = sum.split_once(end)?.0.split_once('_')?;
        Some((operator, axes.trim_start_matches('{')))
    }

    /// The axes of the first sharded dim of an array.
    pub(super) fn sharding(self, name: &'a str) -> Option<&'a str> {
        let axes = |item: &'a str| Some(item.rsplit_once('_')?.1).filter(|axes| *axes != "?");
        self.items(name)?.into_iter().find_map(axes)
    }

    /// The dims of an array, or of a product of two.
    pub(super) fn dims(self, value: &'a str) -> Option<Vec<String>> {
        let value = value.trim();
        let Some((left, right)) = value.split_once(['*', '@']) else {
            return self.items(value)?.into_iter().map(|item| self.dim(item)).collect();
        };
        if value.contains(['(', '[', '+', '-', '/', '.', '_']) || right.contains(['*', '@']) {
            return None;
        }
        let (left, right) = (self.dims(left)?, self.dims(right)?);
        let alone = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|dim| !those.contains(dim)).cloned().collect()
        };
        Some([alone(&left, &right), alone(&right, &left)].concat())
    }

    /// The first dim of an array without axes.
    pub(super) fn whole_dim(self, name: &'a str) -> Option<String> {
        let items = self.items(name)?;
        items.into_iter().find(|item| self.dim(item).is_some_and(|dim| dim == **item)).map(str::to_owned)
    }

    /// The dim of an item without its axes.
    fn dim(self, item: &str) -> Option<String> {
        let dim = match item.rsplit_once('_') {
            Some((dim, axes)) if axes == "?" || axes.starts_with('{') || self.is_axes(axes) => dim,
            Some(_) | None => item,
        };
        let is_name = dim.starts_with(|c: char| c.is_ascii_alphabetic());
        (is_name && dim.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then(|| dim.to_owned())
    }
}

/// The items of a block, line by line.
#[derive(Default)]
struct Items<'a> {
    ended: Vec<(&'a str, &'a str)>,
    /// The item that the next line goes on with.
    name: &'a str,
    size: Option<&'a str>,
}

impl<'a> Items<'a> {
    /// Reads one line of the block.
    fn read(&mut self, line: &'a str) {
        for (place, text) in line.split(',').enumerate() {
            if place > 0 {
                self.end();
            }
            let (name, size) = match (self.size, text.split_once(':')) {
                (None, Some((name, size))) => (name.trim(), Some(size.trim())),
                (None, None) => (text.trim(), None),
                (Some(_), _) => ("", Some(text.trim())),
            };
            if self.name.is_empty() {
                self.name = name;
            }
            if self.size.is_none_or(str::is_empty) {
                self.size = size;
            }
        }
    }

    /// Ends an item at a comma or a brace.
    fn end(&mut self) {
        let (name, size) = (std::mem::take(&mut self.name), self.size.take());
        self.ended.extend(size.map(|size| (name, size)));
    }

    fn ended(mut self) -> Vec<(&'a str, &'a str)> {
        self.end();
        self.ended
    }
}

/// The indented lines below a statement.
pub(super) struct Body<'a> {
    /// The lines, each after its newline.
    pub(super) text: &'a str,
    /// Their range, in bytes from the start of the statement.
    pub(super) range: Range<usize>,
    /// The blanks before the statement.
    pub(super) indent: &'a str,
    /// The number of the last line.
    pub(super) last: usize,
}

impl Body<'_> {
    /// The statements of the body, without indentation, if each takes one line.
    pub(super) fn statements(&self) -> Vec<&str> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
    }
}

/// The first word of a line.
pub(super) fn word_of(line: &str) -> &str {
    let line = line.trim_start();
    &line[..line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(line.len())]
}

/// Splits at commas outside brackets and quotes.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start, mut found) = (0i32, None, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|piece| !piece.is_empty());
    found
}
