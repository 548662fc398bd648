//! `run` with array files: the data read are those computed with, saved results are correct, and unsuitable files are
//! refused with a message. The dense results are computed by separate loops.

use shardc::arrays::{Wanted, read_npy, read_safetensors, write_npy, write_safetensors};
use shardc::dtype::DType;
use shardc::sim::values::Tensor;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A separate folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arrays_{name}"));
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn shardc(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
    command.current_dir(folder).args(arguments).output().expect("the command ends")
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Integers without a pattern that a mesh could preserve by accident.
fn numbers(count: usize, most: i64) -> Vec<i64> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..count).map(|_| random.i64(-most..=most)).collect()
}

/// `C[i, k]`, the sum over j of `A[i, j] B[j, k]`, for integers.
fn product(a: &[i64], b: &[i64], [i, j, k]: [usize; 3]) -> Vec<i64> {
    let element = |row: usize, column: usize| (0..j).map(|n| a[row * j + n] * b[n * k + column]).sum();
    (0..i * k).map(|place| element(place / k, place % k)).collect()
}

const SIZES: [usize; 3] = [6, 10, 3];

fn program(dtype: &str) -> String {
    // 10 is not divisible by 4, so the input is padded.
    format!(
        "mesh {{X: 4, Y: 2}} on tpu_v5e\ndims {{I: 6, J: 10, K: 3}}\nA: {dtype}[I_Y, J_X]\nB: {dtype}[J_X, K]\n\
         C[I_Y, K] = A * B\noutput C\n"
    )
}

#[test]
fn a_product_of_given_arrays_is_what_a_loop_computes() {
    let folder = folder("product");
    let [i, j, k] = SIZES;
    let (a, b) = (numbers(i * j, 3), numbers(j * k, 3));
    let expected = product(&a, &b, SIZES);
    for (dtype, out) in [
        (DType::I8, DType::I32),
        (DType::I16, DType::I16),
        (DType::I32, DType::I32),
        (DType::I64, DType::I64),
        (DType::F8E4M3, DType::F32),
        (DType::F8E5M2, DType::F32),
        (DType::Bf16, DType::Bf16),
        (DType::F16, DType::F16),
        (DType::F32, DType::F32),
        (DType::F64, DType::F64),
    ] {
        let tensor = |extents: [usize; 2], numbers: &[i64]| {
            Tensor::from_integers(dtype, &extents.map(|extent| extent as u64), numbers).expect("as many")
        };
        let (a, b) = (tensor([i, j], &a), tensor([j, k], &b));
        std::fs::write(folder.join("p.shard"), program(&dtype.to_string())).expect("a file");
        std::fs::write(folder.join("a.npy"), write_npy(&a)).expect("a file");
        let stored = write_safetensors(&[("other", &a), ("layer.0:w", &b)]).expect("a file");
        std::fs::write(folder.join("w.safetensors"), stored).expect("a file");
        let output = shardc(
            &folder,
            &[
                "run",
                "p.shard",
                "--input",
                "A=a.npy",
                "--input",
                "B=w.safetensors:layer.0:w",
                "--save",
                "C=c.npy",
                "--save",
                "C=c.safetensors:result",
                "--save-shards",
                &format!("C=shards_{dtype}"),
            ],
        );
        assert!(output.status.success(), "{dtype}: {}", err(&output));
        let wanted = Wanted { dtype: out, extents: &[i as u64, k as u64] };
        let saved = read_npy(&mut File::open(folder.join("c.npy")).expect("saved"), wanted).expect("an array");
        assert_eq!(saved.to_i64s(), expected, "{dtype}");
        let mut file = File::open(folder.join("c.safetensors")).expect("saved");
        let saved = read_safetensors(&mut file, Some("result"), "C", wanted).expect("an array");
        assert_eq!(saved.to_i64s(), expected, "{dtype}");
        // Devices along X have replicas; along Y the first has the first three rows.
        for device in 0..8 {
            let path = folder.join(format!("shards_{dtype}/d{device}.npy"));
            let own = Wanted { dtype: out, extents: &[3, 3] };
            let shard = read_npy(&mut File::open(path).expect("a shard"), own).expect("an array");
            assert_eq!(shard.to_i64s(), expected[device % 2 * 9..][..9], "{dtype} on d{device}");
        }
    }
}

