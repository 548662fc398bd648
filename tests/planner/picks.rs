//! Plans of functions that pick by position, against all layouts in which their operands could be.
//!
//! The rules are those of `docs/language.md`: a dim that a function picks along is whole, or each device contributes its
//! rows to an open sum; new dims may be split freely, and all other dims are kept. A plan takes as long as the cheapest of:
//! moving each operand to a layout, computing there without communication, and moving the result.

use crate::common::sets;
use itertools::Itertools;
use shardc::compiler::{self, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::plan::Plan;
use shardc::units::Time;
use std::collections::HashMap;

/// A mesh axis: its name and its size.
type Axis = (char, u64);

/// An array: its dtype, and its dims.
type Array = (&'static str, &'static [&'static str]);

/// An operand or a result: the axes of each dim, and those of its open sum, with the operator in front.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Layout {
    dims: Vec<String>,
    open: Option<(&'static str, String)>,
}

/// A function, its operands, its result, and what an axis may do: the dim that it shards of each operand, then that of the
/// result, or the operator of the sum that it leaves open. A dash is none.
struct Pick {
    call: &'static str,
    operands: &'static [Array],
    result: Array,
    roles: &'static [&'static str],
}

const PICKS: [Pick; 8] = [
    Pick {
        call: "take_V(a, b)",
        operands: &[("bf16", &["V", "D"]), ("i32", &["B"])],
        result: ("bf16", &["B", "D"]),
        roles: &["V - U", "D - D", "- B B"],
    },
    Pick {
        call: "scatter_V(a, b)",
        operands: &[("bf16", &["B", "D"]), ("i32", &["B"])],
        result: ("bf16", &["V", "D"]),
        roles: &["B B U", "D - D", "- - V"],
    },
    Pick { call: "onehot_V(a)", operands: &[("i32", &["B"])], result: ("bool", &["B", "V"]), roles: &["B B", "- V"] },
    Pick {
        call: "slice_{S->T}(a, 16)",
        operands: &[("bf16", &["B", "S"])],
        result: ("bf16", &["B", "T"]),
        roles: &["B B", "S U", "- T"],
    },
    Pick {
        call: "pad_{T->S}(a, 16)",
        operands: &[("bf16", &["B", "T"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B", "T U", "- S"],
    },
    Pick {
        call: "stack_K(a, b)",
        operands: &[("bf16", &["B", "D"]), ("bf16", &["B", "D"])],
        result: ("bf16", &["K", "B", "D"]),
        roles: &["B B B", "D D D", "- - K"],
    },
    Pick {
        call: "reverse_S(a)",
        operands: &[("bf16", &["B", "S"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B", "S U", "- S"],
    },
    Pick {
        call: "cumsum_S(a)",
        operands: &[("bf16", &["B", "S"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B", "S U", "- S"],
    },
];

/// A concatenation, its parts, and sums of parts. A closed term of an open sum counts once.
const CONCAT: [Pick; 6] = [
    Pick {
        call: "concat_{T->S}(a, b)",
        operands: &[("bf16", &["B", "T"]), ("bf16", &["B", "T"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B B", "T T U", "- - S", "T - U", "- T U"],
    },
    Pick {
        call: "pad_{T->S}(a)",
        operands: &[("bf16", &["B", "T"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B", "T U", "- S"],
    },
    Pick {
        call: "pad_{T->S}(a, S - T)",
        operands: &[("bf16", &["B", "T"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B", "T U", "- S"],
    },
    Pick {
        call: "a + pad_{T->S}(b, S - T)",
        operands: &[("bf16", &["B", "S"]), ("bf16", &["B", "T"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B B", "U T U", "S - S"],
    },
    Pick {
        call: "pad_{T->S}(a) + b",
        operands: &[("bf16", &["B", "T"]), ("bf16", &["B", "S"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B B", "T U U", "- S S"],
    },
    Pick {
        call: "a + b",
        operands: &[("bf16", &["B", "S"]), ("bf16", &["B", "S"])],
        result: ("bf16", &["B", "S"]),
        roles: &["B B B", "U U U", "S S S"],
    },
];

/// The position of a maximum, the maximum, and the first position at which it is.
const ARGMAX: [Pick; 3] = [
    Pick { call: "argmax_V(a)", operands: &[("bf16", &["B", "V"])], result: ("i32", &["B"]), roles: &["B B"] },
    Pick { call: "max_V(a)", operands: &[("bf16", &["B", "V"])], result: ("bf16", &["B"]), roles: &["B B", "V MAX"] },
    Pick {
        call: "min_V(where(a == b, iota_V, V))",
        operands: &[("bf16", &["B", "V"]), ("bf16", &["B"])],
        result: ("i32", &["B"]),
        roles: &["B B B", "V - MIN"],
    },
];

/// A dim split into two, and two merged into one. [`World::parted`] has their layouts.
const PARTS: [Pick; 2] = [
    Pick { call: "a", operands: &[("bf16", &["B", "N"])], result: ("bf16", &["B", "K", "M"]), roles: &[] },
    Pick { call: "a", operands: &[("bf16", &["B", "K", "M"])], result: ("bf16", &["B", "N"]), roles: &[] },
];

impl Layout {
    /// `[B_X, D]{U_Y}`
    fn text(&self, names: &[&str]) -> String {
        let under =
            |name: &str, axes: &String| if axes.is_empty() { name.to_owned() } else { format!("{name}_{axes}") };
        let dims = names.iter().zip(&self.dims).map(|(name, axes)| under(name, axes)).join(", ");
        let open = self.open.iter().map(|(operator, axes)| format!("{{{operator}_{axes}}}")).join("");
        format!("[{dims}]{open}")
    }

    fn open_axes(&self) -> &str {
        self.open.as_ref().map_or("", |(_, axes)| axes)
    }

    /// All closed layouts that divide the dims.
    fn closed(world: &World, names: &[&str]) -> Vec<Layout> {
        let mut found = vec![vec![String::new(); names.len()]];
        for order in world.axes.iter().permutations(world.axes.len()) {
            let places = order.iter().map(|_| 0..=names.len()).multi_cartesian_product();
            found.extend(places.map(|places| {
                let mut dims = vec![String::new(); names.len()];
                for ((axis, _), place) in order.iter().zip(places) {
                    dims.get_mut(place).into_iter().for_each(|dim| dim.push(*axis));
                }
                dims
            }));
        }
        let layouts = found.into_iter().unique().map(|dims| Layout { dims, open: None });
        layouts.filter(|layout| world.divides(layout, names)).collect()
    }
}

/// A mesh with sizes of dims, and the prices that are known.
struct World {
    axes: Vec<Axis>,
    sizes: Vec<(&'static str, u64)>,
    costs: CostModel,
    machine: &'static str,
    moves: HashMap<String, Time>,
}

impl World {
    fn new(axes: &[Axis], sizes: &[(&'static str, u64)], costs: CostModel) -> World {
        let (axes, sizes) = (axes.to_vec(), sizes.to_vec());
        World { axes, sizes, costs, machine: "tpu_v5p", moves: HashMap::new() }
    }

    fn size(&self, axis: char) -> u64 {
        self.axes.iter().find(|(name, _)| *name == axis).map_or(1, |(_, size)| *size)
    }

    fn length(&self, dim: &str) -> u64 {
        self.sizes.iter().find(|(name, _)| *name == dim).map(|(_, size)| *size).expect("a size")
    }

    fn divides(&self, layout: &Layout, names: &[&str]) -> bool {
        names.iter().zip(&layout.dims).all(|(name, axes)| {
            let mut shards = 1;
            axes.chars().all(|axis| {
                let before = shards;
                shards *= self.size(axis);
                // An axis cuts one of the parts of a composed dim.
                let cuts = |first: u64| first.is_multiple_of(shards) || before.is_multiple_of(first);
                self.length(name).is_multiple_of(shards) && (*name != "N" || cuts(self.length("K")))
            })
        })
    }

    fn source(&self, statements: &str) -> String {
        let axes = self.axes.iter().map(|(name, size)| format!("{name}: {size} ring")).join(", ");
        let composed =
            |name: &str, size: u64| if name == "N" { "N = K*M".to_owned() } else { format!("{name}: {size}") };
        let sizes = self.sizes.iter().map(|(name, size)| composed(name, *size)).join(", ");
        format!("mesh {{{axes}}} on {}\ndims {{{sizes}}}\n{statements}", self.machine)
    }

    fn plan(&self, source: &str) -> Plan {
        let (program, found) = compiler::check(source);
        let program = program.unwrap_or_else(|| panic!("{source}\n{found:?}"));
        let options = Options {
            costs: self.costs,
            overlap: Overlapping::None,
            reshard: Resharding::Chains,
            ..Options::default()
        };
        let topology = compiler::machine(&program, &options).expect("a machine");
        compiler::plan(&program, &topology, &options).unwrap_or_else(|found| panic!("{source}\n{found:?}"))
    }

    /// Time to move an array from one layout to another one.
    fn moved(&mut self, (dtype, dims): Array, from: &Layout, to: &Layout) -> Time {
        if from == to {
            return Time::ZERO;
        }
        let (before, after) = (from.open_axes(), to.open_axes());
        let opened: String = after.chars().filter(|axis| !before.contains(*axis)).collect();
        let of = if opened.is_empty() { "x".to_owned() } else { format!("open_{opened}(x)") };
        // A closed term counts on one device.
        let kept: String = after.chars().filter(|axis| before.contains(*axis)).collect();
        let open = to.open.as_ref().filter(|_| !kept.is_empty()).map(|(operator, _)| (*operator, kept));
        let between = Layout { open, ..to.clone() };
        if !opened.is_empty() && *from != between {
            return self.moved((dtype, dims), from, &between) + self.moved((dtype, dims), &between, to);
        }
        let statements = format!("x: {dtype}{}\ny{} = {of}\noutput y\n", from.text(dims), to.text(dims));
        if let Some(time) = self.moves.get(&statements) {
            return *time;
        }
        let time = self.plan(&self.source(&statements)).totals().time();
        self.moves.insert(statements, time);
        time
    }

    /// The program with these layouts of the operands, and of the result unless it is free.
    fn program(&self, pick: &Pick, operands: &[Layout], result: Option<&Layout>) -> String {
        let mut text = String::new();
        for ((name, (dtype, dims)), layout) in ["a", "b"].iter().zip(pick.operands).zip(operands) {
            text += &format!("{name}: {dtype}{}\n", layout.text(dims));
        }
        let result = result.map(|layout| layout.text(pick.result.1)).unwrap_or_default();
        self.source(&format!("{text}y{result} = {}\noutput y\n", pick.call))
    }

    /// The layouts in which a dim is split or merged without moving anything: the axes of the first part, then, if each
    /// device has one element of it, those of the second one.
    fn parted(&self, pick: &Pick) -> Vec<(Vec<Layout>, Layout, Time)> {
        let mut found = Vec::new();
        for parts in Layout::closed(self, &["B", "K", "M"]) {
            let [rows, first, second] = &parts.dims[..] else { unreachable!("three dims") };
            let size: u64 = first.chars().map(|axis| self.size(axis)).product();
            if second.is_empty() || size == self.length("K") {
                let whole = Layout { dims: vec![rows.clone(), format!("{first}{second}")], open: None };
                let (from, to) = if pick.result.1.len() == 3 { (whole, parts) } else { (parts, whole) };
                let plan = self.plan(&self.program(pick, std::slice::from_ref(&from), Some(&to)));
                assert_eq!(plan.totals().received().0, 0, "{plan}");
                found.push((vec![from], to, plan.totals().time()));
            }
        }
        found
    }

    /// The layouts in which a function is local, with the time of each.
    fn local(&self, pick: &Pick) -> Vec<(Vec<Layout>, Layout, Time)> {
        let mut found = Vec::new();
        for order in self.axes.iter().permutations(self.axes.len()) {
            for roles in order.iter().map(|_| 0..=pick.roles.len()).multi_cartesian_product() {
                let arrays = pick.operands.iter().chain([&pick.result]);
                let mut layouts: Vec<Layout> =
                    arrays.map(|(_, dims)| Layout { dims: vec![String::new(); dims.len()], open: None }).collect();
                for ((axis, _), role) in order.iter().zip(roles) {
                    let places = pick.roles.get(role).copied().unwrap_or_default().split_whitespace();
                    for (place, word) in places.enumerate().filter(|(_, word)| *word != "-") {
                        let (_, dims) = pick.operands.get(place).unwrap_or(&pick.result);
                        match dims.iter().position(|dim| *dim == word) {
                            Some(dim) => layouts[place].dims[dim].push(*axis),
                            None => layouts[place].open.get_or_insert((word, String::new())).1.push(*axis),
                        }
                    }
                }
                let result = layouts.pop().expect("a result");
                found.push((layouts, result));
            }
        }
        let mut timed = Vec::new();
        for (operands, result) in found.into_iter().unique() {
            let fits = |(layout, (_, dims)): (&Layout, &Array)| self.divides(layout, dims);
            if operands.iter().zip(pick.operands).all(fits) && fits((&result, &pick.result)) {
                let plan = self.plan(&self.program(pick, &operands, Some(&result)));
                // Where moving is faster than computing the same on several devices, that is another way.
                if plan.totals().received().0 == 0 {
                    timed.push((operands, result, plan.totals().time()));
                }
            }
        }
        timed
    }
}

/// The layouts in which an array can be, with the time until then.
type Prices = Vec<(Layout, Time)>;

/// A function with the layouts in which it is local.
struct Ways<'a> {
    pick: &'a Pick,
    local: Vec<(Vec<Layout>, Layout, Time)>,
}

impl<'a> Ways<'a> {
    fn new(world: &World, pick: &'a Pick) -> Ways<'a> {
        Ways { pick, local: world.local(pick) }
    }

    /// The results of the function on operands with these prices.
    fn made(&self, world: &mut World, operands: &[Prices]) -> Prices {
        let mut found: HashMap<&Layout, Time> = HashMap::new();
        for (layouts, result, own) in &self.local {
            let arrays = self.pick.operands.iter().zip(operands).zip(layouts);
            let time = *own + arrays.map(|((array, prices), to)| world.least(*array, prices, to)).sum::<Time>();
            let least = found.entry(result).or_insert(time);
            *least = time.min(*least);
        }
        found.into_iter().map(|(layout, time)| (layout.clone(), time)).sorted_by_key(|(_, time)| *time).collect()
    }
}

impl World {
    /// The time until an array is in a layout.
    fn least(&mut self, array: Array, prices: &Prices, to: &Layout) -> Time {
        prices.iter().map(|(from, time)| *time + self.moved(array, from, to)).min().expect("a layout")
    }
}

/// Compares the plans of every `each`-th choice of layouts with the results that `made` finds. Returns their number.
fn compare(world: &mut World, pick: &Pick, each: usize, made: &dyn Fn(&mut World, &[Layout]) -> Prices) -> usize {
    let given = pick.operands.iter().map(|(_, dims)| Layout::closed(world, dims)).multi_cartesian_product();
    let closed = Layout::closed(world, pick.result.1);
    // The brackets of the result name the parts.
    let free = (pick.call != "a").then_some(None);
    let results = free.into_iter().chain(closed.iter().map(Some));
    let mut count = 0;
    for (given, wanted) in given.cartesian_product(results.collect_vec()).step_by(each) {
        let prices = made(world, &given);
        let ends = wanted.map_or_else(|| closed.iter().collect_vec(), |wanted| vec![wanted]);
        let least = ends.into_iter().map(|to| world.least(pick.result, &prices, to)).min().expect("a layout");
        let plan = world.plan(&world.program(pick, &given, wanted));
        let time = plan.totals().time();
        let source = world.program(pick, &given, wanted);
        if world.machine == "h100" && !plan.is_optimal() {
            // Masks computed by several functions, whose kernels the search counts differently, and says so.
            assert!(time < least * 2, "{source}{plan}");
            continue;
        }
        assert_eq!(time, least, "{source}{plan}");
        count += 1;
    }
    count
}

/// Compares a function whose operands and result may be moved.
fn compare_pick(world: &mut World, pick: &Pick, each: usize) -> usize {
    let ways = Ways::new(world, pick);
    compare(world, pick, each, &|world, given| ways.made(world, &given.iter().map(at).collect_vec()))
}

fn at(layout: &Layout) -> Prices {
    vec![(layout.clone(), Time::ZERO)]
}

/// Compares a split or a merged dim.
fn compare_parts(world: &mut World, pick: &Pick, each: usize) -> usize {
    let ways = Ways { pick, local: world.parted(pick) };
    compare(world, pick, each, &|world, given| ways.made(world, &given.iter().map(at).collect_vec()))
}

/// Compares the position of a maximum. The maximum, which may be moved, is compared with an operand that may be in another
/// layout by then.
fn compare_argmax(world: &mut World, each: usize) -> usize {
    let [whole, most, first] = ARGMAX.each_ref().map(|pick| Ways::new(world, pick));
    compare(world, &ARGMAX[0], each, &|world, given| {
        let from = &given[0];
        let mut prices = whole.made(world, &[at(from)]);
        for ((left, made, own), (right, result, last)) in most.local.iter().cartesian_product(&first.local) {
            let operand = ARGMAX[1].operands[0];
            let [left, right, wanted] = [&left[0], &right[0], &right[1]];
            let mut moved = |from: &Layout, to: &Layout| world.moved(operand, from, to);
            let (to_left, to_right) = (moved(from, left), moved(from, right));
            let both = (to_left + to_right).min(to_left + moved(left, right)).min(to_right + moved(right, left));
            prices.push((result.clone(), both + *own + world.moved(ARGMAX[1].result, made, wanted) + *last));
        }
        prices
    })
}

/// Compares a concatenation, whose parts may also be moved before they are added.
fn compare_concat(world: &mut World, each: usize) -> usize {
    let [whole, first, second, to_first, to_second, sum] = CONCAT.each_ref().map(|pick| Ways::new(world, pick));
    compare(world, &CONCAT[0], each, &|world, given| {
        let [a, b] = [&given[0], &given[1]].map(at);
        let parts = [first.made(world, std::slice::from_ref(&a)), second.made(world, std::slice::from_ref(&b))];
        [
            whole.made(world, &[a.clone(), b.clone()]),
            to_first.made(world, &[parts[0].clone(), b]),
            to_second.made(world, &[a, parts[1].clone()]),
            sum.made(world, &parts),
        ]
        .concat()
    })
}

/// Rows that are long or short, so that moving, or computing the same on several devices, is cheaper.
const SIZES: [[(&str, u64); 6]; 3] = [
    [("B", 64), ("D", 256), ("V", 512), ("S", 128), ("T", 64), ("K", 2)],
    [("B", 8192), ("D", 64), ("V", 1024), ("S", 512), ("T", 256), ("K", 2)],
    [("B", 16), ("D", 8192), ("V", 65536), ("S", 2048), ("T", 1024), ("K", 2)],
];

#[test]
fn on_one_axis() {
    let mut count = 0;
    for (sizes, (axis, costs)) in
        SIZES.into_iter().cartesian_product([(2, CostModel::Exact), (4, CostModel::Book), (8, CostModel::Exact)])
    {
        let world = &mut World::new(&[('X', axis)], &sizes, costs);
        count += PICKS.iter().map(|pick| compare_pick(world, pick, 1)).sum::<usize>();
        count += compare_concat(world, 1) + compare_argmax(world, 1);
    }
    assert!(count > 900, "{count}");
}

/// Where a message takes longer than a kernel, indices are moved rather than rows. A plan that is said to be optimal is.
#[test]
fn on_gpus() {
    let mut count = 0;
    for sizes in SIZES {
        let world = &mut World { machine: "h100", ..World::new(&[('X', 8)], &sizes, CostModel::Exact) };
        count += PICKS.iter().map(|pick| compare_pick(world, pick, 1)).sum::<usize>();
        count += compare_concat(world, 1) + compare_argmax(world, 1);
    }
    assert!(count > 500, "{count}");
}

#[test]
fn on_two_axes() {
    let mut count = 0;
    let each = if sets::are_full() { 1 } else { 14 };
    for sizes in SIZES {
        let world = &mut World::new(&[('X', 4), ('Y', 2)], &sizes, CostModel::Book);
        count += PICKS.iter().map(|pick| compare_pick(world, pick, each)).sum::<usize>();
        count += compare_concat(world, each) + compare_argmax(world, each);
    }
    assert!(count > 450, "{count}");
}

#[test]
fn of_split_and_merged_dims() {
    let mut count = 0;
    for (first, rows) in [(2, 64), (4, 8192), (8, 1024)] {
        let sizes = [("B", rows), ("K", first), ("M", 64), ("N", 64 * first)];
        let each = if sets::are_full() { 1 } else { 3 };
        for (axes, costs) in [
            (vec![('X', 2)], CostModel::Exact),
            (vec![('X', 4)], CostModel::Exact),
            (vec![('X', 4), ('Y', 2)], CostModel::Book),
        ] {
            let each = if axes.len() > 1 { each } else { 1 };
            let world = &mut World::new(&axes, &sizes, costs);
            count += PARTS.iter().map(|pick| compare_parts(world, pick, each)).sum::<usize>();
        }
    }
    assert!(count > 400, "{count}");
}

/// The two largest elements, written out in every choice of layouts: the rows are read up to three times, each time in a
/// layout of their own, from the input or from the copy before. Plans of `top` mostly
/// equal the fastest; those that are said to be optimal are never slower.
#[test]
fn the_two_largest() {
    let (mut count, mut equal, mut slower) = (0, 0, 0);
    let each = if sets::are_full() { 1 } else { 9 };
    let worlds =
        SIZES.into_iter().cartesian_product([(2, CostModel::Exact), (4, CostModel::Book), (8, CostModel::Exact)]);
    for (sizes, (axis, costs)) in worlds.step_by(each) {
        let world = World::new(&[('X', axis)], &sizes, costs);
        let rows = ["[B, V]", "[B_X, V]", "[B, V_X]"];
        let (values, results) = (["[B]", "[B_X]"], ["[K, B]", "[K, B_X]"]);
        for (given, result) in rows.into_iter().cartesian_product(results) {
            let start = format!("a: bf16{given}\n");
            let plan = world.plan(&world.source(&format!("{start}y{result} = top_{{V->K}}(a)\noutput y\n")));
            let mut least: Option<Time> = None;
            let layouts = itertools::iproduct!(rows, rows, rows, values, values, values);
            for (one, two, three, most, place, next) in layouts {
                for (second, third) in ["a", "b"].into_iter().cartesian_product(["a", "b", "c"]) {
                    let text = format!(
                        "{start}b{one} = a\nm{most} = max_V(b)\nc{two} = {second}\n\
                         p{place} = min_V(where(c == m, iota_V, V))\nd{three} = {third}\n\
                         e{three} = where(iota_V != p, d, -3.3895313892515355e38)\nn{next} = max_V(e)\n\
                         y{result} = stack_K(m, n)\noutput y\n"
                    );
                    let time = world.plan(&world.source(&text)).totals().time();
                    least = Some(least.map_or(time, |least| least.min(time)));
                }
            }
            let least = least.expect("a choice");
            // Plans may leave results of the maxima open where the written ones are closed.
            // What is not said to be optimal may be slower, but not by much.
            let ratio = plan.totals().time().ratio(least);
            let most = if plan.is_optimal() { 1.0 } else { 1.1 };
            assert!(ratio <= most, "{ratio}: {given} {result} {sizes:?} {axis}\n{plan}");
            slower += usize::from(ratio > 1.0);
            equal += usize::from(plan.totals().time() == least);
            count += 1;
        }
    }
    assert_eq!(count, if sets::are_full() { 54 } else { 6 });
    assert!(equal * 3 >= count * 2 && slower * 10 <= count, "{equal} equal, {slower} slower of {count}");
}
