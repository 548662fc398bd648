//! Kernels: local computations that run fused, and their memory traffic.
//!
//! A kernel is a run of functions, casts, masks and local reductions, with the product before or after it. Values passed
//! on inside a kernel are neither written to memory nor read from it; values read by several members are read once. The
//! graph may consist of values, steps of a plan, or operations of a schedule.
//!
//! The cost of a kernel is the sum of the costs of its members:
//! - a product reads its outside values, and another member those that neither a product nor an earlier member reads,
//! - each member writes its result if it is used outside,
//! - a product takes the longer of its operations and its memory traffic; the first written result after it counts as its
//!   own up to the same size, since it is written while the product is computed.
//!
//! A product and a function of its result therefore take as long as the product alone.
//!
//! A product with a one-hot factor computed in the same kernel, `f32(ids == iota_V) * E`, gathers or scatters rows
//! ([`Lookup`]).

use crate::einsum::{Einsum, Index};
use crate::function::{Filler, Function, Relation};
use itertools::Itertools;
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// The fusion that the compiler of a machine supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// None: each computation reads its operands and writes its result.
    None,
    /// Runs of elementwise functions and reductions, with one product.
    #[default]
    Elementwise,
    /// Also attention: a product, its softmax, and a product with that.
    Attention,
}

impl Fusion {
    /// Whether these computations, in this order, may form a kernel.
    fn takes(self, roles: &[Role]) -> bool {
        let products = roles.iter().filter(|role| **role == Role::Product).count();
        match self {
            Fusion::None => false,
            Fusion::Elementwise => products < 2,
            Fusion::Attention if products == 2 => {
                let between = roles.iter().skip_while(|role| **role != Role::Product).skip(1);
                between.take_while(|role| **role != Role::Product).any(|role| *role == Role::Softmax)
            }
            Fusion::Attention => products < 2,
        }
    }
}

/// The role of a computation in fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A product of two arrays.
    Product,
    /// A softmax.
    Softmax,
    /// Any other function, a reduction, or a mask.
    Function,
}

/// The origin of a value, for detecting lookups.
#[derive(Clone, Debug, Default)]
pub enum Makes {
    /// The indices along a dim: 0, 1, 2 and so on.
    Places,
    /// A part of its operand.
    Part,
    /// An equality comparison of its operands, or of its operand with a number.
    Equal(Einsum),
    /// Its operand in another dtype, or transposed.
    Same(Einsum),
    /// Its operand with zeros in padding lanes.
    Filled,
    /// The product of its two operands.
    Product(Einsum),
    /// Anything else.
    #[default]
    Other,
}

impl Makes {
    /// The role of a function in fusion.
    pub fn of(function: Function, einsum: impl FnOnce() -> Einsum) -> Makes {
        match function {
            Function::Is(Relation::Equal) | Function::IsNumber(Relation::Equal, _) => Makes::Equal(einsum()),
            Function::Identity | Function::Cast(_) => Makes::Same(einsum()),
            Function::Fill { with: Filler::Zero, .. } => Makes::Filled,
            _ => Makes::Other,
        }
    }
}

/// A product with a one-hot factor, which gathers or scatters rows instead of multiplying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// The one-hot factor.
    pub factor: usize,
    /// The one-hot index in the einsum of the product.
    pub index: Index,
}

impl Lookup {
    /// Number of operations: one per selected element.
    pub fn flops(self, einsum: &Einsum, extents: &[Vec<u64>]) -> u128 {
        einsum.flops(extents) / u128::from(self.length(einsum, extents))
    }

    /// Most elements read of a factor: for a table, those of the selected rows.
    pub fn reads(self, einsum: &Einsum, extents: &[Vec<u64>], factor: usize) -> u128 {
        let all = extents[factor].iter().fold(1u128, |all, extent| all.saturating_mul(u128::from(*extent)));
        if factor == self.factor || !einsum.operands[factor].contains(&self.index) {
            return all;
        }
        all.min(einsum.flops(extents) / 2 / u128::from(self.length(einsum, extents)))
    }

    fn length(self, einsum: &Einsum, extents: &[Vec<u64>]) -> u64 {
        let place = einsum.operands[self.factor].iter().position(|index| *index == self.index);
        place.map_or(1, |place| extents[self.factor][place]).max(1)
    }
}

