//! Functions of other systems that are no collectives.

use super::answer::Answer;
use super::call::{Call, brackets, dtype_of, is_integer, is_name, operand};
use crate::diag::did_you_mean;
use crate::dtype::DType;
use crate::syntax::known::pieces;
use strsim::osa_distance;

/// Functions that have the same name here.
const SAME: [&str; 24] = [
    "relu",
    "gelu",
    "exp",
    "tanh",
    "sin",
    "cos",
    "sigmoid",
    "silu",
    "sqrt",
    "rsqrt",
    "abs",
    "log",
    "square",
    "where",
    "max",
    "min",
    "recip",
    "not",
    "and",
    "or",
    "sum",
    "mean",
    "softmax",
    "logsumexp",
];

/// Functions of two arrays that are operators here.
const OPERATORS: [(&str, &str); 26] = [
    ("matmul", "*"),
    ("dot", "*"),
    ("mm", "*"),
    ("bmm", "*"),
    ("tensordot", "*"),
    ("dotgeneral", "*"),
    ("multiply", ".*"),
    ("mul", ".*"),
    ("add", "+"),
    ("subtract", "-"),
    ("sub", "-"),
    ("divide", "/"),
    ("div", "/"),
    ("truedivide", "/"),
    ("power", "**"),
    ("pow", "**"),
    ("greater", ">"),
    ("gt", ">"),
    ("greaterequal", ">="),
    ("ge", ">="),
    ("less", "<"),
    ("lt", "<"),
    ("lessequal", "<="),
    ("equal", "=="),
    ("eq", "=="),
    ("notequal", "!="),
];

/// Functions that have another name here.
const RENAMED: [(&str, &str); 10] = [
    ("maximum", "max"),
    ("minimum", "min"),
    ("logicaland", "and"),
    ("logicalor", "or"),
    ("logicalnot", "not"),
    ("reciprocal", "recip"),
    ("swish", "silu"),
    ("expit", "sigmoid"),
    ("absolute", "abs"),
    ("logistic", "sigmoid"),
];

/// Functions that change neither values nor layouts.
const IDENTITIES: [&str; 13] = [
    "cuda",
    "cpu",
    "detach",
    "contiguous",
    "clone",
    "copy",
    "item",
    "numpy",
    "dropout",
    "stopgradient",
    "blockuntilready",
    "asarray",
    "optimizationbarrier",
];

/// Functions without a line of their own.
const ADVICE: [(&[&str], &str); 16] = [
    (
        &["rmsnorm"],
        "define it: `def rms_norm(x[B, D], g[D]) {`, `return x .* rsqrt(mean_D(x ** 2) + 1e-6) .* g` and `}`",
    ),
    (
        &["layernorm"],
        "define it: `def layer_norm(x[B, D], g[D]) {`, `c = x - mean_D(x)`, \
         `return c .* rsqrt(mean_D(c ** 2) + 1e-6) .* g` and `}`, and call it with a weight, `layer_norm(x, g)`",
    ),
    (&["leakyrelu"], "define it: `def leaky_relu(x) {`, `return max(x, 0.01 * x)` and `}`"),
    (&["hstack", "vstack"], JOINED),
    (&["stack"], "arrays are stacked by `stack_K(a, b)`, with a declared dim for `K` that counts the arrays"),
    (
        &["split", "chunk", "dynamicslice", "slice", "sliceindim", "narrow"],
        "each part is a `slice_{S->T}(x, 0)`, with the dim `T` of the part and its first element",
    ),
    (&["pad"], "zeros are added by `pad_{S->T}(x, 1)`, with the longer dim `T` and the number of zeros before it"),
    (
        &["scatter", "scatteradd", "segmentsum", "indexadd"],
        "rows are added by `scatter_V(x, ids)`, with a declared dim for `V`",
    ),
    (
        &["sort", "argsort"],
        "no function sorts a dim; `top_{E->K}(x)` has the `K` largest elements in order, at most 64, and \
         `argtop_{E->K}(x)` their positions; or declare a kernel: `kernel sort(x[B, D]) -> [B, D], shard B`",
    ),
    (
        &[
            "attention",
            "flashattention",
            "flashattnfunc",
            "dotproductattention",
            "scaleddotproductattention",
            "multiheadattention",
        ],
        "attention is two products and a softmax, with another dim for the keys: `p[B, N, S, T]_? = q * k` for \
         `q: bf16[B, S, N, H]` and `k: bf16[B, T, N, H]`, and then `o[B, S, N, H]_? = softmax_T(p / sqrt(H)) * v`",
    ),
    (
        &["conv", "conv1d", "conv2d", "conv3d", "convgeneraldilated", "convolve"],
        "a convolution is a sum of products of shifted arrays: `y = x * W0 + shift_S(x, 1) * W1`, with a weight for \
         each shift; or declare a kernel, `kernel conv(x[B, S], w[S]) -> [B, S], shard B`",
    ),
    (&["std"], "a standard deviation is `sqrt(var_D(x))`"),
    (
        &["namedsharding", "partitionspec"],
        "remove the line, and write the axes after the dims where the array is declared: `A: bf16[I_X, J]` for \
         `P('X', None)`",
    ),
    (&["topk"], "`top_{E->K}(x)` has the elements and `argtop_{E->K}(x)` their positions; `K` is a declared dim"),
    (&["tril"], "a mask is made of comparisons: `where(iota_I >= iota_J, A, 0)`"),
    (&["triu"], "a mask is made of comparisons: `where(iota_I <= iota_J, A, 0)`"),
];

