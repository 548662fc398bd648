//! Generates legal programs from choices.
//!
//! Written from the documentation only. The rules are implemented a second time here, so a program that the checker
//! refuses reveals an error in one of the two.

use super::choices::Choices;
use super::expressions::Expression;
use super::functions::Function;
use super::machine::{Dim, Dims, HARDWARE, Machine, Names, Size};
use super::model::{DTYPES, Open, Range, Sharding, Type, Value, brackets, combines, integers, room, subscript};
use super::modes::Modes;
use shardc::dtype::DType;
use shardc::mesh::DeviceId;
use shardc::method::Method;
use shardc::operator::Operator;

/// A legal program, and its options.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) source: String,
    pub(crate) modes: Modes,
    /// Whether links are down or slow, which schedules do not record.
    pub(crate) degraded: bool,
    /// Whether slow checks are included: the plan of the formatted text, and bounds.
    pub(crate) thorough: bool,
    /// Number of statements, with those of functions.
    pub(crate) statements: usize,
    pub(crate) devices: u64,
}

/// Maximum number of elements of an array.
pub(crate) const MOST_ELEMENTS: u64 = 2048;

/// A program under construction.
pub(crate) struct Writer<'c> {
    pub(crate) choices: &'c mut Choices,
    names: &'static Names,
    pub(crate) machine: Machine,
    pub(crate) dims: Dims,
    pub(crate) values: Vec<Value>,
    /// Named numbers that are in scope.
    pub(crate) numbers: Vec<(String, f64)>,
    /// Functions declared so far.
    pub(crate) functions: Vec<Function>,
    /// Whether the statements are those of a function.
    pub(crate) inside: bool,
    /// Names with a written collective, and that collective.
    expected: Vec<(String, String)>,
    pub(crate) lines: Vec<String>,
    pub(crate) defs: Vec<String>,
    pub(crate) indent: usize,
    named: usize,
    statements: usize,
    /// Values before this index are from outside the body and must not be rebound.
    pub(crate) outside: usize,
}

/// The program generated from these choices.
pub(crate) fn case(choices: &mut Choices, most: Size) -> Case {
    case_with(choices, most, &Names::USUAL)
}

/// The program generated from these choices, with these names.
pub(crate) fn case_with(choices: &mut Choices, most: Size, names: &'static Names) -> Case {
    let mut modes = Modes::new(choices);
    let thorough = choices.chance(1, 4);
    let set = choices.chance(1, 10);
    let machine = Machine::new(choices, most, names);
    let dims = Dims::new(choices, set, names);
    if !machine.beyond && choices.chance(1, 10) {
        modes.hardware = Some(choices.one(&HARDWARE).0);
    }
    modes.set.clone_from(&dims.set);
    let degraded = machine.degraded;
    let mut writer = Writer {
        choices,
        names,
        machine,
        dims,
        values: Vec::new(),
        numbers: Vec::new(),
        functions: Vec::new(),
        inside: false,
        expected: Vec::new(),
        lines: Vec::new(),
        defs: Vec::new(),
        indent: 0,
        named: 0,
        statements: 0,
        outside: 0,
    };
    writer.all(most);
    let Writer { machine, dims, lines, defs, statements, .. } = writer;
    let mut text =
        machine.lines.iter().chain(&dims.lines).chain(&defs).chain(&lines).cloned().collect::<Vec<_>>().join("\n");
    text.push('\n');
    Case { source: text, modes, degraded, thorough, statements, devices: machine.devices() }
}

