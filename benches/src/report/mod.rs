//! The report: one HTML file that tells what a run measured, and the same numbers as Markdown.
//!
//! Every number comes from a cell of a CSV file of the run and says which. The sentences that interpret are made from
//! the numbers, so that another run tells another story.

pub mod axis;
pub mod book;
pub mod charts;
mod gpu;
mod kernels;
mod page;
mod published;
mod questions;
mod roofline;
mod rungs;
mod steps;
mod studies;
pub mod svg;
pub mod tell;

pub use tell::{documents, report};
