//! Writes the steps of a plan as lines of a program.

use crate::collective::Collective;
use crate::diag::{Edit, Fix};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::layout::{Dim, Layout, Sharding};
use crate::mesh::{Axes, AxisId};
use crate::operator::Operator;
use crate::plan::{Plan, StepId, StepOp};
use crate::program::{Alias, Definition, Using, ValueId, Wanted};
use crate::span::Span;
use crate::supply::Supply;
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rewrites statements of a plan, in source order.
///
/// Each statement is either rewritten ([`Speller::lines`]) or kept ([`Speller::keep`]). The speller tracks the
/// meaning of each name in between, so that new lines refer to an array by a name that is valid there.
pub(super) struct Speller<'a> {
    plan: &'a Plan,
    /// The statement of each value.
    own: Vec<Span>,
    /// The statement that is rewritten for each value: its own, or the enclosing block inside a body. The iterations
    /// of such a block differ in their layouts, so it is unrolled.
    statements: Vec<Span>,
    /// The statement in whose lines each step appears: the first one that depends on it.
    places: HashMap<StepId, Span>,
    /// The step that produces each value in its own layout.
    finals: BTreeMap<ValueId, StepId>,
    /// The names given to a step, each with its value.
    names: HashMap<StepId, Vec<(ValueId, String)>>,
    /// The written layouts of named steps, if they differ from the plan's (in axes of size 1).
    written: HashMap<(String, StepId), Sharding>,
    /// The current meaning of each name.
    meaning: HashMap<String, StepId>,
    /// The body being written, and the meaning of names before it.
    block: Option<(usize, HashMap<String, StepId>)>,
    /// Lines to be written before that body.
    starts: Vec<String>,
    /// Arrays that are used only in the lines of this statement.
    temporary: BTreeSet<StepId>,
    /// All array names in use.
    taken: BTreeSet<String>,
    /// Whether each step has a name of its own, which the names of the program are given to in further lines.
    apart: bool,
}

impl<'a> Speller<'a> {
    pub(super) fn new(plan: &'a Plan, apart: bool) -> Speller<'a> {
        let values = &plan.program.values;
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|value| (values[*value].span.start, std::cmp::Reverse(values[*value].span.end)));
        // Spans are nested or disjoint; the outermost one is the statement.
        let named: Vec<Span> = plan.program.aliases.iter().map(|alias| alias.span).collect();
        let mut own = vec![Span::default(); values.len()];
        let mut outer = Span::default();
        for value in order {
            let inner = values[value].span;
            if inner.end > outer.end {
                outer = around(&named, inner);
            }
            own[value] = outer;
        }
        let statements = own.iter().map(|own| written_anew(plan, *own)).collect();
        let names = values.iter().filter_map(|value| value.name.as_ref());
        let taken = names.chain(plan.program.aliases.iter().map(|alias| &alias.name)).cloned().collect();
        let left = plan.ids().filter(|id| plan.step(*id).user == plan.step(*id).value);
        let mut finals: BTreeMap<ValueId, StepId> = left.map(|id| (plan.step(id).value, id)).collect();
        // The sum of an output with a free layout is closed by its own statement.
        for (value, id) in plan.program.outputs.iter().zip(&plan.outputs) {
            if plan.step(*id).value == *value && plan.program.value(*value).wanted.is_open() {
                finals.insert(*value, *id);
            }
        }
        let mut speller = Speller {
            plan,
            own,
            statements,
            places: HashMap::new(),
            finals,
            names: HashMap::new(),
            written: HashMap::new(),
            meaning: HashMap::new(),
            block: None,
            starts: Vec::new(),
            temporary: BTreeSet::new(),
            taken,
            apart,
        };
        speller.places = speller.first_users();
        speller
    }

    /// The first statement that depends on each step.
    fn first_users(&self) -> HashMap<StepId, Span> {
        let plan = self.plan;
        let mut places: HashMap<StepId, Span> =
            plan.ids().map(|id| (id, self.statements[plan.step(id).user.index()])).collect();
        for (value, id) in &self.finals {
            places.insert(*id, self.statements[value.index()]);
        }
        for value in plan.program.value_ids().filter(|id| self.is_alias(*id)) {
            if let Some(id) = self.resolved(value) {
                let place = places.entry(id).or_insert(self.statements[value.index()]);
                *place = (*place).min(self.statements[value.index()]);
            }
        }
        // What one body hands on to another one is moved before the other one.
        for id in plan.ids() {
            let carried = plan.program.carried().find(|carried| carried.first == plan.step(id).user);
            let is_last = |entry| plan.program.carried().any(|carried| carried.last == entry);
            if let Some(carried) = carried.filter(|carried| is_last(carried.entry))
                && let Some(repeat) =
                    plan.program.repeats.iter().find(|repeat| repeat.body.contains(&carried.first.index()))
            {
                let inside = |span: &&Span| repeat.span.start <= span.start && span.end <= repeat.span.end;
                let first = self.statements[repeat.body.clone()].iter().filter(inside).min();
                places.extend(first.map(|first| (id, *first)));
            }
        }
        for id in plan.ids().collect::<Vec<_>>().into_iter().rev() {
            if matches!(plan.step(id).op, StepOp::Collective(_)) {
                let users = plan.steps.neighbors(id).filter(|user| plan.is_done(*user)).map(|user| places[&user]);
                let first = users.chain([places[&id]]).min();
                places.extend(first.map(|first| (id, first)));
            }
        }
        places
    }