/// Help for arrays that are joined.
const JOINED: &str = "arrays are joined by `concat_{S,R->T}(a, b)`, with the joined dims, and `T` declared with their length, as \
                      `dims {T: S+R}`";

/// Help for the lookup of rows.
const LOOKUP: &str = "rows are looked up by `take_V(E, ids)`, with the dim of the rows for `V`";

pub(super) fn answer(call: &Call<'_>) -> Option<Answer> {
    let plain = call.plain();
    let plain = plain.as_str();
    let arrays = call.arrays();
    let first = arrays.first().copied();
    if let Some((_, sign)) = OPERATORS.iter().find(|(name, _)| *name == plain) {
        return Some(Answer::call(format!("{} {sign} {}", operand(first?), operand(arrays.get(1)?))));
    }
    if let Some((_, name)) = RENAMED.iter().find(|(name, _)| *name == plain) {
        return Some(Answer::call(format!("{name}({})", arrays.join(", "))));
    }
    // `sort_D(x)`: the dim in the place that it has here.
    let behind = call.name.rsplit_once('_').filter(|(_, dim)| call.known.sizes().iter().any(|(name, _)| name == dim));
    let base = behind.map_or_else(|| plain.to_owned(), |(base, _)| base.replace('_', "").to_lowercase());
    if let Some((_, words)) = ADVICE.iter().find(|(names, _)| names.contains(&plain) || names.contains(&base.as_str()))
    {
        return Some(Answer::words(*words));
    }
    if let (Some((_, dim)), "onehot") = (behind, base.as_str()) {
        return Some(
            Answer::call(format!("onehot_{dim}({})", first?)).or_call(format!("bf16(onehot_{dim}({}))", first?)),
        );
    }
    if let (Some((_, dim)), "norm") = (behind, base.as_str()) {
        return Some(Answer::call(format!("sqrt(sum_{dim}({} ** 2))", operand(first?))));
    }
    if let Some(answer) = declared(call) {
        return Some(answer);
    }
    let is_elsewhere = !call.path.is_empty();
    let answer = match plain {
        "einsum" => einsum(call)?,
        "zeros" | "ones" | "empty" | "full" | "rand" | "randn" | "normal" | "uniform" | "array" | "zeroslike"
        | "oneslike" | "fulllike" | "emptylike" => filled(call, plain)?,
        "arange" | "iota" | "broadcastediota" => positions(call)?,
        "scan" | "foriloop" | "whileloop" => {
            let count = call.keyword(&["length"]).filter(|count| is_integer(count)).unwrap_or("4");
            Answer::words(format!(
                "a loop is written `repeat {count} {{`, the statements of its body, and `}}`; an array that the body \
                 assigns again is carried on"
            ))
        }
        "t" | "transpose" | "swapaxes" | "permute" | "moveaxis" if call.is_factor || call.has_layout => {
            Answer::call(first?).noted(", without a transposition: dims have names")
        }
        "t" | "transpose" | "swapaxes" | "permute" | "moveaxis" => {
            let words = "the brackets of the result state the order of its dims: `C[J, I]_? = A`";
            match call.dims().filter(|dims| dims.len() == 2) {
                Some(dims) => Answer::result(format!("[{}, {}]_?", dims[1], dims[0]), first?)
                    .noted(", with the dims in the order of the result")
                    .or(words),
                None => Answer::words(words),
            }
        }
        "rearrange" | "reduce"
            if call.path.ends_with("einops") || arrays.get(1).is_some_and(|text| text.contains("->")) =>
        {
            rearranged(call)?
        }
        "reshape" | "view" | "flatten" | "ravel" => {
            let words = "dims are split and merged by declaring a composite: `dims {N = B*S}`";
            let sizes = arrays.get(1..).unwrap_or_default();
            match call.dims().filter(|dims| dims.len() > 1) {
                Some(dims) if sizes.len() < 2 => merged(call, &dims, first?).or(words),
                Some(dims) => split(call, &dims, sizes),
                None => Answer::words(SPLIT),
            }
        }
        "astype" | "to" | "type" => match arrays.get(1).and_then(|text| dtype_of(text)) {
            Some(dtype) => Answer::call(format!("{dtype}({})", first?)),
            None if plain == "to" => Answer::call(first?).noted(": programs have no devices but the mesh"),
            None => return None,
        },
        "sum" | "mean" | "max" | "min" | "softmax" | "logsoftmax" | "logsumexp" | "var" | "prod"
            if is_elsewhere || !call.keywords.is_empty() || arrays.get(1).is_some_and(|text| is_integer(text)) =>
        {
            reduced(call, plain)?
        }
        "embedding" => match arrays.get(1).and_then(|table| call.known.dims(table)).as_deref() {
            // PyTorch's embedding has the table second.
            Some([rows, ..]) => Answer::call(format!("take_{rows}({}, {})", arrays.get(1)?, first?)).or(LOOKUP),
            _ => Answer::words(LOOKUP),
        },
        "take" | "gather" | "indexselect" | "takealongaxis" => {
            let place = call.keyword(&["axis", "dim"]).or_else(|| arrays.get(2).copied());
            match (call.counted(place), arrays.get(1)) {
                (Some(dim), Some(ids)) => Answer::call(format!("take_{dim}({}, {ids})", first?)).or(LOOKUP),
                _ => Answer::words(LOOKUP),
            }
        }
        "roll" => {
            let words = "`roll_S(x, 1)` moves the elements along `S`, the last one to the start";
            let dim = call.counted(call.keyword(&["axis", "dim", "dims"]).or_else(|| arrays.get(2).copied()));
            match dim {
                Some(dim) => Answer::call(format!("roll_{dim}({}, {})", first?, arrays.get(1)?)).or(words),
                None => Answer::words(words),
            }
        }
        "flip" | "rev" | "reverse" if is_elsewhere => along(call, "reverse", 1)?,
        "argmax" | "argmin" | "cumsum" => along(call, plain, 1)?,
        "onehot" => {
            let named = arrays.get(1).copied().filter(|dim| call.known.sizes().iter().any(|(name, _)| name == dim));
            let classes = named.or_else(|| arrays.get(1).and_then(|size| call.known.dim_of(size)));
            let dim = classes.unwrap_or("D");
            Answer::call(format!("bf16(onehot_{dim}({}))", first?))
                .noted(format!(", where `{dim}` is the new dim"))
                .or("a one-hot array is `bf16(onehot_V(ids))`, with the new dim for `V`")
        }
        "clip" | "clamp" => {
            let bound = |place: usize, names: &[&str]| call.keyword(names).or_else(|| arrays.get(place).copied());
            let (least, most) = (bound(1, &["min", "a_min"]), bound(2, &["max", "a_max"]));
            match (least, most) {
                (Some(least), Some(most)) => Answer::call(format!("min(max({}, {least}), {most})", first?)),
                (Some(least), None) => Answer::call(format!("max({}, {least})", first?)),
                (None, Some(most)) => Answer::call(format!("min({}, {most})", first?)),
                (None, None) => return None,
            }
        }
        "concatenate" | "concat" | "cat" => joined(call).or(JOINED),
        "dynamicupdateslice" | "dynamicupdateindexindim" | "indexcopy" => Answer::words(
            "arrays are not changed in place: `where(iota_T == pos, new, cache)` replaces the element at `pos` along `T`",
        ),
        "rope" | "rotaryembedding" | "applyrotaryposemb" | "applyrotaryemb" => Answer::words(
            "rotary embeddings are products with `sin` and `cos`: split the dim into `R: 2` and its half, and write \
             `slice` and `concat` or a `def rope(x[B, S, N, R, H]) {`; the cookbook has it",
        ),
        "linear" | "dense" => linear(call),
        "unsqueeze" | "expanddims" | "expand" | "expandas" | "broadcastto" => {
            Answer::call(first?).noted(": broadcasting aligns dims by name")
        }
        "norm" => match call.dims() {
            Some(dims) if !call.keywords.iter().any(|(key, _)| *key == "ord") && arrays.len() == 1 => {
                let dim = call.keyword(&["axis", "dim"]).map(|place| call.counted(Some(place)));
                let run = match dim {
                    Some(dim) => dim?,
                    None if dims.len() == 1 => dims[0].clone(),
                    None => format!("{{{}}}", dims.join(",")),
                };
                Answer::call(format!("sqrt(sum_{run}({} ** 2))", operand(first?)))
            }
            _ => Answer::words("the norm of a vector is `sqrt(sum_D(x ** 2))`"),
        },
        "crossentropy" | "crossentropyloss" | "softmaxcrossentropywithintegerlabels" => {
            let words =
                "the loss is `logsumexp_V(x) - sum_V(where(labels == iota_V, x, 0))`, with the dim of the classes";
            match (call.dims().and_then(|dims| dims.last().cloned()), arrays.get(1)) {
                (Some(dim), Some(labels)) => {
                    let x = first?;
                    let picked = format!("sum_{dim}(where({labels} == iota_{dim}, {x}, 0))");
                    Answer::call(format!("logsumexp_{dim}({x}) - {picked}")).or(words)
                }
                _ => Answer::words(words),
            }
        }
        "jit" | "pjit" | "vmap" | "shardmap" | "checkpoint" | "remat" | "pmap" => transformed(call),
        "grad" | "valueandgrad" | "vjp" | "jvp" => Answer::words(
            "gradients are written as products: for `y = x * W`, `dW = x * dy` and `dx = dy * W`; \
             `shardc import` converts gradients of JAX",
        )
        .titled(format!("unsupported transformation `{}`", call.dotted()))
        .labelled("programs have no derivatives"),
        "print" | "display" | "output" => shown(call)?,
        "stopgradient" if !is_elsewhere => Answer::call(first?).noted(": programs have no derivatives"),
        same if is_elsewhere && IDENTITIES.contains(&same) => {
            Answer::call(first?).noted(format!(": programs have no `{}`", call.name))
        }
        "dropout" => Answer::call(first?).noted(": programs have no `dropout`"),
        same if is_elsewhere && SAME.contains(&same) && (call.is_module() || arrays.len() == 1) => {
            Answer::call(format!("{same}({})", arrays.join(", ")))
        }
        _ => return None,
    };
    Some(answer)
}

