//! Collectives and layouts of other systems.

use super::answer::Answer;
use super::call::{Call, axes, brackets, is_integer, is_loose, is_name, placed};
use crate::diag::did_you_mean;
use crate::syntax::CollectiveName;
use strsim::osa_distance;

/// Words for a collective without a line.
const COLLECTIVES: &str = "collectives name their axes after `_`: `AllReduce_X(A)`, `AllGather_X(A)`, `ReduceScatter_{X,I}(A)`, `AllToAll_{X,J}(A)`";

/// Arguments that are no arrays.
const NO_ARRAYS: [&str; 11] =
    ["None", "axis", "comm", "count", "datatype", "group", "mesh", "n", "op", "root", "stream"];

pub(super) fn answer(call: &Call<'_>) -> Option<Answer> {
    if let Some(answer) = several(call) {
        return Some(answer);
    }
    let plain = call.plain();
    let found = Collective::of(call);
    Some(match plain.as_str() {
        "psum" | "allreduce" | "iallreduce" | "allreducetensor" => found.reduce()?,
        "pmean" => found.mean()?,
        "pmax" | "pmin" => found.extreme(if plain == "pmin" { "MIN" } else { "MAX" })?,
        "psumscatter" | "reducescatter" | "reducescattertensor" | "reducescatterblock" => found.scatter()?,
        "allgather" | "allgatherintotensor" | "allgathertensor" | "allgatherv" => {
            let over = found.over(|name| call.known.sharding(name));
            found.whole(format!("AllGather_{over}({})", found.operand?)).or(COLLECTIVES)
        }
        "alltoall" | "alltoallsingle" => {
            let operand = found.operand?;
            let over = found.run(|name| call.known.sharding(name));
            let stated = call.counted(call.keyword(&["split_axis", "split_dimension"]).or_else(|| found.place(1)));
            // The axes move from the dim that has them to one that has none.
            let dims = stated.into_iter().chain(call.known.whole_dim(operand));
            let calls = dims.map(|dim| format!("AllToAll_{{{over},{dim}}}({operand})"));
            calls.fold(Answer::default(), |answer, text| found.otherwise(answer, text)).or(COLLECTIVES)
        }
        "broadcast" | "bcast" if !call.path.is_empty() || call.name != plain => Answer::words(
            "arrays that no axis shards are on all devices; `Broadcast_X(A)` sends an array that one device holds, declared with \
             `{ROOT_X}` for the first device along X or `{ROOT_X=2}` for another one",
        ),
        "barrier" => Answer::line("").or("programs have no barriers; remove the line"),
        "ppermute" | "collectivepermute" | "sendrecv" => permutation(call),
        "axisindex" => Answer::words("programs have no device index; layouts define what each device holds"),
        "withshardingconstraint" | "deviceput" | "reshard" => moved(call)?,
        "redistribute" | "distributetensor" => redistributed(call)?,
        _ => return None,
    })
}

/// `AllGather_X(x, y)`: a collective of this language with more than one argument. What does not exist comes first.
fn several(call: &Call<'_>) -> Option<Answer> {
    let (word, axes) = call.name.split_once('_')?;
    let is_ours = call.path.is_empty() && CollectiveName::ALL.iter().any(|kind| kind.word() == word);
    let [first, .., _] = call.positional.as_slice() else { return None };
    if !is_ours {
        return None;
    }
    let known = call.known;
    let mesh = known.axes();
    if !known.is_axes(axes) && !mesh.is_empty() {
        let near = mesh.iter().map(|(axis, _)| *axis).min_by_key(|axis| osa_distance(axis, axes));
        let near = near.filter(|near| osa_distance(near, axes) <= axes.len() / 3);
        let names = mesh.iter().map(|(axis, _)| format!("`{axis}`")).collect::<Vec<_>>().join(", ");
        let words = near.map_or_else(|| format!("the axes are {names}"), did_you_mean);
        let title = format!("`{axes}` is not an axis of the mesh");
        return Some(Answer::words(words).titled(title).labelled("not an axis"));
    }
    if let Some(missing) =
        call.positional.iter().find(|name| is_name(name) && !known.is_array(name) && !known.is_axes(name))
    {
        let words = "declare it, as in `A: bf16[I_X, J]`";
        return Some(Answer::words(words).titled(format!("unknown array `{missing}`")).labelled("not an array"));
    }
    let title = format!("`{}` takes one array, found {}", call.name, call.positional.len());
    let answer = Answer::call(format!("{}({first})", call.name)).or("write a collective for each array");
    Some(answer.titled(title).labelled("one array"))
}