    /// Whether a statement produces its value without a step: by a move that is already done or affects only axes of
    /// size 1, or by renaming dims.
    fn is_alias(&self, value: ValueId) -> bool {
        let definition = &self.plan.program.value(value).definition;
        !self.finals.contains_key(&value)
            && matches!(
                definition,
                Definition::Move { written: true, .. } | Definition::Rename { .. } | Definition::Collective { .. }
            )
    }

    /// The step that produces a value in its own layout.
    fn resolved(&self, value: ValueId) -> Option<StepId> {
        let (plan, program) = (self.plan, &self.plan.program);
        if let Some(id) = self.finals.get(&value) {
            return Some(*id);
        }
        if let Some(place) = program.outputs.iter().position(|output| *output == value) {
            return plan.outputs.get(place).copied();
        }
        // The array under all of its names: a move of one of them applies to the others, too.
        let mut chain = vec![value];
        let mut source = value;
        while let Definition::Move { operand, .. }
        | Definition::Rename { operand }
        | Definition::Collective { operand, .. } = &program.value(source).definition
        {
            source = *operand;
            chain.push(source);
        }
        // A name with a step of its own comes first. It may be in another layout, such as an output that is closed.
        let last = chain.iter().position(|name| self.finals.contains_key(name));
        let (near, far) = chain.split_at(last.map_or(chain.len(), |last| last + 1));
        let last = last.and_then(|last| self.finals.get(&chain[last])).copied();
        let dims = &program.value(value).dims;
        let moved = match &program.value(value).wanted {
            Wanted::Exact(wanted) => {
                let own = |names: &[ValueId]| -> Vec<StepId> {
                    plan.ids().filter(|id| names.contains(&plan.step(*id).value)).collect()
                };
                let [near, far] = [near, far].map(own);
                let all: Vec<AxisId> = program.mesh.axis_ids().collect();
                // Axes of size 1 move nothing.
                let long: Vec<AxisId> = program.mesh.axis_ids().filter(|axis| program.mesh.size(*axis) > 1).collect();
                let is_wanted = |id: &StepId| is_laid_out(&plan.step(*id).layout, dims, wanted, &all);
                let is_same = |id: &StepId| is_laid_out(&plan.step(*id).layout, dims, wanted, &long);
                let first = |ids: &[StepId], is_meant: &dyn Fn(&StepId) -> bool| ids.iter().copied().find(is_meant);
                let of_near = first(&near, &is_wanted).or(last.filter(is_same)).or_else(|| first(&near, &is_same));
                of_near.or_else(|| first(&far, &is_wanted)).or_else(|| first(&far, &is_same))
            }
            Wanted::Partly(_) | Wanted::Free => None,
        };
        moved.or(last)
    }

    /// All statements that produce or use arrays, in order.
    pub(super) fn statements(&self) -> BTreeSet<Span> {
        let named = self.plan.program.aliases.iter().map(|alias| written_anew(self.plan, alias.span));
        self.statements.iter().copied().chain(named).collect()
    }

    /// The steps in the lines of a statement, in order.
    pub(super) fn steps(&self, statement: Span) -> Vec<StepId> {
        let plan = self.plan;
        plan.ids().filter(|id| plan.is_done(*id) && self.places[id] == statement).collect()
    }

    /// The moves that a step consists of or depends on, and that no line expresses: its own, or those done for
    /// another statement.
    pub(super) fn needs(&self, id: StepId) -> Vec<StepId> {
        if self.plan.is_unwritten(id) {
            return vec![id];
        }
        let others = self.plan.operands(id).into_iter().filter(|operand| {
            self.finals.get(&self.plan.step(*operand).value) != Some(operand)
                && self.plan.step(*operand).user != self.plan.step(*operand).value
                && self.places[operand] != self.places[&id]
        });
        others.flat_map(|operand| self.needs(operand)).collect()
    }

    /// The statements whose results have holes that these steps fill.
    pub(super) fn holes(&self, steps: &[StepId]) -> BTreeSet<Span> {
        let operands = steps.iter().flat_map(|id| self.plan.operands(*id));
        let values = operands.map(|id| self.plan.step(id).value);
        let has_hole = |value: &ValueId| matches!(self.plan.program.value(*value).wanted, Wanted::Partly(_));
        values.filter(has_hole).map(|value| self.statements[value.index()]).collect()
    }

    /// The statements that move arrays for these steps, too, on the way to their own results.
    pub(super) fn sources(&self, steps: &[StepId]) -> BTreeSet<Span> {
        let loud = |id| std::iter::successors(Some(id), |id| self.silent_source(*id)).last();
        let sources = steps.iter().flat_map(|id| self.plan.operands(*id)).filter_map(loud);
        let is_on_the_way = |id: &StepId| {
            let step = self.plan.step(*id);
            matches!(step.op, StepOp::Collective(_)) && self.finals.get(&step.value) != Some(id)
        };
        sources.filter(is_on_the_way).map(|id| self.places[&id]).collect()
    }

    /// Whether an unchanged statement would use other arrays than in the plan, because its names have another meaning
    /// or its move is already done.
    pub(super) fn is_misled(&self, statement: Span) -> bool {
        let plan = self.plan;
        let misled = |id: &StepId| {
            let operands = plan.operands(*id);
            let others = operands.iter().filter(|operand| plan.is_done(**operand) && self.places[operand] != statement);
            others.into_iter().any(|operand| !self.is_meant(plan.step(*id).user, *operand))
        };
        let aliases = self.results(statement).filter(|value| self.is_alias(*value));
        let named = self.aliases(statement);
        let is_lost = |alias: &Alias| {
            let name = plan.program.value(self.written(alias.value)).name.as_ref();
            name.is_some_and(|name| self.meaning.get(name).copied() != self.resolved(alias.value))
        };
        !self.starts.is_empty()
            || named.iter().any(is_lost)
            || self.steps(statement).iter().any(misled)
            || aliases.into_iter().any(|value| self.resolved(value).is_some_and(|id| !self.is_meant(value, id)))
    }

