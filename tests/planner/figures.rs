//! Recomputes the figures in comments of examples: the book's answers, those of its formulas, and simulated ones. A
//! figure with a unit that is not recomputed here fails.
#![allow(missing_docs)]

use crate::common::{programs, short_name};
use shardc::compiler::{self, Options, Overlapping};
use shardc::costs::CostModel::{self, Book, Bytes, Exact};
use shardc::fusion::Fusion;
use shardc::plan::{Plan, StepOp};
use shardc::topology::Hardware;
use shardc::topology::Topology;
use shardc::units::Time;

/// Folders whose comments contain figures.
const FOLDERS: [&str; 3] = ["examples/questions", "examples/rivals", "examples/models"];

/// Units of figures, in seconds, bytes or operations.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("MiB", 1_048_576.0),
    ("MFLOP", 1e6),
    ("GFLOP", 1e9),
];

/// A figure as written, `23.30 us`.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    text: String,
    value: f64,
    /// One unit of its last digit.
    step: f64,
}

impl Figure {
    /// Parses two words as a figure.
    fn of(number: &str, unit: &str) -> Option<Figure> {
        let unit = unit.trim_matches([',', '.', ';', ':', ')']);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let number = number.trim_start_matches('(');
        let value: f64 = number.parse().ok()?;
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let step = scale * 0.1f64.powi(i32::try_from(decimals).expect("few"));
        Some(Figure { text: format!("{number} {unit}"), value: value * scale, step })
    }
}

