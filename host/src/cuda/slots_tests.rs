//! Order, overflow and errors, with a device that needs no GPU.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use scheidegg_finder::{ClusterSize, Finder, Numbers, Payload};

use super::*;
use crate::cuda::CudaFinder;
use crate::cuda::memory::pretend_locked;
use crate::cuda::mock::{Control, Mock, lock};

const ROWS: usize = 4;
const COLS: usize = 5;
const N: usize = ROWS * COLS;

fn shape() -> Shape {
    Shape::new(ROWS, COLS).unwrap()
}

fn params(lanes: usize) -> Params {
    let size = ClusterSize::square(3).unwrap();
    Params { lanes, payload: Payload::I16, pedestal_samples: 2, ..Params::new(size) }
}

/// Frames with some pixels above any level and many near it.
fn pixels(frames: usize) -> Vec<u16> {
    (0..frames * N).map(|i| ((i * 2_654_435_761) >> 7) as u16 % 64).collect()
}

struct Bench {
    finder: CudaFinder,
    control: Arc<Mutex<Control>>,
}

impl Bench {
    fn with(lanes: usize, slots: usize, chunk_frames: usize, room: u64) -> Bench {
        scheidegg_conformance::watchdog::over_this_test();
        let control = Arc::new(Mutex::new(Control { room, most: u64::MAX, ..Control::default() }));
        let params = params(lanes);
        let mock = Mock::new(shape(), &params, slots, &control);
        let kind = Kind { shape: shape(), params, slots, chunk_frames };
        let mut finder = CudaFinder::on(Box::new(mock), kind).unwrap();
        let darks = vec![0u16; 2 * N];
        finder.train(Frames::new(&darks, shape()).unwrap()).unwrap();
        Bench { finder, control }
    }

    fn new() -> Bench {
        Self::with(1, 3, 4, u64::MAX)
    }

    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        lock(&self.control)
    }
}

fn frames(pixels: &[u16]) -> Frames<'_> {
    Frames::new(pixels, shape()).unwrap().with_numbers(Numbers::From(100)).unwrap()
}

type Found = Vec<(u64, Vec<u8>)>;

fn take(into: &mut Found, c: &Clusters<'_>) {
    into.extend((0..c.frames()).map(|k| (c.numbers()[k], c.frame_bytes(k).to_vec())));
}

/// What must come out, by counting anew.
fn expected(pixels: &[u16], lanes: usize) -> Found {
    let mut levels = vec![0u16; lanes];
    let mut all = Found::new();
    for (k, frame) in pixels.chunks(N).enumerate() {
        let level = &mut levels[k % lanes];
        let mut bytes = Vec::new();
        for (i, v) in frame.iter().enumerate().filter(|(_, v)| *v > level) {
            let record: Vec<u16> =
                [(i % COLS) as u16, (i / COLS) as u16].into_iter().chain([*v; 9]).collect();
            bytes.extend(record.iter().flat_map(|w| w.to_ne_bytes()));
        }
        all.push((100 + k as u64, bytes));
        *level += 1;
    }
    all
}

#[test]
fn results_do_not_depend_on_chunks_slots_or_room() {
    let pixels = pixels(37);
    for lanes in [1, 2, 5] {
        let want = expected(&pixels, lanes);
        for slots in [1, 2, 3, 5] {
            for chunk in [1, 2, 7, 36, 37, 64] {
                for room in [0, 1, 9, 40, u64::MAX] {
                    let mut b = Bench::with(lanes, slots, chunk, room);
                    let mut got = Found::new();
                    b.finder
                        .find(frames(&pixels), &mut |c| {
                            take(&mut got, &c);
                            Ok(())
                        })
                        .unwrap();
                    assert_eq!(got, want, "{lanes} lanes, {slots} slots, chunks of {chunk}, room {room}");
                    let s = b.finder.statistics();
                    assert_eq!(s.frames, 37);
                    assert_eq!(s.redone as usize, b.control().redone);
                    let too_many = want
                        .chunks(chunk)
                        .filter(|c| c.iter().map(|(_, bytes)| bytes.len() as u64 / 22).sum::<u64>() > room);
                    assert_eq!(s.redone as usize, too_many.count(), "{lanes} {slots} {chunk} {room}");
                    assert_eq!(b.control().in_flight, 0);
                    // The levels went up once a frame, however often a chunk was done.
                    for lane in 0..lanes {
                        let level = b.finder.pedestal(lane).unwrap().sum.get(0);
                        assert_eq!(level, (lane..37).step_by(lanes).count() as f64);
                    }
                }
            }
        }
    }
}

