//! One contract for every source of frames, whole, damaged or cut at any byte.

mod io_common;

use std::fs;
use std::path::{Path, PathBuf};

use io_common::*;
use scheidegg::io::raw::{Detector, Header};
use scheidegg::io::simulate::Simulation;
use scheidegg::io::{
    Gain, Health, NpyFrames, OpenOptions, RawOptions, RawWriter, Source, open_source, open_sources,
};
use scheidegg::pipeline::Chain;
use scheidegg::{FrameBuf, FrameOwner, Shape};

const SHAPE: Shape = Shape { rows: 4, cols: 6 };

type Boxed = Box<dyn Source>;

/// What does not depend on pixels that were passed without being read.
fn of_headers(h: &Health) -> [u64; 5] {
    [h.gaps, h.incomplete_frames, h.repeated_frames, h.lost_packets, h.storage_cells.into()]
}

/// Whatever is true of any source. `exact`: nothing is amiss, so that `remaining` is no bound but a number.
fn hold(what: &str, exact: bool, open: &dyn Fn() -> Boxed) -> (Vec<Frame>, Option<String>) {
    let all = 1000;
    let mut source = open();
    let promised = source.remaining();
    let (frames, end) = read_batches(&mut *source, all);
    let fault = end.err().map(|e| e.to_string());
    let health = source.health();
    assert!(promised.is_none_or(|n| n >= frames.len() as u64), "{what}: {promised:?} were promised");
    assert!(!exact || promised == Some(frames.len() as u64), "{what}: {promised:?} were promised");
    assert!(frames.windows(2).all(|w| w[0].number < w[1].number), "{what}: numbers ascend");
    // The same error again, as often as one asks, by reading and by skipping.
    for _ in 0..2 {
        assert_eq!(read_batches(&mut *source, 3).1.err().map(|e| e.to_string()), fault, "{what}");
        assert_eq!(source.skip(1).err().map(|e| e.to_string()), fault, "{what}");
    }
    assert!(!exact || source.remaining() == Some(0), "{what}");
    // Who asks for nothing gets nothing, whatever comes next.
    let mut full = FrameBuf::new(source.shape(), 1);
    full.push(0, |_| Ok(None)).unwrap();
    assert_eq!((source.read(&mut full).unwrap(), source.skip(0).unwrap().frames), (0, 0), "{what}");
    assert!(!source.name().is_empty());

    for batch in [1, 2, 3, 7] {
        let mut source = open();
        let (found, end) = read_batches(&mut *source, batch);
        assert!(found == frames, "{what}: other frames in batches of {batch}");
        assert_eq!(end.err().map(|e| e.to_string()), fault, "{what}, batches of {batch}");
        assert_eq!(source.health(), health, "{what}, batches of {batch}");
    }

    let shape = source.shape();
    let mut source = open();
    let mut buf = FrameBuf::new(shape, 10);
    for n in 0..8 {
        buf.push(n, |pixels| {
            pixels.fill(n as u16);
            Ok(None)
        })
        .unwrap();
    }
    // Room for two: the frames before stay.
    if let Ok(n) = source.read(&mut buf) {
        assert_eq!(n, frames.len().min(2), "{what}");
    }
    let view = buf.frames();
    assert!((0..8).all(|k| view.number(k) == k as u64 && view.frame(k).iter().all(|p| *p == k as u16)));
    for k in 8..view.len() {
        let f = &frames[k - 8];
        assert!(view.number(k) == f.number && view.frame(k) == f.pixels, "{what}: in a part-full buffer");
        assert_eq!(view.lost(k), f.lost.as_ref(), "{what}: in a part-full buffer");
    }
    // No room: nothing is read, and nothing is wrong.
    if frames.len() > 2 {
        assert_eq!(source.read(&mut buf).unwrap(), 0, "{what}");
        buf.clear();
        source.read(&mut buf).unwrap();
        assert_eq!(buf.frames().number(0), frames[2].number, "{what}: a full buffer loses no frame");
    }
    let mut other = FrameBuf::new(Shape { rows: shape.rows + 1, ..shape }, 2);
    assert!(open().read(&mut other).unwrap_err().to_string().contains("expected"), "{what}");

    for skip in 0..=frames.len() + 2 {
        let mut source = open();
        let before = source.remaining();
        // As many as there are; why there are not more is said when not one is left.
        let mut skipped = 0;
        let ended = loop {
            match source.skip((skip - skipped) as u64) {
                Ok(more) if more.frames == 0 => break None,
                Ok(more) => {
                    let last = skipped + more.frames as usize;
                    let said = (more.first, more.last);
                    assert_eq!(said, (Some(frames[skipped].number), Some(frames[last - 1].number)), "{what}");
                    skipped = last;
                }
                Err(e) => break Some(e.to_string()),
            }
        };
        assert_eq!(skipped, skip.min(frames.len()), "{what}");
        assert_eq!(ended, fault.clone().filter(|_| skip > frames.len()), "{what}");
        let left = frames.len().saturating_sub(skip);
        assert!(source.remaining().is_none_or(|n| n >= left as u64), "{what}: after {skip}");
        assert!(!exact || source.remaining() == before.map(|n| n - skip.min(frames.len()) as u64), "{what}");
        let (rest, _) = read_batches(&mut *source, 4);
        assert!(rest == frames[frames.len() - left..], "{what}: other frames after {skip} were left out");
        assert_eq!(of_headers(&source.health()), of_headers(&health), "{what}: {skip} left out");
    }
    (frames, fault)
}

