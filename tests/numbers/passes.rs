//! Tests the table of functions of open sums on all small numbers: allowed functions give equal results for every
//! choice of pieces, and for each refused function there is a counterexample, or it is listed here as valid but not
//! promised.
#![allow(clippy::cast_possible_truncation)]

use itertools::Itertools;
use shardc::dtype::DType;
use shardc::function::{Binary, ByNumber, Filler, Function, Relation, Scalar, Unary};
use shardc::operator::Operator;
use shardc::passes;
use shardc::shift::Shift;

/// Narrow integers wrap; bools are 0 and 1; what overflows is infinite, or a NaN where there are no infinities.
fn wrap(dtype: DType, x: f64) -> f64 {
    match dtype {
        // The next number would be 480; halfway is rounded to the even 448.
        DType::F8E4M3 if x.abs() > 464.0 => f64::NAN,
        DType::F32 if x.abs() > f64::from(f32::MAX) => x.signum() * f64::INFINITY,
        DType::I4 => f64::from(((x as i64 as i8) << 4) >> 4),
        DType::U4 => f64::from(x as i64 as u8 & 15),
        DType::I8 => f64::from(x as i64 as i8),
        DType::U8 => f64::from(x as i64 as u8),
        DType::I32 => f64::from(x as i64 as i32),
        _ => x,
    }
}

fn combine(operator: Operator, dtype: DType, pieces: &[f64]) -> f64 {
    let sum = |pieces: &[f64]| pieces.iter().fold(0.0, |sum, piece| wrap(dtype, sum + piece));
    let nan = pieces.iter().any(|piece| piece.is_nan());
    match operator {
        Operator::Sum => sum(pieces),
        Operator::Max | Operator::Min | Operator::Or | Operator::And if nan => f64::NAN,
        Operator::Max | Operator::Or => pieces.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Operator::Min | Operator::And => pieces.iter().copied().fold(f64::INFINITY, f64::min),
        Operator::Mul => pieces.iter().fold(1.0, |product, piece| wrap(dtype, product * piece)),
        Operator::Mean => sum(pieces) / pieces.len() as f64,
        Operator::Root(_) => pieces[0],
        Operator::SquareAdd => sum(&pieces.iter().map(|piece| wrap(dtype, piece * piece)).collect::<Vec<f64>>()),
    }
}

fn compare(relation: Relation, left: f64, right: f64) -> f64 {
    f64::from(u8::from(match relation {
        Relation::Less => left < right,
        Relation::LessOrEqual => left <= right,
        Relation::Greater => left > right,
        Relation::GreaterOrEqual => left >= right,
        Relation::Equal => left == right,
        Relation::Unequal => left != right,
    }))
}