#[test]
fn tickets_come_back_in_order_and_slots_run_out() {
    let pixels = pixels(12);
    let mut b = Bench::new();
    let f = frames(&pixels);
    let tickets: Vec<_> = (0..3).map(|i| b.finder.submit(f.slice(4 * i, 4)).unwrap()).collect();
    assert_eq!(tickets.iter().map(Ticket::number).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(b.finder.in_flight(), 3);
    assert!(matches!(b.finder.submit(f.slice(0, 1)), Err(Error::SlotsFull { slots: 3 })));
    assert!(matches!(b.finder.train(f.slice(0, 1)), Err(Error::SlotsFull { slots: 3 })));
    assert!(matches!(b.finder.reserve(), Err(Error::SlotsFull { slots: 3 })));
    let [oldest, younger, youngest]: [Ticket; 3] = tickets.try_into().unwrap();
    let wrong = b.finder.collect(younger).err().unwrap();
    assert_eq!(
        wrong.to_string(),
        "ticket 1 is not the oldest in flight: collect ticket 0 first, or abandon them all"
    );
    let Error::WrongTicket { ticket: younger, .. } = wrong else { panic!("{wrong}") };
    let mut got = Found::new();
    for t in [oldest, younger, youngest] {
        take(&mut got, &b.finder.collect(t).unwrap());
    }
    assert_eq!(got, expected(&pixels, 1));
    let mut other = Bench::new();
    let foreign = other.finder.submit(f.slice(0, 1)).unwrap();
    let none = b.finder.collect(foreign).err().unwrap().to_string();
    assert_eq!(none, "ticket 0 was given by another finder: collect it there");
}

#[test]
fn batches_that_cannot_be_are_refused_and_change_nothing() {
    let pixels = pixels(8);
    let mut b = Bench::new();
    let e = b.finder.submit(frames(&pixels)).err().unwrap().to_string();
    assert!(e.contains("at most 4 (max_batch_frames)"), "{e}");
    let other = Frames::new(&pixels, Shape::new(2, 2).unwrap()).unwrap();
    assert!(matches!(b.finder.submit(other), Err(Error::ShapeMismatch { .. })));
    assert!(matches!(b.finder.find(other, &mut |_| Ok(())), Err(Error::ShapeMismatch { .. })));
    assert_eq!(b.control().started, 0);
}

#[test]
fn an_empty_batch_has_a_ticket_and_no_clusters() {
    let pixels = pixels(2);
    let mut b = Bench::new();
    let f = frames(&pixels);
    let (a, z, c) = (
        b.finder.submit(f.slice(0, 1)).unwrap(),
        b.finder.submit(f.slice(1, 0)).unwrap(),
        b.finder.submit(f.slice(1, 1)).unwrap(),
    );
    let mut got = Found::new();
    take(&mut got, &b.finder.collect(a).unwrap());
    let empty = b.finder.collect(z).unwrap();
    assert_eq!((empty.frames(), empty.len()), (0, 0));
    take(&mut got, &b.finder.collect(c).unwrap());
    assert_eq!(got, expected(&pixels, 1));
}

#[test]
fn what_finds_no_room_is_an_error_and_the_rest_stays_valid() {
    let pixels = pixels(12);
    let want = expected(&pixels, 1);
    let found = |k: usize| want[k].1.len() as u64 / 22;
    let mut b = Bench::with(1, 3, 4, u64::MAX);
    let f = frames(&pixels);
    let first = b.finder.submit(f.slice(0, 4)).unwrap();
    {
        let mut c = b.control();
        (c.room, c.most) = (5, 5);
    }
    let second = b.finder.submit(f.slice(4, 4)).unwrap();
    {
        let mut c = b.control();
        (c.room, c.most) = (u64::MAX, u64::MAX);
    }
    let third = b.finder.submit(f.slice(8, 4)).unwrap();
    let mut got = Found::new();
    take(&mut got, &b.finder.collect(first).unwrap());
    b.control().most = 5;
    let most = (4..8).max_by_key(|k| (found(*k), *k)).unwrap();
    match b.finder.collect(second).err().unwrap() {
        Error::Overflow { frame, found: n, capacity } => {
            assert_eq!((frame, n, capacity), (100 + most as u64, found(most), 1));
        }
        other => panic!("{other}"),
    }
    take(&mut got, &b.finder.collect(third).unwrap());
    assert_eq!(got[..4], want[..4]);
    assert_eq!(got[4..], want[8..], "the pedestal does not depend on the room");
    let again = b.finder.submit(f.slice(0, 1)).unwrap();
    b.finder.collect(again).unwrap();
}

#[test]
fn a_lost_device_leaves_the_finished_chunks_delivered() {
    let pixels = pixels(20);
    let mut b = Bench::with(1, 4, 4, u64::MAX);
    let f = frames(&pixels);
    let tickets: Vec<_> = (0..4).map(|i| b.finder.submit(f.slice(4 * i, 4)).unwrap()).collect();
    let mut tickets = tickets.into_iter();
    b.control().lost_from = Some(2);
    let mut got = Found::new();
    take(&mut got, &b.finder.collect(tickets.next().unwrap()).unwrap());
    take(&mut got, &b.finder.collect(tickets.next().unwrap()).unwrap());
    assert_eq!(got[..], expected(&pixels, 1)[..8]);
    for t in tickets {
        let e = b.finder.collect(t).err().unwrap().to_string();
        assert_eq!(e, "cuda: cuEventSynchronize: device lost");
    }
    let e = b.finder.submit(f.slice(16, 4)).err().unwrap().to_string();
    assert!(e.contains("device lost") && e.contains("set_pedestal"), "{e}");
    assert_eq!(b.control().in_flight, 0);
    assert_eq!(b.finder.statistics().frames, 8);
}

#[test]
fn find_hands_out_what_was_finished_before_the_device_was_lost() {
    let pixels = pixels(20);
    let mut b = Bench::with(1, 2, 4, u64::MAX);
    b.control().lost_from = Some(3);
    let mut got = Found::new();
    let e = b.finder.find(frames(&pixels), &mut |c| {
        take(&mut got, &c);
        Ok(())
    });
    assert!(e.unwrap_err().to_string().contains("device lost"));
    assert!(got.len() >= 8, "{} frames", got.len());
    assert_eq!(got[..], expected(&pixels, 1)[..got.len()]);
}

#[test]
fn a_chunk_that_cannot_start_leaves_those_before_it_and_a_new_run_goes_on() {
    let pixels = pixels(12);
    let mut b = Bench::new();
    let f = frames(&pixels);
    b.control().fail_start = Some(1);
    let saved = b.finder.pedestal(0).unwrap();
    let first = b.finder.submit(f.slice(0, 4)).unwrap();
    let e = b.finder.submit(f.slice(4, 4)).err().unwrap().to_string();
    assert_eq!(e, "cuda: cuLaunchKernel: refused");
    assert!(b.finder.submit(f.slice(4, 4)).is_err(), "the pedestal is not known");
    let mut got = Found::new();
    take(&mut got, &b.finder.collect(first).unwrap());
    assert_eq!(got[..], expected(&pixels, 1)[..4]);
    // From a saved pedestal, frame 0 of a new run.
    assert!(b.finder.pedestal(0).is_err());
    b.finder.set_pedestal(&saved).unwrap();
    let mut got = Found::new();
    b.finder
        .find(f, &mut |c| {
            take(&mut got, &c);
            Ok(())
        })
        .unwrap();
    assert_eq!(got, expected(&pixels, 1));
}

struct Owner(Vec<u16>);
impl FrameOwner for Owner {
    fn frames(&self) -> Frames<'_> {
        Frames::new(&self.0, shape()).unwrap()
    }
}