/// `bf16(B_X, D)`: an array with its dims in parentheses.
pub(super) fn declared(call: &Call<'_>) -> Option<Answer> {
    let dtype: DType = call.name.parse().ok().filter(|_| call.path.is_empty() && call.keywords.is_empty())?;
    let sizes = call.known.sizes();
    let is_dim = |item: &&str| {
        sizes.iter().any(|(dim, _)| item == dim || item.strip_prefix(dim).is_some_and(|axes| axes.starts_with('_')))
    };
    let are_dims = !call.positional.is_empty() && call.positional.iter().all(is_dim);
    let title = "dims are written in square brackets, behind the name of the array";
    are_dims.then(|| {
        let line = format!("{}: {dtype}[{}]", call.target(), call.positional.join(", "));
        Answer::line(line).or("an input is declared as `A: bf16[I_X, J]`").titled(title).labelled("not a function")
    })
}

/// Words for functions whose line does not check.
pub(super) const DIMS: &str =
    "functions have no module, and dims have names: `sum_J(A)`, `softmax_J(A)`, `C[I, K] = A * B`, `relu(A)`";

/// A function of a module, or a method, that nothing else explains.
pub(super) fn unknown(call: &Call<'_>) -> Answer {
    let plain = call.plain();
    let close = SAME.iter().map(|name| (osa_distance(name, &plain), *name)).min();
    let near = close.filter(|(edits, name)| *edits <= name.len() / 3).map(|(_, name)| name);
    let what = if call.is_method() { "arrays have no methods" } else { "functions have no module" };
    let words = format!("{what}; `shardc explain unknown-function` lists the functions");
    let answer = match near {
        Some(near) => Answer::call(format!("{near}({})", call.arrays().join(", "))).or(did_you_mean(near)),
        None => Answer::words(words),
    };
    answer.titled(format!("unknown function `{}`", call.dotted())).labelled(what)
}

