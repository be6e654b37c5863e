//! Files that appear under their name, and what may keep them from it.

use super::*;

impl Output {
    /// The hidden file.
    fn partial(&self) -> &Path {
        let Way::Beside { partial, .. } = &self.way else { panic!("a stream has none") };
        &partial.path
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_when_it_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let mut out = Output::create(&path).unwrap();
    out.write(b"....lo").unwrap();
    assert!(!path.exists());
    out.write_over_start(b"heal").unwrap();
    out.write(b"!").unwrap();
    out.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"heallo!");
    assert_eq!(names(dir.path()), ["a.bin"]);
}

#[test]
fn an_unfinished_file_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    fs::write(&path, b"before").unwrap();
    let mut out = Output::create(&path).unwrap();
    out.write(b"half").unwrap();
    drop(out);
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(names(dir.path()), ["a.bin"]);
}

#[test]
fn a_full_disk_says_so() {
    let e = failed(Path::new("out.npz"), io::Error::from(io::ErrorKind::StorageFull));
    let said = e.to_string();
    assert!(said.starts_with("out.npz: ") && said.contains("free some space"), "{said}");
}

/// Fault: what was written in part gets its name after all, because later bytes found room.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_was_not_written_to_the_end_gets_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = full(&dir.path().join("a.bin"));
    let large = vec![7; 1 << 19];
    let said = out.write_pieces(&mut [IoSlice::new(b"head"), IoSlice::new(&large)]).unwrap_err().to_string();
    assert!(said.contains("a.bin: ") && said.contains("free some space"), "{said}");
    let room = tempfile::tempfile().unwrap();
    out.file = Some(BufWriter::new(room));
    let later = [out.write(b"more"), out.write_over_start(b"head"), out.close()];
    for refused in later.into_iter().chain([out.finish().map(drop)]) {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("a.bin: was not written to the end"), "{said}");
    }
    assert!(names(dir.path()).is_empty());
}

/// Takes `most` bytes at a time, is interrupted now and then, and is full at `room` bytes.
struct Slow {
    bytes: Vec<u8>,
    most: usize,
    room: usize,
    calls: usize,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = self.most.min(self.room - self.bytes.len());
        let before = self.bytes.len();
        self.bytes.extend(pieces.iter().flat_map(|p| p.iter()).take(n));
        Ok(self.bytes.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn pieces_are_written_whole_though_the_system_takes_few_bytes() {
    let all: Vec<u8> = (0..200).collect();
    // Empty ones at the start, between and at the end, and lengths that `most` does not divide.
    let cuts = [0, 0, 8, 8, 8, 31, 39, 39, 120, 200, 200];
    for most in [1, 2, 7, 8, 50, 1000] {
        for room in [200, 199, 39, 0] {
            let mut to = Slow { bytes: Vec::new(), most, room, calls: 0 };
            let mut pieces: Vec<_> = cuts.windows(2).map(|w| IoSlice::new(&all[w[0]..w[1]])).collect();
            let outcome = write_all_pieces(&mut to, &mut pieces);
            assert_eq!(to.bytes, all[..room], "{most} at a time");
            match room {
                200 => outcome.unwrap(),
                _ => assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::WriteZero),
            }
        }
    }
    let mut to = Slow { bytes: Vec::new(), most: 1, room: 0, calls: 0 };
    write_all_pieces(&mut to, &mut []).unwrap();
    write_all_pieces(&mut to, &mut [IoSlice::new(&[]); 2]).unwrap();
}

#[test]
fn more_pieces_than_a_system_takes_at_once_are_all_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    // Short ones go through the buffer, long ones past it.
    for each in [3, 300] {
        let all: Vec<u8> = (0..5 * MOST_PIECES * each / 2).map(|i| (i % 251) as u8).collect();
        let mut out = Output::create(&path).unwrap();
        out.write(b"first").unwrap();
        out.write_pieces(&mut all.chunks(each).map(IoSlice::new).collect::<Vec<_>>()).unwrap();
        out.write(b"last").unwrap();
        out.finish().unwrap();
        assert!(fs::read(&path).unwrap() == [b"first", all.as_slice(), b"last"].concat(), "{each}");
    }
}

#[test]
fn a_part_takes_the_name_only_where_it_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let part = |bytes: &[u8]| {
        let mut out = Output::create(&path).unwrap();
        out.write(bytes).unwrap();
        out.finish_as(false).unwrap()
    };
    assert_eq!(part(b"first"), path);
    assert_eq!(part(b"second"), dir.path().join("a.partial.npz"));
    assert_eq!(part(b"third"), dir.path().join("a.partial-2.npz"));
    let mut out = Output::create(&path).unwrap();
    out.write(b"whole").unwrap();
    assert_eq!(out.finish_as(true).unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(fs::read(dir.path().join("a.partial.npz")).unwrap(), b"second");
    assert_eq!(names(dir.path()), ["a.npz", "a.partial-2.npz", "a.partial.npz"]);
}

