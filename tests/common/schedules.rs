//! Schedules written by hand, small enough to check by eye.

use shardc::dtype::DType;
use shardc::einsum::Einsum;
use shardc::function::{Binary, ByNumber, Function, Scalar, Unary};
use shardc::layout::Sharding;
use shardc::mesh::{Axes, AxisId, AxisSet, Mesh};
use shardc::operator::Operator;
use shardc::schedule::{
    Array, ArrayId, CoordMap, Cut, Dense, OpId, OpKind, Operation, Output, Region, Route, Schedule, Sources,
};
use shardc::span::Span;

pub const X: usize = 0;
pub const Y: usize = 1;

pub fn axis(index: usize) -> AxisId {
    AxisId::new(index)
}

/// A sharding from the axes on each dim and the open axes.
pub fn sharding(dims: &[&[usize]], open: &[usize]) -> Sharding {
    let list = |axes: &&[usize]| axes.iter().map(|index| axis(*index)).collect::<Axes>();
    let open: AxisSet = open.iter().map(|index| axis(*index)).collect();
    Sharding { dims: dims.iter().map(list).collect(), open, operator: Operator::Sum }
}

/// An einsum from text: `ab,bc->ac`.
pub fn einsum(text: &str) -> Einsum {
    let (operands, result) = text.split_once("->").expect("an arrow");
    let word = |word: &str| word.bytes().map(|letter| letter - b'a').collect::<Vec<u8>>();
    Einsum { operands: operands.split(',').map(word).collect(), result: word(result) }
}

/// Builds schedules of i64 elements.
pub struct Builder {
    pub schedule: Schedule,
}

impl Builder {
    pub fn new(axes: &[(&str, u32)]) -> Builder {
        Builder { schedule: Schedule::new(Mesh::of(axes)) }
    }

    pub fn array(&mut self, name: &str, dims: &[(&str, u64)], definition: Dense) -> ArrayId {
        self.schedule.arrays.push(Array {
            name: name.to_owned(),
            dtype: DType::I64,
            dims: dims.iter().map(|(name, _)| (*name).to_owned()).collect(),
            extents: dims.iter().map(|(_, extent)| *extent).collect(),
            valid: dims.iter().map(|(_, extent)| *extent).collect(),
            definition,
        });
        ArrayId(u32::try_from(self.schedule.arrays.len() - 1).expect("small"))
    }

    pub fn product(&mut self, name: &str, dims: &[(&str, u64)], operands: [ArrayId; 2], text: &str) -> ArrayId {
        self.array(name, dims, Dense::Product { operands, einsum: einsum(text) })
    }

    pub fn function(
        &mut self,
        name: &str,
        dims: &[(&str, u64)],
        function: Function,
        operands: &[ArrayId],
        text: &str,
    ) -> ArrayId {
        self.array(name, dims, Dense::Map { function, operands: operands.to_vec(), einsum: einsum(text) })
    }

    pub fn op(&mut self, kind: OpKind, extents: &[u64], operands: &[OpId]) -> OpId {
        let operation = Operation {
            kind,
            dtype: DType::I64,
            extents: extents.to_vec(),
            step: 0,
            method: None,
            span: Span::default(),
        };
        self.schedule.push(operation, operands)
    }

    pub fn extents(&self, id: OpId) -> Vec<u64> {
        self.schedule.operation(id).extents.clone()
    }

    pub fn input(&mut self, array: ArrayId, sharding: Sharding) -> OpId {
        let mesh = &self.schedule.mesh;
        let extents: Vec<u64> = (self.schedule.array(array).extents.iter().zip(&sharding.dims))
            .map(|(extent, axes)| extent / axes.group_size(mesh))
            .collect();
        self.op(OpKind::Input { array, sharding }, &extents, &[])
    }

    pub fn output(&mut self, value: OpId, array: ArrayId, sharding: Sharding) {
        self.schedule.outputs.push(Output { value, array, sharding });
    }

    /// A view that splits `dim` into `parts`, and the region of one part.
    fn part(extents: &[u64], dim: usize, parts: u64, map: CoordMap) -> (Vec<u64>, Region) {
        let mut view = extents.to_vec();
        let mut region = vec![Cut::Whole; extents.len() + 1];
        view[dim] /= parts;
        view.insert(dim, parts);
        region[dim] = Cut::At(map);
        (view, region)
    }

    pub fn slice(&mut self, value: OpId, dim: usize, parts: u64, map: CoordMap) -> OpId {
        let mut extents = self.extents(value);
        let (view, region) = Self::part(&extents, dim, parts, map);
        extents[dim] /= parts;
        self.op(OpKind::Slice { view, region }, &extents, &[value])
    }