/// `print(y)`.
pub(super) fn shown(call: &Call<'_>) -> Option<Answer> {
    let are_names = !call.positional.is_empty() && call.positional.iter().all(|name| is_name(name));
    let is_shown = matches!(call.name, "print" | "display" | "output") && call.path.is_empty();
    let words = "programs do not print; declare a result with `output C`";
    let label = if call.name == "output" { "`output` is a statement" } else { "programs do not print" };
    let line = |names: &[&str]| Answer::line(format!("output {}", names.join(", ")));
    is_shown.then(|| {
        let answer = if are_names { line(&call.positional) } else { Answer::default() };
        answer.or(words).labelled(label)
    })
}

/// `jnp.einsum('bd,df->bf', x, W)`.
fn einsum(call: &Call<'_>) -> Option<Answer> {
    let arrays = call.arrays();
    let spec = arrays.first()?.trim_matches(['\'', '"']);
    let factors: Vec<&str> = arrays.get(1..)?.iter().flat_map(|list| pieces(list.trim_matches(['[', ']']))).collect();
    if factors.is_empty() {
        return None;
    }
    let product = factors.iter().map(|factor| operand(factor)).collect::<Vec<_>>().join(" * ");
    if call.has_layout {
        return Some(Answer::call(product));
    }
    let (from, result) = spec.split_once("->").unwrap_or((spec, ""));
    // Letters stand for the dims of the operands.
    let mut named: Vec<(char, String)> = Vec::new();
    let mut is_known = true;
    for (letters, factor) in from.split(',').zip(&factors) {
        let dims = call.known.dims(factor).filter(|dims| dims.len() == letters.trim().chars().count());
        is_known &= dims.is_some();
        named.extend(letters.trim().chars().zip(dims.unwrap_or_default()));
    }
    let same = |one: &(char, String)| named.iter().all(|other| (one.0 == other.0) == (one.1 == other.1));
    if is_known && named.iter().all(same) {
        let dim = |letter: char| named.iter().find(|(known, _)| *known == letter).map(|(_, dim)| dim.clone());
        let dims: Option<Vec<String>> = result.trim().chars().map(dim).collect();
        return Some(match dims.filter(|dims| !dims.is_empty()) {
            Some(dims) => Answer::result(format!("[{}]_?", dims.join(", ")), product),
            None => Answer::call(product),
        });
    }
    let is_plain = result.trim().chars().all(|c| c.is_ascii_alphabetic()) && !result.trim().is_empty();
    let dims: Vec<String> = result.trim().to_uppercase().chars().map(String::from).collect();
    let words = "a product names the dims of its result: `C[I, K] = A * B`, with the dims of the declarations";
    Some(if is_plain {
        Answer::result(format!("[{}]_?", dims.join(", ")), product).or(words)
    } else {
        Answer::words(words)
    })
}

