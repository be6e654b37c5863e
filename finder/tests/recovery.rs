//! An engine that fails once, at every call that there is, by an error and by a panic: afterwards `abandon` and
//! `set_pedestal` make the finder as good as new.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scheidegg_finder::{
    ClusterSize, ClustersBuf, Engine, Error, Finder, Frames, Noise, Params, Pedestal, PixelMask, Plane,
    Result, Shape, SyncFinder,
};

const SHAPE: Shape = Shape { rows: 2, cols: 3 };

/// Every frame raises the sum of its lane by one; a frame has as many clusters as its lane had frames before it.
struct Fragile {
    lanes: Vec<Pedestal>,
    params: Params,
    /// Calls until one fails.
    fuse: Arc<AtomicUsize>,
    by_panic: bool,
}

impl Fragile {
    fn burn(&self) -> Result<()> {
        if self.fuse.fetch_sub(1, Ordering::Relaxed) == 1 {
            if self.by_panic {
                // Without the words of a panic that nobody expects.
                resume_unwind(Box::new("burnt".to_string()));
            }
            return Err(Error::Other("burnt".into()));
        }
        Ok(())
    }

    /// Where no error can be returned.
    fn burn_out(&self) {
        if self.burn().is_err() {
            resume_unwind(Box::new("burnt".to_string()));
        }
    }
}

impl Engine for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }
    fn start(&mut self, pedestal: &Pedestal, _: Option<&PixelMask>) -> Result<()> {
        self.lanes = vec![pedestal.clone()];
        self.burn()?;
        self.lanes = vec![pedestal.clone(); self.params.lanes];
        Ok(())
    }
    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        for k in 0..frames.len() {
            let lane = ((first + k as u64) % self.lanes.len() as u64) as usize;
            let Plane::F32(sum) = &mut self.lanes[lane].sum else { unreachable!("single precision") };
            let clusters = sum[0] as usize % 5;
            sum.iter_mut().for_each(|s| *s += 1.0);
            let b = out.view().record_bytes();
            out.push_frame(frames.number(k), &vec![lane as u8; clusters * b]);
            self.burn()?;
        }
        Ok(1)
    }
    fn pedestal(&self, lane: usize) -> Pedestal {
        self.burn_out();
        self.lanes[lane].clone()
    }
    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        self.burn_out();
        self.lanes[lane] = pedestal.clone();
    }
    fn batch_frames(&self) -> usize {
        2
    }
}

/// Frame numbers with their clusters, and the pedestals at the end.
type Found = (Vec<(u64, usize)>, Vec<Pedestal>);

/// Everything that a finder does, and what came of it.
fn script(finder: &mut dyn Finder, pixels: &[u16]) -> Result<Found> {
    let frames = Frames::new(pixels, SHAPE)?;
    let mut found = Vec::new();
    let mut take = |batch: scheidegg_finder::Clusters<'_>| {
        found.extend((0..batch.frames()).map(|k| (batch.numbers()[k], batch.frame(k).len())));
        Ok(())
    };
    finder.find(frames.slice(0, 5), &mut take)?;
    finder.train(frames.slice(0, 2))?;
    finder.refresh_noise()?;
    let a = finder.submit(frames.slice(5, 1))?;
    let b = finder.submit(frames.slice(6, 2))?;
    take(finder.collect(a)?)?;
    take(finder.collect(b)?)?;
    finder.find(frames.slice(8, 4), &mut take)?;
    let pedestals = (0..3).map(|lane| finder.pedestal(lane)).collect::<Result<_>>()?;
    Ok((found, pedestals))
}

fn fragile(fuse: &Arc<AtomicUsize>, by_panic: bool) -> SyncFinder<Fragile> {
    let params = Params {
        pedestal_samples: 2,
        lanes: 3,
        noise: Noise::Fixed,
        ..Params::new(ClusterSize { w: 2, h: 2 })
    };
    let engine = Fragile { lanes: Vec::new(), params: params.clone(), fuse: fuse.clone(), by_panic };
    SyncFinder::new(engine, SHAPE, &params).unwrap()
}

