//! What can be wrong with a program, in words.
//!
//! The name of a variant says what is wrong; the code is its stable word. Labels stand at every place involved, and
//! the help is what to write next.

use crate::diag::Fix;
use crate::dtype::DType;
use crate::mesh::Mesh;
use crate::operator::Operator;
use crate::span::Span;
use crate::syntax::SizeFlaw;

/// Everything that the checker says: errors first, then warnings, then notes.
#[derive(Clone, Debug, PartialEq, thiserror::Error, miette::Diagnostic)]
pub(super) enum CheckError {
    #[error("the program has no mesh")]
    #[diagnostic(code("no-mesh"), help("write a line such as `mesh {{X: 4, Y: 2}} on tpu_v5e` before the arrays"))]
    NoMesh {
        #[label("this needs a mesh")]
        at: Option<Span>,
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
    #[diagnostic(code("mesh-late"), help("move the line above the arrays"))]
    MeshLate {
        /// The mesh, or the parts of an axis.
        what: String,
        #[label("an array stands here already")]
        first: Span,
        #[label(primary, "declared here")]
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

    #[error("the mesh {mesh} has no such device")]
    #[diagnostic(code("no-device"), help("a device has a coordinate for each axis, in their order, from 0"))]
    NoDevice {
        mesh: String,
        why: String,
        #[label("{why}")]
        at: Span,
    },

    #[error("axis `{name}` is declared twice")]
    #[diagnostic(code("axis-repeated"), help("give one of the two another name"))]
    AxisRepeated {
        name: String,
        #[label("first declared here")]
        first: Span,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("dim `{name}` is declared twice")]
    #[diagnostic(code("dim-redeclared"), help("give one of the two another name, or drop it"))]
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

    #[error("the size has no value: {why}")]
    #[diagnostic(code("size-without-value"), help("sizes are whole numbers below 2^64"))]
    SizeWithoutValue {
        why: String,
        #[label("no size")]
        at: Span,
    },

    #[error("`{name}` has no size here")]
    #[diagnostic(code("unknown-size"))]
    UnknownSize {
        name: String,
        #[label("no size is known for it")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("dim `{dim}` stands twice among the parts of a dim")]
    #[diagnostic(code("part-repeated"), help("a dim is made of different dims; declare a second one of that size"))]
    PartRepeated {
        dim: String,
        #[label("again here")]
        at: Span,
    },

    #[error("axis `{axis}` of {size} cuts `{name}` = {parts} ({sizes}) across its parts")]
    #[diagnostic(code("cut-across"))]
    CutAcross {
        name: String,
        parts: String,
        sizes: String,
        axis: String,
        size: u64,
        #[help]
        help: String,
        #[label("cuts across")]
        at: Span,
    },

    #[error("`{name}` stands for the dims {parts}")]
    #[diagnostic(code("dim-of-parts"), help("name one of these dims here"))]
    DimOfParts {
        name: String,
        parts: String,
        #[label("several dims")]
        at: Span,
    },

    #[error("`{name}` is an axis of its own and a physical axis of another")]
    #[diagnostic(
        code("axis-repeated"),
        help("the physical axes of `X: 4x4` are called `X1` and `X2`; rename the other axis")
    )]
    PhysicalName {
        name: String,
        #[label("in this mesh")]
        at: Span,
    },

    #[error("the parts of `{axis}` make {found} devices, the axis has {size}")]
    #[diagnostic(code("view-size"), help("the sizes of the parts multiply to that of the axis"))]
    ViewSize {
        axis: String,
        found: u64,
        size: u64,
        #[label("these parts")]
        at: Span,
    },

    #[error("`{name}` stands for {parts} already")]
    #[diagnostic(code("view-of-parts"), help("an axis is cut in parts once; cut one of its parts further"))]
    ViewOfParts {
        name: String,
        parts: String,
        #[label("in parts already")]
        at: Span,
    },

    #[error("`{name}` is not an axis of the mesh")]
    #[diagnostic(code("unknown-axis"))]
    UnknownAxis {
        name: String,
        #[label("not an axis")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("`{name}` can be read as one axis or as several")]
    #[diagnostic(code("ambiguous-axis"), help("write `{{{split}}}` for the several axes, or rename the axis `{name}`"))]
    AmbiguousAxis {
        name: String,
        split: String,
        #[label("one axis or several")]
        at: Span,
    },

    #[error("dim `{name}` is not declared")]
    #[diagnostic(code("unknown-dim"))]
    UnknownDim {
        name: String,
        #[label("no size is known for it")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("array `{name}` is not known here")]
    #[diagnostic(code("unknown-array"))]
    UnknownArray {
        name: String,
        #[label("not declared above")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("`{word}` is not the operator of an open sum")]
    #[diagnostic(code("unknown-operator"), help("write one of {}: `{{U_X}}` is a sum", Operator::ALL.map(|operator| format!("`{}`", operator.word())).join(", ")))]
    UnknownOperator {
        word: String,
        #[label("unknown operator")]
        at: Span,
    },

    #[error("an open {operator} of {dtype} has no meaning")]
    #[diagnostic(code("operator-dtype"), help("{} is over {}; cast the array first", operator.word(), operands(*operator)))]
    OperatorDType {
        operator: Operator,
        dtype: DType,
        #[label("declared here")]
        at: Span,
    },

    #[error("a body begins with `{has}` and ends with `{ends}`")]
    #[diagnostic(code("repeat-layout"))]
    RepeatLayout {
        name: String,
        has: String,
        ends: String,
        #[label("ends like this")]
        at: Span,
        #[label("the next iteration needs this layout")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("`{what}` cannot stand inside `repeat`")]
    #[diagnostic(code("not-in-repeat"), help("a body has inputs and results; write this outside of it"))]
    NotInRepeat {
        what: &'static str,
        #[label("inside a body")]
        at: Span,
    },

    #[error("a `repeat` inside a body is written out, and this makes more than {most} statements")]
    #[diagnostic(
        code("repeat-too-long"),
        help("let the outer block have the large count: its body is planned once, whatever the count")
    )]
    WrittenOutTooLong {
        most: usize,
        #[label("written out")]
        at: Span,
    },

    #[error("no collective is called `{name}`")]
    #[diagnostic(code("unknown-collective"))]
    UnknownMove {
        name: String,
        #[label("unknown collective")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("function `{name}` is not known")]
    #[diagnostic(code("unknown-function"))]
    UnknownFunction {
        name: String,
        #[label("unknown function")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("`{name}` takes {takes}, and is given {count}")]
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

    #[error("the subscript of `{name}` does not fit it")]
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

    #[error("dim `{dim}` stands twice in {array}")]
    #[diagnostic(
        code("dim-repeated"),
        help(
            "a dim stands once in an array; declare a second dim of the same size and write `rename_{{{dim}->{dim}2}}(..)`"
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

    #[error("dim `{dim}` of size {size} is padded to {padded}: {waste} % of it is waste")]
    #[diagnostic(
        code("padded"),
        severity(Warning),
        help(
            "arrays take the memory, the bytes and the operations of {padded} elements; results are cut back to {size}{}",
            if *padded >= 2 * size {
                "; whole shards are padding: shard the dim over fewer devices, or leave it whole and shard another"
            } else {
                ""
            }
        )
    )]
    Padded {
        dim: String,
        size: u64,
        padded: u64,
        waste: String,
        #[label("its shards do not fit")]
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

    #[error("the expression is nested too deeply")]
    #[diagnostic(code("too-deep"), help("name a part of it: `T = ..`"))]
    TooDeep {
        #[label("{most} levels at most")]
        at: Span,
        most: usize,
    },

    #[error("array `{name}` is declared twice")]
    #[diagnostic(code("array-redeclared"), help("give one of the two another name"))]
    ArrayRedeclared {
        name: String,
        #[label("first declared here")]
        first: Span,
        #[label(primary, "declared again here")]
        second: Span,
    },

    #[error("`{name}` is bound again as another array: it was `{before}` and would be `{after}`")]
    #[diagnostic(
        code("rebind-mismatch"),
        help("a name keeps its dims and dtype, only the layout may change; use another name")
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

    #[error("{array} has holes and an open sum")]
    #[diagnostic(
        code("partial-hole"),
        help("drop the braces: what is left to the compiler may stay open; or write the axes of every dim")
    )]
    HoleBesideOpenSum {
        array: String,
        #[label("open sums are part of a layout without holes")]
        at: Span,
    },

    #[error("{array} has holes here, and its layout is left to the compiler")]
    #[diagnostic(
        code("partial-hole"),
        help("brackets on a use say the layout that it has: drop them, or write the axes of every dim")
    )]
    HoleInUse {
        array: String,
        #[label("a hole in a use")]
        at: Span,
    },

    #[error("`{said}` is written, but the layout here is `{has}`")]
    #[diagnostic(code("layout-mismatch"))]
    LayoutMismatch {
        fixes: Vec<Fix>,
        said: String,
        has: String,
        #[label(primary, "brackets on a use say the layout it has")]
        at: Span,
        #[label("its layout comes from here")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("the layout of `{array}` is not known here, and {what} needs it")]
    #[diagnostic(code("layout-unknown"))]
    LayoutUnknown {
        array: String,
        what: String,
        #[label(primary, "its layout is left to the compiler")]
        at: Span,
        #[label("it comes from here")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("dim `{dim}` gets lost: `{array}` has it, the result has not")]
    #[diagnostic(code("dim-lost"), help("keep `{dim}` in the result, or write its sum: `sum_{dim}(..)`"))]
    DimLost {
        dim: String,
        array: String,
        #[label("has `{dim}`")]
        at: Span,
    },

    #[error("dim `{dim}` of the result stands in no operand")]
    #[diagnostic(code("dim-missing"))]
    DimMissing {
        dim: String,
        #[label(primary, "asked for here")]
        at: Span,
        #[label("has no `{dim}`")]
        value: Span,
        #[help]
        help: String,
    },

    #[error("a dim without a name cannot be contracted")]
    #[diagnostic(
        code("literal-contracted"),
        help("give it a name, `dims {{{name}: {size}}}`, and write `{name}` for `{size}` in both arrays")
    )]
    LiteralContracted {
        size: u64,
        name: String,
        #[label("the dim of size {size} here")]
        at: Span,
    },

    #[error("it is not clear which dims are contracted: {why}")]
    #[diagnostic(code("contraction-unclear"))]
    ContractionUnclear {
        why: String,
        #[label("this product")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("dim `{dim}` cannot be contracted: {array} does not have it")]
    #[diagnostic(code("dim-not-shared"), help("a contracted dim stands in both factors; {offer}"))]
    DimNotShared {
        dim: String,
        array: String,
        offer: String,
        #[label(primary, "to be contracted")]
        at: Span,
        #[label("does not have it")]
        operand: Span,
    },

    #[error("a local product cannot do this: {why}")]
    #[diagnostic(code("local-layout"))]
    LocalLayout {
        fixes: Vec<Fix>,
        why: String,
        #[label(primary, "nothing moves before this")]
        at: Span,
        #[label("the left operand")]
        left: Span,
        #[label("the right operand")]
        right: Span,
        #[help]
        help: String,
    },

    #[error("the local product gives `{gives}`, not `{said}`")]
    #[diagnostic(code("local-result"), help("write `{gives}`; a collective after it makes another layout"))]
    LocalResult {
        gives: String,
        said: String,
        #[label("the result as written")]
        at: Span,
    },

    #[error("there is no {operation} of {left} and {right}")]
    #[diagnostic(code("dtype-mismatch"), help("cast {}: `f32(..)`", culprits(*left, *right)))]
    DTypeMismatch {
        operation: &'static str,
        left: DType,
        right: DType,
        #[label("{left} and {right} meet here")]
        at: Span,
    },

    #[error("`{array}` holds {has}, not {said}")]
    #[diagnostic(code("dtype-mismatch"), help("drop the dtype, or cast: `{said}({array})`"))]
    DTypeSaid {
        array: String,
        has: DType,
        said: DType,
        #[label(primary, "written here")]
        at: Span,
        #[label("its dtype comes from here")]
        from: Span,
    },

    #[error("{operation} needs floats, and this is {dtype}")]
    #[diagnostic(code("needs-float"), help("cast it first: `f32(..)`"))]
    NeedsFloat {
        operation: String,
        dtype: DType,
        #[label("{dtype}")]
        at: Span,
    },

    #[error("{operation} needs numbers, and this is {dtype}")]
    #[diagnostic(code("needs-number"), help("cast it first: `i32(..)`"))]
    NeedsNumber {
        operation: String,
        dtype: DType,
        #[label("{dtype}")]
        at: Span,
    },

    #[error("{operation} needs bools, and this is {dtype}")]
    #[diagnostic(code("needs-bool"), help("cast it first: `bool(..)`"))]
    NeedsBool {
        operation: String,
        dtype: DType,
        #[label("{dtype}")]
        at: Span,
    },

    #[error("an open sum over `{axes}` cannot be used here: {reason}")]
    #[diagnostic(code("open-sum-misuse"))]
    OpenSumMisuse {
        fixes: Vec<Fix>,
        axes: String,
        reason: String,
        #[label(primary, "used here")]
        at: Span,
        #[label("the sum is left open here")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("nothing leaves a sum over `{axes}` open here")]
    #[diagnostic(code("open-sum-invented"))]
    OpenSumInvented {
        axes: String,
        #[label(primary, "written as open")]
        at: Span,
        #[label("this is whole over `{axes}`")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("{collective} does not fit `{operand}`: {why}")]
    #[diagnostic(code("collective-axis"))]
    CollectiveAxis {
        collective: String,
        operand: String,
        why: String,
        #[label(primary, "this collective")]
        at: Span,
        #[label("its operand")]
        from: Span,
        #[help]
        help: String,
    },

    #[error("`{axes}` is not the minor-most part of what shards `{dim}`, so its shards do not lie side by side")]
    #[diagnostic(code("gather-major"), help("write the move, a permute and a gather: `{help_move}`"))]
    GatherMajor {
        axes: String,
        dim: String,
        fixes: Vec<Fix>,
        help_move: String,
        #[label("gathers `{axes}`")]
        at: Span,
    },

    #[error("{collective} does not say which dim it shards")]
    #[diagnostic(code("collective-dim"))]
    CollectiveDim {
        collective: String,
        #[label("names no dim of the operand")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("{collective} gives `{gives}`, not `{said}`")]
    #[diagnostic(code("collective-result"), help("write `{gives}` as the result, or another collective"))]
    CollectiveResult {
        collective: String,
        fixes: Vec<Fix>,
        gives: String,
        said: String,
        #[label(primary, "the result as written")]
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

    #[error("this is a number, and an array is needed")]
    #[diagnostic(code("number-result"), help("a number stands beside an array: `2 * A`"))]
    NumberResult {
        #[label("a number")]
        at: Span,
    },

    #[error("`{name}` can be read in two ways: as a dim, and as dim `{dim}` over axis `{axis}`")]
    #[diagnostic(code("underscore-in-name"), help("give the dim or the axis another name"))]
    UnderscoreInName {
        name: String,
        dim: String,
        axis: String,
        #[label("two readings")]
        at: Span,
    },

    #[error("there are two functions `{name}`")]
    #[diagnostic(code("function-redeclared"), help("give one of the two another name"))]
    FunctionRedeclared {
        name: String,
        #[label("declared here")]
        first: Option<Span>,
        #[label(primary, "and here")]
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

    #[error("`return` stands outside of a function")]
    #[diagnostic(code("return-outside"), help("write `output {value}`: that names what a program is for"))]
    ReturnOutside {
        value: String,
        #[label("no function")]
        at: Span,
    },

    #[error("`{parameter}` of `{function}` does not fit `{argument}`: {why}")]
    #[diagnostic(code("parameter-mismatch"))]
    ParameterMismatch {
        parameter: String,
        function: String,
        argument: String,
        why: String,
        #[label(primary, "what is handed in")]
        at: Span,
        #[label("what is asked for")]
        from: Span,
    },

    #[error("what is told of `{function}` comes from this call")]
    #[diagnostic(code("in-call"), severity(Advice))]
    InCall {
        function: String,
        #[label("the call")]
        at: Span,
    },

    #[error("function `{name}` is never called")]
    #[diagnostic(code("unused-function"), severity(Warning), help("what stands in it is checked where it is called"))]
    UnusedFunction {
        name: String,
        #[label("never called")]
        at: Span,
    },

    #[error("`{name}` is no array, and stands for the size of the dim, {size}")]
    #[diagnostic(
        code("size-as-number"),
        severity(Advice),
        help("write `.*` beside it, or declare the array that is meant")
    )]
    SizeAsNumber {
        name: String,
        size: f64,
        #[label("a number")]
        at: Span,
    },

    #[error("the number has no value")]
    #[diagnostic(
        code("number-without-value"),
        help("numbers are finite and below 1.8e308; `sqrt` and `log` need one above 0")
    )]
    NumberWithoutValue {
        #[label("not a number")]
        at: Span,
    },

    #[error("this power is no function")]
    #[diagnostic(
        code("unknown-power"),
        help("arrays have the powers 1, 2, 3, 4, 0.5, -0.5 and -1; `exp(log(2) * A)` is 2 to the power of A")
    )]
    UnknownPower {
        #[label("not a power of an array")]
        at: Span,
    },

    #[error("nothing can be divided by zero")]
    #[diagnostic(code("bad-division"), help("divide by an array, or by a number other than 0"))]
    BadDivision {
        #[label("here")]
        at: Span,
    },

    #[error("the program computes nothing")]
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

    #[error("`{name}` is taken as a new input, and `{near}` is known")]
    #[diagnostic(code("near-name"), severity(Warning), help("if it is meant, declare it: `{declaration}`"))]
    NearName {
        name: String,
        near: String,
        declaration: String,
        #[label("not declared")]
        at: Span,
    },

    #[error("there is no strategy `{name}`")]
    #[diagnostic(code("unknown-strategy"))]
    UnknownStrategy {
        name: String,
        #[label("not a strategy")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("the statement has {found} products, and a strategy is for one")]
    #[diagnostic(code("pin-product"))]
    PinProduct {
        found: usize,
        #[help]
        help: &'static str,
        #[label("of which product?")]
        at: Span,
    },

    #[error("{what} does not fit the operands of the product")]
    #[diagnostic(code("pin-operand"))]
    PinOperand {
        what: String,
        #[label("this strategy")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("there is no method `{name}`")]
    #[diagnostic(code("unknown-method"))]
    UnknownMethod {
        name: String,
        #[label("not a method")]
        at: Span,
        #[help]
        help: String,
    },

    #[error("`{array}` is not declared and is taken as an input of {dtype}")]
    #[diagnostic(code("implicit-input"), severity(Advice))]
    ImplicitInput {
        array: String,
        dtype: DType,
        #[label("an input")]
        at: Span,
        #[help]
        help: Option<String>,
    },

    #[error("`...` stands for dims that are not written; the array is taken without them")]
    #[diagnostic(code("dims-left-out"), severity(Advice), help("write all dims, or drop the `...`"))]
    DimsLeftOut {
        #[label("nothing is known of these")]
        at: Span,
    },

    #[error("no hardware is named, so tpu_v5e is assumed")]
    #[diagnostic(code("default-hardware"), severity(Advice), help("name it: `mesh {mesh} on tpu_v5e`"))]
    DefaultHardware {
        mesh: String,
        #[label("no `on` here")]
        at: Span,
    },
}

impl CheckError {
    /// Changes that may put an end to it, to be tried.
    pub(super) fn fixes(&self) -> Vec<Fix> {
        if let CheckError::AxisReused { fixes, .. }
        | CheckError::LayoutMismatch { fixes, .. }
        | CheckError::LocalLayout { fixes, .. }
        | CheckError::OpenSumMisuse { fixes, .. }
        | CheckError::GatherMajor { fixes, .. }
        | CheckError::CollectiveResult { fixes, .. } = self
        {
            return fixes.clone();
        }
        Vec::new()
    }
}

/// Why a part of a program has no meaning.
#[derive(Debug)]
pub(super) enum Failure {
    /// Something to tell.
    Error(Box<CheckError>),
    /// It rests on something that was told already.
    Told,
}

impl CheckError {
    /// A size without a value.
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

/// What a part of a program means, if it means something.
pub(super) type Checked<T> = Result<T, Failure>;

/// Which of two operands have to become others: there is no arithmetic of booleans.
fn culprits(left: DType, right: DType) -> &'static str {
    if left == DType::Bool && right == DType::Bool { "both" } else { "one of them" }
}

/// What an operator works on, in words.
fn operands(operator: Operator) -> &'static str {
    match operator {
        Operator::And | Operator::Or => "bools",
        Operator::Mean => "floats",
        Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::SquareAdd => "numbers",
        Operator::Root => "anything",
    }
}
