//! A StableHLO module: its meshes, its functions, and their operations, with types and places.

use super::ImportError;
use super::trees::{self, Bracket, Kind, Tree, items};
use crate::dtype::DType;
use crate::span::Span;
use itertools::Itertools;
use std::collections::HashMap;

/// Most references from one location to another that are followed.
const MOST_ALIASES: usize = 16;

/// A tensor has fewer elements than this, as arrays have.
const MOST_ELEMENTS: u64 = 1 << 60;

/// Shape and elements of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    /// Sizes of its dims.
    pub(super) shape: Vec<u64>,
    /// Type of its elements; `Err` has the name of one that this project does not compute with.
    pub(super) element: Result<DType, String>,
}

impl Type {
    /// The dtype of real and imaginary parts, if its elements are complex numbers.
    pub(super) fn parts(&self) -> Option<DType> {
        let name = self.element.as_ref().err()?;
        DType::from_mlir(name.strip_prefix("complex<")?.strip_suffix('>')?)
    }
}

/// A module.
#[derive(Debug)]
pub(super) struct Module<'a> {
    /// The axes of the first mesh with their sizes.
    pub(super) mesh: Vec<(&'a str, u64)>,
    /// Functions by name, with the `@`.
    pub(super) functions: HashMap<&'a str, Function<'a>>,
    /// The function that is public, or the only one.
    pub(super) main: &'a str,
    locations: HashMap<&'a str, Vec<Tree<'a>>>,
}

/// An argument or result of a function.
#[derive(Debug)]
pub(super) struct Port<'a> {
    /// The value, of an argument.
    pub(super) value: &'a str,
    pub(super) element: Type,
    /// Axes of each dim; `None` where the module says nothing.
    pub(super) sharding: Option<Vec<Vec<&'a str>>>,
    /// A name from the source.
    pub(super) name: Option<&'a str>,
    /// Whether the caller gives up its memory.
    pub(super) is_donated: bool,
    pub(super) span: Span,
}

/// A function.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) arguments: Vec<Port<'a>>,
    pub(super) results: Vec<Port<'a>>,
    pub(super) body: Block<'a>,
}

/// Operations with the values that they may use.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) arguments: Vec<&'a str>,
    pub(super) operations: Vec<Operation<'a>>,
}

/// An operation.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    /// `stablehlo.add`
    pub(super) name: &'a str,
    /// Names of its results; one that stands for several, `%7:3`, has their number.
    pub(super) results: Vec<(&'a str, usize)>,
    /// Values that it reads.
    pub(super) operands: Vec<&'a str>,
    /// Everything between the name and the types.
    pub(super) trees: Vec<Tree<'a>>,
    pub(super) regions: Vec<Block<'a>>,
    /// Types of the results.
    pub(super) types: Vec<Type>,
    pub(super) location: Vec<Tree<'a>>,
    pub(super) span: Span,
}

