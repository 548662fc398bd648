//! `shardc time --order arrival`: links and engines with first come, first served order.
#![allow(missing_docs)]

use crate::common::process::{fed, shardc};
use serde_json::Value;
use std::process::Output;

fn time(arguments: &[&str], program: &str) -> Output {
    fed(shardc(env!("CARGO_MANIFEST_DIR"), &["time"]).args(arguments).arg("-"), program)
}

fn document(order: &str, program: &str) -> Value {
    let output = time(&["--order", order, "--format", "json"], program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

const TORUS: &str = "mesh {X: 4 ring, Y: 8 ring} on tpu_v5p\nA: bf16[4096_XY, 131072]\n\
                     AllGather_XY(A[4096_XY, 131072]) -> B[4096, 131072]\n";

/// On a rectangular torus, collectives over all axes need list order: without it the links of one axis wait for the
/// other.
#[test]
fn a_torus_that_is_not_square_needs_an_order() {
    let [listed, arrival] = ["listed", "arrival"].map(|order| document(order, TORUS));
    let ratio = |document: &Value| document["time"]["ratio"].as_f64().expect("a ratio");
    assert!(ratio(&listed) < 1.005, "{listed}");
    assert!((1.575..1.585).contains(&ratio(&arrival)), "{arrival}");
    assert_eq!(arrival["time"]["order"], "arrival");
    assert!(listed["time"].get("order").is_none());
    assert_eq!(arrival["time"]["busiest_link"], listed["time"]["busiest_link"]);
}

#[test]
fn people_are_told_of_the_order() {
    let told = |arguments: &[&str]| {
        let output = time(arguments, TORUS);
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).contains("first come, first served")
    };
    assert!(told(&["--order", "arrival", "--timeline"]));
    assert!(!told(&[]));
}

/// A group operation has no messages to serve separately.
#[test]
fn what_has_no_such_time_is_refused() {
    let kept = time(&["--order", "arrival", "--keep-allgather"], TORUS);
    let text = String::from_utf8_lossy(&kept.stderr);
    assert!(!kept.status.success() && text.contains("is a group operation"), "{text}");
}
