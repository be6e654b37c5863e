//! The short way to a backend: say the branch of a pixel, and the rest is done here, plainly and on one thread.

use scheidegg_kernels::{Branch, Convert, Real, physics};

use crate::backend::Finder;
use crate::clusters_buf::ClustersBuf;
use crate::error::{Error, Result};
use crate::frames::{Frames, LostPixels, Shape};
use crate::mask::PixelMask;
use crate::params::{Params, Payload, Precision, Update};
use crate::pedestal::Pedestal;
use crate::rounding::to_f16;
use crate::sync::{Engine, SyncFinder};

/// A frame as a decision sees it, in the compute precision `C` ([SPEC 3](crate::spec#3-a-frame)).
///
/// # Shapes
/// `d` and `variance` have one value a pixel, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Corrected<'a, C> {
    /// The parameters of the run.
    pub params: &'a Params,
    /// Rows and columns.
    pub shape: Shape,
    /// Pedestal-subtracted values in ADU; 0 at masked pixels.
    pub d: &'a [C],
    /// Variances in ADU^2, not below the square of the noise floor.
    pub variance: &'a [C],
}

impl<C: Real> Corrected<'_, C> {
    /// The values of the window around a pixel of a row-major index, row by row: 0 outside the frame and at masked
    /// pixels, as a cluster stores them.
    pub fn window(&self, i: usize) -> impl Iterator<Item = C> {
        let (Shape { rows, cols }, size) = (self.shape, self.params.size);
        let (row, col) = (i / cols, i % cols);
        (0..size.pixels()).map(move |k| {
            // Above or left of the frame the index wraps to a huge one, which is outside as well.
            let r = (row + k / size.w).wrapping_sub(size.up());
            let c = (col + k % size.w).wrapping_sub(size.left());
            if r < rows && c < cols { self.d[r * cols + c] } else { C::ZERO }
        })
    }
}