fn apply(function: Function, to: DType, x: &[f64]) -> f64 {
    let y = match function {
        Function::Identity => x[0],
        Function::Binary(Binary::Add) => x[0] + x[1],
        Function::Binary(Binary::Sub) => x[0] - x[1],
        // Division by zero is unspecified.
        Function::Binary(Binary::Mul) => x[0] * x[1],
        Function::Binary(Binary::Div) if x[1] == 0.0 => f64::NAN,
        Function::Binary(Binary::Div) => x[0] / x[1],
        Function::Unary(Unary::Neg) => -x[0],
        Function::ByNumber(ByNumber::Scale, Scalar(c)) => f64::from(c as f32) * x[0],
        Function::ByNumber(ByNumber::Shift, Scalar(c)) => x[0] + f64::from(c as f32),
        Function::Unary(Unary::Relu) => x[0].max(0.0),
        Function::Unary(Unary::Gelu) => {
            0.5 * x[0] * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x[0] + 0.044715 * x[0].powi(3))).tanh())
        }
        Function::Unary(Unary::Exp) => x[0].exp(),
        Function::Unary(Unary::Tanh) => x[0].tanh(),
        Function::Unary(Unary::Sin) => x[0].sin(),
        Function::Unary(Unary::Cos) => x[0].cos(),
        Function::Unary(Unary::Sigmoid) => 1.0 / (1.0 + (-x[0]).exp()),
        Function::Unary(Unary::Silu) => x[0] / (1.0 + (-x[0]).exp()),
        Function::Unary(Unary::Sqrt) => x[0].sqrt(),
        Function::Unary(Unary::Rsqrt) => 1.0 / x[0].sqrt(),
        Function::Unary(Unary::Abs) => x[0].abs(),
        Function::Unary(Unary::Log) => x[0].ln(),
        Function::Unary(Unary::Square) => x[0] * x[0],
        Function::Unary(Unary::Recip) => 1.0 / x[0],
        Function::Unary(Unary::Not) => 1.0 - x[0],
        Function::Over(n) => x[0] / n as f64,
        Function::Binary(Binary::Larger) => x[0].max(x[1]),
        Function::Binary(Binary::Smaller) => x[0].min(x[1]),
        Function::ByNumber(ByNumber::AtLeast, Scalar(c)) => x[0].max(c),
        Function::ByNumber(ByNumber::AtMost, Scalar(c)) => x[0].min(c),
        Function::Is(relation) => compare(relation, x[0], x[1]),
        Function::IsNumber(relation, Scalar(c)) => compare(relation, x[0], c),
        Function::Where => x[if x[0] != 0.0 { 1 } else { 2 }],
        Function::Masked(Scalar(c)) => {
            if x[0] != 0.0 {
                x[1]
            } else {
                c
            }
        }
        Function::Softmax { .. } => unreachable!("not elementwise"),
        // The value in padding lanes; other lanes are unchanged.
        Function::Fill { with, .. } => filler(to, with),
        // Where no element comes from; other elements are unchanged.
        Function::Shift(_) => 0.0,
        Function::Cast(dtype) if !dtype.is_float() => x[0].trunc().clamp(f64::from(i32::MIN), f64::from(i32::MAX)),
        Function::Cast(_) => x[0],
    };
    wrap(to, y)
}