/// Reads the text of a module.
pub(super) fn read(text: &str) -> Result<Module<'_>, ImportError> {
    let trees = trees::read(text)?;
    let mut module = Module { mesh: Vec::new(), functions: HashMap::new(), main: "", locations: HashMap::new() };
    let mut body: &[Tree<'_>] = &trees;
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        at += 1;
        match tree.word() {
            Some("module") => {
                let last = trees
                    .iter()
                    .skip(at)
                    .find(|tree| tree.is_first)
                    .map_or(text.len(), |tree| tree.span.start as usize);
                let group = trees.iter().skip(at).take_while(|tree| (tree.span.start as usize) < last);
                body = group.filter_map(|tree| tree.group(Bracket::Curly)).last().unwrap_or_default();
            }
            Some(word) if word.starts_with('#') && trees.get(at).is_some_and(|tree| tree.is_sign("=")) => {
                let rest = trees.get(at + 1..).unwrap_or_default();
                let end = rest.iter().skip(1).position(|tree| tree.is_first).map_or(rest.len(), |end| end + 1);
                module.locations.insert(word, rest.get(..end).unwrap_or_default().to_vec());
                at += 1 + end;
            }
            _ => {}
        }
    }
    for statement in statements(body) {
        match statement.first().and_then(Tree::word) {
            Some("sdy.mesh") if module.mesh.is_empty() => module.mesh = mesh(statement)?,
            Some("func.func") => {
                let (name, is_public, function) = module.function(statement)?;
                if is_public && module.main.is_empty() || name == "@main" {
                    module.main = name;
                }
                module.functions.insert(name, function);
            }
            _ => {}
        }
    }
    if module.main.is_empty() {
        let why = match module.functions.keys().exactly_one() {
            Ok(name) => {
                module.main = name;
                return Ok(module);
            }
            Err(_) if module.functions.is_empty() => "the text has no `func.func`",
            Err(_) => "no function is public or called `@main`",
        };
        let end = text.find('\n').unwrap_or(text.len());
        return Err(ImportError::Unreadable { why: why.to_owned(), at: Span::new(0, end) });
    }
    Ok(module)
}

/// The statements of a region. One begins on a line of its own, unless it continues the one before.
fn statements<'t, 'a>(trees: &'t [Tree<'a>]) -> Vec<&'t [Tree<'a>]> {
    let begins = |tree: &Tree<'_>| {
        tree.is_first
            && match tree.kind {
                Kind::Word(word) => !matches!(word, "cond" | "do" | "reducer" | "attributes"),
                Kind::Value(_) | Kind::Text(_) => true,
                Kind::Sign(_) | Kind::Dense(_) | Kind::Group(..) => false,
            }
    };
    let starts: Vec<usize> = trees.iter().positions(begins).chain([trees.len()]).collect();
    starts.iter().tuple_windows().filter_map(|(&start, &end)| trees.get(start..end)).collect()
}

