//! Steps of a plan as lines of a program.

use crate::collective::Collective;
use crate::diag::{Edit, Fix};
use crate::dtype::DType;
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::layout::Layout;
use crate::operator::Operator;
use crate::plan::{Plan, StepId, StepOp};
use crate::program::{Definition, ValueId};
use crate::span::Span;
use std::collections::{BTreeSet, HashMap};

/// Writes statements of a plan anew.
pub(super) struct Speller<'a> {
    plan: &'a Plan,
    /// The statement of each value.
    statements: Vec<Span>,
    /// What a step is called in the lines so far, and as which value.
    names: HashMap<StepId, (ValueId, String)>,
    /// All names of arrays.
    taken: BTreeSet<String>,
}

impl<'a> Speller<'a> {
    pub(super) fn new(plan: &'a Plan) -> Speller<'a> {
        let values = &plan.program.values;
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|value| (values[*value].span.start, std::cmp::Reverse(values[*value].span.end)));
        // Spans nest or lie apart: the outermost is the statement.
        let mut statements = vec![Span::default(); values.len()];
        let mut outer = Span::default();
        for value in order {
            let own = values[value].span;
            if own.end > outer.end {
                outer = own;
            }
            statements[value] = outer;
        }
        let taken = values.iter().filter_map(|value| value.name.clone()).collect();
        Speller { plan, statements, names: HashMap::new(), taken }
    }

    /// The statements that do something, in order.
    pub(super) fn statements(&self) -> BTreeSet<Span> {
        self.plan.ids().filter_map(|id| self.statement(id)).collect()
    }

    /// The statement that needs a step.
    pub(super) fn statement(&self, id: StepId) -> Option<Span> {
        self.plan.is_done(id).then(|| self.statements[self.plan.step(id).user.index()])
    }

    /// The moves that a step is or rests on, and that no line says: its own, or one that was done for another statement.
    pub(super) fn needs(&self, id: StepId) -> Vec<StepId> {
        if self.plan.is_unwritten(id) {
            return vec![id];
        }
        let others = self.plan.operands(id).into_iter().filter(|operand| {
            let step = self.plan.step(*operand);
            step.user != step.value && self.statement(*operand) != self.statement(id)
        });
        others.flat_map(|operand| self.needs(operand)).collect()
    }

    /// The lines of a statement, given its steps, and those that belong before the block it stands in.
    ///
    /// `None` where an operand has no name.
    pub(super) fn lines(&mut self, statement: Span, steps: &[StepId]) -> Option<Vec<Fix>> {
        let (mut own, mut before): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let block = steps.iter().find_map(|id| {
            let body = self.plan.program.body_of(self.plan.step(*id).user)?;
            Some(self.plan.program.repeats[body].span)
        });
        own.extend(self.inputs(statement));
        for id in steps {
            let outside = block.is_some() && self.plan.body(*id).is_none();
            let lines = self.step(*id, statement)?;
            if outside { &mut before } else { &mut own }.extend(lines);
        }
        own.extend(self.renamed(statement, steps));
        let mut fixes = Vec::new();
        if let Some(block) = block.filter(|_| !before.is_empty()) {
            let start = Span { end: block.start, ..block };
            fixes.push(Fix { edit: Edit::Replace(start), text: format!("{}\n", before.join("\n")) });
        }
        fixes.push(Fix { edit: Edit::Statement, text: own.join("\n") });
        Some(fixes)
    }

    /// The name that a statement gives to a result of its steps by renaming its dims, which is no step.
    fn renamed(&mut self, statement: Span, steps: &[StepId]) -> Option<String> {
        let program = &self.plan.program;
        let is_result = |id: &ValueId| program.value(*id).name.is_some() && program.value(*id).span == statement;
        let result = program.value_ids().filter(is_result).last()?;
        let step_of = |id: ValueId| steps.iter().rfind(|step| self.plan.step(**step).value == id).copied();
        let mut value = result;
        while let (None, Definition::Rename { operand }) = (step_of(value), &program.value(value).definition) {
            value = *operand;
        }
        let step = step_of(value).filter(|_| value != result)?;
        let text = self.name(result, step, statement)?;
        let name = self.result_name(result);
        let line = format!("{name}{} = {text}", self.brackets(result, step));
        self.names.insert(step, (result, name));
        Some(line)
    }

