//! A stranger's backend in about a hundred lines: it needs the vocabulary and nothing else of scheidegg, and a program meets it as
//! a `Box<dyn Backend>` at run time.
//!
//!     cargo run --release --example toy_backend
//!
//! It computes the default mode only and refuses the rest by name. Whether it is right, the conformance suite says
//! (`tests/tests/toy.rs`).

use scheidegg::{
    Backend, ClusterSize, ClustersBuf, Engine, Error, Finder, Frames, Params, Pedestal, PixelMask, Plane,
    Probe, Registry, Result, Shape, SyncFinder,
};

/// The backend `toy`.
pub struct Toy;

impl Backend for Toy {
    fn name(&self) -> &str {
        "toy"
    }
    fn summary(&self) -> &str {
        "an example: one mode on the CPU, pixel after pixel"
    }
    fn probe(&self) -> Result<Probe> {
        Ok(Probe { device: "any CPU".into(), preference: 0 })
    }
    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        params.validate(shape)?;
        let plain = Params::new(params.size);
        let p = params.clone();
        let (n_sigma, pedestal_samples, mask) = (p.n_sigma, p.pedestal_samples, p.mask.clone());
        if p != (Params { n_sigma, pedestal_samples, mask, ..plain }) {
            let what = "more than the default mode, without a trace (the backend oracle does)".into();
            return Err(Error::Unsupported { backend: "toy".into(), what });
        }
        let engine = ToyEngine { params: p, lane: None, masked: PixelMask::new(shape) };
        Ok(Box::new(SyncFinder::new(engine, shape, params)?))
    }
}

/// What [`SyncFinder`] does not do by itself: hold a pedestal, and turn frames into clusters.
struct ToyEngine {
    params: Params,
    lane: Option<Pedestal>,
    masked: PixelMask,
}

impl Engine for ToyEngine {
    fn name(&self) -> &str {
        "toy"
    }
    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        self.lane = Some(pedestal.clone());
        self.masked = mask.cloned().unwrap_or(PixelMask::new(pedestal.shape));
        Ok(())
    }
    fn find(&mut self, frames: Frames<'_>, _first: u64, out: &mut ClustersBuf) -> Result<u64> {
        let lane = self.lane.as_mut().ok_or_else(|| Error::Other("toy: not started".into()))?;
        for k in 0..frames.len() {
            let mut bad = self.masked.clone();
            frames.lost(k).into_iter().for_each(|lost| bad.union(lost));
            frame(&self.params, lane, &bad, frames.frame(k), frames.number(k), out);
        }
        Ok(0)
    }
    fn pedestal(&self, _lane: usize) -> Pedestal {
        self.lane.clone().expect("a pedestal is asked for after the start")
    }
    fn set_lane(&mut self, _lane: usize, pedestal: &Pedestal) {
        self.lane = Some(pedestal.clone());
    }
}

/// One frame, as SPEC 3 says it.
fn frame(p: &Params, lane: &mut Pedestal, bad: &PixelMask, raw: &[u16], number: u64, out: &mut ClustersBuf) {
    let (Plane::F32(sum), Plane::F32(sum2)) = (&mut lane.sum, &mut lane.sum2) else { return };
    let (Shape { rows, cols }, ClusterSize { w, h }) = (lane.shape, p.size);
    let (inv_n, n_sigma) = (1.0 / lane.samples as f32, p.n_sigma as f32);
    let y: Vec<f32> = raw.iter().zip(&lane.x0).map(|(&x, &x0)| f32::from(x) - f32::from(x0)).collect();
    let d: Vec<f32> = y.iter().zip(&*sum).map(|(y, s)| y - s * inv_n).collect();
    let takes_part = |r: usize, c: usize| r < rows && c < cols && !bad.contains(r, c);
    let (mut records, mut quiet) = (Vec::new(), Vec::new());
    for i in (0..raw.len()).filter(|i| !bad.contains_index(*i)) {
        let (row, col) = (i / cols, i % cols);
        let (mut m, mut t, mut values) = (d[i], 0.0, Vec::new());
        for dy in 0..h {
            let mut row_sum = 0.0;
            for dx in 0..w {
                // Above or left of the frame the index wraps to a huge one, which is outside as well.
                let (r, c) = ((row + dy).wrapping_sub(h / 2), (col + dx).wrapping_sub(w / 2));
                let q = if takes_part(r, c) { Some(d[r * cols + c]) } else { None };
                m = m.max(q.unwrap_or(m));
                row_sum += q.unwrap_or(0.0);
                values.push(q.unwrap_or(0.0).round() as i32);
            }
            t += row_sum;
        }
        let mean = sum[i] * inv_n;
        let thr2 = n_sigma * n_sigma * (sum2[i] * inv_n - mean * mean).max(0.0);
        let photon = (m > 0.0 && m * m > thr2) || (t > 0.0 && t * t > (w * h) as f32 * thr2);
        if d[i] < 0.0 && d[i] * d[i] > thr2 {
            continue;
        } else if !photon {
            quiet.push(i);
        } else if d[i] >= m {
            records.extend([col as u16, row as u16].iter().flat_map(|v| v.to_ne_bytes()));
            records.extend(values.iter().flat_map(|v| v.to_ne_bytes()));
        }
    }
    for i in quiet {
        sum[i] += y[i] - sum[i] * inv_n;
        sum2[i] += y[i] * y[i] - sum2[i] * inv_n;
    }
    out.push_frame(number, &records);
}

fn main() -> Result<()> {
    let shape = Shape::new(20, 30)?;
    let noise = |i: usize| 1000 + (i * 7919 % 23) as u16;
    let darks: Vec<u16> = (0..100 * shape.pixels()).map(noise).collect();
    let mut data: Vec<u16> = (0..3 * shape.pixels()).map(noise).collect();
    data[shape.pixels() + 10 * shape.cols + 12] += 500;

    let mut registry = Registry::standard();
    registry.register(Box::new(Toy));
    let params = Params { pedestal_samples: 100, ..Params::new("3".parse()?) };
    for name in ["toy", "auto"] {
        println!("{name} is {:?}", registry.choose(name, shape, &params)?);
        let mut finder = registry.build(name, shape, &params)?;
        finder.train(Frames::new(&darks, shape)?)?;
        finder.find(Frames::new(&data, shape)?, &mut |batch| {
            for k in 0..batch.frames() {
                let found: Vec<_> = batch.frame(k).map(|c| (c.x, c.y, c.sum())).collect();
                println!("  frame {}: clusters (x, y, sum in ADU) {found:?}", batch.numbers()[k]);
            }
            Ok(())
        })?;
    }
    Ok(())
}
