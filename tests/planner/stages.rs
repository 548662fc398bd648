//! Every example through every stage, compared with `snapshots/`. A schedule that is read back from its text has the
//! same proof and the same time.

use crate::common::{apart, compile, programs, short_name};
use shardc::compiler;
use shardc::expect;
use shardc::report::{Findings, run, text};
use shardc::schedule::from_text;
use shardc::sim::{clock, proof};

fn snapshot(stage: &str, name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => format!("../../snapshots/{stage}"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name.replace('/', "__"), text);
    });
}

#[test]
fn every_example_through_every_stage() {
    for path in programs("examples") {
        let name = short_name(&path);
        let name = name.trim_start_matches("examples/");
        let source = std::fs::read_to_string(&path).expect("an example");
        let (program, _) = compiler::check(&source);
        snapshot("program", name, &program.unwrap_or_else(|| panic!("{name} is wrong")).to_string());
        // Pieces would produce many repetitive operations.
        let whole = apart(&source);
        snapshot("schedule", name, &whole.schedule.to_string());
        let compiled = compile(&source);
        snapshot("plan", name, &compiled.plan.to_string());
        let written = compiled.schedule.to_string();
        let timing = clock::run(&compiled.schedule, &compiled.topology).expect("a time");
        let again = from_text(&written).unwrap_or_else(|error| panic!("{name}: {error:?}")).schedule;
        assert_eq!(again.to_string(), written, "{name}");
        assert_eq!(clock::run(&again, &compiled.topology).as_ref(), Ok(&timing), "{name}");
        assert_eq!(proof::prove(&again), Ok(compiled.proof.clone()), "{name}");
        let breaches = expect::judge(&compiled.plan, &compiled.topology, Some(timing.makespan));
        assert!(breaches.is_empty(), "{name}: {breaches:?}");
        let findings = Findings::new(&compiled.plan, &compiled.topology);
        let report = [
            text::machine(&compiled.topology, false),
            text::plan(&findings, None),
            run::proof(&compiled.proof, &compiled.topology.mesh),
            text::pieces(&findings),
            text::timing(&findings, &timing),
        ];
        snapshot("time", name, &report.concat());
    }
}