    /// Declarations of the inputs that the statement declares by using them.
    fn inputs(&mut self, statement: Span) -> Vec<String> {
        let plan = self.plan;
        let inputs = plan.ids().filter(|id| plan.step(*id).op == StepOp::Input);
        let inputs: Vec<StepId> =
            inputs.filter(|id| self.statements[plan.step(*id).value.index()] == statement).collect();
        let mut lines = Vec::new();
        for id in inputs {
            let value = plan.step(id).value;
            let known = plan.program.value(value).name.clone();
            let name = known.unwrap_or_else(|| {
                let name = self.fresh("A");
                self.names.insert(id, (value, name.clone()));
                name
            });
            lines.push(format!("{name}: {}{}", plan.program.value(value).dtype, self.brackets(value, id)));
        }
        lines
    }

    fn step(&mut self, id: StepId, statement: Span) -> Option<Vec<String>> {
        let step = self.plan.step(id);
        match &step.op {
            StepOp::Input | StepOp::Carry => Some(Vec::new()),
            StepOp::Collective(collective) => self.collective(id, collective, statement),
            StepOp::Map { function: Function::Fill { .. }, .. } => {
                // The compiler fills again.
                let operand = *self.plan.program.value(step.value).definition.operands().first()?;
                let name = self.name(operand, *self.plan.operands(id).first()?, statement)?;
                self.names.insert(id, (step.value, name));
                Some(Vec::new())
            }
            StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => {
                let operands = self.plan.operands(id);
                let values = self.plan.program.value(step.value).definition.operands().to_vec();
                let names = values.iter().zip(&operands).map(|(value, step)| self.name(*value, *step, statement));
                let names: Vec<String> = names.collect::<Option<_>>()?;
                let text = self.operation(step.value, &names)?;
                let name = self.result_name(step.value);
                let line = self.assignment(id, step.value, &name, &text);
                self.names.insert(id, (step.value, name));
                Some(vec![line])
            }
        }
    }

    fn collective(&mut self, id: StepId, collective: &Collective, statement: Span) -> Option<Vec<String>> {
        let step = self.plan.step(id);
        let operand = *self.plan.operands(id).first()?;
        let mut lines = Vec::new();
        let mut name = self.name(step.value, operand, statement)?;
        let users = |step: StepId| self.plan.steps.neighbors(step).count();
        let is_slice = matches!(collective, Collective::Slice { .. });
        let computes = |user: StepId| !matches!(self.plan.step(user).op, StepOp::Collective(_));
        if is_slice && self.plan.steps.neighbors(id).all(computes) && users(id) > 0 && step.user != step.value {
            // Who computes with it slices it again.
            self.names.insert(id, (step.value, name));
            return Some(lines);
        }
        let from =
            Layout { dims: self.plan.program.value(step.value).dims.clone(), ..self.plan.step(operand).layout.clone() };
        let brackets = self.brackets(step.value, operand);
        if name.contains('(') {
            let plain = self.result_name(step.value);
            lines.push(format!("{plain}{brackets} = {name}"));
            self.names.insert(operand, (step.value, plain.clone()));
            name = plain;
        }
        let (mesh, dims) = (&self.plan.program.mesh, &self.plan.program.dims);
        let called = collective.name(&from.sharding, mesh, |dim| dims.name(from.dims[dim].id));
        let head = match collective {
            Collective::Permute { .. } | Collective::Slice { .. } => format!("{name}{brackets}"),
            Collective::AllGather { .. }
            | Collective::ReduceScatter { .. }
            | Collective::AllReduce { .. }
            | Collective::AllToAll { .. }
            | Collective::Broadcast { .. }
            | Collective::Open { .. } => format!("{called}({name}{brackets})"),
        };
        // A name of its own lines can be bound again; that of an array from elsewhere keeps its meaning.
        let ours = self.names.contains_key(&operand) && users(operand) == 1;
        let own = self.is_root(step.value) && step.user == step.value;
        let new = if ours || own { self.result_or(step.value, &name, own) } else { self.fresh(&name) };
        let using = self.plan.program.value(step.user).method;
        let using = using.map_or_else(String::new, |method| format!(" using {}", method.name()));
        lines.push(format!("{head} -> {new}{}{using}", self.brackets(step.value, id)));
        self.names.insert(id, (step.value, new));
        Some(lines)
    }

    fn result_or(&mut self, value: ValueId, name: &str, own: bool) -> String {
        if own { self.result_name(value) } else { name.to_owned() }
    }

