//! The command line: output and exit codes.

use crate::common::process::{self, fed, text};
use crate::common::sets;
use crate::common::tools::there;
use itertools::Itertools;
use shardc::fit::experts::Way;
use shardc::fit::{attention, table};
use shardc::topology::{Hardware, Tokens};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn shardc(arguments: &[&str], input: &[u8]) -> Output {
    fed(&mut process::shardc(env!("CARGO_MANIFEST_DIR"), arguments), input)
}

fn out(output: &Output) -> String {
    text(&output.stdout)
}

fn err(output: &Output) -> String {
    text(&output.stderr)
}

/// Every command refuses the input with a message, with exit code 1 or 2, quickly, and without a panic.
fn refused(what: &str, input: &[u8]) {
    for command in ["check", "plan", "compile", "run", "time", "prove"] {
        let start = Instant::now();
        let output = shardc(&[command, "-"], input);
        let (code, text) = (output.status.code(), err(&output));
        assert!(matches!(code, Some(1 | 2)), "{command} of {what}: {code:?}\n{text}");
        assert!(!text.trim().is_empty(), "{command} of {what} says nothing");
        assert!(!text.contains("panicked"), "{command} of {what}: {text}");
        assert!(start.elapsed() < Duration::from_secs(20), "{command} of {what} hangs");
    }
}

#[test]
fn bad_input_is_refused_in_words() {
    refused("an empty file", b"");
    refused("a binary file", &[0, 159, 146, 150, 255, 0, 1]);
    refused("control bytes", b"mesh {X: 2}\n\0\0\x01");
    refused("an unknown axis", b"mesh {X: 2}\ndims {I: 4}\nA: bf16[I_Q]\noutput A");
    refused("an axis of no devices", b"mesh {X: 0}\ndims {I: 4}\nA: bf16[I_X]\noutput A");
    refused("a dim of size zero", b"mesh {X: 2}\ndims {I: 0}\nA: bf16[I_X]\noutput A");
    refused("a huge dim", b"mesh {X: 2}\ndims {I: 99999999999999999999999}\nA: bf16[I_X]\noutput A");
    refused("a huge array", b"mesh {X: 2}\ndims {I: 9000000000000000000, J: 4}\nA: bf16[I, J]\noutput A");
    refused("2^40 devices", b"mesh {X: 1048576, Y: 1048576}\ndims {I: 4}\nA: bf16[I]\noutput A");
    refused("10 000 brackets", format!("mesh {{X: 2}}\nC = {}", "[".repeat(10_000)).as_bytes());
    refused("10 000 parentheses", format!("mesh {{X: 2}}\nC = {}", "(".repeat(10_000)).as_bytes());
    refused("a line of 1 MB", format!("mesh {{X: 2}}\nC = {}", "A * ".repeat(250_000)).as_bytes());
    refused("unknown hardware", b"mesh {X: 2} on tpu_v99\ndims {I: 4}\nA: bf16[I_X]\nA -> B[I]");
}

