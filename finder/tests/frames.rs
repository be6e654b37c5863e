//! Frames, buffers and masks: views that never reach past their end, and errors that name what was found.

use ndarray::{Array3, s};
use scheidegg_finder::{Error, FrameBuf, FrameOwner, Frames, LostPixels, Numbers, PixelMask, Shape};

const SHAPE: Shape = Shape { rows: 3, cols: 5 };

fn pixels(frames: u16) -> Vec<u16> {
    (0..frames * 15).collect()
}

fn words<T>(result: Result<T, Error>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn frames_are_whole_or_refused() {
    let p = pixels(4);
    let frames = Frames::new(&p, SHAPE).unwrap();
    assert_eq!((frames.len(), frames.stride(), frames.frame(2)[0]), (4, 15, 30));
    assert_eq!(frames.as_slice(), p);
    assert_eq!(
        words(Frames::new(&p[..59], SHAPE)),
        "frames = 59 pixels: expected a whole number of frames of 15 (3 x 5)"
    );
    assert!(Frames::new(&[], SHAPE).unwrap().is_empty());
    for (rows, cols) in [(0, 0), (0, 5), (5, 0), (65_537, 1)] {
        let shape = Shape { rows, cols };
        assert!(words(Frames::new(&[], shape)).contains("1 to 65536 rows and columns"));
        assert!(words(Frames::strided(&[], shape, 0, 10)).contains("1 to 65536 rows and columns"));
    }
}

#[test]
fn a_stride_may_be_longer_than_a_frame_and_never_shorter() {
    let p = pixels(4);
    let frames = Frames::strided(&p, SHAPE, 3, 20).unwrap();
    assert_eq!((frames.frame(0)[0], frames.frame(1)[0], frames.frame(2)[14]), (0, 20, 54));
    assert_eq!(frames.as_slice().len(), 55);
    assert!(words(Frames::strided(&p, SHAPE, 1, 14)).contains("at least 15 pixels"));
    assert!(words(Frames::strided(&p, SHAPE, 4, 20)).contains("at least 75 for 4 frames"));
    // What a hostile file may claim.
    assert!(words(Frames::strided(&p, SHAPE, usize::MAX, usize::MAX)).contains("60 pixels"));
    let none = Frames::strided(&[], SHAPE, 0, 99).unwrap();
    assert!(none.is_empty() && none.as_slice().is_empty());
    assert_eq!(frames.slice(1, 2).frame(1)[0], 40);
    assert!(frames.slice(3, 0).is_empty());
}

#[test]
fn an_array_is_taken_in_c_order_only() {
    let array = Array3::from_shape_vec((4, 3, 5), pixels(4)).unwrap();
    let frames = Frames::from_array(array.view()).unwrap();
    assert_eq!((frames.shape(), frames.frame(3)[14]), (SHAPE, 59));
    assert!(words(Frames::from_array(array.slice(s![.., .., ..4]))).contains("C order without gaps"));
    assert!(words(Frames::from_array(array.view().reversed_axes())).contains("C order without gaps"));
    assert!(Frames::from_array(Array3::zeros((2, 0, 5)).view()).is_err());
}

#[test]
fn numbers_are_64_bits_wide_and_do_not_wrap() {
    let p = pixels(4);
    let frames = Frames::new(&p, SHAPE).unwrap();
    assert_eq!(frames.number(3), 3);
    let far = frames.with_numbers(Numbers::From(u64::MAX - 4)).unwrap();
    assert_eq!(far.slice(2, 2).number(1), u64::MAX - 1);
    assert!(words(frames.with_numbers(Numbers::From(u64::MAX - 3))).contains("at most"));
    let list = [9, 7, 1 << 40, 0];
    let listed = frames.with_numbers(Numbers::List(&list)).unwrap();
    assert_eq!(listed.slice(1, 3).number(1), 1 << 40);
    assert_eq!(
        words(frames.with_numbers(Numbers::List(&list[1..]))),
        "frame numbers = 3: expected 4, one a frame"
    );
}

#[test]
fn lost_pixels_follow_their_frame_into_slices_and_batches() {
    let p = pixels(6);
    let mask = |i: usize| {
        let mut m = PixelMask::new(SHAPE);
        m.insert_index(i);
        m
    };
    let lost = [1, 2, 5].map(|frame| LostPixels { frame, mask: mask(frame) });
    let frames = Frames::new(&p, SHAPE).unwrap().with_lost(&lost).unwrap();
    assert_eq!(frames.lost_frames().map(|(k, _)| k).collect::<Vec<_>>(), [1, 2, 5]);
    assert!(frames.lost(0).is_none() && frames.lost(5) == Some(&mask(5)));
    let tail = frames.slice(2, 4).slice(0, 4);
    assert_eq!(tail.lost_frames().map(|(k, _)| k).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(tail.lost(3), Some(&mask(5)));
    let batches: Vec<Vec<usize>> =
        frames.batches(4).map(|b| b.lost_frames().map(|(k, _)| k).collect()).collect();
    assert_eq!(batches, [vec![1, 2], vec![1]]);
    assert_eq!(frames.batches(4).map(|b| b.len()).collect::<Vec<_>>(), [4, 2]);
    // A slice may get lost pixels of its own, counted from its first frame.
    let own = frames.slice(3, 3).with_lost(&lost[..2]).unwrap();
    assert_eq!(own.lost(1), Some(&mask(1)));

    let dense = Frames::new(&p, SHAPE).unwrap();
    for wrong in [[2, 1], [1, 1], [1, 6]] {
        let lost = wrong.map(|frame| LostPixels { frame, mask: mask(0) });
        assert!(words(dense.with_lost(&lost)).contains("ascending, below 6"));
    }
    let other = [LostPixels { frame: 0, mask: PixelMask::new(Shape { rows: 5, cols: 3 }) }];
    assert_eq!(words(dense.with_lost(&other)), "lost pixels of frame 0: shape 5 x 3, expected 3 x 5");
}

#[test]
fn a_buffer_fills_empties_and_keeps_lost_pixels_in_step() {
    let mut buf = FrameBuf::new(SHAPE, 3);
    let mut lost = PixelMask::new(SHAPE);
    lost.insert(1, 2);
    buf.push(70, |p| {
        p.fill(1);
        Ok(None)
    })
    .unwrap();
    assert!(buf.push(71, |_| Err(Error::Stopped)).is_err());
    assert_eq!(buf.len(), 1, "a frame that failed is not there");
    buf.extend(&[80, 81], |p| {
        p.fill(2);
        Ok(vec![LostPixels { frame: 1, mask: lost.clone() }])
    })
    .unwrap();
    assert!(buf.is_full());
    let frames = buf.frames();
    assert_eq!((frames.number(0), frames.number(2), frames.frame(2)[0]), (70, 81, 2));
    assert_eq!(frames.lost_frames().map(|(k, _)| k).collect::<Vec<_>>(), [2]);
    buf.clear();
    assert!(buf.is_empty() && buf.frames().is_empty() && buf.capacity() == 3);
    buf.push(1, |_| Ok(Some(PixelMask::new(SHAPE)))).unwrap();
    assert_eq!(buf.frames().lost_frames().count(), 0, "no pixel lost is no entry");
}

#[test]
fn a_mask_is_a_set_of_pixels() {
    let shape = Shape { rows: 9, cols: 15 };
    let mut mask = PixelMask::new(shape);
    assert!(mask.is_empty());
    for (row, col) in [(0, 0), (4, 3), (4, 4), (8, 14)] {
        mask.insert(row, col);
        mask.insert(row, col);
        assert!(mask.contains(row, col) && mask.contains_index(row * 15 + col));
    }
    assert_eq!(mask.count(), 4);
    // 63 and 64 are neighbours in two words.
    assert_eq!(mask.indices().collect::<Vec<_>>(), [0, 63, 64, 134]);
    // What an index would find for a pixel outside: the first of the next row, and nothing at all.
    let mut edge = PixelMask::new(Shape { rows: 8, cols: 8 });
    edge.insert(1, 0);
    assert!(!edge.contains(0, 8) && !edge.contains(8, 0) && !edge.contains(0, 64), "outside is not masked");
    assert!(edge.contains(1, 0) && !edge.contains(7, 7));
    let bools: Vec<bool> = (0..135).map(|i| mask.contains_index(i)).collect();
    assert_eq!(PixelMask::from_bools(shape, &bools).unwrap(), mask);
    assert_eq!(
        words(PixelMask::from_bools(shape, &bools[1..])),
        "mask = 134 values: expected 135 for 9 x 15 pixels"
    );
    let mut other = PixelMask::new(shape);
    other.insert(1, 1);
    other.union(&mask);
    assert_eq!(other.count(), 5);
    assert_eq!(mask.words().len(), 3);
}

#[test]
#[should_panic(expected = "pixel (0, 15) outside 9 x 15")]
fn a_pixel_outside_cannot_be_masked() {
    PixelMask::new(Shape { rows: 9, cols: 15 }).insert(0, 15);
}
