//! Pictures for a paper: charts and maps drawn as SVG, and the same picture as PNG.
//!
//! Knows nothing of photons: numbers in, pictures out. The PNG is rendered from the SVG with an embedded font, so
//! that it looks the same on a machine without fonts.

mod axis;
mod chart;
mod colour;
mod grid;
mod legend;
mod map;
mod raster;
mod svg;

pub use axis::{Axis, grouped, nice_step};
pub use chart::{Chart, Layer, Legend};
pub use colour::{BLUE, GREEN, ORANGE};
pub use grid::{Grid, Span, Values};
pub use map::Map;
pub use raster::render;
pub use svg::{Picture, escape};