    /// Whether a name in the text of a value denotes a step, or the array that the step slices.
    fn is_meant(&self, user: ValueId, step: StepId) -> bool {
        let program = &self.plan.program;
        let operands = program.value(user).definition.operands();
        let written: Vec<ValueId> = operands.iter().map(|operand| self.written(*operand)).collect();
        let own = written.iter().filter_map(|value| program.value(*value).name.as_ref());
        let further = program.aliases.iter().filter(|alias| written.contains(&alias.value)).map(|alias| &alias.name);
        let meant: Vec<StepId> = own.chain(further).filter_map(|name| self.meaning.get(name).copied()).collect();
        let mut step = Some(step);
        while let Some(id) = step {
            if meant.contains(&id) || self.counted(id).is_some() {
                return true;
            }
            step = self.silent_source(id);
        }
        false
    }

    /// The operand as written in the text, before conversions inserted by the compiler.
    fn written(&self, value: ValueId) -> ValueId {
        let value_of = |id: ValueId| self.plan.program.value(id);
        let mut value = value;
        while let (
            None,
            Definition::Move { operand, .. } | Definition::Rename { operand } | Definition::Collective { operand, .. },
        ) = (&value_of(value).name, &value_of(value).definition)
        {
            value = *operand;
        }
        while let (None, Definition::Map { function: Function::Fill { .. }, operands }) =
            (&value_of(value).name, &value_of(value).definition)
        {
            value = operands[0];
        }
        value
    }

    /// The source of a step that is the same array without communication; the compiler inserts it again.
    fn silent_source(&self, id: StepId) -> Option<StepId> {
        let is_silent = match &self.plan.step(id).op {
            StepOp::Collective(_) => !self.plan.communicates(id),
            StepOp::Map { function, .. } => matches!(function, Function::Fill { .. }),
            StepOp::Input | StepOp::Carry | StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Kernel(_) => false,
        };
        if is_silent { self.plan.operands(id).first().copied() } else { None }
    }

    /// Whether two steps of one array leave the same blocks on each device: their layouts differ only in axes of size
    /// 1.
    fn is_alike(&self, one: StepId, other: StepId) -> bool {
        let (mesh, layout) = (&self.plan.program.mesh, |id: StepId| &self.plan.step(id).layout);
        let pieces = |id: StepId| layout(id).sharding.open.group_size(mesh);
        pieces(one) == pieces(other) && layout(one).local_extents(mesh) == layout(other).local_extents(mesh)
    }

    /// The named values that a statement produces.
    fn results(&self, statement: Span) -> impl Iterator<Item = ValueId> {
        let program = &self.plan.program;
        let is_first = move |id: ValueId| program.carried().any(|carried| carried.first == id);
        let is_result = move |id: &ValueId| {
            program.value(*id).name.is_some() && self.is_root(*id) && self.statements[id.index()] == statement
        };
        program.value_ids().filter(is_result).filter(move |id| !is_first(*id))
    }

    /// Additional names of values that a statement defines, as of its end.
    fn aliases(&self, statement: Span) -> Vec<Alias> {
        let given = self.plan.program.aliases.iter();
        let given = given.filter(|alias| written_anew(self.plan, alias.span) == statement);
        given.map(|alias| (&alias.name, alias)).collect::<BTreeMap<_, _>>().into_values().cloned().collect()
    }

    /// Lines that give carried names to the arrays that the first iteration starts with.
    ///
    /// An array that is moved for the body and used in its old layout, too, has a name of its own.
    fn starts_of(&mut self, body: usize) -> Vec<String> {
        let plan = self.plan;
        let mut lines = Vec::new();
        for carry in plan.ids().filter(|id| plan.step(*id).op == StepOp::Carry && plan.body(*id) == Some(body)) {
            let value = plan.step(carry).value;
            let (name, start) = (plan.program.value(value).name.clone(), plan.operands(carry).first().copied());
            let (Some(name), Some(start)) = (name, start) else { continue };
            // The body slices the start again.
            let named = |id: &StepId| self.names.contains_key(id);
            let start = std::iter::successors(Some(start), |id| self.silent_source(*id)).find(named).unwrap_or(start);
            let known = self.names.get(&start).and_then(|names| names.last()).cloned();
            let is_meant = |name: &String| self.meaning.get(name) == Some(&start);
            if let Some((_, known)) = known
                && is_meant(&known)
                && !is_meant(&name)
            {
                lines.push(format!("{name} = {known}"));
                self.bind(start, value, name);
            }
        }
        lines
    }

    /// Enters the body that contains a statement, or leaves the previous one.
    pub(super) fn enter(&mut self, statement: Span) {
        let (plan, program) = (self.plan, &self.plan.program);
        let body = program.repeats.iter().position(|repeat| {
            repeat.span.start <= statement.start && statement.end <= repeat.span.end && repeat.span != statement
        });
        if self.block.as_ref().map(|(body, _)| *body) == body {
            return;
        }
        let ended = self.block.take();
        if let Some((ended, outside)) = ended {
            self.meaning = outside;
            for (carry, end) in plan.carried.iter().filter(|(carry, _)| plan.body(*carry) == Some(ended)) {
                let last = program.carried().find(|carried| carried.first == plan.step(*carry).value);
                last.into_iter().for_each(|carried| self.bind_own(*end, carried.last));
            }
        }
        if let Some(body) = body {
            self.starts = self.starts_of(body);
            self.block = Some((body, self.meaning.clone()));
            for (carry, _) in plan.carried.iter().filter(|(carry, _)| plan.body(*carry) == Some(body)) {
                self.bind_own(*carry, plan.step(*carry).value);
            }
        }
    }

