//! Pictures as PNG.

use std::io;
use std::sync::{Arc, OnceLock};

use resvg::{tiny_skia, usvg};

use super::colour;
use super::svg::Picture;

/// The picture as PNG with `scale` pixels for every unit of the SVG.
///
/// # Errors
/// When the picture is too large for memory.
pub fn render(picture: &Picture, scale: f32) -> io::Result<Vec<u8>> {
    static OPTIONS: OnceLock<usvg::Options<'static>> = OnceLock::new();
    let options = OPTIONS.get_or_init(|| {
        let mut options = usvg::Options { font_family: "Noto Sans".into(), ..usvg::Options::default() };
        Arc::make_mut(&mut options.fontdb).load_font_data(notosans::REGULAR_TTF.to_vec());
        options
    });
    let tree = usvg::Tree::from_str(&picture.svg, options).map_err(io::Error::other)?;
    let (w, h) = (tree.size().width() * scale, tree.size().height() * scale);
    let mut pixels = tiny_skia::Pixmap::new(w.ceil() as u32, h.ceil() as u32)
        .ok_or_else(|| io::Error::other(format!("a picture of {w} x {h} pixels")))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(io::Error::other)
}

/// A PNG whose pixels are indices into the palette of [`colour::palette`].
pub fn indexed(width: usize, height: usize, indices: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(colour::palette());
    encoder
        .write_header()
        .and_then(|mut w| w.write_image_data(indices))
        .expect("writing to memory, one index a pixel");
    out
}