#[test]
fn a_wrong_call_is_exit_2() {
    for arguments in [
        &["run"][..],
        &["frobnicate"],
        &["run", "no/such/file.shard"],
        &["plan", "examples/megatron_mlp.shard", "--hardware", "abacus"],
        &["hardware", "abacus"],
        &["compile", "examples/megatron_mlp.shard", "-o", "no/such/folder/out.json"],
    ] {
        let output = shardc(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", err(&output));
        assert!(!err(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn json_is_one_document_a_line() {
    let file = "examples/megatron_mlp.shard";
    for (arguments, schema) in [
        (&["check", file, "--format", "json"][..], "shardc.check/1"),
        (&["plan", file, "--format", "json"], "shardc.plan/1"),
        (&["time", file, "--format", "json"], "shardc.time/1"),
        (&["run", file, "--format", "json"], "shardc.run/1"),
        (&["compile", file, "--format", "json"], "shardc.schedule/1"),
    ] {
        let output = shardc(arguments, b"");
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        let text = out(&output);
        assert_eq!(text.lines().count(), 1, "{arguments:?}");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["schema"], schema, "{arguments:?}");
    }
    let wrong =
        shardc(&["plan", "-", "--format", "json"], b"mesh {X: 2} on tpu_v5e\ndims {I: 4}\nA: bf16[I_X, I]\noutput A");
    assert_eq!(wrong.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_str(&out(&wrong)).expect("JSON");
    assert_eq!(document["schema"], "shardc.check/1");
    assert_eq!(document["diagnostics"][0]["labels"][0]["line"], 3);
}

#[test]
fn plans_are_told_as_json() {
    let output = shardc(&["plan", "examples/book/case3_scattered.shard", "--format", "json"], b"");
    let document: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    let steps = document["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2, "{document}");
    assert_eq!((&steps[0]["op"], &steps[0]["case"]), (&"MatMul".into(), &3.into()));
    assert_eq!(
        (&steps[1]["op"], &steps[1]["axes"], &steps[1]["dim"]),
        (&"ReduceScatter".into(), &serde_json::json!(["X"]), &"K".into())
    );
    assert_eq!(steps[1]["operands"], serde_json::json!(["C[I, K]{U_X}"]));
    assert_eq!(steps[1]["result"], "C[I, K_X]");
    assert_eq!(steps[1]["bytes_received_per_device"], 16 * 24 * 2 * 3 / 4);
    assert_eq!(
        document["mesh"]["axes"][0],
        serde_json::json!({"name": "X", "size": 4, "physical": [{"size": 4, "link": "ring", "network": "ici"}]})
    );
}

/// A plan is printed as a table with totals; alternatives are listed on request.
#[test]
fn alternatives_are_told_when_asked_for() {
    let file = "examples/megatron_mlp.shard";
    let (plain, all) = (out(&shardc(&["plan", file], b"")), out(&shardc(&["plan", "--alternatives", file], b"")));
    assert!(!plain.contains("  other  ") && plain.contains("`--alternatives` lists the alternatives"), "{plain}");
    assert!(all.contains("  other  ") && !all.contains("--alternatives"), "{all}");
    assert!(plain.lines().zip(all.lines()).take(8).all(|(one, other)| one == other), "{plain}\n{all}");
    let program = b"mesh {X: 2}\ndims {I: 4}\nA: bf16[I_X]\nB[I] = A\noutput B\n";
    assert!(!out(&shardc(&["plan", "-"], program)).contains("--alternatives"), "there is no product");
}

/// HTML pages contain the alternatives.
#[test]
fn pages_have_alternatives() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    let made = shardc(&["report", "examples/megatron_mlp.shard", "-o", path.to_str().expect("a name")], b"");
    assert!(made.status.success(), "{}", err(&made));
    let page = std::fs::read_to_string(path).expect("a page");
    assert!(page.contains("AllGather_Y(relu(T)[B, F_Y]), AllGather_Y(Wout[F_Y, D])"));
}

/// The output of `hardware NAME` is a profile that can be used as input.
#[test]
fn a_profile_can_be_written_and_used() {
    let printed = out(&shardc(&["hardware", "tpu_v5e"], b""));
    let path = std::env::temp_dir().join(format!("shardc-profile-{}.toml", std::process::id()));
    std::fs::write(&path, printed).expect("a file");
    let with = |hardware: &str| {
        out(&shardc(&["time", "examples/megatron_mlp.shard", "--format", "json", "--hardware", hardware], b""))
    };
    assert_eq!(with(path.to_str().expect("a path")), with("tpu_v5e"));
    assert_ne!(with("tpu_v5p"), with("tpu_v5e"));
    std::fs::remove_file(path).expect("the file");
}

/// The cost of `time` is independent of array sizes.
#[test]
fn sizes_of_real_models_take_no_longer() {
    for model in ["megatron_gpt3", "fsdp_llama70b", "attention_gpt3"] {
        let output = shardc(&["time", &format!("examples/models/{model}.shard")], b"");
        assert!(output.status.success(), "{model}: {}", err(&output));
    }
    let output = shardc(&["run", "examples/models/megatron_gpt3.shard"], b"");
    assert_eq!(output.status.code(), Some(2), "too large to compute: {}", out(&output));
}

/// `--set` changes the size of a dim in every command that reads a program; sizes that depend on it follow.
#[test]
fn a_dim_can_be_given_another_size() {
    let source = b"mesh {X: 2*2} on tpu_v5e\ndims {D: 8, F: 4*D}\nB[D_X, F] = A[D_X, F] + A\noutput B";
    for command in ["check", "plan", "compile", "run", "time"] {
        assert_eq!(shardc(&[command, "-", "--set", "D=16"], source).status.code(), Some(0), "{command}");
        let uneven = shardc(&[command, "-", "--set", "D=6"], source);
        assert_eq!(uneven.status.code(), Some(0), "{command}");
        assert!(err(&uneven).contains("dim `D` of size 6 is padded to 8"), "{command}: {}", err(&uneven));
        let unknown = shardc(&[command, "-", "--set", "Q=16"], source);
        assert_eq!(unknown.status.code(), Some(2), "{command}");
        assert!(err(&unknown).contains("unknown dim or axis `Q`; the program has"), "{}", err(&unknown));
    }
    let schedule = out(&shardc(&["compile", "-", "--set", "D=16"], source));
    assert!(schedule.contains("16") && schedule.contains("64"), "{schedule}");
}

/// A failed expectation makes `plan`, `run` and `time` fail after the report; a limit fails before it.
#[test]
fn a_failed_expectation_is_exit_1() {
    let program = "mesh {X: 4} on tpu_v5e\ndims {B: 16, D: 32, F: 64}\nC[B_X, F] = A[B_X, D] * W[D_X, F]\noutput C\n";
    for command in ["plan", "run", "time"] {
        let failed = shardc(&[command, "-"], format!("{program}expect no communication").as_bytes());
        assert_eq!(failed.status.code(), Some(1), "{command}");
        assert!(err(&failed).contains("expect-failed") && out(&failed).contains("AllGather_X"), "{command}");
        let holds = shardc(&[command, "-"], format!("{program}expect time < 1ms").as_bytes());
        assert_eq!(holds.status.code(), Some(0), "{command}: {}", err(&holds));
        let limited = shardc(&[command, "-", "--format", "json"], format!("{program}limit memory 1kB").as_bytes());
        assert_eq!(limited.status.code(), Some(1), "{command}");
        assert!(out(&limited).contains("limit-exceeded"), "{command}: {}", out(&limited));
        let json = shardc(&[command, "-", "--format", "json"], format!("{program}expect memory < 1kB").as_bytes());
        assert_eq!(json.status.code(), Some(1), "{command}");
        assert!(out(&json).contains("expect-failed") && out(&json).contains("totals"), "{command}: {}", out(&json));
    }
}

#[test]
fn why_ranks_the_ways_of_a_product() {
    // The order of the two options does not matter.
    let why = |arguments: &[&str]| {
        let all = [&["plan", "--costs", "book", "--why"], arguments, &["examples/book/case2.shard"]].concat();
        shardc(&all, b"")
    };
    let ranked = why(&["C"]);
    assert_eq!(ranked.status.code(), Some(0));
    let text = out(&ranked);
    assert!(
        text.contains("`C`, case 2: alternatives by cost\n  chosen    2.00 us  AllGather_X(A[I, J_X])\n"),
        "{text}"
    );
    assert!(text.contains("  other     4.00 us  Slice_X(B[J, K]), AllReduce_X(C[I, K]{U_X})\n"), "{text}");
    assert!(text.contains("communication 2.00 us slower; AllReduce_X(C[I, K]{U_X}) takes 4.00 us"), "{text}");
    let asked = out(&why(&["C by reduce"]));
    assert!(asked.contains("C by reduce: 4.00 us, 2.00x of the chosen plan (2.00 us)\n"), "{asked}");
    assert!(asked.contains("  moves: Slice_X(B[J, K]), AllReduce_X(C[I, K]{U_X})\n"), "{asked}");
    let impossible = why(&["C gather(B)"]);
    assert_eq!(impossible.status.code(), Some(1));
    assert!(err(&impossible).contains("pin-impossible"), "{}", err(&impossible));
    for (arguments, told) in [
        (&["Q"][..], "products are `C`"),
        (&["C by gather(Q)"], "cannot be computed `by gather(Q)`"),
        (&["C by magic"], "`by magic`"),
    ] {
        let refused = why(arguments);
        assert_eq!((refused.status.code(), err(&refused).contains(told)), (Some(2), true), "{}", err(&refused));
    }
    let json = out(&why(&["C by reduce", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert_eq!(json["why"][0]["ways"][0]["moves"][0], "AllGather_X(A[I, J_X])");
    assert_eq!(json["why"][0]["asked"]["pin"], "by reduce");
}

/// A product inside an expression is found by the name of its statement. Moves that an alternative shares with the
/// chosen one are not given as the reason for its rejection.
#[test]
fn why_finds_a_product_without_a_name() {
    let program =
        b"mesh {X: 4}\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[J_X, K]\nh = relu(A * B)\noutput h\n";
    let ranked = out(&shardc(&["plan", "-", "--why", "h"], program));
    assert!(ranked.contains("`(A*B)`, case 2"), "{ranked}");
    let asked = out(&shardc(&["plan", "-", "--why", "h by gather(B)"], program));
    assert!(asked.contains("of the chosen plan"), "{asked}");
    let unknown = err(&shardc(&["plan", "-", "--why", "Q"], program));
    assert!(unknown.contains("products are `h`"), "{unknown}");
    let again = out(&shardc(&["plan", "examples/attention.shard", "--why", "y"], b""));
    assert!(again.contains("communication 1.00 us slower; AllGather_Y"), "{again}");
}

/// Pictures are printed below a report or written to a file; those of a schedule need no plan.
#[test]
fn pictures_are_written() {
    let (program, schedule) = ("examples/megatron_mlp.shard", "examples/schedules/point_to_point.schedule");
    for (to, start) in [
        ("dot", "digraph"),
        ("mermaid", "flowchart"),
        ("schedule-dot", "digraph"),
        ("schedule-mermaid", "flowchart"),
        ("layouts", "<svg"),
        ("timeline", "<svg"),
        ("trace", "{\"traceEvents\""),
    ] {
        let output = shardc(&["export", program, "--to", to], b"");
        assert!(output.status.success() && out(&output).starts_with(start), "{to}: {}", err(&output));
        let output = shardc(&["export", schedule, "--to", to], b"");
        let of_plan = ["dot", "mermaid", "layouts"].contains(&to);
        assert_eq!(output.status.code(), Some(if of_plan { 2 } else { 0 }), "{to}: {}", err(&output));
    }
    let large = shardc(&["export", "examples/models/tensor_parallel.shard", "--to", "schedule-mermaid"], b"");
    assert!(err(&large).contains("exceeds Mermaid's limits") && out(&large).len() < 50_000, "{}", err(&large));
    for command in ["plan", "run", "time"] {
        let text = out(&shardc(&[command, program, "--timeline", "--blocks"], b""));
        assert!(text.contains(" product Out, c AllReduce_Y Out\n"), "{command}: {text}");
        assert!(text.contains("Wout[F_Y, D]\n  bf16, 8 blocks"), "{command}: {text}");
    }
    let output = shardc(&["time", schedule, "--timeline"], b"");
    assert!(out(&output).contains("a step 0\n"), "{}", err(&output));
    assert_eq!(shardc(&["time", schedule, "--blocks"], b"").status.code(), Some(2));
}

/// Exported files contain the program's name, but not its folder.
#[test]
fn files_do_not_name_folders_of_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("mlp.shard");
    std::fs::copy("examples/megatron_mlp.shard", &program).expect("a copy");
    let (program, page) = (program.to_str().expect("a path"), folder.path().join("page.html"));
    let titled = |program: &str| {
        let output = shardc(&["report", program, "-o", page.to_str().expect("a path")], b"");
        assert!(output.status.success(), "{}", err(&output));
        std::fs::read_to_string(&page).expect("a page")
    };
    let text = titled(program);
    assert!(text.contains("<title>mlp.shard - shardc</title>") && text.contains("<h1>mlp.shard</h1>"));
    assert!(!text.contains(folder.path().to_str().expect("a path")));
    assert!(titled("examples/megatron_mlp.shard").contains("<title>examples/megatron_mlp.shard - shardc</title>"));
    for to in ["jax", "jax-constraints", "stablehlo", "dot", "layouts", "msccl"] {
        let output = shardc(&["export", program, "--to", to], b"");
        assert!(output.status.success() && !out(&output).contains(folder.path().to_str().expect("a path")), "{to}");
    }
}

/// Completions and the manual contain every command.
#[test]
fn the_command_line_describes_itself() {
    let help = out(&shardc(&["help"], b""));
    let commands: Vec<&str> =
        help.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ")).map(|(name, _)| name).collect();
    assert!(commands.contains(&"export"), "{help}");
    let manual = out(&shardc(&["man"], b""));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = out(&shardc(&["completions", shell], b""));
        let missing: Vec<&&str> = commands.iter().filter(|command| !text.contains(**command)).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
    for command in commands.into_iter().filter(|command| command.starts_with(char::is_lowercase)) {
        assert!(manual.contains(&format!("shardc\\-{command}(1)")), "{command}");
        if command != "help" {
            let page = out(&shardc(&["man", command], b""));
            assert!(page.contains(&format!(".TH shardc-{command} 1")), "{command}: {page}");
        }
    }
    assert_eq!(shardc(&["man", "frobnicate"], b"").status.code(), Some(2));
}

/// A program that moves this number of axes of size 2 from one dim to another.
fn many_axes(count: usize) -> String {
    let axes = &"ABCDEFGHIJKLMNO"[..count];
    let mesh: Vec<String> = axes.chars().map(|axis| format!("{axis}: 2")).collect();
    let size = 1 << count;
    let dims = format!("dims {{S: {size}, T: {size}}}");
    format!("mesh {{{}}} on tpu_v5e\n{dims}\nx: f32[S_{axes}, T]\ny[S, T_{axes}] = x\n", mesh.join(", "))
}

/// A plan is found with little memory. `--max-memory` ends the command above the limit, so commands that succeed
/// respect it.
#[test]
fn plans_are_found_within_little_memory() {
    for count in [6, 8, 10, 12] {
        let output = shardc(&["plan", "-", "--max-memory", "200MB"], many_axes(count).as_bytes());
        assert!(output.status.success(), "{count} axes: {}", err(&output));
        assert!(out(&output).contains("AllToAll"), "{count} axes: {}", out(&output));
    }
    // Schedules too large to prove are refused before they are built.
    let switch = "mesh {X: 1048576} on h100_book\ndims {I: 1048576, J: 64}\nA: bf16[I_X, J]\nB[I, J] = A\n";
    let line = switch.replace("X: 1048576", "X: 1048576 line");
    let lines = "mesh {X: 1024 line, Y: 1024 line} on tpu_v5e\ndims {I: 4096}\nA: bf16[I]{ROOT_XY}\nB[I] = A\n";
    let sum = "mesh {X: 1048576} on h100_book\ndims {I: 1048576, J: 64}\nA: bf16[I, J]{U_X}\nB[I, J] = A\n";
    for source in [switch, &line, lines, sum] {
        let output = shardc(&["time", "-", "--max-memory", "500MB"], source.as_bytes());
        assert_eq!(output.status.code(), Some(1), "{source}");
        assert!(err(&output).contains("proof-too-large"), "{source}: {}", err(&output));
    }
}

/// Without symmetry each simulation follows all devices, so fewer are made. The limit is far above the time that it takes.
#[test]
fn plans_on_large_machines_with_a_failed_link_are_found() {
    let gathers = ["B[I_X, J] = A", "B[I, J] = A"];
    for gather in gathers.into_iter().take(if sets::are_full() { 2 } else { 1 }) {
        let source = format!(
            "mesh {{X: 64, Y: 64}} on tpu_v5p\nlink (3,5)<->(3,6) down\ndims {{I: 65536, J: 8192}}\nA: bf16[I_X, J_Y]\n{gather}\n"
        );
        let output = shardc(&["plan", "-", "--time-limit", "400s"], source.as_bytes());
        assert!(output.status.success(), "{}", err(&output));
        assert!(out(&output).contains("AllGather"), "{}", out(&output));
    }
    // So is a product on a million devices, which needs one collective.
    let source =
        "mesh {X: 1048576} on h100_book\ndims {I: 1048576, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[J, K]\nC = A * B\n";
    let output = shardc(&["plan", "-", "--max-memory", "500MB"], source.as_bytes());
    assert!(output.status.success(), "{}", err(&output));
}

/// An audit fails above a factor of the bytes of the plan.
#[test]
fn an_audit_fails_above_a_factor() {
    let folder = tempfile::tempdir().expect("a folder");
    let [module, program] =
        ["step.hlo", "step.shard"].map(|name| folder.path().join(name).to_str().expect("text").to_owned());
    // XLA gathers an array of 128 numbers.
    let hlo = "HloModule jit_f, num_partitions=8\n\nENTRY %main (p: f32[16]) -> f32[128] {\n  %p = f32[16]{0} parameter(0)\n  \
               %r = f32[128]{0} all-gather(%p), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}\n}\n";
    std::fs::write(&module, hlo).expect("a file");
    // The plan gathers one of 64.
    let source = "mesh {X: 8} on tpu_v5e\ndims {I: 64}\nA: f32[I_X]\nB[I] = A\noutput B\n";
    std::fs::write(&program, source).expect("a file");
    for (most, code) in [("1.9", 1), ("2.1", 0), ("0", 2), ("x", 2), ("-1", 2)] {
        let arguments = ["audit", &module, "--program", &program, &format!("--fail-above={most}")];
        let output = shardc(&arguments, b"");
        assert_eq!(output.status.code(), Some(code), "{most}: {}{}", out(&output), err(&output));
    }
    let output = shardc(&["audit", &module, "--mesh", "X=8", "--fail-above", "2"], b"");
    assert_eq!(output.status.code(), Some(2), "there is no plan to compare with");
}

/// A command that reaches a limit ends with a message, and with a plan if time permits.
#[test]
fn limits_on_time_and_memory_are_told() {
    let source = many_axes(6);
    let none = shardc(&["plan", "-", "--time-limit", "1us"], source.as_bytes());
    assert_eq!((none.status.code(), out(&none).as_str()), (Some(1), ""));
    assert!(err(&none).contains("time-limit"), "{}", err(&none));
    let little = shardc(&["plan", "-", "--max-memory", "1MB"], source.as_bytes());
    assert_eq!(little.status.code(), Some(1));
    assert!(err(&little).contains("memory-limit"), "{}", err(&little));
    for wrong in [["--time-limit", "3"], ["--time-limit", "0s"], ["--max-memory", "10us"], ["--max-memory", "-1GB"]] {
        let output = shardc(&[&["plan", "-"][..], &wrong[..]].concat(), source.as_bytes());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let much = shardc(&["plan", "examples/megatron_mlp.shard", "--time-limit", "600s", "--max-memory", "8GB"], b"");
    let plain = shardc(&["plan", "examples/megatron_mlp.shard"], b"");
    assert_eq!(out(&much), out(&plain));
}

/// A table of measurements becomes a profile that can be used for planning.
#[test]
fn tables_become_profiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    let path = path.to_str().expect("a name");
    let lines = (10..24).flat_map(|power| {
        let bytes = 1u64 << power;
        [format!("AllGather,4,{bytes},{}", 20 + bytes / 10_000), format!("AllToAll,4,{bytes},{}", 30 + bytes / 40_000)]
    });
    let table = format!("collective,devices,bytes,us\n{}\n", lines.collect::<Vec<_>>().join("\n"));
    let fit = ["calibrate", "--table", "-", "--fit", "collectives", "--hardware", "h100_book", "-o", path];
    let made = shardc(&fit, table.as_bytes());
    assert!(made.status.success(), "{}", err(&made));
    let profile = std::fs::read_to_string(path).expect("a profile");
    assert!(profile.starts_with("# AllGather on 4 devices: 14 times, half within "), "{profile}");
    let program = b"mesh {X: 4} on h100\ndims {I: 524288}\nA: bf16[I_X]\nB[I] = A\noutput B\n";
    let document = out(&shardc(&["plan", "-", "--hardware", path, "--format", "json"], program));
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let time = document["steps"][0]["time_s"].as_f64().expect("a time") * 1e6;
    assert!((100.0..150.0).contains(&time), "{time}");
}

/// So does one of exchanges with experts: its law is found.
#[test]
fn tables_of_exchanges_become_profiles() {
    // One expert on each of two devices: 20 us, 1 ns an element, 10 ns a token, 4 ns a copy, 0.1 TB/s.
    let times = |width: u64, tokens: u64, chosen: u64| {
        let copies = if chosen == 1 { tokens } else { 2 * tokens };
        20.0 + 0.001 * width as f64 + 0.01 * tokens as f64 + 0.004 * copies as f64 + 1e-5 * (2 * width * copies) as f64
    };
    let shapes = [64u64, 512, 4096].into_iter().cartesian_product([1u64, 16, 256, 4096]).cartesian_product([1u64, 2]);
    let lines = shapes.map(|((width, tokens), chosen)| {
        let time = times(width, tokens, chosen);
        format!("2,{width},{tokens},{chosen},2,{time},{}\n", 2.0 * time)
    });
    let table = format!("devices,hidden,tokens,topk,experts,dispatch_us,combine_us\n{}", lines.collect::<String>());
    let fit = ["calibrate", "--table", "-", "--fit", "experts", "--hardware", "h100_book"];
    let profile = out(&shardc(&fit, table.as_bytes()));
    assert!(profile.starts_with("# dispatch: 24 times, half within "), "{profile}");
    let fitted = Hardware::from_toml(&profile).expect("a profile").experts.expect("fitted");
    let tokens = Tokens { devices: 2, tokens: 1000, width: 1000, chosen: 2, experts: 2 };
    for (way, wanted) in Way::ALL.into_iter().zip([times(1000, 1000, 2), 2.0 * times(1000, 1000, 2)]) {
        let found = way.predicted(&fitted, tokens);
        assert!((found / wanted - 1.0).abs() < 0.1, "{way:?}: {found} {wanted}");
    }
}

/// So does one of attention, without what is faster than the peak rate.
#[test]
fn tables_of_attention_become_profiles() {
    // 100 units compute tiles of 64 queries with 3 us each and 2 Tflop/s; the kernel starts in 10 us.
    let times = |heads: u64, tokens: u64, width: u64| {
        let tiles = tokens.div_ceil(64);
        let block = (4 * 64 * 64 * width) as f64 / 2e6;
        let waves = (heads * tiles).div_ceil(100) as f64 * (3.0 + block * (tiles + 1) as f64 / 2.0);
        10.0 + waves.max(3.0 + block * tiles as f64)
    };
    let shapes = [1u64, 8, 64].into_iter().cartesian_product([64u64, 512, 4096]).cartesian_product([64u64, 128]);
    let lines = shapes.cartesian_product([1u64, 8]).map(|(((batch, tokens), width), heads)| {
        format!("{batch},{tokens},{heads},{heads},{width},{}\n", times(batch * heads, tokens, width))
    });
    let header = "batch,seq,heads,kv_heads,head_dim,us\n";
    let table = format!("{header}{}64,16384,64,64,128,10\n", lines.collect::<String>());
    let fit = ["calibrate", "--table", "-", "--fit", "attention", "--hardware", "h100_book", "--units", "100"];
    let profile = out(&shardc(&fit, table.as_bytes()));
    assert!(
        profile.starts_with("# without 1 measurement faster than `bf16_flops`\n# 64 tokens and more: "),
        "{profile}"
    );
    let fitted = Hardware::from_toml(&profile).expect("a profile").attention.expect("fitted");
    let line = format!("{header}4,2048,16,16,128,{}\n", times(64, 2048, 128));
    let unseen = table::attention(&line, &[]).expect("a table")[0];
    let found = attention::microseconds(&fitted, &unseen);
    assert!((found / unseen.microseconds - 1.0).abs() < 0.1, "{found} {}", unseen.microseconds);
    let all_too_fast = shardc(&fit, format!("{header}64,16384,64,64,128,10\n").as_bytes());
    assert_eq!(all_too_fast.status.code(), Some(2));
    assert!(err(&all_too_fast).contains("fewer than two measurements"), "{}", err(&all_too_fast));
}

/// A table that is not one, or not of what is fitted.
#[test]
fn wrong_tables_are_refused() {
    let collectives = "collective,devices,bytes,us\nAllGather,4,1024,20\n";
    let experts = "devices,hidden,tokens,topk,experts,dispatch_us,combine_us\n2,64,1,1,2,20,20\n";
    let attention = "batch,seq,heads,kv_heads,head_dim,us\n1,64,8,8,128,20\n";
    for (table, wrong, told) in [
        (collectives, &["calibrate"][..], "required"),
        (collectives, &["calibrate", "--table", "-"], "--fit"),
        (collectives, &["calibrate", "--table", "-", "--fit", "products"], "missing column `m`"),
        (collectives, &["calibrate", "--table", "-", "--fit", "collectives", "--network", "dcn"], "network"),
        (
            collectives,
            &["calibrate", "--table", "-", "--fit", "collectives", "--only", "devices=3"],
            "no line has devices=3",
        ),
        (experts, &["calibrate", "--table", "-", "--fit", "collectives"], "missing column `collective` or `kind`"),
        (experts, &["calibrate", "--table", "-", "--fit", "experts", "--only", "topk=3"], "no line has topk=3"),
        (attention, &["calibrate", "--table", "-", "--fit", "attention"], "--units 132"),
        (experts, &["calibrate", "--table", "-", "--fit", "attention", "--units", "8"], "missing column `batch`"),
    ] {
        let refused = shardc(wrong, table.as_bytes());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(err(&refused).contains(told), "{wrong:?}: {}", err(&refused));
    }
}

/// Colors are printed on request.
#[test]
fn colours_can_be_asked_for() {
    let program = b"mesh {X: 2}\ndims {I: 4}\nA: bf16[I_X]\nB[I] = Q\n";
    let told = |color: &[&str]| err(&shardc(&[color, &["check", "-"]].concat(), program));
    assert!(told(&["--color", "always"]).contains('\u{1b}'));
    for plain in [&[][..], &["--color", "auto"], &["--color", "never", "--no-progress"]] {
        assert!(!told(plain).contains('\u{1b}'), "{plain:?}");
    }
    let plan = b"mesh {X: 2}\ndims {I: 4}\nA: bf16[I_X]\nB[I] = A\noutput B\n";
    assert!(out(&shardc(&["plan", "-", "--blocks", "--color", "always"], plan)).contains('\u{1b}'));
}

/// Tables have the requested width, or that of the terminal. Figures are not truncated, and equal layers are folded.
#[test]
fn tables_fit_the_terminal() {
    let experts = "examples/models/moe_mixtral.shard";
    let table =
        |text: &str| text.split("\n\n").nth(1).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    let widest = |lines: &[String]| lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let whole = table(&out(&shardc(&["plan", experts], b"")));
    assert!(widest(&whole) > 110, "{whole:?}");
    for width in [60, 80, 100] {
        let text = out(&shardc(&["plan", experts, "--width", &width.to_string()], b""));
        let lines = table(&text);
        assert!(widest(&lines) <= width && lines.len() > whole.len(), "{width}: {text}");
        assert!(lines.iter().any(|line| line.contains("29.4 MB") && line.contains("372.8 us")), "{text}");
    }
    assert_eq!(table(&out(&shardc(&["plan", experts, "--width", "1000"], b""))), whole);
    // So does everything else, without losing a word.
    for command in [&["plan", experts, "--alternatives"][..], &["time", experts], &["plan", experts, "--why", "h"]] {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let text = out(&shardc(&[command, &["--width", "80"]].concat(), b""));
        assert!(text.lines().all(|line| line.chars().count() <= 80 || !line.trim().contains(' ')), "{text}");
        let below = |text: &str| {
            words(text.split_once("\n\n").and_then(|(_, rest)| rest.split_once("\n\n")).map_or("", |rest| rest.1))
        };
        assert_eq!(below(&text), below(&out(&shardc(command, b""))), "{text}");
    }
    if there("script", "--version") {
        let command = format!("stty cols 72 rows 24; {} plan {experts}", env!("CARGO_BIN_EXE_shardc"));
        let text = fed(Command::new("script").args(["-qec", &command, "/dev/null"]), b"");
        let lines = table(&out(&text).replace('\r', ""));
        assert!(widest(&lines) <= 72 && widest(&lines) > 60, "{}", out(&text));
    }
    let mut layers = String::from("mesh {X: 4} on tpu_v5e\ndims {B: 64, D: 64, F: 256}\nx0: bf16[B_X, D]\n");
    for layer in 0..12 {
        layers += &format!("Win{layer}: bf16[D_X, F]\nWout{layer}: bf16[F, D_X]\nh{layer} = x{layer} * Win{layer}\n");
        layers += &format!("x{}[B_X, D] = relu(h{layer}) * Wout{layer}\n", layer + 1);
    }
    layers += "output x12\n";
    let steps = |arguments: &[&str]| {
        table(&out(&shardc(&[&["plan", "-", "--overlap", "none"], arguments].concat(), layers.as_bytes())))
    };
    let (written, folded) = (steps(&[]), steps(&["--width", "200"]));
    assert!(written.iter().all(|line| !line.contains("times more")) && written.len() > 36, "{written:?}");
    assert!(folded.len() <= 16 && folded.iter().any(|line| line.contains("times more, to x")), "{folded:?}");
}

/// `--latency` equals a profile with that latency and without message overhead.
#[test]
fn latency_may_be_left_out() {
    let profile = out(&shardc(&["hardware", "h100_book"], b""));
    let replaced: Vec<String> = profile
        .lines()
        .map(|line| match line.split_once(" = ") {
            Some((key @ ("hop_latency" | "message_overhead"), _)) => {
                format!("{key} = \"{}\"", if key == "hop_latency" { "250 ns" } else { "0 ns" })
            }
            _ => line.to_owned(),
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.toml");
    std::fs::write(&path, replaced.join("\n")).expect("it is written");
    let program = b"mesh {D: 2 over ib, X: 4} on h100_book\ndims {I: 4096, J: 512}\nA: bf16[I_DX, J]\nC[I, J] = A\n";
    let told = |arguments: &[&str]| {
        let text = out(&shardc(&[&["time", "-"][..], arguments].concat(), program));
        text.lines().skip(1).map(str::to_owned).collect::<Vec<String>>()
    };
    let other = told(&["--hardware", path.to_str().expect("a name")]);
    assert_eq!(told(&["--latency", "250ns"]), other);
    assert!(!other.is_empty() && told(&[]) != other && told(&["--latency", "0"]) != other);
    let refused = shardc(&["time", "-", "--latency", "fast"], program);
    assert_eq!(refused.status.code(), Some(2));
}

/// An unknown name or option is reported with the one that was probably meant.
#[test]
fn the_nearest_name_is_offered() {
    let file = "examples/megatron_mlp.shard";
    for (arguments, tip) in [
        (&["plan", file, "--hardware", "tpu_v5"][..], "did you mean `tpu_v5p` or `tpu_v5e`?"),
        (&["plan", file, "--hardware", "h10"], "did you mean `h100`"),
        (&["sweep", file, "--hardware", "tpu_v5f"], "did you mean `tpu_v5"),
        (&["hardware", "l40"], "did you mean `l40s`?"),
        (&["man", "plna"], "did you mean `plan`?"),
        (&["plna", file], "'plan'"),
        (&["plan", file, "--set", "BB=4"], "did you mean `B`?"),
        (&["plan", file, "--set", "YY=4"], "did you mean `Y`?"),
        (&["sweep", file, "--set", "FF=4,8"], "did you mean `F`?"),
        (&["show", file, "Wuot"], "did you mean `Wout`?"),
        (&["plan", file, "--why", "Oout"], "did you mean `Out`?"),
        (&["run", file, "--input", "Inn=a.npy"], "did you mean `In`?"),
        (&["run", file, "--save", "Ouut=a.npy"], "did you mean `Out`?"),
        (&["explain", "axis-resued"], "did you mean `axis-reused`?"),
        (&["plan", file, "--json"], "tip: write `--format json`"),
        (&["check", file, "--json"], "tip: write `--format json`"),
        (&["sweep", file, "--csv"], "tip: write `--format csv`"),
        (&["plan", file, "--book"], "tip: write `--costs book`"),
        (&["export", file, "--mermaid"], "tip: write `--to mermaid`"),
        (&["plan", file, "--never"], "tip: write `--color never`"),
        (&["plan", file, "--alternative"], "a similar argument exists: '--alternatives'"),
    ] {
        let output = shardc(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(tip), "{arguments:?}: {}", err(&output));
    }
}

/// The manual page of each command lists the exit statuses, in the words of `docs/commands.md`.
#[test]
fn manual_pages_have_exit_statuses() {
    let page = std::fs::read_to_string("docs/commands.md").expect("the page");
    let (_, table) = page.split_once("## Exit status").expect("a table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows: Vec<(&str, String)> = rows
        .filter(|(status, _)| status.parse::<u8>().is_ok())
        .map(|(status, meaning)| (status, meaning.trim_end_matches(" |").replace('`', "")))
        .collect();
    assert_eq!(rows.len(), 4);
    for command in [None, Some("plan"), Some("sweep"), Some("man")] {
        let arguments: Vec<&str> = ["man"].into_iter().chain(command).collect();
        let manual = out(&shardc(&arguments, b""));
        let (_, statuses) = manual.split_once(".SH \"EXIT STATUS\"\n").expect("a section");
        let listed: Vec<(&str, &str)> =
            statuses.split(".TP\n").filter_map(|entry| entry.trim_end().split_once('\n')).collect();
        let expected = rows.iter().filter(|(status, _)| match command {
            Some("plan") => *status != "130",
            Some("man") => ["0", "2"].contains(status),
            _ => true,
        });
        let expected: Vec<(&str, &str)> = expected.map(|(status, meaning)| (*status, meaning.as_str())).collect();
        assert_eq!(listed, expected, "{command:?}");
    }
}

/// A mesh may name any profile if a file has it.
#[test]
fn a_profile_from_a_file_has_any_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("three.toml");
    let path = path.to_str().expect("a name");
    let profile = out(&shardc(&["hardware", "tpu_v5e"], b"")).replace("name = \"tpu_v5e\"", "name = \"three\"");
    std::fs::write(path, profile).expect("it is written");
    let program = b"mesh {X: 4 ring, Y: 2} on three\ndims {I: 4096, J: 512}\nA: bf16[I_X, J]\nC[I, J] = A\n";
    for command in ["plan", "run", "time"] {
        let output = shardc(&[command, "-", "--hardware", path], program);
        assert!(output.status.success(), "{command}: {}{}", out(&output), err(&output));
    }
    let with_file = out(&shardc(&["time", "-", "--hardware", path], program));
    assert!(with_file.contains("8 devices on three"), "{with_file}");
    let shipped = String::from_utf8(program.to_vec()).expect("text").replace("three", "tpu_v5e");
    let shipped = out(&shardc(&["time", "-"], shipped.as_bytes()));
    assert_eq!(with_file.replace("three", "tpu_v5e"), shipped);
    let without = shardc(&["time", "-"], program);
    assert!(without.status.code() == Some(1) && err(&without).contains("three"), "{}", err(&without));
}

/// Thread blocks have at most `--max-steps` steps, by default 64 for Azure's executor and RCCL. Longer ones continue on other
/// channels; where there are none left, the export is refused with the limit.
#[test]
fn exported_thread_blocks_have_a_limit() {
    let program = |n: u32, kind: &str| {
        let (from, to) = match kind {
            "AllToAll" => ("[I_X, J]", "[I, J_X]"),
            _ => ("[I, J]{U_X}", "[I, J]"),
        };
        format!("mesh {{X: {n} ring}} on tpu_v5e\ndims {{I: {n}, J: {n}}}\nA: f32{from}\nB{to} = A using METHOD\n")
    };
    let exported = |n: u32, kind: &str, method: &str, options: &[&str]| {
        let source = program(n, kind).replace("METHOD", method);
        shardc(&[&["export", "-", "--to", "msccl"][..], options].concat(), source.as_bytes())
    };
    let longest = |text: &str| text.split("<tb ").map(|block| block.matches("<step ").count()).max().unwrap_or(0);
    let cases: [(u32, &str, &str, &[&str], usize); 5] = [
        (48, "AllToAll", "bundled", &[], 256),
        (48, "AllToAll", "bundled", &["--dialect", "azure"], 64),
        (48, "AllToAll", "direct_halves", &["--dialect", "azure"], 64),
        (16, "AllReduce", "clockwise_ring", &["--max-steps", "8"], 8),
        (16, "AllReduce", "clockwise_ring", &["--dialect", "azure", "--max-steps", "20"], 20),
    ];
    for (n, kind, method, options, most) in cases {
        let output = exported(n, kind, method, options);
        let (text, error) = (out(&output), err(&output));
        match output.status.code() {
            Some(0) => assert!((1..=most).contains(&longest(&text)), "{kind} by {method}: {}", longest(&text)),
            code => assert!(
                code == Some(1) && text.is_empty() && error.contains("not-exported") && error.contains("limit"),
                "{kind} by {method}: {error}"
            ),
        }
    }
    // No number of channels makes up for a single step.
    let output = exported(48, "AllToAll", "bundled", &["--max-steps", "1"]);
    assert!(output.status.code() == Some(1) && err(&output).contains("limit"), "{}", err(&output));
}

/// A plan that was chosen for its time with overlap says where its alternatives are.
#[test]
fn plans_without_alternatives_say_why() {
    let file = "examples/models/multi_query_decode.shard";
    for arguments in [&["plan", file, "--alternatives"][..], &["plan", file, "--why", "scores"]] {
        let said = out(&shardc(arguments, b""));
        assert!(said.contains("alternatives are ranked by their time in sequence: `--overlap none`"), "{said}");
    }
    let said = out(&shardc(&["plan", file, "--why", "scores", "--overlap", "none"], b""));
    assert!(said.contains("chosen") && !said.contains("are ranked"), "{said}");
}
