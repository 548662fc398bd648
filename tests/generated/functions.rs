//! Functions: `def` and `kernel`, and their calls.

use super::expressions::Expression;
use super::model::{Range, Type, Value};
use super::program::Writer;
use shardc::dtype::DType;

/// The most that the arguments of a function without fixed dims are.
const MOST: f64 = 64.0;

/// A declared function.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    name: String,
    takes: Takes,
    /// Whether its last parameter is a number.
    scaled: bool,
}

#[derive(Clone, Debug)]
enum Takes {
    /// Arrays of these types, and the type of the result.
    Exactly(Vec<Type>, Box<Type>),
    /// One float array with a number of dims; the last one may be reduced in between.
    AnyDims(usize),
}

fn fits(parameter: &Type, given: &Type) -> bool {
    given.open.is_none()
        && given.dtype == parameter.dtype
        && given.dims == parameter.dims
        && given.range.most <= parameter.range.most
        && given.range.exact >= parameter.range.exact
}

impl Writer<'_> {
    /// A call of a function, whose first argument is an expression.
    pub(crate) fn call(&mut self, operand: &Expression) -> Option<Expression> {
        let kind = &operand.kind;
        if kind.open.is_some() {
            return None;
        }
        let known: Vec<usize> = (0..self.functions.len())
            .filter(|place| match &self.functions[*place].takes {
                Takes::Exactly(parameters, ..) => fits(&parameters[0], kind),
                Takes::AnyDims(dims) => is_any(kind, *dims),
            })
            .collect();
        let place = if !known.is_empty() && (self.inside || self.choices.chance(2, 3)) {
            self.choices.one(&known)
        } else if self.inside {
            return None;
        } else if is_any(kind, kind.dims.len()) && self.choices.chance(1, 4) {
            if self.choices.chance(1, 2) {
                self.kernel_for_any(kind.dims.len())
            } else {
                self.define_for_any(kind.dims.len())
            }
        } else {
            self.define(kind)
        };
        let Function { name, takes, scaled } = self.functions[place].clone();
        let mut arguments = vec![operand.text.clone()];
        let result = match takes {
            Takes::AnyDims(_) => {
                let range = Range { most: kind.range.most + 1.0, exact: false };
                Type { layout: None, range, ..kind.clone() }
            }
            Takes::Exactly(parameters, result) => {
                for parameter in &parameters[1..] {
                    let place =
                        if self.choices.chance(2, 3) { self.pick(|given| fits(parameter, given)) } else { None };
                    let argument = match place {
                        Some(place) => self.used(place),
                        // The range of an input is at most that of any parameter.
                        None => self.fresh(parameter.dtype, &parameter.dims).0,
                    };
                    arguments.push(argument);
                }
                *result
            }
        };
        if scaled {
            arguments.push(self.choices.one(&["0.5", "1", "-1"]).to_owned());
        }
        Some(Expression::atom(format!("{name}({})", arguments.join(", ")), result))
    }

    fn function_name(&mut self) -> String {
        let names = ["f", "layer", "my_norm", "g2", "step"];
        let count = self.functions.len();
        format!("{}{}", names[count % names.len()], if count < names.len() { String::new() } else { count.to_string() })
    }

    /// Declares a function for an argument of this type, and perhaps a second one.
    fn define(&mut self, first: &Type) -> usize {
        let name = self.function_name();
        let mut parameters = vec![Type {
            layout: None,
            range: Range { most: first.range.most.max(1.0), ..first.range },
            ..first.clone()
        }];
        if self.choices.chance(1, 2) {
            let dims = self.some_dims(0);
            let range = Range { most: 4.0, exact: true };
            parameters.push(Type { dtype: first.dtype, dims, layout: None, open: None, range });
            if first.dtype == DType::Bool {
                parameters[1].range.most = 1.0;
            }
        }
        let names = ["x", "w"];
        let mut head = Vec::new();
        for (name, kind) in names.iter().zip(&parameters) {
            // In brackets the dims of a parameter have names of their own, here the same.
            let dims: Vec<&str> = kind.dims.iter().map(|dim| self.dims.list[*dim].name.as_str()).collect();
            let dims = dims.join(", ");
            let dtype = if self.choices.chance(1, 3) { format!(": {}", kind.dtype) } else { String::new() };
            head.push(match self.choices.chance(1, 2) {
                true => format!("{name}{dtype}[{dims}]"),
                false => (*name).to_owned(),
            });
        }
        let named = |(name, kind): (&str, &Type)| Value { name: name.to_owned(), kind: kind.clone(), computed: true };
        let values = names.into_iter().zip(&parameters).map(named).collect();
        let outer = (
            std::mem::replace(&mut self.values, values),
            std::mem::take(&mut self.lines),
            std::mem::take(&mut self.numbers),
            std::mem::replace(&mut self.indent, 1),
            std::mem::take(&mut self.outside),
        );
        self.inside = true;
        for _ in 0..2 {
            let open = self.choices.open();
            let more = self.choices.chance(1, 2);
            if more {
                self.statement(1);
            }
            self.choices.close(open);
            if !more {
                break;
            }
        }
        let mut result = self.expression(2);
        if result.by_hand {
            // A collective is a statement of its own. A parameter may have been bound again.
            result = Expression::atom("x".to_owned(), self.values[0].kind.clone());
        }
        let scaled = result.kind.dtype.is_float() && result.kind.open.is_none() && self.choices.chance(1, 5);
        if scaled {
            head.push("k".to_owned());
            result = result.becomes(format!("k * {}", result.inner()), result.kind.range.most, false);
        }
        self.line(&format!("return {}", result.text));
        let body = std::mem::replace(&mut self.lines, outer.1);
        (self.values, self.numbers, self.indent, self.outside) = (outer.0, outer.2, outer.3, outer.4);
        self.inside = false;
        self.defs.push(format!("def {name}({}) {{", head.join(", ")));
        self.defs.extend(body);
        self.defs.push("}".to_owned());
        let kind = Type { layout: None, ..result.kind };
        self.functions.push(Function { name, takes: Takes::Exactly(parameters, Box::new(kind)), scaled });
        self.functions.len() - 1
    }

    /// Declares a function for arrays with any dims.
    fn define_for_any(&mut self, dims: usize) -> usize {
        let name = self.function_name();
        let names = ["R", "U", "E", "G"];
        let dims_text = names[..dims].join(", ");
        let (last, rest) = (names[dims - 1], names[..dims - 1].join(", "));
        let to = if dims == 1 || self.choices.chance(1, 2) { String::new() } else { format!("[{rest}]_?") };
        let body = match self.choices.below(5) {
            0 => vec!["return relu(x)".to_owned()],
            1 => vec![format!("m{to} = mean_{last}(x ** 2)"), "return x .* rsqrt(m + 1)".to_owned()],
            2 => vec![format!("return softmax_{last}(x)")],
            3 => vec!["y = 0.5 * tanh(x)".to_owned(), format!("return y - max_{last}(y)")],
            _ => vec![
                "y = 0.5 * x".to_owned(),
                "repeat 2 {".to_owned(),
                format!("    s: f32[{last}]"),
                format!("    y[{dims_text}]_? = 0.5 * y + tanh(y .* s) / 4"),
                "}".to_owned(),
                "return f32(y) / 2".to_owned(),
            ],
        };
        self.defs.push(format!("def {name}(x[{dims_text}]) {{"));
        self.defs.extend(body.into_iter().map(|line| format!("    {line}")));
        self.defs.push("}".to_owned());
        self.functions.push(Function { name, takes: Takes::AnyDims(dims), scaled: false });
        self.functions.len() - 1
    }
}