/// `jnp.zeros((B, D))`, `torch.randn(B, D)`, `jnp.ones_like(x)`.
fn filled(call: &Call<'_>, plain: &str) -> Option<Answer> {
    let arrays = call.arrays();
    let like = plain.strip_suffix("like");
    let is_list = |text: &&&str| text.starts_with(['(', '[']);
    let known = call.known;
    let dims: Vec<String> = match (like, arrays.iter().find(is_list)) {
        (Some(_), _) => call.dims()?,
        (None, Some(list)) => pieces(&list[1..list.len() - 1]).into_iter().map(str::to_owned).collect(),
        // PyTorch has the sizes one by one.
        (None, None) => {
            let is_size = |text: &&&str| is_integer(text) || known.sizes().iter().any(|(name, _)| *name == **text);
            arrays.iter().take_while(is_size).map(|size| (*size).to_owned()).collect()
        }
    };
    if dims.is_empty() || dims.iter().any(|dim| !is_integer(dim) && !is_name(dim)) {
        return Some(Answer::words(
            "an array of one number is `A: f32[I, J] = 0`; an array without a value is an input",
        ));
    }
    let number = match like.unwrap_or(plain) {
        "zeros" => Some("0"),
        "ones" => Some("1"),
        "full" => arrays.get(1).copied().filter(|number| number.parse::<f64>().is_ok()),
        _ => None,
    };
    let alike = || like.and_then(|_| known.dtype(arrays.first()?)).and_then(dtype_of);
    let dtype = call.keyword(&["dtype"]).and_then(dtype_of).or_else(alike).unwrap_or(DType::F32);
    let spec = call.partition().unwrap_or_default();
    let target = call.target();
    let value = number.map_or_else(String::new, |number| format!(" = {number}"));
    let note = if number.is_none() { ", an input" } else { "" };
    // Sizes stand for the dims that have them, or for new ones.
    let mut new = Vec::new();
    let named: Vec<String> = dims
        .iter()
        .map(|dim| match known.dim_of(dim) {
            _ if !is_integer(dim) => dim.clone(),
            Some(name) => name.to_owned(),
            None => {
                let taken = known.sizes();
                let free =
                    ["M", "N", "K", "L"].into_iter().filter(|name| !taken.iter().any(|(other, _)| other == name));
                let name = free.clone().nth(new.len()).unwrap_or("M").to_owned();
                new.push(format!("{name}: {dim}"));
                name
            }
        })
        .collect();
    let line = format!("{target}: {dtype}{}{value}", brackets(&named, &spec));
    let words =
        format!("dims have names: declare them with `dims {{..}}`, and the array as `{target}: {dtype}[I, J]{value}`");
    let answer = if new.is_empty() {
        Answer::line(line).noted(note)
    } else {
        let declared = format!("dims {{{}}}", new.join(", "));
        Answer::line(format!("{declared}\n{line}")).said(format!("`{declared}` and `{line}`: dims have names"))
    };
    let kind = match number {
        Some(_) => "an array of one number",
        None => "an array without values is an input",
    };
    Some(answer.or(words).labelled(kind))
}