#[test]
fn an_owner_is_kept_until_its_frames_are_collected() {
    let mut b = Bench::new();
    let owner = Arc::new(Owner(pixels(4)));
    let listed = pretend_locked(&owner.0);
    let t = b.finder.submit_shared(owner.clone()).unwrap();
    assert_eq!(b.control().places, [Place::InPlace]);
    assert_eq!(Arc::strong_count(&owner), 2);
    b.finder.collect(t).unwrap();
    assert_eq!(Arc::strong_count(&owner), 1, "let go when collected");
    // One whose start fails is let go too, after the device has come to rest.
    b.control().fail_start = Some(1);
    b.finder.submit_shared(owner.clone()).unwrap_err();
    assert_eq!((Arc::strong_count(&owner), b.control().in_flight), (1, 0));
    drop(listed);
    // Memory that is not page-locked is copied, and nobody is kept.
    let mut b = Bench::new();
    let t = b.finder.submit_shared(owner.clone()).unwrap();
    assert_eq!(b.control().places, [Place::Copied]);
    assert_eq!(Arc::strong_count(&owner), 1);
    b.finder.collect(t).unwrap();
}

#[test]
fn a_finder_that_goes_lets_its_owners_go() {
    let mut b = Bench::new();
    let owner = Arc::new(Owner(pixels(4)));
    let _listed = pretend_locked(&owner.0);
    drop(b.finder.submit_shared(owner.clone()).unwrap());
    let control = b.control.clone();
    drop(b);
    assert_eq!((Arc::strong_count(&owner), lock(&control).in_flight), (1, 0));
}

