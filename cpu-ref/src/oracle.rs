//! The oracle: [SPEC](scheidegg_finder::spec) in its plainest words.
//!
//! It shares types and parameters with the other backends, and no arithmetic: training, decision and update are
//! written here again, one line of SPEC a line of code, so that a mistake made elsewhere cannot hide. It computes
//! every mode, every precision and every parameter there is. Nothing here is tuned; the fast finder is another
//! module.

mod finder;
mod float;
mod pedestal;

pub use finder::OracleBackend;

use half::f16;
use scheidegg_finder::{
    Branch, ClusterSize, Noise, Params, Payload, Pedestal, PixelMask, Shape, Ties, Update,
};

use float::{Float, cast, max};
use pedestal::{one_over, update, variance};

/// What a decision needs to know, the same for every frame of a run.
struct Rule<P, C> {
    shape: Shape,
    params: Params,
    /// `1/N` in P.
    inv_n: P,
    /// `n_sigma * n_sigma` in C.
    n_sigma2: C,
    /// The square of the noise floor in C.
    floor2: C,
    x0: Vec<u16>,
    /// Pixels that never take part in the run.
    masked: Vec<bool>,
}

/// The pedestal of one lane: what changes from frame to frame.
struct Lane<P> {
    sum: Vec<P>,
    sum2: Vec<P>,
    fixed_variance: Option<Vec<P>>,
}

/// What was found in some rows of a frame.
#[derive(Default)]
struct Found {
    /// The records: x, y and the values of every stored window, in raster order.
    records: Vec<u8>,
    /// Stored values that had to be cut to fit.
    saturated: u64,
    /// The branch of every pixel.
    codes: Vec<Branch>,
}