/// `jnp.arange(64)`: the positions along a dim.
fn positions(call: &Call<'_>) -> Option<Answer> {
    let words = "`iota_D` has the positions along a declared dim `D`";
    let size = call.positional.iter().copied().find(|text| !text.contains('.'));
    let dim = match size {
        Some(size) if is_integer(size) => call.known.dim_of(size),
        Some(size) if is_name(size) => Some(size),
        Some(_) | None => None,
    };
    let is_declared = dim.is_some_and(|dim| call.known.sizes().iter().any(|(name, _)| *name == dim));
    let own = dim.filter(|_| is_declared).map(|dim| format!("positions along `{dim}` are `iota_{dim}`"));
    let words = own.unwrap_or_else(|| words.to_owned());
    Some(match dim {
        Some(dim) => {
            let start = Answer::call(format!("iota_{dim}"));
            // Positions are integers.
            let floats = [DType::Bf16, DType::F32, DType::F16, DType::F64];
            floats.iter().fold(start, |answer, dtype| answer.or_call(format!("{dtype}(iota_{dim})"))).or(words)
        }
        None => Answer::words(words),
    })
}

/// `einops.rearrange(x, 'b d -> d b')`: letters stand for the dims in their order.
fn rearranged(call: &Call<'_>) -> Option<Answer> {
    let words =
        "the brackets of the result state its dims, `C[J, I]_? = A`; a merged dim is a composite, `dims {N = B*S}`";
    let pattern = call.positional.iter().find(|text| text.contains("->"))?.trim_matches(['\'', '"']);
    let (from, to) = pattern.split_once("->")?;
    let array = *call.arrays().first()?;
    let letters: Vec<&str> = from.split_whitespace().collect();
    let label = "dims have names";
    let Some(dims) = call.dims().filter(|dims| dims.len() == letters.len()) else {
        return Some(Answer::words(words).labelled(label));
    };
    let dim = |letter: &str| letters.iter().position(|other| *other == letter).map(|place| dims[place].clone());
    let result: Option<Vec<String>> = to.split_whitespace().map(dim).collect();
    let Some(result) = result else { return Some(Answer::words(words).labelled(label)) };
    let lost: Vec<String> = dims.iter().filter(|dim| !result.contains(dim)).cloned().collect();
    let answer = match lost.as_slice() {
        [] => Answer::result(format!("[{}]_?", result.join(", ")), array),
        lost => {
            let how = call.positional.iter().find_map(|text| {
                let text = text.trim_matches(['\'', '"']);
                ["sum", "mean", "max", "min"].into_iter().find(|name| *name == text)
            });
            let run = if let [only] = lost { only.clone() } else { format!("{{{}}}", lost.join(",")) };
            Answer::call(format!("{}_{run}({array})", how?))
        }
    };
    Some(answer.or(words).labelled(label))
}

