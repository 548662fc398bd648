//! Compares plans with measurements: `tests/measured`, from the package aiconfigurator-core 0.12.0 (NVIDIA
//! Corporation, Apache-2.0). Collectives are programs of one statement that are planned, proven and timed; products,
//! attention and exchanges with experts are single kernels.
//!
//! `SHARDC_MACHINES=write cargo test --test clock measured -- --test-threads 1` writes the tables of `docs/machines.md`.

use itertools::Itertools;
use shardc::collective::CollectiveKind;
use shardc::compiler::{self, Options};
use shardc::fit::experts::Way;
use shardc::fit::products::Peaks;
use shardc::fit::table::{self, Attended, Collective, Dispatched};
use shardc::fit::{self, Errors};
use shardc::program::Definition;
use shardc::sim::clock;
use shardc::topology::{Hardware, Heads};
use shardc::units::TimeScale;
use std::collections::BTreeMap;

/// Profiles, and their names in the tables.
const MACHINES: [(&str, &str); 9] = [
    ("a100", "a100_sxm"),
    ("h100", "h100_sxm"),
    ("h200", "h200_sxm"),
    ("b200", "b200_sxm"),
    ("b300", "b300_sxm"),
    ("gb200", "gb200"),
    ("gb300", "gb300"),
    ("l40s", "l40s"),
    ("rtx_pro_6000", "rtx_pro_6000_server"),
];

const KINDS: [CollectiveKind; 4] =
    [CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllReduce, CollectiveKind::AllToAll];

const COLLECTIVES: &str = include_str!("../measured/collectives.csv");
const PRODUCTS: &str = include_str!("../measured/products.csv");
const ATTENTION: &str = include_str!("../measured/attention.csv");
const EXPERTS: &str = include_str!("../measured/experts.csv");

fn only(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(column, value)| ((*column).to_owned(), (*value).to_owned())).collect()
}

/// The measurements of a system, with the dtype of each.
fn collectives(system: &str) -> Vec<(&'static str, Collective)> {
    let of = |dtype| table::collectives(COLLECTIVES, &only(&[("system", system), ("dtype", dtype)])).expect("a table");
    let named = |(theirs, ours): (&'static str, &'static str)| of(theirs).into_iter().map(move |row| (ours, row));
    [("f16", "f16"), ("i8", "i8")].into_iter().flat_map(named).collect()
}

/// Predicted time of a collective in microseconds.
fn planned(machine: &str, dtype: &str, row: &Collective) -> f64 {
    let n = u64::from(row.devices);
    let elements = row.bytes / if dtype == "i8" { 1 } else { 2 };
    let source = match row.kind {
        CollectiveKind::AllGather => format!("dims {{I: {elements}}}\nA: {dtype}[I_X]\nAllGather_X(A[I_X]) -> B[I]"),
        CollectiveKind::ReduceScatter => {
            format!("dims {{I: {elements}}}\nA: {dtype}[I]{{U_X}}\nReduceScatter_{{X,I}}(A[I]{{U_X}}) -> B[I_X]")
        }
        CollectiveKind::AllReduce => {
            format!("dims {{I: {elements}}}\nA: {dtype}[I]{{U_X}}\nAllReduce_X(A[I]{{U_X}}) -> B[I]")
        }
        _ => format!(
            "dims {{I: {n}, J: {}}}\nA: {dtype}[I_X, J]\nAllToAll_{{X,J}}(A[I_X, J]) -> B[I, J_X]",
            elements / n
        ),
    };
    let source = format!("mesh {{X: {n}}} on {machine}\n{source}\noutput B\n");
    let (program, found) = compiler::check(&source);
    let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let compiled =
        compiler::compile(&program, &Options::default()).unwrap_or_else(|found| panic!("{found:?}\n{source}"));
    let timing = clock::run(&compiled.schedule, &compiled.topology).expect("it was timed before");
    assert_eq!(timing.makespan, compiled.plan.totals().time(), "{source}");
    compiled.topology.scale.seconds(timing.makespan) * 1e6
}