impl<P: Float, C: Float> Rule<P, C> {
    fn new(params: &Params, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Self {
        let shape = pedestal.shape;
        let (s, floor) = (C::of(params.n_sigma), C::of(params.noise_floor_adu));
        Rule {
            shape,
            params: params.clone(),
            inv_n: one_over(pedestal.samples),
            n_sigma2: s * s,
            floor2: floor * floor,
            x0: pedestal.x0.clone(),
            masked: (0..shape.pixels()).map(|i| mask.is_some_and(|m| m.contains_index(i))).collect(),
        }
    }

    /// The pixels that take part in a frame: not masked and not lost.
    fn taking_part(&self, lost: Option<&PixelMask>) -> Vec<bool> {
        let lost = |i| lost.is_some_and(|m| m.contains_index(i));
        (0..self.shape.pixels()).map(|i| !self.masked[i] && !lost(i)).collect()
    }

    /// `Y = X - X0`, exact.
    fn y(&self, raw: &[u16], i: usize) -> P {
        P::of(f64::from(raw[i]) - f64::from(self.x0[i]))
    }

    /// The corrected value `d` of a pixel.
    fn corrected(&self, lane: &Lane<P>, raw: &[u16], i: usize) -> C {
        let m = lane.sum[i] * self.inv_n;
        cast(self.y(raw, i) - m)
    }

    /// The squared threshold `thr2` of a pixel, by its pedestal as it is now or by the noise fixed before.
    fn thr2(&self, lane: &Lane<P>, i: usize) -> C {
        let var = match (&lane.fixed_variance, self.params.noise) {
            (Some(fixed), Noise::Fixed) => fixed[i],
            _ => variance(lane.sum[i], lane.sum2[i], self.inv_n),
        };
        self.n_sigma2 * max(cast(var), self.floor2)
    }

    fn feed(&self, lane: &mut Lane<P>, raw: &[u16], i: usize) {
        (lane.sum[i], lane.sum2[i]) = update(lane.sum[i], lane.sum2[i], self.y(raw, i), self.inv_n);
    }

    /// A frame against the pedestal at its start: every pixel is judged, then the quiet ones are fed back. The rows
    /// are judged in `bands` that know nothing of each other.
    fn frozen(&self, lane: &mut Lane<P>, raw: &[u16], lost: Option<&PixelMask>, bands: usize) -> Found {
        let takes_part = self.taking_part(lost);
        let d: Vec<C> = (0..raw.len()).map(|i| self.corrected(lane, raw, i)).collect();
        let image = Image { shape: self.shape, d: &d, takes_part: &takes_part };
        let before = &*lane;
        let found = finder::in_bands(self.shape.rows, bands, |rows| {
            let mut found = Found::default();
            for row in rows {
                for col in 0..self.shape.cols {
                    let thr2 = self.thr2(before, row * self.shape.cols + col);
                    let branch = self.judge(&image, thr2, row, col);
                    found.codes.push(branch);
                    if branch.is_stored() {
                        self.store(&image, row, col, &mut found);
                    }
                }
            }
            found
        });
        for i in 0..raw.len() {
            if found.codes[i] == Branch::Update {
                self.feed(lane, raw, i);
            }
        }
        found
    }

    /// A frame whose pedestal is updated pixel by pixel in raster order: a window sees the pixels before its
    /// centre as they are after their update.
    fn serial(&self, lane: &mut Lane<P>, raw: &[u16], lost: Option<&PixelMask>) -> Found {
        let takes_part = self.taking_part(lost);
        let mut d: Vec<C> = (0..raw.len()).map(|i| self.corrected(lane, raw, i)).collect();
        let mut found = Found::default();
        for row in 0..self.shape.rows {
            for col in 0..self.shape.cols {
                let i = row * self.shape.cols + col;
                let image = Image { shape: self.shape, d: &d, takes_part: &takes_part };
                let branch = self.judge(&image, self.thr2(lane, i), row, col);
                found.codes.push(branch);
                if branch.is_stored() {
                    self.store(&image, row, col, &mut found);
                }
                if branch == Branch::Update {
                    self.feed(lane, raw, i);
                    d[i] = self.corrected(lane, raw, i);
                }
            }
        }
        found
    }

    fn frame(&self, lane: &mut Lane<P>, raw: &[u16], lost: Option<&PixelMask>, bands: usize) -> Found {
        match self.params.update {
            Update::Frozen => self.frozen(lane, raw, lost, bands),
            Update::Serial => self.serial(lane, raw, lost),
        }
    }

    /// [SPEC 3](scheidegg_finder::spec#3-a-frame), steps 1 to 4.
    fn judge(&self, image: &Image<'_, C>, thr2: C, row: usize, col: usize) -> Branch {
        let zero = C::of(0.0);
        let ClusterSize { w, h } = self.params.size;
        let Some(d) = image.at(row as isize, col as isize) else { return Branch::Masked };

        if d < zero && d * d > thr2 {
            return Branch::Negative;
        }

        let window = Window::around(row, col, self.params.size);
        let m = image.maximum(&window).unwrap_or(d);
        let first = !image.stands_before(&window, row, col, d);
        let stands_for_window = d >= m && (first || self.params.ties == Ties::All);
        if m > zero && m * m > thr2 {
            return if stands_for_window { Branch::StorePeak } else { Branch::Shadow };
        }

        let mut significant_sum = false;
        if self.params.test2 {
            let (ch, cw) = (h.div_ceil(2), w.div_ceil(2));
            let q = window.corners(ch, cw).map(|corner| image.sum(&corner)).into_iter().reduce(max);
            let q = q.unwrap_or(zero);
            significant_sum = q > zero && q * q > C::of((ch * cw) as f64) * thr2;
        }
        let t = image.sum(&window);
        significant_sum |= t > zero && t * t > C::of((w * h) as f64) * thr2;
        if significant_sum {
            return if stands_for_window { Branch::StoreSum } else { Branch::Shoulder };
        }

        Branch::Update
    }

    /// Appends the record of the window around a pixel.
    fn store(&self, image: &Image<'_, C>, row: usize, col: usize, found: &mut Found) {
        let out = &mut found.records;
        out.extend((col as u16).to_ne_bytes());
        out.extend((row as u16).to_ne_bytes());
        let window = Window::around(row, col, self.params.size);
        for r in window.rows() {
            for c in window.cols() {
                let d = image.at(r, c).unwrap_or(C::of(0.0)).wide();
                // `f64::round` rounds halves away from zero; `as` saturates.
                match self.params.payload {
                    Payload::I32 => out.extend((d.round() as i32).to_ne_bytes()),
                    Payload::I16 => {
                        let cut = d.round() as i16;
                        found.saturated += u64::from(f64::from(cut) != d.round());
                        out.extend(cut.to_ne_bytes());
                    }
                    Payload::F16 => out.extend(nearest_f16(d).to_ne_bytes()),
                    Payload::F32 => out.extend((d as f32).to_ne_bytes()),
                }
            }
        }
    }
}

/// The corrected values of a frame and which pixels take part in it.
struct Image<'a, C> {
    shape: Shape,
    d: &'a [C],
    takes_part: &'a [bool],
}

impl<C: Float> Image<'_, C> {
    /// The value of a pixel, or nothing where no pixel takes part.
    fn at(&self, row: isize, col: isize) -> Option<C> {
        let (rows, cols) = (self.shape.rows as isize, self.shape.cols as isize);
        if row < 0 || row >= rows || col < 0 || col >= cols {
            return None;
        }
        let i = (row * cols + col) as usize;
        self.takes_part[i].then_some(self.d[i])
    }

    fn maximum(&self, window: &Window) -> Option<C> {
        let mut largest = None;
        for row in window.rows() {
            for col in window.cols() {
                if let Some(v) = self.at(row, col) {
                    largest = Some(largest.map_or(v, |l| max(l, v)));
                }
            }
        }
        largest
    }

    /// The sum over a window: each row left to right, then the row sums top to bottom.
    fn sum(&self, window: &Window) -> C {
        let mut total = C::of(0.0);
        for row in window.rows() {
            let mut row_sum = C::of(0.0);
            for col in window.cols() {
                if let Some(v) = self.at(row, col) {
                    row_sum = row_sum + v;
                }
            }
            total = total + row_sum;
        }
        total
    }

    /// Whether a pixel of the window that comes before `(row, col)` in raster order has the value `d`.
    fn stands_before(&self, window: &Window, row: usize, col: usize, d: C) -> bool {
        let here = (row as isize, col as isize);
        window.rows().any(|r| window.cols().any(|c| (r, c) < here && self.at(r, c) == Some(d)))
    }
}