fn filler(dtype: DType, with: Filler) -> f64 {
    let (least, greatest) = match dtype {
        DType::Bool => (0.0, 1.0),
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::F8E4M3 => (-448.0, 448.0),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    match with {
        Filler::Zero => 0.0,
        Filler::One => 1.0,
        Filler::Least => least,
        Filler::Greatest => greatest,
    }
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn values(dtype: DType) -> Vec<f64> {
    match dtype {
        DType::Bool => vec![0.0, 1.0],
        DType::I8 => vec![-128.0, -127.0, -100.0, -2.0, -1.0, 0.0, 1.0, 7.0, 16.0, 100.0, 127.0],
        DType::I4 => vec![-8.0, -7.0, -2.0, -1.0, 0.0, 1.0, 3.0, 7.0],
        DType::U4 => vec![0.0, 1.0, 2.0, 7.0, 8.0, 15.0],
        DType::U8 => vec![0.0, 1.0, 2.0, 7.0, 16.0, 127.0, 128.0, 200.0, 255.0],
        DType::F8E4M3 => vec![-448.0, -6.0, -2.0, -0.5, 0.0, 0.75, 1.0, 3.0, 448.0],
        _ => vec![-6.0, -2.0, -0.5, 0.0, 0.75, 1.0, 3.0],
    }
}

/// Whether `f` of the combination equals the combination of the values of `f`, for all pieces on three devices (two
/// if both operands are open). Closed operands are equal on all devices.
fn holds(f: &dyn Fn(&[f64]) -> f64, arity: usize, open: &[usize], operators: [Operator; 2], types: [DType; 2]) -> bool {
    let devices = if open.len() > 1 { 2 } else { 3 };
    let slots = open.len() * devices + (arity - open.len());
    // A device with padding alone has an infinite maximum.
    let infinities = match operators[0] {
        Operator::Max | Operator::Min if !matches!(types[0], DType::F8E4M3) && types[0].is_float() => {
            vec![f64::NEG_INFINITY, f64::INFINITY]
        }
        _ => Vec::new(),
    };
    let numbers = |slot: usize| {
        let infinities = if slot < open.len() * devices { infinities.clone() } else { Vec::new() };
        values(types[0]).into_iter().chain(infinities)
    };
    (0..slots).map(numbers).multi_cartesian_product().all(|given| {
        let (pieces, closed) = given.split_at(open.len() * devices);
        let mut closed = closed.iter();
        let operands: Vec<Vec<f64>> = (0..arity)
            .map(|place| match open.iter().position(|other| *other == place) {
                Some(at) => pieces[at * devices..(at + 1) * devices].to_vec(),
                None => vec![*closed.next().expect("one for each"); devices],
            })
            .collect();
        let whole: Vec<f64> = operands
            .iter()
            .enumerate()
            .map(
                |(place, pieces)| {
                    if open.contains(&place) { combine(operators[0], types[0], pieces) } else { pieces[0] }
                },
            )
            .collect();
        let each: Vec<f64> =
            (0..devices).map(|device| f(&operands.iter().map(|pieces| pieces[device]).collect::<Vec<f64>>())).collect();
        same(f(&whole), combine(operators[1], types[1], &each))
    })
}

fn functions(from: DType) -> Vec<(Function, DType)> {
    let numbers = [
        Function::ByNumber(ByNumber::Scale, Scalar(2.0)),
        Function::ByNumber(ByNumber::Scale, Scalar(-3.0)),
        Function::ByNumber(ByNumber::Scale, Scalar(0.0)),
        Function::ByNumber(ByNumber::Shift, Scalar(1.0)),
    ];
    let fractions = [
        Function::ByNumber(ByNumber::Scale, Scalar(0.5)),
        Function::ByNumber(ByNumber::Scale, Scalar(1e-300)),
        Function::ByNumber(ByNumber::Scale, Scalar(1e300)),
        Function::ByNumber(ByNumber::Shift, Scalar(1e300)),
        Function::ByNumber(ByNumber::Shift, Scalar(-0.25)),
        Function::Over(4),
    ];
    let casts = [DType::I8, DType::I32, DType::F32, DType::F64].map(Function::Cast);
    let fits = |function: &Function| match from {
        DType::Bool => matches!(
            function,
            Function::Identity
                | Function::Unary(Unary::Not)
                | Function::Fill { .. }
                | Function::Shift(_)
                | Function::Where
                | Function::Binary(Binary::Larger)
                | Function::Binary(Binary::Smaller)
        ),
        _ if *function == Function::Unary(Unary::Not) => false,
        _ if from.is_float() => true,
        _ => !function.needs_float() && !fractions.contains(function),
    };
    let fillers = Filler::ALL.map(|with| Function::Fill { dim: 0, valid: 1, with });
    let shifts = [true, false].map(|wraps| Function::Shift(Shift { dim: 0, by: 1, wraps }));
    let bounds = [-1.0, 0.0, 1.0].map(Scalar);
    let bounds = bounds.into_iter().flat_map(|c| {
        [Function::ByNumber(ByNumber::AtLeast, c), Function::ByNumber(ByNumber::AtMost, c), Function::Masked(c)]
    });
    let all = Function::plain()
        .chain(bounds)
        .chain(numbers)
        .chain(fractions)
        .chain(casts)
        .chain(fillers)
        .chain(shifts)
        .filter(fits);
    all.filter(|function| *function != Function::Cast(from))
        .map(|function| (function, if let Function::Cast(dtype) = function { dtype } else { from }))
        .collect()
}

/// Valid, but not promised by the language, which defines a short list.
fn is_conservative(function: Function, operator: Operator, from: DType, open: &[usize]) -> bool {
    let widens = matches!(function, Function::Cast(to) if from.widens(to));
    let fills = matches!(function, Function::Fill { .. });
    // Promised for no constant that a dtype rounds to 0 or to an infinity.
    if let Function::ByNumber(ByNumber::Scale | ByNumber::Shift, Scalar(c)) = function
        && [0.0, 1e-300, 1e300].contains(&c)
    {
        return true;
    }
    match operator {
        // A mean preserves a closed array.
        Operator::Mean if function == Function::Where => true,
        // Infinities, a mean of ones, three times -128.
        Operator::Sum | Operator::Mean | Operator::Mul if fills => true,
        // Two roundings equal one where arithmetic is exact; a hardware cast rounds each piece.
        Operator::Sum | Operator::Mean => widens && from.is_float(),
        Operator::Max | Operator::Min => match function {
            // With a NaN piece the maximum is NaN, whose cast or test differs from the maximum over the pieces.
            Function::Cast(_) | Function::Is(_) => true,
            Function::Binary(Binary::Add) => from.is_float() && open.len() == 1,
            Function::Binary(Binary::Sub) => from.is_float() && open == [0],
            Function::Over(_) | Function::ByNumber(ByNumber::Scale, _) => true,
            // With a negative piece beside a positive one, a piece becomes a NaN that the function of the maximum
            // does not have.
            Function::Unary(Unary::Sqrt | Unary::Log) => operator == Operator::Min,
            // A minimum that overflows below, and a maximum that overflows above, do so on a device.
            Function::Unary(Unary::Exp) | Function::ByNumber(..) => from == DType::F8E4M3,
            _ => false,
        },
        Operator::Mul => match function {
            Function::Unary(Unary::Square)
            | Function::Unary(Unary::Recip)
            | Function::Unary(Unary::Sqrt)
            | Function::Unary(Unary::Rsqrt)
            | Function::Binary(Binary::Div) => true,
            Function::Cast(_) => true,
            // Valid for an odd number of devices; a mask is not a number.
            Function::Unary(Unary::Neg) | Function::Masked(_) => true,
            _ => false,
        },
        // For sums of squares, only moves are promised.
        Operator::SquareAdd => true,
        Operator::And | Operator::Or | Operator::Root(_) => false,
    }
}

#[test]
fn every_function_and_operator() {
    let (mut passed, mut wrong) = (0, Vec::new());
    for from in [DType::F32, DType::F8E4M3, DType::I8, DType::Bool] {
        for ((function, to), operator) in functions(from).into_iter().cartesian_product(Operator::ALL) {
            // Sums of floats are treated as exact; overflow matters to maxima and minima.
            let is_extreme = matches!(operator, Operator::Max | Operator::Min);
            if !operator.takes(from) || from == DType::F8E4M3 && !is_extreme {
                continue;
            }
            let arity = function.arity();
            let passage = passes::map(function, operator, &vec![from; arity], to);
            let places: Vec<Vec<usize>> = (0..arity).powerset().filter(|open| !open.is_empty()).collect();
            for open in places {
                let choice = passage.filter(|passage| passage.operands.contains(&open.as_slice()));
                let result = choice.map_or(operator, |passage| passage.result);
                let right = holds(&|x| apply(function, to, x), arity, &open, [operator, result], [from, to]);
                let what = format!("{function} of {from} to {to}, open {operator} at {open:?}");
                match choice {
                    Some(_) if !right => wrong.push(format!("{what} passes and should not")),
                    None if right && !is_conservative(function, operator, from, &open) => {
                        wrong.push(format!("{what} could pass"));
                    }
                    Some(_) | None => {}
                }
                passed += usize::from(choice.is_some());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(passed > 40, "{passed}");
}

/// Products without contraction, and with a contraction of two elements.
#[test]
fn every_product_and_operator() {
    for (from, operator) in [DType::F32, DType::I8].into_iter().cartesian_product(Operator::ALL) {
        if !operator.takes(from) {
            continue;
        }
        for (to, open) in
            [from, from.product(from).expect("numbers")].into_iter().cartesian_product([&[0][..], &[1], &[0, 1]])
        {
            let passage = passes::product(operator, [from, from], to, false);
            let right = holds(&|x| wrap(to, x[0] * x[1]), 2, open, [operator, operator], [from, to]);
            let passes = passage.is_some_and(|passage| passage.operands.contains(&open));
            // A product of -128 and 1 fits every type; wrapping sums do not.
            assert!(!passes || right, "product of {operator} {from} {to} {open:?}");
            let conservative = matches!(operator, Operator::Max | Operator::Min);
            assert!(passes || !right || conservative, "product of {operator} {from} {to} {open:?} could pass");
        }
        let contracted = passes::product(operator, [from, from], from, true);
        if let Some(passage) = contracted {
            let alone = passage.operands.iter().all(|open| open.len() == 1);
            assert!(operator != Operator::Mul && (alone || operator.is_root()));
        }
    }
    // (a * b) + (c * d) is not (a + c) * (b + d).
    assert_eq!(passes::product(Operator::Mul, [DType::F32; 2], DType::F32, true), None);
}

/// Products and quotients of an open sum and a closed array of another type: only the open operand must not wrap.
#[test]
fn factors_of_two_types() {
    let types = [DType::F32, DType::I8, DType::I32];
    for (open, closed) in types.into_iter().cartesian_product(types) {
        let product = open.product(closed).expect("numbers");
        let numbers = |dtype: DType| values(dtype).into_iter().filter(move |x| dtype.is_float() || x.fract() == 0.0);
        for to in [product, open, closed].into_iter().filter(|to| to.is_float() == product.is_float()) {
            let right = numbers(open).cartesian_product(numbers(open).collect::<Vec<_>>()).all(|(a, b)| {
                numbers(closed).all(|c| {
                    let whole = wrap(to, combine(Operator::Sum, open, &[a, b]) * c);
                    same(whole, combine(Operator::Sum, to, &[wrap(to, a * c), wrap(to, b * c)]))
                })
            });
            // The tested numbers do not make an i32 wrap.
            let right = right && (open == to || open.is_float());
            for (from, place) in [([open, closed], 0), ([closed, open], 1)] {
                let passage = passes::product(Operator::Sum, from, to, true);
                let passes = passage.is_some_and(|passage| passage.operands.contains(&[place].as_slice()));
                assert_eq!(passes, right, "{open}{{U}} * {closed} -> {to}, open at {place}");
            }
            let quotient = passes::map(Function::Binary(Binary::Div), Operator::Sum, &[open, closed], to);
            assert_eq!(quotient.is_some(), right, "{open}{{U}} / {closed} -> {to}");
        }
    }
}

/// A reduction over two elements of each piece.
#[test]
fn every_reduction_and_operator() {
    for (reduction, operator) in Operator::ALL.into_iter().cartesian_product(Operator::ALL) {
        let dtype = if operator.takes(DType::F32) { DType::F32 } else { DType::Bool };
        if !reduction.folds() || !reduction.takes(dtype) {
            continue;
        }
        let right = (0..4).map(|_| values(dtype)).multi_cartesian_product().all(|given| {
            let of = |operator, a, b| combine(operator, dtype, &[a, b]);
            let [a, b, c, d] = [given[0], given[1], given[2], given[3]];
            same(
                of(reduction, of(operator, a, b), of(operator, c, d)),
                of(operator, of(reduction, a, c), of(reduction, b, d)),
            )
        });
        let passes = passes::reduce(reduction, operator, dtype, dtype).is_some();
        assert!(!passes || right, "{reduction} of {operator}");
        let conservative = (reduction, operator) == (Operator::Sum, Operator::Mean);
        assert!(passes || !right || conservative, "{reduction} of {operator} could pass");
    }
    assert_eq!(passes::reduce(Operator::Sum, Operator::Sum, DType::I8, DType::I32), None);
}
