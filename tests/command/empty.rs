//! Programs with little to say: nothing to communicate or to compute, one device, only inputs, scalars, and values without
//! names. No command prints an empty table, a total of nothing, a plural of one, or an empty name.

use crate::common::process::{shardc, text};
use std::path::Path;

/// Programs by name, with a text that `run` prints of each.
const PROGRAMS: [(&str, &str, &str); 12] = [
    (
        "local",
        "mesh {X: 4} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[J, K]\nC[I_X, K] = A * B\n",
        "simulated, 1.00x the lower bound",
    ),
    (
        "one_device",
        "mesh {X: 1} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[J, K]\nC = relu(A * B) + 1\n",
        "1 device on tpu_v5e\n",
    ),
    ("input", "mesh {X: 4} on tpu_v5e\ndims {I: 64}\nA: bf16[I_X]\noutput A\n", "no steps: nothing is computed"),
    (
        "alias",
        "mesh {X: 4} on tpu_v5e\ndims {I: 64}\nA: bf16[I_X]\nB = A\noutput B\n",
        "time     none: no step takes time",
    ),
    (
        "free_input",
        "mesh {X: 4} on tpu_v5e\ndims {I: 64}\nA: bf16[I_?]\noutput A\n",
        "proven   1 operation on 4 devices",
    ),
    (
        "gather_of_one",
        "mesh {X: 1, Y: 1} on h100\ndims {I: 64}\nA: bf16[I_XY]\nA -> B[I]\noutput B\n",
        "1 device on h100\n",
    ),
    ("idle_axis", "mesh {X: 1, Y: 2} on h100\ndims {I: 64}\nA: bf16[I_Y]\nA -> B[I]\noutput B\n", ", X has size 1\n"),
    ("scalars", "mesh {X: 4} on tpu_v5e\na: f32[]\nb: f32[]\nc[] = a * b\n", "equal    the element equals"),
    ("sum", "mesh {X: 4} on tpu_v5e\ndims {I: 64}\nA: f32[I_X]\ns[] = sum_I(A)\n", " sum_I "),
    ("slice", "mesh {X: 4} on tpu_v5e\ndims {I: 64}\nA: f32[I]\nB[I_X] = A\noutput B\n", "no step takes time"),
    (
        "unnamed",
        "mesh {X: 4} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[J_X, K]\nC: bf16[K, J]\n\
         y[I, J] = relu(A * B + 1) * C\n",
        "line 6[I, K] -> line 6[I, K]",
    ),
    (
        "deep",
        "mesh {X: 4} on tpu_v5e\ndims {I: 64, J: 64, K: 64}\nA: bf16[I_X, J]\nB: bf16[J_X, K]\n\n\
         y[I, K] = (relu(A * B + 1) + 2) * 3\n",
        "line 6[I, K]",
    ),
];

/// Texts that say nothing, or say it oddly.
const ODD: [&str; 22] = [
    "1 devices",
    "1 operations",
    "1 meshes",
    "1 messages",
    "1 steps",
    "1 elements",
    " 0 ps",
    "0 B of",
    "``",
    "(..",
    "..)",
    "total 0 s",
    "communication 0 s",
    "compute 0 s",
    "bound 0 s",
    "NaN",
    "inf",
    "-0.",
    "in 0 messages",
    "sends up to 0 B",
    "chosen layout ``",
    "products are ``",
];

/// Whether a text occurs, and not as the end of a larger number: `1 devices` in `21 devices`.
fn says(printed: &str, odd: &str) -> bool {
    printed.match_indices(odd).any(|(at, _)| !printed[..at].ends_with(|c: char| c.is_ascii_digit()))
}

/// A header of the table of steps without rows.
fn has_empty_table(printed: &str) -> bool {
    let lines: Vec<&str> = printed.lines().collect();
    let is_head = |line: &str| line.trim_start().starts_with("step ") && line.contains("bound by");
    lines.iter().zip(lines.iter().skip(1).chain(&[""])).any(|(line, next)| is_head(line) && next.trim().is_empty())
}

fn run(folder: &Path, line: &str) -> String {
    let output = shardc(folder, &line.split(' ').collect::<Vec<_>>()).output().expect("it runs");
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{line}\n{printed}");
    printed
}