/// A node of the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its role; `None` for inputs and moves.
    pub role: Option<Role>,
    /// Its operands, which precede it.
    pub operands: Vec<usize>,
    /// Whether it is used outside of the graph.
    pub leaves: bool,
    /// Mark of its region; a kernel has values with equal marks only.
    pub mark: usize,
    /// Its origin.
    pub makes: Makes,
    /// Number of elements, where it decides among equal kernels.
    pub elements: u64,
}

/// Largest distance between members of a kernel, so that the running time is linear.
const MOST_SPAN: usize = 1024;

/// Finds the kernels of a graph, each with at least two members, in order.
///
/// Values join the kernels of their operands one by one if the kernel stays convex: every node on a path between two
/// members is a member. Functions come first, and then the functions before a product: of several products, the one that
/// reads most of its operands from functions takes them, so that the order of the nodes makes no difference.
pub fn kernels(nodes: &[Node], fusion: Fusion) -> Vec<Vec<usize>> {
    let mut kernels = Kernels::new(nodes, fusion);
    let is_product = |at: usize| nodes[at].role == Some(Role::Product);
    let all = (0..nodes.len()).filter(|at| nodes[*at].role.is_some() && fusion != Fusion::None);
    let (products, functions): (Vec<usize>, Vec<usize>) = all.partition(|at| is_product(*at));
    let (depths, shapes) = (depths(nodes), shapes(nodes));
    for at in functions.into_iter().sorted_by_key(|at| (depths[*at], shapes[*at])) {
        kernels.joined(at);
    }
    let from_functions = |at: &usize| {
        let operands = nodes[*at].operands.iter();
        operands.filter(|operand| nodes[**operand].role.is_some() && !is_product(**operand)).count()
    };
    for at in products.into_iter().sorted_by_key(|at| (Reverse(from_functions(at)), shapes[*at])) {
        kernels.joined(at);
    }
    kernels.members.into_values().filter(|kernel| kernel.len() > 1).collect()
}

/// The length of the longest path to each node.
fn depths(nodes: &[Node]) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(nodes.len());
    for node in nodes {
        depths.push(node.operands.iter().map(|operand| depths[*operand] + 1).max().unwrap_or_default());
    }
    depths
}

/// A number for each node that depends on the nodes before it, but not on their order.
fn shapes(nodes: &[Node]) -> Vec<u64> {
    let mut shapes: Vec<u64> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut hasher = FxHasher::default();
        (node.role.map(|role| role as u8), node.leaves, node.elements).hash(&mut hasher);
        node.operands.iter().for_each(|operand| shapes[*operand].hash(&mut hasher));
        shapes.push(hasher.finish());
    }
    shapes
}

/// Kernels that grow.
struct Kernels<'n> {
    nodes: &'n [Node],
    fusion: Fusion,
    /// The members of each kernel, by its first one.
    members: BTreeMap<usize, Vec<usize>>,
    /// The first member of the kernel of each node.
    head: Vec<usize>,
}

impl Kernels<'_> {
    fn new(nodes: &[Node], fusion: Fusion) -> Kernels<'_> {
        let members = (0..nodes.len()).map(|at| (at, vec![at])).collect();
        Kernels { nodes, fusion, members, head: (0..nodes.len()).collect() }
    }

    /// Joins a node to the kernels of its operands.
    fn joined(&mut self, at: usize) {
        let (nodes, node) = (self.nodes, &self.nodes[at]);
        for operand in &node.operands {
            let (first, second) = (self.head[*operand], self.head[at]);
            let is_far = first.abs_diff(second) > MOST_SPAN;
            if first == second || is_far || nodes[*operand].role.is_none() || nodes[*operand].mark != node.mark {
                continue;
            }
            let merged: BTreeSet<usize> = self.members[&first].iter().chain(&self.members[&second]).copied().collect();
            let roles: Vec<Role> = merged.iter().filter_map(|member| nodes[*member].role).collect();
            if self.fusion.takes(&roles) && is_convex(nodes, &merged) {
                merged.iter().for_each(|member| self.head[*member] = first.min(second));
                self.members.remove(&first.max(second));
                self.members.insert(first.min(second), merged.into_iter().collect());
            }
        }
    }
}

