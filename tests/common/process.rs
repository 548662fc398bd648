//! Runs other processes, the command and tools, with text on standard input.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command, run in a folder.
pub fn shardc(folder: impl AsRef<Path>, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
    command.current_dir(folder).args(arguments);
    command
}

/// Runs a command to its end with this standard input.
pub fn fed(command: &mut Command, input: impl AsRef<[u8]> + Send) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // The process may end before it has read everything, and may print before.
        scope.spawn(move || stdin.write_all(input.as_ref()).ok());
        child.wait_with_output().expect("it ends")
    })
}

/// The printed text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