fn options() -> OpenOptions {
    OpenOptions { dat_shape: Some(SHAPE), ..OpenOptions::default() }
}

fn opened<'a>(path: &'a Path, options: &'a OpenOptions) -> impl Fn() -> Boxed + 'a {
    move || open_source(path, options).unwrap()
}

fn dat(path: &Path, numbers: &[u64]) {
    let words = |n: &u64| image(SHAPE, *n).iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let all: Vec<_> = numbers.iter().map(|n| [&n.to_le_bytes()[..], &[0; 8], &words(n)].concat()).collect();
    fs::write(path, all.concat()).unwrap();
}

fn npy(path: &Path, frames: u64) {
    let mut out = NpyFrames::create(path, SHAPE).unwrap();
    (0..frames).for_each(|n| out.push(&image(SHAPE, n)).unwrap());
    out.finish().unwrap();
}

fn raw(folder: &Path, ports: usize, per_file: u64, frames: u64) -> PathBuf {
    let o = RawOptions { ports, max_frames_per_file: per_file, ..RawOptions::new(Detector::Moench, SHAPE) };
    write_run(folder, &o, frames)
}

#[test]
fn whole_files() {
    let dir = tempfile::tempdir().unwrap();
    let o = options();
    for (ports, per_file) in [(1, 100), (2, 100), (1, 3), (2, 4)] {
        let master = raw(dir.path(), ports, per_file, 10);
        let (frames, fault) = hold(&format!("raw, {ports} ports"), true, &opened(&master, &o));
        assert_known(&frames, SHAPE, 1..=10);
        assert_eq!(fault, None);
    }
    let path = dir.path().join("a.npy");
    for frames in [0, 1, 9] {
        npy(&path, frames);
        assert_known(&hold("npy", true, &opened(&path, &o)).0, SHAPE, 0..frames);
    }
    let path = dir.path().join("a.dat");
    dat(&path, &[4, 5, 6, 7, 8]);
    assert_known(&hold("dat", true, &opened(&path, &o)).0, SHAPE, 4..=8);
}

#[test]
fn a_series_of_dat_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = |k: u64| dir.path().join(format!("x_f{k:05}.dat"));
    (0..3).for_each(|k| dat(&path(k), &[4 * k + 1, 4 * k + 2, 4 * k + 3, 4 * k + 4]));
    dat(&dir.path().join("y_f00003.dat"), &[99]);
    let o = options();
    for k in 0..3 {
        let (frames, _) = hold("series", true, &opened(&path(k), &o));
        assert_known(&frames, SHAPE, 1..=12);
    }
    // Files that are named one by one are read once each.
    let named = [path(2), path(0)];
    let all: Vec<_> = open_sources(&named, &o).unwrap().iter_mut().flat_map(|s| read_all(&mut **s)).collect();
    assert_known(&all, SHAPE, (9..=12).chain(1..=4));
    // One that is missing is said, and shifts nothing.
    fs::remove_file(path(1)).unwrap();
    assert_known(&hold("series with a gap", false, &opened(&path(0), &o)).0, SHAPE, (1..=4).chain(9..=12));
    let mut source = open_source(&path(0), &o).unwrap();
    read_all(&mut *source);
    let health = source.health();
    assert_eq!(health.gaps, 4);
    assert!(health.warnings.iter().any(|w| w.contains("x_f00001.dat: is missing")), "{health:?}");
}

