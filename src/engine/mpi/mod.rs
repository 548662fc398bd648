//! The engine of MPI: a rank for each device, and non-blocking messages.
//!
//! The first rank reads, plans and prints; the others do what it orders ([`Session::order`]). All of them then run the
//! schedule ([`execute`]). Waiting has an end: a rank that waits for too long says for what, and all are stopped. Whoever
//! waits looks from time to time; calls that only come back when all ranks have made them are watched by a thread
//! ([`watchdog`]); and the first rank gives signs of life while it plans ([`pulse`]).

mod execute;
mod hello;
mod native;
mod pulse;
mod session;
mod watchdog;

pub use execute::{Execute, MOST_MESSAGE};
pub use hello::Hello;
pub use native::Native;
pub use session::{Order, Phase, Session, Unstarted};