/// A rectangle of pixels, part of which may lie outside the frame.
#[derive(Clone, Copy)]
struct Window {
    top: isize,
    left: isize,
    h: usize,
    w: usize,
}

impl Window {
    /// Rows `-(h/2) .. h/2 + h%2 - 1` around a pixel, columns likewise.
    fn around(row: usize, col: usize, ClusterSize { w, h }: ClusterSize) -> Window {
        Window { top: row as isize - (h / 2) as isize, left: col as isize - (w / 2) as isize, h, w }
    }

    fn rows(&self) -> std::ops::Range<isize> {
        self.top..self.top + self.h as isize
    }

    fn cols(&self) -> std::ops::Range<isize> {
        self.left..self.left + self.w as isize
    }

    /// The four corners of `h x w` pixels each.
    fn corners(&self, h: usize, w: usize) -> [Window; 4] {
        let (low, right) = (self.top + (self.h - h) as isize, self.left + (self.w - w) as isize);
        [(self.top, self.left), (self.top, right), (low, self.left), (low, right)].map(|(top, left)| Window {
            top,
            left,
            h,
            w,
        })
    }
}

/// The half-precision number nearest to `d`, the even one of two that are equally near.
///
/// Not `f16::from_f64`: on many machines that rounds to `f32` on the way, and halves are then rounded twice.
fn nearest_f16(d: f64) -> f16 {
    // The neighbours of a first guess hold the answer. Past the largest finite number the next step up the scale
    // would be 65536; halves go to the even one, which is that, and it is stored as infinity.
    let value = |bits: u16| if bits >= 0x7c00 { 65536.0 } else { f64::from(f16::from_bits(bits)) };
    let magnitude = d.abs();
    let guess = f16::from_f64(magnitude).to_bits();
    let mut best = guess.saturating_sub(1);
    for bits in [guess, guess + 1] {
        if bits <= 0x7c00 {
            let (old, new) = ((magnitude - value(best)).abs(), (magnitude - value(bits)).abs());
            if new < old || (new == old && bits % 2 == 0) {
                best = bits;
            }
        }
    }
    if d.is_sign_negative() { -f16::from_bits(best) } else { f16::from_bits(best) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_half_precision_number_and_nothing_is_rounded_twice() {
        // From 2048 to 4096 the step is 2: 2049 is half way.
        assert_eq!(nearest_f16(2049.0), f16::from_f32(2048.0));
        assert_eq!(nearest_f16(2051.0), f16::from_f32(2052.0));
        // A little above half way: rounding to f32 first would lose what lies above.
        assert_eq!(nearest_f16(2049.0 + 1e-9), f16::from_f32(2050.0));
        assert_eq!(nearest_f16(-2049.0 - 1e-9), f16::from_f32(-2050.0));
        assert_eq!(nearest_f16(2051.0 - 1e-9), f16::from_f32(2050.0));
        assert_eq!(nearest_f16(65519.9), f16::from_f32(65504.0));
        assert_eq!(nearest_f16(65520.0), f16::INFINITY);
        assert_eq!(nearest_f16(-65535.0), f16::NEG_INFINITY);
        assert_eq!(nearest_f16(0.0).to_bits(), 0);
        assert_eq!(nearest_f16(-0.0).to_bits(), 0x8000);
        assert_eq!(nearest_f16(1e-9).to_bits(), 0);
        // The vocabulary's fast way says the same, near halves above all.
        for bits in 0..0x7c00u16 {
            let (low, high) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let half = (f64::from(low) + if bits == 0x7bff { 65536.0 } else { f64::from(high) }) / 2.0;
            for d in [half, half * (1.0 - 1e-12), half * (1.0 + 1e-12), half.next_up(), half.next_down()] {
                for d in [d, -d] {
                    assert_eq!(nearest_f16(d).to_bits(), scheidegg_finder::to_f16(d).to_bits(), "{d:e}");
                }
            }
        }
        for bits in (0..0x7c00u16).step_by(7) {
            assert_eq!(nearest_f16(f64::from(f16::from_bits(bits))).to_bits(), bits);
        }
    }

    #[test]
    fn an_even_window_has_its_extra_row_above_and_its_extra_column_to_the_left() {
        let window = Window::around(10, 20, ClusterSize { w: 4, h: 2 });
        assert_eq!((window.rows(), window.cols()), (9..11, 18..22));
        let window = Window::around(0, 0, ClusterSize { w: 3, h: 5 });
        assert_eq!((window.rows(), window.cols()), (-2..3, -1..2));
    }
}
