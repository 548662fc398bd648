//! How much of its large sets of cases a run takes.

/// Whether sets are taken whole: `SHARDC_TESTS=full`. Otherwise, as by `SHARDC_TESTS=ci`, a fixed part of each is.
///
/// # Panics
/// If it is any other word.
pub fn are_full() -> bool {
    match std::env::var("SHARDC_TESTS").as_deref() {
        Err(_) | Ok("ci") => false,
        Ok("full") => true,
        Ok(other) => panic!("`SHARDC_TESTS` is `ci` or `full`, not `{other}`"),
    }
}
