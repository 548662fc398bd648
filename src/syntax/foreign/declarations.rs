//! Declarations of arrays and meshes in the notation of other systems.

use super::call::{brackets, dtype_of, is_integer, is_name, partition, placed};
use super::{Foreign, Offer};
use crate::dtype::DType;
use crate::syntax::known::{Known, pieces};
use crate::syntax::split::is_blank;
use std::ops::Range;

/// Words for a declaration without a line.
const DECLARED: &str = "an input is declared with its dtype, and the axes after each dim: `A: bf16[I_X, J]`";

fn declaration(
    at: Range<usize>,
    title: impl Into<String>,
    label: &str,
    lines: impl IntoIterator<Item = String>,
) -> Foreign {
    let offers = lines.into_iter().map(Offer::line).collect();
    Foreign { at, title: title.into(), label: label.to_owned(), offers, words: DECLARED.to_owned() }
}

/// `x: bf16(B_X, D)`, `x: [B_X, D]`, `x: P('X', None)`, `x: bf16[B, D] P('X', None)`, `x: bf16[B, D] Shard(0)`,
/// `x: Float[Array, 'B D']`.
pub(super) fn by_declaration(text: &str, known: Known<'_>) -> Option<Foreign> {
    let (name, typed) = text.split_once(':')?;
    let name = name.trim_matches(is_blank);
    if !is_name(name) {
        return None;
    }
    let begins = text.len() - typed.trim_start_matches(is_blank).len();
    let typed = typed.trim_matches(is_blank);
    let word = &typed[..typed.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(typed.len())];
    let rest = typed[word.len()..].trim_start_matches(is_blank);
    if word.is_empty() && rest.starts_with('[') && rest.ends_with(']') && rest.matches(']').count() == 1 {
        let title = format!("the declaration of `{name}` has no dtype");
        return Some(declaration(begins..begins + 1, title, "expected a dtype", [format!("{name}: bf16{rest}")]));
    }
    if let Some(axes) = partition(typed).filter(|_| rest.starts_with('(')) {
        let sizes = known.sizes();
        let dims: Vec<&str> = sizes.iter().map(|(dim, _)| *dim).take(axes.len()).collect();
        let line = (dims.len() == axes.len()).then(|| {
            let note = format!(
                " for an array of {}",
                dims.iter().map(|dim| format!("`{dim}`")).collect::<Vec<_>>().join(" by ")
            );
            Offer::line(format!("{name}: bf16{}", brackets(&dims, &axes))).with(&note)
        });
        let title = format!("the declaration of `{name}` has neither dtype nor dims");
        let found = declaration(begins..text.len(), title, "a `PartitionSpec` has only axes", []);
        return Some(Foreign { offers: line.into_iter().collect(), ..found });
    }
    if let Some(inner) = rest.strip_prefix("[Array,").and_then(|rest| rest.strip_suffix(']')) {
        // jaxtyping.
        let dtype = dtype_of(&word.to_lowercase())?;
        let dims = inner.trim().trim_matches(['\'', '"']).split_whitespace().collect::<Vec<_>>().join(", ");
        let title = "dims are written in brackets, with commas between them";
        let at = begins..begins + typed.len();
        return Some(declaration(at, title, "a type of another system", [format!("{name}: {dtype}[{dims}]")]));
    }
    if let Some(inner) = rest.strip_prefix('(').filter(|_| word == "DTensor") {
        // `DTensor(bf16[I, J], placements=[Shard(0)])`
        let (dtype, rest) = inner.split_once('[')?;
        let (dims, spec) = rest.split_once(']')?;
        let layout = placed(&pieces(dims), spec, known)?;
        let line = format!("{name}: {}{layout}", dtype.trim().parse::<DType>().ok()?);
        let title = "axes are written after their dims";
        return Some(declaration(begins..begins + word.len(), title, "a layout of PyTorch", [line]));
    }
    word.parse::<DType>().ok()?;
    if let Some(dims) = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        && !dims.contains(['(', ')', '=', '\''])
    {
        let at = begins + word.len();
        let title = "dims are written in square brackets";
        return Some(declaration(at..at + 1, title, "expected `[`", [format!("{name}: {word}[{}]", dims.trim())]));
    }
    let (dims, spec) = rest.strip_prefix('[')?.split_once(']')?;
    let spec = spec.trim_matches(is_blank);
    let dims: Vec<&str> = dims.split(',').map(str::trim).collect();
    let at = text.rfind(spec).filter(|_| !spec.is_empty())?;
    let (layout, label) = match partition(spec.trim_start_matches('=').trim()) {
        Some(axes) => (brackets(&dims, &axes), "a layout of JAX"),
        None => (placed(&dims, spec, known)?, "placements of PyTorch"),
    };
    let title = "axes are written after their dims";
    let at = at..at + spec.len();
    Some(declaration(at, title, label, [format!("{name}: {word}{layout}")]))
}

/// `init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))`, `Mesh(devices, ('X', 'Y'))`.
pub(super) fn by_mesh(text: &str) -> Option<Foreign> {
    let words = ["init_device_mesh", "DeviceMesh", "Mesh("];
    let (start, word) = words.into_iter().find_map(|word| Some((text.find(word)?, word.trim_end_matches('('))))?;
    let before =
        text[..start].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')).trim_end();
    if !(before.is_empty() || before.ends_with('=')) {
        return None;
    }
    let lists = text[start..].split(['(', '[']).skip(2).filter_map(|rest| rest.split([')', ']']).next()).map(pieces);
    let lists: Vec<Vec<&str>> = lists.collect();
    let sizes = lists.iter().find(|list| !list.is_empty() && list.iter().all(|item| is_integer(item)));
    let quoted = |item: &&str| item.starts_with(['\'', '"']);
    let names = lists.iter().find(|list| !list.is_empty() && list.iter().all(quoted));
    let name = |place: usize| match names.and_then(|names| names.get(place)) {
        Some(name) => name.trim_matches(['\'', '"']).to_owned(),
        None => ["X", "Y", "Z"][place.min(2)].to_owned(),
    };
    let rank = sizes.map_or(names.map_or(0, Vec::len), Vec::len);
    let mesh = |size: &dyn Fn(usize) -> String| {
        let axes: Vec<String> = (0..rank).map(|place| format!("{}: {}", name(place), size(place))).collect();
        format!("mesh {{{}}}", axes.join(", "))
    };
    // The device type of PyTorch says which hardware, but not which generation.
    let hardware = if text.contains("cuda") { " on h100" } else { "" };
    let offers = sizes.map(|sizes| Offer::line(format!("{}{hardware}", mesh(&|place| sizes[place].to_owned()))));
    let words = match rank {
        0 => "a mesh is declared with the sizes of its axes: `mesh {X: 4, Y: 2} on tpu_v5p`".to_owned(),
        _ => format!(
            "declare the axes with their sizes and the hardware, as in `{} on tpu_v5p`",
            mesh(&|_| "4".to_owned())
        ),
    };
    Some(Foreign {
        at: start..start + word.len(),
        title: format!("unsupported mesh `{word}(..)`"),
        label: "sizes of axes are written in braces".to_owned(),
        offers: offers.into_iter().collect(),
        words,
    })
}
