//! The canonical style of each form and the places of comments; formatting keeps the meaning.

use super::format::{format, left_alone};
use super::parse;
use super::tests::properties::{statement, without_spans};
use super::{Ast, Statement};
use proptest::prelude::*;

/// Formats, and holds what must hold of every formatted text.
fn formatted(source: &str) -> String {
    let text = format(source).unwrap_or_else(|diagnostics| panic!("{source}\n{diagnostics:?}"));
    assert_eq!(left_alone(source), 0, "{source}");
    assert_eq!(format(&text).as_ref(), Ok(&text), "formatted twice: {source}");
    let meaning = |source: &str| without_spans(&parse(source).0);
    assert_eq!(meaning(&text), meaning(source), "{source}\n{text}");
    assert_eq!(comments(&text), comments(source), "{source}\n{text}");
    assert!(!text.contains("\n\n\n") && !text.starts_with('\n'), "{text:?}");
    assert!(text.is_empty() || text.ends_with('\n') && !text.ends_with("\n\n"), "{text:?}");
    assert!(text.lines().all(|line| line.trim_end() == line || line.contains('#')), "{text:?}");
    text
}

/// The comments of a source in order.
fn comments(source: &str) -> Vec<&str> {
    source.split('\n').filter_map(|line| line.find('#').map(|at| line[at..].trim_end())).collect()
}

#[test]
fn each_form_has_one_spelling() {
    let forms = [
        ("A·B→C[I]", "A * B -> C[I]"),
        ("A[I_X,J]@B[J,K]\\rightarrow C[ I_{X} , K ]", "A[I_X, J] * B[J, K] -> C[I_X, K]"),
        ("C[I,K]=A*B", "C[I, K] = A * B"),
        ("C=A\\cdot_{LOCAL}B", "C = A *_LOCAL B"),
        ("C=2.*A⊙B\\odot D", "C = 2 .* A .* B .* D"),
        ("C = A ·_{ N , H } B *_{J} D", "C = A *_{N,H} B *_J D"),
        ("A[I_{XY},J_{X, Y},K_{data},L_{ data , model }]->B", "A[I_XY, J_{X,Y}, K_data, L_{data,model}] -> B"),
        ("A[I] {U.X} + B[I]{ MAX_{X} } -> C[I]{U_{X,Y}}", "A[I]{U_X} + B[I]{MAX_X} -> C[I]{U_{X,Y}}"),
        ("mesh = jax.make_mesh((4, 2),('X', 'Y'))  on h100", "mesh {X: 4, Y: 2} on h100"),
        ("{'X' :4}", "mesh {X: 4}"),
        ("Mesh ({'X':4, “Y”: 2 ring,}) on tpu_v5e", "mesh {X: 4, Y: 2 ring} on tpu_v5e"),
        ("dims{ I :8,J: 4 , }", "dims {I: 8, J: 4}"),
        ("dims{\n}", "dims {}"),
        ("A:int8[128_{XY},2048]", "A: i8[128_XY, 2048]"),
        ("C=int8[4]*int8(A)+fp16[4]", "C = i8[4] * int8(A) + f16[4]"),
        ("AllReduce_Y A[I]{U_Y} -> A[I]", "AllReduce_Y(A[I]{U_Y}) -> A[I]"),
        ("ReduceScatter_{Y , J} : A[J]{U_Y}", "ReduceScatter_{Y,J}(A[J]{U_Y})"),
        ("AllGather_{X}[I_X] → [I]", "AllGather_X([I_X]) -> [I]"),
        ("AllToAll_{X→J}(A)", "AllToAll_{X->J}(A)"),
        ("P=softmax_{T}(S)+log_soft_{T}(S)", "P = softmax_T(S) + log_soft_{T}(S)"),
        ("P=f'_{T}(S)", "P = f'_{T}(S)"),
        ("k=rename_{ S → T }( k )", "k = rename_{S->T}(k)"),
        ("C = - A*-  -B-1E3 +(2.50/ 1e-3)", "C = -A * --B - 1E3 + (2.50 / 1e-3)"),
        ("C’ = A′ *\tA'\r", "C' = A' * A'"),
        ("output  C ,D", "output C, D"),
        ("C = A using  ring", "C = A using ring"),
        ("expect collectives C = [ ]", "expect collectives C = []"),
        (
            "expect collectives C=[AllGather_{X} ,ReduceScatter_{X , K},AllReduce ]",
            "expect collectives C = [AllGather_X, ReduceScatter_{X,K}, AllReduce]",
        ),
        ("C:f32[I]=A", "C: f32[I] = A"),
        ("(A): bf16[I]", "(A): bf16[I]"),
        ("\u{FEFF}A\u{A0}=B", "A = B"),
        ("A = B; C = D ;; # why", "A = B\nC = D  # why"),
    ];
    for (source, wanted) in forms {
        assert_eq!(formatted(source), format!("{wanted}\n"), "{source}");
    }
}

