//! Parameters: their words and their ranges.

use std::sync::Arc;

use scheidegg_finder::{
    ClusterSize, Error, Noise, Params, Payload, PixelMask, Precision, Shape, Ties, Update,
};

const SHAPE: Shape = Shape { rows: 10, cols: 20 };

#[test]
fn every_word_reads_back() {
    fn all<T: std::str::FromStr<Err = Error> + std::fmt::Display + PartialEq + Copy + std::fmt::Debug>(
        of: &[T],
    ) {
        of.iter().for_each(|v| assert_eq!(v.to_string().parse::<T>().unwrap(), *v));
    }
    all(Update::ALL);
    all(Noise::ALL);
    all(Precision::ALL);
    all(Ties::ALL);
    all(Payload::ALL);
    let error = "single".parse::<Precision>().unwrap_err().to_string();
    assert_eq!(error, "precision = single: expected f32 or f64f32 or f64");
}

#[test]
fn a_size_is_a_number_or_two() {
    let size = |s: &str| s.parse::<ClusterSize>();
    assert_eq!(size("3").unwrap(), ClusterSize { w: 3, h: 3 });
    assert_eq!(size("3x5").unwrap(), ClusterSize { w: 3, h: 5 });
    assert_eq!(size("2 X 15").unwrap(), ClusterSize { w: 2, h: 15 });
    for bad in ["", "x", "3x", "1", "16", "0x3", "3x3x3", "-3", "3.5"] {
        assert!(size(bad).unwrap_err().to_string().starts_with("cluster size = "), "{bad}");
    }
    let even = ClusterSize { w: 4, h: 5 };
    assert_eq!((even.left(), even.right(), even.up(), even.down()), (2, 1, 2, 2));
    assert_eq!((even.centre(), even.pixels()), (2 * 4 + 2, 20));
}

#[test]
fn values_outside_their_range_are_refused_by_name() {
    let good = Params::new(ClusterSize { w: 3, h: 3 });
    good.validate(SHAPE).unwrap();
    let name = |change: &dyn Fn(&mut Params)| {
        let mut p = good.clone();
        change(&mut p);
        match p.validate(SHAPE) {
            Err(Error::Param { name, .. }) => name,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(name(&|p| p.size.w = 1), "cluster size");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
        assert_eq!(name(&|p| p.n_sigma = bad), "n_sigma");
    }
    for bad in [-0.1, f64::NAN, 1e6] {
        assert_eq!(name(&|p| p.noise_floor_adu = bad), "noise_floor_adu");
    }
    assert_eq!(name(&|p| p.lanes = 0), "lanes");
    assert_eq!(name(&|p| p.lanes = 4097), "lanes");
    assert_eq!(name(&|p| p.pedestal_samples = 1), "pedestal_samples");
    assert_eq!(name(&|p| p.pedestal_samples = (1 << 24) + 1), "pedestal_samples");
    assert_eq!(name(&|p| (p.test2, p.size.h) = (true, 4)), "test2");
    let mut masked = good.clone();
    masked.mask = Some(Arc::new(PixelMask::new(Shape { rows: 20, cols: 10 })));
    assert_eq!(masked.validate(SHAPE).unwrap_err().to_string(), "mask: shape 20 x 10, expected 10 x 20");
    assert!(good.validate(Shape { rows: 0, cols: 1 }).is_err());
}