/// Help for a dim that is split.
const SPLIT: &str = "a dim is split by declaring it as a composite, `dims {H: 8, K: 16, D = H*K}`, and listing its parts: \
                     `C[B, H, K]_? = A`";

/// `x.reshape(B, 16, 64)`: the dim that is split becomes a composite.
fn split(call: &Call<'_>, dims: &[String], sizes: &[&str]) -> Answer {
    let known = call.known;
    let sizes_of = known.sizes();
    let size = |dim: &str| sizes_of.iter().find(|(name, _)| *name == dim)?.1.parse::<u64>().ok();
    let number = |text: &str| text.parse().ok().or_else(|| size(text));
    let is_kept = |dim: &str, text: &str| dim == text || number(text).is_some_and(|number| Some(number) == size(dim));
    let before = dims.iter().zip(sizes).take_while(|(dim, text)| is_kept(dim, text)).count();
    let (ends, last) = (dims[before..].iter().rev(), sizes[before..].iter().rev());
    let behind = ends.zip(last).take_while(|(dim, text)| is_kept(dim, text)).count();
    let [dim] = &dims[before..dims.len().max(before + behind) - behind] else { return Answer::words(SPLIT) };
    let parts = &sizes[before..sizes.len().max(before + behind) - behind];
    let product = parts.iter().try_fold(1u64, |product, part| product.checked_mul(number(part)?));
    if parts.len() < 2 || size(dim).is_none() || product != size(dim) {
        return Answer::words(SPLIT);
    }
    let taken = known.sizes();
    let mut free =
        ["H", "K", "M", "N", "P", "Q"].into_iter().filter(|name| !taken.iter().any(|(other, _)| other == name));
    let named: Vec<String> =
        parts.iter().map(|part| if is_integer(part) { free.next().unwrap_or("H") } else { part }.to_owned()).collect();
    let new =
        named.iter().zip(parts).filter(|(name, part)| name != part).map(|(name, part)| format!("{name}: {part}, "));
    let result = [&dims[..before], &named, &dims[before + 1..]].concat().join(", ");
    let (new, composite) = (new.collect::<String>(), named.join("*"));
    let (target, array) = (call.target(), call.arrays().first().copied().unwrap_or("A"));
    Answer::words(format!(
        "split `{dim}` by name: declare `{new}{dim} = {composite}` in `dims` in place of its size, and the parts in the \
         result, `{target}[{result}]_? = {array}`"
    ))
}

/// `x.reshape(B * D)`: a composite dim.
fn merged(call: &Call<'_>, dims: &[String], array: &str) -> Answer {
    let taken = call.known.sizes();
    let name = ["N", "M", "K"].into_iter().find(|name| !taken.iter().any(|(other, _)| other == name)).unwrap_or("N");
    let declared = format!("dims {{{name} = {}}}", dims.join("*"));
    let line = format!("{}[{name}]_? = {array}", call.target());
    Answer::line(format!("{declared}\n{line}")).said(format!("`{declared}` and `{line}`: merged dims are declared"))
}

