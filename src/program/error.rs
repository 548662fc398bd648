//! Diagnostics of the checker.
//!
//! Each variant is one kind of diagnostic with a stable code. Labels mark every location involved, and
//! the help says what to write instead.

use crate::diag::Fix;
use crate::dtype::DType;
use crate::mesh::Mesh;
use crate::operator::Operator;
use crate::span::Span;
use crate::syntax::SizeFlaw;

/// The diagnostics of the checker: errors, then warnings, then notes.
#[derive(Clone, Debug, PartialEq, thiserror::Error, miette::Diagnostic)]
pub(super) enum CheckError {
    #[error("the program has no mesh")]
    #[diagnostic(code("no-mesh"), help("{help}"))]
    NoMesh {
        #[label("this needs a mesh")]
        at: Option<Span>,
        help: String,
    },

    #[error("the mesh is declared twice")]
    #[diagnostic(code("mesh-repeated"), help("a program has one mesh; put all axes into one statement"))]
    MeshRepeated {
        #[label("first declared here")]
        first: Span,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("{what} is declared after the first array")]
    #[diagnostic(code("mesh-late"), help("move the line above {first}, the first array"))]
    MeshLate {
        /// The mesh, or the parts of an axis.
        what: String,
        /// The first array.
        first: String,
        #[label("below the first array")]
        mesh: Span,
    },