#[test]
fn borrowed_frames_are_let_go_before_find_returns_or_unwinds() {
    let pixels = pixels(40);
    let _listed = pretend_locked(&pixels);
    let mut b = Bench::new();
    let mut calls = 0;
    let outcome = b.finder.find(frames(&pixels), &mut |_| {
        calls += 1;
        if calls == 2 { Err(Error::Stopped) } else { Ok(()) }
    });
    assert!(matches!(outcome, Err(Error::Stopped)));
    assert_eq!((calls, b.control().in_flight), (2, 0));
    assert!(b.control().places.iter().all(|p| *p == Place::InPlace));
    let unwound =
        catch_unwind(AssertUnwindSafe(|| b.finder.find(frames(&pixels), &mut |_| panic!("a sink's fault"))));
    assert!(unwound.is_err());
    assert_eq!(b.control().in_flight, 0);
    // The finder can be used again.
    let t = b.finder.submit(frames(&pixels).slice(0, 4)).unwrap();
    b.finder.collect(t).unwrap();
}

#[test]
fn what_is_collected_may_be_left_uncollected_when_it_goes() {
    let pixels = pixels(8);
    let mut b = Bench::new();
    drop(b.finder.submit(frames(&pixels).slice(0, 4)).unwrap());
    let e = b.finder.find(frames(&pixels), &mut |_| Ok(())).unwrap_err();
    assert!(matches!(e, Error::SlotsFull { slots: 1 }), "find does not mix with batches in flight: {e}");
    assert_eq!((b.finder.abandon(), b.control().in_flight), (1, 0));
    let mut got = Found::new();
    let rest = frames(&pixels).slice(4, 4);
    b.finder
        .find(rest, &mut |c| {
            take(&mut got, &c);
            Ok(())
        })
        .unwrap();
    assert_eq!(got, expected(&pixels, 1)[4..], "frames are counted on from those that were abandoned");
    assert_eq!(b.finder.statistics().frames, 4, "what was collected");
}

