//! A plan as StableHLO with Shardy shardings: either of whole arrays, for a compiler to partition, or of the
//! computation on each device, with the plan's own collectives.
//!
//! Operations: <https://openxla.org/stablehlo/spec>, shardings: <https://openxla.org/shardy/sdy_dialect>. Repeats are
//! unrolled.

mod collective;
mod device;
pub(super) mod emit;
mod math;
mod whole;

use crate::escape;
use crate::export::source;
use crate::export::words::{Generated, declared, generated, given, padded, pieces};
use crate::layout::Layout;
use crate::mesh::Axes;
use crate::plan::{Plan, StepId};
use crate::program::ValueId;
use crate::span::Span;
use emit::{Emitter, Number, Tensor, list, tensor};
use itertools::Itertools;

/// Contents of the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Emit the computation of each device instead of whole arrays.
    pub manual: bool,
}

/// The module of a plan whose repeats are unrolled; `source` is the text of its program.
pub fn module(plan: &Plan, source: &str, options: Options) -> String {
    let mut module = Module { plan, source, emit: Emitter::default(), last: None };
    let mesh = &plan.program.mesh;
    let devices = mesh.device_count();
    module.emit.open(&format!(
        "module @shardc attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{"
    ));
    let axes = mesh.axes().iter().map(|axis| format!("{}={}", escape::mlir_string(&axis.name), axis.size)).join(", ");
    module.emit.line(&format!("sdy.mesh @mesh = <[{axes}]>"));
    let arguments = module.head(options);
    let outputs = if options.manual { module.manual(&arguments) } else { module.whole(&arguments) };
    let names = outputs.iter().map(|output| output.name.as_str()).join(", ");
    let types = outputs.iter().map(Tensor::of).join(", ");
    module.emit.line(&format!("return {names} : {types}"));
    module.emit.close("}");
    module.emit.close("}");
    module.emit.text
}

struct Module<'a> {
    plan: &'a Plan,
    source: &'a str,
    emit: Emitter,
    /// Position of the last line's statement.
    last: Option<usize>,
}

