//! The methods of collectives, and schedules written by hand.

#[path = "../common/mod.rs"]
mod common;

mod degenerate;
mod given;
mod idle;
mod inside;
mod large;
mod methods;
mod packing;
mod quad;
mod roots;
mod switch;
mod weak;
