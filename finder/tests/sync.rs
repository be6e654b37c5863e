//! A synchronous finder around an engine that counts frames and can be told to fail: tickets, order, errors.

use scheidegg_finder::{
    ClusterSize, ClustersBuf, Engine, Error, Finder, Frames, Noise, Params, Pedestal, PixelMask, Plane,
    Result, Shape, SyncFinder,
};

const SHAPE: Shape = Shape { rows: 2, cols: 2 };
const PANIC: u16 = 1;
const ERROR: u16 = 2;

/// Remembers which frames of the run it saw; fails at frames that begin with [`PANIC`] or [`ERROR`].
struct Counting {
    lanes: Vec<Pedestal>,
    masked: usize,
    seen: Vec<u64>,
    params: Params,
}

impl Engine for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        assert!(pedestal.x0[0] != 13, "an unlucky pedestal");
        self.lanes = vec![pedestal.clone(); self.params.lanes];
        self.masked = mask.map_or(0, PixelMask::count);
        self.seen.clear();
        Ok(())
    }
    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        for k in 0..frames.len() {
            match frames.frame(k)[0] {
                PANIC => panic!("frame {k} is out of hand"),
                ERROR => return Err(Error::Other(format!("frame {k} is bad"))),
                _ => {}
            }
            self.seen.push(first + k as u64);
            out.push_frame(frames.number(k), &[]);
        }
        Ok(7)
    }
    fn pedestal(&self, lane: usize) -> Pedestal {
        self.lanes[lane].clone()
    }
    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        self.lanes[lane] = pedestal.clone();
    }
    fn batch_frames(&self) -> usize {
        3
    }
}

fn finder(change: impl Fn(&mut Params)) -> SyncFinder<Counting> {
    let mut params = Params { pedestal_samples: 2, ..Params::new(ClusterSize { w: 2, h: 2 }) };
    change(&mut params);
    let engine = Counting { lanes: Vec::new(), masked: 0, seen: Vec::new(), params: params.clone() };
    SyncFinder::new(engine, SHAPE, &params).unwrap()
}

fn trained(change: impl Fn(&mut Params)) -> SyncFinder<Counting> {
    let mut finder = finder(change);
    finder.train(Frames::new(&[10, 20, 30, 40, 12, 20, 30, 40], SHAPE).unwrap()).unwrap();
    finder
}

fn frames(pixels: &[u16]) -> Frames<'_> {
    Frames::new(pixels, SHAPE).unwrap()
}

#[test]
fn frames_of_a_run_are_counted_on_over_batches_until_a_pedestal_is_set() {
    let mut finder = trained(|_| {});
    assert_eq!(finder.backend(), "counting");
    let pixels = [9u16; 4 * 7];
    finder.find(frames(&pixels), &mut |_| Ok(())).unwrap();
    let ticket = finder.submit(frames(&pixels[..8])).unwrap();
    finder.collect(ticket).unwrap();
    assert_eq!(finder.engine().seen, (0..9).collect::<Vec<_>>());
    let s = finder.statistics();
    assert_eq!((s.frames, s.saturated), (9, 4 * 7));
    let pedestal = finder.pedestal(0).unwrap();
    finder.set_pedestal(&pedestal).unwrap();
    let ticket = finder.submit(frames(&pixels[..4])).unwrap();
    finder.collect(ticket).unwrap();
    assert_eq!(finder.engine().seen, [0]);
}

#[test]
fn batches_before_a_refused_one_are_handed_out_and_none_after() {
    for bad in [PANIC, ERROR] {
        let mut finder = trained(|_| {});
        let mut pixels = [9u16; 4 * 20];
        pixels[4 * 7] = bad;
        let mut got: Vec<u64> = Vec::new();
        let outcome = finder.find(frames(&pixels), &mut |batch| {
            got.extend(batch.numbers());
            Ok(())
        });
        let words = outcome.unwrap_err().to_string();
        assert!(words.contains("frame 1 is"), "{words}");
        assert_eq!(got, (0..6).collect::<Vec<u64>>());
        for words in [
            finder.submit(frames(&pixels[..4])).unwrap_err().to_string(),
            finder.pedestal(0).unwrap_err().to_string(),
            finder.train(frames(&pixels[..4])).unwrap_err().to_string(),
        ] {
            assert!(words.contains("set_pedestal starts anew"), "{words}");
        }
    }
    // The receiver's error comes before that of a later batch.
    let mut finder = trained(|_| {});
    let mut pixels = [9u16; 4 * 20];
    pixels[4 * 7] = ERROR;
    let mut calls = 0;
    let outcome = finder.find(frames(&pixels), &mut |_| {
        calls += 1;
        Err(Error::Stopped)
    });
    assert!(matches!(outcome, Err(Error::Stopped)) && calls == 1, "{outcome:?} after {calls} calls");
}

#[test]
fn a_panic_at_the_start_is_an_error_too() {
    let mut finder = finder(|_| {});
    finder.train(frames(&[13; 8])).unwrap();
    let words = finder.submit(frames(&[9; 4])).unwrap_err().to_string();
    assert!(words.contains("backend counting: internal error: an unlucky pedestal"), "{words}");
    assert_eq!(finder.statistics().frames, 0);
}

#[test]
fn noise_is_refreshed_lane_by_lane_and_only_when_it_is_fixed() {
    let mut tracked = trained(|p| p.lanes = 2);
    tracked.refresh_noise().unwrap();
    assert!(tracked.pedestal(1).unwrap().fixed_variance.is_none());

    let mut fixed = trained(|p| (p.lanes, p.noise) = (2, Noise::Fixed));
    let ticket = fixed.submit(frames(&[9; 4])).unwrap();
    fixed.collect(ticket).unwrap();
    let mut other = fixed.pedestal(1).unwrap();
    other.sum2 = Plane::F32(vec![200.0; 4]);
    let before = fixed.pedestal(0).unwrap();
    let mut anew = trained(|p| (p.lanes, p.noise) = (2, Noise::Fixed));
    anew.set_pedestal(&other).unwrap();
    anew.refresh_noise().unwrap();
    assert_eq!(anew.pedestal(1).unwrap().fixed_variance, Some(Plane::F32(vec![100.0; 4])));
    fixed.train(frames(&[11, 20, 30, 40])).unwrap();
    let after = fixed.pedestal(1).unwrap();
    assert_eq!(after.fixed_variance, before.fixed_variance);
    assert_ne!(after.sum2, before.sum2);
    fixed.refresh_noise().unwrap();
    assert_ne!(fixed.pedestal(1).unwrap().fixed_variance, before.fixed_variance);
}

#[test]
fn a_run_starts_with_the_mask_of_parameters_and_training() {
    let mut mask = PixelMask::new(SHAPE);
    mask.insert(1, 1);
    let mut finder = trained(|p| p.mask = Some(mask.clone().into()));
    let ticket = finder.submit(frames(&[9; 4])).unwrap();
    finder.collect(ticket).unwrap();
    assert_eq!(finder.engine().masked, 1);
    let mut pedestal = finder.pedestal(0).unwrap();
    let mut untrained = PixelMask::new(SHAPE);
    untrained.insert(0, 0);
    pedestal.untrained = Some(untrained);
    finder.set_pedestal(&pedestal).unwrap();
    let ticket = finder.submit(frames(&[9; 4])).unwrap();
    finder.collect(ticket).unwrap();
    assert_eq!(finder.engine().masked, 2);
}
