//! Sample sizes of large test sets.

/// Whether whole sets are tested (`SHARDC_TESTS=full`). Otherwise, or with `SHARDC_TESTS=ci`, a fixed part of each is.
///
/// # Panics
/// If the variable has another value.
pub fn are_full() -> bool {
    match std::env::var("SHARDC_TESTS").as_deref() {
        Err(_) | Ok("ci") => false,
        Ok("full") => true,
        Ok(other) => panic!("`SHARDC_TESTS` is `ci` or `full`, not `{other}`"),
    }
}