impl Module<'_> {
    fn inputs(&self) -> Vec<StepId> {
        given(self.plan)
    }

    /// An array that each device makes by itself, without padding.
    fn generated(&mut self, id: ValueId) -> Option<Tensor> {
        let program = &self.plan.program;
        let value = program.value(id);
        Some(match generated(program, id)? {
            Generated::Places(length) => {
                let places = self.emit.iota(0, &[length]);
                self.emit.convert(&places, value.dtype)
            }
            Generated::Table(table) => {
                let shape: Vec<u64> = value.dims.iter().map(|dim| program.dims.size(dim.id)).collect();
                self.emit.table(table, &shape)
            }
        })
    }

    fn layout(&self, id: StepId) -> &Layout {
        &self.plan.step(id).layout
    }

    /// A sharding: `<@mesh, [{"X"}, {}]>`.
    fn sharding(&self, layout: &Layout) -> String {
        let mesh = &self.plan.program.mesh;
        let dim = |axes: &Axes| {
            format!("{{{}}}", axes.iter().map(|axis| escape::mlir_string(&mesh.axis(axis).name)).join(", "))
        };
        let in_front = pieces(layout);
        format!("<@mesh, [{}]>", in_front.iter().chain(&layout.sharding.dims).map(dim).join(", "))
    }

    /// Sharding attribute of an argument or result. Dims that are not divisible are left to the compiler.
    fn marked(&self, layout: &Layout) -> String {
        let shape = declared(self.plan, layout);
        let mark = format!(" {{sdy.sharding = #sdy.sharding{}}}", self.sharding(layout));
        let mark = if shape == padded(self.plan, layout) { mark.as_str() } else { "" };
        format!("{}{mark}", tensor(&shape, layout.dtype))
    }

    /// Emits the function's signature. Returns its arguments.
    fn head(&mut self, options: Options) -> Vec<Tensor> {
        let inputs = self.inputs();
        let arguments: Vec<Tensor> = inputs
            .iter()
            .enumerate()
            .map(|(place, id)| {
                let layout = self.layout(*id);
                Tensor { name: format!("%arg{place}"), shape: declared(self.plan, layout), dtype: layout.dtype }
            })
            .collect();
        let marked = inputs.iter().zip(&arguments);
        let marked =
            marked.map(|(id, argument)| format!("{}: {}", argument.name, self.marked(self.layout(*id)))).join(", ");
        // Whole arrays have no open sum.
        let closed = |layout: &Layout| Layout { sharding: layout.sharding.clone().closed(), ..layout.clone() };
        let results = self.plan.outputs.iter().map(|id| match options.manual {
            true => self.marked(self.layout(*id)),
            false => self.marked(&closed(self.layout(*id))),
        });
        let results = results.collect::<Vec<_>>().join(", ");
        for (id, argument) in inputs.iter().zip(&arguments) {
            let line = format!("// {} is {}", argument.name, escape::line(&self.plan.array(*id)));
            self.emit.line(&line);
        }
        self.emit.open(&format!("func.func public @main({marked}) -> ({results}) {{"));
        arguments
    }

    /// Emits a comment with the statement of the following lines, once per statement.
    fn tell(&mut self, statement: Span) {
        let (number, text) = source::line(self.source, statement);
        if self.last != Some(number) {
            self.last = Some(number);
            self.emit.line(&format!("// {number}: {}", escape::line(text)));
        }
    }

    /// Emits the manual computation of each device.
    fn manual(&mut self, arguments: &[Tensor]) -> Vec<Tensor> {
        let inputs = self.inputs();
        let layouts: Vec<Layout> = inputs.iter().map(|id| self.layout(*id).clone()).collect();
        let given: Vec<Tensor> =
            arguments.iter().zip(&layouts).map(|(argument, layout)| self.pad(argument, layout)).collect();
        let outputs: Vec<Layout> = self.plan.outputs.iter().map(|id| self.layout(*id).clone()).collect();
        let mesh = &self.plan.program.mesh;
        let axes = mesh.axes().iter().map(|axis| escape::mlir_string(&axis.name)).join(", ");
        let local: Vec<Tensor> = layouts
            .iter()
            .map(|layout| {
                let piece = pieces(layout).map(|_| 1);
                let shape = piece.into_iter().chain(layout.local_extents(mesh)).collect();
                Tensor { name: self.emit.fresh().replace('%', "%shard"), shape, dtype: layout.dtype }
            })
            .collect();
        let name = self.emit.fresh();
        let count = if outputs.len() == 1 { String::new() } else { format!(":{}", outputs.len()) };
        let shardings = |layouts: &[Layout]| layouts.iter().map(|layout| self.sharding(layout)).join(", ");
        let head = format!(
            "{name}{count} = sdy.manual_computation({}) in_shardings=[{}] out_shardings=[{}] manual_axes={{{axes}}} ({}) {{",
            given.iter().map(|tensor| tensor.name.as_str()).join(", "),
            shardings(&layouts),
            shardings(&outputs),
            local.iter().map(|tensor| format!("{}: {}", tensor.name, tensor.of())).join(", "),
        );
        self.emit.open(&head);
        let made = self.device(&local);
        let names = made.iter().map(|tensor| tensor.name.as_str()).join(", ");
        self.emit.line(&format!("sdy.return {names} : {}", made.iter().map(Tensor::of).join(", ")));
        let whole: Vec<Tensor> = outputs
            .iter()
            .enumerate()
            .map(|(place, layout)| {
                let name = if outputs.len() == 1 { name.clone() } else { format!("{name}#{place}") };
                Tensor { name, shape: padded(self.plan, layout), dtype: layout.dtype }
            })
            .collect();
        let types = |tensors: &[Tensor]| tensors.iter().map(Tensor::of).join(", ");
        let results = if whole.len() == 1 { types(&whole) } else { format!("({})", types(&whole)) };
        self.emit.close(&format!("}} : ({}) -> {results}", types(&given)));
        whole.iter().zip(&outputs).map(|(tensor, layout)| self.cut(tensor, layout)).collect()
    }

    fn pad(&mut self, argument: &Tensor, layout: &Layout) -> Tensor {
        let to = padded(self.plan, layout);
        if argument.shape == to {
            return argument.clone();
        }
        let zero = self.emit.constant(Number::Is(0.0), &[], layout.dtype);
        let none = list(to.iter().map(|_| 0));
        let high = list(to.iter().zip(&argument.shape).map(|(to, from)| to - from));
        let rest = format!("low = {none}, high = {high}, interior = {none}");
        self.emit.typed("pad", &[argument, &zero], &rest, (&to, layout.dtype))
    }

    fn cut(&mut self, tensor: &Tensor, layout: &Layout) -> Tensor {
        let to = declared(self.plan, layout);
        if tensor.shape == to {
            return tensor.clone();
        }
        let ranges = list(to.iter().map(|extent| format!("0:{extent}")));
        let text = format!(
            "stablehlo.slice {} {ranges} : ({}) -> {}",
            tensor.name,
            tensor.of(),
            emit::tensor(&to, layout.dtype)
        );
        self.emit.made(&text, &to, layout.dtype)
    }
}
