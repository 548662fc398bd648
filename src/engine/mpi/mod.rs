//! The engine of MPI: a rank for each device, and non-blocking messages.
//!
//! The first rank reads, plans and prints; the others do what it orders ([`Session::order`]). All of them then run the
//! schedule ([`execute`]). Waiting has an end: a rank that waits for too long says for what, and all are stopped.

mod execute;
mod native;
mod session;

pub use execute::{Execute, MOST_MESSAGE};
pub use native::Native;
pub use session::{Order, Session};
