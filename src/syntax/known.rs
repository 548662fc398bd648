//! The arrays and axes declared above a statement, read from the text, so that suggestions name the reader's own dims.

/// Most bytes before a statement that are searched.
const MOST_SEARCHED: usize = 32 << 10;

/// The text before a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    before: &'a str,
}

impl<'a> Known<'a> {
    /// The text of `source` before byte `start`.
    pub(super) fn before(source: &'a str, start: usize) -> Known<'a> {
        let mut from = start.saturating_sub(MOST_SEARCHED);
        while !source.is_char_boundary(from) {
            from += 1;
        }
        Known { before: source.get(from..start).unwrap_or_default() }
    }

    /// Nothing is known.
    pub(super) fn nothing() -> Known<'static> {
        Known { before: "" }
    }

    /// The axes of the mesh with their sizes.
    pub(super) fn axes(self) -> Vec<(&'a str, &'a str)> {
        let block = self.before.lines().find_map(|line| line.trim_start().strip_prefix("mesh"));
        let block = block.and_then(|line| line.split_once('{')?.1.split_once('}')).map_or("", |(block, _)| block);
        let axis = |item: &'a str| {
            let (name, size) = item.split_once(':')?;
            Some((name.trim(), size.split_whitespace().next()?))
        };
        block.split(',').filter_map(axis).collect()
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

    /// The brackets of an array as declared last, one item per dim.
    pub(super) fn items(self, name: &str) -> Option<Vec<&'a str>> {
        let line = |line: &'a str| {
            let line = line.split('#').next().unwrap_or_default().trim();
            let result = line.rsplit_once("->").map_or(line, |(_, result)| result.trim_start());
            let rest = result.strip_prefix(name)?.trim_start();
            let rest = match rest.strip_prefix(':') {
                Some(typed) => &typed[typed.find('[')?..],
                None if rest.starts_with('[') => rest,
                None => return None,
            };
            let items = pieces(rest[1..].split_once(']')?.0);
            (!items.is_empty()).then_some(items)
        };
        self.before.lines().rev().find_map(line)
    }

    /// The dims of an array, or of a product of two.
    pub(super) fn dims(self, value: &str) -> Option<Vec<String>> {
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
    pub(super) fn whole_dim(self, name: &str) -> Option<String> {
        let items = self.items(name)?;
        items.into_iter().find(|item| self.dim(item).is_some_and(|dim| dim == **item)).map(str::to_owned)
    }

    /// The dim of an item without its axes.
    fn dim(self, item: &str) -> Option<String> {
        let axes = self.axes();
        let is_axis = |word: &str| axes.iter().any(|(name, _)| *name == word);
        let is_run = |word: &str| is_axis(word) || word.chars().all(|c| is_axis(c.encode_utf8(&mut [0; 4])));
        let dim = match item.rsplit_once('_') {
            Some((dim, axes)) if axes == "?" || axes.starts_with('{') || is_run(axes) => dim,
            Some(_) | None => item,
        };
        let is_name = dim.starts_with(|c: char| c.is_ascii_alphabetic());
        (is_name && dim.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then(|| dim.to_owned())
    }
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