/// `torch.cat([a, b], dim=1)`: the joined dim needs a name.
fn joined(call: &Call<'_>) -> Answer {
    let list = call.positional.first().copied().filter(|list| list.starts_with(['[', '('])).unwrap_or_default();
    let arrays = if list.is_empty() { Vec::new() } else { pieces(&list[1..list.len() - 1]) };
    let [first, second] = arrays.as_slice() else { return Answer::default() };
    let place = call.keyword(&["axis", "dim"]).or_else(|| call.positional.get(1).copied()).unwrap_or("0");
    let dim = |array: &str| {
        let dims = call.known.dims(array)?;
        let place = place.parse::<isize>().ok()?;
        let place = if place < 0 { place.checked_add_unsigned(dims.len())? } else { place };
        dims.get(usize::try_from(place).ok()?).cloned()
    };
    let (Some(one), Some(other)) = (dim(first), dim(second)) else { return Answer::default() };
    let taken = call.known.sizes();
    let free = ["T", "N", "M", "K"].into_iter().find(|name| !taken.iter().any(|(known, _)| known == name));
    let name = free.unwrap_or("T2");
    let declared = format!("dims {{{name}: {one}+{other}}}");
    let from = if one == other { one } else { format!("{one},{other}") };
    let line = format!("{} = concat_{{{from}->{name}}}({first}, {second})", call.target());
    Answer::line(format!("{declared}\n{line}")).said(format!("`{declared}` and `{line}`: the joined dim needs a name"))
}

/// `jnp.sum(x, axis=1)`.
fn reduced(call: &Call<'_>, plain: &str) -> Option<Answer> {
    let name = if plain == "logsoftmax" { "log_softmax" } else { plain };
    let arrays = call.arrays();
    let first = *arrays.first()?;
    let words = format!("dims have names: `{name}_J(A)`");
    let place = call.keyword(&["axis", "dim"]).or_else(|| arrays.get(1).copied());
    let keeps = call.keyword(&["keepdims", "keepdim"]).is_some_and(|keeps| keeps == "True");
    Some(match (call.counted(place), call.dims()) {
        (Some(dim), _) if keeps => Answer::call(format!("{name}_{dim}({first})"))
            .noted(": dims are aligned by name, so `keepdims` is not needed")
            .or(words),
        (Some(dim), _) => Answer::call(format!("{name}_{dim}({first})")).or(words),
        (None, Some(dims)) if place.is_none() && plain != "softmax" && plain != "logsoftmax" => {
            let run = if let [only] = dims.as_slice() { only.clone() } else { format!("{{{}}}", dims.join(",")) };
            Answer::call(format!("{name}_{run}({first})")).or(words)
        }
        (None, Some(dims)) if place.is_none() => Answer::call(format!("{name}_{}({first})", dims.last()?)).or(words),
        _ => Answer::words(words),
    })
}

/// A function along one dim, which an argument counts.
fn along(call: &Call<'_>, name: &str, place: usize) -> Option<Answer> {
    let arrays = call.arrays();
    let first = *arrays.first()?;
    let counted = call.keyword(&["axis", "dim", "dims"]).or_else(|| arrays.get(place).copied());
    let answer = call.counted(counted).map(|dim| Answer::call(format!("{name}_{dim}({first})")));
    Some(answer.unwrap_or_default().or(format!("dims have names: `{name}_S({first})`, with the dim for `S`")))
}

/// `nn.Linear(D, F)`: a product with a weight.
fn linear(call: &Call<'_>) -> Answer {
    let weight = call.target();
    let sizes = call.known.sizes();
    let dim = |text: &&str| sizes.iter().map(|(name, _)| *name).find(|name| name == text).or(call.known.dim_of(text));
    let dims: Vec<&str> = call.positional.iter().filter_map(dim).collect();
    let answer = match dims.as_slice() {
        [from, to] if call.behind.is_none() => Answer::line(format!("{weight}: bf16[{from}, {to}]"))
            .noted(format!(", and `x * {weight}` for `{weight}(x)`: a linear layer is a product with a weight")),
        _ => Answer::default(),
    };
    answer
        .or("a linear layer is a product with a weight: declare `W: bf16[D, F]`, and multiply, `y = x * W`")
        .labelled("programs have no modules")
}

/// `jax.vmap(f)(x)`: functions apply to arrays of any dims and layouts.
fn transformed(call: &Call<'_>) -> Answer {
    let function = call.positional.first().copied().filter(|name| is_name(name));
    let answer = match (function, call.behind) {
        (Some(function), Some(arguments)) => Answer::call(format!("{function}({arguments})")),
        _ => Answer::default(),
    };
    answer
        .or("functions apply to arrays of any dims and layouts: define `def f(x) {`, `return relu(x)` and `}`, and call `f(x)`")
        .titled(format!("unsupported transformation `{}`", call.dotted()))
        .labelled("functions apply to arrays of any dims and layouts")
}