    /// Each device receives from the device `by` further along the axis.
    pub fn shift(&mut self, value: OpId, along: usize, by: i64, wrap: bool) -> OpId {
        let extents = self.extents(value);
        let sources = Sources::Shift { axes: axis(along).into(), by, wrap };
        self.op(OpKind::Shuffle { sources, route: Route::Hops(-by) }, &extents, &[value])
    }

    pub fn table(&mut self, value: OpId, axes: &[usize], entries: &[Option<u32>]) -> OpId {
        let extents = self.extents(value);
        let axes = axes.iter().map(|index| axis(*index)).collect();
        let sources = Sources::Table { axes, entries: entries.to_vec() };
        self.op(OpKind::Shuffle { sources, route: Route::Shortest }, &extents, &[value])
    }

    pub fn add(&mut self, operands: &[OpId]) -> OpId {
        let extents = self.extents(operands[0]);
        self.op(OpKind::Add { operator: Operator::Sum }, &extents, operands)
    }

    /// Puts piece k at the position given by map k, along `dim`.
    pub fn assemble(&mut self, pieces: &[OpId], dim: usize, parts: u64, maps: Vec<CoordMap>) -> OpId {
        let mut extents = self.extents(pieces[0]);
        extents[dim] *= parts;
        let view = Self::part(&extents, dim, parts, CoordMap::constant(0)).0;
        let places = maps.into_iter().map(|map| Self::part(&extents, dim, parts, map).1).collect();
        self.op(OpKind::Assemble { view, places, zeros: false }, &extents, pieces)
    }

    pub fn all_gather(&mut self, value: OpId, axes: &[usize], dim: usize) -> OpId {
        let mut extents = self.extents(value);
        let axes: Vec<AxisId> = axes.iter().map(|index| axis(*index)).collect();
        extents[dim] *= self.schedule.mesh.group_size(axes.iter().copied());
        self.op(OpKind::AllGather { axes, dim }, &extents, &[value])
    }

    fn lengths(&self, einsum: &Einsum, operands: &[OpId]) -> Vec<u64> {
        let extents: Vec<Vec<u64>> = operands.iter().map(|operand| self.extents(*operand)).collect();
        let lengths = einsum.lengths(&extents).expect("extents that meet");
        einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect()
    }

    pub fn matmul(&mut self, left: OpId, right: OpId, text: &str) -> OpId {
        let einsum = einsum(text);
        let extents = self.lengths(&einsum, &[left, right]);
        self.op(OpKind::MatMul { einsum }, &extents, &[left, right])
    }

    pub fn map(&mut self, function: Function, operands: &[OpId], text: &str) -> OpId {
        let einsum = einsum(text);
        let extents = self.lengths(&einsum, operands);
        self.op(OpKind::Map { function, einsum }, &extents, operands)
    }

    /// The diagonal ReduceScatter: slice, shift and add once.
    pub fn reduce_scatter(&mut self, value: OpId, along: usize, dim: usize) -> OpId {
        let n = self.schedule.mesh.size(axis(along));
        let pieces: Vec<OpId> = (0..i64::try_from(n).expect("small"))
            .map(|k| {
                let piece = self.slice(value, dim, n, CoordMap::rotated(axis(along), -k, n));
                if k == 0 { piece } else { self.shift(piece, along, k, true) }
            })
            .collect();
        self.add(&pieces)
    }

    /// The ring AllGather: received blocks are forwarded.
    pub fn ring_gather(&mut self, value: OpId, along: usize, dim: usize) -> OpId {
        let n = self.schedule.mesh.size(axis(along));
        let mut pieces = vec![value];
        for _ in 1..n {
            let last = pieces[pieces.len() - 1];
            pieces.push(self.shift(last, along, -1, true));
        }
        let maps = (0..i64::try_from(n).expect("small")).map(|k| CoordMap::rotated(axis(along), -k, n)).collect();
        self.assemble(&pieces, dim, n, maps)
    }
}

const I: (&str, u64) = ("I", 4);
const J: (&str, u64) = ("J", 8);
const K: (&str, u64) = ("K", 4);
const L: (&str, u64) = ("L", 4);

fn open_row(n: u32, length: u64) -> (Builder, ArrayId, OpId) {
    let mut b = Builder::new(&[("X", n)]);
    let a = b.array("A", &[("B", length)], Dense::INPUT);
    let value = b.input(a, sharding(&[&[]], &[X]));
    (b, a, value)
}

fn diagonal(n: u32) -> Schedule {
    let (mut b, a, value) = open_row(n, u64::from(n) * 2);
    let result = b.reduce_scatter(value, X, 0);
    b.output(result, a, sharding(&[&[X]], &[]));
    b.schedule
}

fn rotation(n: u32) -> Schedule {
    let (mut b, a, value) = open_row(n, 3);
    let mut pieces = vec![value];
    pieces.extend((1..i64::from(n)).map(|k| b.shift(value, X, k, true)));
    let result = b.add(&pieces);
    b.output(result, a, sharding(&[&[]], &[]));
    b.schedule
}

