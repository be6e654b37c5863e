//! Every constructor with numbers refuses nonsense by name, with what was found and what is expected.

use scheidegg_finder::{
    ClusterSize, Error, FrameBuf, Frames, Numbers, Params, Payload, Pedestal, PixelMask, Plane, Shape,
    Trainer, Training,
};

const NUMBERS: [f64; 14] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    f64::EPSILON,
    -1.0,
    -0.0,
    0.0,
    1.0,
    5.0,
    65_535.0,
    1e30,
];
const COUNTS: [usize; 14] =
    [0, 1, 2, 3, 15, 16, 255, 4096, 4097, 65_536, 65_537, 1 << 24, usize::MAX / 2, usize::MAX];

/// An error says three things: the name, what was found, what is expected.
fn refused<T>(what: &str, name: &str, result: Result<T, Error>) {
    match result {
        Err(Error::Param { name: said, found, expected }) => {
            assert!(
                said.contains(name) && !found.is_empty() && !expected.is_empty(),
                "{what}: {said} = {found}"
            );
        }
        Err(e) => panic!("{what}: {e}"),
        Ok(_) => panic!("{what} was accepted"),
    }
}

fn checked<T>(what: String, name: &str, right: bool, result: Result<T, Error>) {
    match right {
        true => drop(result.unwrap_or_else(|e| panic!("{what}: {e}"))),
        false => refused(&what, name, result),
    }
}

#[test]
fn shapes_and_windows() {
    for a in COUNTS {
        for b in COUNTS {
            let side = |n| (1..=65_536).contains(&n);
            checked(format!("{a} x {b}"), "frame shape", side(a) && side(b), Shape::new(a, b));
            let wide = |n| (2..=15).contains(&n);
            checked(format!("{a}x{b}"), "cluster size", wide(a) && wide(b), ClusterSize::new(a, b));
        }
    }
}

#[test]
fn parameters() {
    let shape = Shape { rows: 30, cols: 20 };
    let p = || Params::new(ClusterSize { w: 3, h: 3 });
    for v in NUMBERS {
        let sigma = v > 0.0 && v <= 1e6;
        checked(format!("n_sigma {v}"), "n_sigma", sigma, Params { n_sigma: v, ..p() }.validate(shape));
        let floor = (0.0..=65_535.0).contains(&v);
        let params = Params { noise_floor_adu: v, ..p() };
        checked(format!("noise floor {v}"), "noise_floor_adu", floor, params.validate(shape));
    }
    for n in COUNTS {
        let lanes = (1..=4096).contains(&n);
        checked(format!("{n} lanes"), "lanes", lanes, Params { lanes: n, ..p() }.validate(shape));
        let samples = (2..=1 << 24).contains(&n);
        let params = Params { pedestal_samples: n as u64, ..p() };
        checked(format!("{n} samples"), "pedestal_samples", samples, params.validate(shape));
        let size = ClusterSize { w: n, h: 3 };
        checked(format!("{n}x3"), "cluster size", (2..=15).contains(&n), Params::new(size).validate(shape));
    }
    // Each can be alone, not both.
    let large = Shape { rows: 65_536, cols: 65_536 };
    p().validate(large).unwrap();
    refused("lanes of large frames", "lanes", Params { lanes: 2, ..p() }.validate(large));
    refused("the same, for training", "lanes", Training::new(large, &Params { lanes: 4096, ..p() }));
}

#[test]
fn frames_and_buffers() {
    let shape = Shape { rows: 3, cols: 5 };
    let pixels = [7u16; 60];
    for count in COUNTS {
        for stride in COUNTS {
            let need = count.saturating_sub(1).saturating_mul(stride).saturating_add(15 * count.min(1));
            let right = stride >= 15 && need <= 60;
            let outcome = Frames::strided(&pixels, shape, count, stride);
            checked(format!("{count} frames every {stride}"), "frame", right, outcome);
        }
        let huge = count.saturating_mul(30) > isize::MAX as usize;
        if huge || count <= 65_537 {
            checked(
                format!("room for {count}"),
                "frames of a buffer",
                !huge,
                FrameBuf::try_new(shape, count),
            );
        }
    }
    for rows in [0, 65_537, usize::MAX] {
        let shape = Shape { rows, cols: 2 };
        refused("a buffer of no shape", "frame shape", FrameBuf::try_new(shape, 1));
        refused("frames of no shape", "frame shape", Frames::new(&pixels, shape));
    }
    let frames = Frames::new(&pixels, shape).unwrap();
    for first in [0, 1, u64::MAX / 2, u64::MAX - 4, u64::MAX - 3, u64::MAX] {
        let right = first <= u64::MAX - 4;
        checked(format!("from {first}"), "frame number", right, frames.with_numbers(Numbers::From(first)));
    }
    refused("a mask of no length", "mask", PixelMask::from_bools(shape, &[true; 14]));
}

#[test]
fn pedestals() {
    let shape = Shape { rows: 2, cols: 3 };
    let mut trainer = Trainer::new(shape);
    trainer.add(Frames::new(&[0, 1, 2, 65_535, 9, 8, 65_535, 3, 1, 0, 7, 7], shape).unwrap()).unwrap();
    let good = trainer.finish(Params::new(ClusterSize { w: 3, h: 3 }).precision).unwrap();
    good.validate().unwrap();
    let plane = |v: f64, i: usize| {
        let mut all = vec![0f32; 6];
        all[i] = v as f32;
        Plane::F32(all)
    };
    for v in NUMBERS.map(|v| f64::from(v as f32)) {
        for i in [0, 5] {
            let sum = Pedestal { sum: plane(v, i), ..good.clone() };
            checked(format!("sum {v}"), "pedestal sum", v.abs() <= 2.0 * 65_536.0 * 2.0, sum.validate());
            let square = 2.0 * 65_536.0f64.powi(2);
            let sum2 = Pedestal { sum2: plane(v, i), ..good.clone() };
            checked(format!("sum2 {v}"), "pedestal sum2", (0.0..=2.0 * square).contains(&v), sum2.validate());
            let noise = Pedestal { fixed_variance: Some(plane(v, i)), ..good.clone() };
            checked(format!("noise {v}"), "pedestal noise", (0.0..=square).contains(&v), noise.validate());
        }
    }
    for n in COUNTS {
        let samples = Pedestal { samples: n as u64, ..good.clone() };
        // The sums are those of 2 frames: they fit every longer window.
        let right = (2..=1 << 24).contains(&n);
        checked(format!("{n} samples"), "pedestal samples", right, samples.validate());
    }
}

#[test]
fn every_word_is_read_back_and_no_other() {
    for payload in Payload::ALL {
        assert_eq!(payload.to_string().parse::<Payload>().unwrap(), *payload);
    }
    for word in ["", " ", "i32 ", "I32", "nan", "\u{0}", "ü"] {
        refused(word, "payload", word.parse::<Payload>());
        refused(word, "cluster size", word.parse::<ClusterSize>());
    }
    for size in ["0", "1", "16", "3x", "x3", "3x3x3", "-3", "1e1", "99999999999999999999", "3x16", "nan"] {
        refused(size, "cluster size", size.parse::<ClusterSize>());
    }
}