#[test]
fn the_sum_of_an_open_input_is_the_given_array() {
    let folder = folder("open");
    let text = "mesh {X: 4} on tpu_v5e\ndims {I: 8}\nA: f32[I]{U_X}\nAllReduce_X A[I]{U_X} -> A[I]\noutput A\n";
    std::fs::write(folder.join("p.shard"), text).expect("a file");
    let numbers: Vec<f64> = (0..8).map(|n| f64::from(n) * 0.3 - 1.0).collect();
    let given = Tensor::from_floats(DType::F32, &[8], &numbers).expect("eight");
    std::fs::write(folder.join("a.npy"), write_npy(&given)).expect("a file");
    let output = shardc(&folder, &["run", "p.shard", "--input", "A=a.npy", "--save", "A=out.npy"]);
    assert!(output.status.success(), "{}", err(&output));
    let wanted = Wanted { dtype: DType::F32, extents: &[8] };
    let saved = read_npy(&mut File::open(folder.join("out.npy")).expect("saved"), wanted).expect("an array");
    for (found, expected) in saved.to_f64s().into_iter().zip(given.to_f64s()) {
        assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
    }
}

/// The parts of an open input are given, one for each device along its axes; every operator combines them.
#[test]
fn the_parts_of_an_open_input_are_given() {
    let folder = folder("parts");
    let parts: [[i64; 3]; 6] = [[1, 2, 3], [2, 1, 0], [3, 3, 1], [1, 5, 2], [2, 2, 2], [4, 1, 7]];
    let numbers: Vec<i64> = parts.concat();
    for dtype in [DType::I32, DType::U32, DType::U64, DType::F32, DType::Bf16] {
        let given = Tensor::from_integers(dtype, &[6, 3], &numbers).expect("as many");
        std::fs::write(folder.join("a.npy"), write_npy(&given)).expect("a file");
        for (word, expected) in [
            ("U", [13, 14, 15]),
            ("MAX", [4, 5, 7]),
            ("MIN", [1, 1, 0]),
            ("MUL", [48, 60, 0]),
            ("SQUARE_ADD", [35, 44, 67]),
            ("ROOT", [1, 2, 3]),
        ] {
            let kind = if word == "ROOT" { "Broadcast" } else { "AllReduce" };
            let text = format!(
                "mesh {{X: 3, Y: 2}} on tpu_v5e\nA: {dtype}[3]{{{word}_XY}}\n{kind}_XY(A[3]{{{word}_XY}}) -> B[3]\noutput B\n"
            );
            std::fs::write(folder.join("p.shard"), text).expect("a file");
            let output = shardc(&folder, &["run", "p.shard", "--input", "A=a.npy", "--save", "B=out.npy"]);
            assert!(output.status.success(), "{dtype} {word}: {}", err(&output));
            let wanted = Wanted { dtype, extents: &[3] };
            let saved = read_npy(&mut File::open(folder.join("out.npy")).expect("saved"), wanted).expect("an array");
            assert_eq!(saved.to_i64s(), expected, "{dtype} {word}");
        }
    }
    // Products of floats round in the order of the devices.
    let factors: Vec<f64> = (0..18u32).map(|n| 0.7 + f64::from(n) * 0.061).collect();
    let given = Tensor::from_floats(DType::F32, &[6, 3], &factors).expect("as many");
    std::fs::write(folder.join("a.npy"), write_npy(&given)).expect("a file");
    for word in ["U", "MUL", "SQUARE_ADD", "MEAN"] {
        let text = format!(
            "mesh {{X: 3, Y: 2}} on tpu_v5e\nA: f32[3]{{{word}_XY}}\nAllReduce_XY(A[3]{{{word}_XY}}) -> B[3]\noutput B\n"
        );
        std::fs::write(folder.join("p.shard"), text).expect("a file");
        let output = shardc(&folder, &["run", "p.shard", "--input", "A=a.npy"]);
        assert!(output.status.success(), "{word}: {}", err(&output));
    }
    // A part is that of one device: without closing, shards have what is given.
    let text =
        "mesh {X: 3, Y: 2} on tpu_v5e\nA: i32[3]{U_XY}\nReduceScatter_{X,3}(A[3]{U_XY}) -> B[3_X]{U_Y}\noutput B\n";
    std::fs::write(folder.join("p.shard"), text).expect("a file");
    let given = Tensor::from_integers(DType::I32, &[6, 3], &numbers).expect("as many");
    std::fs::write(folder.join("a.npy"), write_npy(&given)).expect("a file");
    let output = shardc(&folder, &["run", "p.shard", "--input", "A=a.npy", "--save-shards", "B=shards"]);
    assert!(output.status.success(), "{}", err(&output));
    for (device, expected) in [6, 7, 7, 7, 6, 9].into_iter().enumerate() {
        let own = Wanted { dtype: DType::I32, extents: &[1] };
        let path = folder.join(format!("shards/d{device}.npy"));
        let shard = read_npy(&mut File::open(path).expect("a shard"), own).expect("an array");
        assert_eq!(shard.to_i64s(), [expected], "d{device}");
    }
    std::fs::write(
        folder.join("a.npy"),
        write_npy(&Tensor::from_integers(DType::I32, &[5, 3], &numbers[3..]).expect("15")),
    )
    .expect("a file");
    let output = shardc(&folder, &["run", "p.shard", "--input", "A=a.npy"]);
    let refused = "expected shape [6, 3], found [5, 3] (or [3], for the sum of all parts)";
    assert!(output.status.code() == Some(2) && err(&output).contains(refused), "{}", err(&output));
}