/// `sdy.mesh @mesh = <["data"=4, "model"=2]>`
fn mesh<'a>(statement: &[Tree<'a>]) -> Result<Vec<(&'a str, u64)>, ImportError> {
    let unreadable = || ImportError::Unreadable { why: "this mesh has no axes".to_owned(), at: span(statement) };
    let axes = statement.iter().find_map(|tree| tree.group(Bracket::Angle)).and_then(|inside| inside.first());
    let axes = axes.and_then(|tree| tree.group(Bracket::Square)).ok_or_else(unreadable)?;
    items(axes)
        .map(|item| match item {
            [name, _, size] => Some((name.text()?, size.word()?.parse().ok()?)),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(unreadable)
}

/// The place of all of them.
pub(super) fn span(trees: &[Tree<'_>]) -> Span {
    trees.iter().map(|tree| tree.span).reduce(Span::join).unwrap_or_default()
}

impl<'a> Module<'a> {
    /// `func.func public @main(%arg0: tensor<8xf32> {..} loc(..)) -> (tensor<8xf32> {..}) {`
    fn function(&self, statement: &[Tree<'a>]) -> Result<(&'a str, bool, Function<'a>), ImportError> {
        let unreadable = |why: &str| ImportError::Unreadable {
            why: why.to_owned(),
            at: statement.first().map_or(Span::default(), |tree| tree.span),
        };
        let name = statement.iter().position(|tree| tree.word().is_some_and(|word| word.starts_with('@')));
        let name = name.ok_or_else(|| unreadable("this function has no name"))?;
        let is_private = statement.iter().take(name).any(|tree| tree.word() == Some("private"));
        let word = statement.get(name).and_then(Tree::word).unwrap_or_default();
        let arguments = statement.get(name + 1).and_then(|tree| tree.group(Bracket::Round));
        let arguments = items(arguments.ok_or_else(|| unreadable("this function has no arguments"))?)
            .map(|item| self.port(item))
            .collect::<Result<_, _>>()?;
        let mut rest = statement.get(name + 2..).unwrap_or_default();
        let mut results = Vec::new();
        if let [arrow, after @ ..] = rest
            && arrow.is_sign("->")
        {
            match after {
                [tree, after @ ..] if matches!(tree.kind, Kind::Group(Bracket::Round, _)) => {
                    results = items(tree.inside()).map(|item| self.port(item)).collect::<Result<_, _>>()?;
                    rest = after;
                }
                [word, group, after @ ..] => {
                    let element =
                        one_type(&[word.clone(), group.clone()]).ok_or_else(|| unreadable("its result has no type"))?;
                    let span = word.span.join(group.span);
                    let port = Port { value: "", element, sharding: None, name: None, is_donated: false, span };
                    results = vec![port];
                    rest = after;
                }
                _ => return Err(unreadable("its result has no type")),
            }
        }
        let body = rest.iter().filter_map(|tree| tree.group(Bracket::Curly)).next_back();
        let body = block(body.ok_or_else(|| unreadable("this function has no body"))?)?;
        Ok((word, !is_private, Function { arguments, results, body }))
    }

    /// `%arg0: tensor<8xf32> {sdy.sharding = ..} loc("x")`, or a result without name.
    fn port(&self, item: &[Tree<'a>]) -> Result<Port<'a>, ImportError> {
        let unreadable =
            || ImportError::Unreadable { why: "this is not the type of a tensor".to_owned(), at: span(item) };
        let (value, rest) = match item {
            [Tree { kind: Kind::Value(value), .. }, _, rest @ ..] => (*value, rest),
            _ => ("", item),
        };
        let (kind, rest) = rest.split_at_checked(2).ok_or_else(unreadable)?;
        let element = one_type(kind).ok_or_else(unreadable)?;
        let attributes = rest.iter().find_map(|tree| tree.group(Bracket::Curly)).unwrap_or_default();
        let sharding = value_of(attributes, "sdy.sharding").map(sharding).transpose()?;
        let info = value_of(attributes, "jax.result_info").and_then(|trees| trees.first()).and_then(Tree::text);
        let is_donated =
            ["tf.aliasing_output", "jax.buffer_donor"].iter().any(|key| value_of(attributes, key).is_some());
        let location = rest.iter().position(|tree| tree.word() == Some("loc"));
        let name = info.or_else(|| self.name(rest.get(location? + 1..)?)).filter(|name| !name.is_empty());
        Ok(Port { value, element, sharding, name, is_donated, span: span(item) })
    }

    /// The location, aliases followed.
    fn location<'t>(&'t self, mut trees: &'t [Tree<'a>]) -> &'t [Tree<'a>] {
        for _ in 0..MOST_ALIASES {
            trees = match trees {
                [Tree { kind: Kind::Word("loc"), .. }, group, ..] => group.inside(),
                [Tree { kind: Kind::Group(Bracket::Round, inside), .. }] => inside,
                [Tree { kind: Kind::Word(word), .. }] if word.starts_with('#') => match self.locations.get(word) {
                    Some(trees) => trees,
                    None => return &[],
                },
                _ => break,
            };
        }
        trees
    }

    /// The name in a location: of `loc("x")`, and of `loc("jit(f)/mul"(#loc3))`.
    pub(super) fn name(&self, trees: &[Tree<'a>]) -> Option<&'a str> {
        match self.location(trees) {
            // A file, with line and column.
            [_, after, ..] if after.is_sign(":") => None,
            [name, ..] => name.text(),
            [] => None,
        }
    }

    /// File and line in a location, that of the innermost frame.
    pub(super) fn place(&self, trees: &[Tree<'a>]) -> Option<(&'a str, &'a str)> {
        let mut trees = trees;
        for _ in 0..MOST_ALIASES {
            trees = match self.location(trees) {
                [Tree { kind: Kind::Text(file), .. }, colon, line, ..] if colon.is_sign(":") => {
                    return Some((file, line.word()?));
                }
                [Tree { kind: Kind::Text(_), .. }, inner, ..] => inner.inside(),
                [Tree { kind: Kind::Word("callsite"), .. }, inner, ..] => {
                    let end = inner.inside().iter().position(|tree| tree.word() == Some("at"));
                    inner.inside().get(..end?)?
                }
                [Tree { kind: Kind::Word("fused"), .. }, .., inner] => items(inner.inside()).next()?,
                _ => return None,
            };
        }
        None
    }
}

/// The operations of a region, and the arguments of its first block.
fn block<'a>(trees: &[Tree<'a>]) -> Result<Block<'a>, ImportError> {
    let mut block = Block::default();
    for statement in statements(trees) {
        match statement.first().and_then(Tree::word) {
            Some(word) if word.starts_with('^') => {
                if !block.operations.is_empty() {
                    let why = "a region with several blocks is not StableHLO".to_owned();
                    return Err(ImportError::Unreadable { why, at: span(statement) });
                }
                block.arguments = values(statement).collect();
            }
            _ => block.operations.push(operation(statement)?),
        }
    }
    Ok(block)
}

/// All values in the trees, in order.
fn values<'t, 'a>(trees: &'t [Tree<'a>]) -> impl Iterator<Item = &'a str> + 't {
    let mut open: Vec<std::slice::Iter<'t, Tree<'a>>> = vec![trees.iter()];
    std::iter::from_fn(move || {
        while let Some(last) = open.last_mut() {
            match last.next() {
                None => {
                    open.pop();
                }
                Some(Tree { kind: Kind::Value(value), .. }) => return Some(*value),
                Some(tree) => open.push(tree.inside().iter()),
            }
        }
        None
    })
}

fn operation<'a>(statement: &[Tree<'a>]) -> Result<Operation<'a>, ImportError> {
    let whole = span(statement);
    let unreadable = |why: &str| ImportError::Unreadable { why: why.to_owned(), at: whole };
    let equals = match statement.first().map(|tree| &tree.kind) {
        Some(Kind::Value(_)) => statement.iter().position(|tree| tree.is_sign("=")),
        _ => None,
    };
    let (results, rest) = match equals {
        Some(equals) => (statement.get(..equals).unwrap_or_default(), statement.get(equals + 1..).unwrap_or_default()),
        None => (Default::default(), statement),
    };
    let mut results = items(results)
        .map(|item| match item {
            [Tree { kind: Kind::Value(value), .. }] => Some((*value, 1)),
            [Tree { kind: Kind::Value(value), .. }, _, count] => {
                count.word()?.parse().ok().filter(|count| *count <= 1 << 16).map(|count| (*value, count))
            }
            _ => None,
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| unreadable("the results of this operation have no names"))?;
    let (name, mut rest) = match rest {
        [Tree { kind: Kind::Word(name) | Kind::Text(name), .. }, rest @ ..] => (*name, rest),
        _ => return Err(unreadable("this is not an operation")),
    };
    let mut location = Vec::new();
    if let [head @ .., Tree { kind: Kind::Word("loc"), .. }, place] = rest {
        location = place.inside().to_vec();
        rest = head;
    }
    // The last colon before a type; what follows the types are regions.
    let is_type = |tree: &Tree<'_>| {
        tree.word().is_some_and(|word| word == "tensor" || word == "tuple" || word.starts_with('!'))
            || matches!(tree.kind, Kind::Group(Bracket::Round, _))
    };
    let colon = (0..rest.len()).rev().find(|&at| rest[at].is_sign(":") && rest.get(at + 1).is_some_and(is_type));
    let (head, tail) = match colon {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default()),
        None => (rest, Default::default()),
    };
    let is_block = |tree: &Tree<'_>| matches!(tree.kind, Kind::Group(Bracket::Curly, _));
    let is_region_list =
        |tree: &Tree<'_>| tree.group(Bracket::Round).is_some_and(|inside| inside.first().is_some_and(is_block));
    let mut regions = Vec::new();
    // `({..}, {..})` of the generic form.
    for list in head.iter().filter(|tree| is_region_list(tree)) {
        for region in list.inside().iter().filter_map(|tree| tree.group(Bracket::Curly)) {
            regions.push(block(region)?);
        }
    }
    // `cond {..} do {..}`, `reducer(%a: .., %b: ..) {..}`
    let words = tail.iter().position(|tree| matches!(tree.word(), Some("cond" | "do" | "reducer")));
    let (types, after) = tail.split_at(words.unwrap_or(tail.len()));
    let mut arguments = Vec::new();
    for tree in after {
        if let Some(region) = tree.group(Bracket::Curly) {
            regions.push(Block { arguments: std::mem::take(&mut arguments), ..block(region)? });
        } else {
            arguments.extend(values(std::slice::from_ref(tree)));
        }
    }
    let trees: Vec<Tree<'a>> = head.iter().filter(|tree| !is_region_list(tree)).cloned().collect();
    let mut operands: Vec<&str> = values(&trees).collect();
    if name == "stablehlo.while" && trees.iter().any(|tree| tree.inside().iter().any(|tree| tree.is_sign("="))) {
        // `(%iterArg = %arg2, ..)`: names inside, and what they begin with.
        let inside: Vec<&str> = operands.iter().copied().step_by(2).collect();
        operands = operands.into_iter().skip(1).step_by(2).collect();
        for region in &mut regions {
            region.arguments.clone_from(&inside);
        }
    }
    let types = result_types(types, results.iter().map(|(_, count)| count).sum())
        .ok_or_else(|| unreadable("the types of this operation are not those of tensors"))?;
    // A tuple is several values.
    if let [(_, count)] = &mut results[..] {
        *count = types.len();
    }
    Ok(Operation { name, results, operands, trees, regions, types, location, span: whole })
}

