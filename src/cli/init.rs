//! `shardc init`: a first program, and a file of defaults.

use super::{Failure, files, input};
use clap::Args;
use std::path::{Path, PathBuf};

/// The files and their contents.
const FILES: [(&str, &str); 2] = [("mlp.shard", PROGRAM), ("shardc.toml", DEFAULTS)];

const PROGRAM: &str = "\
# An MLP with data and tensor parallelism. Each device holds a quarter of the rows of X and half
# of the columns of Win.
mesh {data: 4, model: 2} on tpu_v5e
dims {B: 4096, D: 4096, F: 16384}

X:    bf16[B_data, D]
Win:  bf16[D, F_model]
Wout: bf16[F_model, D]

# H has no layout here: the planner chooses it.
H = relu(X * Win)
Y[B_data, D] = H * Wout

# `shardc plan`, `time` and `run` exit with status 1 if the program communicates in another way than this.
expect collectives Y = [AllReduce_model]
";

const DEFAULTS: &str = "\
# Options that `shardc` takes by default in this folder and below it. Each key is the long name of an option; options on the
# command line win, and `--no-config` ignores this file.

# What `shardc check`, `shardc fmt` and `shardc snapshot` take if no path is given.
paths = [\".\"]

# The machine of all programs, whatever they say: a profile of `shardc hardware`, or a TOML file beside this one.
# hardware = \"tpu_v5p\"

# How plans are priced: \"exact\", \"book\" or \"bytes\".
# costs = \"exact\"

# Options of one command.
# [sweep]
# hardware = \"tpu_v5p,h100\"
";

#[derive(Debug, Args)]
pub(super) struct Init {
    /// Folder for the files; created if it is missing
    #[arg(default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
}

impl Init {
    /// Writes the files; none, if one of them exists.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let path = |name: &str| match self.folder == Path::new(".") {
            true => PathBuf::from(name),
            false => self.folder.join(name),
        };
        if let Some((name, _)) = FILES.iter().find(|(name, _)| path(name).symlink_metadata().is_ok()) {
            let shown = input::shown(&path(name));
            return Err(Failure::Call(format!("`{shown}` already exists; nothing was written")));
        }
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| Failure::Call(format!("cannot create `{}`: {error}", input::shown(&self.folder))))?;
        for (name, content) in FILES {
            files::write(&path(name), content)?;
            input::print(&format!("created {}\n", input::shown(&path(name))))?;
        }
        let program = input::shown(&path(FILES[0].0));
        input::print(&format!(
            "\nnext: shardc plan {program}\n      shardc run {program}\n      shardc check --watch {program}\n"
        ))
    }
}