/// An input of a loop is the same in all iterations, stacked, or given for one.
#[test]
fn inputs_of_a_loop_are_stacked_or_shared() {
    let folder = folder("loop");
    let text = "mesh {X: 2} on tpu_v5e\ndims {I: 4}\nx: i32[I_X]\nrepeat 3 {\n  w: i32[I_X]\n  x[I_X] = 10 * x + w\n}\noutput x\n";
    std::fs::write(folder.join("p.shard"), text).expect("a file");
    let write = |name: &str, extents: &[u64], numbers: &[i64]| {
        let given = Tensor::from_integers(DType::I32, extents, numbers).expect("as many");
        std::fs::write(folder.join(name), write_npy(&given)).expect("a file");
    };
    write("x.npy", &[4], &[0; 4]);
    write("one.npy", &[4], &[1, 2, 3, 4]);
    write("all.npy", &[3, 4], &[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4]);
    write("two.npy", &[2, 4], &[0; 8]);
    for (inputs, expected) in [
        (&["w=one.npy"][..], [111, 222, 333, 444]),
        (&["w=all.npy"], [151, 262, 373, 484]),
        (&["w=one.npy", "w.2=x.npy"], [101, 202, 303, 404]),
    ] {
        let mut arguments = vec!["run", "p.shard", "--save", "x=out.npy", "--input", "x=x.npy"];
        arguments.extend(inputs.iter().flat_map(|input| ["--input", input]));
        let output = shardc(&folder, &arguments);
        assert!(output.status.success(), "{inputs:?}: {}", err(&output));
        let wanted = Wanted { dtype: DType::I32, extents: &[4] };
        let saved = read_npy(&mut File::open(folder.join("out.npy")).expect("saved"), wanted).expect("an array");
        assert_eq!(saved.to_i64s(), expected, "{inputs:?}");
    }
    let output = shardc(&folder, &["run", "p.shard", "--input", "w=two.npy"]);
    let refused = "expected shape [3, 4], found [2, 4] (or [4], for all iterations)";
    assert!(output.status.code() == Some(2) && err(&output).contains(refused), "{}", err(&output));
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_saved() {
    let folder = folder("refused");
    std::fs::write(folder.join("p.shard"), program("f32")).expect("a file");
    let save = |name: &str, array: &Tensor| std::fs::write(folder.join(name), write_npy(array)).expect("a file");
    let zeros = |dtype, extents: &[u64]| {
        let count = usize::try_from(extents.iter().product::<u64>()).expect("small");
        Tensor::from_integers(dtype, extents, &vec![0; count]).expect("as many")
    };
    save("a.npy", &zeros(DType::F32, &[6, 10]));
    save("f64.npy", &zeros(DType::F64, &[6, 10]));
    save("turned.npy", &zeros(DType::F32, &[10, 6]));
    let whole = std::fs::read(folder.join("a.npy")).expect("just written");
    std::fs::write(folder.join("short.npy"), &whole[..whole.len() - 1]).expect("a file");
    std::fs::write(folder.join("text.npy"), "not an array").expect("a file");
    std::fs::write(
        folder.join("w.safetensors"),
        write_safetensors(&[("x", &zeros(DType::F32, &[10, 3]))]).expect("one"),
    )
    .expect("a file");
    let cases: &[(&[&str], &str)] = &[
        (&["--input", "A=f64.npy"], "cannot read input `A` from `f64.npy`: expected elements of f32, found `<f8`"),
        (&["--input", "A=turned.npy"], "expected shape [6, 10], found [10, 6]"),
        (&["--input", "A=short.npy"], "expected 240 bytes of elements by the header, found 239"),
        (&["--input", "A=text.npy"], "not a .npy file: wrong magic number"),
        (&["--input", "A=none.npy"], "cannot read input `A` from `none.npy`: No such file"),
        (&["--input", "Q=a.npy"], "unknown input `Q`; inputs are `A`, `B`"),
        (&["--input", "A=a.npy", "--input", "A=a.npy"], "`--input` is given twice for `A`"),
        (&["--input", "A=a.npy:key"], "`a.npy` holds a single unnamed array"),
        (&["--input", "A=a.csv"], "`a.csv` has neither the extension"),
        (&["--input", "B=w.safetensors:y"], "no array `y` in the file; arrays are x"),
        (&["--input", "A"], "expected an array and a file"),
        (&["--save", "Q=c.npy"], "unknown output `Q`; outputs are `C`"),
        (&["--save", "C=none/c.npy"], "cannot write `none/c.npy`"),
        (&["--save", "C=c.safetensors:a", "--save", "C=c.safetensors:a"], "`--save` writes two arrays to"),
    ];
    for (arguments, message) in cases {
        let output = shardc(&folder, &[&["run", "p.shard", "--save", "C=c.npy"], *arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
        if !arguments.contains(&"C=none/c.npy") {
            assert!(!folder.join("c.npy").exists(), "{arguments:?}");
        }
        std::fs::remove_file(folder.join("c.npy")).ok();
    }
}

/// The old file is kept, and no partial file is left.
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = folder("full");
    let text = "mesh {X: 2} on tpu_v5e\ndims {I: 1024}\nA: f64[I_X]\nB[I] = A\noutput B\n";
    std::fs::write(folder.join("p.shard"), text).expect("a file");
    std::fs::write(folder.join("b.npy"), "old").expect("a file");
    let run = |places: &str| {
        // Files are limited to 1 KiB, and the array has eight.
        let script = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" run p.shard {places}");
        let mut shell = Command::new("bash");
        shell.current_dir(&folder).args(["-c", &script, env!("CARGO_BIN_EXE_shardc")]).output().expect("bash")
    };
    for (places, name) in [("--save B=b.npy", "b.npy"), ("--save-shards B=shards", "shards")] {
        let output = run(places);
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(&format!("cannot write `{name}`: File too large")), "{}", err(&output));
    }
    assert_eq!(std::fs::read_to_string(folder.join("b.npy")).expect("it is there"), "old");
    let mut left: Vec<_> =
        std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    left.sort();
    assert_eq!(left, ["b.npy", "p.shard"]);
    if Path::new("/dev/full").exists() {
        let output = shardc(&folder, &["time", "p.shard"]);
        assert!(output.status.success());
        let output = shardc(&folder, &["report", "p.shard", "-o", "/dev/full"]);
        assert!(err(&output).contains("cannot write `/dev/full`: No space left"), "{}", err(&output));
    }
}
