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
pub const NO_VALUE: [u8; 3] = [190, 190, 190];
/// The colour of a value below those that the colours span.
pub const BELOW: [u8; 3] = [255, 255, 255];
/// The colour of a value above them.
pub const ABOVE: [u8; 3] = [230, 60, 30];

/// The last step of viridis in the palette.
pub const LAST: u8 = 252;
/// Where the other colours are in the palette.
pub const INDEX_BELOW: u8 = 253;
/// See [`INDEX_BELOW`].
pub const INDEX_ABOVE: u8 = 254;
/// See [`INDEX_BELOW`].
pub const INDEX_NO_VALUE: u8 = 255;

/// A palette for PNG: the steps of viridis, then the colours of what is below, above and without a value.
pub fn palette() -> Vec<u8> {
    let steps = (0..=LAST).map(|i| viridis(f64::from(i) / f64::from(LAST)));
    steps.chain([BELOW, ABOVE, NO_VALUE]).flatten().collect()
}

/// A colour as SVG writes it.
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