    /// What an operand is called, or what it is made of by renaming.
    fn name(&self, value: ValueId, step: StepId, statement: Span) -> Option<String> {
        let known = self.names.get(&step);
        let dims = |value: ValueId| &self.plan.program.value(value).dims;
        if let Some((_, name)) = known.filter(|(as_value, _)| dims(*as_value) == dims(value)) {
            return Some(name.clone());
        }
        let definition = &self.plan.program.value(value).definition;
        let elsewhere = self.statements[value.index()] != statement || *definition == Definition::Input;
        if elsewhere
            && known.is_none()
            && let Some(name) = self.bound(value, statement)
        {
            return Some(name);
        }
        match definition {
            Definition::Rename { operand } => {
                let inner = self.name(*operand, step, statement)?;
                let changed = dims(*operand).iter().zip(dims(value)).find(|(old, new)| old != new)?;
                let [old, new] = [changed.0, changed.1].map(|dim| self.plan.program.dims.name(dim.id));
                Some(format!("rename_{{{old}->{new}}}({inner})"))
            }
            // The step before a collective that stands inside an expression.
            Definition::Move { operand, .. } | Definition::Collective { operand, .. } => {
                self.name(*operand, step, statement)
            }
            Definition::Input | Definition::Product { .. } | Definition::Reduce { .. } | Definition::Map { .. } => None,
        }
    }

    /// The name of a value, if it means that value at the statement.
    fn bound(&self, value: ValueId, statement: Span) -> Option<String> {
        let values = &self.plan.program.values;
        let name = values[value.index()].name.clone()?;
        let before = |id: &usize| values[*id].span.start < statement.start || *id <= value.index();
        let last = (0..values.len()).filter(before).rfind(|id| values[*id].name.as_ref() == Some(&name));
        (last == Some(value.index())).then_some(name)
    }

    /// Whether the value is what its statement is about.
    fn is_root(&self, value: ValueId) -> bool {
        self.plan.program.value(value).span == self.statements[value.index()]
    }

    fn result_name(&mut self, value: ValueId) -> String {
        match &self.plan.program.value(value).name {
            Some(name) if self.is_root(value) => name.clone(),
            Some(_) | None => self.fresh("T"),
        }
    }

    /// A name that nothing has.
    fn fresh(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while self.taken.contains(&name) {
            name.push('\'');
        }
        self.taken.insert(name.clone());
        name
    }

    /// An array with its layout; one without a name has brackets only.
    pub(super) fn array(&self, id: StepId) -> String {
        let value = self.plan.step(id).value;
        let name = self.plan.program.value(value).name.as_deref().unwrap_or_default();
        format!("{name}{}", self.brackets(value, id))
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
            Definition::Input
            | Definition::Reduce { .. }
            | Definition::Map { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => false,
        };
        let dtype = if asked { format!(": {}", program.value(value).dtype) } else { String::new() };
        format!("{name}{dtype}{} = {text}", self.brackets(value, id))
    }

    /// The right side of a line.
    fn operation(&self, value: ValueId, names: &[String]) -> Option<String> {
        let program = &self.plan.program;
        let truths = program.value(value).dtype == DType::Bool;
        let dim = |place: usize| program.dims.name(program.value(value).dims[place].id);
        Some(match (&program.value(value).definition, names) {
            (Definition::Product { local, .. }, [a, b]) => format!("{a} {} {b}", if *local { "*_LOCAL" } else { "*" }),
            (Definition::Reduce { operator, operand }, [a]) => {
                let word = match operator {
                    Operator::Sum => "sum",
                    Operator::Max => "max",
                    Operator::Min => "min",
                    Operator::Mul
                    | Operator::And
                    | Operator::Or
                    | Operator::Mean
                    | Operator::SquareAdd
                    | Operator::Root => return None,
                };
                let kept = &program.value(value).dims;
                let gone = program.value(*operand).dims.iter().filter(|dim| !kept.contains(dim));
                let gone: Vec<String> = gone.map(|dim| program.dims.name(dim.id)).collect();
                format!("{word}_{{{}}}({a})", gone.join(","))
            }
            (Definition::Map { function, .. }, [a, b]) => match function {
                Function::Binary(Binary::Add) => format!("{a} + {b}"),
                Function::Binary(Binary::Sub) => format!("{a} - {b}"),
                Function::Binary(Binary::Div) => format!("{a} / {b}"),
                Function::Binary(Binary::Larger) if truths => format!("or({a}, {b})"),
                Function::Binary(Binary::Smaller) if truths => format!("and({a}, {b})"),
                Function::Binary(Binary::Larger) => format!("max({a}, {b})"),
                Function::Binary(Binary::Smaller) => format!("min({a}, {b})"),
                Function::Masked(Scalar(c)) => format!("where({a}, {b}, {c})"),
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
                Function::Over(n) => format!("{a} / {n}"),
                Function::Softmax { dim: place } => format!("softmax_{}({a})", dim(usize::from(*place))),
                Function::Cast(dtype) => format!("{dtype}({a})"),
                other => format!("{}({a})", other.word()),
            },
            (Definition::Move { .. } | Definition::Rename { .. }, [a]) => a.clone(),
            (_, _) => return None,
        })
    }
}
