//! The handshake of the ranks: all must run the same command of the same version.

use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::path::Path;

/// The start parameters of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    version: String,
    /// Command line without the command name.
    arguments: Vec<String>,
    /// Hash of the program text if this rank can read the file. The first rank sends the others what they need of the
    /// program.
    program: Option<u64>,
}

impl Hello {
    /// The parameters of this process.
    ///
    /// - `program`: path of the program file, if there is one.
    pub fn of_process(program: Option<&str>) -> Hello {
        let text = program.map(Path::new).filter(|path| path.is_file()).and_then(|path| std::fs::read(path).ok());
        let hash = |text: Vec<u8>| {
            let mut hasher = rustc_hash::FxHasher::default();
            text.hash(&mut hasher);
            hasher.finish()
        };
        Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            arguments: std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect(),
            program: text.map(hash),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Compares the message of another rank with this one, the first rank's. Returns a description of the mismatch,
    /// if any.
    pub(super) fn objection(&self, rank: u32, said: &[u8]) -> Option<String> {
        let Ok(other) = serde_json::from_slice::<Hello>(said) else {
            return Some(format!("rank {rank} runs a different version of shardc; rank 0 runs {}", self.version));
        };
        if other.version != self.version {
            return Some(format!("rank {rank} runs shardc {}, rank 0 runs {}", other.version, self.version));
        }
        if other.arguments != self.arguments {
            let [own, other] = [self, &other].map(|hello| hello.arguments.join(" "));
            return Some(format!("rank {rank} was started as `shardc {other}`, rank 0 as `shardc {own}`"));
        }
        match (self.program, other.program) {
            (Some(own), Some(other)) if own != other => {
                Some(format!("the program file of rank {rank} differs from that of rank 0"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_has_its_words() {
        let own = Hello { version: "1".into(), arguments: vec!["run".into(), "a".into()], program: Some(1) };
        let objection = |change: &dyn Fn(&mut Hello)| {
            let mut other = own.clone();
            change(&mut other);
            own.objection(3, &other.to_bytes())
        };
        assert_eq!(objection(&|_| ()), None);
        assert_eq!(objection(&|other| other.program = None), None);
        assert_eq!(objection(&|other| other.version = "2".into()).unwrap(), "rank 3 runs shardc 2, rank 0 runs 1");
        let words = objection(&|other| other.arguments[1] = "b".into()).unwrap();
        assert_eq!(words, "rank 3 was started as `shardc run b`, rank 0 as `shardc run a`");
        let words = objection(&|other| other.program = Some(2)).unwrap();
        assert_eq!(words, "the program file of rank 3 differs from that of rank 0");
        // The first message of earlier versions.
        assert!(own.objection(3, &[0]).unwrap().contains("a different version of shardc"));
    }
}