fn source(name: &str) -> String {
    let path = format!("{}/examples/{name}.shard", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("an example")
}

/// The figures in the comments of an example.
fn figures(source: &str) -> Vec<Figure> {
    let comments = source.lines().filter_map(|line| line.strip_prefix('#'));
    let words: Vec<&str> = comments.flat_map(str::split_whitespace).collect();
    words.windows(2).filter_map(|pair| Figure::of(pair[0], pair[1])).collect()
}

/// A planned example, or a variant of it.
struct Planned {
    plan: Plan,
    topology: Topology,
}

/// Plans an example.
fn plan(name: &str, costs: CostModel) -> Planned {
    planned(&source(name), costs)
}

/// Plans an example with some of its text replaced, and without its expectations and limits.
fn edited(name: &str, costs: CostModel, edits: &[(&str, &str)]) -> Planned {
    let mut text = source(name);
    for (from, to) in edits {
        assert!(text.contains(from), "{name}: {from}");
        text = text.replace(from, to);
    }
    let lines = text.lines().filter(|line| !line.starts_with("expect") && !line.starts_with("limit"));
    planned(&lines.collect::<Vec<_>>().join("\n"), costs)
}

fn planned(source: &str, costs: CostModel) -> Planned {
    planned_on(source, Options { costs, ..Options::default() }, |_| ())
}

/// Plans a program on a modified machine.
fn planned_on(source: &str, options: Options, change: impl Fn(&mut Hardware)) -> Planned {
    let (program, found) = compiler::check(source);
    let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let named = program.hardware.as_ref().map_or(Hardware::DEFAULT, |name| name.node.as_str());
    let mut hardware = Hardware::named(named).expect("a shipped profile");
    change(&mut hardware);
    let options = Options { alternatives: true, hardware: Some(hardware), ..options };
    let topology = compiler::machine(&program, &options).expect("a machine");
    let plan = compiler::plan(&program, &topology, &options).unwrap_or_else(|found| panic!("{found:?}\n{source}"));
    Planned { plan, topology }
}

impl Planned {
    fn seconds(&self, time: Time) -> f64 {
        self.topology.scale.seconds(time)
    }

    fn time(&self) -> f64 {
        self.seconds(self.plan.totals().time())
    }

    fn links(&self) -> f64 {
        self.seconds(self.plan.totals().communication)
    }

    fn compute(&self) -> f64 {
        self.seconds(self.plan.totals().compute)
    }

    fn received(&self) -> f64 {
        self.plan.totals().received().0 as f64
    }

    fn flops(&self) -> f64 {
        self.plan.totals().flops as f64
    }

    /// Time of the first collective with this name.
    fn step(&self, name: &str) -> f64 {
        let id = self.plan.ids().find(|id| self.plan.op_name(*id) == name);
        let id = id.unwrap_or_else(|| panic!("no {name} in\n{}", self.plan));
        self.seconds(self.plan.step(id).cost.time)
    }

    /// Time of the local product that computes an array.
    fn product(&self, name: &str) -> f64 {
        let is_product = |id: &_| matches!(self.plan.step(*id).op, StepOp::Product { .. });
        let made = |id: &_| self.plan.program.name(self.plan.step(*id).value) == name;
        let id = self.plan.ids().find(|id| is_product(id) && made(id)).expect("a product");
        self.seconds(self.plan.step(id).cost.time)
    }

    /// Bytes received in the collective with this name.
    fn step_received(&self, name: &str) -> f64 {
        let id = self.plan.ids().find(|id| self.plan.op_name(*id) == name).expect("a step");
        self.plan.step(id).usage.received().0 as f64
    }

    /// Bytes of a whole array.
    fn whole(&self, name: &str) -> f64 {
        self.array(name, |layout, _| layout.global_bytes().0)
    }

    /// Bytes of an array on a device, in its first layout.
    fn local(&self, name: &str) -> f64 {
        self.array(name, |layout, topology| layout.local_bytes(&topology.mesh).0)
    }

    fn array(&self, name: &str, of: impl Fn(&shardc::layout::Layout, &Topology) -> u64) -> f64 {
        let made = |id: &_| self.plan.program.name(self.plan.step(*id).value) == name;
        let id = self.plan.ids().find(made).expect("an array of this name");
        of(&self.plan.step(id).layout, &self.topology) as f64
    }

    /// An alternative of the product with this name, identified by its moves.
    fn way(&self, name: &str, moves: &[&str]) -> &shardc::plan::Alternative {
        let choice = self.plan.choices.iter().find(|choice| self.plan.program.name(choice.value) == name);
        let ways = &choice.expect("a product").alternatives;
        let way = ways.iter().find(|way| way.moves == moves);
        way.unwrap_or_else(|| {
            panic!("{moves:?} is none of {:?}", ways.iter().map(|way| &way.moves).collect::<Vec<_>>())
        })
    }

    fn input_count(&self) -> usize {
        self.plan.ids().filter(|id| self.plan.step(*id).op == StepOp::Input).count()
    }
}

/// The expected figures of examples. Figures printed in the book are compared with tolerance.
struct Claims {
    /// Example, figure, expected value, and tolerance.
    list: Vec<(String, String, f64, f64)>,
    of: String,
}

impl Claims {
    /// Starts the figures of an example.
    fn example(&mut self, name: &str) {
        name.clone_into(&mut self.of);
    }

    /// A figure of this project, exact to its last digit.
    fn is(&mut self, text: &str, value: f64) {
        self.list.push((self.of.clone(), text.to_owned(), value, 0.0));
    }

    /// A figure quoted from elsewhere, which is not recomputed.
    fn quoted(&mut self, text: &str) {
        self.list.push((self.of.clone(), text.to_owned(), f64::NAN, 0.0));
    }

    /// A figure printed in the book.
    fn printed(&mut self, text: &str, value: f64) {
        self.list.push((self.of.clone(), text.to_owned(), value, 0.02));
    }
}

fn questions(claims: &mut Claims) {
    let name = "questions/2_gathers_on_a_cube";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    for (step, printed, formulas, simulated) in [
        ("AllGather_X", Some("23 us"), "23.30 us", "17.48 us"),
        ("AllGather_Y", Some("23 us"), "23.30 us", "17.48 us"),
        ("AllGather_XY", Some("46 us"), "46.60 us", "43.69 us"),
        ("ReduceScatter_{Z,B}", Some("5.8 us"), "5.83 us", "4.37 us"),
        ("AllReduce_Z", None, "11.65 us", "8.74 us"),
    ] {
        if let Some(printed) = printed {
            claims.printed(printed, book.step(step));
        }
        claims.is(formulas, book.step(step));
        claims.is(simulated, exact.step(step));
    }

    let name = "questions/4_reduce_few_tokens";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    let gather = book.way("C", &["AllGather_X(W[D_X, F])"]);
    claims.is("2983 us", book.seconds(gather.communication));
    claims.is("599 us", book.seconds(gather.time) - book.seconds(gather.communication));
    claims.is("150 us", book.compute());
    claims.is("373 us", book.links());
    claims.is("280 us", exact.links());

    let name = "questions/4_gather_many_tokens";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    let gather = book.way("C", &["AllGather_X(W[D_X, F])"]);
    let reduce = book.way("C", &["Slice_X(A[B, D])", "AllReduce_X(C[B, F]{U_X})"]);
    for (way, links, compute, both) in
        [(gather, "746 us", "1198 us", "1.94 ms"), (reduce, "1491 us", "299 us", "1.79 ms")]
    {
        claims.is(links, book.seconds(way.communication));
        claims.is(compute, book.seconds(way.time) - book.seconds(way.communication));
        claims.is(both, book.seconds(way.time));
    }
    claims.is("1.23 ms", book.time());
    claims.is("1.05 ms", exact.time());

    let name = "questions/5_least_latency";
    claims.example(name);
    let book = plan(name, Book);
    claims.is("1.07 GFLOP", book.flops());
    claims.is("2.34 us", book.compute());
    claims.is("31.18 us", plan(name, Exact).links());

    let name = "questions/5_open_result";
    claims.example(name);
    let open = plan(name, Book);
    claims.is("2.34 us", open.compute());
    assert_eq!((open.links(), plan(name, Exact).links()), (0.0, 0.0));

    let name = "questions/6_shared_contraction";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    claims.is("1.12 ms", book.links());
    claims.is("349 us", book.compute());
    claims.is("754 us", exact.links());

    let name = "questions/7_little_memory";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    assert_eq!(book.input_count(), 3);
    claims.is("537 MB", book.whole("Win"));
    claims.is("268 MB", book.local("Win") + book.local("C"));
    claims.quoted("300 MB");
    claims.is("17.5 us", book.links());
    claims.is("17.5 us", exact.links());
    claims.is("174 us", book.compute());
    claims.is("342 us", exact.compute());

    let name = "questions/7_repeated_layer";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    claims.is("35.0 us", book.step("AllGather_XY") + book.step("ReduceScatter_{XY,D}"));
    claims.is("174 us", book.product("h") + book.product("x"));
    claims.is("35.0 us", exact.step("AllReduce_XY"));
    claims.is("8.95 ms", 2.0 * planned(WEIGHTS_GATHERED, Book).step("AllGather_XY"));
    claims.quoted("300 MB");

    let name = "questions/9_scatter_the_sum";
    claims.example(name);
    let gather = ["AllGather_X(A[I, J_X])", "Slice_X(B[J, K])"];
    for (costs, ours, theirs) in [(Book, "186 us", "1491 us"), (Exact, "140 us", "1118 us")] {
        let made = plan(name, costs);
        claims.is(ours, made.links());
        claims.is(theirs, made.seconds(made.way("C", &gather).communication));
    }

    let name = "questions/data_parallel_threshold";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    claims.is("5.22 ms", book.links());
    claims.is("5.22 ms", book.compute());
    claims.is("4.89 ms", exact.links());
    // With one token less, the links take longer.
    let fewer = edited(name, Book, &[("16*2550", "16*2549")]);
    assert!(book.compute() >= book.links() && fewer.compute() < fewer.links());

    let name = "questions/data_parallel_threshold_3d";
    claims.example(name);
    let (book, exact) = (plan(name, Book), plan(name, Exact));
    claims.is("1.74 ms", book.links());
    claims.is("1.74 ms", book.compute());
    claims.is("1.71 ms", exact.links());
    let fewer = edited(name, Book, &[("64*850", "64*849")]);
    assert!(book.compute() >= book.links() && fewer.compute() < fewer.links());
}

/// The first of the book's options for question 7, called FSDP there.
const WEIGHTS_GATHERED: &str = "\
mesh {X: 2, Y: 2} on tpu_v5e
dims {B: 128, D: 8192, F: 32768}
x: bf16[B_X, D]
Win: bf16[D_XY, F]
C: bf16[F, D_XY]
AllGather_XY(Win[D_XY, F]) -> V[D, F]
AllGather_XY(C[F, D_XY]) -> E[F, D]
h[B_X, F] = x * V
y[B_X, D] = h * E
";

/// Names of the collectives of a plan, in order.
fn collectives(planned: &Planned) -> Vec<String> {
    let plan = &planned.plan;
    let is_collective = |id: &_| matches!(plan.step(*id).op, StepOp::Collective(_));
    plan.ids().filter(is_collective).map(|id| plan.op_name(id)).collect()
}

/// Question 5: with open inputs, the plan takes as long as the best of the book's four options, of which the book calls
/// the first two equally good. With an open result nothing moves.
#[test]
fn open_inputs_find_the_book_s_options_of_question_5() {
    let ground = "mesh {X: 4, Y: 4, Z: 4} on tpu_v5p\ndims {B: 1024, D: 4096, F: 8192}\n";
    let [rows, columns, contracted] = [
        "A: bf16[B_XYZ, D]\nW: bf16[D, F]\nT[B_XYZ, F] = A * W\nAllGather_XYZ(T[B_XYZ, F]) -> C[B, F]",
        "A: bf16[B, D]\nW: bf16[D, F_XYZ]\nT[B, F_XYZ] = A * W\nAllGather_XYZ(T[B, F_XYZ]) -> C[B, F]",
        "A: bf16[B, D_XYZ]\nW: bf16[D_XYZ, F]\nT[B, F]{U_XYZ} = A * W\nAllReduce_XYZ(T[B, F]{U_XYZ}) -> C[B, F]",
    ]
    .map(|text| planned(&format!("{ground}{text}\n"), Book));
    let open = plan("questions/5_least_latency", Book);
    assert_eq!((rows.time(), columns.time()), (open.time(), open.time()));
    assert!((contracted.links() / rows.links() - 2.0).abs() < 1e-9);
    // The fourth option computes all of the result on each device.
    assert!(open.compute() * 64.0 > 3.0 * open.time());
    // V/(3 W) of a result of 16.8 MB.
    assert!((open.links() - 1024.0 * 8192.0 * 2.0 / (3.0 * 1.8e11)).abs() < 1e-9);
    assert_eq!(collectives(&open), ["AllGather_XYZ"]);
}

/// Question 7: tokens sharded along D before and after the layer, weights along F: the book's second option. The result
/// open as well, and not tied to the input, saves the gather.
#[test]
fn open_layouts_find_the_book_s_option_of_question_7() {
    let book = plan("questions/7_repeated_layer", Book);
    assert_eq!(collectives(&book), ["AllGather_XY", "ReduceScatter_{XY,D}"]);
    let arrays: Vec<String> = book.plan.ids().map(|id| book.plan.array(id)).collect();
    for array in ["x[B, D_XY]", "Win[D, F_YX]", "C[F_YX, D]"] {
        assert!(arrays.iter().any(|name| name == array), "{array} is none of {arrays:?}");
    }
    // With the limit of memory, which `edited` leaves out.
    let apart = source("questions/7_repeated_layer").replace("repeat 2 {", "").replace("}\noutput x", "output x");
    let apart = planned(&apart, Book);
    assert_eq!(collectives(&apart).len(), 1);
    assert!((apart.links() / book.step("AllGather_XY") - 1.0).abs() < 1e-9);
}

fn rivals(claims: &mut Claims) {
    let name = "rivals/move_the_activations";
    claims.example(name);
    let (bytes, exact) = (plan(name, Bytes), plan(name, Exact));
    let gather = bytes.way("C", &["AllGather_X(B[J_X, K])"]).received.0 as f64;
    claims.is("64 MiB", bytes.whole("B"));
    claims.is("58.7 MB", gather);
    claims.is("129 kB", bytes.received());
    assert_eq!((gather / bytes.received()).round(), 455.0);
    claims.is("147 kB", exact.received());
    claims.is("8 us", exact.links());

    let name = "rivals/gather_the_smaller";
    claims.example(name);
    let exact = plan(name, Exact);
    let gather = exact.way("C", &["AllGather_X(B[J, K_X])"]);
    claims.is("32 MiB", exact.whole("B"));
    claims.is("29.4 MB", gather.received.0 as f64);
    claims.is("754 kB", exact.received());
    assert_eq!((gather.received.0 as f64 / exact.received()).round(), 39.0);
    claims.is("10.5 us", exact.links());
    claims.is("326 us", exact.seconds(gather.communication));

    let name = "rivals/contract_and_scatter";
    claims.example(name);
    let exact = plan(name, Exact);
    // XLA exchanges A and gathers B.
    claims.is("80 MiB", exact.local("A") + exact.whole("B"));
    claims.quoted("65 MiB");
    claims.is("16 MiB", exact.local("B"));
    claims.is("4 MiB", exact.local("C"));
    claims.is("15.7 MB", exact.received());

    let name = "rivals/no_full_copy";
    claims.example(name);
    let exact = plan(name, Exact);
    claims.is("67.1 MB", exact.whole("A"));
    claims.is("33.6 MB", exact.whole("A") / 2.0);
    // In addition to the result: the shard, and at most 3.5 shards of messages in flight.
    let peak = exact.plan.totals().peak().0 as f64;
    claims.is("71.3 MB", peak);
    assert_eq!(peak, exact.whole("A") / 2.0 + 4.5 * exact.local("A"));
}

fn models(claims: &mut Claims) {
    for (name, figure, array) in [
        ("models/fsdp_llama70b", "470 MB", "Win"),
        ("models/data_parallel_gradient", "470 MB", "dW"),
        ("models/megatron_gpt3", "50 MB", "Out"),
        ("models/decode_llama8b", "131 kB", "Out"),
        ("models/vocab_parallel_loss", "2.1 GB", "logits"),
    ] {
        claims.example(name);
        claims.is(figure, plan(name, Book).whole(array));
    }
    claims.example("models/vocab_parallel_loss");
    claims.is("12 us", plan("models/vocab_parallel_loss", Exact).links());

    let name = "models/furiosa_slices";
    claims.example(name);
    claims.is("768 ns", 256.0 * plan(name, Exact).received() / 64e9);

    let name = "models/flash_decoding";
    claims.example(name);
    claims.is("16 us", plan(name, Exact).links());

    let name = "models/decode_palm540b";
    claims.example(name);
    let made = plan(name, Exact);
    for step in ["AllGather_YZ", "ReduceScatter_{YZ,D}"] {
        claims.is("2.4 MB", made.step_received(step) * 16.0 / 15.0);
    }

    let name = "models/gpt3_layers";
    claims.example(name);
    let made = plan(name, Exact);
    claims.is("1.37 ms", made.step("AllToAll_{X,S}") + made.step("AllGather_XY"));
    claims.is("1.96 ms", made.step("ReduceScatter_{X,S}"));

    let name = "models/gradient_accumulation";
    claims.example(name);
    let made = plan(name, Exact);
    claims.is("19.6 ms", 8.0 * made.links());

    let name = "models/lora_llama8b";
    claims.example(name);
    claims.is("48.7 us", plan(name, Exact).time());
    let in_sequence = Options { overlap: Overlapping::None, ..Options::default() };
    claims.is("50.4 us", planned_on(&source(name), in_sequence, |hardware| hardware.fusion = Fusion::None).time());

    let name = "models/moe_tensor_mixtral";
    claims.example(name);
    let book = plan(name, Book);
    claims.is("536 us", plan(name, Exact).links());
    claims.is("652 us", book.links());
    let summed = [("out = h *_F Wo", "out[E_X, G, C, M] = h *_F Wo")];
    let reduced = edited(name, Book, &summed).step("AllReduce_Y");
    // Whole slots are four times the data that each part of Y exchanges here.
    claims.is("1.12 ms", 2.0 * 4.0 * book.step("AllToAll_{X,E}") + reduced);

    let name = "models/grouped_attention_16_chips";
    claims.example(name);
    let whole = [("k = rename_{S->T}(x * Wk)", "kS[B, S, K_Y1, H] = x * Wk\nk = rename_{S->T}(kS)")];
    let half = edited(name, Book, &whole).product("kS");
    claims.is("37 us", 2.0 * half);
    claims.is("30 us", half + plan(name, Book).step("AllGather_Y2"));

    let name = "models/decode_fsdp_weights_llama70b";
    claims.example(name);
    let made = plan(name, Exact);
    claims.is("18 us", made.links());
    let gathers = [("T = In * Win", "T[B_X, F] = In * Win by gather(Win)"), ("* Wout", "* Wout by gather(Wout)")];
    claims.is("4.6 ms", edited(name, Exact, &gathers).links());
}

/// Every figure in a comment is claimed, and every claim is correct and occurs in the comments.
#[test]
fn figures_in_comments_are_true() {
    let mut claims = Claims { list: Vec::new(), of: String::new() };
    questions(&mut claims);
    rivals(&mut claims);
    models(&mut claims);
    let mut wrong = Vec::new();
    for (name, text, value, tolerance) in &claims.list {
        let (number, unit) = text.split_once(' ').expect("a number and a unit");
        let figure = Figure::of(number, unit).expect("a figure");
        if (figure.value - value).abs() > figure.step * 0.500_001 + tolerance * value {
            wrong.push(format!("{name}: {text} is {value:e}"));
        }
        if !figures(&source(name)).contains(&figure) {
            wrong.push(format!("{name}: {text} is not in the comments"));
        }
    }
    for path in FOLDERS.iter().flat_map(|folder| programs(folder)) {
        let name = short_name(&path);
        let name = name.trim_start_matches("examples/");
        for figure in figures(&source(name)) {
            if !claims.list.iter().any(|(of, text, ..)| of == name && *text == figure.text) {
                wrong.push(format!("{name}: unchecked {}", figure.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