#[test]
fn groups_and_comments_stay() {
    let source = "\n\n# head  \n\n\n\nmesh {X: 4}# four\n# sizes\ndims {I: 8}\n\n#one\n#two\n\n\nA = B # b\r\n\n\n";
    let wanted = "# head\n\nmesh {X: 4}  # four\n# sizes\ndims {I: 8}\n\n#one\n#two\n\nA = B  # b\n";
    assert_eq!(formatted(source), wanted);
    assert_eq!(formatted(" \n\n"), "");
    assert_eq!(formatted("# only"), "# only\n");
}

#[test]
fn inputs_have_their_dtypes_in_one_column() {
    let source =
        "In: bf16[B]  # in\n# the weights\nWout:bf16[B]\nW:bf16[B]\n\nA: bf16[B]\nLong: bf16[B]\nC = A\nB: bf16[B]";
    let wanted = "In:   bf16[B]  # in\n# the weights\nWout: bf16[B]\nW:    bf16[B]\n\nA:    bf16[B]\nLong: bf16[B]\n\
        C = A\nB: bf16[B]\n";
    assert_eq!(formatted(source), wanted);
    // A very long name stands out instead of moving its neighbours.
    let long = "L".repeat(40);
    let wanted = format!("A:  bf16[B]\nBB: bf16[B]\n{long}: bf16[B]\n");
    assert_eq!(formatted(&format!("A: bf16[B]\nBB: bf16[B]\n{long}:  bf16[B]")), wanted);
}

#[test]
fn lines_stay_where_they_were_broken() {
    let blocks = [
        ("mesh {X: 4, # four\n  Y: 2\n} on t", "mesh {\n    X: 4,  # four\n    Y: 2,\n} on t\n"),
        ("dims {I: 1, J: 2,\n\n\n K: 3}", "dims {\n    I: 1, J: 2,\n\n    K: 3,\n}\n"),
        ("dims {\n\n I: 1,\n# why\n\n}", "dims {\n    I: 1,\n    # why\n}\n"),
        ("dims {I: 1 # one\n ,J: 2 }", "dims {\n    I: 1,  # one\n    J: 2,\n}\n"),
        ("dims { # all\n}", "dims {  # all\n}\n"),
        ("Mesh( # all\n{'X': 4\n} # end\n)", "mesh {  # all\n    X: 4,\n}  # end\n"),
        (
            "dims {L =\n X*Y, M: 8+(\n 1*I # one\n), X = D*X}",
            "dims {\n    L =\n    X*Y, M: 8+(1*I),\n    # one\n    X = D*X,\n}\n",
        ),
        ("dims {L =\n X*Y, M: 8+(\n 1*I), X = D*X}", "dims {\n    L =\n    X*Y, M: 8+(1*I), X = D*X,\n}\n"),
    ];
    let values = [
        ("C = A *\nB", "C = A *\n    B\n"),
        ("C =\n  # why\n relu( A\n+B # b\n )", "C =\n    # why\n    relu(A\n    + B  # b\n)\n"),
        ("C = relu(\n tanh(\nA\n))", "C = relu(\n    tanh(\n        A\n    ))\n"),
        ("A:\n bf16[I]", "A: bf16[I]\n"),
        ("A: # why\n bf16[I]", "A:  # why\n    bf16[I]\n"),
        ("C = A *_{N, # n\n H # h\n} B", "C = A *_{N,H}  # n\n    # h\n    B\n"),
        ("C = A[I]{U_X # x\n} + B", "C = A[I]{U_X} +  # x\n    B\n"),
        ("C = sum_{J, # j\n K}(A)", "C = sum_{J,K}(  # j\n    A)\n"),
        ("C = A[I]{U_X # x\n} # c\n# d", "C = A[I]{U_X}  # x\n# c\n# d\n"),
        ("C = rename_{S\n \\to T}(k)", "C = rename_{S->T}(k)\n"),
        ("output C,\nD", "output C,\n    D\n"),
        ("A: bool = B[I]{ # inside\nU_X} + output using X", "A: bool = B[I]{U_X} + output using X  # inside\n"),
    ];
    for (source, wanted) in blocks.into_iter().chain(values) {
        assert_eq!(formatted(source), wanted, "{source}");
    }
}

#[test]
fn what_cannot_be_read_is_not_touched() {
    for source in ["C[I = A\nB  =  D", "repeat 4 {\n A  =  B", "A = \0"] {
        assert!(format(source).is_err(), "{source}");
    }
}