    #[error("the mesh is too large: {found}")]
    #[diagnostic(
        code("mesh-too-large"),
        help("a mesh has at most {} axes and {} (2^20) devices", Mesh::MOST_AXES, Mesh::MOST_DEVICES)
    )]
    MeshTooLarge {
        found: String,
        #[label("declared here")]
        at: Span,
    },

    #[error("no such device in mesh {mesh}")]
    #[diagnostic(
        code("no-device"),
        help("a device has one coordinate per axis, in the order of the axes, counted from 0")
    )]
    NoDevice {
        mesh: String,
        why: String,
        #[label("{why}")]
        at: Span,
    },

    #[error("axis `{name}` is declared twice")]
    #[diagnostic(code("axis-repeated"), help("rename one of them"))]
    AxisRepeated {
        name: String,
        #[label("first declared here")]
        first: Span,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("dim `{name}` is declared twice")]
    #[diagnostic(code("dim-redeclared"), help("rename or remove one of them"))]
    DimRedeclared {
        name: String,
        #[label("first declared here")]
        first: Span,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("{what} has size 0")]
    #[diagnostic(code("size-zero"), help("sizes are 1 or more"))]
    SizeZero {
        what: String,
        #[label("size 0")]
        at: Span,
    },

    #[error("invalid size: {why}")]
    #[diagnostic(code("size-without-value"), help("sizes are whole numbers below 2^64"))]
    SizeWithoutValue {
        why: String,
        #[label("invalid size")]
        at: Span,
    },

    #[error("unknown size `{name}`")]
    #[diagnostic(code("unknown-size"))]
    UnknownSize {
        name: String,
        #[label("unknown size")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("dim `{dim}` is used twice in a composite dim")]
    #[diagnostic(
        code("part-repeated"),
        help("the parts of a dim must be different; declare a second dim of the same size")
    )]
    PartRepeated {
        dim: String,
        #[label("used again here")]
        at: Span,
    },

    #[error("axis `{axis}` of size {size} does not align with the parts of `{name}` = {parts} ({sizes})")]
    #[diagnostic(code("cut-across"))]
    CutAcross {
        name: String,
        parts: String,
        sizes: String,
        axis: String,
        size: u64,
        #[help]
        help: String,
        #[label("splits a part unevenly")]
        at: Span,
    },

    #[error("`{name}` is a composite of the dims {parts}")]
    #[diagnostic(code("dim-of-parts"), help("use one of these dims"))]
    DimOfParts {
        name: String,
        parts: String,
        #[label("expected a single dim")]
        at: Span,
    },

    #[error("axis `{name}` has the same name as a physical axis of another axis")]
    #[diagnostic(
        code("axis-repeated"),
        help("the physical axes of `X: 4x4` are named `X1` and `X2`; rename the other axis")
    )]
    PhysicalName {
        name: String,
        #[label("in this mesh")]
        at: Span,
    },

    #[error("the parts of axis `{axis}` multiply to {found}, but the axis has size {size}")]
    #[diagnostic(code("view-size"), help("the product of the part sizes must equal the size of the axis"))]
    ViewSize {
        axis: String,
        found: u64,
        size: u64,
        #[label("these parts")]
        at: Span,
    },

    #[error("axis `{name}` is already split into {parts}")]
    #[diagnostic(code("view-of-parts"), help("an axis is split once; split one of its parts instead"))]
    ViewOfParts {
        name: String,
        parts: String,
        #[label("already split")]
        at: Span,
    },

    #[error("`{name}` is not an axis of the mesh")]
    #[diagnostic(code("unknown-axis"))]
    UnknownAxis {
        fixes: Vec<Fix>,
        name: String,
        #[label("not an axis")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("ambiguous axes: `{name}` is one axis or several")]
    #[diagnostic(code("ambiguous-axis"), help("write `{{{split}}}` for the several axes, or rename the axis `{name}`"))]
    AmbiguousAxis {
        name: String,
        split: String,
        #[label("one axis or several")]
        at: Span,
    },

    #[error("unknown dim `{name}`")]
    #[diagnostic(code("unknown-dim"))]
    UnknownDim {
        name: String,
        #[label("not declared in `dims`")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("`{axis}` is an axis, not a dim")]
    #[diagnostic(code("unknown-dim"))]
    AxisAsDim {
        axis: String,
        label: &'static str,
        fixes: Vec<Fix>,
        #[label("{label}")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("unknown array `{name}`")]
    #[diagnostic(code("unknown-array"))]
    UnknownArray {
        name: String,
        #[label("not declared above")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("unknown operator `{word}` of an open sum")]
    #[diagnostic(code("unknown-operator"), help("{}", near_operator(word)))]
    UnknownOperator {
        word: String,
        #[label("unknown operator")]
        at: Span,
    },

    #[error("{what}")]
    #[diagnostic(code("invalid-root"))]
    InvalidRoot {
        what: String,
        #[label("invalid root")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("an open {operator} does not support {dtype}")]
    #[diagnostic(code("operator-dtype"), help("{} needs {}; cast the array first", operator.word(), operands(*operator)))]
    OperatorDType {
        operator: Operator,
        dtype: DType,
        #[label("declared here")]
        at: Span,
    },

    #[error("the body of `repeat` begins with `{has}` but ends with `{ends}`")]
    #[diagnostic(code("repeat-layout"))]
    RepeatLayout {
        name: String,
        has: String,
        ends: String,
        #[label("layout at the end of the body")]
        at: Span,
        #[label("layout that the next iteration expects")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("`{what}` is not allowed inside `repeat`")]
    #[diagnostic(code("not-in-repeat"), help("a body has inputs and results only; move this out of it"))]
    NotInRepeat {
        what: &'static str,
        #[label("inside a `repeat` body")]
        at: Span,
    },

    #[error("nested `repeat` expands to more than {most} statements")]
    #[diagnostic(code("repeat-too-long"), help("give the outer `repeat` the large count: its body is planned once"))]
    WrittenOutTooLong {
        most: usize,
        #[label("expanded")]
        at: Span,
    },

    #[error("unknown collective `{name}`")]
    #[diagnostic(code("unknown-collective"))]
    UnknownMove {
        name: String,
        #[label("no such collective")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("unknown function `{name}`")]
    #[diagnostic(code("unknown-function"))]
    UnknownFunction {
        name: String,
        #[label("unknown function")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("`{name}` takes {takes}, found {count}")]
    #[diagnostic(code("function-arguments"))]
    Arguments {
        #[help]
        help: String,
        name: String,
        takes: String,
        count: usize,
        #[label("called here")]
        at: Span,
    },

    #[error("`{name}` does not make a table here")]
    #[diagnostic(code("function-arguments"))]
    TableAlone {
        #[help]
        help: String,
        name: String,
        #[label("here")]
        at: Span,
    },

    #[error("argument `{argument}` of `{name}` is {what}")]
    #[diagnostic(code("function-arguments"))]
    Argument {
        #[help]
        help: String,
        name: String,
        argument: String,
        what: String,
        #[label("here")]
        at: Span,
    },

    #[error("invalid subscript of `{name}`")]
    #[diagnostic(code("function-subscript"))]
    FunctionSubscript {
        name: String,
        #[label("here")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("{what}")]
    #[diagnostic(code("axis-reused"))]
    AxisReused {
        fixes: Vec<Fix>,
        what: String,
        #[label("first used here")]
        first: Span,
        #[label(primary, "used again here")]
        second: Span,
        #[help]
        help: String,
    },

    #[error("dim `{dim}` occurs twice in {array}")]
    #[diagnostic(
        code("dim-repeated"),
        help(
            "declare a second dim of the same size, `{dim}2`; a computed array is renamed, `rename_{{{dim}->{dim}2}}(..)`"
        )
    )]
    DimRepeated {
        dim: String,
        array: String,
        #[label("first here")]
        first: Span,
        #[label(primary, "again here")]
        second: Span,
    },

    #[error("dim `{dim}` of size {size} is padded to {padded} ({waste} % padding)")]
    #[diagnostic(
        code("padded"),
        severity(Warning),
        help(
            "memory, traffic and compute grow to {padded} elements; {even} no padding{}",
            if *padded >= 2 * size {
                "; some shards are all padding: shard the dim over fewer devices, or shard another dim"
            } else {
                ""
            }
        )
    )]
    Padded {
        dim: String,
        size: u64,
        split: u64,
        padded: u64,
        /// The sizes around it that need no padding.
        even: String,
        waste: String,
        #[label("{size} is not divisible by {split}, the number of shards")]
        at: Span,
    },

    #[error("{array} is too large: it has {elements} elements")]
    #[diagnostic(code("array-too-large"), help("an array has fewer than 2^60 elements"))]
    ArrayTooLarge {
        array: String,
        elements: String,
        #[label("too large")]
        at: Span,
    },

    #[error("{array} has {rank} dims")]
    #[diagnostic(code("too-many-dims"), help("an array has at most {most} dims"))]
    TooManyDims {
        array: String,
        rank: usize,
        most: usize,
        #[label("too many dims")]
        at: Span,
    },

    #[error("the expression is nested more than {most} levels deep")]
    #[diagnostic(code("too-deep"), help("name a part of it: `T = ..`"))]
    TooDeep {
        #[label("too deep")]
        at: Span,
        most: usize,
    },

    #[error("array `{name}` is declared twice")]
    #[diagnostic(code("array-redeclared"), help("rename one of them"))]
    ArrayRedeclared {
        name: String,
        #[label("first declared here")]
        first: Span,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("cannot rebind `{name}` from `{before}` to `{after}`")]
    #[diagnostic(
        code("rebind-mismatch"),
        help("rebinding may change the layout only, not dims or dtype; use another name")
    )]
    RebindMismatch {
        name: String,
        before: String,
        after: String,
        #[label("first bound here")]
        first: Span,
        #[label(primary, "bound again here")]
        second: Span,
    },

    #[error("{array} has both layout holes and an open sum")]
    #[diagnostic(
        code("partial-hole"),
        help("remove the braces (the compiler may leave the sum open), or write the axes of every dim")
    )]
    HoleBesideOpenSum {
        array: String,
        #[label("an open sum needs a full layout")]
        at: Span,
    },

    #[error("{array} has holes in a use, and its layout is chosen by the compiler")]
    #[diagnostic(
        code("partial-hole"),
        help("brackets on a use state the existing layout: remove them, or write the axes of every dim")
    )]
    HoleInUse {
        array: String,
        #[label("hole in a use")]
        at: Span,
    },

    #[error("expected layout `{said}`, found `{has}`")]
    #[diagnostic(code("layout-mismatch"))]
    LayoutMismatch {
        fixes: Vec<Fix>,
        said: String,
        has: String,
        #[label(primary, "brackets on a use state the existing layout")]
        at: Span,
        #[label("layout comes from here")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("{what} needs the layout of `{array}`, which is not fixed")]
    #[diagnostic(code("layout-unknown"))]
    LayoutUnknown {
        array: String,
        what: String,
        #[label(primary, "layout chosen by the compiler")]
        at: Span,
        #[label("computed here")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("`{dim}` is in `{array}` but not in the result, and nothing sums over it")]
    #[diagnostic(code("dim-lost"))]
    DimLost {
        dim: String,
        array: String,
        #[label("has `{dim}`")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("dim `{dim}` of the result is in no operand")]
    #[diagnostic(code("dim-missing"))]
    DimMissing {
        dim: String,
        #[label(primary, "in the result")]
        at: Span,
        #[label("has no `{dim}`")]
        value: Span,
        #[help]
        help: String,
    },

    #[error("an unnamed dim cannot be contracted")]
    #[diagnostic(
        code("literal-contracted"),
        help("name it, `dims {{{name}: {size}}}`, and write `{name}` instead of `{size}` in both arrays")
    )]
    LiteralContracted {
        size: u64,
        name: String,
        #[label("unnamed dim of size {size}")]
        at: Span,
    },

    #[error("ambiguous contraction: {why}")]
    #[diagnostic(code("contraction-unclear"))]
    ContractionUnclear {
        why: String,
        #[label("this product")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("cannot contract dim `{dim}`: {array} does not have it")]
    #[diagnostic(code("dim-not-shared"), help("a contracted dim is in both factors; {offer}"))]
    DimNotShared {
        dim: String,
        array: String,
        offer: String,
        #[label(primary, "contracted dim")]
        at: Span,
        #[label("does not have it")]
        operand: Span,
    },

    #[error("invalid local product: {why}")]
    #[diagnostic(code("local-layout"))]
    LocalLayout {
        fixes: Vec<Fix>,
        why: String,
        #[label(primary, "a local product does not communicate")]
        at: Span,
        left_has: String,
        #[label("{left_has}")]
        left: Span,
        right_has: String,
        #[label("{right_has}")]
        right: Span,
        #[help]
        help: String,
    },

    #[error("the local product results in `{gives}`, not `{said}`")]
    #[diagnostic(code("local-result"), help("write `{gives}`, and change the layout with a collective"))]
    LocalResult {
        gives: String,
        said: String,
        #[label("declared result")]
        at: Span,
    },

    #[error("cannot apply {operation} to {left} and {right}")]
    #[diagnostic(code("dtype-mismatch"), help("{}", cast_help(*left, *right)))]
    DTypeMismatch {
        operation: &'static str,
        left: DType,
        right: DType,
        #[label("{left} and {right}")]
        at: Span,
    },

    #[error("`{array}` has dtype {has}, not {said}")]
    #[diagnostic(code("dtype-mismatch"), help("remove the dtype, or cast: `{said}({array})`"))]
    DTypeSaid {
        array: String,
        has: DType,
        said: DType,
        #[label(primary, "written here")]
        at: Span,
        #[label("dtype comes from here")]
        from: Span,
    },

    #[error("{operation} needs floats, found {dtype}")]
    #[diagnostic(code("needs-float"), help("cast it first: `f32(..)`"))]
    NeedsFloat {
        operation: String,
        dtype: DType,
        #[label("{dtype}")]
        at: Span,
    },

    #[error("{operation} needs numbers, found {dtype}")]
    #[diagnostic(code("needs-number"), help("cast it first: `i32(..)`"))]
    NeedsNumber {
        operation: String,
        dtype: DType,
        #[label("{dtype}")]
        at: Span,
    },

    #[error("{operation} needs bools, found {dtype}")]
    #[diagnostic(code("needs-bool"), help("cast it first: `bool(..)`"))]
    NeedsBool {
        operation: String,
        dtype: DType,
        #[label("{dtype}")]
        at: Span,
    },

    #[error("invalid use of an open sum over `{axes}`: {reason}")]
    #[diagnostic(code("open-sum-misuse"))]
    OpenSumMisuse {
        fixes: Vec<Fix>,
        axes: String,
        reason: String,
        label: &'static str,
        #[label(primary, "{label}")]
        at: Span,
        #[label("sum left open here")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("no sum is open over `{axes}` here")]
    #[diagnostic(code("open-sum-invented"))]
    OpenSumInvented {
        axes: String,
        #[label(primary, "declared open")]
        at: Span,
        #[label("not open over `{axes}`")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("{collective} does not apply to `{operand}`: {why}")]
    #[diagnostic(code("collective-axis"))]
    CollectiveAxis {
        fixes: Vec<Fix>,
        collective: String,
        operand: String,
        why: String,
        #[label(primary, "this collective")]
        at: Span,
        #[label("operand")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("cannot gather `{axes}`: not the minor-most axes of `{dim}`, so shards are not contiguous")]
    #[diagnostic(code("gather-major"), help("write a move, which permutes and gathers: `{help_move}`"))]
    GatherMajor {
        axes: String,
        dim: String,
        fixes: Vec<Fix>,
        help_move: String,
        #[label("gathers `{axes}`")]
        at: Span,
    },

    #[error("{collective} does not say which dim to shard")]
    #[diagnostic(code("collective-dim"))]
    CollectiveDim {
        fixes: Vec<Fix>,
        collective: String,
        label: &'static str,
        #[label("{label}")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("{collective} results in `{gives}`, not `{said}`")]
    #[diagnostic(code("collective-result"), help("write `{gives}` as the result, or use another collective"))]
    CollectiveResult {
        collective: String,
        fixes: Vec<Fix>,
        gives: String,
        said: String,
        #[label(primary, "declared result")]
        at: Span,
        #[label("this collective")]
        from: Span,
    },

    #[error("{why}")]
    #[diagnostic(code("rename-dims"))]
    RenameDims {
        why: String,
        #[label("here")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("expected an array, found a number")]
    #[diagnostic(code("number-result"), help("combine the number with an array: `2 * A`"))]
    NumberResult {
        #[label("a number")]
        at: Span,
    },

    #[error("ambiguous name `{name}`: a dim, or dim `{dim}` over axis `{axis}`")]
    #[diagnostic(code("underscore-in-name"), help("rename the dim or the axis"))]
    UnderscoreInName {
        name: String,
        dim: String,
        axis: String,
        #[label("ambiguous")]
        at: Span,
    },

    #[error("function `{name}` is declared twice")]
    #[diagnostic(code("function-redeclared"), help("rename one of them"))]
    FunctionRedeclared {
        name: String,
        #[label("declared here")]
        first: Option<Span>,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("`{name}` {why}")]
    #[diagnostic(code("function-body"))]
    FunctionBody {
        name: String,
        why: String,
        #[label("here")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("kernel `{name}` {why}")]
    #[diagnostic(code("kernel-declaration"))]
    KernelDeclaration {
        name: String,
        why: String,
        #[label("here")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("kernel `{name}` needs dim `{dim}` whole or sums over it, and `{dim}` is padded from {size} to {padded}")]
    #[diagnostic(
        code("kernel-padded"),
        help(
            "give `{dim}` a size that its shards divide, or declare `shard {dim}` if the kernel works on each element of it alone"
        )
    )]
    KernelPadded {
        name: String,
        dim: String,
        size: u64,
        padded: u64,
        #[label("its padding would be read here")]
        at: Span,
    },

    #[error("`return` outside of a function")]
    #[diagnostic(code("return-outside"), help("write `output {value}` to declare a result of the program"))]
    ReturnOutside {
        value: String,
        #[label("not in a function")]
        at: Span,
    },

    #[error("argument `{argument}` does not match parameter `{parameter}` of `{function}`: {why}")]
    #[diagnostic(code("parameter-mismatch"))]
    ParameterMismatch {
        parameter: String,
        function: String,
        argument: String,
        why: String,
        #[label(primary, "argument")]
        at: Span,
        #[label("parameter")]
        from: Span,
    },

    #[error("the diagnostic in `{function}` comes from this call")]
    #[diagnostic(code("in-call"), severity(Advice))]
    InCall {
        function: String,
        #[label("call")]
        at: Span,
    },

    #[error("function `{name}` is never called")]
    #[diagnostic(code("unused-function"), severity(Warning), help("a function body is checked at its calls only"))]
    UnusedFunction {
        name: String,
        #[label("never called")]
        at: Span,
    },

    #[error("`{name}` is not an array and is read as the size of the dim, {size}")]
    #[diagnostic(code("size-as-number"), severity(Advice))]
    SizeAsNumber {
        #[help]
        help: String,
        name: String,
        size: f64,
        #[label("a number")]
        at: Span,
    },

    #[error("the number is not finite")]
    #[diagnostic(
        code("number-without-value"),
        help("numbers must be finite and below 1.8e308; `sqrt` and `log` need a positive number")
    )]
    NumberWithoutValue {
        #[label("not a number")]
        at: Span,
    },

    #[error("unsupported power")]
    #[diagnostic(
        code("unknown-power"),
        help(
            "supported powers are 1, 2, 3, 4, 0.5, -0.5 and -1; write other powers of A as `exp(2.5 * log(A))`, and 2 to the power of A as `exp(log(2) * A)`"
        )
    )]
    UnknownPower {
        #[label("unsupported exponent")]
        at: Span,
    },

    #[error("division by zero")]
    #[diagnostic(code("bad-division"), help("divide by an array, or by a number other than 0"))]
    BadDivision {
        #[label("here")]
        at: Span,
    },

    #[error("the program has no result")]
    #[diagnostic(code("no-result"), help("write a result, such as `C[I, K] = A * B`, or `output A`"))]
    NoResult {
        #[label("the last statement")]
        at: Option<Span>,
    },

    #[error("array `{name}` is never used")]
    #[diagnostic(code("unused-array"), severity(Warning))]
    UnusedArray {
        name: String,
        #[help]
        help: String,
        #[label("never used")]
        at: Span,
    },

    #[error("`{name}` is read as a new input; did you mean `{near}`?")]
    #[diagnostic(code("near-name"), severity(Warning), help("to keep it as an input, declare it: `{declaration}`"))]
    NearName {
        name: String,
        near: String,
        declaration: String,
        #[label("not declared")]
        at: Span,
    },

    #[error("unknown strategy `{name}`")]
    #[diagnostic(code("unknown-strategy"))]
    UnknownStrategy {
        name: String,
        #[label("not a strategy")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("a strategy applies to one product; the statement has {found}")]
    #[diagnostic(code("pin-product"))]
    PinProduct {
        found: usize,
        #[help]
        help: &'static str,
        #[label("ambiguous product")]
        at: Span,
    },

    #[error("{what} does not match the operands of the product")]
    #[diagnostic(code("pin-operand"))]
    PinOperand {
        what: String,
        #[label("this strategy")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("unknown method `{name}`")]
    #[diagnostic(code("unknown-method"))]
    UnknownMethod {
        name: String,
        #[label("not a method")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("{count} is not a number of pieces")]
    #[diagnostic(
        code("piece-count"),
        help("a run of steps has 2 to {most} pieces; with `pipeline(1)` the steps stay whole")
    )]
    PieceCount {
        count: u64,
        most: u64,
        #[label("number of pieces")]
        at: Span,
    },

    #[error("undeclared `{array}` is assumed to be an input of {dtype}")]
    #[diagnostic(code("implicit-input"), severity(Advice))]
    ImplicitInput {
        array: String,
        dtype: DType,
        #[label("assumed input")]
        at: Span,
        #[help]
        help: Option<String>,
    },

    #[error("`...` is ignored; the array has the written dims only")]
    #[diagnostic(code("dims-left-out"), severity(Advice), help("write all dims, or remove the `...`"))]
    DimsLeftOut {
        #[label("ignored")]
        at: Span,
    },

    #[error("this softmax runs over `{dim}`, a batch dim of the product {product}")]
    #[diagnostic(code("softmax-batch-dim"), severity(Advice), help("{help}"))]
    SoftmaxOverBatchDim {
        dim: String,
        product: String,
        help: String,
        #[label("over `{dim}`")]
        at: Span,
        #[label("both factors have `{dim}`, so the result has only its diagonal")]
        made: Span,
    },

    #[error("no hardware specified; assuming tpu_v5e")]
    #[diagnostic(code("default-hardware"), severity(Advice), help("specify it: `mesh {mesh} on tpu_v5e`"))]
    DefaultHardware {
        mesh: String,
        #[label("missing `on`")]
        at: Span,
    },
}

impl CheckError {
    /// Candidate fixes, to be tried on the checker.
    pub(super) fn fixes(&self) -> Vec<Fix> {
        if let CheckError::AxisReused { fixes, .. }
        | CheckError::LayoutMismatch { fixes, .. }
        | CheckError::LocalLayout { fixes, .. }
        | CheckError::OpenSumMisuse { fixes, .. }
        | CheckError::GatherMajor { fixes, .. }
        | CheckError::AxisAsDim { fixes, .. }
        | CheckError::UnknownAxis { fixes, .. }
        | CheckError::CollectiveAxis { fixes, .. }
        | CheckError::CollectiveDim { fixes, .. }
        | CheckError::CollectiveResult { fixes, .. } = self
        {
            return fixes.clone();
        }
        Vec::new()
    }
}

/// Why a part of a program cannot be checked.
#[derive(Debug)]
pub(super) enum Failure {
    /// A new error.
    Error(Box<CheckError>),
    /// A consequence of an error that is already reported.
    Reported,
}

impl CheckError {
    /// Reports an invalid size.
    pub(super) fn size(flaw: SizeFlaw, help: &str) -> CheckError {
        match flaw {
            SizeFlaw::Unknown(name) => {
                CheckError::UnknownSize { name: name.node, at: name.span, help: help.to_owned() }
            }
            SizeFlaw::Arithmetic(why, at) => CheckError::SizeWithoutValue { why, at },
        }
    }
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Failure {
        Failure::Error(Box::new(error))
    }
}

/// The result of checking a part of a program.
pub(super) type Checked<T> = Result<T, Failure>;

/// Help for operands of different dtypes.
fn cast_help(left: DType, right: DType) -> String {
    match (left, right) {
        (DType::Bool, DType::Bool) => "cast both: `f32(..)`".to_owned(),
        (DType::Bool, number) | (number, DType::Bool) => format!("cast the bools: `{number}(..)`"),
        _ => "cast one of them: `f32(..)`".to_owned(),
    }
}

/// The dtypes that an operator supports.
fn operands(operator: Operator) -> &'static str {
    match operator {
        Operator::And | Operator::Or => "bools",
        Operator::Mean => "floats",
        Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::SquareAdd => "numbers",
        Operator::Root(_) => "anything",
    }
}

/// Help for an unknown operator of an open sum.
fn near_operator(word: &str) -> String {
    let operators = Operator::ALL.map(|operator| format!("`{}`", operator.word())).join(", ");
    match word.to_uppercase().as_str() {
        "P" | "S" | "SUM" | "ADD" | "PARTIAL" | "PSUM" => {
            format!("{} `{{U_X}}` is a sum; operators are {operators}", crate::diag::did_you_mean("U"))
        }
        _ => format!("operators are {operators}; `{{U_X}}` is a sum"),
    }
}
