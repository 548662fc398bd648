//! `shardc diff`

use super::program::Checked;
use super::progress::during;
use super::{Common, Failure, Format, input};
use crate::report::diff::Difference;
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// First program
    first: String,
    /// Second program, or another version of the first
    second: String,
    #[command(flatten)]
    common: Common,
}

impl Diff {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let [first, second] = [&self.first, &self.second].map(|file| Checked::read(file, &self.common));
        let (first, second) = (first?, second?);
        let plans = during("planning", || [&first, &second].map(|checked| checked.planned(&checked.program)));
        let [(one, here), (other, there)] = match plans {
            [Ok(one), Ok(other)] => [one, other],
            [Err(failure), _] | [_, Err(failure)] => return Err(failure),
        };
        let names = [&first.source.name, &second.source.name];
        let difference = Difference::new((names[0], &one, &here), (names[1], &other, &there));
        match first.format {
            Format::Text => input::print(&difference.text()),
            Format::Json => input::print_json(&difference.document()),
        }
    }
}