#[test]
fn simulations_and_chains() {
    let simulation = Simulation { rows: 4, cols: 6, hot_pixels: 0, dead_pixels: 0, ..Simulation::default() };
    let simulator = simulation.build().unwrap();
    hold("simulation", true, &|| Box::new(simulator.frames(9)));
    hold("simulated darks", true, &|| Box::new(simulator.darks(9)));
    let dir = tempfile::tempdir().unwrap();
    let (master, o) = (raw(dir.path(), 2, 3, 7), options());
    let (a, b) = (dir.path().join("a.npy"), dir.path().join("b.dat"));
    npy(&a, 4);
    dat(&b, &[20, 21, 23]);
    let chain = |cut: bool| -> Boxed {
        let mut paths = vec![a.clone(), master.clone(), b.clone()];
        if cut {
            paths.rotate_left(1);
        }
        Box::new(Chain::forced(open_sources(&paths, &o).unwrap(), true).unwrap())
    };
    let (frames, fault) = hold("chain", true, &|| chain(false));
    assert!((frames.len(), fault) == (14, None));
    // A fault in the second file: the frames of the first come before it, whatever the batch.
    let bytes = fs::metadata(&b).unwrap().len();
    fs::File::options().write(true).open(&b).unwrap().set_len(bytes - 1).unwrap();
    let (frames, fault) = hold("chain with a fault", false, &|| chain(true));
    assert_eq!(frames.len(), 9);
    assert!(fault.unwrap().contains("b.dat"));
}

/// Every length that a file may have been cut to.
#[test]
fn files_cut_at_any_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (n, d) = (dir.path().join("a.npy"), dir.path().join("a.dat"));
    npy(&n, 4);
    dat(&d, &[1, 2, 3, 4]);
    let image = 2 * SHAPE.pixels();
    let one = dir.path().join("one");
    let two = dir.path().join("two");
    [&one, &two].iter().for_each(|f| fs::create_dir(f).unwrap());
    let (single, double) = (raw(&one, 1, 3, 5), raw(&two, 2, 3, 5));
    for (path, cut, first, stride, header) in [
        (&n, n.clone(), 128, image, 0),
        (&d, d.clone(), 0, 16 + image, 16),
        (&single, one.join("run_d0_f1_0.raw"), 0, Header::BYTES + image, Header::BYTES),
        (&double, two.join("run_d1_f1_0.raw"), 0, Header::BYTES + image / 2, Header::BYTES),
    ] {
        let whole = fs::read(&cut).unwrap();
        let before = if path == &single || path == &double { 3 } else { 0 };
        let lengths = (first..=whole.len()).step_by(if cfg!(debug_assertions) { 7 } else { 1 });
        for length in lengths.chain([whole.len(), whole.len() - 1, whole.len() - stride]) {
            fs::write(&cut, &whole[..length]).unwrap();
            let (frames, rest) = ((length - first) / stride, (length - first) % stride);
            let what = format!("{} of {length} bytes", cut.display());
            let o = options();
            let (found, fault) = hold(&what, false, &opened(path, &o));
            assert_eq!(found.len(), before + frames, "{what}");
            // The header of a .npy file promises frames; others end where a frame does.
            let is_cut = rest > 0 || (path == &n && frames < 4);
            assert_eq!(fault.is_some(), is_cut, "{what}: {fault:?}");
            assert!(fault.is_none_or(|f| f.contains(&*cut.file_name().unwrap().to_string_lossy())));

            let o = OpenOptions { keep_going: true, ..options() };
            let (kept, fault) = hold(&what, false, &opened(path, &o));
            assert_eq!(fault, None, "{what}");
            let part = usize::from(rest > 1 && rest >= header && rest > 0);
            assert!(kept.len() >= before + frames && kept.len() <= before + frames + part, "{what}");
            assert!(kept[..before + frames] == found, "{what}");
            if let Some(f) = kept.get(before + frames) {
                let there = (rest - header) / 2;
                let gone = f.lost.as_ref().map_or(0, |m| m.count());
                let pixels = if path == &double { SHAPE.pixels() / 2 } else { SHAPE.pixels() };
                assert_eq!(gone, pixels - there, "{what}: what is not there is masked");
            }
        }
        fs::write(&cut, &whole).unwrap();
    }
}

