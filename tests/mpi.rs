//! Schedules on MPI ranks: every rank ends with exactly the blocks of the simulator, and failures end all ranks with
//! a message. Requires the feature `mpi` and `mpirun` (installed by `.ci/install`); without them the tests are
//! skipped with a message, with `SHARDC_TOOLS=required` they fail.
#![allow(clippy::print_stderr)]

use shardc::arrays::write_npy;
use shardc::dtype::DType;
use shardc::sim::values::Tensor;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Whether MPI ranks can be started.
fn has_ranks() -> bool {
    let found = cfg!(feature = "mpi") && Command::new("mpirun").arg("--version").output().is_ok();
    if !found {
        assert_ne!(std::env::var("SHARDC_TOOLS").as_deref(), Ok("required"), "without the feature `mpi` or `mpirun`");
        eprintln!("skipped: it takes the feature `mpi` and `mpirun`");
    }
    found
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi_{name}"));
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Allows more ranks than cores, and any user.
fn mpirun(ranks: u32, arguments: &[&str]) -> Command {
    let mut command = mpirun_of(ranks);
    command.arg(env!("CARGO_BIN_EXE_shardc")).args(arguments);
    command
}

/// `mpirun` without the command to run.
fn mpirun_of(ranks: u32) -> Command {
    let mut command = Command::new("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("RUST_BACKTRACE", "0");
    command.args(["-n", &ranks.to_string()]);
    command
}

fn run(ranks: u32, arguments: &[&str]) -> Output {
    mpirun(ranks, &[&["run"], arguments, &["--engine", "mpi"]].concat()).output().expect("mpirun ends")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program file on as many ranks as it has devices.
fn right(folder: &Path, name: &str, ranks: u32, program: &str, more: &[&str]) {
    let file = folder.join(format!("{name}.shard"));
    std::fs::write(&file, program).expect("a file");
    let output = run(ranks, &[&[file.to_str().expect("a name")], more].concat());
    let text = text(&output);
    assert!(output.status.success(), "{name}: {text}\n{program}");
    assert!(
        text.contains(&format!("results of all {ranks} ranks are bitwise equal to the simulator's")),
        "{name}: {text}"
    );
    assert!(text.contains("equal the dense result") || text.contains("(tolerance "), "{name}: {text}");
}

#[test]
fn collectives_by_many_methods_on_2_4_8_and_16_ranks() {
    if !has_ranks() {
        return;
    }
    let folder = folder("collectives");
    for ranks in [2, 4, 8, 16] {
        let mesh = format!("mesh {{X: {ranks} ring}} on tpu_v5e\ndims {{I: 64, J: 48}}\n");
        let moves = "A: i32[I_X, J]\nB[I, J] = A\nC[I_X, J] = B\nD[I, J_X] = C\noutput B\noutput D\n";
        right(&folder, &format!("moves_{ranks}"), ranks, &format!("{mesh}{moves}"), &[]);
        let sums = "A: f32[I, J]{U_X}\nB[I_X, J] = A\nE: bf16[I, J]{U_X}\nF[I, J] = E\noutput B\noutput F\n";
        right(&folder, &format!("sums_{ranks}"), ranks, &format!("{mesh}{sums}"), &[]);
        let product = "A: f32[I, J_X]\nB: f32[J_X, K]\nC[I_X, K] = A * B\noutput C\n";
        let mesh = format!("mesh {{X: {ranks}}} on h100_book\ndims {{I: 64, J: 48, K: 32}}\n");
        right(&folder, &format!("product_{ranks}"), ranks, &format!("{mesh}{product}"), &["--keep-allgather"]);
    }
    for method in [
        "clockwise_ring",
        "anticlockwise_ring",
        "bidirectional_ring_pair",
        "meet_in_middle_ring",
        "recursive_doubling",
        "recursive_halving",
        "bruck",
        "swing",
    ] {
        let program =
            format!("mesh {{X: 8 ring}} on tpu_v5e\ndims {{I: 64}}\nA: i64[I_X]\nB[I] = A using {method}\noutput B\n");
        right(&folder, &format!("gather_by_{method}"), 8, &program, &[]);
    }
    for method in ["clockwise_ring", "recursive_doubling", "tree", "double_binary_tree", "swing"] {
        let program = format!(
            "mesh {{X: 8 ring}} on tpu_v5e\ndims {{I: 64}}\nA: f32[I]{{U_X}}\nB[I] = A using {method}\noutput B\n"
        );
        right(&folder, &format!("sum_by_{method}"), 8, &program, &[]);
    }
}

#[test]
fn programs_of_every_kind() {
    if !has_ranks() {
        return;
    }
    let folder = folder("kinds");
    let programs = [
        ("line", 5, "mesh {X: 5 line} on tpu_v5e\ndims {I: 10}\nA: i32[I]{U_X}\nB[I] = A using chain\noutput B\n"),
        ("root", 8, "mesh {X: 8 line} on tpu_v5e\ndims {I: 64}\nA: i8[I]{ROOT_X}\nBroadcast_X(A[I]{ROOT_X}) -> A[I]\n"),
        (
            "padded",
            6,
            "mesh {X: 3, Y: 2} on tpu_v5e\ndims {I: 7, J: 10}\nA: f64[I_X, J_Y]\nB = softmax_J(A)\noutput B\n",
        ),
        ("torus", 8, "mesh {X: 4 ring, Y: 2 ring} on tpu_v5e\ndims {I: 64}\nA: bf16[I]{U_XY}\nB[I] = A\noutput B\n"),
        ("least", 4, "mesh {X: 4} on tpu_v5e\ndims {I: 6, J: 8}\nA: i32[I, J_X]\nB = max_J(A)\noutput B\n"),
        ("open", 4, "mesh {X: 4} on tpu_v5e\ndims {I: 6, J: 8}\nA: i32[I, J_X]\nB[I]{U_X} = sum_J(A)\noutput B\n"),
        // Blocks of an odd number of elements, two to a byte.
        (
            "four_bits",
            4,
            "mesh {X: 4 ring} on tpu_v5e\ndims {I: 12, J: 3}\nA: i4[I_X, J]\nB: u4[I, J]{U_X}\nC[I, J] = A\nD[I_X, J] = B\n\
             output C, D\n",
        ),
    ];
    for (name, ranks, program) in programs {
        right(&folder, name, ranks, program, &[]);
    }
    for name in ["megatron_mlp", "fsdp_mlp", "blocks/layers", "attention"] {
        let path = format!("{}/examples/{name}.shard", env!("CARGO_MANIFEST_DIR"));
        let program = std::fs::read_to_string(path).expect("an example");
        right(&folder, &name.replace('/', "_"), devices(&program), &program, &[]);
    }
}

/// Number of devices of a program's mesh.
fn devices(program: &str) -> u32 {
    let (program, _) = shardc::compiler::check(program);
    u32::try_from(program.expect("a right one").mesh.device_count()).expect("few")
}

/// With data that require rounding, the sums of the ranks equal those of the simulator bit by bit, also in files.
#[test]
fn floats_are_added_in_the_order_of_the_simulator() {
    if !has_ranks() {
        return;
    }
    let folder = folder("floats");
    let mut random = fastrand::Rng::with_seed(11);
    for dtype in [DType::F32, DType::Bf16, DType::F16, DType::F64] {
        let mut array = |name: &str, extents: [u64; 2]| {
            let count = extents.iter().product();
            let numbers: Vec<f64> = (0..count).map(|_| random.f64() * 2.0 - 1.0).collect();
            let tensor = Tensor::from_floats(dtype, &extents, &numbers).expect("as many");
            std::fs::write(folder.join(name), write_npy(&tensor)).expect("a file");
            format!("{}={}", &name[..1], folder.join(name).display())
        };
        let (a, b) = (array("A.npy", [32, 64]), array("B.npy", [64, 16]));
        let program = format!(
            "mesh {{X: 4 ring, Y: 2}} on tpu_v5e\ndims {{I: 32, J: 64, K: 16}}\nA: {dtype}[I_Y, J_X]\n\
             B: {dtype}[J_X, K]\nC[I_Y, K_X] = A * B\nD[I, K] = C\noutput C\noutput D\n"
        );
        let save =
            |name: &str, engine: &str| format!("{name}={}", folder.join(format!("{engine}_{name}.npy")).display());
        let (c, d) = (save("C", "mpi"), save("D", "mpi"));
        right(&folder, "floats", 8, &program, &["--input", &a, "--input", &b, "--save", &c, "--save", &d]);
        let mut simulated = Command::new(env!("CARGO_BIN_EXE_shardc"));
        simulated.args(["run", folder.join("floats.shard").to_str().expect("a name"), "--input", &a, "--input", &b]);
        let simulated = simulated.args(["--save", &save("C", "sim"), "--save", &save("D", "sim")]).output();
        assert!(simulated.expect("it ends").status.success());
        for name in ["C", "D"] {
            let read = |engine: &str| std::fs::read(folder.join(format!("{engine}_{name}.npy"))).expect("saved");
            assert_eq!(read("mpi"), read("sim"), "{dtype} {name}");
        }
    }
}

#[test]
fn each_operation_has_a_measured_time_beside_the_predicted_one() {
    if !has_ranks() {
        return;
    }
    let folder = folder("times");
    let program = "mesh {X: 4 ring} on tpu_v5e\ndims {I: 64}\nA: i32[I_X]\nB[I] = A using clockwise_ring\noutput B\n";
    std::fs::write(folder.join("p.shard"), program).expect("a file");
    let path = folder.join("p.shard");
    let output = run(4, &[path.to_str().expect("a name"), "--times", "--repetitions", "3"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("median of 3 runs ("), "{text}");
    let shuffles: Vec<&str> = text.lines().filter(|line| line.contains("shuffle (3,0,1,2) via X+1")).collect();
    assert_eq!(shuffles.len(), 3, "{text}");
    assert!(shuffles.iter().all(|line| line.trim_end().ends_with("1.00 us")), "{text}");
}

/// A calibrated profile of this machine is accepted by `time` and `run`, and can be compared with measurements.
#[test]
fn a_machine_is_calibrated() {
    if !has_ranks() {
        return;
    }
    let folder = folder("calibrated");
    let profile = folder.join("here.toml");
    let profile = profile.to_str().expect("a name");
    let calibrate = |more: &[&str]| {
        let output = mpirun(4, &[&["calibrate", "--engine", "mpi", "--repetitions", "2"], more].concat()).output();
        let output = output.expect("mpirun ends");
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    calibrate(&["-o", profile]);
    let toml = std::fs::read_to_string(profile).expect("written");
    let hardware = shardc::topology::Hardware::from_toml(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    assert_eq!(hardware.name, "mpi_4");
    // Above a byte per microsecond, below the speed of light.
    assert!((1_000_000..1 << 40).contains(&hardware.network.one_way.per_second()), "{toml}");
    assert!(hardware.network.hop_latency > 1_000, "{toml}");
    assert!(toml.contains("4194304 bytes in "), "{toml}");
    let program = folder.join("p.shard");
    std::fs::write(&program, "mesh {X: 4}\ndims {I: 64}\nA: f32[I]{U_X}\nB[I] = A\noutput B\n").expect("a file");
    let program = program.to_str().expect("a name");
    let timed = Command::new(env!("CARGO_BIN_EXE_shardc")).args(["time", program, "--hardware", profile]).output();
    assert!(text(&timed.expect("it ends")).contains("4 devices on mpi_4"));
    let output = text(&run(4, &[program, "--hardware", profile]));
    assert!(output.contains("x simulated"), "{output}");
    let table = calibrate(&["--against", profile, "--bytes", "4096"]);
    let rows = |start: &str| table.lines().filter(|line| line.starts_with(start)).count();
    for collective in ["| AllGather |", "| ReduceScatter |", "| AllReduce |", "| AllToAll |"] {
        assert_eq!(rows(collective), 3, "{table}");
    }
}

/// All ranks exit with a nonzero code, and the error is printed once.
#[test]
fn what_cannot_be_run_is_refused_by_all_ranks() {
    if !has_ranks() {
        return;
    }
    let folder = folder("refused");
    let place = |name: &str| folder.join(name).display().to_string();
    std::fs::write(place("p.shard"), "mesh {X: 4} on tpu_v5e\ndims {I: 8}\nA: f32[I_X]\nB[I] = A\noutput B\n")
        .expect("a file");
    let long = "mesh {X: 2} on tpu_v5e\ndims {I: 8589934592}\nA: i8[I_X]\nB[I] = A\noutput B\n";
    std::fs::write(place("long.shard"), long).expect("a file");
    std::fs::write(place("wrong.shard"), "mesh {X: 4} on tpu_v5e\nB = A\n").expect("a file");
    let schedule = "mesh {X: 8}\narray A: i8[D 8] = input\nstep 0\n%0 = input A[D_X] : i8[1]\noutput %0 = A[D_X]\n";
    std::fs::write(place("other.schedule"), schedule).expect("a file");
    let doubles = write_npy(&Tensor::from_integers(DType::F64, &[8], &[0; 8]).expect("eight"));
    std::fs::write(place("f64.npy"), &doubles).expect("a file");
    let floats = write_npy(&Tensor::from_integers(DType::F32, &[8], &[0; 8]).expect("eight"));
    std::fs::write(place("short.npy"), &floats[..floats.len() - 3]).expect("a file");
    std::os::unix::fs::symlink("/dev/full", place("full.npy")).expect("a link");
    let input = |name: &str| format!("A={}", place(name));
    let cases = [
        (2, vec![place("p.shard")], "the mesh {X: 4} has 4 devices, but there are 2 ranks; run `mpirun -n 4", 2),
        (5, vec![place("p.shard")], "has 4 devices, but there are 5 ranks", 2),
        (4, vec![place("other.schedule")], "the mesh {X: 8} has 8 devices, but there are 4 ranks", 2),
        (2, vec![place("long.shard")], "sends messages of more than 2147483647 bytes, the limit of MPI", 2),
        (2, vec![place("none.shard")], "No such file", 2),
        (4, vec![place("wrong.shard")], "unknown array `A`", 1),
        (4, vec![place("p.shard"), "--input".into(), input("f64.npy")], "expected elements of f32, found `<f8`", 2),
        (
            4,
            vec![place("p.shard"), "--input".into(), input("short.npy")],
            "expected 32 bytes of elements by the header, found 29",
            2,
        ),
        (4, vec![place("p.shard"), "--input".into(), input("none.npy")], "No such file", 2),
        (4, vec![place("p.shard"), "--save".into(), format!("B={}", place("full.npy"))], "No space left on device", 2),
    ];
    for (ranks, arguments, words, code) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(ranks, &arguments);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert_eq!(text.matches(words).count(), 1, "{arguments:?}: {text}");
    }
}

/// The child processes of a process.
fn children(of: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .expect("Linux")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let parent = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|process| parent(process) == Some(of)).collect()
}

/// Ranks that run for minutes, once all have joined.
fn long_run(folder: &Path, timeout: &str) -> (Child, Vec<u32>) {
    let program =
        "mesh {X: 4 ring} on tpu_v5e\ndims {I: 4096}\nA: f32[I]{U_X}\nB[I] = A using clockwise_ring\noutput B\n";
    std::fs::write(folder.join("p.shard"), program).expect("a file");
    let path = folder.join("p.shard");
    let path = path.to_str().expect("a name");
    let mut command = mpirun(4, &["run", path, "--engine", "mpi", "--repetitions", "10000", "--timeout", timeout]);
    let child = start(&mut command);
    let ranks = all_ranks(&child);
    // The run is in progress.
    std::thread::sleep(Duration::from_secs(3));
    (child, ranks)
}

/// The process ids of four ranks, once all have joined.
fn all_ranks(mpirun: &Child) -> Vec<u32> {
    let number = |process: &u32| {
        let variables = std::fs::read(format!("/proc/{process}/environ")).ok()?;
        let mut variables = variables.split(|byte| *byte == 0);
        let number = variables.find_map(|variable| variable.strip_prefix(b"OMPI_COMM_WORLD_RANK="))?;
        std::str::from_utf8(number).ok()?.parse::<u32>().ok()
    };
    let since = Instant::now();
    loop {
        let mut ranks: Vec<(u32, u32)> =
            children(mpirun.id()).into_iter().filter_map(|process| Some((number(&process)?, process))).collect();
        if ranks.len() == 4 {
            ranks.sort_unstable();
            return ranks.into_iter().map(|(_, process)| process).collect();
        }
        assert!(since.elapsed() < Duration::from_secs(60), "the ranks do not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().expect("kill").success());
}

/// Whether a process has ended: it is gone, or a zombie that its parent has not waited for.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_none_or(|state| state == "Z")
}

/// The final messages, and the time until all ranks ended; asserts that none is left.
///
/// Open MPI's `mpirun` sometimes waits forever for a lock of its own after all ranks have ended. That is not what is
/// tested, so it is killed then.
fn ended(mut child: Child, ranks: &[u32]) -> (String, Duration) {
    let since = Instant::now();
    let mut took = None;
    let is_killed = loop {
        if ranks.iter().all(|rank| has_ended(*rank)) {
            took.get_or_insert_with(|| since.elapsed());
        }
        if child.try_wait().expect("a child").is_some() {
            break false;
        }
        if took.is_some_and(|took| since.elapsed() > took + ENDING) {
            child.kill().ok();
            break true;
        }
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().ok();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let output = child.wait_with_output().expect("it has ended");
    let text = text(&output);
    assert!(is_killed || !output.status.success(), "{text}");
    for rank in ranks {
        let command = std::fs::read_to_string(format!("/proc/{rank}/cmdline")).unwrap_or_default();
        assert!(!command.contains("shardc"), "{rank} is left");
    }
    (text, took.unwrap_or_else(|| since.elapsed()))
}

#[test]
fn a_rank_that_dies_ends_all() {
    if !has_ranks() {
        return;
    }
    let (child, ranks) = long_run(&folder("dies"), "60");
    signal(ranks[2], "-KILL");
    let (text, _) = ended(child, &ranks);
    assert!(text.contains("exited on signal 9 (Killed)"), "{text}");
}

/// Time limit for `mpirun` to end the remaining ranks, once a rank has given up.
const ENDING: Duration = Duration::from_secs(8);
/// Timeout of the ranks below, in seconds.
const TIMEOUT: &str = "3";

/// Asserts that the ranks end within the timeout, with these messages.
#[track_caller]
fn ends_in_time(child: Child, ranks: &[u32], words: &[&str]) {
    let (text, took) = ended(child, ranks);
    assert!(took < Duration::from_secs(3) + ENDING, "{took:?}: {text}");
    for words in words {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_rank_that_stops_is_not_waited_for_for_ever() {
    if !has_ranks() {
        return;
    }
    for rank in 0..2 {
        let (child, ranks) = long_run(&folder("stops"), TIMEOUT);
        signal(ranks[rank], "-STOP");
        ends_in_time(child, &ranks, &["for 3 s, while the schedule ran; last message from rank "]);
    }
}

#[test]
fn a_rank_that_stops_before_it_joins_is_not_waited_for() {
    if !has_ranks() {
        return;
    }
    let folder = folder("joins");
    let program = small(&folder);
    for rank in [0, 2] {
        let stop = format!("if [ \"$OMPI_COMM_WORLD_RANK\" = {rank} ]; then kill -STOP $$; fi; exec \"$@\"");
        let shardc = [env!("CARGO_BIN_EXE_shardc"), "run", &program, "--engine", "mpi", "--timeout", TIMEOUT];
        let child = start(mpirun_of(4).args(["sh", "-c", &stop, "sh"]).args(shardc));
        let ranks = all_ranks(&child);
        ends_in_time(child, &ranks, &["timeout of 3 s in `MPI_Init`, while the ranks joined"]);
    }
}

/// The first rank reads its program from a pipe: it is in the planning phase until the program is written.
fn planning(folder: &Path) -> (Child, Vec<u32>, std::fs::File) {
    let pipe = pipe(folder, "p.shard");
    let child = start(&mut mpirun(4, &["run", &pipe, "--engine", "mpi", "--timeout", TIMEOUT]));
    // The pipe is opened when all ranks have joined.
    let pipe = std::fs::File::options().write(true).open(&pipe).expect("the first rank reads it");
    let ranks = all_ranks(&child);
    (child, ranks, pipe)
}

#[test]
fn a_plan_may_take_longer_than_the_timeout() {
    if !has_ranks() {
        return;
    }
    let (child, _, mut pipe) = planning(&folder("plans"));
    std::thread::sleep(Duration::from_secs(8));
    pipe.write_all(SMALL.as_bytes()).expect("it is read");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_rank_that_stops_while_the_first_one_plans_is_not_waited_for() {
    if !has_ranks() {
        return;
    }
    let (child, ranks, _pipe) = planning(&folder("plans_stopped"));
    signal(ranks[0], "-STOP");
    let heard = "no heartbeat of rank 0 for 3 s, while rank 0 planned or compared";
    ends_in_time(child, &ranks, &[heard]);

    let (child, ranks, mut pipe) = planning(&folder("plans_other"));
    signal(ranks[2], "-STOP");
    pipe.write_all(SMALL.as_bytes()).expect("it is read");
    drop(pipe);
    ends_in_time(child, &ranks, &["error: rank 0: ", " rank 2 for 3 s, while "]);

    // An order that is too long to be sent before it is received.
    let (child, ranks, mut pipe) = planning(&folder("plans_long"));
    signal(ranks[3], "-STOP");
    let moves: String = (0..40).map(|n| format!("B{n}[I] = A\nC{n}[I_X] = B{n}\noutput C{n}\n")).collect();
    let long = format!("mesh {{X: 4 ring}} on tpu_v5e\ndims {{I: 64}}\nA: i32[I_X]\n{moves}");
    pipe.write_all(long.as_bytes()).expect("it is read");
    drop(pipe);
    ends_in_time(child, &ranks, &["error: rank 0: timeout: no receipt by rank 3 for 3 s"]);
}

#[test]
fn a_rank_that_stops_at_the_end_is_not_waited_for() {
    if !has_ranks() {
        return;
    }
    let folder = folder("ends");
    // An output larger than a pipe's buffer: the first rank writes until it is read.
    let program = small(&folder);
    std::fs::write(&program, SMALL.replace("I: 8", "I: 262144")).expect("a file");
    for stopped in [0, 1] {
        let saved = pipe(&folder, &format!("B{stopped}.npy"));
        let save = format!("B={saved}");
        let child = start(&mut mpirun(4, &["run", &program, "--save", &save, "--engine", "mpi", "--timeout", TIMEOUT]));
        // The first rank writes the results; only the exit is left.
        let mut pipe = std::fs::File::open(&saved).expect("it is written");
        let ranks = all_ranks(&child);
        signal(ranks[stopped], "-STOP");
        if stopped == 0 {
            ends_in_time(child, &ranks, &["no heartbeat of rank 0 for 3 s"]);
        } else {
            pipe.read_to_end(&mut Vec::new()).expect("it is written");
            ends_in_time(child, &ranks, &["no exit of the last rank for 3 s, while the ranks left"]);
        }
    }
}

/// Ranks with another program or other options are refused before the run.
#[test]
fn ranks_that_are_not_the_same_command_are_refused() {
    if !has_ranks() {
        return;
    }
    let folder = folder("same");
    let program = small(&folder);
    let shardc = env!("CARGO_BIN_EXE_shardc");
    let run = |command: &mut Command| {
        let output = command.output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    let mut command = mpirun_of(3);
    command.args([shardc, "run", &program, "--engine", "mpi", ":", "-n", "1"]);
    let words = run(command.args([shardc, "run", &program, "--engine", "mpi", "--seed", "7"]));
    let expected = format!("error: rank 3 was started as `shardc run {program} --engine mpi --seed 7`, rank 0 as");
    assert_eq!(words.matches(&expected).count(), 1, "{words}");

    // The same name in another folder.
    let other = folder.join("other");
    std::fs::create_dir(&other).expect("a folder");
    std::fs::write(other.join("p.shard"), SMALL.replace("I: 8", "I: 16")).expect("a file");
    let mut command = mpirun_of(3);
    command.args(["--wdir", folder.to_str().expect("a name"), shardc, "run", "p.shard", "--engine", "mpi"]);
    command.args([":", "-n", "1", "--wdir", other.to_str().expect("a name"), shardc, "run", "p.shard"]);
    let words = run(command.args(["--engine", "mpi"]));
    assert_eq!(words.matches("the program file of rank 3 differs from that of rank 0").count(), 1, "{words}");
}

/// A program file for four devices.
fn small(folder: &Path) -> String {
    std::fs::write(folder.join("p.shard"), SMALL).expect("a file");
    folder.join("p.shard").display().to_string()
}

const SMALL: &str = "mesh {X: 4} on tpu_v5e\ndims {I: 8}\nA: f32[I_X]\nB[I] = A\noutput B\n";

fn pipe(folder: &Path, name: &str) -> String {
    let path = folder.join(name).display().to_string();
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    path
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpirun starts")
}

#[test]
fn a_build_without_mpi_says_so() {
    if cfg!(feature = "mpi") {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_shardc"))
        .args(["run", "examples/megatron_mlp.shard", "--engine", "mpi"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("built without MPI: build it with `cargo build --release --features mpi`"));
}