impl Writer<'_> {
    fn all(&mut self, most: Size) {
        self.named_numbers();
        self.statement_input();
        while self.statements < most.statements {
            let open = self.choices.open();
            let more = self.choices.chance(7, 8);
            if more {
                self.statement(0);
            }
            self.choices.close(open);
            if !more {
                break;
            }
        }
        let outputs = self.outputs();
        self.wishes();
        // A name that is neither used nor an output is not computed.
        self.expected.retain(|(name, _)| outputs.as_ref().is_none_or(|outputs| outputs.contains(name)));
        if !self.expected.is_empty() && self.choices.chance(1, 2) {
            let (name, moves) = self.expected[0].clone();
            self.line(&format!("expect collectives {name} = [{moves}]"));
        }
    }

    /// Numbers with names.
    fn named_numbers(&mut self) {
        let open = self.choices.open();
        if self.choices.chance(1, 8) {
            let dim = self.choices.below(self.dims.list.len());
            let Dim { name, size, .. } = self.dims.list[dim].clone();
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let size = size as f64;
            let all = [
                ("c", "0.5".to_owned(), 0.5),
                ("n", "2".to_owned(), 2.0),
                ("eps", "1e-3".to_owned(), 1e-3),
                ("c", format!("1 / sqrt({name})"), 1.0 / size.sqrt()),
                ("n", "4 - 1".to_owned(), 3.0),
                ("n", name, size),
            ];
            let place = self.choices.below(all.len());
            let (word, text, number) = &all[place];
            self.line(&format!("{word} = {text}"));
            self.numbers.push(((*word).to_owned(), *number));
        }
        self.choices.close(open);
    }

    pub(crate) fn line(&mut self, text: &str) {
        let comment = if self.choices.chance(1, 40) { "  # why" } else { "" };
        self.lines.push(format!("{}{text}{comment}", "    ".repeat(self.indent)));
    }

    pub(crate) fn name(&mut self) -> String {
        let letters = self.names.arrays;
        let letter = letters[self.named % letters.len()];
        let round = self.named / letters.len();
        self.named += 1;
        match (round, self.choices.below(12)) {
            (0, 0) => format!("{letter}'"),
            (0, 1) => format!("{}_in", letter.to_lowercase()),
            (0, _) => letter.to_owned(),
            (round, _) => format!("{letter}{round}"),
        }
    }

    pub(crate) fn statement(&mut self, depth: usize) {
        self.statements += 1;
        match self.choices.below(25) {
            0..=3 => self.statement_input(),
            4..=6 => self.statement_move(),
            7..=11 => self.statement_product(),
            12..=13 => self.statement_collective(),
            14..=19 => self.statement_expression(),
            20 => self.statement_filled(),
            21 => self.statement_unnamed(),
            22 if depth < 2 => self.statement_sum(),
            23 => self.statement_table(),
            _ if depth < 2 => self.statement_repeat(depth),
            _ => self.statement_expression(),
        }
    }

    /// Random dims for an array, within the element limit.
    pub(crate) fn some_dims(&mut self, least: usize) -> Vec<usize> {
        let wanted = self.choices.one(&[2, 1, 2, 3, 0, 2]).max(least);
        let mut dims: Vec<usize> = Vec::new();
        let mut elements = 1;
        for _ in 0..wanted {
            let dim = self.choices.below(self.dims.list.len());
            let size = self.dims.list[dim].size;
            if !dims.contains(&dim) && elements * size <= MOST_ELEMENTS {
                elements *= size;
                dims.push(dim);
                let merged = self.dims.merged.as_ref().filter(|(_, k, _)| *k == dim).map(|(_, _, m)| *m);
                if let Some(m) = merged
                    && !dims.contains(&m)
                    && self.choices.chance(1, 2)
                {
                    dims.push(m);
                    elements *= self.dims.list[m].size;
                }
            }
        }
        dims
    }

    /// A random sharding of these dims that does not use these axes.
    pub(crate) fn sharding(&mut self, dims: &[usize], spent: &[usize]) -> Vec<Vec<usize>> {
        let mut axes = vec![Vec::new(); dims.len()];
        let mut free: Vec<usize> = (0..self.machine.leaves.len()).filter(|axis| !spent.contains(axis)).collect();
        while !free.is_empty() && !dims.is_empty() {
            let open = self.choices.open();
            let axis = free.remove(self.choices.below(free.len()));
            let place = self.choices.below(dims.len() + 2);
            if place > 1 {
                axes[place - 2].push(axis);
            }
            self.choices.close(open);
        }
        axes
    }

    fn written(&mut self, dims: &[usize], sharding: &Sharding) -> String {
        let axes: Vec<_> = sharding.axes.iter().cloned().map(Some).collect();
        brackets(self.choices, (&self.machine, &self.dims), dims, &axes, &sharding.open)
    }

    /// The brackets of a known layout.
    pub(crate) fn brackets_of(&mut self, kind: &Type) -> Option<String> {
        let layout = kind.layout.clone()?;
        Some(self.written(&kind.dims, &layout))
    }

    /// An input with its type: `bf16[I_X, J]{U_Y}`.
    pub(crate) fn input(&mut self) -> (String, Type) {
        let dtype = self.choices.one(&DTYPES);
        let least = self.choices.one(&[1, 1, 1, 0]);
        let dims = self.some_dims(least);
        let open = self.choices.open();
        let sum = if self.choices.chance(1, 4) { self.open_sum(dtype) } else { None };
        self.choices.close(open);
        let spent = sum.iter().flat_map(|(_, axes)| axes.clone()).collect::<Vec<_>>();
        let axes = self.sharding(&dims, &spent);
        let words = match dtype {
            DType::Bf16 => &["bf16", "bfloat16"],
            DType::F32 => &["f32", "float32"],
            DType::I4 => &["i4", "int4"],
            DType::U4 => &["u4", "uint4"],
            DType::I8 => &["i8", "int8"],
            DType::Bool => &["bool", "bool"],
            DType::I32 => &["i32", "int32"],
            DType::I64 => &["i64", "int64"],
            DType::F16 => &["f16", "float16"],
            DType::F64 => &["f64", "float64"],
            DType::F8E4M3 => &["f8e4m3", "float8_e4m3fn"],
            DType::F8E5M2 => &["f8e5m2", "float8_e5m2"],
            DType::I16 => &["i16", "int16"],
            DType::U8 => &["u8", "uint8"],
            DType::U16 => &["u16", "uint16"],
            DType::U32 => &["u32", "uint32"],
            DType::U64 => &["u64", "uint64"],
        };
        let word = if self.choices.chance(1, 10) { words[1] } else { words[0] };
        let most = match sum.as_ref().map(|(operator, _)| *operator) {
            None | Some(Operator::Root(_) | Operator::And | Operator::Or) => 4.0,
            Some(_) => 64.0,
        };
        let range =
            Range { most: if dtype == DType::Bool { 1.0 } else { most }, exact: sum.is_none() || !dtype.is_float() };
        let holes = sum.is_none() && !dims.is_empty() && self.choices.chance(1, 8);
        if holes {
            let all = self.choices.chance(1, 2);
            let axes: Vec<_> =
                axes.into_iter().map(|axes| (!all && self.choices.chance(1, 2)).then_some(axes)).collect();
            let text = brackets(self.choices, (&self.machine, &self.dims), &dims, &axes, &None);
            let layout = axes.iter().cloned().collect::<Option<Vec<_>>>().map(|axes| Sharding { axes, open: None });
            return (format!("{word}{text}"), Type { dtype, dims, layout, open: None, range });
        }
        let layout = Sharding { axes, open: sum.clone() };
        let text = self.written(&dims, &layout);
        (format!("{word}{text}"), Type { dtype, dims, layout: Some(layout), open: sum, range })
    }

    fn open_sum(&mut self, dtype: DType) -> Open {
        let operators: Vec<Operator> = [
            Operator::Sum,
            Operator::Root(DeviceId(0)),
            Operator::Max,
            Operator::Mean,
            Operator::Min,
            Operator::Mul,
            Operator::SquareAdd,
            Operator::And,
            Operator::Or,
        ]
        .into_iter()
        .filter(|operator| combines(*operator, dtype))
        .collect();
        let mut operator = self.choices.one(&operators);
        let first = self.choices.below(self.machine.leaves.len());
        let mut axes = vec![first];
        if self.machine.leaves.len() > 1 && self.choices.chance(1, 3) {
            let second = self.choices.below(self.machine.leaves.len());
            if second != first {
                axes.push(second);
            }
        }
        // Any device of one axis; the first one of two, of which a part may be closed.
        if let (Operator::Root(_), [axis]) = (operator, &axes[..]) {
            let size = usize::try_from(self.machine.leaves[*axis].size).expect("few devices");
            let root = u32::try_from(self.choices.below(size)).expect("few devices");
            operator = Operator::Root(DeviceId(root));
        }
        Some((operator, axes))
    }

    fn statement_input(&mut self) {
        let (text, kind) = self.input();
        let name = self.name();
        let donated = if self.choices.chance(1, 4) { " donated" } else { "" };
        self.line(&format!("{name}: {text}{donated}"));
        self.values.push(Value { name, kind, computed: false });
    }

    /// A new name for a value.
    pub(crate) fn bind_new(&mut self, kind: Type, computed: bool) -> String {
        let name = self.name();
        self.values.push(Value { name: name.clone(), kind, computed });
        name
    }

    /// An array with unnamed dims, and a function of it, or a move.
    fn statement_unnamed(&mut self) {
        if self.inside {
            return self.statement_input();
        }
        let axis = self.choices.below(self.machine.leaves.len());
        let [first, second] = self.choices.one(&[["8", "12"], ["16", "4"], ["1", "1k"], ["5", "3"]]);
        let (one, two) = (self.name(), self.name());
        let script = subscript(self.choices, &self.machine, &[axis]);
        let (from, to) = if self.choices.chance(1, 2) { (script.as_str(), "") } else { ("", script.as_str()) };
        self.line(&format!("{one}: bf16[{first}{from}, {second}]"));
        match self.choices.below(3) {
            0 => self.line(&format!("{one} -> {two}[{first}, {second}{to}]")),
            1 => self.line(&format!("{two}[{second}{to}, {first}] = tanh({one})")),
            _ => self.line(&format!("{two} = {one} + f32[{first}, {second}{to}]")),
        }
    }

    /// A sum over iterations that begins with 0.
    fn statement_sum(&mut self) {
        let mut dims = self.some_dims(2);
        dims.truncate(3);
        if dims.len() < 2 {
            return self.statement_expression();
        }
        let dtype = self.choices.one(&[DType::F32, DType::F64, DType::I32, DType::I64]);
        let summed = dims.pop().expect("two or more");
        let times = self.choices.one(&[2, 1, 3]);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let most = 16.0 * self.dims.list[summed].size as f64 * f64::from(times);
        let at = self.choices.below(dims.len() + 1);
        let (mut left, mut right) = (dims[..at].to_vec(), dims[at..].to_vec());
        left.push(summed);
        right.insert(0, summed);
        let free = self.choices.chance(1, 2);
        let axes = self.sharding(&dims, &[]);
        let layout = Sharding { axes, open: None };
        let range = Range { most, exact: true };
        let mut kind = Type { dtype, dims, layout: Some(layout), open: None, range };
        let brackets = self.brackets_of(&kind).unwrap_or_default();
        let name = self.name();
        let [one, two] = [self.name(), self.name()];
        self.line(&format!("{name}: {dtype}{brackets} = 0"));
        self.line(&format!("repeat {times} {{"));
        self.indent += 1;
        let [left, right] = [self.fresh(dtype, &left).0, self.fresh(dtype, &right).0];
        self.line(&format!("{one}: {left}"));
        self.line(&format!("{two}: {right}"));
        let to = if free { String::new() } else { self.brackets_of(&kind).unwrap_or_default() };
        let dim = self.dims.list[summed].name.clone();
        self.line(&format!("{name}{to} = {name} + {one} *_{dim} {two}"));
        self.indent -= 1;
        self.line("}");
        if free {
            kind.layout = None;
        }
        self.values.push(Value { name, kind, computed: true });
    }

    /// A random value that satisfies `fits`.
    pub(crate) fn pick(&mut self, fits: impl Fn(&Type) -> bool) -> Option<usize> {
        let list: Vec<usize> = (0..self.values.len()).rev().filter(|place| fits(&self.values[*place].kind)).collect();
        (!list.is_empty()).then(|| self.choices.one(&list))
    }

    /// A move of an array to another layout.
    fn statement_move(&mut self) {
        let Some(place) = self.pick(|_| true) else { return };
        let value = self.values[place].clone();
        let with_brackets = value.kind.layout.is_some() && self.choices.chance(1, 2);
        let source = match self.brackets_of(&value.kind).filter(|_| with_brackets) {
            Some(text) => format!("{}{text}", value.name),
            None => value.name.clone(),
        };
        let mut dims = value.kind.dims.clone();
        for place in (1..dims.len()).rev() {
            if self.choices.chance(1, 4) {
                let other = self.choices.below(place + 1);
                dims.swap(place, other);
            }
        }
        let open = self.kept_open(&value.kind.open);
        let spent: Vec<usize> = open.iter().flat_map(|(_, axes)| axes.clone()).collect();
        let axes = self.sharding(&dims, &spent);
        let rebound = place >= self.outside && self.choices.chance(1, 6);
        let name = if rebound { value.name.clone() } else { self.name() };
        let layout = Sharding { axes, open: open.clone() };
        let holes = open.is_none() && !dims.is_empty() && self.choices.chance(1, 10);
        // With a hole, the compiler decides whether the sum stays open.
        let open = if holes { value.kind.open.clone() } else { open };
        let kind = Type { dims, open, layout: Some(layout), ..value.kind };
        self.bind(&source, name, kind, holes, false, rebound.then_some(place));
    }

    /// The open sum, or a part of it that may stay open.
    fn kept_open(&mut self, open: &Open) -> Open {
        let (operator, axes) = open.clone()?;
        if !self.choices.chance(1, 3) {
            return None;
        }
        // Sums of squares are not squares, so a part of such a sum has another operator.
        if axes.len() > 1 && operator != Operator::SquareAdd && self.choices.chance(1, 3) {
            let kept = self.choices.below(axes.len());
            return Some((operator, vec![axes[kept]]));
        }
        Some((operator, axes))
    }

    /// Writes a statement, and records the name that it binds.
    fn bind(&mut self, source: &str, name: String, mut kind: Type, holes: bool, typed: bool, over: Option<usize>) {
        let layout = kind.layout.clone();
        let text = match &layout {
            None => String::new(),
            Some(layout) if holes => {
                let axes: Vec<_> =
                    layout.axes.iter().map(|axes| (!self.choices.chance(1, 2)).then(|| axes.clone())).collect();
                let text = brackets(self.choices, (&self.machine, &self.dims), &kind.dims, &axes, &None);
                let placed: Vec<usize> = axes.iter().flatten().flatten().copied().collect();
                match axes.iter().any(Option::is_none) {
                    true => {
                        kind.layout = None;
                        // An axis that shards a dim holds no sum.
                        kind.open = kind.open.filter(|(_, open)| open.iter().all(|axis| !placed.contains(axis)));
                    }
                    false => kind.open.clone_from(&layout.open),
                }
                text
            }
            Some(layout) => self.written(&kind.dims, layout),
        };
        let word = if typed { format!(": {}", kind.dtype) } else { String::new() };
        let tail = self.using();
        let arrow = layout.is_some() && !typed && self.choices.chance(1, 3);
        let line = match arrow {
            true => format!("{source} {} {name}{text}{tail}", self.choices.one(&["->", "→", "\\to"])),
            false => format!("{name}{word}{text} = {source}{tail}"),
        };
        self.line(&line);
        let value = Value { name, kind, computed: true };
        match over {
            Some(place) => {
                self.expected.retain(|(name, _)| *name != value.name);
                self.values[place] = value;
            }
            None => self.values.push(value),
        }
    }

    /// The method of a statement and its number of pieces.
    fn using(&mut self) -> String {
        let method = self.choices.chance(1, 20).then(|| {
            let place = self.choices.below(Method::ALL.len() + 1);
            place.checked_sub(1).map_or("auto", |place| Method::ALL[place].name()).to_owned()
        });
        let pieces =
            self.choices.chance(1, 20).then(|| format!("pipeline({})", self.choices.one(&[2, 1, 3, 4, 16, 64])));
        let parts: Vec<String> = method.into_iter().chain(pieces).collect();
        if parts.is_empty() { String::new() } else { format!(" using {}", parts.join(", ")) }
    }

    /// A random layout for a result, or none; `open` lists the sums that may stay open in it.
    fn result(&mut self, mut kind: Type, open: &[Open]) -> Type {
        kind.layout = None;
        if self.choices.chance(1, 3) {
            return kind;
        }
        for place in (1..kind.dims.len()).rev() {
            if self.choices.chance(1, 6) {
                let other = self.choices.below(place + 1);
                kind.dims.swap(place, other);
            }
        }
        let open = match open {
            [] => None,
            list if self.choices.chance(1, 2) => {
                let sum = list[self.choices.below(list.len())].clone();
                let (operator, axes) = sum.clone().unwrap_or_default();
                match axes.len() > 1 && operator != Operator::SquareAdd && self.choices.chance(1, 4) {
                    true => Some((operator, axes[..1].to_vec())),
                    false => sum,
                }
            }
            _ => None,
        };
        let spent: Vec<usize> = open.iter().flat_map(|(_, axes)| axes.clone()).collect();
        let axes = self.sharding(&kind.dims, &spent);
        kind.open.clone_from(&open);
        kind.layout = Some(Sharding { axes, open });
        kind
    }

    /// Binds the value of an expression to a new name.
    fn bind_expression(&mut self, expression: Expression) {
        let Expression { text, kind, may_open, .. } = expression;
        let mut open: Vec<Open> = may_open;
        if kind.open.is_some() {
            open.push(kind.open.clone());
        }
        let closed = kind.open.is_none();
        let inside = kind.open.clone();
        let mut result = self.result(kind, &open);
        let typed = closed && result.layout.is_some() && result.open.is_none() && self.choices.chance(1, 8);
        if typed {
            let wider: &[DType] = match result.dtype {
                DType::Bool => &[DType::Bool],
                DType::I4 | DType::I8 | DType::I32 => &[DType::I32, DType::I64],
                DType::I64 | DType::I16 => &[DType::I64],
                DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => &[DType::U64],
                _ => &[DType::F32, DType::F64, DType::Bf16],
            };
            let dtype = self.choices.one(wider);
            result.range.exact &= result.range.most <= integers(dtype);
            result.dtype = dtype;
        }
        let holes =
            result.layout.is_some() && result.open.is_none() && !result.dims.is_empty() && self.choices.chance(1, 8);
        if holes {
            result.open = inside;
        }
        let name = self.name();
        self.bind(&text, name, result, holes, typed, None);
    }

    pub(crate) fn statement_expression(&mut self) {
        let expression = self.expression(0);
        match expression.by_hand {
            true => self.bind_collective(expression),
            false => self.bind_expression(expression),
        }
    }

    fn statement_collective(&mut self) {
        let Some(expression) = self.collective() else { return self.statement_expression() };
        self.bind_collective(expression);
    }

    /// Binds a handwritten collective, in its layout.
    fn bind_collective(&mut self, expression: Expression) {
        let name = self.name();
        let Expression { text, kind, moves, .. } = expression;
        if let Some(moves) = moves.filter(|_| self.indent == 0) {
            self.expected.push((name.clone(), moves));
        }
        let line = match self.choices.below(3) {
            0 => format!("{name} = {text}"),
            1 => format!("{name}{} = {text}", self.brackets_of(&kind).unwrap_or_default()),
            _ => format!("{text} -> {name}{}", self.brackets_of(&kind).unwrap_or_default()),
        };
        let line = line + &self.using();
        self.line(&line);
        self.values.push(Value { name, kind, computed: true });
    }

    /// A product of two or three factors whose result names its dims.
    fn statement_product(&mut self) {
        let number = |kind: &Type| {
            kind.dtype != DType::Bool
                && matches!(kind.open, None | Some((Operator::Sum | Operator::Mean | Operator::Root(_), _)))
        };
        let Some(first) = self.pick(number) else { return self.statement_input() };
        let left = self.values[first].kind.clone();
        let closed = |kind: &Type| number(kind) && kind.open.is_none();
        let fits = |kind: &Type| closed(kind) && left.dtype.product(kind.dtype).is_some();
        let second = if self.choices.chance(4, 5) { self.pick(fits) } else { None };
        let (second_text, second_name, right) = match second {
            Some(place) => (
                self.values[place].name.clone(),
                Some(self.values[place].name.clone()),
                self.values[place].kind.clone(),
            ),
            None => {
                let (text, kind) = self.factor(&left);
                (text, None, kind)
            }
        };
        let Some(dtype) = left.dtype.product(right.dtype) else { return self.statement_expression() };
        if left.open.is_some() && dtype != left.dtype {
            // Pieces of wrapping integers are not pieces of a wider product.
            return self.statement_expression();
        }
        let shared: Vec<usize> = left.dims.iter().copied().filter(|dim| right.dims.contains(dim)).collect();
        let kept: Vec<usize> = shared.iter().copied().filter(|_| self.choices.chance(1, 3)).collect();
        let all = left.dims.iter().chain(right.dims.iter().filter(|dim| !left.dims.contains(dim))).copied();
        let mut dims: Vec<usize> = all.filter(|dim| !shared.contains(dim) || kept.contains(dim)).collect();
        let summed: u64 =
            shared.iter().filter(|dim| !kept.contains(dim)).map(|dim| self.dims.list[*dim].size).product();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let most = left.range.most * right.range.most * summed as f64;
        let elements: u64 = dims.iter().map(|dim| self.dims.list[*dim].size).product();
        if most > room(dtype) || elements * summed > 16 * MOST_ELEMENTS {
            return self.statement_expression();
        }
        let exact = left.range.exact && right.range.exact && most <= integers(dtype);
        let mut may_open: Vec<Open> = Vec::new();
        if left.open.is_none() {
            for kind in [&left, &right] {
                let Some(layout) = kind.layout.as_ref() else { continue };
                let contracted =
                    kind.dims.iter().zip(&layout.axes).filter(|(dim, _)| shared.contains(dim) && !kept.contains(dim));
                let axes: Vec<usize> = contracted.flat_map(|(_, axes)| axes.clone()).collect();
                if !axes.is_empty() {
                    may_open.push(Some((Operator::Sum, axes)));
                }
            }
        } else {
            may_open.push(left.open.clone());
        }
        for place in (1..dims.len()).rev() {
            if self.choices.chance(1, 6) {
                let other = self.choices.below(place + 1);
                dims.swap(place, other);
            }
        }
        let kind = Type { dtype, dims, layout: None, open: left.open.clone(), range: Range { most, exact } };
        // The brackets determine the contracted dims, so there must be some.
        let mut result = self.result(kind.clone(), &may_open);
        let mut holes =
            result.layout.is_some() && result.open.is_none() && !result.dims.is_empty() && self.choices.chance(1, 6);
        if result.layout.is_none() {
            if result.dims.is_empty() || result.open.is_some() {
                result.layout = Some(Sharding { axes: vec![Vec::new(); result.dims.len()], open: None });
                result.open = None;
            } else {
                result.layout = Some(Sharding { axes: vec![Vec::new(); result.dims.len()], open: None });
                holes = true;
            }
        }
        let left_text = self.used(first);
        let sign = self.choices.one(&["*", "*", "·", "@", "\\cdot"]);
        let mut text = format!("{left_text} {sign} {second_text}");
        if result.open.is_none() && self.choices.chance(1, 10) {
            let way = self.choices.below(4);
            let name = self.values[first].name.clone();
            let pin = match (way, second_name) {
                (0, _) => format!("gather({name})"),
                (1, Some(second)) => format!("gather({second})"),
                (2, _) => format!("slice({name})"),
                _ => "reduce".to_owned(),
            };
            // `by` follows the result of an arrow.
            let name = self.name();
            let brackets = self.brackets_of(&result).unwrap_or_default();
            text = format!("{name}{brackets} = {text} by {pin}");
            self.line(&text);
            self.values.push(Value { name, kind: result, computed: true });
            return;
        }
        let typed = result.open.is_none() && dtype.is_float() && self.choices.chance(1, 8);
        if typed {
            result.dtype = self.choices.one(&[DType::F32, DType::F64]);
        }
        let name = self.name();
        self.bind(&text, name, result, holes, typed, None);
    }

    /// A name, with or without its layout.
    pub(crate) fn used(&mut self, place: usize) -> String {
        let value = self.values[place].clone();
        match self.choices.chance(1, 4) {
            true => format!("{}{}", value.name, self.brackets_of(&value.kind).unwrap_or_default()),
            false => value.name,
        }
    }

    /// An input declared in place, as a factor for an array.
    fn factor(&mut self, left: &Type) -> (String, Type) {
        let mut dims: Vec<usize> = left.dims.iter().copied().filter(|_| self.choices.chance(1, 2)).collect();
        for dim in self.some_dims(1) {
            if !dims.contains(&dim) && dims.len() < 3 {
                dims.push(dim);
            }
        }
        let axes = self.sharding(&dims, &[]);
        let layout = Sharding { axes, open: None };
        let text = self.written(&dims, &layout);
        let range = Range { most: 4.0, exact: true };
        (format!("{}{text}", left.dtype), Type { dtype: left.dtype, dims, layout: Some(layout), open: None, range })
    }

    fn statement_repeat(&mut self, depth: usize) {
        let carried = self.pick(|kind| kind.open.is_none() && kind.dtype.is_float() && kind.range.most >= 1.0);
        let times = self.choices.one(&[2, 1, 3]);
        let free = self.choices.chance(1, 2);
        self.line(&format!("repeat {times} {{"));
        self.indent += 1;
        let (outside, count) = (self.outside, self.values.len());
        self.outside = count;
        // What comes from outside of a surrounding body is carried there, too, and read before.
        if let Some(place) = carried.filter(|place| free && *place >= outside) {
            self.values[place].kind.layout = None;
        }
        if let Some(place) = carried {
            // The last iteration's value need not be an integer.
            self.values[place].kind.range.exact = false;
        }
        for _ in 0..3 {
            let open = self.choices.open();
            let more = self.choices.chance(2, 3);
            if more {
                self.statement(depth + 1);
            }
            self.choices.close(open);
            if !more {
                break;
            }
        }
        if let Some(place) = carried {
            let value = self.values[place].clone();
            self.expected.retain(|(name, _)| *name != value.name);
            let expression = self.expression_of(&value.kind);
            let brackets = self.brackets_of(&value.kind).unwrap_or_default();
            self.line(&format!("{}{brackets} = {expression}", value.name));
            self.values[place].computed = true;
        } else if self.values.len() == count {
            self.statement_input();
        }
        self.values.truncate(count);
        self.outside = outside;
        self.indent -= 1;
        self.line("}");
    }

    /// Writes the outputs, if there is a list of them.
    fn outputs(&mut self) -> Option<Vec<String>> {
        let computed: Vec<usize> = (0..self.values.len()).filter(|place| self.values[*place].computed).collect();
        if !computed.is_empty() && !self.choices.chance(1, 3) {
            return None;
        }
        let all: Vec<usize> = if computed.is_empty() { (0..self.values.len()).collect() } else { computed };
        let mut names: Vec<String> = Vec::new();
        for place in all {
            if names.is_empty() || self.choices.chance(1, 2) {
                names.push(self.values[place].name.clone());
            }
        }
        self.line(&format!("output {}", names.join(", ")));
        Some(names)
    }

    /// Expectations that hold for any plan of such a small program.
    fn wishes(&mut self) {
        let wishes = [
            "expect time < 1s",
            "expect memory <= 1GiB",
            "expect communication < 1GB",
            "limit memory 1GiB",
            "limit flops 1e12",
            "expect flops < 4e12",
        ];
        for wish in wishes {
            if self.choices.chance(1, 30) {
                self.line(wish);
            }
        }
    }
}
