//! The steps of a plan as a Python function of each device's shards.

use super::collective;
use super::expression::{self, Called, Lanes, Operand};
use super::lines::{Lines, Loop};
use super::names::Names;
use super::rows::{self, Rows};
use super::text;
use crate::export::words::{Vocabulary, declared, filled, generated, given, padded, pieces, words};
use crate::plan::{Plan, StepId, StepOp};
use itertools::Itertools;
use std::collections::{BTreeSet, HashMap};

/// The lines of the function body.
pub(super) fn body(plan: &Plan, source: &str, parameters: &HashMap<StepId, String>) -> String {
    let mut device = Device {
        plan,
        lines: Lines::new(source, 1),
        names: Names::new(),
        called: HashMap::new(),
        needed: HashMap::new(),
        rows: rows::rows(plan),
        kernels: super::kernels(&plan.program),
        stacked: given(plan).iter().filter_map(|id| Some((plan.body(*id)?, parameters[id].clone()))).collect(),
        body: None,
        written: BTreeSet::new(),
    };
    device.needed = needed(plan, &device.rows);
    let inputs = given(plan);
    for id in &inputs {
        device.names.give(&parameters[id], *id, |_| false);
    }
    for id in inputs {
        device.input(id, &parameters[&id]);
    }
    for id in plan.ids().filter(|id| plan.step(*id).op == StepOp::Input) {
        device.generated(id);
    }
    device.steps();
    device.returned();
    device.lines.finish()
}

/// The last step that needs each value; `None` if it is needed to the end.
///
/// Values from outside a body are needed until the body's end, because the next iteration reads them again. The same
/// holds for carried values. A value that one carried array starts with is not needed in the body.
fn needed(plan: &Plan, rows: &HashMap<StepId, Rows>) -> HashMap<StepId, Option<StepId>> {
    let ends: Vec<Option<StepId>> = (0..plan.program.repeats.len())
        .map(|body| plan.ids().filter(|id| plan.body(*id) == Some(body)).last())
        .collect();
    let starts = plan.ids().filter(|id| plan.step(*id).op == StepOp::Carry).flat_map(|id| plan.operands(id)).counts();
    let mut needed: HashMap<StepId, Option<StepId>> = plan.ids().map(|id| (id, Some(id))).collect();
    for user in plan.ids() {
        let looked_up = rows.get(&user).into_iter().flat_map(|rows| [rows.numbers, rows.places]);
        for id in plan.operands(user).into_iter().chain(looked_up) {
            let starts_one = plan.step(user).op == StepOp::Carry && starts[&id] == 1;
            let until = match plan.body(user).filter(|body| plan.body(id) != Some(*body) && !starts_one) {
                Some(body) => ends[body].unwrap_or(user),
                None => user,
            };
            let last = needed.entry(id).or_insert(None);
            *last = last.map(|last| last.max(until));
        }
    }
    for (carry, _) in &plan.carried {
        let until = plan.body(*carry).and_then(|body| ends[body]);
        let last = needed.entry(*carry).or_insert(None);
        *last = last.zip(until).map(|(last, until)| last.max(until));
    }
    for id in &plan.outputs {
        needed.insert(*id, None);
    }
    needed
}

struct Device<'a> {
    plan: &'a Plan,
    lines: Lines<'a>,
    names: Names<StepId>,
    /// The name of each step's result.
    called: HashMap<StepId, String>,
    needed: HashMap<StepId, Option<StepId>>,
    /// The products that are row lookups.
    rows: HashMap<StepId, Rows>,
    kernels: Vec<Called>,
    /// The inputs of bodies: the body, and the name.
    stacked: Vec<(usize, String)>,
    /// The repeat whose body is being written.
    body: Option<usize>,
    /// The repeats that are written.
    written: BTreeSet<usize>,
}

