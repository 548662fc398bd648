//! The figures at the top of a page: time against its lower bound, exposed communication, bytes, memory, and the
//! resource that limits the time.

use crate::report::{Findings, text};
use crate::sim::clock::Timing;
use crate::units::{Bytes, Time};
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
            note: format!("{:.2}x the lower bound of {bound}", makespan.ratio(bound.time)),
        },
        Figure {
            name: "Exposed communication",
            value: seconds(exposed),
            note: format!("{:.0} % of the time; compute takes {}", 100.0 * part(exposed), seconds(totals.compute)),
        },
        Figure {
            name: "Received per device",
            value: Bytes(usage.received.most).to_string(),
            note: format!(
                "in {messages} message{}; sent {}",
                if messages == 1 { "" } else { "s" },
                Bytes(usage.sent.most)
            ),
        },
        Figure {
            name: "Peak memory per device",
            value: plan.overlap.whole.map_or(totals.peak(), |whole| whole.peak).to_string(),
            note: "inputs, results and buffers".to_owned(),
        },
    ];
    Figures { list, bound: part(bound.time).min(1.0), limit: text::limit(findings) }
}
