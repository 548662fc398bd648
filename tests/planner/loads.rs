//! Exchanges of arrays that are partly used: right on every network, and within the bound of their loads.
#![allow(clippy::print_stdout)]

use crate::common::compile_by;
use crate::common::numeric::computes;
use crate::floor;
use shardc::compiler::{Compiled, Options, Overlapping, Resharding};
use shardc::costs::CostModel;
use shardc::plan::StepId;
use shardc::schedule::OpKind;
use shardc::sim::{clock, proof, values};

/// A mesh, the axes over which groups and experts are split, and the number of devices along them.
const MESHES: [(&str, &str, u64); 9] = [
    ("mesh {X: 4 switch} on tpu_v5p", "X", 4),
    ("mesh {X: 8} on h100", "X", 8),
    ("mesh {X: 4 ring} on tpu_v5p", "X", 4),
    ("mesh {X: 3 line} on tpu_v5p", "X", 3),
    ("mesh {X: 6 full} on tpu_v5p", "X", 6),
    ("mesh {X: 4 ring, Y: 2 ring} on tpu_v5p", "X", 4),
    ("mesh {X: 2 ring, Y: 3 ring} on tpu_v5p", "{X,Y}", 6),
    ("mesh {X: 2 over ib, Y: 4} on h100", "{X,Y}", 8),
    ("mesh {X: 2 over dcn, Y: 2 ring} on tpu_v5p", "{X,Y}", 4),
];

/// A program that sends slots to experts and back, with this number of experts on each device.
fn program(mesh: &str, axes: &str, (groups, experts, slots, width): (u64, u64, u64, u64), load: &[i32]) -> String {
    let load = load.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "{mesh}\ndims {{G: {groups}, E: {experts}, C: {slots}, M: {width}}}\n\
         x: i32[G_{axes}, E, C, M]\n\
         load[G, E] = table({load})\n\
         slots[G_{axes}, E, C, M] = where(iota_C < load, x, 0)\n\
         there[G, E_{axes}, C, M] = slots using routed\n\
         work[G, E_{axes}, C, M] = where(load > iota_C, 2 * there, 0)\n\
         back[G_{axes}, E, C, M] = relu(work) using routed\n\
         output there, back\n"
    )
}

fn compiled(source: &str) -> Compiled {
    let options = Options { overlap: Overlapping::None, reshard: Resharding::Chains, ..Options::default() };
    compile_by(source, &options)
}

/// Whether an exchange leaves elements out.
fn leaves_out(compiled: &Compiled) -> bool {
    let on_zeros = |kind: &OpKind| matches!(kind, OpKind::Assemble { zeros: true, .. });
    compiled.schedule.operations.node_weights().any(|operation| on_zeros(&operation.kind))
}

/// The results are proven, and equal to the dense ones bit for bit; bytes are those of the used slots, rounded up to pieces.
#[test]
fn random_loads_on_every_network() {
    let mut random = fastrand::Rng::with_seed(11);
    for number in 0..90 {
        let (mesh, axes, devices) = MESHES[number % MESHES.len()];
        let (groups, experts) = (devices * random.u64(1..=2), devices * random.u64(1..=2));
        let slots = [1, 4, 6, 7, 8, 12][random.usize(..6)];
        let most = random.i32(0..=i32::try_from(slots).unwrap() + 2);
        let load: Vec<i32> = (0..groups * experts).map(|_| random.i32(-1..=most)).collect();
        let source = program(mesh, axes, (groups, experts, slots, random.u64(1..=3)), &load);
        let compiled = match number % 4 {
            0 => compile_by(&source.replace(" using routed", ""), &Options::default()),
            1 => compile_by(
                &source.replace(" using routed", ""),
                &Options { costs: CostModel::Bytes, ..Options::default() },
            ),
            _ => compiled(&source),
        };
        assert!(number % 4 < 2 || leaves_out(&compiled), "{source}");
        assert!(proof::prove(&compiled.schedule).is_ok(), "{source}");
        assert!(computes(&compiled.schedule, number as u64), "{source}");
        let inputs = values::inputs(&compiled.schedule, number as u64).expect("it is small");
        let run = values::run(&compiled.schedule, &inputs).expect("it runs");
        let dense = values::dense(&compiled.schedule, &inputs).expect("it is small");
        let numerics = values::compare(&compiled.schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.equal, "{source}");
        assert!(clock::run(&compiled.schedule, &compiled.topology).is_ok(), "{source}");
    }
}

