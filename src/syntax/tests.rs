//! The forms of the sources, how many mistakes come at once, and printing as the inverse of reading.

use super::*;
use crate::diag::Diagnostics;
use std::time::{Duration, Instant};

fn good(source: &str) -> Ast {
    let (ast, diagnostics) = parse(source);
    let said: Vec<String> = diagnostics.iter().map(|d| format!("{}: {} {:?}", d.code, d.message, d.labels)).collect();
    assert!(said.is_empty(), "{source}\n{said:#?}");
    ast
}

fn printed(source: &str) -> String {
    let text = good(source).to_string();
    assert_eq!(good(&text).to_string(), text);
    text.trim_end().to_owned()
}

fn codes(source: &str) -> Vec<String> {
    parse(source).1.iter().map(|diagnostic| diagnostic.code.clone()).collect()
}

/// `code: message | label` with the text under the primary label.
fn said(source: &str) -> String {
    let (_, diagnostics) = parse(source);
    let lines = diagnostics.iter().map(|d| {
        let label = d.labels.iter().find(|label| label.primary);
        let (under, text) = label.map_or(("", ""), |label| (label.span.text(source), label.text.as_str()));
        format!("{}: {} | {under} | {text}", d.code, d.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_form_is_read() {
    let forms = [
        ("mesh {X: 4, Y: 2 ring} on tpu_v5e", "mesh {X: 4, Y: 2 ring} on tpu_v5e"),
        ("Mesh({'X': 4, 'Y': 2})", "mesh {X: 4, Y: 2}"),
        ("Mesh({‘X': 4, “Y”: 2,}) on h100", "mesh {X: 4, Y: 2} on h100"),
        ("{'X': 4, 'Y': 2}", "mesh {X: 4, Y: 2}"),
        ("Mesh(mesh_shape=(4, 2), axis_names=('X','Y')) on h100", "mesh {X: 4, Y: 2} on h100"),
        ("mesh = jax.make_mesh(axis_shapes=(4, 2), axis_names=('X', 'Y'))", "mesh {X: 4, Y: 2}"),
        ("jax.make_mesh((4, 2,), (‘X’, 'Y',))", "mesh {X: 4, Y: 2}"),
        ("Mesh(devices=((0,1,2),(3,4,5)), axis_names=('X', 'Y'))", "mesh {X: 2, Y: 3}"),
        ("Mesh(devices=(0, 1), axis_names=('data'))", "mesh {data: 2}"),
        ("mesh {X: 4 line,\n  Y: 2 switch, # two\n}", "mesh {X: 4 line, Y: 2 switch}"),
        ("dims {I: 8192,\n J: 4096,}", "dims {I: 8192, J: 4096}"),
        ("dims { }", "dims {}"),
        ("A: bf16[I_X, J]", "A: bf16[I_X, J]"),
        ("A: int8[128_{XY}, 2048]", "A: i8[128_XY, 2048]"),
        ("W_in: f32[]", "W_in: f32[]"),
        ("C[I_X, K] = A * B", "C[I_X, K] = A * B"),
        ("C = A", "C = A"),
        ("C: f32[I, K] = A * B", "C: f32[I, K] = A * B"),
        ("C: f32 = A", "C: f32 = A"),
        ("C[I, K]{U_X} = A *_LOCAL B", "C[I, K]{U_X} = A *_LOCAL B"),
        ("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]", "C[I_X, K_Y] = A[I_X, J] * B[J, K_Y]"),
        ("A → C", "C = A"),
        ("A ⟶ C", "C = A"),
        ("A \\to C", "C = A"),
        ("A \\rightarrow C: f32[I]", "C: f32[I] = A"),
        ("A -> f32[I]", "A -> f32[I]"),
        ("A[I_{XY}, J] -> A[I_Y, J]", "A[I_Y, J] = A[I_XY, J]"),
        ("AllGather_X(A[I_X, J]) -> [I, J]", "AllGather_X(A[I_X, J]) -> [I, J]"),
        ("AllGather_X[I, J_X] -> A[I, J]", "A[I, J] = AllGather_X([I, J_X])"),
        ("AllGather_{XY}([B_X, D_Y]) -> [B, D]", "AllGather_XY([B_X, D_Y]) -> [B, D]"),
        ("AllReduce_Y A[I_X, J]{U_Y} -> A[I_X, J]", "A[I_X, J] = AllReduce_Y(A[I_X, J]{U_Y})"),
        ("ReduceScatter_{Y,J} : A[I_X,J]{U_Y} -> A[I_X,J_Y]", "A[I_X, J_Y] = ReduceScatter_{Y,J}(A[I_X, J]{U_Y})"),
        ("AllToAll_{X->J}(A[I_X, J])", "AllToAll_{X,J}(A[I_X, J])"),
        ("B = AllToAll_{X, J} A", "B = AllToAll_{X,J}(A)"),
        ("C[I,K] = AllReduce(C[I,K]{U_X})", "C[I, K] = AllReduce(C[I, K]{U_X})"),
        ("C = int8[128, 2048] * [B_X, D_Y]", "C = i8[128, 2048] * [B_X, D_Y]"),
        ("C' = A' * A’ * A′'", "C' = A' * A' * A''"),
        ("A: bf16[D', D'_X]", "A: bf16[D', D'_X]"),
        (
            "A: bf16[I_X, J_XY, K_{XY}, L_{X,Y}, M_data, N_{data, model}, O_?]",
            "A: bf16[I_X, J_XY, K_XY, L_{X,Y}, M_data, N_{data,model}, O_?]",
        ),
        (
            "C = A{}".replace("{}", "[I]{U_X} + A[I]{U_{XY}} + A[I]{U_{X,Y}} + A[I]{ U_X } + A[I]{MAX_{X}}").leak(),
            "C = A[I]{U_X} + A[I]{U_XY} + A[I]{U_{X,Y}} + A[I]{U_X} + A[I]{MAX_X}",
        ),
        ("C = A[I]{SQUARE_ADD_XY} + B[I]{U.X}", "C = A[I]{SQUARE_ADD_XY} + B[I]{U_X}"),
        ("C = A * B · C ⋅ D • E ∙ F @ G \\cdot H", "C = A * B * C * D * E * F * G * H"),
        ("C = A *_J B ·_{N,H} C", "C = A *_J B *_{N,H} C"),
        ("C = A *_LOCAL B", "C = A *_LOCAL B"),
        ("C = A\\cdot_{LOCAL}B", "C = A *_LOCAL B"),
        ("C = (A * B) * C * (D * E)", "C = (A * B) * C * (D * E)"),
        ("C = A * B *_J C * D", "C = A * B *_J C * D"),
        ("C = -A * B + 2 * C / 4 - 1e-3", "C = -A * B + 2 * C / 4 - 0.001"),
        ("C = A - (B - C) - -(D / (E * F))", "C = A - (B - C) - -(D / (E * F))"),
        ("C = ((A)) + 0.5 + 1E300 + 2.50", "C = A + 0.5 + 1e300 + 2.5"),
        ("C = relu(A * B)", "C = relu(A * B)"),
        ("P = softmax_T(S) + sum_{J,K}(A)", "P = softmax_T(S) + sum_{J,K}(A)"),
        ("K = rename_{S->T}(k) + rename_{S → T}(k) + rename_{S,T}(k)", {
            "K = rename_{S->T}(k) + rename_{S->T}(k) + rename_{S->T}(k)"
        }),
        ("B = f32(A)", "B = f32(A)"),
        ("output C, D", "output C, D"),
        ("output C,\n  D'", "output C, D'"),
        // Words are words only where they can stand.
        ("mesh = dims * output", "mesh = dims * output"),
        ("Mesh = make_mesh * Mesh", "Mesh = make_mesh * Mesh"),
        ("dims[I] -> output", "output = dims[I]"),
        ("repeat = axis + limit(by)", "repeat = axis + limit(by)"),
        ("on: bf16[U, MAX_LOCAL]", "on: bf16[U, MAX_LOCAL]"),
        ("\u{FEFF}A\u{A0}= B", "A = B"),
        ("C = A * # the left\r\n    B\r\n", "C = A * B"),
    ];
    for (source, wanted) in forms {
        assert_eq!(printed(source), wanted, "{source}");
    }
}

#[test]
fn chains_are_one_product_and_named_ones_nest() {
    let value = |source: &str| match good(source).statements.remove(0).kind {
        StatementKind::Assign { value, .. } => value.kind,
        other => panic!("{other:?}"),
    };
    let ExprKind::Product { factors, contraction: Contraction::Implied } = value("D = A * B * C") else { panic!() };
    assert_eq!(factors.len(), 3);
    let ExprKind::Product { factors, contraction: Contraction::Named(names) } = value("D = A *_J B *_K C") else {
        panic!()
    };
    assert_eq!((factors.len(), names[0].node.as_str()), (2, "K"));
    let ExprKind::Product { factors, .. } = value("D = -2 * A") else { panic!() };
    assert!(matches!(factors[0].kind, ExprKind::Neg(_)));
    let ExprKind::Call { function, subscript, .. } = value("D = softmax_T(S)") else { panic!() };
    assert_eq!((function.span, subscript[0].span), (Span::new(4, 11), Span::new(12, 13)));
}

#[test]
fn spans_are_places_in_the_whole_source() {
    let source = "# first\nA: bf16[I_X , J ]\n\nC[I] {U_X} = relu( A [ I_{X} ] ) + 2  # last\n";
    let ast = good(source);
    assert_eq!(ast.statements[1].span.text(source), "C[I] {U_X} = relu( A [ I_{X} ] ) + 2");
    let StatementKind::Assign { target, value, .. } = &ast.statements[1].kind else { panic!() };
    assert_eq!(target.span.text(source), "C[I] {U_X}");
    let open = target.brackets.as_ref().and_then(|brackets| brackets.open.as_ref()).unwrap();
    assert_eq!((open.span.text(source), open.operator.span.text(source)), ("{U_X}", "U"));
    let ExprKind::Binary { left, right, .. } = &value.kind else { panic!() };
    assert_eq!((left.span.text(source), right.span.text(source)), ("relu( A [ I_{X} ] )", "2"));
    let ExprKind::Call { arguments, .. } = &left.kind else { panic!() };
    let [argument] = arguments.as_slice() else { panic!() };
    assert_eq!(argument.span.text(source), "A [ I_{X} ]");
    let ExprKind::Array(array) = &argument.kind else { panic!() };
    assert_eq!(array.span.text(source), "A [ I_{X} ]");
    let StatementKind::Input { brackets, .. } = &ast.statements[0].kind else { panic!() };
    assert_eq!((brackets.dims[0].span.text(source), brackets.span.text(source)), ("I_X", "[I_X , J ]"));
}

#[test]
fn all_mistakes_come_at_once_and_the_rest_is_read() {
    let source =
        "mesh {X: 4\nA: bf16[I_X, J\nB: bf16[J, K]\nC = relu(A * B\nD[I = C\noutput C, \ndims {I: 4}\n* B\nE = B";
    let (ast, diagnostics) = parse(source);
    assert_eq!(codes(source).len(), 6, "{}", said(source));
    let (b, dims, e) = (&ast.statements[0], &ast.statements[1], &ast.statements[2]);
    assert_eq!([b, dims, e].map(ToString::to_string), ["B: bf16[J, K]", "dims {I: 4}", "E = B"]);
    assert_eq!(diagnostics.iter().filter(|d| d.help.is_some()).count(), 5);
}

#[test]
fn limits_hold_and_are_fast() {
    let begin = Instant::now();
    let one = |source: &str, code: &str| assert_eq!(codes(source), [code], "{}", &source[..40]);
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("relu(", ")"), ("(", "")] {
        one(&format!("A = {}B{}", open.repeat(10_000), close.repeat(10_000)), "too-deep");
    }
    one(&format!("A = {}B", "-".repeat(10_000)), "too-deep");
    one(&format!("A = B{}", " + B".repeat(10_000)), "too-deep");
    one(&format!("A = B{}", " *_J B".repeat(10_000)), "too-deep");
    one(&format!("A = {}", "B * ".repeat(300_000)), "statement-too-long");
    one(&format!("A = B{}", " + B".repeat(300_000)), "statement-too-long");
    one(&"A".repeat(1 << 20), "statement-too-long");
    one(&"\n".repeat((16 << 20) + 1), "source-too-large");
    assert_eq!(codes(&"x\n".repeat(5000)).len(), MOST_ERRORS + 1);
    assert_eq!(codes(&"A = B\n".repeat(MOST_STATEMENTS + 1)), ["too-many-statements"]);
    assert!(good(&format!("A = B{}", " * B".repeat(10_000))).statements.len() == 1);
    assert!(good(&format!("A = B{}", " + B".repeat(254))).statements.len() == 1);
    assert!(good(&format!("A = {}B{}", "relu(".repeat(64), ")".repeat(64))).statements.len() == 1);
    // Lines that go on and never end.
    codes(&format!("A = (B\n{}", "\n# c\n".repeat(1 << 18)));
    codes(&"A = (\n".repeat(1 << 16));
    codes(&"(\n".repeat(1 << 18));
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn programs_of_the_corpus() {
    let attention = "
# multi-query decode: all-to-all q and o, never touch the KV cache
mesh {X: 8 ring} on tpu_v5e
dims {B: 8, T: 256, N: 16, H: 32}

q: bf16[B, N_X, H]
k: bf16[B_X, T, H]
v: bf16[B_X, T, H]

s[B_?, N_?, T_?] = q * k
o[B, N_X, H] = s * v
output o
";
    assert_eq!(good(attention).statements.len(), 8);
    let twist = "
mesh {X: 8 ring} on tpu_v5e
dims {I: 128, J: 512, K: 512, L: 512}
A: bf16[I, J_X]; B: bf16[J_X, K]
D: bf16[K, L_X]
C[I_?, K_?] = A * B
E[I, L_X] = C * D
output E";
    assert_eq!(good(twist).statements.len(), 8);
}

pub(super) mod properties {
    use super::*;
    use proptest::prelude::*;

    /// Something with a span that the comparison must not see: trees are compared by their `Debug` text.
    pub(in crate::syntax) fn without_spans(ast: &Ast) -> String {
        let text = format!("{ast:?}");
        let mut out = String::new();
        for (place, part) in text.split("Span {").enumerate() {
            out.push_str(if place == 0 { part } else { part.split_once('}').map_or(part, |(_, rest)| rest) });
        }
        out
    }

    fn named(word: &str) -> Name {
        Spanned { node: word.to_owned(), span: Span::default() }
    }

    fn name() -> impl Strategy<Value = Name> {
        let words = ["A", "B'", "W_in", "x2", "mesh", "output", "relu", "U", "Ab_c_d''"];
        prop::sample::select(words.to_vec()).prop_map(named)
    }

    fn plain() -> impl Strategy<Value = Name> {
        prop::sample::select(vec!["X", "XY", "data", "J", "LOCALE", "q1"]).prop_map(named)
    }

    fn dtype() -> impl Strategy<Value = Spanned<DType>> {
        prop::sample::select(DType::ALL.to_vec()).prop_map(|node| Spanned { node, span: Span::default() })
    }

    fn brackets() -> impl Strategy<Value = Brackets> {
        let dim = prop_oneof![
            prop::sample::select(vec!["I", "J'", "model", "U"]).prop_map(|name| DimName::Named(name.to_owned())),
            literal().prop_map(DimName::Literal),
        ];
        let subscript = prop_oneof![
            Just(None),
            Just(Some(Subscript::Hole(Span::default()))),
            prop::collection::vec(plain(), 1..3).prop_map(|names| Some(Subscript::Axes(names))),
        ];
        let dim = (dim, subscript).prop_map(|(dim, subscript)| DimRef { dim, subscript, span: Span::default() });
        let operator = prop::sample::select(vec!["U", "MAX", "SQUARE_ADD"]).prop_map(named);
        let open = (operator, prop::collection::vec(plain(), 1..3)).prop_map(|(operator, axes)| OpenRef {
            operator,
            axes,
            root: None,
            span: Span::default(),
        });
        let free = any::<bool>().prop_map(|free| free.then(Span::default));
        (prop::collection::vec(dim, 0..4), free, prop::option::of(open)).prop_map(|(dims, free, open)| Brackets {
            dims,
            rest: None,
            free,
            open,
            span: Span::default(),
        })
    }

    fn array() -> impl Strategy<Value = ExprKind> {
        let kind = |name, dtype, brackets| ArrayRef { name, dtype, brackets, span: Span::default() };
        prop_oneof![
            (name(), prop::option::of(brackets())).prop_map(move |(name, b)| kind(Some(name), None, b)),
            (prop::option::of(dtype()), brackets()).prop_map(move |(dtype, b)| kind(None, dtype, Some(b))),
        ]
        .prop_map(ExprKind::Array)
    }

    fn bare(kind: ExprKind) -> Expr {
        Expr { kind, span: Span::default() }
    }

    fn product(factors: Vec<Expr>, how: u8, names: Vec<Name>) -> ExprKind {
        let (contraction, factors) = match how {
            0 => (Contraction::Local(Span::default()), factors[..2].to_vec()),
            1 => (Contraction::Named(names), factors[..2].to_vec()),
            _ => (Contraction::Implied, factors),
        };
        ExprKind::Product { factors, contraction }
    }

    fn expr() -> impl Strategy<Value = Expr> {
        let number = prop_oneof![(0u32..1000).prop_map(f64::from), (0.0..1e300f64), Just(5e-324), Just(f64::MAX)];
        let leaf = prop_oneof![4 => array(), 1 => number.prop_map(|n| ExprKind::Number(Scalar(n)))].prop_map(bare);
        leaf.prop_recursive(5, 24, 3, |inner| {
            let names = || prop::collection::vec(plain(), 1..3);
            let few = || prop::collection::vec(plain(), 0..3);
            let op = prop::sample::select(vec![BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div]);
            let kinds = vec![
                CollectiveName::AllGather,
                CollectiveName::ReduceScatter,
                CollectiveName::AllReduce,
                CollectiveName::AllToAll,
                CollectiveName::Broadcast,
            ];
            let kind = prop::sample::select(kinds).prop_map(|node| Spanned { node, span: Span::default() });
            let function = prop::sample::select(vec!["relu", "rename", "f32", "sum"]).prop_map(named);
            let boxed = inner.clone().prop_map(Box::new);
            prop_oneof![
                (prop::collection::vec(inner.clone(), 2..4), 0..4u8, names()).prop_map(|(f, h, n)| product(f, h, n)),
                (op, boxed.clone(), boxed.clone()).prop_map(|(op, left, right)| ExprKind::Binary { op, left, right }),
                boxed.clone().prop_map(ExprKind::Neg),
                (function, few(), prop::collection::vec(inner, 1..3))
                    .prop_map(|(function, subscript, arguments)| { ExprKind::Call { function, subscript, arguments } }),
                (kind, few(), boxed).prop_map(|(kind, subscript, argument)| ExprKind::Collective {
                    kind,
                    subscript,
                    argument
                }),
            ]
            .prop_map(bare)
        })
    }

    fn bare_size(kind: SizeKind) -> SizeExpr {
        SizeExpr { kind, span: Span::default() }
    }

    /// A product, with parentheses in it.
    fn size_product(atom: impl Strategy<Value = SizeExpr> + 'static) -> BoxedStrategy<SizeExpr> {
        let atom = atom.prop_recursive(2, 8, 3, |inner| {
            (inner.clone(), inner, product_sign()).prop_map(|(first, operand, sign)| {
                let chain = SizeKind::Chain { first: Box::new(first), rest: vec![(sign, operand)] };
                bare_size(SizeKind::Group(Box::new(bare_size(chain))))
            })
        });
        (atom.clone(), prop::collection::vec((product_sign(), atom), 0..3))
            .prop_map(|(first, rest)| match rest.len() {
                0 => first,
                _ => bare_size(SizeKind::Chain { first: Box::new(first), rest }),
            })
            .boxed()
    }

    fn product_sign() -> impl Strategy<Value = SizeSign> {
        prop::sample::select(vec![SizeSign::Times, SizeSign::Over])
    }

    fn literal() -> impl Strategy<Value = SizeExpr> {
        size_product(any::<u64>().prop_map(|size| bare_size(SizeKind::Number(size))))
    }

    fn using() -> impl Strategy<Value = UsingRef> {
        let pieces = || any::<u64>().prop_map(|node| Spanned { node, span: Span::default() });
        prop_oneof![
            (plain(), prop::option::of(pieces()))
                .prop_map(|(method, pieces)| UsingRef { method: Some(method), pieces }),
            pieces().prop_map(|pieces| UsingRef { method: None, pieces: Some(pieces) }),
        ]
    }

    fn size() -> impl Strategy<Value = SizeExpr> {
        let name = prop::sample::select(vec!["I", "J'", "model"]).prop_map(|name| SizeKind::Name(name.to_owned()));
        let term = size_product(prop_oneof![any::<u64>().prop_map(SizeKind::Number), name].prop_map(bare_size));
        let sign = prop::sample::select(vec![SizeSign::Plus, SizeSign::Minus]);
        (term.clone(), prop::option::of((sign, term))).prop_map(|(first, rest)| match rest {
            None => first,
            Some(rest) => bare_size(SizeKind::Chain { first: Box::new(first), rest: vec![rest] }),
        })
    }

    pub(in crate::syntax) fn statement() -> impl Strategy<Value = Statement> {
        let wirings = Wiring::ALL.to_vec();
        let wiring = prop::sample::select(wirings).prop_map(|node| Spanned { node, span: Span::default() });
        let over = prop::option::of(prop::sample::select(vec!["dcn", "ib_2"]).prop_map(named));
        let axis = (plain(), size(), prop::collection::vec(size(), 0..2), prop::option::of(wiring), over)
            .prop_map(|(name, size, more, wiring, over)| AxisDecl { name, size, more, wiring, over });
        let device = || prop::collection::vec(0u64..9, 1..4).prop_map(|node| Spanned { node, span: Span::default() });
        let state = prop_oneof![Just(LinkState::Down), (1u8..=100).prop_map(LinkState::Percent)];
        let link = (device(), device(), any::<bool>(), state).prop_map(|(from, to, both_ways, state)| LinkDecl {
            from,
            to,
            both_ways,
            state,
        });
        let hardware = prop::option::of(prop::sample::select(vec!["tpu_v5e", "h100-sxm", "4x4.x"]).prop_map(named));
        let dim_size =
            prop_oneof![size().prop_map(DimSize::Is), prop::collection::vec(plain(), 2..4).prop_map(DimSize::Parts),];
        let dim = (plain(), dim_size).prop_map(|(name, size)| DimDecl { name, size });
        let target =
            prop_oneof![
                (name(), prop::option::of(dtype()), prop::option::of(brackets()))
                    .prop_map(|(name, dtype, brackets)| (Some(name), dtype, brackets)),
                (prop::option::of(dtype()), brackets()).prop_map(|(dtype, b)| (None, dtype, Some(b))),
            ]
            .prop_map(|(name, dtype, brackets)| Target { name, dtype, brackets, span: Span::default() });
        prop_oneof![
            (prop::collection::vec(axis, 0..4), hardware)
                .prop_map(|(axes, hardware)| StatementKind::Mesh { axes, hardware }),
            (plain(), prop::collection::vec((plain(), size()), 1..4)).prop_map(|(axis, parts)| StatementKind::View {
                axis,
                parts: parts.into_iter().map(|(name, size)| PartDecl { name, size }).collect()
            }),
            prop::collection::vec(dim, 0..4).prop_map(StatementKind::Dims),
            (name(), dtype(), brackets(), any::<bool>())
                .prop_map(|(name, dtype, brackets, donated)| StatementKind::Input { name, dtype, brackets, donated }),
            (
                target,
                expr(),
                prop::option::of((plain(), prop::collection::vec(name(), 0..3))),
                prop::option::of(using())
            )
                .prop_map(|(target, value, by, using)| StatementKind::Assign {
                    target,
                    value,
                    by: by.map(|(strategy, operands)| PinRef { strategy, operands }),
                    using
                }),
            prop::collection::vec(name(), 1..4).prop_map(StatementKind::Output),
            link.prop_map(StatementKind::Link),
        ]
        .prop_map(|kind| Statement { kind, span: Span::default() })
    }

    fn check_spans(source: &str, ast: &Ast, diagnostics: &Diagnostics) {
        for statement in &ast.statements {
            assert!(source.get(statement.span.range()).is_some_and(|text| !text.is_empty()));
        }
        for label in diagnostics.iter().flat_map(|diagnostic| &diagnostic.labels) {
            assert!(source.get(label.span.range()).is_some(), "{label:?} {source:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_printed_reads_back(statements in prop::collection::vec(statement(), 0..4)) {
            let ast = Ast { statements, ..Ast::default() };
            let text = ast.to_string();
            let (again, diagnostics) = parse(&text);
            prop_assert!(diagnostics.is_empty(), "{}\n{}", text, said(&text));
            prop_assert_eq!(without_spans(&again), without_spans(&ast), "{}", text);
        }

        #[test]
        fn no_text_is_too_wild(source in "([A-C_XU' ·*+/=:,;#\n\\[\\](){}<>→?0-9-]|AllGather_|mesh |dims|output|->|bf16|\\\\to|é|\u{A0}|\r\n){0,60}") {
            let (ast, diagnostics) = parse(&source);
            check_spans(&source, &ast, &diagnostics);
            let text = ast.to_string();
            let (again, diagnostics) = parse(&text);
            prop_assert!(diagnostics.is_empty(), "{}\n{}", text, said(&text));
            // What could not be read is not printed.
            let ast = Ast { lost: again.lost.clone(), rebound: again.rebound.clone(), nameless: again.nameless, ..ast };
            prop_assert_eq!(without_spans(&again), without_spans(&ast), "{}", text);
        }

        #[test]
        fn any_characters(source in any::<String>()) {
            let (ast, diagnostics) = parse(&source);
            check_spans(&source, &ast, &diagnostics);
        }

        #[test]
        fn broken_programs(cut in 0usize..400, length in 0usize..8, put in "[\\[\\](){}=*,>:_\n-]{0,4}") {
            let mut source = "mesh {X: 4, Y: 2 ring} on tpu_v5e\ndims {I: 8, J: 4}\nA: bf16[I_X, J]\nB: int8[J, 128_{XY}]\n\
                C[I_X, K]{U_Y} = relu(A *_J B) + 2 * softmax_T(A)\nA[I_X] · B → C[I]\n\
                ReduceScatter_{Y,J} : A[I_X,J]{U_Y} -> A[I_X,J_Y]\noutput C, D\n".to_owned();
            let cut = cut.min(source.len());
            let range = (0..=cut).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0)
                ..(cut + length..).find(|at| source.is_char_boundary(*at) || *at >= source.len()).unwrap().min(source.len());
            source.replace_range(range, &put);
            let (ast, diagnostics) = parse(&source);
            check_spans(&source, &ast, &diagnostics);
            prop_assert!(ast.statements.len() + diagnostics.iter().count() >= 3, "{}", source);
        }
    }
}

/// A block is read statement by statement: one that is wrong costs no other.
#[test]
fn blocks_hold_statements() {
    let ast =
        good("repeat 2*L { A = B; C = D }\nrepeat 3 {\n  E = (F +\n    G)\n  repeat 2 {\n    H = I\n  }\n}\nJ = K");
    let printed = "repeat 2*L {\n    A = B\n    C = D\n}\nrepeat 3 {\n    E = F + G\n    repeat 2 {\n        H = I\n    }\n}\nJ = K\n";
    assert_eq!(ast.to_string(), printed);
    assert_eq!(good(printed).to_string(), printed);
    let (ast, diagnostics) = parse("repeat 2 {\n  A = \n  B = (C\n  D = E\n}\nF = G }\nH = I");
    assert_eq!(diagnostics.iter().count(), 3, "{diagnostics:?}");
    assert_eq!(ast.to_string(), "repeat 2 {\n    D = E\n}\nH = I\n");
    assert_eq!(said("repeat 4 {\n  A = B\n"), "unclosed-bracket: `{` is not closed | B | expected `}` after this");
    // Deep nesting ends in words.
    let (_, diagnostics) = parse(&"repeat 2 {\n".repeat(10_000));
    assert!(diagnostics.iter().any(|found| found.code == "too-deep"));
}