/// Whether a set of nodes is convex: no path leaves it and returns.
pub fn is_convex(nodes: &[Node], members: &BTreeSet<usize>) -> bool {
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return true };
    let mut behind = vec![false; last - first + 1];
    (*first..=*last).all(|at| {
        let is_behind = |operand: &usize| *operand >= *first && behind[operand - first];
        if members.contains(&at) {
            return !nodes[at].operands.iter().any(is_behind);
        }
        behind[at - first] = nodes[at].operands.iter().any(|operand| members.contains(operand) || is_behind(operand));
        true
    })
}

/// The memory traffic of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// For each operand, whether it is read.
    pub reads: Vec<bool>,
    /// The part of the result that is written.
    pub writes: Writes,
    /// Whether the result is never in memory.
    pub is_inside: bool,
    /// Whether it is a product that only looks up rows.
    pub lookup: Option<Lookup>,
    /// Whether it is the first of its kernel in the graph.
    pub starts: bool,
}

impl Access {
    /// Traffic of a computation that is a kernel by itself.
    pub fn alone(operands: usize) -> Access {
        Access { reads: vec![true; operands], writes: Writes::All, is_inside: false, lookup: None, starts: true }
    }
}

/// The part of a result whose write takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writes {
    /// All of the result.
    All,
    /// The part beyond the size of the result of this product, whose write it replaces.
    Beyond(usize),
    /// Nothing: the result is not written.
    Nothing,
}

impl Writes {
    /// Bytes written, for a result of this size.
    ///
    /// - `paid`: bytes of the result of a product.
    pub fn of(self, bytes: u64, paid: impl FnOnce(usize) -> u64) -> u64 {
        match self {
            Writes::All => bytes,
            Writes::Beyond(product) => bytes.saturating_sub(paid(product)),
            Writes::Nothing => 0,
        }
    }
}

/// Computes the memory traffic of all nodes.
pub fn accesses(nodes: &[Node], kernels: &[Vec<usize>]) -> Vec<Access> {
    let mut accesses: Vec<Access> = nodes.iter().map(|node| Access::alone(node.operands.len())).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        node.operands.iter().for_each(|operand| users[*operand].push(at));
    }
    for kernel in kernels {
        let members: BTreeSet<usize> = kernel.iter().copied().collect();
        let lookups: BTreeMap<usize, Lookup> = kernel
            .iter()
            .filter(|at| nodes[**at].role == Some(Role::Product))
            .filter_map(|at| Some((*at, lookup(nodes, &members, *at)?)))
            .collect();
        // The order of members does not matter: what a product reads, whole, no function reads again.
        let by_products =
            kernel.iter().filter(|at| nodes[**at].role == Some(Role::Product) && !lookups.contains_key(at));
        let mut read: BTreeSet<usize> = by_products.flat_map(|at| &nodes[*at].operands).copied().collect();
        // The products whose results are not written, and what comes behind each of them.
        let mut paid: Vec<(usize, BTreeSet<usize>)> = Vec::new();
        for at in kernel.iter().copied() {
            let node = &nodes[at];
            let is_product = node.role == Some(Role::Product);
            // A product reads each of its operands, even if both are the same.
            let is_read = |operand: &usize| !members.contains(operand) && (is_product || read.insert(*operand));
            let reads = node.operands.iter().map(is_read).collect();
            let is_inside =
                !node.leaves && !users[at].is_empty() && users[at].iter().all(|user| members.contains(user));
            for (_, behind) in &mut paid {
                if node.operands.iter().any(|operand| behind.contains(operand)) {
                    behind.insert(at);
                }
            }
            let writes = if is_product {
                paid.extend(is_inside.then(|| (at, BTreeSet::from([at]))));
                Writes::All
            } else if is_inside {
                Writes::Nothing
            } else {
                match paid.iter().position(|(_, behind)| behind.contains(&at)) {
                    Some(place) => Writes::Beyond(paid.remove(place).0),
                    None => Writes::All,
                }
            };
            let lookup = lookups.get(&at).copied();
            let starts = kernel.iter().min() == Some(&at);
            accesses[at] = Access { reads, writes, is_inside, lookup, starts };
        }
        // Nothing behind it is written, as in attention, where another product comes last.
        paid.iter().for_each(|(product, _)| accesses[*product].writes = Writes::Nothing);
    }
    accesses
}