impl Device<'_> {
    /// The shard that the function receives.
    fn input(&mut self, id: StepId, parameter: &str) {
        let (plan, layout) = (self.plan, &self.plan.step(id).layout);
        if plan.body(id).is_some() {
            // The body takes its own of the stack, by the same name.
            let piece = if pieces(layout).is_some() { "[0]" } else { "" };
            self.called.insert(id, format!("{parameter}{piece}"));
            return;
        }
        self.called.insert(id, parameter.to_owned());
        if let Some(axes) = pieces(layout) {
            let name = self.named(id);
            let note = format!("its piece of the open sum over {}", axes.names(&plan.program.mesh));
            self.lines.add_of(plan.span(id), &format!("{name} = {parameter}[0]"), &note);
        }
    }

    /// The positions along a dim, or a table, which are whole on each device.
    fn generated(&mut self, id: StepId) {
        let (plan, layout) = (self.plan, &self.plan.step(id).layout);
        let Some(array) = generated(&plan.program, plan.step(id).value) else { return };
        let whole = text::generated(&array, &plan.program, plan.step(id).value);
        let padding: Vec<u64> =
            padded(plan, layout).iter().zip(declared(plan, layout)).map(|(padded, size)| padded - size).collect();
        let value = match padding.as_slice() {
            all if all.iter().all(|lanes| *lanes == 0) => whole,
            [only] => format!("jnp.pad({whole}, (0, {only}))"),
            many => format!("jnp.pad({whole}, ({}))", many.iter().map(|lanes| format!("(0, {lanes})")).join(", ")),
        };
        let name = self.named(id);
        self.lines.add(&format!("{name} = {value}"));
    }

    fn named(&mut self, id: StepId) -> String {
        self.named_after(id, id)
    }

    /// A name for the result of a step. Names of arrays that are not needed after `now` may be reused.
    fn named_after(&mut self, id: StepId, now: StepId) -> String {
        let (plan, needed, body, written) = (self.plan, &self.needed, self.body, &self.written);
        let is_done = |owner: &StepId| {
            let of = plan.body(*owner);
            let own = of == body || of.is_some_and(|of| written.contains(&of));
            own && needed.get(owner).copied().flatten().is_some_and(|last| last <= now)
        };
        let name = self.names.give(&plan.program.name(plan.step(id).value), id, is_done);
        self.called.insert(id, name.clone());
        name
    }

    fn steps(&mut self) {
        let ids: Vec<StepId> = self.plan.ids().collect();
        let mut at = 0;
        while at < ids.len() {
            let Some(body) = self.plan.body(ids[at]) else {
                self.step(ids[at]);
                at += 1;
                continue;
            };
            // Values from outside the body are among its steps; they are computed once, before the loop.
            let last = ids.iter().rposition(|id| self.plan.body(*id) == Some(body)).unwrap_or(at);
            let (own, outside): (Vec<StepId>, Vec<StepId>) =
                ids[at..=last].iter().partition(|id| self.plan.body(**id) == Some(body));
            outside.into_iter().for_each(|id| self.step(id));
            self.repeat(body, &own);
            at = last + 1;
        }
    }

    fn repeat(&mut self, body: usize, steps: &[StepId]) {
        let plan = self.plan;
        let carried: Vec<(StepId, StepId)> =
            plan.carried.iter().copied().filter(|(carry, _)| plan.body(*carry) == Some(body)).collect();
        // The initial value of the first iteration may have to be converted to the layout at the loop head.
        let ways = |carry: StepId| {
            let step_before = move |id: &StepId| plan.operands(*id).first().copied();
            std::iter::successors(Some(carry), move |id| step_before(id).filter(|_| plan.step(*id).op != StepOp::Carry))
        };
        let (mut before, mut entries) = (BTreeSet::new(), HashMap::new());
        // Those that are not converted come first: no name that one starts with is given to a conversion.
        for (carry, _) in carried.iter().sorted_by_key(|(carry, _)| ways(*carry).count()) {
            let ways: Vec<StepId> = ways(*carry).collect();
            let first = ways[ways.len() - 1];
            let entry = plan.operands(first).first().and_then(|id| self.called.get(id)).cloned().unwrap_or_default();
            self.called.insert(first, entry.clone());
            for id in ways.iter().copied().rev() {
                self.step(id);
                before.insert(id);
            }
            if first == *carry {
                self.named(first);
                entries.insert(*carry, entry);
            } else {
                entries.insert(*carry, self.called[carry].clone());
            }
        }
        let entries: Vec<String> = carried.iter().map(|(carry, _)| entries[carry].clone()).collect();
        let called = |ids: &mut dyn Iterator<Item = StepId>| ids.map(|id| self.called[&id].clone()).collect();
        let scan = Loop {
            times: plan.program.repeats[body].times,
            carried: called(&mut carried.iter().map(|(carry, _)| *carry)),
            stacked: self.stacked.iter().filter(|(of, _)| *of == body).map(|(_, name)| name.clone()).collect(),
        };
        self.body = Some(body);
        // What an iteration hands on is needed to its end, and after the loop as long as others need it.
        let after: Vec<Option<StepId>> =
            carried.iter().map(|(_, end)| self.needed.insert(*end, None).flatten()).collect();
        self.lines.open_loop(&scan);
        for id in steps.iter().copied().filter(|id| !before.contains(id)) {
            self.step(id);
        }
        let ends: Vec<String> = carried.iter().map(|(_, end)| self.called[end].clone()).collect();
        self.lines.close_loop(&scan, &entries, &ends);
        self.body = None;
        self.written.insert(body);
        for (((_, end), name), after) in carried.into_iter().zip(scan.carried).zip(after).rev() {
            let name = self.names.give(&name, end, |owner| plan.body(*owner) == Some(body));
            self.called.insert(end, name);
            self.needed.insert(end, after);
        }
    }

    fn step(&mut self, id: StepId) {
        let plan = self.plan;
        let step = plan.step(id);
        let (layout, mesh) = (&step.layout, &plan.program.mesh);
        let ids = plan.operands(id);
        let operands: Vec<Operand> =
            ids.iter().map(|operand| (self.called[operand].clone(), plan.step(*operand).layout.dtype)).collect();
        if let StepOp::Collective(collective) = &step.op {
            let from = &plan.step(ids[0]).layout;
            let note = format!("{}: {} -> {}", plan.op_name(id), plan.array(ids[0]), plan.array(id));
            let mut x = operands[0].0.clone();
            for (place, word) in words(collective, from, mesh, Vocabulary::Jax).iter().enumerate() {
                let value = collective::call(word, &x, layout.dtype, mesh);
                let name = if place == 0 { self.named(id) } else { x };
                let note = if place == 0 { note.as_str() } else { "" };
                self.lines.add_of(plan.span(id), &format!("{name} = {value}"), note);
                x = name;
            }
        }
        let start =
            filled(plan, id).map(|(axes, length)| format!("lax.axis_index({}) * {length}", text::axes(axes, mesh)));
        let lanes = Lanes { start, rank: layout.dims.len() };
        let value = match (&step.op, self.rows.get(&id)) {
            (StepOp::Product { einsum }, Some(rows)) => {
                let called = |id: StepId| self.called[&id].as_str();
                let Rows { axis, order, .. } = rows;
                let (table, places) = (called(rows.table), called(rows.places));
                // JAX mixes no 4-bit integers with others.
                let dtype = plan.step(rows.numbers).layout.dtype;
                let numbers = expression::as_dtype(called(rows.numbers), dtype, dtype.in_bytes());
                let taken =
                    format!("rows_of({table}, {numbers}, {places}, {axis}).astype({})", text::dtype(layout.dtype));
                Some(expression::transposed(&taken, order, &einsum.result))
            }
            _ => {
                let of =
                    |id: &StepId| plan.step(*id).layout.dims.iter().map(|dim| plan.program.dims.name(dim.id)).collect();
                let names: Vec<Vec<String>> = ids.iter().map(of).collect();
                expression::value(&step.op, &operands, &names, layout.dtype, &lanes, &self.kernels)
            }
        };
        let Some(value) = value else { return };
        let name = self.named(id);
        if name != value {
            self.lines.add_of(plan.span(id), &format!("{name} = {value}"), &plan.array(id));
        }
    }

    fn returned(&mut self) {
        let plan = self.plan;
        let piece = |id: &StepId| {
            let name = &self.called[id];
            if pieces(&plan.step(*id).layout).is_some() { format!("{name}[None]") } else { name.clone() }
        };
        let line = format!("return {}", plan.outputs.iter().map(piece).join(", "));
        self.lines.add(&line);
    }
}