#[test]
fn whatever_call_fails_the_finder_begins_anew() {
    let pixels: Vec<u16> = (0..6 * 12).map(|i| 100 + i % 7).collect();
    let darks = Frames::new(&pixels[..12], SHAPE).unwrap();
    for by_panic in [false, true] {
        let fuse = Arc::new(AtomicUsize::new(usize::MAX));
        let mut sound = fragile(&fuse, by_panic);
        sound.train(darks).unwrap();
        let saved = sound.pedestal(0).unwrap();
        let want = script(&mut sound, &pixels).unwrap();
        let calls = usize::MAX - fuse.load(Ordering::Relaxed);
        assert!(calls > 25, "{calls} calls of the engine");
        for n in 1..=calls {
            let mut finder = fragile(&fuse, by_panic);
            fuse.store(usize::MAX, Ordering::Relaxed);
            finder.train(darks).unwrap();
            fuse.store(n, Ordering::Relaxed);
            let words = script(&mut finder, &pixels).unwrap_err().to_string();
            assert!(words.contains("burnt"), "call {n}: {words}");
            fuse.store(usize::MAX, Ordering::Relaxed);
            // What was found before the failure may still be collected; here nobody does.
            finder.abandon();
            finder.set_pedestal(&saved).unwrap();
            assert_eq!(finder.in_flight(), 0);
            let got = script(&mut finder, &pixels).unwrap_or_else(|e| panic!("after call {n} failed: {e}"));
            assert_eq!(got, want, "after call {n} failed");
        }
    }
}

#[test]
fn a_pedestal_that_failed_half_way_is_not_handed_out() {
    let pixels: Vec<u16> = (0..6 * 4).map(|i| 100 + i % 7).collect();
    let frames = Frames::new(&pixels, SHAPE).unwrap();
    let fuse = Arc::new(AtomicUsize::new(usize::MAX));
    let mut finder = fragile(&fuse, false);
    finder.train(frames.slice(0, 2)).unwrap();
    finder.find(frames, &mut |_| Ok(())).unwrap();
    // Lane 0 is read and set, lane 1 fails.
    fuse.store(3, Ordering::Relaxed);
    finder.train(frames).unwrap_err();
    for words in [
        finder.pedestal(0).unwrap_err().to_string(),
        finder.refresh_noise().unwrap_err().to_string(),
        finder.submit(frames).unwrap_err().to_string(),
    ] {
        assert!(words.contains("set_pedestal starts anew"), "{words}");
    }
}

#[test]
fn tickets_are_good_once_and_only_where_they_come_from() {
    let pixels = [100u16; 6 * 3];
    let frames = Frames::new(&pixels, SHAPE).unwrap();
    let fuse = Arc::new(AtomicUsize::new(usize::MAX));
    let (mut a, mut b) = (fragile(&fuse, false), fragile(&fuse, false));
    a.train(frames).unwrap();
    b.train(frames).unwrap();
    let first = a.submit(frames).unwrap();
    let second = a.submit(frames).unwrap();
    let refused = a.collect(second).unwrap_err();
    let words = refused.to_string();
    assert_eq!(words, "ticket 1 is not the oldest in flight: collect ticket 0 first, or abandon them all");
    let Error::WrongTicket { ticket: second, .. } = refused else { panic!("{words}") };
    let refused = b.collect(first).unwrap_err();
    assert_eq!(refused.to_string(), "ticket 0 was given by another finder: collect it there");
    let Error::WrongTicket { ticket: first, .. } = refused else { unreachable!() };
    let words = a.submit(frames).unwrap_err().to_string();
    let way = "collect the oldest ticket first, or abandon them all (Finder::abandon)";
    assert_eq!(words, format!("2 batches are in flight: {way}"));
    assert_eq!(a.collect(first).unwrap().frames(), 3);
    let words = a.train(frames).unwrap_err().to_string();
    assert_eq!(words, format!("1 batch is in flight: {way}"));
    assert_eq!(a.abandon(), 1);
    let words = a.collect(second).unwrap_err().to_string();
    assert_eq!(words, "ticket 1 is of a batch that was abandoned: submit its frames again");
    a.train(frames).unwrap();
}

#[test]
fn a_dropped_receiver_leaves_nothing_in_flight() {
    let pixels = [100u16; 6 * 40];
    let frames = Frames::new(&pixels, SHAPE).unwrap();
    let fuse = Arc::new(AtomicUsize::new(usize::MAX));
    let mut finder = fragile(&fuse, false);
    finder.train(frames.slice(0, 2)).unwrap();
    let alive = Rc::new(Cell::new(0));
    let counted = Rc::clone(&alive);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        finder.find(frames, &mut |_| {
            counted.set(counted.get() + 1);
            resume_unwind(Box::new("a receiver's fault"))
        })
    }));
    assert!(unwound.is_err());
    assert_eq!((alive.get(), finder.in_flight()), (1, 0));
    let mut left = 0;
    finder
        .find(frames.slice(0, 7), &mut |batch| {
            left += batch.frames();
            Ok(())
        })
        .unwrap();
    assert_eq!(left, 7);
}