/// Fault: the name is looked at in the beginning only.
#[test]
fn a_name_that_is_to_be_kept_is_kept_when_it_is_taken_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let mut out = Output::create(Place::unless_taken(&path)).unwrap();
    out.write(b"new").unwrap();
    fs::write(&path, "of somebody else").unwrap();
    let said = out.finish().unwrap_err().to_string();
    assert!(said.contains("a.npz: could not be given its name") && said.contains("a.partial.npz"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), b"of somebody else");
    assert_eq!(fs::read(dir.path().join("a.partial.npz")).unwrap(), b"new");
    let said = Output::create(Place::unless_taken(&path)).unwrap_err().to_string();
    assert!(said.contains("is there already"), "{said}");
    assert_eq!(names(dir.path()), ["a.npz", "a.partial.npz"]);
}

/// Fault: what was found is thrown away because its name cannot be given at the end.
#[test]
fn a_file_whose_name_became_a_folder_lies_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.clust");
    let mut out = Output::create(&path).unwrap();
    out.write(b"found").unwrap();
    fs::create_dir(&path).unwrap();
    let said = out.finish().unwrap_err().to_string();
    assert!(said.contains("a.partial.clust"), "{said}");
    assert_eq!(fs::read(dir.path().join("a.partial.clust")).unwrap(), b"found");
    assert_eq!(names(dir.path()), ["a.clust", "a.partial.clust"]);
}

#[cfg(unix)]
#[test]
fn links_are_written_through() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("store")).unwrap();
    symlink("store/b.clust", at("a.clust")).unwrap();
    for (complete, bytes) in [(true, b"1"), (true, b"2"), (false, b"3")] {
        let mut out = Output::create(at("a.clust")).unwrap();
        out.write(bytes).unwrap();
        assert!(names(&at("store")).iter().any(|n| n.starts_with(".b.clust.")), "beside the target");
        let named = out.finish_as(complete).unwrap();
        let expected = if complete { at("a.clust") } else { at("store/b.partial.clust") };
        assert_eq!(named, expected);
        assert!(at("a.clust").is_symlink());
    }
    assert_eq!(fs::read(at("a.clust")).unwrap(), b"2");
    assert_eq!(fs::read(at("store/b.partial.clust")).unwrap(), b"3");
}

#[cfg(target_os = "linux")]
#[test]
fn devices_and_fifos_are_streamed_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.clust");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|s| s.success()) {
        println!("SKIPPED: no mkfifo");
        return;
    }
    let said = Output::create(&path).unwrap_err().to_string();
    assert!(said.contains("is a FIFO") && said.contains(".clust"), "{said}");
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || fs::read(path).unwrap())
    };
    let mut out = Output::create_or_stream(&path).unwrap();
    assert!(out.is_stream());
    out.write(b"through").unwrap();
    assert_eq!(out.finish().unwrap(), path);
    assert_eq!(reader.join().unwrap(), b"through");
    // A reader that goes away is an error, and the FIFO stays.
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || drop(File::open(path).unwrap()))
    };
    let mut out = Output::create_or_stream(&path).unwrap();
    reader.join().unwrap();
    let said = out.write(&vec![0; 2 * GATHERED]).unwrap_err().to_string();
    assert!(said.contains("its reader has gone"), "{said}");
    drop(out);
    assert_eq!(names(dir.path()), ["f.clust"]);
    let mut out = Output::create_or_stream("/dev/null").unwrap();
    out.write(b"away").unwrap();
    assert_eq!(out.finish_part().unwrap(), Path::new("/dev/null"));
    let said = Output::create_or_stream("/dev/full").unwrap().finish().map(|_| ());
    said.unwrap();
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let said = Output::create("/nowhere/at/all/x.clust").unwrap_err().to_string();
    assert!(said.contains("the folder /nowhere/at/all does not exist"), "{said}");
}