impl Writer<'_> {
    /// Declares a kernel for arrays with any dims. It works on the elements of a dim that it shards alone.
    fn kernel_for_any(&mut self, dims: usize) -> usize {
        let name = format!("kernel_{}", self.function_name());
        let names = &["R", "U", "E", "G"][..dims];
        let last = names[dims - 1];
        let (reference, mixes) = match self.choices.below(4) {
            0 => ("relu(x)".to_owned(), false),
            1 => (format!("softmax_{last}(x)"), true),
            2 => (format!("x .* rsqrt(mean_{last}(x ** 2) + 1)"), true),
            _ => ("0.5 * tanh(x) + x / 4".to_owned(), false),
        };
        let may_be_sharded = &names[..dims - usize::from(mixes)];
        let sharded: Vec<&str> = may_be_sharded.iter().copied().filter(|_| self.choices.chance(2, 3)).collect();
        let mut text = format!("kernel {name}(x[{all}]) -> [{all}]", all = names.join(", "));
        if !sharded.is_empty() {
            text += &format!(", shard {}", sharded.join(", "));
        }
        let size = names.join("*");
        text += &match self.choices.below(4) {
            0 => String::new(),
            1 => format!(", flops 3*{size}"),
            2 => format!(", bytes 8*{size}"),
            _ => format!(", flops 100*{size}, bytes {size} + 8"),
        };
        self.defs.push(format!("{text}, reference {reference}"));
        self.functions.push(Function { name, takes: Takes::AnyDims(dims), scaled: false });
        self.functions.len() - 1
    }
}

/// Whether a function for any dims takes an argument.
fn is_any(kind: &Type, dims: usize) -> bool {
    kind.dtype == DType::F32
        && kind.open.is_none()
        && kind.dims.len() == dims
        && (1..=4).contains(&dims)
        && kind.range.most <= MOST
}
