//! Compares plans with golden cases, brute-force searches and lower bounds.

#[path = "../common/mod.rs"]
mod common;

mod bundles;
mod corpus;
mod corpus_table;
mod exhaustive_order;
mod expectations;
mod figures;
mod floor;
mod fused;
mod golden;
mod holes;
mod kernels;
mod loads;
mod lookups;
mod overlap;
mod picks;
mod pins;
mod plan_oracle;
mod planning;
mod requested;
mod reshards;
mod rewrites;
mod shared;
mod shifts;
mod softmax;
mod stages;
mod tune;
mod usage;
mod views;
mod wider;