    fn bind(&mut self, id: StepId, value: ValueId, name: String) {
        self.written.remove(&(name.clone(), id));
        self.meaning.insert(name.clone(), id);
        self.names.entry(id).or_default().push((value, name));
    }

    /// Binds a step to its value's name in the program.
    fn bind_own(&mut self, id: StepId, value: ValueId) {
        if let Some(name) = self.plan.program.value(value).name.clone() {
            self.bind_written(id, value, name);
        }
    }

    /// Binds a step to a name, in the layout written for a value.
    fn bind_written(&mut self, id: StepId, value: ValueId, name: String) {
        self.bind(id, value, name.clone());
        if let Wanted::Exact(wanted) = &self.plan.program.value(value).wanted {
            self.written.insert((name, id), wanted.clone());
        }
    }

    /// Keeps a statement unchanged.
    pub(super) fn keep(&mut self, statement: Span) {
        self.enter(statement);
        for value in self.results(statement).collect::<Vec<_>>() {
            if let Some(id) = self.resolved(value) {
                self.bind_own(id, value);
            }
        }
        for alias in self.aliases(statement) {
            if let Some(id) = self.resolved(alias.value) {
                self.bind(id, alias.value, alias.name);
            }
        }
    }

    /// The lines of a statement, and lines that belong before its enclosing block.
    ///
    /// `None` if an operand has no name.
    pub(super) fn lines(&mut self, statement: Span) -> Option<Vec<Fix>> {
        self.enter(statement);
        self.temporary.clear();
        let steps = self.steps(statement);
        let (mut own, mut before): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let block = self.block.as_ref().map(|(body, _)| self.plan.program.repeats[*body].span);
        before.append(&mut self.starts);
        own.extend(self.inputs(statement));
        let mut renamed = BTreeSet::new();
        for id in &steps {
            // A name is given to an array before it is carried in another layout.
            if self.carried_as(*id).is_some() && !self.apart {
                own.extend(self.renamed(statement, &mut renamed));
            }
            if block.is_some() && self.plan.body(*id).is_none() {
                before.extend(self.outside(*id, statement)?);
            } else {
                own.extend(self.step(*id, statement)?);
            }
        }
        if self.apart {
            own.extend(self.given(statement));
        } else {
            own.extend(self.renamed(statement, &mut renamed));
        }
        for alias in self.aliases(statement) {
            let id = self.resolved(alias.value)?;
            let text = self.name(alias.value, id)?;
            if text != alias.name {
                own.push(format!("{} = {text}", alias.name));
                self.bind(id, alias.value, alias.name);
            }
        }
        let mut fixes = Vec::new();
        if let Some(block) = block.filter(|_| !before.is_empty()) {
            let start = Span { end: block.start, ..block };
            fixes.push(Fix::new(Edit::Replace(start), format!("{}\n", before.join("\n"))));
        }
        fixes.push(Fix::new(Edit::Statement, own.join("\n")));
        Some(fixes)
    }

    /// Writes a step before the block, where names have other meanings.
    fn outside(&mut self, id: StepId, statement: Span) -> Option<Vec<String>> {
        let swap = |speller: &mut Self| {
            if let Some((_, outside)) = &mut speller.block {
                std::mem::swap(outside, &mut speller.meaning);
            }
        };
        swap(self);
        let lines = self.step(id, statement);
        swap(self);
        let mut lines = lines?;
        if self.apart
            && let Some(carried) = self.carried_as(id)
            && let Some((value, name)) = self.names.get(&id).and_then(|names| names.last()).cloned()
        {
            lines.push(format!("{carried} = {name}"));
            self.names.entry(id).or_default().insert(0, (value, carried.clone()));
            if let Some((_, outside)) = &mut self.block {
                outside.insert(carried, id);
            }
        }
        // A name that the lines define is visible inside the block, too.
        if let Some((_, name)) = self.names.get(&id).and_then(|names| names.last()) {
            self.meaning.insert(name.clone(), id);
        }
        Some(lines)
    }

    /// The lines that give the results of a statement their names, where each step has a name of its own.
    fn given(&mut self, statement: Span) -> Vec<String> {
        let program = &self.plan.program;
        // Of a name that an unrolled block gives several times, the last one counts.
        let results = self.results(statement);
        let last: BTreeMap<&str, ValueId> = results
            .filter(|value| !matches!(program.value(*value).definition, Definition::Input { .. }))
            .filter_map(|value| Some((program.value(value).name.as_deref()?, value)))
            .collect();
        let mut lines = Vec::new();
        for result in last.into_values() {
            lines.extend(self.kept_name(result, statement));
            lines.extend(self.renaming(result));
        }
        lines
    }

