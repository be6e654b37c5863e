//! Two backends on the same frames.

use scheidegg::io::skip_first;
use scheidegg::{ClustersBuf, Error, Finder, FrameBuf, FrameOwner, Plane, Result};

use super::difference::Difference;
use crate::args::CompareArgs;
use crate::failure::{Failure, Outcome, usage};
use crate::find::{params_for, registry};
use crate::{darks, input, stop};

/// Frames that both find at a time.
const BATCH: usize = 64;

/// Runs both backends; also says whether their pedestals differ at the end.
pub fn compare(args: &CompareArgs) -> Outcome<(Difference, Vec<String>)> {
    let stop = stop::on_signal()?;
    if args.input.dark.is_empty() {
        let e = Error::param("--dark", "nothing", "a file of dark frames, to compare two backends");
        return Err(Failure::Usage(e));
    }
    let mut data = input::open_all("--data", &args.input.data, &args.input.options(), args.input.force)?;
    let shape = data.shape();
    let params = params_for(&args.finder, shape)?;
    let registry = registry(args.cpu.threads, args.cpu.pin)?;
    let mut a = registry.build(&args.a, shape, &params).map_err(usage)?;
    let mut b = registry.build(&args.b, shape, &params).map_err(usage)?;
    for finder in [&mut a, &mut b] {
        darks::train(&mut **finder, &*data, &args.input, args.finder.pedestal_samples, &stop)?;
    }
    skip_first(&mut *data, args.input.first)?;

    let mut found = Difference::default();
    let mut left = args.input.frames.unwrap_or(u64::MAX);
    let mut buf = FrameBuf::new(shape, BATCH);
    let mut results = [0, 1].map(|_| ClustersBuf::new(shape, params.size, params.payload));
    while left > 0 {
        buf.clear();
        buf.limit(usize::try_from(left).unwrap_or(usize::MAX));
        let got = data.read(&mut buf)?;
        if got == 0 {
            break;
        }
        left -= got as u64;
        for (finder, result) in [&mut a, &mut b].into_iter().zip(&mut results) {
            result.clear();
            finder.find(buf.frames(), &mut |batch| {
                result.append(&batch);
                Ok(())
            })?;
        }
        let [ra, rb] = &results;
        for (k, number) in ra.view().numbers().iter().enumerate() {
            found.frame(*number, ra.view().frame(k), rb.view().frame(k));
        }
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Stopped.into());
        }
    }
    let notes = pedestals(&mut *a, &mut *b)?;
    Ok((found, notes))
}

/// A sentence for every lane whose pedestals differ in a bit.
fn pedestals(a: &mut dyn Finder, b: &mut dyn Finder) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for lane in 0..a.params().lanes {
        let (p, q) = (a.pedestal(lane)?, b.pedestal(lane)?);
        let differs = |i: &usize| {
            p.x0[*i] != q.x0[*i]
                || bits(&p.sum, *i) != bits(&q.sum, *i)
                || bits(&p.sum2, *i) != bits(&q.sum2, *i)
        };
        let pixels: Vec<usize> = (0..p.x0.len()).filter(differs).collect();
        if let Some(first) = pixels.first() {
            let (row, col) = (first / p.shape.cols, first % p.shape.cols);
            notes.push(format!(
                "pedestal of lane {lane} at the end: {} pixels differ, the first at row {row}, column {col}",
                pixels.len()
            ));
        }
    }
    Ok(notes)
}

fn bits(plane: &Plane, i: usize) -> u64 {
    match plane {
        Plane::F32(v) => u64::from(v[i].to_bits()),
        Plane::F64(v) => v[i].to_bits(),
    }
}