fn ring_gather() -> Schedule {
    let mut b = Builder::new(&[("X", 4)]);
    let a = b.array("A", &[I, ("J", 8)], Dense::INPUT);
    let value = b.input(a, sharding(&[&[], &[X]], &[]));
    let result = b.ring_gather(value, X, 1);
    b.output(result, a, sharding(&[&[], &[]], &[]));
    b.schedule
}

/// Pieces travel both ways along a line; where no piece arrives, it is absent.
fn line_gather() -> Schedule {
    let mut b = Builder::new(&[("X", 3)]);
    let a = b.array("A", &[("I", 6)], Dense::INPUT);
    let value = b.input(a, sharding(&[&[X]], &[]));
    let mut pieces = vec![value];
    let mut maps = vec![CoordMap::shifted(axis(X), 0)];
    for way in [-1, 1] {
        let mut last = value;
        for distance in 1..3 {
            last = b.shift(last, X, way, false);
            pieces.push(last);
            maps.push(CoordMap::shifted(axis(X), way * distance));
        }
    }
    let result = b.assemble(&pieces, 0, 3, maps);
    b.output(result, a, sharding(&[&[]], &[]));
    b.schedule
}

fn factors(b: &mut Builder) -> [ArrayId; 3] {
    let left = b.array("A", &[I, J], Dense::INPUT);
    let right = b.array("B", &[J, K], Dense::INPUT);
    let product = b.product("C", &[I, K], [left, right], "ab,bc->ac");
    [left, right, product]
}

/// Case 1: no communication.
fn case_1() -> Schedule {
    let mut b = Builder::new(&[("X", 2), ("Y", 2)]);
    let [left, right, product] = factors(&mut b);
    let (left, right) = (b.input(left, sharding(&[&[X], &[]], &[])), b.input(right, sharding(&[&[], &[Y]], &[])));
    let result = b.matmul(left, right, "ab,bc->ac");
    b.output(result, product, sharding(&[&[X], &[Y]], &[]));
    b.schedule
}

/// Case 2: gather, then multiply.
fn case_2(ring: bool) -> Schedule {
    let mut b = Builder::new(&[("X", 4)]);
    let [left, right, product] = factors(&mut b);
    let (left, right) = (b.input(left, sharding(&[&[], &[X]], &[])), b.input(right, sharding(&[&[], &[]], &[])));
    let left = if ring { b.ring_gather(left, X, 1) } else { b.all_gather(left, &[X], 1) };
    let result = b.matmul(left, right, "ab,bc->ac");
    b.output(result, product, sharding(&[&[], &[]], &[]));
    b.schedule
}

/// Case 3: multiply, reduce-scatter, gather.
fn case_3() -> Schedule {
    let mut b = Builder::new(&[("X", 4)]);
    let [left, right, product] = factors(&mut b);
    let (left, right) = (b.input(left, sharding(&[&[], &[X]], &[])), b.input(right, sharding(&[&[X], &[]], &[])));
    let open = b.matmul(left, right, "ab,bc->ac");
    let scattered = b.reduce_scatter(open, X, 1);
    let result = b.ring_gather(scattered, X, 1);
    b.output(open, product, sharding(&[&[], &[]], &[X]));
    b.output(result, product, sharding(&[&[], &[]], &[]));
    b.schedule
}

/// Gathers axis by axis on two dims, with an axis order that differs from the mesh's.
fn two_axes() -> Schedule {
    let mut b = Builder::new(&[("X", 2), ("Y", 3)]);
    let a = b.array("A", &[("I", 12), ("K", 2)], Dense::INPUT);
    let value = b.input(a, sharding(&[&[Y, X], &[]], &[]));
    let along_x = b.ring_gather(value, X, 0);
    let whole = b.ring_gather(along_x, Y, 0);
    let again = b.slice(whole, 0, 6, CoordMap::rank(&b.schedule.mesh, &[axis(X), axis(Y)]));
    b.output(whole, a, sharding(&[&[], &[]], &[]));
    b.output(again, a, sharding(&[&[X, Y], &[]], &[]));
    b.schedule
}

/// `E = (A * B) * D` with the sum over J still open in the second product.
fn chain() -> Schedule {
    let mut b = Builder::new(&[("X", 2), ("Y", 2)]);
    let [left, right, product] = factors(&mut b);
    let d = b.array("D", &[K, L], Dense::INPUT);
    let e = b.product("E", &[I, L], [product, d], "ab,bc->ac");
    let left = b.input(left, sharding(&[&[], &[X]], &[]));
    let right = b.input(right, sharding(&[&[X], &[Y]], &[]));
    let d = b.input(d, sharding(&[&[Y], &[]], &[]));
    let open = b.matmul(left, right, "ab,bc->ac");
    let open = b.matmul(open, d, "ab,bc->ac");
    let over_x = b.reduce_scatter(open, X, 0);
    let result = b.reduce_scatter(over_x, Y, 1);
    b.output(result, e, sharding(&[&[X], &[Y]], &[]));
    b.schedule
}