#[test]
fn nothing_odd_is_printed_about_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    for (name, source, said) in PROGRAMS {
        let file = format!("{name}.shard");
        std::fs::write(here.join(&file), source).expect("a file");
        let ran = run(here, &format!("run {file}"));
        assert!(ran.contains(said), "{name}: {ran}");
        let commands = [
            "check FILE",
            "plan FILE",
            "plan FILE --moves",
            "plan FILE --alternatives",
            "plan FILE --methods",
            "plan FILE --costs book",
            "plan FILE --costs bytes",
            "plan FILE --timeline",
            "run FILE",
            "run FILE --timeline",
            "time FILE",
            "time FILE --order arrival",
            "show FILE",
            "sweep FILE --set X=1,2",
            "tune FILE --devices 1,4",
            "diff FILE FILE",
            "snapshot FILE",
            "report FILE -o page.html",
            "compile FILE --emit program",
        ];
        for command in commands.map(|command| command.replace("FILE", &file)) {
            if name == "idle_axis" && command.starts_with("tune") {
                continue;
            }
            let mut printed = run(here, &command);
            if command.starts_with("snapshot") {
                let snapshot = std::fs::read_to_string(here.join(format!("{file}.snapshot"))).expect("a snapshot");
                printed.push_str(snapshot.split("\n\n").next().expect("a head"));
                assert!(!snapshot.contains("line 6"), "lines of the source are not in a snapshot: {snapshot}");
            }
            for odd in ODD {
                assert!(!says(&printed, odd), "{command}: `{odd}`\n{printed}");
            }
            assert!(!has_empty_table(&printed), "{command}\n{printed}");
        }
        let page = std::fs::read_to_string(here.join("page.html")).expect("a page");
        let (_, data) = page.split_once("id=\"data\">").expect("its data");
        let data = data.split("</script>").next().expect("its end");
        for odd in ODD.iter().filter(|odd| !["inf", "``", "-0."].contains(odd)) {
            assert!(!says(data, odd), "{name}: page: `{odd}`");
        }
    }
}

/// A program without a result is an error that says what to write.
#[test]
fn declarations_alone_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for source in ["mesh {X: 4} on tpu_v5e\ndims {I: 64}\n", "mesh {X: 4} on tpu_v5e\ndims {I: 64}\nA: bf16[I_X]\n"] {
        std::fs::write(folder.path().join("a.shard"), source).expect("a file");
        for command in ["check", "plan", "run", "time", "show", "compile", "snapshot"] {
            let output = shardc(folder.path(), &[command, "a.shard"]).output().expect("it runs");
            let printed = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{command}: {printed}");
            assert!(printed.contains("no-result") && printed.contains("output A"), "{command}: {printed}");
        }
    }
}

/// Below the totals, a plan has at most three lines of advice; `--alternatives` lists all of it.
#[test]
fn plans_have_three_lines_of_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "mesh {X: 4 ring} on tpu_v5p\ndims {I: 1024, J: 1024, K: 1024, L: 64, M: 1024, N: 1024}\n\
                  A: bf16[I_?, J_?]\nB: bf16[J_?, K_?]\nC: bf16[K_?, L_?]\nD: bf16[L_?, M_?]\nE: bf16[M_X, N]\n\
                  T = A * B * C\nU = T * D\ny[I, N] = U * E by gather(E)\n";
    std::fs::write(folder.path().join("a.shard"), source).expect("a file");
    let advice = |line: &str| {
        let printed = run(folder.path(), line);
        let (_, below) = printed.split_once("per device:").expect("totals");
        below.split_once("\n\n").map(|(_, advice)| advice.lines().count()).unwrap_or_default()
    };
    let printed = run(folder.path(), "plan a.shard");
    assert!(advice("plan a.shard") <= 3, "{printed}");
    assert!(
        printed.contains("chosen input layouts: `A[") && printed.contains("`y` is pinned by gather(E)"),
        "{printed}"
    );
    assert!(advice("plan a.shard -q") <= 3);
    let all = run(folder.path(), "plan a.shard --alternatives");
    assert_eq!(all.matches(": chosen layout `").count(), 4, "{all}");
}