/// Share of pairs whose order is predicted correctly. Times within 1 % count as equal.
fn in_order(times: &[(f64, f64)]) -> f64 {
    let pairs = times.iter().array_combinations().filter(|[(_, one), (_, other)]| (one / other).ln().abs() > 0.01);
    let (mut right, mut all) = (0u64, 0u64);
    for [(said, is), (other_said, other_is)] in pairs {
        all += 1;
        right += u64::from((said < other_said) == (is < other_is));
    }
    right as f64 / all.max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Median, 90th percentile and maximum of the errors.
fn shown(errors: &Errors) -> String {
    format!("{} / {} / {}", percent(errors.percentile(50)), percent(errors.percentile(90)), percent(errors.worst()))
}

/// Checks that the document has this table between the markers of this name, or writes it if requested.
fn holds(name: &str, table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/machines.md");
    let text = std::fs::read_to_string(path).expect("docs/machines.md");
    let (begin, end) = (format!("<!-- {name} -->\n\n"), "\n<!-- end -->");
    let from = text.find(&begin).unwrap_or_else(|| panic!("docs/machines.md has no {begin}")) + begin.len();
    let to = from + text[from..].find(end).expect("an end");
    if std::env::var_os("SHARDC_MACHINES").is_some_and(|value| value == "write") {
        std::fs::write(path, [&text[..from], table, &text[to..]].concat()).expect("it is written");
    } else {
        assert_eq!(
            &text[from..to],
            table,
            "run `SHARDC_MACHINES=write cargo test --test clock measured -- --test-threads 1`"
        );
    }
}

#[test]
fn plans_of_collectives_take_what_was_measured() {
    let mut table = "| machine | AllGather | ReduceScatter | AllReduce | AllToAll | in order |\n\
        | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let mut all = Vec::new();
    for (machine, system) in MACHINES {
        let mut errors: BTreeMap<CollectiveKind, Vec<f64>> = BTreeMap::new();
        let mut times = Vec::new();
        for (dtype, row) in collectives(system) {
            let said = planned(machine, dtype, &row);
            times.push((said, row.microseconds));
            errors.entry(row.kind).or_default().push((said / row.microseconds - 1.0).abs());
        }
        all.extend(errors.values().flatten().copied());
        let of = |kind: CollectiveKind| shown(&Errors::new(errors[&kind].clone()));
        let cells = KINDS.into_iter().map(of).chain([percent(in_order(&times))]).join(" | ");
        table += &format!("| `{machine}` | {cells} |\n");
    }
    let all = Errors::new(all);
    table += &format!("\nOf all {}: {}.\n", all.count(), shown(&all));
    holds("collectives", &table);
    let readme = include_str!("../../README.md").split_whitespace().join(" ");
    let errors = [50, 90].map(|percentile| percent(all.percentile(percentile)));
    let errors = format!("the median error is {} and the 90th percentile {}", errors[0], errors[1]);
    assert!(readme.contains(&errors), "the README does not say `{errors}`");
    assert!(all.percentile(50) <= 0.05 && all.percentile(90) <= 0.15, "{}", shown(&all));
}

/// The constants of a profile are those fitted to its measurements, or fit them as well.
#[test]
fn profiles_have_constants_that_fit() {
    for (machine, system) in MACHINES {
        let rows: Vec<Collective> = collectives(system).into_iter().map(|(_, row)| row).collect();
        let fresh = Errors::of_all(fit::collectives::fit(&rows).errors.values());
        let hardware = Hardware::named(machine).expect("shipped");
        let shipped = Errors::of_all(fit::collectives::errors_of(&rows, &hardware.network.measured).values());
        let worse = shipped.percentile(50) - fresh.percentile(50);
        assert!(worse < 0.01, "{machine}: {} where {} is possible", shown(&shipped), shown(&fresh));
    }
}

#[test]
fn products_take_what_was_measured() {
    let mut table = "| machine | up to 16 rows | up to 128 rows | up to 1,024 rows | more | in order |\n\
        | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let mut all = Vec::new();
    for (machine, system) in MACHINES {
        let rows = table::products(PRODUCTS, &only(&[("system", system)])).expect("a table");
        let products = Hardware::named(machine).and_then(|hardware| hardware.products.bf16).expect("measured");
        let scale = TimeScale::for_rates([]).expect("picoseconds");
        let said: Vec<(f64, f64)> =
            rows.iter().map(|row| (fit::products::microseconds(&products, scale, row), row.microseconds)).collect();
        let between = |least: u64, most: u64| {
            let of = rows.iter().zip(&said).filter(|(row, _)| (least..=most).contains(&row.m));
            shown(&Errors::new(of.map(|(_, (said, is))| (said / is - 1.0).abs())))
        };
        let cells = [(1, 16), (17, 128), (129, 1024), (1025, u64::MAX)].map(|(least, most)| between(least, most));
        // A sample of the pairs of three thousand measurements is sufficient.
        let few: Vec<(f64, f64)> = said.iter().step_by(7).copied().collect();
        table += &format!("| `{machine}` | {} | {} |\n", cells.iter().join(" | "), percent(in_order(&few)));
        all.extend(said.iter().map(|(said, is)| (said / is - 1.0).abs()));
    }
    let all = Errors::new(all);
    table += &format!("\nOf all {}: {}.\n", all.count(), shown(&all));
    holds("products", &table);
}

/// The measured attention of a system, without what is faster than its peak rate.
fn attention(machine: &str, system: &str) -> (Vec<Attended>, Peaks) {
    let rows = table::attention(ATTENTION, &only(&[("system", system)])).expect("a table");
    let hardware = Hardware::named(machine).expect("shipped");
    let units = hardware.attention.as_ref().expect("measured").units;
    let peaks = Peaks { flops: hardware.bf16_flops, memory: hardware.hbm_bandwidth, units };
    (rows.into_iter().filter(|row| fit::attention::is_possible(row, peaks)).collect(), peaks)
}

#[test]
fn attention_takes_what_was_measured() {
    let mut table = "| machine | up to 128 tokens | up to 1,024 tokens | more | in order |\n\
        | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let mut all = Vec::new();
    for (machine, system) in MACHINES {
        let (rows, _) = attention(machine, system);
        let figures = Hardware::named(machine).and_then(|hardware| hardware.attention).expect("measured");
        let said: Vec<(f64, f64)> =
            rows.iter().map(|row| (fit::attention::microseconds(&figures, row), row.microseconds)).collect();
        let between = |least: u64, most: u64| {
            let of = rows.iter().zip(&said).filter(|(row, _)| (least..=most).contains(&row.heads.queries));
            shown(&Errors::new(of.map(|(_, (said, is))| (said / is - 1.0).abs())))
        };
        let cells = [(1, 128), (129, 1024), (1025, u64::MAX)].map(|(least, most)| between(least, most));
        table += &format!("| `{machine}` | {} | {} |\n", cells.iter().join(" | "), percent(in_order(&said)));
        all.extend(said.iter().map(|(said, is)| (said / is - 1.0).abs()));
    }
    let all = Errors::new(all);
    table += &format!("\nOf all {}: {}.\n", all.count(), shown(&all));
    holds("attention", &table);
    assert!(all.percentile(50) <= 0.06, "{}", shown(&all));
}

/// As for messages: the constants of a profile fit its measurements, and constants without every fifth predict these.
#[test]
fn profiles_have_constants_that_fit_attention() {
    for (machine, system) in MACHINES {
        let (rows, peaks) = attention(machine, system);
        let fit = fit::attention::fit(&rows, peaks).expect("rows");
        let figures = Hardware::named(machine).and_then(|hardware| hardware.attention).expect("measured");
        let shipped = Errors::of_all(fit::attention::errors(&rows, &figures).values());
        let [fresh, left_out] = [fit.errors, fit.left_out].map(|errors| Errors::of_all(errors.values()));
        let worse = shipped.percentile(50) - fresh.percentile(50);
        assert!(worse < 0.01, "{machine}: {} where {} is possible", shown(&shipped), shown(&fresh));
        assert!(left_out.percentile(50) <= 0.11, "{machine}: {}", shown(&left_out));
    }
}

/// A declared kernel of attention takes the time of the kernel that was measured, with its share of the heads.
#[test]
fn plans_of_attention_take_the_time_of_its_kernel() {
    for (machine, devices) in [("h100", 1), ("b200", 1), ("a100", 4)] {
        for (batch, tokens, heads, groups, width) in [(2, 64, 8, 8, 128), (1, 2048, 32, 4, 128), (4, 1024, 16, 8, 256)]
        {
            let each = heads / groups;
            let source = format!(
                "mesh {{X: {devices}}} on {machine}\n\
                 dims {{B: {batch}, S: {tokens}, T: {tokens}, K: {groups}, G: {each}, H: {width}}}\n\
                 kernel attend(q[B, S, K, G, H], k[B, T, K, H], v[B, T, K, H]) -> [B, S, K, G, H],\n    \
                 shard B, K, G, flops 2*B*K*G*S*T*H,\n    \
                 reference softmax_T(0.5 * (q *_H k)) *_T v\n\
                 q: bf16[B, S, K_X, G, H]\nk: bf16[B, T, K_X, H]\nv: bf16[B, T, K_X, H]\n\
                 o[B, S, K_X, G, H] = attend(q, k, v)\noutput o\n"
            );
            let table = format!(
                "batch,seq,heads,kv_heads,head_dim,us\n{batch},{tokens},{},{},{width},1\n",
                heads / devices,
                groups / devices
            );
            let row = table::attention(&table, &[]).expect("a table")[0];
            let figures = Hardware::named(machine).and_then(|hardware| hardware.attention).expect("measured");
            let expected = fit::attention::microseconds(&figures, &row);
            let (program, found) = compiler::check(&source);
            let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
            let compiled = compiler::compile(&program, &Options::default()).expect("a plan");
            let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
            assert_eq!(timing.makespan, compiled.plan.totals().time(), "{source}");
            let planned = compiled.topology.scale.seconds(timing.makespan) * 1e6;
            assert!((planned / expected - 1.0).abs() < 1e-6, "{planned} us, measured kernel {expected} us\n{source}");
        }
    }
}

/// Few queries of many keys, as in decoding, and other dtypes were not measured: their kernels run at the peak rates.
#[test]
fn decoding_takes_no_measured_time() {
    let time = |queries: u64, dtype: &str| {
        let source = format!(
            "mesh {{X: 1}} on h100\ndims {{S: {queries}, T: 8192, N: 8, H: 128}}\n\
             kernel attend(q[S, N, H], k[T, N, H], v[T, N, H]) -> [S, N, H],\n    \
             shard N, flops 4*N*S*T*H, reference softmax_T(q *_H k) *_T v\n\
             q: {dtype}[S, N, H]\nk: {dtype}[T, N, H]\nv: {dtype}[T, N, H]\no = attend(q, k, v)\noutput o\n"
        );
        let program = compiler::check(&source).0.expect("a program");
        let plan = compiler::compile(&program, &Options::default()).expect("a plan");
        plan.topology.scale.seconds(plan.plan.totals().time()) * 1e6
    };
    // 33.6 MB at 3.35 TB/s, and the start of a kernel.
    assert!((time(1, "bf16") - 12.53).abs() < 0.1, "{}", time(1, "bf16"));
    assert!(time(32, "bf16") > 80.0, "{}", time(32, "bf16"));
    assert!(time(32, "f32") < 30.0, "{}", time(32, "f32"));
}

/// What a kernel computes is found by its reference, whatever else is done to the scores and to the result.
#[test]
fn attention_is_found_by_its_reference() {
    let heads = |flops: &str, reference: &str| {
        let source = format!(
            "mesh {{X: 2}} on h100\ndims {{B: 2, S: 8, T: 16, N: 4, H: 32}}\n\
             kernel f(q[B, S, N, H], k[B, T, N, H], v[B, T, N, H], m[S, T]) -> [B, S, N, H],\n    \
             shard B, N, flops {flops},\n    reference {reference}\n\
             q: bf16[B, S, N, H]\nk: bf16[B, T, N, H]\nv: bf16[B, T, N, H]\nm: bf16[S, T]\n\
             o[B, S, N, H] = f(q, k, v, m)\noutput o\n"
        );
        let (program, found) = compiler::check(&source);
        let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
        let kernel = program.values.iter().find_map(|value| match &value.definition {
            Definition::Kernel { kernel, .. } => Some(kernel.clone()),
            _ => None,
        });
        let kernel = kernel.expect("a kernel");
        Heads::of(&kernel, &kernel.lengths)
    };
    let all = Heads { heads: 8, queries: 8, keys: 16, width: 32, is_causal: false };
    for reference in [
        "softmax_T(q *_H k) *_T v",
        "v *_T softmax_T(k *_H q)",
        "softmax_T(f32(q *_H k) * 0.25 + m) *_T v",
        "softmax_T(relu(q) *_H k) *_T v",
        "2 * bf16(bf16(softmax_T(f32(q *_H k))) *_T v)",
        "softmax_T(where(m > 0, (0.5 * q) *_H k, -1000)) *_T v",
    ] {
        assert_eq!(heads("4*B*N*S*T*H", reference), Some(all), "{reference}");
        let causal = Heads { is_causal: true, ..all };
        assert_eq!(heads("2*B*N*S*T*H", reference), Some(causal), "{reference}");
    }
    assert_eq!(heads("0", "softmax_T(q *_H k) *_T v"), Some(all), "nothing is declared");
    for reference in [
        // No softmax, one over other dims, one too many, and a sum with attention.
        "(q *_H k) *_T v",
        "softmax_N(q *_H k) *_T v",
        "softmax_T(softmax_T(q *_H k)) *_T v",
        "q + softmax_T(q *_H k) *_T v",
    ] {
        assert_eq!(heads("4*B*N*S*T*H", reference), None, "{reference}");
    }
}

/// Constants fitted without a size predict that size. Figures may differ slightly between processors because of
/// rounding.
#[test]
fn sizes_that_were_left_out_are_met() {
    let (mut all, mut table) = (
        Vec::new(),
        "| machine | AllGather | ReduceScatter | AllReduce | AllToAll |\n| --- | --- | --- | --- | --- |\n".to_owned(),
    );
    for (machine, system) in MACHINES {
        let rows: Vec<Collective> = collectives(system).into_iter().map(|(_, row)| row).collect();
        let left_out = fit::collectives::fit(&rows).left_out;
        let of = |kind| Errors::of_all(left_out.iter().filter(|((of, _), _)| *of == kind).map(|(_, errors)| errors));
        table += &format!("| `{machine}` | {} |\n", KINDS.into_iter().map(|kind| shown(&of(kind))).join(" | "));
        all.extend(left_out.into_values());
    }
    let all = Errors::of_all(&all);
    table += &format!("\nOf all {}: {}.\n", all.count(), shown(&all));
    if std::env::var_os("SHARDC_MACHINES").is_some_and(|value| value == "write") {
        holds("left out", &table);
    }
    assert!(all.percentile(50) <= 0.08 && all.percentile(90) <= 0.25, "{}", shown(&all));
}

/// The exchanges with experts of a system, if measured.
fn exchanges(system: &str) -> Option<Vec<Dispatched>> {
    table::experts(EXPERTS, &only(&[("system", system)])).ok()
}

#[test]
fn exchanges_with_experts_take_what_was_measured() {
    let mut table = "| machine | dispatch | combine | in order |\n| --- | --- | --- | --- |\n".to_owned();
    let mut all = Vec::new();
    for (machine, system) in MACHINES {
        let known = Hardware::named(machine).expect("shipped").experts;
        let Some(rows) = exchanges(system) else {
            assert!(known.is_none(), "{machine} has experts that nothing measured");
            continue;
        };
        let experts = known.expect("measured");
        let errors = fit::experts::errors(&rows.iter().collect_vec(), &experts);
        let times = |row: &Dispatched| Way::ALL.map(|way| (way.predicted(&experts, row.tokens), way.measured(row)));
        let both = rows.iter().flat_map(times);
        let order = in_order(&both.step_by(3).collect_vec());
        let cells = errors.values().map(shown).chain([percent(order)]).join(" | ");
        table += &format!("| `{machine}` | {cells} |\n");
        all.extend(errors.into_values());
    }
    let all = Errors::of_all(&all);
    table += &format!("\nOf all {}: {}.\n", all.count(), shown(&all));
    holds("experts", &table);
    assert!(all.percentile(50) <= 0.05 && all.percentile(95) <= 0.2, "{}", shown(&all));
}

/// As for messages: the constants of a profile fit its measurements, and constants without every fifth predict these.
#[test]
fn profiles_have_constants_that_fit_experts() {
    for (machine, system) in MACHINES {
        let Some(rows) = exchanges(system) else { continue };
        let fit = fit::experts::fit(&rows).expect("rows");
        let experts = Hardware::named(machine).and_then(|hardware| hardware.experts).expect("measured");
        let shipped = Errors::of_all(fit::experts::errors(&rows.iter().collect_vec(), &experts).values());
        let [fresh, left_out] = [fit.errors, fit.left_out].map(|errors| Errors::of_all(errors.values()));
        let worse = shipped.percentile(50) - fresh.percentile(50);
        assert!(worse < 0.01, "{machine}: {} where {} is possible", shown(&shipped), shown(&fresh));
        assert!(left_out.percentile(90) <= 0.2, "{machine}: {}", shown(&left_out));
    }
}
