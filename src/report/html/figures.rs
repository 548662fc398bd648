//! The figures at the top of a page: time against its lower bound, exposed communication, bytes, memory, and the
//! resource that limits the time.

use crate::report::{Findings, text};
use crate::sim::clock::Timing;
use crate::units::{Bytes, Time, counted};
use serde::Serialize;

/// The figures of a plan, and the resource that limits its time.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    list: Vec<Figure>,
    /// The lower bound as a part of the time.
    bound: f64,
    /// The resource that limits the time.
    limit: Option<String>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    value: String,
    note: String,
}

pub(super) fn figures(findings: &Findings<'_>, timing: &Timing) -> Figures {
    let (plan, totals, makespan) = (findings.plan, &findings.totals, timing.makespan);
    let seconds = |time| findings.seconds(time).to_string();
    let part = |time: Time| if makespan == Time::ZERO { 0.0 } else { time.ratio(makespan) };
    // Communication that no computation hides.
    let exposed = makespan.saturating_sub(totals.compute);
    let usage = &totals.usage;
    let messages = usage.messages.most;
    let bound = findings.bound;
    let list = vec![
        Figure {
            name: "Time",
            value: seconds(makespan),
            note: match bound.is_negligible() {
                true => "no step takes time".to_owned(),
                false => format!("{:.2}x the lower bound {bound} of this plan", makespan.ratio(bound.time)),
            },
        },
        Figure {
            name: "Exposed communication",
            value: seconds(exposed),
            note: match (exposed, totals.compute) {
                (Time::ZERO, Time::ZERO) => "no communication".to_owned(),
                (Time::ZERO, compute) => format!("compute takes {}", seconds(compute)),
                (_, compute) => {
                    format!("{:.0} % of the time; compute takes {}", 100.0 * part(exposed), seconds(compute))
                }
            },
        },
        Figure {
            name: "Received per device",
            value: Bytes(usage.received.most).to_string(),
            note: match messages {
                0 => "no messages".to_owned(),
                _ => format!("in {}; sent {}", counted(messages, "message"), Bytes(usage.sent.most)),
            },
        },
        Figure {
            name: "Peak memory per device",
            value: plan.overlap.whole.map_or(totals.peak(), |whole| whole.peak).to_string(),
            note: "inputs, results and buffers".to_owned(),
        },
    ];
    Figures { list, bound: part(bound.time).min(1.0), limit: text::limit(findings) }
}