/// Whether a product has a one-hot factor computed in the same kernel.
fn lookup(nodes: &[Node], members: &BTreeSet<usize>, product: usize) -> Option<Lookup> {
    let Makes::Product(einsum) = &nodes[product].makes else { return None };
    nodes[product].operands.iter().enumerate().find_map(|(factor, operand)| {
        let dim = one_hot(nodes, members, *operand)?;
        Some(Lookup { factor, index: *einsum.operands[factor].get(dim)? })
    })
}

/// The dim along which a value is one-hot: the one that is compared with indices.
fn one_hot(nodes: &[Node], members: &BTreeSet<usize>, mut at: usize) -> Option<usize> {
    // The dims that are turned on the way, the last one first.
    let mut turns: Vec<&Einsum> = Vec::new();
    let (einsum, operands) = loop {
        let node = nodes.get(at).filter(|_| members.contains(&at))?;
        match &node.makes {
            Makes::Same(einsum) => {
                turns.push(einsum);
                at = *node.operands.first()?;
            }
            Makes::Filled => at = *node.operands.first()?,
            Makes::Equal(einsum) => break (einsum, &node.operands),
            Makes::Places | Makes::Part | Makes::Product(_) | Makes::Other => return None,
        }
    };
    let place = |own: usize| {
        let [index] = einsum.operands[own].as_slice() else { return None };
        let has_it = |other: usize| other != own && einsum.operands[other].contains(index);
        let is_alone = is_places(nodes, operands[own]) && !(0..operands.len()).any(has_it);
        is_alone.then(|| einsum.result.iter().position(|result| result == index)).flatten()
    };
    let mut dim = (0..operands.len()).find_map(place)?;
    for turn in turns.into_iter().rev() {
        let index = turn.operands[0][dim];
        dim = turn.result.iter().position(|result| *result == index)?;
    }
    Some(dim)
}

