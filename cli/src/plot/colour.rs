//! Colours that stay apart for every eye and in grey print.

/// Blue of the Okabe-Ito palette.
pub const BLUE: &str = "#0072b2";
/// Vermilion of the Okabe-Ito palette.
pub const ORANGE: &str = "#d55e00";
/// Bluish green of the Okabe-Ito palette.
pub const GREEN: &str = "#009e73";

/// The viridis map (public domain, S. van der Walt and N. Smith) at 17 equal steps; between them it is linear.
const VIRIDIS: [[u8; 3]; 17] = [
    [68, 1, 84],
    [72, 24, 106],
    [71, 45, 123],
    [66, 64, 134],
    [59, 82, 139],
    [51, 99, 141],
    [44, 114, 142],
    [38, 130, 142],
    [33, 145, 140],
    [31, 160, 136],
    [40, 174, 128],
    [63, 188, 115],
    [94, 201, 98],
    [132, 212, 75],
    [173, 220, 48],
    [216, 226, 25],
    [253, 231, 37],
];

/// The colour of a value from 0 to 1.
pub fn viridis(t: f64) -> [u8; 3] {
    let steps = (VIRIDIS.len() - 1) as f64;
    let at = t.clamp(0.0, 1.0) * steps;
    let i = (at.floor() as usize).min(VIRIDIS.len() - 2);
    let f = at - i as f64;
    std::array::from_fn(|k| {
        let (a, b) = (f64::from(VIRIDIS[i][k]), f64::from(VIRIDIS[i + 1][k]));
        (a + (b - a) * f).round() as u8
    })
}

/// The colour of a pixel without a value.
pub const NO_VALUE: [u8; 3] = [205, 205, 205];

/// A palette for PNG: 255 steps of viridis, then the colour of pixels without a value.
pub fn palette() -> Vec<u8> {
    (0..255).flat_map(|i| viridis(f64::from(i) / 254.0)).chain(NO_VALUE).collect()
}
