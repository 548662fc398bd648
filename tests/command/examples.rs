//! Runs the examples of the library, which contain assertions.

#[path = "../../examples/hardware.rs"]
mod hardware;
#[path = "../../examples/layouts.rs"]
mod layouts;
#[path = "../../examples/plan.rs"]
mod plan;
#[path = "../../examples/schedule_by_hand.rs"]
mod schedule_by_hand;

#[test]
fn all_examples_run() {
    let listed = [
        ("hardware", hardware::main as fn() -> _),
        ("layouts", layouts::main),
        ("plan", plan::main),
        ("schedule_by_hand", schedule_by_hand::main),
    ];
    for (name, main) in listed {
        main().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let is_rust = |path: &std::path::Path| path.extension().is_some_and(|extension| extension == "rs");
    let files = std::fs::read_dir(folder)
        .expect("a folder")
        .filter(|file| file.as_ref().is_ok_and(|file| is_rust(&file.path())));
    assert_eq!(files.count(), listed.len(), "an example is not run");
}
