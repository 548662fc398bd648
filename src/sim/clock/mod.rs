//! When each operation starts and ends.