/// A shift of blocks, of which the compiler makes its own.
fn permutation(call: &Call<'_>) -> Answer {
    let name = call.arrays().first().copied().unwrap_or("A");
    let dim = call.known.items(name).and_then(|items| items.into_iter().find_map(|item| item.split_once('_')));
    let shifted = dim.map(|(dim, _)| format!("shift_{dim}({name}, 1)"));
    let words =
        "programs have no messages between single devices: write the layouts, and the compiler schedules the ring";
    let answer = match shifted {
        Some(shifted) => Answer::call(shifted).noted(" to shift elements, which fills with zeros; for a ring, remove the line, write the layouts, and the compiler schedules the messages"),
        None => Answer::default(),
    };
    answer
        .or(format!("{words}; `shift_I(A, 1)` shifts the elements of a dim"))
        .titled(format!("`{}` has no counterpart: programs have no messages between single devices", call.name))
        .labelled("sends blocks to other devices")
}

/// `with_sharding_constraint(x, P('X', None))` is a move.
fn moved(call: &Call<'_>) -> Option<Answer> {
    let name = *call.arrays().first()?;
    let words = "write the layout of the result in its brackets: `C[I_X, J] = A`".replace("write", "a move states");
    let Some(axes) = call.partition() else { return Some(Answer::words(words)) };
    let dims = call.dims().filter(|dims| dims.len() >= axes.len());
    Some(match dims {
        Some(dims) => Answer::result(brackets(&dims, &axes), name).or(words),
        None => Answer::words(words),
    })
}

/// `redistribute(x, placements=[Shard(0)])` is a move, too.
fn redistributed(call: &Call<'_>) -> Option<Answer> {
    let name = *call.arrays().first()?;
    let spec = call.positional.last().copied().or(call.keywords.last().map(|(_, value)| *value));
    let layout = call.dims().zip(spec).and_then(|(dims, spec)| placed(&dims, spec, call.known));
    let words = "a move states the layout of the result in brackets: `C[I, J_X] = A`";
    Some(layout.map_or_else(Answer::default, |layout| Answer::result(layout, name)).or(words))
}

/// A collective of another system: what it combines, and where the result goes.
struct Collective<'a, 'b> {
    call: &'b Call<'a>,
    operand: Option<&'a str>,
    /// The array that a statement without `=` writes to.
    target: Option<&'a str>,
}

impl<'a, 'b> Collective<'a, 'b> {
    fn of(call: &'b Call<'a>) -> Collective<'a, 'b> {
        let arrays = call.arrays();
        let is_array = |name: &&str| {
            is_name(name)
                && !call.known.is_axes(name)
                && !NO_ARRAYS.contains(name)
                && !["nccl", "MPI_"].iter().any(|start| name.starts_with(start))
        };
        let names: Vec<&str> = arrays.iter().copied().filter(is_array).collect();
        // PyTorch's collectives name the output first, those of MPI and NCCL second.
        let output_first =
            matches!(call.plain().as_str(), "allgatherintotensor" | "reducescattertensor" | "alltoallsingle")
                || call.path.ends_with("dist") && call.plain() != "allreduce";
        let is_statement = call.is_whole && call.target.is_empty();
        match names.as_slice() {
            [output, operand, ..] if is_statement && output_first => {
                Collective { call, operand: Some(operand), target: Some(output) }
            }
            [operand, output, ..] if is_statement => Collective { call, operand: Some(operand), target: Some(output) },
            [operand] if is_statement => Collective { call, operand: Some(operand), target: Some(operand) },
            _ => Collective { call, operand: arrays.first().copied(), target: None },
        }
    }

