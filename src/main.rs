//! The `shardc` command.

/// Runs make and drop blocks of megabytes all the time; the system's allocator gives their pages back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    shardc::cli::main()
}