/// Fault: bytes that were gathered for a stream reach it though its run has failed.
#[cfg(target_os = "linux")]
#[test]
fn a_stream_that_is_dropped_gets_nothing_more() {
    use std::os::fd::AsRawFd;
    let mut there = tempfile::tempfile().unwrap();
    there.write_all(b"before,").unwrap();
    let path = format!("/proc/self/fd/{}", there.as_raw_fd());
    let said = Output::create(&path).unwrap_err().to_string();
    assert!(said.contains("is a file that is open already"), "{said}");
    let mut out = Output::create_or_stream(&path).unwrap();
    out.write(b"gathered").unwrap();
    drop(out);
    let mut out = Output::create_or_stream(&path).unwrap();
    assert!(out.is_stream());
    out.write(b"finished").unwrap();
    assert_eq!(out.finish().unwrap(), Path::new(&path));
    there.seek(SeekFrom::Start(0)).unwrap();
    assert_eq!(io::read_to_string(there).unwrap(), "before,finished");
    if File::options().append(true).open("/dev/ptmx").is_ok() {
        let said = Output::create_or_stream("/dev/ptmx").unwrap_err().to_string();
        assert!(said.contains("is a terminal"), "{said}");
    }
}

#[test]
fn a_file_can_be_changed_until_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let mut out = Output::create(&path).unwrap();
    assert!(!out.is_stream());
    out.write(b"0123456789").unwrap();
    assert_eq!(out.reached().unwrap(), 0);
    out.flush().unwrap();
    assert_eq!(out.reached().unwrap(), 10);
    out.write(b"forgotten").unwrap();
    out.cut(8).unwrap();
    assert_eq!(out.reached().unwrap(), 8);
    out.write(b"ab").unwrap();
    out.write_over(2, b"xy").unwrap();
    out.write(b"c").unwrap();
    assert_eq!(io::read_to_string(out.reread().unwrap()).unwrap(), "01xy4567abc");
    out.write(b"d").unwrap();
    out.close().unwrap();
    out.close().unwrap();
    assert_eq!(fs::read(out.partial()).unwrap(), b"01xy4567abcd");
    let late = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| out.write(b"late")));
    assert!(late.is_err(), "something was written after the end");
    assert_eq!(out.finish().unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), b"01xy4567abcd");
}

/// What is cut off is no matter any more.
#[test]
fn a_file_that_is_cut_is_whole_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let mut out = Output::create(&path).unwrap();
    out.write(b"whole").unwrap();
    out.flush().unwrap();
    let said = out.with(|_| Err::<(), _>(ErrorKind::StorageFull.into())).unwrap_err().to_string();
    assert!(said.contains("a.bin: ") && said.contains("free some space"), "{said}");
    let said = out.with(|_| Ok(())).unwrap_err().to_string();
    assert!(said.contains("a.bin: was not written to the end"), "{said}");
    out.cut(5).unwrap();
    out.write(b", more").unwrap();
    assert_eq!(out.finish().unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), b"whole, more");
}

#[test]
fn a_file_may_lie_aside_or_be_called_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let start = |bytes: &[u8]| {
        let mut out = Output::create(at("a.bin")).unwrap();
        out.write(bytes).unwrap();
        out
    };
    assert_eq!(start(b"1").finish_aside().unwrap(), at("a.partial.bin"));
    let mut other = start(b"2");
    other.call("b.bin");
    assert_eq!(other.path(), at("b.bin"));
    assert_eq!(other.finish().unwrap(), at("b.bin"));
    // A name that was taken in this way is kept.
    let mut other = start(b"3");
    other.call("b.bin");
    let said = other.finish().unwrap_err().to_string();
    assert!(said.contains("b.bin: could not be given its name") && said.contains("b.partial.bin"), "{said}");
    for (name, bytes) in [("a.partial.bin", b"1"), ("b.bin", b"2"), ("b.partial.bin", b"3")] {
        assert_eq!(fs::read(at(name)).unwrap(), bytes, "{name}");
    }
    assert_eq!(names(dir.path()), ["a.partial.bin", "b.bin", "b.partial.bin"]);
}

/// Fault: the hidden file is taken away under a run, and the name is given to an empty one.
#[test]
fn a_file_that_is_gone_gets_no_name() {
    let dir = tempfile::tempdir().unwrap();
    for complete in [true, false] {
        let mut out = Output::create(Place::unless_taken(dir.path().join("a.bin"))).unwrap();
        out.write(b"found").unwrap();
        fs::remove_file(out.partial()).unwrap();
        let said = out.finish_as(complete).unwrap_err().to_string();
        assert!(said.contains("a.bin"), "{said}");
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn what_the_system_says_comes_with_the_way_out() {
    let said = |kind: ErrorKind| failed(Path::new("a"), kind.into()).to_string();
    assert!(said(ErrorKind::QuotaExceeded).contains("free some space"));
    assert!(said(ErrorKind::FileTooLarge).contains("ulimit -f"));
    assert!(said(ErrorKind::BrokenPipe).contains("its reader has gone"));
    let other = said(ErrorKind::TimedOut);
    assert!(other.starts_with("a: ") && !other.contains('('), "{other}");
}