/// On a switch the exchange takes at most 2 % more than the busiest port is busy, where hops take no time.
#[test]
fn large_loads_take_the_time_of_the_busiest_port() {
    let mut random = fastrand::Rng::with_seed(5);
    for number in 0..12u64 {
        let devices = [2, 4, 8, 16][usize::try_from(number).unwrap() % 4];
        let load: Vec<i32> = (0..devices * devices).map(|_| random.i32(0..=256)).collect();
        let mesh = format!("mesh {{X: {devices} switch}} on tpu_v5p");
        let source = program(&mesh, "X", (devices, devices, 256, 65536), &load);
        let options =
            Options { overlap: Overlapping::None, reshard: Resharding::Chains, latency: Some(0), ..Options::default() };
        let compiled = compile_by(&source, &options);
        let n = usize::try_from(devices).unwrap();
        let at = |from: usize, to: usize| if from == to { 0 } else { u64::from(load[from * n + to].unsigned_abs()) };
        let row = (0..n).map(|from| (0..n).map(|to| at(from, to)).sum::<u64>()).max().unwrap_or(0);
        let column = (0..n).map(|to| (0..n).map(|from| at(from, to)).sum::<u64>()).max().unwrap_or(0);
        let sends = |id: &StepId| match compiled.plan.step(*id).op.collective() {
            Some(collective) => collective.kind().sends(),
            None => false,
        };
        let exchanges: Vec<StepId> = compiled.plan.ids().filter(sends).collect();
        assert_eq!(exchanges.len(), 2);
        for id in exchanges {
            // 90 GB/s, slots of 256 KiB.
            let seconds = (row.max(column) * 65536 * 4) as f64 / 90e9;
            let ratio = compiled.topology.scale.seconds(compiled.plan.step(id).cost.time) / seconds;
            println!("{devices}: {ratio:.4}");
            assert!((0.9999..=1.02).contains(&ratio), "{devices}: {ratio}");
        }
    }
}

/// No plan and no schedule takes less than the lower bounds, which count used slots.
#[test]
fn no_plan_is_below_its_floor() {
    let mut random = fastrand::Rng::with_seed(2);
    for number in 0..27 {
        let (mesh, axes, devices) = MESHES[number % MESHES.len()];
        let load: Vec<i32> = (0..devices * devices).map(|_| random.i32(0..=64)).collect();
        let source = program(mesh, axes, (devices, devices, 64, 1024 << (number / 9 * 2)), &load);
        let source = if number % 2 == 0 { source.replace(" using routed", "") } else { source };
        for costs in [CostModel::Exact, CostModel::Bytes, CostModel::Book] {
            assert!(floor::holds_for(&source, &source, costs) >= 1.0, "{source}");
        }
    }
}

/// What is 0 in one iteration need not be in the next; contributions to sums, and arrays under other names.
#[test]
fn what_is_not_known_to_be_zero_is_sent() {
    let head = "mesh {X: 4 switch, Y: 2} on tpu_v5p\ndims {G: 4, E: 4, C: 8, M: 2, H: 4}\n";
    let masked = "x: i32[G_X, E, C, M]\nload[G, E] = zipf(1, 12)\nused[G_X, E, C, M] = where(iota_C < load, x, 0)\n";
    let bodies = [
        ("y = used\nrepeat 3 {\nthere[G, E_X, C, M] = y\ny[G_X, E, C, M] = there + 1\n}\noutput y\n", false),
        (
            "y = used\nrepeat 3 {\nthere[G, E_X, C, M] = relu(used) using routed\ny[G_X, E, C, M] = there + y\n}\noutput y\n",
            true,
        ),
        (
            "n = load\nz[G, E_X, C, M] = x\nrepeat 2 {\nm = where(iota_C < n, x, 0)\nz[G, E_X, C, M] = m\nn = n + load\n}\noutput z, n\n",
            false,
        ),
        ("z[H_X, E, C, M] = rename_{G->H}(used)\nw[H, E_X, C, M] = z using routed\n", true),
        ("w[G, E_X, C, M] = used + x\n", false),
        ("w[G, E_X, C, M] = where(iota_C < load, x, 1)\n", false),
        ("w[G, E_X, C, M] = where(iota_C > load, x, 0)\n", false),
        (
            "p: i32[G_X, E, C, M, H_Y]\nq[G_X, E, C, M]{U_Y} = where(iota_C < load, sum_H(p), 0)\nw[G, E_X, C, M]{U_Y} = q\noutput w\n",
            false,
        ),
        ("w[G, E, C_X, M] = used\n", false),
        ("w[G, E_X, M, C] = -used using routed\n", true),
    ];
    for (body, skips) in bodies {
        let source = format!("{head}{masked}{body}");
        for options in [Options::default(), Options { latency: Some(0), ..Options::default() }] {
            let compiled = compile_by(&source, &options);
            assert!(computes(&compiled.schedule, 1), "{source}");
            assert!(skips || !leaves_out(&compiled), "{source}");
        }
        let options = Options { latency: Some(0), overlap: Overlapping::None, ..Options::default() };
        assert_eq!(leaves_out(&compile_by(&source, &options)), skips, "{source}");
    }
}
