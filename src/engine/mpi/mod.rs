//! The MPI engine: one rank per device, and non-blocking messages.
//!
//! The first rank reads, plans and prints; the others execute its orders ([`Session::order`]). Then all ranks run the
//! schedule ([`execute`]). All waits have a timeout: a rank that waits too long reports what is missing, and all
//! ranks are stopped. Waiting ranks poll. Calls that return only when all ranks have made them are watched by a
//! thread ([`watchdog`]). The first rank sends signs of life while it plans ([`pulse`]).

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
