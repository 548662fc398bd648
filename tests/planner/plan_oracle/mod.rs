//! Compares the planner with brute force.
//!
//! The oracle has its own layouts, moves, costs and shortest paths, written from the book and the language rules
//! only. It uses only the checker and the planner of the compiler. The planner's optimum must equal that of the
//! oracle exactly: in time under the book's formulas on whole axes, and in received bytes on split axes.
//!
//! `SHARDC_TESTS=full` tests everything: all axis names for layouts that differ only in them, and every program
//! instead of every seventeenth.
#![allow(missing_docs, unreachable_pub)]

mod devices;
mod distance;
mod floors;
mod layout;
mod memory;
mod moves;
mod planner;
mod price;
mod products;
mod reshards;
mod tree;

use price::Model;

const MODELS: [Model; 2] = [Model::Book, Model::Bytes];
