//! Texts of the language: what they mean, what is refused and with which way out.

#[path = "../common/mod.rs"]
mod common;

mod book;
mod checker_laws;
mod explain;
mod foreign;
mod lenient;
mod mutations;
mod names;
mod reference;
mod repeat;
mod right;
mod soak;
mod strict;
mod wrong;