    /// The line that gives a further name to the array that loses its only name to a result, where a later statement
    /// reads it.
    fn kept_name(&mut self, result: ValueId, statement: Span) -> Option<String> {
        let name = self.plan.program.value(result).name.clone()?;
        let old = self.meaning.get(&name).copied().filter(|old| self.resolved(result) != Some(*old))?;
        let value = self.names.get(&old)?.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)?;
        let others = self.names[&old].iter().filter(|(_, known)| *known != name);
        let has_another = others.into_iter().any(|(_, known)| self.meaning.get(known) == Some(&old));
        if has_another || !self.uses(old).any(|user| user > statement) {
            return None;
        }
        let kept = self.fresh(&name);
        self.bind(old, value, kept.clone());
        Some(format!("{kept} = {name}"))
    }

    /// The lines of results that need no step: arrays with renamed dims, or already moved.
    ///
    /// - `known`: the results that have lines already.
    fn renamed(&mut self, statement: Span, known: &mut BTreeSet<ValueId>) -> Vec<String> {
        let program = &self.plan.program;
        let mut last: BTreeMap<&str, ValueId> = BTreeMap::new();
        for value in self.results(statement) {
            let name = program.value(value).name.as_deref().unwrap_or_default();
            match &program.value(value).definition {
                _ if self.is_alias(value) => drop(last.insert(name, value)),
                // Moves that the compiler inserts for carried values.
                Definition::Move { written: false, .. } => {}
                _ => drop(last.remove(name)),
            }
        }
        let mut lines = Vec::new();
        for result in last.into_values() {
            if !known.contains(&result)
                && let Some(line) = self.renaming(result)
            {
                known.insert(result);
                lines.push(line);
            }
        }
        lines
    }

    /// The line of a result that needs no step.
    fn renaming(&mut self, result: ValueId) -> Option<String> {
        let step = self.resolved(result)?;
        let text = self.name(result, step)?;
        let name = self.plan.program.value(result).name.clone()?;
        let line = format!("{name}{} = {text}", self.wanted_brackets(result, step));
        self.bind_written(step, result, name);
        Some(line)
    }

    /// Declarations of the inputs that the statement declares implicitly.
    fn inputs(&mut self, statement: Span) -> Vec<String> {
        let plan = self.plan;
        let inputs = plan.ids().filter(|id| plan.step(*id).op == StepOp::Input && self.counted(*id).is_none());
        let inputs: Vec<StepId> =
            inputs.filter(|id| self.statements[plan.step(*id).value.index()] == statement).collect();
        let mut lines = Vec::new();
        for id in inputs {
            let value = plan.step(id).value;
            let known = plan.program.value(value).name.clone();
            let alias = self.aliases(statement).into_iter().find(|alias| alias.value == value);
            let name = match known.or(alias.map(|alias| alias.name)) {
                // An array of an unrolled block.
                Some(name) if name.contains('.') => self.fresh(name.split('.').next().unwrap_or_default()),
                Some(name) => name,
                None => self.fresh("A"),
            };
            self.bind_written(id, value, name.clone());
            let (brackets, dtype) = (self.wanted_brackets(value, id), plan.program.value(value).dtype);
            lines.push(match &plan.program.value(value).definition {
                Definition::Input { supply: Supply::Table(table) } => {
                    format!("{name}{brackets} = table({})", table.elements().iter().join(", "))
                }
                Definition::Input { supply: Supply::Donated } => format!("{name}: {dtype}{brackets} donated"),
                _ => format!("{name}: {dtype}{brackets}"),
            });
        }
        lines
    }

    fn step(&mut self, id: StepId, statement: Span) -> Option<Vec<String>> {
        let step = self.plan.step(id);
        match &step.op {
            StepOp::Input | StepOp::Carry => Some(Vec::new()),
            StepOp::Collective(collective) => self.collective(id, collective, statement),
            // The compiler inserts the filler again.
            StepOp::Map { function: Function::Fill { .. }, .. } => Some(Vec::new()),
            StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } | StepOp::Kernel(_) => {
                let operands = self.plan.operands(id);
                let values = self.plan.program.value(step.value).definition.operands().to_vec();
                let names = values.iter().zip(&operands).map(|(value, step)| self.name(*value, *step));
                let names: Vec<String> = names.collect::<Option<_>>()?;
                let text = self.operation(step.value, &names)?;
                let name = self.result_name(step.value, id, statement);
                let line = self.assignment(id, step.value, &name, &text);
                if self.is_local(step.value) {
                    self.bind_written(id, step.value, name);
                } else {
                    self.bind(id, step.value, name);
                }
                Some(vec![line])
            }
        }
    }

    fn collective(&mut self, id: StepId, collective: &Collective, statement: Span) -> Option<Vec<String>> {
        let step = self.plan.step(id);
        let operand = *self.plan.operands(id).first()?;
        let mut lines = Vec::new();
        let users = |step: StepId| self.plan.steps.neighbors(step).count();
        let is_slice = matches!(collective, Collective::Slice { .. }) && !self.opens_a_sum(id);
        // A body ends in the layout in which it begins.
        let computes = |user: &StepId| !matches!(self.plan.step(*user).op, StepOp::Collective(_) | StepOp::Carry);
        if is_slice && self.readers(id).iter().all(computes) && users(id) > 0 && step.user != step.value {
            // Statements that use it slice it again.
            return Some(lines);
        }
        let moved = match collective {
            // What it shifts may be another array under other dims.
            Collective::Shift(_) => *self.plan.program.value(step.value).definition.operands().first()?,
            _ => step.value,
        };
        let mut name = self.name(moved, operand)?;
        let from =
            Layout { dims: self.plan.program.value(step.value).dims.clone(), ..self.plan.step(operand).layout.clone() };
        let brackets = self.brackets(step.value, operand);
        if name.contains('(') {
            let plain = self.fresh("T");
            lines.push(format!("{plain}{brackets} = {name}"));
            self.bind(operand, step.value, plain.clone());
            self.temporary.insert(operand);
            name = plain;
        }
        let meant = self.meaning.get(&name).copied();
        let text = meant.and_then(|meant| {
            let written = self.written.get(&(name.clone(), meant)).cloned();
            // The same blocks under another layout.
            written.or_else(|| (meant != operand).then(|| self.plan.step(meant).layout.sharding.clone()))
        });
        let text = text.map(|text| self.plan.program.layout(step.value, text));
        if let Some(text) = text.map(|text| text.brackets(&self.plan.program.mesh, &self.plan.program.dims))
            && text != brackets
        {
            let plain = self.fresh(&name);
            lines.push(format!("{name}{text} -> {plain}{brackets}"));
            self.bind(operand, step.value, plain.clone());
            self.temporary.insert(operand);
            name = plain;
        }
        let (mesh, dims) = (&self.plan.program.mesh, &self.plan.program.dims);
        let called = collective.name(&from.sharding, mesh, |dim| dims.name(from.dims[dim].id));
        let head = match collective {
            Collective::Permute { .. } | Collective::Reshard { .. } | Collective::Slice { .. } => {
                format!("{name}{brackets}")
            }
            Collective::Shift(shift) => {
                let dim = dims.name(from.dims[shift.dim()].id);
                format!("{}_{dim}({name}{brackets}, {})", shift.word(), shift.by)
            }
            Collective::AllGather { .. }
            | Collective::ReduceScatter { .. }
            | Collective::AllReduce { .. }
            | Collective::AllToAll { .. }
            | Collective::Broadcast { .. }
            | Collective::Open { .. } => format!("{called}({name}{brackets})"),
        };
        let new = if self.apart {
            self.fresh(&name)
        } else if self.is_own(id) {
            self.result_name(step.value, id, statement)
        } else if let Some(carried) = self.carried_as(id).filter(|_| users(operand) == 1) {
            carried
        } else if self.temporary.contains(&operand) && users(operand) == 1 {
            name
        } else {
            self.fresh(&name)
        };
        let using = Some(self.plan.program.value(step.user).using).filter(|using| *using != Using::default());
        let using = using.map_or_else(String::new, |using| format!(" using {using}"));
        let made =
            collective.apply(&from.sharding, mesh).filter(|made| head.contains('(') && *made != step.layout.sharding);
        let to = self.brackets(step.value, id);
        match made {
            // The layout has additional axes of size 1, which need a move of their own.
            Some(made) => {
                let made = self.plan.program.layout(step.value, made).brackets(mesh, dims);
                lines.push(format!("{head} -> {new}{made}{using}"));
                lines.push(format!("{new}{made} -> {new}{to}"));
            }
            None => lines.push(format!("{head} -> {new}{to}{using}")),
        }
        if self.uses(id).all(|user| user == statement) && !self.is_own(id) {
            self.temporary.insert(id);
        }
        self.bind(id, step.value, new);
        Some(lines)
    }

    /// The steps that read a step, or its array with other padding.
    fn readers(&self, id: StepId) -> Vec<StepId> {
        let is_filled =
            |user: &StepId| matches!(self.plan.step(*user).op, StepOp::Map { function: Function::Fill { .. }, .. });
        let (filled, others): (Vec<StepId>, Vec<StepId>) = self.plan.steps.neighbors(id).partition(is_filled);
        others.into_iter().chain(filled.into_iter().flat_map(|filled| self.readers(filled))).collect()
    }

    /// Whether a sum is open because all operands that it depends on are sliced: whole ones leave no open sum.
    fn opens_a_sum(&self, slice: StepId) -> bool {
        let plan = self.plan;
        let axes = |id: StepId| plan.step(id).layout.sharding.dim_axes();
        self.readers(slice).into_iter().any(|user| {
            let open = plan.step(user).layout.sharding.open.intersection(axes(slice));
            let has = |id: StepId, axis| axes(id).contains(axis);
            let is_sliced = |id: StepId, axis| {
                std::iter::successors(Some(id), |id| self.silent_source(*id)).any(|source| !has(source, axis))
            };
            matches!(plan.step(user).op, StepOp::Product { .. } | StepOp::Reduce { .. })
                && open.iter().any(|axis| plan.operands(user).into_iter().all(|operand| is_sliced(operand, axis)))
        })
    }

    /// The name of a step at the start of a repeat; the body uses only this name.
    fn carried_as(&self, id: StepId) -> Option<String> {
        let plan = self.plan;
        let carry = plan.steps.neighbors(id).find(|user| plan.step(*user).op == StepOp::Carry)?;
        plan.program.value(plan.step(carry).value).name.clone()
    }

    /// The name of an operand, or of the array that it renames.
    fn name(&self, value: ValueId, step: StepId) -> Option<String> {
        let dims = |value: ValueId| &self.plan.program.value(value).dims;
        let own = self.plan.program.value(value).name.as_ref().filter(|name| {
            self.meaning.get(*name).is_some_and(|meant| {
                let mut sources = std::iter::successors(self.silent_source(*meant), |id| self.silent_source(*id));
                sources.any(|source| source == step) && self.is_alike(*meant, step)
            })
        });
        if let Some(name) = own {
            return Some(name.clone());
        }
        let mut known = Some(step);
        while let Some(id) = known {
            if let Some(counted) = self.counted(id) {
                return Some(counted);
            }
            let names = self.names.get(&id).into_iter().flatten().rev();
            let meant =
                names.filter(|(as_value, name)| self.meaning.get(name) == Some(&id) && dims(*as_value) == dims(value));
            // One array may have several names, with layouts that differ in axes of size 1.
            if let Some((_, name)) = meant.min_by_key(|(as_value, _)| *as_value != value) {
                return Some(name.clone());
            }
            known = self.silent_source(id);
        }
        let definition = &self.plan.program.value(value).definition;
        match definition {
            Definition::Rename { operand } => {
                let inner = self.name(*operand, step)?;
                let changed = dims(*operand).iter().zip(dims(value)).find(|(old, new)| old != new)?;
                let [old, new] = [changed.0, changed.1].map(|dim| self.plan.program.dims.name(dim.id));
                Some(format!("rename_{{{old}->{new}}}({inner})"))
            }
            // The step before a collective inside an expression.
            Definition::Move { operand, .. } | Definition::Collective { operand, .. } => self.name(*operand, step),
            // The compiler inserts the filler again.
            Definition::Map { function: Function::Fill { .. }, operands } => {
                self.name(operands[0], self.silent_source(step).unwrap_or(step))
            }
            Definition::Input { .. }
            | Definition::Product { .. }
            | Definition::Reduce { .. }
            | Definition::Kernel { .. }
            | Definition::Map { .. } => None,
        }
    }

    /// The name of an `iota_I`, which means the same everywhere.
    fn counted(&self, id: StepId) -> Option<String> {
        let value = self.plan.program.value(self.plan.step(id).value);
        let is_counted = self.plan.step(id).op == StepOp::Input
            && value.definition == (Definition::Input { supply: Supply::Counted });
        // In an unrolled block, it has the number of the iteration.
        let name = value.name.as_deref().filter(|_| is_counted)?;
        Some(name.split('.').next().unwrap_or(name).to_owned())
    }

    /// Whether the value is the main result of its statement.
    fn is_root(&self, value: ValueId) -> bool {
        self.plan.program.value(value).span == self.own[value.index()]
    }

    /// Whether a step converts the result of a statement to the result's own layout.
    fn is_own(&self, id: StepId) -> bool {
        let step = self.plan.step(id);
        self.is_root(step.value) && (step.user == step.value || self.finals.get(&step.value) == Some(&id))
    }

    /// The statements that use the result of a step.
    fn uses(&self, id: StepId) -> impl Iterator<Item = Span> {
        let users = self.plan.steps.neighbors(id).map(|user| self.places[&user]);
        let aliases = self.plan.program.value_ids().filter(|value| self.is_alias(*value));
        let aliases = aliases.filter(move |value| self.resolved(*value) == Some(id));
        users.chain(aliases.map(|value| self.statements[value.index()]))
    }

    /// A name for the result of a step in the lines of a statement. It is the value's name, unless the value gets
    /// another layout under that name and other statements use this step.
    fn result_name(&mut self, value: ValueId, id: StepId, statement: Span) -> String {
        let Some(name) = self.plan.program.value(value).name.clone().filter(|_| self.is_root(value)) else {
            self.temporary.insert(id);
            return self.fresh("T");
        };
        if self.apart {
            return self.fresh(&name);
        }
        let is_final = self.finals.get(&value).is_none_or(|last| *last == id);
        let others = self.plan.steps.neighbors(id).map(|user| self.plan.step(user).user);
        let is_taken_inside = others.into_iter().any(|user| self.own[user.index()] != self.own[value.index()]);
        let is_taken = is_taken_inside || self.uses(id).any(|user| user != statement);
        if !is_final && is_taken { self.fresh(&name) } else { name }
    }

    /// An unused name.
    fn fresh(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while self.taken.contains(&name) {
            name.push('\'');
        }
        self.taken.insert(name.clone());
        name
    }

    /// An array with its layout; without a name, only the brackets.
    pub(super) fn array(&self, id: StepId) -> String {
        let value = self.plan.step(id).value;
        let name = self.plan.program.value(value).name.as_deref().unwrap_or_default();
        format!("{name}{}", self.brackets(value, id))
    }

    /// The brackets that are written for a value, with axes of size 1 that the plan may lack; else those of the step.
    fn wanted_brackets(&self, value: ValueId, step: StepId) -> String {
        let program = &self.plan.program;
        match &program.value(value).wanted {
            Wanted::Exact(wanted) => program.layout(value, wanted.clone()).brackets(&program.mesh, &program.dims),
            Wanted::Partly(_) | Wanted::Free => self.brackets(value, step),
        }
    }

    fn brackets(&self, value: ValueId, step: StepId) -> String {
        let program = &self.plan.program;
        program.layout(value, self.plan.step(step).layout.sharding.clone()).brackets(&program.mesh, &program.dims)
    }

    fn assignment(&self, id: StepId, value: ValueId, name: &str, text: &str) -> String {
        let program = &self.plan.program;
        let asked = match &program.value(value).definition {
            Definition::Product { operands: [left, right], .. } => {
                let [left, right] = [left, right].map(|id| program.value(*id).dtype);
                left.product(right) != Some(program.value(value).dtype)
            }
            Definition::Input { .. }
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Kernel { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => false,
        };
        let dtype = if asked { format!(": {}", program.value(value).dtype) } else { String::new() };
        let layout = if self.is_local(value) { self.wanted_brackets(value, id) } else { self.brackets(value, id) };
        format!("{name}{dtype}{layout} = {text}")
    }

    /// Whether a value is a local product, whose layout has the axes of size 1 of its operands.
    fn is_local(&self, value: ValueId) -> bool {
        matches!(self.plan.program.value(value).definition, Definition::Product { local: true, .. })
    }

    /// The right-hand side of a line.
    fn operation(&self, value: ValueId, names: &[String]) -> Option<String> {
        let program = &self.plan.program;
        let truths = program.value(value).dtype == DType::Bool;
        let dim = |place: usize| program.dims.name(program.value(value).dims[place].id);
        Some(match (&program.value(value).definition, names) {
            (Definition::Product { local, .. }, [a, b]) => format!("{a} {} {b}", if *local { "*_LOCAL" } else { "*" }),
            (Definition::Kernel { kernel, .. }, names) => format!("{}({})", kernel.name, names.join(", ")),
            (Definition::Reduce { operator, operand }, [a]) => {
                let word = match operator {
                    Operator::Sum => "sum",
                    Operator::Max => "max",
                    Operator::Min => "min",
                    Operator::Mul => "prod",
                    Operator::And => "all",
                    Operator::Or => "any",
                    Operator::Mean | Operator::SquareAdd | Operator::Root(_) => return None,
                };
                let kept = &program.value(value).dims;
                let gone = program.value(*operand).dims.iter().filter(|dim| !kept.contains(dim));
                let gone: Vec<String> = gone.map(|dim| program.dims.name(dim.id)).collect();
                format!("{word}_{{{}}}({a})", gone.join(","))
            }
            (Definition::Map { function, .. }, [a, b]) => match function {
                Function::Binary(Binary::Add) => format!("{a} + {b}"),
                Function::Binary(Binary::Sub) => format!("{a} - {b}"),
                Function::Binary(Binary::Mul) => format!("{a} .* {b}"),
                Function::Binary(Binary::Div) => format!("{a} / {b}"),
                Function::Binary(Binary::Larger) if truths => format!("or({a}, {b})"),
                Function::Binary(Binary::Smaller) if truths => format!("and({a}, {b})"),
                Function::Binary(Binary::Larger) => format!("max({a}, {b})"),
                Function::Binary(Binary::Smaller) => format!("min({a}, {b})"),
                Function::Masked(Scalar(c)) => format!("where({a}, {b}, {c})"),
                Function::Is(relation) => format!("{a} {} {b}", relation.sign()),
                _ => return None,
            },
            (Definition::Map { function: Function::Where, .. }, [mask, a, b]) => format!("where({mask}, {a}, {b})"),
            (Definition::Map { function, .. }, [a]) => match function {
                Function::Identity => a.clone(),
                Function::Unary(Unary::Neg) => format!("-{a}"),
                Function::ByNumber(ByNumber::Scale, Scalar(c)) => format!("{c} * {a}"),
                Function::ByNumber(ByNumber::Shift, Scalar(c)) if *c < 0.0 => format!("{a} - {}", -c),
                Function::ByNumber(ByNumber::Shift, Scalar(c)) => format!("{a} + {c}"),
                Function::ByNumber(ByNumber::AtLeast, Scalar(c)) => format!("max({a}, {c})"),
                Function::ByNumber(ByNumber::AtMost, Scalar(c)) => format!("min({a}, {c})"),
                Function::IsNumber(relation, Scalar(c)) => format!("{a} {} {c}", relation.sign()),
                Function::Over(n) => format!("{a} / {n}"),
                Function::Shift(shift) => format!("{}_{}({a}, {})", shift.word(), dim(shift.dim()), shift.by),
                Function::Softmax { dim: place } => format!("softmax_{}({a})", dim(usize::from(*place))),
                Function::Cast(dtype) => format!("{dtype}({a})"),
                other => format!("{}({a})", other.word()),
            },
            (Definition::Move { .. } | Definition::Rename { .. }, [a]) => a.clone(),
            (_, _) => return None,
        })
    }
}