    /// The collective, assigned to the array that the statement writes to.
    fn whole(&self, text: String) -> Answer {
        match self.target {
            Some(target) => Answer::line(format!("{target} = {text}")),
            None => Answer::call(text),
        }
    }

    /// As [`Collective::whole`], if the equivalents before it fail.
    fn otherwise(&self, answer: Answer, text: String) -> Answer {
        match self.target {
            Some(target) => answer.or_line(format!("{target} = {text}")),
            None => answer.or_call(text),
        }
    }

    /// The argument in this place, if it is a number.
    fn place(&self, place: usize) -> Option<&'a str> {
        self.call.positional.iter().filter(|text| is_integer(text)).nth(place.saturating_sub(1)).copied()
    }

    /// The axes that the call states, or those that fit the operand, as a subscript.
    fn over(&self, fitting: impl Fn(&'a str) -> Option<&'a str>) -> String {
        let call = self.call;
        let named = call.keyword(&["axis_name", "axis", "axis_names"]).filter(|text| !is_integer(text));
        let later = || {
            let mut later = call.positional.iter().skip(1).copied();
            later.find(|text| {
                let is_quoted = text.contains(['\'', '"']);
                let names = axes(text).unwrap_or_default();
                let names = names.trim_matches(['{', '}']);
                let are_axes = names.split(',').all(|name| call.known.is_axes(name));
                are_axes || is_quoted && call.known.axes().is_empty()
            })
        };
        let behind = call.subscripted().map(|(_, axes)| axes);
        let stated = behind.or(named).or_else(later).and_then(axes).filter(|axes| !axes.is_empty());
        stated.or_else(|| axes(fitting(self.operand?)?)).unwrap_or_else(|| call.known.axis(0))
    }

    /// The axes without braces.
    fn run(&self, fitting: impl Fn(&'a str) -> Option<&'a str>) -> String {
        self.over(fitting).trim_matches(['{', '}']).to_owned()
    }

    /// The axes of a sum.
    fn summed(&self) -> String {
        self.over(|name| Some(self.call.known.open(name)?.1))
    }

    /// The operator that an argument names, in capitals.
    fn operator(&self) -> Option<String> {
        let named = self.call.keyword(&["op", "reduce_op"]);
        let is_operator = |text: &&&str| {
            text.contains("ReduceOp.")
                || text.starts_with("MPI.")
                || text.starts_with("MPI_")
                || text.starts_with("nccl")
        };
        let operator = named.or_else(|| self.call.positional.iter().filter(is_operator).copied().next_back())?;
        let word = operator.rsplit('.').next()?;
        let word = word.trim_start_matches("MPI_").trim_start_matches("nccl").trim_matches(['\'', '"']);
        let word = word.to_uppercase();
        matches!(word.as_str(), "SUM" | "AVG" | "MEAN" | "MAX" | "MIN" | "PROD" | "PRODUCT" | "MUL").then_some(word)
    }

    fn reduce(&self) -> Option<Answer> {
        let (operand, over) = (self.operand?, self.summed());
        match self.operator().as_deref() {
            Some("AVG" | "MEAN") => return self.mean(),
            Some("PRODUCT" | "PROD" | "MUL") => return self.extreme("MUL"),
            Some("MIN") => return self.extreme("MIN"),
            Some("MAX") => return self.extreme("MAX"),
            _ => {}
        }
        let known = self.call.known;
        if is_loose(operand) {
            let answer = self.whole(operand.to_owned()).or(COLLECTIVES);
            return Some(answer.noted(", and the compiler inserts the AllReduce"));
        }
        let reduced = format!("AllReduce_{over}({operand})");
        // An array without an open sum is unsharded, or summed over the dim that the axis shards.
        let is_open = known.open(operand).is_some() || known.items(operand).is_none();
        let sharded = known.items(operand).into_iter().flatten().filter_map(|item| item.split_once('_'));
        let dim = sharded.filter(|(_, axes)| *axes == over).map(|(dim, _)| dim).next();
        Some(match dim.filter(|_| !is_open) {
            None => self.whole(reduced).or(COLLECTIVES),
            Some(dim) => {
                let gathered =
                    self.whole(format!("AllGather_{over}({operand})")).noted(" to unshard `".to_owned() + dim + "`");
                gathered
                    .also(format!("sum_{dim}({operand})"))
                    .noted(format!(" to sum over `{dim}`"))
                    .titled(format!("no sum of `{operand}` is open over `{over}`"))
                    .labelled(format!("`{over}` shards `{dim}`"))
            }
        })
    }

    /// The mean over an axis: that of an open mean, or a sum that is divided.
    fn mean(&self) -> Option<Answer> {
        let (operand, over) = (self.operand?, self.summed());
        let reduced = format!("AllReduce_{over}({operand})");
        if self.call.known.open(operand).is_some_and(|(operator, _)| operator == "MEAN") {
            return Some(self.whole(reduced).or(COLLECTIVES));
        }
        Some(match self.call.known.size(&over) {
            Some(size) => self.whole(format!("{reduced} / {size}")).or(COLLECTIVES),
            None => Answer::words(
                "a mean is an AllReduce of `{MEAN_X}`, or of a sum that is divided by the size of the axis",
            ),
        })
    }

    /// Another operator than the sum, which the operand declares.
    fn extreme(&self, word: &str) -> Option<Answer> {
        let (operand, over) = (self.operand?, self.summed());
        let declared = self.call.known.open(operand).is_some_and(|(operator, _)| operator == word);
        let dims = self.call.dims().map_or("..".to_owned(), |dims| dims.join(", "));
        let words = format!(
            "`AllReduce` combines as the braces of its operand say: declare `{operand}[{dims}]{{{word}_{over}}}`, and \
             close it with `AllReduce_{over}({operand})`"
        );
        Some(if declared { self.whole(format!("AllReduce_{over}({operand})")).or(words) } else { Answer::words(words) })
    }

    fn scatter(&self) -> Option<Answer> {
        let call = self.call;
        // Brackets of the result say where the sum goes.
        if call.has_layout && is_loose(self.operand?) {
            let answer = self.whole(self.operand?.to_owned()).or(COLLECTIVES);
            return Some(answer.noted(", and the compiler inserts the ReduceScatter"));
        }
        let operand = self.operand?.replace(" @ ", " *_LOCAL ").replace(" * ", " *_LOCAL ");
        let over = self.run(|name| Some(call.known.open(name)?.1));
        let place = call.keyword(&["scatter_dimension", "scatter_dim"]).unwrap_or("0");
        let dims = call.known.dims(self.operand?);
        let counted = place.parse::<usize>().ok().and_then(|place| dims?.get(place).cloned());
        Some(
            match counted {
                Some(dim) => {
                    let first = self.whole(format!("ReduceScatter_{{{over},{dim}}}({operand})"));
                    // The dim that is counted may be sharded.
                    let others =
                        call.known.dims(self.operand?).unwrap_or_default().into_iter().filter(|other| *other != dim);
                    others.fold(first, |answer, dim| {
                        self.otherwise(answer, format!("ReduceScatter_{{{over},{dim}}}({operand})"))
                    })
                }
                None => Answer::default(),
            }
            .or(COLLECTIVES),
        )
    }
}