#[test]
fn damaged_runs_go_on_when_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let master = raw(dir.path(), 1, 3, 12);
    let o = OpenOptions { keep_going: true, ..options() };
    fs::remove_file(dir.path().join("run_d0_f1_0.raw")).unwrap();
    let cut = dir.path().join("run_d0_f2_0.raw");
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..Header::BYTES + 2 * SHAPE.pixels() + 40]).unwrap();
    let (frames, fault) = hold("keep going", false, &opened(&master, &o));
    assert_eq!(fault, None);
    assert_known(&frames, SHAPE, [1, 2, 3, 7, 10, 11, 12]);
    let mut source = open_source(&master, &o).unwrap();
    read_all(&mut *source);
    let health = source.health();
    assert_eq!((health.gaps, health.incomplete_frames), (5, 1));
    for part in ["run_d0_f1_0.raw: is missing", "ends inside the header"] {
        assert!(health.warnings.iter().any(|w| w.contains(part)), "{part}: {health:?}");
    }
}

/// Fault: one corrupt frame number discards all frames behind it, and so does a counter that begins again.
#[test]
fn corrupt_numbers_lose_no_frame() {
    for ports in [1, 2, 3] {
        for (bad, at) in [(1 << 40, 5), (u64::MAX, 5), (0, 5), (2, 7), (1 << 40, 0), (1 << 40, 11)] {
            let dir = tempfile::tempdir().unwrap();
            let shape = Shape { rows: 6, cols: 5 };
            let modules = Shape { rows: ports, cols: 1 };
            let o = RawOptions { modules, ..RawOptions::new(Detector::Moench, shape) };
            let master = write_run(dir.path(), &o, 12);
            let path = dir.path().join(format!("run_d{}_f0_0.raw", ports - 1));
            let mut bytes = fs::read(&path).unwrap();
            let stride = Header::BYTES + 2 * shape.pixels() / ports;
            bytes[at * stride..][..8].copy_from_slice(&u64::to_le_bytes(bad));
            fs::write(&path, bytes).unwrap();
            let o = OpenOptions::default();
            let (frames, _) = hold(&format!("{bad} in frame {at}"), false, &opened(&master, &o));
            assert_known(&frames, shape, 1..=12);
        }
    }
}

#[test]
fn counters_that_begin_again_lose_no_frame() {
    for ports in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports, ..RawOptions::new(Detector::Moench, SHAPE) };
        let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
        let numbers = [98, 99, 100, 101, 102, 0, 1, 2, 4, 5, 0, 1, 2];
        numbers.iter().enumerate().for_each(|(k, n)| writer.push(*n, &image(SHAPE, k as u64)).unwrap());
        let master = writer.finish().unwrap();
        let o = OpenOptions::default();
        let (frames, _) = hold("restarts", false, &opened(&master, &o));
        let given: Vec<_> = frames.iter().map(|f| f.number).collect();
        assert_eq!(given, (98..=105).chain(107..=111).collect::<Vec<_>>());
        assert!((0..13).all(|k| frames[k].pixels == image(SHAPE, k as u64)));
        let mut source = open_source(&master, &o).unwrap();
        read_all(&mut *source);
        let health = source.health();
        assert_eq!((health.gaps, health.repeated_frames, health.incomplete_frames), (1, 0, 0));
        assert!(health.warnings.iter().any(|w| w.contains("numbers go on from the frame before, 2 such")));
    }
}

#[test]
fn mixed_storage_cells_are_said() {
    for (cells, many) in [([3, 3, 3, 3], false), ([0, 1, 0, 15], true)] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions::new(Detector::Jungfrau, SHAPE);
        let master = write_run(dir.path(), &o, 4);
        let path = dir.path().join("run_d0_f0_0.raw");
        let mut bytes = fs::read(&path).unwrap();
        for (frame, cell) in bytes.chunks_mut(Header::BYTES + 2 * SHAPE.pixels()).zip(cells) {
            frame[41] = cell;
        }
        fs::write(&path, bytes).unwrap();
        let o = OpenOptions { gain: Gain::KeepValue, ..OpenOptions::default() };
        hold("storage cells", true, &opened(&master, &o));
        let mut source = open_source(&master, &o).unwrap();
        read_all(&mut *source);
        let health = source.health();
        assert_eq!(health.storage_cells, cells.iter().fold(0, |all, c| all | 1 << c));
        assert_eq!(health.warnings.iter().any(|w| w.contains("storage cells 0, 1, 15 are mixed")), many);
    }
}