/// The types of the results: behind the arrow, or the last ones of a list.
fn result_types(trees: &[Tree<'_>], results: usize) -> Option<Vec<Type>> {
    let arrow = trees.iter().position(|tree| tree.is_sign("->"));
    let trees = arrow.map_or(trees, |at| trees.get(at + 1..).unwrap_or_default());
    let trees = match trees {
        [Tree { kind: Kind::Group(Bracket::Round, inside), .. }] => inside,
        _ => trees,
    };
    if results == 0 {
        return Some(Vec::new());
    }
    if let ([Tree { kind: Kind::Word("tuple"), .. }, members], 1) = (trees, results) {
        return items(members.group(Bracket::Angle)?).map(one_type).collect();
    }
    let types: Vec<Type> = items(trees).map(one_type).collect::<Option<_>>()?;
    let skipped = types.len().checked_sub(results)?;
    Some(types.into_iter().skip(skipped).collect())
}

/// `tensor<8x32xbf16>`
fn one_type(trees: &[Tree<'_>]) -> Option<Type> {
    let [head, inside, ..] = trees else {
        return match trees {
            [head] => Some(Type { shape: Vec::new(), element: Err(head.word()?.to_owned()) }),
            _ => None,
        };
    };
    if head.word() != Some("tensor") {
        return Some(Type { shape: Vec::new(), element: Err(head.word()?.to_owned()) });
    }
    let inside = inside.group(Bracket::Angle)?;
    let mut rest = inside.first()?.word()?;
    let mut shape = Vec::new();
    while let Some((size, after)) = rest.split_once('x') {
        match size.parse() {
            Ok(size) => shape.push(size),
            Err(_) if size == "?" => return None,
            Err(_) => break,
        }
        rest = after;
    }
    let elements = shape.iter().try_fold(1_u64, |elements, size| elements.checked_mul(*size));
    elements.filter(|elements| *elements < MOST_ELEMENTS)?;
    let parts = inside.get(1).and_then(|tree| tree.group(Bracket::Angle)?.first()?.word());
    let element = match (rest, parts) {
        ("complex", Some(parts)) => Err(format!("complex<{parts}>")),
        _ => DType::from_mlir(rest).ok_or_else(|| rest.to_owned()),
    };
    Some(Type { shape, element })
}

/// What stands behind `key =`, up to the next comma or attribute; groups are searched too.
pub(super) fn value_of<'t, 'a>(trees: &'t [Tree<'a>], key: &str) -> Option<&'t [Tree<'a>]> {
    for (at, tree) in trees.iter().enumerate() {
        if tree.word() == Some(key) {
            let rest = trees.get(at + 1..).unwrap_or_default();
            if let [equals, rest @ ..] = rest
                && equals.is_sign("=")
            {
                let end = rest.iter().position(|tree| tree.is_sign(",")).unwrap_or(rest.len());
                return rest.get(..end);
            }
            // A unit attribute.
            return Some(&[]);
        }
        if let Some(found) = value_of(tree.inside(), key) {
            return Some(found);
        }
    }
    None
}