#[test]
fn blocks_are_indented() {
    let source =
        "repeat  2*L{ # layers\nW:bf16[D]\n\n\n  # why\nVV: bf16[D];x=x*W+ # more\nVV }# end\nrepeat 2 {\n}\noutput x";
    let wanted = "repeat 2*L {  # layers\n    W: bf16[D]\n\n    # why\n    VV: bf16[D]\n    x = x * W +  # more\n        VV\n}  # end\n\
        repeat 2 {\n}\noutput x\n";
    assert_eq!(formatted(source), wanted);
    // `=` relates dims where it would else begin a statement.
    let related = "dims {\n    K: 2, M: 4,\n    N = K*M,\n    P = N*K,\n}\n";
    assert_eq!(formatted("dims {\nK: 2, M: 4,\nN=K·M,\n P = N*K\n}"), related);
}

/// How a program may be written down differently: one number picks each blank, comment and sign.
fn scribbled(statements: &[Statement], picks: &[u8]) -> String {
    let mut picks = picks.iter().copied().cycle();
    let mut pick = move || picks.next().unwrap_or(0);
    let mut out = String::new();
    for statement in statements {
        out.push_str(
            ["", "\n", "\n\n\n", "# own line\n", "\n # own · line → \n\n", "", "", ""][usize::from(pick() % 8)],
        );
        scribble(&statement.to_string(), &mut pick, &mut out);
        out.push_str(
            ["\n", " # behind\n", "#behind  \r\n", "\t\n", " ;\n", "\n", "\n\n", ";"][usize::from(pick() % 8)],
        );
    }
    out
}

/// One statement with other blanks and other signs. Lines end where a sign, an opener or a comma stands before.
fn scribble(text: &str, pick: &mut impl FnMut() -> u8, out: &mut String) {
    let mut depth = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let arrow = rest.starts_with("->");
        let elements = rest.starts_with(".*");
        let shown = match (c, arrow) {
            ('.', _) if elements => [".*", "⊙", "\\odot "][usize::from(pick() % 3)],
            ('-', true) => ["->", "→", "⟶", "\\to "][usize::from(pick() % 4)],
            ('*', _) => ["*", "·", "@", "\\cdot", "⋅"][usize::from(pick() % 5)],
            ('\'', _) => ["'", "’", "′"][usize::from(pick() % 3)],
            _ => &rest[..c.len_utf8()],
        };
        let before = if rest.starts_with(['*', '=', ',']) && !rest.starts_with("*_") { pick() } else { 0 };
        let in_name = out.ends_with(|c: char| c == '_' || c.is_alphanumeric());
        out.push_str(if before % 3 == 1 && in_name { " " } else { "" });
        out.push_str(shown);
        rest = &rest[if arrow || elements { 2 } else { c.len_utf8() }..];
        match c {
            '(' | '[' | '{' => depth.push(c),
            ')' | ']' | '}' => drop(depth.pop()),
            _ => {}
        }
        let ends = matches!(c, '=' | ',' | '+' | '/') || arrow || matches!(c, '*' | '-') && rest.starts_with(' ');
        let may_end = (ends || c == '(' || c == '{' && depth.len() == 1) && !depth.contains(&'[');
        let blanks: &[&str] = match () {
            () if may_end => &["", "\n", "  ", " # inside\n", "\n# inside, alone\n\n  ", "", "", ""],
            () if ends || "[(".contains(c) => &["", " ", "\t", "\u{A0}"],
            () => &[""],
        };
        out.push_str(blanks[usize::from(pick()) % blanks.len()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_formatted_as_it_is_printed(statements in prop::collection::vec(statement(), 0..4)) {
        let ast = Ast { statements, ..Ast::default() };
        let text = formatted(&ast.to_string());
        prop_assert_eq!(without_spans(&parse(&text).0), without_spans(&ast));
    }

    #[test]
    fn scribbled_programs_come_out_clean(
        statements in prop::collection::vec(statement(), 0..5),
        picks in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let source = scribbled(&statements, &picks);
        let ast = Ast { statements, ..Ast::default() };
        let (read, diagnostics) = parse(&source);
        // A scribble may end a statement early; most do not.
        prop_assume!(diagnostics.is_empty() && without_spans(&read) == without_spans(&ast));
        let text = formatted(&source);
        let code = text.lines().map(|line| &line[..line.find('#').unwrap_or(line.len())]);
        prop_assert!(code.into_iter().all(str::is_ascii), "{}", text);
    }

    #[test]
    fn wild_text_is_formatted_or_refused(source in "([A-C_XU' ·*+/=:,;#\n\\[\\](){}<>→?0-9-]|AllGather_|mesh |dims|output|->|bf16|\\\\to|é|\u{A0}|\r\n){0,60}") {
        if parse(&source).1.has_errors() {
            prop_assert!(format(&source).is_err());
        } else {
            formatted(&source);
        }
    }
}
