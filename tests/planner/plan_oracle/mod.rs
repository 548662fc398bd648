//! The planner against brute force.
//!
//! The oracle has its own layouts, moves, prices and shortest ways, written from the book and the rules alone; of the
//! compiler it calls the checker and the planner. The planner's optimum must be that of the oracle to the last tick and
//! byte, in time by the book on whole axes and in received bytes on axes in parts.
//!
//! `SHARDC_TESTS=full` leaves nothing out: all names of axes where layouts are alike but for them, and every program
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
