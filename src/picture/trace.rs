//! A timeline in the Trace Event Format, which Perfetto and the browsers' viewers open:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! Devices are processes, what is busy is a thread of one, and each use is a complete event (`"ph": "X"`) with its
//! start and length in microseconds. Both are whole nanoseconds, since that is what viewers count in: what does not
//! overlap must not do so when they have rounded it. The exact length is among the arguments.

use super::timeline::step_label;
use crate::escape;
use crate::schedule::Schedule;
use crate::sim::clock::{Record, Resource};
use crate::topology::Topology;
use serde::Serialize;
use std::collections::BTreeSet;

/// The whole file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace<'a> {
    trace_events: Vec<Event<'a>>,
    display_time_unit: &'static str,
    other_data: Other<'a>,
}

#[derive(Debug, Serialize)]
struct Other<'a> {
    hardware: &'a str,
    mesh: String,
    /// The axes along which one device stands for all.
    one_for_all: String,
}

/// An event, or what a process or a thread is called.
#[derive(Debug, Serialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'static str,
    pid: u64,
    tid: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Arguments,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Arguments {
    Name { name: String },
    Place { sort_index: u64 },
    Operation { operation: String, bytes: u64, seconds: f64 },
}

/// The trace of a run.
///
/// - `steps`: what the steps of the schedule are called, by their number.
pub fn trace(schedule: &Schedule, topology: &Topology, record: &Record, steps: &[String]) -> String {
    let mesh = &topology.mesh;
    let threads: BTreeSet<(u64, u64, Resource)> = record
        .uses
        .iter()
        .map(|used| {
            let (pid, tid) = place(topology, used.resource);
            (pid, tid, used.resource)
        })
        .collect();
    let mut events = Vec::with_capacity(record.uses.len() + 2 * threads.len());
    let meta = |name, pid, tid, args| Event { name, ph: "M", pid, tid, cat: None, ts: None, dur: None, args };
    let processes: BTreeSet<u64> = threads.iter().map(|(pid, ..)| *pid).collect();
    for pid in processes {
        let device = crate::mesh::DeviceId(u32::try_from(pid - 1).unwrap_or_default());
        let name = format!("device {}", mesh.place(device));
        events.push(meta("process_name", pid, 0, Arguments::Name { name }));
        events.push(meta("process_sort_index", pid, 0, Arguments::Place { sort_index: pid }));
    }
    for (pid, tid, resource) in &threads {
        let name = match resource {
            Resource::Engine(_, engine) => {
                topology.hardware.engines.names().get(engine.index()).cloned().unwrap_or_default()
            }
            Resource::Link(link) => topology.show_link(*link).to_string(),
        };
        events.push(meta("thread_name", *pid, *tid, Arguments::Name { name }));
        events.push(meta("thread_sort_index", *pid, *tid, Arguments::Place { sort_index: *tid }));
    }
    let names: Vec<String> = schedule.ids().map(|id| step_label(steps, schedule.operation(id).step)).collect();
    let nanoseconds = |time| topology.scale.nanoseconds(time);
    let microseconds = |nanoseconds: u128| nanoseconds as f64 / 1e3;
    for used in &record.uses {
        let (pid, tid) = place(topology, used.resource);
        let operation = schedule.operation(used.operation);
        events.push(Event {
            name: &names[used.operation.index()],
            ph: "X",
            pid,
            tid,
            cat: Some(match used.resource {
                Resource::Engine(..) => "compute",
                Resource::Link(_) => "link",
            }),
            ts: Some(microseconds(nanoseconds(used.start))),
            dur: Some(microseconds(nanoseconds(used.finish) - nanoseconds(used.start))),
            args: Arguments::Operation {
                operation: format!("%{} {}", used.operation.index(), schedule.brief(used.operation)),
                bytes: operation.bytes(),
                seconds: topology.scale.seconds(used.finish - used.start),
            },
        });
    }
    let collapsed: Vec<&str> = record.collapsed.iter().map(|axis| mesh.axis(axis).name.as_str()).collect();
    let other = Other { hardware: &topology.hardware.name, mesh: mesh.to_string(), one_for_all: collapsed.join(", ") };
    let trace = Trace { trace_events: events, display_time_unit: "ns", other_data: other };
    escape::json(&serde_json::to_string(&trace).expect("strings and finite numbers")).into_owned() + "\n"
}

/// The process and the thread of a resource: process 0 is the idle one of a system, so that devices count from 1.
fn place(topology: &Topology, resource: Resource) -> (u64, u64) {
    match resource {
        Resource::Engine(device, engine) => (device.index() as u64 + 1, 1 + engine.index() as u64),
        Resource::Link(id) => {
            let link = topology.link(id);
            (link.device.index() as u64 + 1, 100 + u64::from(topology.row(id)))
        }
    }
}