fn is_places(nodes: &[Node], mut at: usize) -> bool {
    while let (Makes::Part, Some(operand)) = (&nodes[at].makes, nodes[at].operands.first()) {
        at = *operand;
    }
    matches!(nodes[at].makes, Makes::Places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(role: Option<Role>, operands: &[usize]) -> Node {
        Node { role, operands: operands.to_vec(), leaves: false, mark: 0, makes: Makes::Other, elements: 1 }
    }

    const INPUT: Option<Role> = None;
    const PRODUCT: Option<Role> = Some(Role::Product);
    const SOFTMAX: Option<Role> = Some(Role::Softmax);
    const FUNCTION: Option<Role> = Some(Role::Function);

    #[test]
    fn a_product_takes_what_comes_behind_it() {
        let mut nodes = vec![
            node(INPUT, &[]),
            node(INPUT, &[]),
            node(PRODUCT, &[0, 1]),
            node(FUNCTION, &[2]),
            node(FUNCTION, &[3, 0]),
            node(PRODUCT, &[4, 1]),
        ];
        nodes[5].leaves = true;
        let found = kernels(&nodes, Fusion::Elementwise);
        assert_eq!(found, [vec![2, 3, 4]]);
        let accesses = accesses(&nodes, &found);
        let writes: Vec<Writes> = accesses.iter().map(|access| access.writes).collect();
        assert_eq!(&writes[2..], [Writes::All, Writes::Nothing, Writes::Beyond(2), Writes::All]);
        assert_eq!(accesses[4].reads, [false, false], "the product has read it");
        assert_eq!((accesses[2].is_inside, accesses[4].is_inside), (true, false));
        assert!(kernels(&nodes, Fusion::None).is_empty());
    }

    /// What a product reads, a function in its kernel does not read again, whichever comes first.
    #[test]
    fn products_and_functions_read_an_operand_once_in_any_order() {
        let read = |first: (Option<Role>, &[usize]), second: (Option<Role>, &[usize])| {
            let nodes = [
                node(INPUT, &[]),
                node(INPUT, &[]),
                node(first.0, first.1),
                node(second.0, second.1),
                node(FUNCTION, &[2, 3]),
            ];
            let found = kernels(&nodes, Fusion::Elementwise);
            assert_eq!(found, [vec![2, 3, 4]]);
            let accesses = accesses(&nodes, &found);
            let reads = |operand: usize| {
                let pairs =
                    nodes.iter().zip(&accesses).flat_map(|(node, access)| node.operands.iter().zip(&access.reads));
                pairs.filter(|(own, is_read)| **own == operand && **is_read).count()
            };
            [0, 1].map(reads)
        };
        let (product, function) = ((PRODUCT, [0, 1].as_slice()), (FUNCTION, [0].as_slice()));
        assert_eq!(read(product, function), [1, 1]);
        assert_eq!(read(function, product), [1, 1]);
    }

    /// A function that two products read is in the kernel of the same one in any order of the products.
    #[test]
    fn the_order_of_products_makes_no_difference() {
        let sized = |elements, node: Node| Node { elements, ..node };
        let start = [node(INPUT, &[]), node(FUNCTION, &[0])];
        let plain = || vec![node(PRODUCT, &[1, 0])];
        let large = || vec![sized(8, node(PRODUCT, &[1, 0]))];
        // Its operands are both functions.
        let of_functions = |at: usize| vec![node(FUNCTION, &[1]), node(PRODUCT, &[1, at])];
        let members = |parts: [Vec<Node>; 2]| {
            let nodes: Vec<Node> = start.iter().cloned().chain(parts.into_iter().flatten()).collect();
            let found = kernels(&nodes, Fusion::Elementwise);
            let kernel = |kernel: &Vec<usize>| kernel.iter().map(|at| (nodes[*at].role, nodes[*at].elements)).collect();
            found.iter().map(kernel).collect::<Vec<Vec<_>>>()
        };
        assert_eq!(members([plain(), large()]), members([large(), plain()]));
        let [one, other] = [members([plain(), of_functions(3)]), members([of_functions(2), plain()])];
        assert_eq!((one[0].len(), &one), (3, &other));
    }

    #[test]
    fn what_leaves_does_not_come_back() {
        // 1 -> a move -> 3, and 1 -> 3.
        let nodes = [node(INPUT, &[]), node(FUNCTION, &[0]), node(INPUT, &[1]), node(FUNCTION, &[1, 2])];
        assert!(kernels(&nodes, Fusion::Elementwise).is_empty());
    }

    #[test]
    fn attention_has_a_softmax_between_two_products() {
        let chain = |middle| vec![node(INPUT, &[]), node(PRODUCT, &[0, 0]), node(middle, &[1]), node(PRODUCT, &[2, 0])];
        let found = kernels(&chain(SOFTMAX), Fusion::Attention);
        assert_eq!(found, [vec![1, 2, 3]]);
        let accesses = accesses(&chain(SOFTMAX), &found);
        let writes: Vec<Writes> = accesses.iter().map(|access| access.writes).collect();
        assert_eq!(&writes[1..], [Writes::Nothing, Writes::Nothing, Writes::All]);
        assert_eq!(kernels(&chain(SOFTMAX), Fusion::Elementwise), [vec![1, 2]]);
        assert_eq!(kernels(&chain(FUNCTION), Fusion::Attention), [vec![1, 2]]);
    }

    /// All kernels of all small graphs are runs and convex, by brute force.
    #[test]
    fn kernels_of_all_small_graphs_are_convex() {
        const COUNT: usize = 5;
        let pairs: Vec<(usize, usize)> = (0..COUNT).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
        for edges in 0..1u32 << pairs.len() {
            for moves in 0..1u32 << COUNT {
                let nodes: Vec<Node> = (0..COUNT)
                    .map(|at| {
                        let from = pairs.iter().enumerate().filter(|(bit, (_, to))| *to == at && edges >> bit & 1 == 1);
                        let operands: Vec<usize> = from.map(|(_, (from, _))| *from).collect();
                        node(if moves >> at & 1 == 1 { None } else { FUNCTION }, &operands)
                    })
                    .collect();
                let mut reaches = [[false; COUNT]; COUNT];
                for (at, node) in nodes.iter().enumerate() {
                    for operand in &node.operands {
                        reaches[*operand][at] = true;
                        (0..COUNT).for_each(|from| reaches[from][at] |= reaches[from][*operand]);
                    }
                }
                for kernel in kernels(&nodes, Fusion::Elementwise) {
                    for (first, last) in kernel.iter().flat_map(|from| kernel.iter().map(move |to| (*from, *to))) {
                        let between = |at: &usize| reaches[first][*at] && reaches[*at][last];
                        assert!((0..COUNT).filter(between).all(|at| kernel.contains(&at)), "{nodes:?}");
                    }
                }
            }
        }
    }
}