/// All whole numbers in the first list behind `key =`, and in the second one of `[0] x [1]`.
pub(super) fn lists(trees: &[Tree<'_>], key: &str) -> Option<Vec<Vec<i64>>> {
    let value = value_of(trees, key)?;
    let lists = value.iter().filter(|tree| matches!(tree.kind, Kind::Group(..)));
    Some(lists.map(|list| list.inside().iter().filter_map(|tree| tree.word()?.parse().ok()).collect()).collect())
}

/// Integers in the list after `key =`; empty without such an attribute.
pub(super) fn numbers(trees: &[Tree<'_>], key: &str) -> Vec<i64> {
    lists(trees, key).and_then(|lists| lists.into_iter().next()).unwrap_or_default()
}

/// Places in the list after `key =`, such as dim numbers.
pub(super) fn places(trees: &[Tree<'_>], key: &str) -> Vec<usize> {
    numbers(trees, key).iter().filter_map(|at| usize::try_from(*at).ok()).collect()
}

/// The number behind `key =`.
pub(super) fn number(trees: &[Tree<'_>], key: &str) -> Option<i64> {
    value_of(trees, key)?.first()?.word()?.parse().ok()
}

/// `#sdy.sharding<@mesh, [{"data"}, {}, {?}]>`, or its content: axes of each dim, `?` where they are left open.
pub(super) fn sharding<'a>(trees: &[Tree<'a>]) -> Result<Vec<Vec<&'a str>>, ImportError> {
    let unreadable =
        || ImportError::Unreadable { why: "this is not the sharding of a tensor".to_owned(), at: span(trees) };
    let inside = trees.iter().find_map(|tree| tree.group(Bracket::Angle)).ok_or_else(unreadable)?;
    let dims = inside.iter().find_map(|tree| tree.group(Bracket::Square)).ok_or_else(unreadable)?;
    if inside.iter().any(|tree| tree.word() == Some("unreduced")) {
        return Err(ImportError::Sharding { why: "it is unreduced", at: span(trees) });
    }
    dims.iter()
        .filter_map(|tree| tree.group(Bracket::Curly))
        .map(|axes| {
            let is_open = |item: &&[Tree<'_>]| matches!(item, [tree] if tree.word() == Some("?"));
            if items(axes).all(|item| is_open(&item)) && items(axes).count() > 0 {
                return Ok(vec!["?"]);
            }
            items(axes)
                .filter(|item| !is_open(item))
                .map(|item| match item {
                    [axis] => axis.text().ok_or_else(unreadable),
                    _ => Err(ImportError::Sharding { why: "it names a part of an axis", at: span(item) }),
                })
                .collect()
        })
        .collect()
}
