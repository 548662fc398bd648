//! Indices and ranges in brackets, which hold a layout here: `x[0]`, `x[:, 2:6]`, `x[None, :]`.

use super::call::{closing, is_integer, is_name};
use super::{Foreign, Offer};
use crate::dtype::DType;
use crate::syntax::expected::INDEXED;
use crate::syntax::known::{Known, pieces};

pub(super) fn by_index(text: &str, known: Known<'_>) -> Option<Foreign> {
    text.match_indices('[').find_map(|(open, _)| {
        let head = &text[..open];
        let start = head.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        let (name, close) = (&head[start..], open + text[open..].find(']')?);
        let items = pieces(&text[open + 1..close]);
        let is_result = !text.contains('=') || text.find('=').is_some_and(|equals| open < equals);
        let stands_alone = is_result && !text[close..].contains(['=', '(']) && start > 0;
        if name.is_empty()
            || name.parse::<DType>().is_ok()
            || is_result && !stands_alone
            || !are_indices(name, &items, known)
        {
            return None;
        }
        let line = |value: &str| format!("{}{value}{}", &text[..start], &text[close + 1..]);
        let offers = if items.contains(&"None") {
            vec![Offer::line(line(name)).with(": broadcasting aligns dims by name")]
        } else {
            known
                .dims(name)
                .and_then(|dims| picked(name, &dims, &items))
                .map(|(value, dims)| offer(&line(&value), &dims))
                .into_iter()
                .collect()
        };
        Some(Foreign {
            at: open..close + 1,
            title: "brackets do not index".to_owned(),
            label: "brackets hold a layout".to_owned(),
            offers,
            words: INDEXED.to_owned(),
        })
    })
}

/// `x.at[ids].add(u)`: rows are added by a product with a one-hot array, and one row is replaced by `where`.
pub(super) fn by_update(text: &str, known: Known<'_>) -> Option<Foreign> {
    let at = text.find(".at[")?;
    let start = text[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    let (name, close) = (&text[start..at], at + text[at..].find(']')?);
    let (index, behind) = (text[at + 4..close].trim(), text[close + 1..].strip_prefix('.')?);
    let (operation, _) = behind.split_once('(')?;
    let open = close + 2 + operation.len();
    let end = closing(text, open)?;
    let value = text[open + 1..end].trim();
    let dims = known.dims(name).unwrap_or_default();
    let target = text.split('=').next().unwrap_or_default().trim();
    let dtype = known.dtype(name).unwrap_or("f32");
    let is_whole = text[..start].trim_end().ends_with('=') && text[end + 1..].trim().is_empty() && is_name(target);
    let line = dims.first().filter(|_| is_whole).and_then(|rows| match operation {
        "add" if is_name(index) => {
            Some(format!("{target}[{}]_? = {name} + {dtype}(onehot_{rows}({index})) * {value}", dims.join(", ")))
        }
        "set" if is_integer(index) || known.dims(index).is_some_and(|dims| dims.is_empty()) => {
            Some(format!("{target} = where(iota_{rows} == {index}, {value}, {name})"))
        }
        _ => None,
    });
    let words = match operation {
        "add" => "rows are added by a product with a one-hot array: `C[V, D]_? = A + f32(onehot_V(ids)) * u`",
        _ => "arrays are not changed in place: `where(iota_V == 3, u, A)` replaces a row",
    };
    Some(Foreign {
        at: at..at + 3,
        title: "arrays are not updated in place".to_owned(),
        label: "not a method".to_owned(),
        offers: line.map(Offer::line).into_iter().collect(),
        words: words.to_owned(),
    })
}

/// Whether some item is an index, a range or a new dim, and no dim of the array.
fn are_indices(name: &str, items: &[&str], known: Known<'_>) -> bool {
    let declared = known.items(name);
    let is_declared = |item: &&str| declared.as_ref().is_some_and(|items| items.contains(item));
    let is_place = |item: &&str| {
        let is_range = item.contains(':') || *item == "None" || item.starts_with('-') && is_integer(item);
        is_range || declared.is_some() && is_integer(item) && !is_declared(item)
    };
    items.iter().any(is_place)
}

/// The functions for indices and ranges in brackets, `take_B(x, 0)` for `x[0, :]`, and the dims that they need.
fn picked(name: &str, dims: &[String], items: &[&str]) -> Option<(String, Vec<String>)> {
    let (mut call, mut declared) = (name.to_owned(), Vec::new());
    for (place, item) in items.iter().enumerate().filter(|(_, item)| **item != ":") {
        let dim = dims.get(place)?;
        if item.parse::<u64>().is_ok() {
            call = format!("take_{dim}({call}, {item})");
            continue;
        }
        if let Some(back) = item.strip_prefix('-').filter(|back| back.parse::<u64>().is_ok()) {
            call = format!("take_{dim}({call}, {dim}-{back})");
            continue;
        }
        let (start, end) = item.split_once(':')?;
        let start: u64 = if start.is_empty() { 0 } else { start.trim().parse().ok()? };
        let length = end.trim().parse::<u64>().ok()?.checked_sub(start)?;
        let mut free = ["T", "T2", "T3", "T4"].into_iter().filter(|part| !dims.iter().any(|dim| dim == part));
        let part = free.nth(declared.len())?;
        call = format!("slice_{{{dim}->{part}}}({call}, {start})");
        declared.push(format!("{part}: {length}"));
    }
    (call != name).then_some((call, declared))
}

/// The line, with the dims declared before it.
fn offer(line: &str, dims: &[String]) -> Offer {
    if dims.is_empty() {
        return Offer::line(line.to_owned());
    }
    let declared = format!("dims {{{}}}", dims.join(", "));
    let said = format!("`{line}`, with `{declared}`");
    Offer { said: Some(said), ..Offer::line(format!("{declared}\n{line}")) }
}