/// The rule that judges a pixel by its window, in any precision.
pub trait Judge: Send {
    /// The branch of the pixel of a row-major index, which is not masked.
    fn branch<C: Real>(&self, frame: &Corrected<'_, C>, i: usize) -> Branch;
}

/// A finder around a rule, for the backend of this name. It subtracts the pedestal, stores the windows that the rule
/// says, and updates the pixels that it calls quiet at the end of the frame.
///
/// # Errors
/// [`Error::Unsupported`] for serial updates, or what [`Params::validate`] says.
pub fn judged(
    name: &'static str,
    judge: impl Judge + 'static,
    shape: Shape,
    params: &Params,
) -> Result<Box<dyn Finder>> {
    params.validate(shape)?;
    if params.update == Update::Serial {
        let what = "serial updates (the backends cpu and oracle do)".into();
        return Err(Error::Unsupported { backend: name.into(), what });
    }
    let (params, mask) = (params.clone(), PixelMask::new(shape));
    let engine = Judged { name, judge, params: params.clone(), mask, lanes: Vec::new() };
    Ok(Box::new(SyncFinder::new(engine, shape, &params)?))
}

struct Judged<J> {
    name: &'static str,
    judge: J,
    params: Params,
    mask: PixelMask,
    lanes: Vec<Pedestal>,
}

impl<J: Judge> Judged<J> {
    /// One frame, judged by a lane's pedestal as it is; then the pedestal is updated. Returns the records and how many
    /// values were cut to fit.
    fn frame<P: Convert<C>, C: Real>(
        &mut self,
        lane: usize,
        raw: &[u16],
        masked: PixelMask,
        branches: &mut [Branch],
    ) -> Result<(Vec<u8>, u64)> {
        let (params, lane) = (&self.params, &mut self.lanes[lane]);
        let inv_n = P::from_f64(lane.samples as f64).recip();
        let floor = C::from_f64(params.noise_floor_adu);
        let value = |i: usize| {
            let y = P::from_i32(i32::from(raw[i]) - i32::from(lane.x0[i]));
            physics::corrected(y, P::from_f64(lane.sum.get(i)), inv_n)
        };
        let d: Vec<C> =
            (0..raw.len()).map(|i| if masked.contains_index(i) { C::ZERO } else { value(i) }).collect();
        let variance: Vec<C> = (0..raw.len())
            .map(|i| match &lane.fixed_variance {
                Some(fixed) => physics::fixed_variance(P::from_f64(fixed.get(i)), floor * floor),
                None => {
                    let (sum, sum2) = (P::from_f64(lane.sum.get(i)), P::from_f64(lane.sum2.get(i)));
                    physics::variance(sum, sum2, inv_n, floor * floor)
                }
            })
            .collect();
        let frame = Corrected { params, shape: lane.shape, d: &d, variance: &variance };
        let (mut records, mut cut, mut loud) = (Vec::new(), 0, masked.clone());
        for i in (0..raw.len()).filter(|&i| !masked.contains_index(i)) {
            branches[i] = self.judge.branch(&frame, i);
            if branches[i] != Branch::Update {
                loud.insert_index(i);
            }
            if branches[i].is_stored() {
                let (row, col) = (i / lane.shape.cols, i % lane.shape.cols);
                records.extend([col as u16, row as u16].iter().flat_map(|v| v.to_ne_bytes()));
                frame.window(i).for_each(|d| cut += u64::from(store(d, params.payload, &mut records)));
            }
        }
        // Pixels that are not fed back are to the pedestal what lost ones are.
        let loud = [LostPixels { frame: 0, mask: loud }];
        lane.update(Frames::new(raw, lane.shape)?.with_lost(&loud)?)?;
        Ok((records, cut))
    }
}

/// Appends a value as a payload has it ([SPEC 3](crate::spec#3-a-frame)) and says whether it was cut to fit.
fn store<C: Real>(d: C, payload: Payload, records: &mut Vec<u8>) -> bool {
    let mut saturated = false;
    match payload {
        Payload::I32 => records.extend(physics::round_half_away(d).to_ne_bytes()),
        Payload::I16 => {
            let (value, cut) = physics::round_to_i16(d);
            records.extend(value.to_ne_bytes());
            saturated = cut;
        }
        Payload::F16 => records.extend(to_f16(d.to_f64()).to_ne_bytes()),
        Payload::F32 => records.extend((d.to_f64() as f32).to_ne_bytes()),
    }
    saturated
}

impl<J: Judge> Engine for Judged<J> {
    fn name(&self) -> &str {
        self.name
    }

    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        self.lanes = vec![pedestal.clone(); self.params.lanes];
        self.mask = mask.cloned().unwrap_or_else(|| PixelMask::new(pedestal.shape));
        Ok(())
    }

    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        let mut saturated = 0;
        for k in 0..frames.len() {
            let lane = ((first + k as u64) % self.lanes.len() as u64) as usize;
            let mut masked = self.mask.clone();
            frames.lost(k).into_iter().for_each(|lost| masked.union(lost));
            let raw = frames.frame(k);
            let mut branches = vec![Branch::Masked; raw.len()];
            let (records, cut) = match self.params.precision {
                Precision::F32 => self.frame::<f32, f32>(lane, raw, masked, &mut branches),
                Precision::F64F32 => self.frame::<f64, f32>(lane, raw, masked, &mut branches),
                Precision::F64 => self.frame::<f64, f64>(lane, raw, masked, &mut branches),
            }?;
            out.push_frame(frames.number(k), &records);
            if self.params.trace {
                let codes: Vec<u8> = branches.iter().map(|b| *b as u8).collect();
                out.push_trace(&codes);
            }
            saturated += cut;
        }
        Ok(saturated)
    }

    fn pedestal(&self, lane: usize) -> Pedestal {
        self.lanes[lane].clone()
    }

    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        self.lanes[lane] = pedestal.clone();
    }
}