/// The span that contains another one, or that one itself.
fn around(spans: &[Span], inner: Span) -> Span {
    spans.iter().copied().find(|span| span.start <= inner.start && inner.end <= span.end).unwrap_or(inner)
}

/// The statement that is rewritten: the enclosing block inside a body, or the statement itself.
fn written_anew(plan: &Plan, statement: Span) -> Span {
    let bodies = plan.program.repeats.iter();
    bodies.map(|repeat| around(&repeat.blocks, statement)).find(|block| *block != statement).unwrap_or(statement)
}

/// Whether a layout has these axes on these dims, in any order. Dims with different names are matched by position.
///
/// - `among`: the axes that are compared.
fn is_laid_out(layout: &Layout, dims: &[Dim], wanted: &Sharding, among: &[AxisId]) -> bool {
    let by_name = dims.iter().all(|dim| layout.dims.contains(dim));
    let place = |at: usize| if by_name { layout.dims.iter().position(|dim| *dim == dims[at]) } else { Some(at) };
    let compared = |axes: &Axes| axes.iter().filter(|axis| among.contains(axis)).collect::<Vec<_>>();
    let axes = |at: usize| place(at).and_then(|at| layout.sharding.dims.get(at)).map(compared);
    let same = wanted.dims.iter().enumerate().all(|(at, wanted)| axes(at) == Some(compared(wanted)));
    let open =
        |sharding: &Sharding| among.iter().all(|axis| sharding.open.contains(*axis) == wanted.open.contains(*axis));
    let is_closed = among.iter().all(|axis| !wanted.open.contains(*axis));
    let adds_alike = is_closed || layout.sharding.operator == wanted.operator;
    same && layout.dims.len() == dims.len() && open(&layout.sharding) && adds_alike
}