/// `A*B + 2*(F*G)`, added while both sums are open.
fn low_rank() -> Schedule {
    let mut b = Builder::new(&[("X", 2)]);
    let [left, right, product] = factors(&mut b);
    let f = b.array("F", &[I, ("R", 2)], Dense::INPUT);
    let g = b.array("G", &[("R", 2), K], Dense::INPUT);
    let small = b.product("P", &[I, K], [f, g], "ab,bc->ac");
    let scaled = b.function("S", &[I, K], Function::ByNumber(ByNumber::Scale, Scalar(2.0)), &[small], "ab->ab");
    let sum = b.function("T", &[I, K], Function::Binary(Binary::Add), &[product, scaled], "ab,ab->ab");
    let left = b.input(left, sharding(&[&[], &[X]], &[]));
    let right = b.input(right, sharding(&[&[X], &[]], &[]));
    let f = b.input(f, sharding(&[&[], &[X]], &[]));
    let g = b.input(g, sharding(&[&[X], &[]], &[]));
    let large = b.matmul(left, right, "ab,bc->ac");
    let small = b.matmul(f, g, "ab,bc->ac");
    let small = b.map(Function::ByNumber(ByNumber::Scale, Scalar(2.0)), &[small], "ab->ab");
    let open = b.map(Function::Binary(Binary::Add), &[large, small], "ab,ab->ab");
    let result = b.reduce_scatter(open, X, 1);
    b.output(result, sum, sharding(&[&[], &[X]], &[]));
    b.schedule
}

/// `I_X` to `J_X`: each device slices, sends and assembles.
fn all_to_all() -> Schedule {
    let mut b = Builder::new(&[("X", 4)]);
    let a = b.array("A", &[I, J], Dense::INPUT);
    let value = b.input(a, sharding(&[&[X], &[]], &[]));
    let pieces: Vec<OpId> = (0..4)
        .map(|k| {
            let piece = b.slice(value, 1, 4, CoordMap::rotated(axis(X), -k, 4));
            if k == 0 { piece } else { b.shift(piece, X, k, true) }
        })
        .collect();
    let maps = (0..4).map(|k| CoordMap::rotated(axis(X), k, 4)).collect();
    let result = b.assemble(&pieces, 0, 4, maps);
    let relu = b.map(Function::Unary(Unary::Relu), &[result], "ab->ba");
    let dense = b.function("R", &[J, I], Function::Unary(Unary::Relu), &[a], "ab->ba");
    b.output(result, a, sharding(&[&[], &[X]], &[]));
    b.output(relu, dense, sharding(&[&[X], &[]], &[]));
    b.schedule
}

/// A binary tree to rank 0 and a broadcast back, with tables that contain empty entries.
fn tree() -> Schedule {
    let (mut b, a, value) = open_row(4, 3);
    let near = b.table(value, &[X], &[Some(1), None, Some(3), None]);
    // The sender's own value is dropped by sending it to no device.
    let own = b.table(value, &[X], &[Some(0), None, Some(2), None]);
    let pairs = b.add(&[own, near]);
    let far = b.table(pairs, &[X], &[Some(2), None, None, None]);
    let own = b.table(pairs, &[X], &[Some(0), None, None, None]);
    let root = b.add(&[own, far]);
    let second = b.table(root, &[X], &[None, None, Some(0), None]);
    let two = b.op(
        OpKind::Assemble { view: vec![3], places: vec![vec![Cut::Whole]; 2], zeros: false },
        &[3],
        &[root, second],
    );
    let rest = b.table(two, &[X], &[None, Some(0), None, Some(2)]);
    let all =
        b.op(OpKind::Assemble { view: vec![3], places: vec![vec![Cut::Whole]; 2], zeros: false }, &[3], &[two, rest]);
    b.output(all, a, sharding(&[&[]], &[]));
    b.schedule
}

/// All schedules with names.
pub fn all() -> Vec<(&'static str, Schedule)> {
    vec![
        ("diagonal reduce-scatter", diagonal(4)),
        ("diagonal reduce-scatter on 3", diagonal(3)),
        ("rotation all-reduce", rotation(4)),
        ("ring all-gather", ring_gather()),
        ("all-gather on a line", line_gather()),
        ("case 1", case_1()),
        ("case 2", case_2(false)),
        ("case 2 on a ring", case_2(true)),
        ("case 3", case_3()),
        ("two axes", two_axes()),
        ("chain", chain()),
        ("low rank", low_rank()),
        ("all-to-all", all_to_all()),
        ("tree", tree()),
    ]
}