#[test]
fn the_lanes_pedestals_are_changed_by_darks_of_a_running_finder() {
    let pixels = pixels(6);
    let mut b = Bench::with(3, 2, 8, u64::MAX);
    b.finder.find(frames(&pixels), &mut |_| Ok(())).unwrap();
    let before: Vec<_> = (0..3).map(|l| b.finder.pedestal(l).unwrap()).collect();
    let darks = vec![7u16; N];
    b.finder.train(Frames::new(&darks, shape()).unwrap()).unwrap();
    for (lane, mut p) in before.into_iter().enumerate() {
        p.update(Frames::new(&darks, shape()).unwrap()).unwrap();
        assert_eq!(b.finder.pedestal(lane).unwrap().sum, p.sum, "lane {lane}");
    }
    assert!(matches!(b.finder.pedestal(3), Err(Error::Param { .. })));
}

#[test]
fn without_a_pedestal_nothing_starts() {
    let control = Arc::new(Mutex::new(Control::default()));
    let mock = Mock::new(shape(), &params(1), 2, &control);
    let kind = Kind { shape: shape(), params: params(1), slots: 2, chunk_frames: 4 };
    let mut finder = CudaFinder::on(Box::new(mock), kind).unwrap();
    let pixels = pixels(1);
    assert!(matches!(finder.submit(frames(&pixels)), Err(Error::PedestalNotReady { have: 0, need: 2 })));
    assert!(matches!(finder.pedestal(0), Err(Error::PedestalNotReady { .. })));
    finder.reserve().unwrap();
    assert_eq!(lock(&control).started, 0);
}

/// Frames of a run in every way, and a change of the lanes between them.
fn script(finder: &mut CudaFinder, pixels: &[u16]) -> Result<Found> {
    let mut got = Found::new();
    let all = frames(pixels);
    let mut each = |c: Clusters<'_>| {
        take(&mut got, &c);
        Ok(())
    };
    finder.find(all.slice(0, 11), &mut each)?;
    finder.train(all.slice(0, 1))?;
    let (a, b) = (finder.submit(all.slice(11, 2))?, finder.submit(all.slice(13, 4))?);
    finder.collect(a).and_then(&mut each)?;
    finder.collect(b).and_then(&mut each)?;
    finder.find(all.slice(17, 6), &mut each)?;
    Ok(got)
}

#[test]
fn whatever_call_of_the_device_fails_the_finder_begins_anew() {
    let pixels = pixels(23);
    // So little room that chunks are done again.
    let sound = || Bench::with(3, 2, 4, 9);
    let mut b = sound();
    let want = script(&mut b.finder, &pixels).unwrap();
    let calls = b.control().calls;
    assert!(calls > 20 && b.control().redone > 2, "{calls} calls");
    for n in 1..=calls {
        let mut b = sound();
        let saved = b.finder.pedestal(0).unwrap();
        b.control().fail_call = Some(n);
        let words = script(&mut b.finder, &pixels).unwrap_err().to_string();
        assert!(words.contains("failed once"), "call {n}: {words}");
        // The first four are the start of the run, which is made again.
        let known = b.finder.pedestal(0);
        assert!(n <= 4 || known.is_err(), "the pedestal after call {n} failed: {known:?}");
        b.finder.abandon();
        assert_eq!((b.finder.in_flight(), b.control().in_flight), (0, 0), "call {n}");
        b.finder.set_pedestal(&saved).unwrap();
        let got = script(&mut b.finder, &pixels).unwrap_or_else(|e| panic!("after call {n} failed: {e}"));
        assert!(got == want, "after call {n} failed");
    }
}
