//! What differs between two lists of clusters.

use scheidegg::Cluster;

/// Differences of each kind that are listed.
const LISTED: usize = 10;

/// A cluster that is not the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pixel {
    pub frame: u64,
    pub x: u16,
    pub y: u16,
    /// The largest difference of a value, for clusters that both sides have and whose values are numbers.
    pub difference_adu: Option<f64>,
}

/// How the values of two clusters differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// At most so many.
    Adu(f64),
    /// One is infinite or no number where the other is something else.
    NoNumber,
}

/// What differs so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Frames that have clusters on either side.
    pub frames: u64,
    /// Clusters at the same frame and pixel.
    pub common: u64,
    /// Those of them whose values differ.
    pub values: u64,
    /// Those of them where one side is infinite or no number and the other is something else.
    pub without_number: u64,
    /// The largest difference of values that are numbers.
    pub largest_adu: f64,
    /// Clusters that only one side has.
    pub only_a: u64,
    pub only_b: u64,
    /// The first of each kind.
    pub first_values: Vec<Pixel>,
    pub first_only_a: Vec<Pixel>,
    pub first_only_b: Vec<Pixel>,
}

impl Difference {
    /// Whether both sides are the same.
    pub fn is_none(&self) -> bool {
        self.values == 0 && self.only_a == 0 && self.only_b == 0
    }

    /// Compares the clusters of one frame; the order within the frame does not matter.
    pub fn frame<'a>(
        &mut self,
        frame: u64,
        a: impl Iterator<Item = Cluster<'a>>,
        b: impl Iterator<Item = Cluster<'a>>,
    ) {
        let sorted = |clusters: &mut dyn Iterator<Item = Cluster<'a>>| {
            let mut v: Vec<Cluster<'a>> = clusters.collect();
            v.sort_by_key(|c| (c.y, c.x));
            v
        };
        let (a, b) = (sorted(&mut { a }), sorted(&mut { b }));
        self.frames += u64::from(!a.is_empty() || !b.is_empty());
        let pixel = |c: &Cluster<'_>, difference_adu| Pixel { frame, x: c.x, y: c.y, difference_adu };
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            let order = match (a.get(i), b.get(j)) {
                (Some(p), Some(q)) => (p.y, p.x).cmp(&(q.y, q.x)),
                (Some(_), None) => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            };
            match order {
                std::cmp::Ordering::Less => {
                    self.only_a += 1;
                    note(&mut self.first_only_a, pixel(&a[i], None));
                    i += 1;
                }
                std::cmp::Ordering::Greater => {
                    self.only_b += 1;
                    note(&mut self.first_only_b, pixel(&b[j], None));
                    j += 1;
                }
                std::cmp::Ordering::Equal => {
                    self.common += 1;
                    if let Some(by) = difference(&a[i], &b[j]) {
                        self.values += 1;
                        let by = match by {
                            By::Adu(adu) => Some(adu),
                            By::NoNumber => None,
                        };
                        self.without_number += u64::from(by.is_none());
                        self.largest_adu = self.largest_adu.max(by.unwrap_or(0.0));
                        note(&mut self.first_values, pixel(&a[i], by));
                    }
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
    }
}

fn note(list: &mut Vec<Pixel>, pixel: Pixel) {
    if list.len() < LISTED {
        list.push(pixel);
    }
}

/// How the values of two clusters of the same window differ, or nothing when all are equal. No number equals no number.
fn difference(a: &Cluster<'_>, b: &Cluster<'_>) -> Option<By> {
    let (p, q) = (a.values(), b.values());
    let pairs = (0..p.len().min(q.len())).map(|i| (p.get(i), q.get(i)));
    let mut by = None;
    for (p, q) in pairs.filter(|(p, q)| p != q && !(p.is_nan() && q.is_nan())) {
        let d = (p - q).abs();
        if !d.is_finite() {
            return Some(By::NoNumber);
        }
        by = Some(by.map_or(d, |most: f64| most.max(d)));
    }
    by.map(By::Adu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::{ClusterSize, Values};

    fn cluster(x: u16, y: u16, values: &[i32]) -> Cluster<'_> {
        Cluster::new(x, y, ClusterSize { w: 2, h: 2 }, Values::I32(values)).unwrap()
    }

    /// Fault: "by at most inf ADU".
    #[test]
    fn what_is_no_number_has_no_difference() {
        fn of(v: &[f32; 4]) -> Cluster<'_> {
            Cluster::new(1, 1, ClusterSize { w: 2, h: 2 }, Values::F32(v)).unwrap()
        }
        let found = |a: &[f32; 4], b: &[f32; 4]| {
            let mut d = Difference::default();
            d.frame(1, [of(a)].into_iter(), [of(b)].into_iter());
            d
        };
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert!(found(&[1.0, inf, nan, -inf], &[1.0, inf, nan, -inf]).is_none());
        for other in [[1.0, 5.0, 3.0, 4.0], [1.0, nan, 2.0, 4.0], [1.0, -inf, 2.0, 4.0]] {
            let d = found(&[1.0, inf, 2.0, 4.0], &other);
            assert_eq!((d.values, d.without_number, d.largest_adu), (1, 1, 0.0));
            assert_eq!(d.first_values[0].difference_adu, None);
        }
        let d = found(&[1.0, inf, 2.0, 4.0], &[1.5, inf, 2.0, 8.0]);
        assert_eq!((d.values, d.without_number, d.largest_adu), (1, 0, 4.0));
    }

    #[test]
    fn each_kind_of_difference_is_counted() {
        let (v, w) = ([1, 2, 3, 4], [1, 2, 3, 9]);
        let mut d = Difference::default();
        d.frame(
            7,
            [cluster(1, 1, &v), cluster(5, 2, &v)].into_iter(),
            [cluster(5, 2, &v), cluster(1, 1, &v)].into_iter(),
        );
        assert!(d.is_none() && d.common == 2 && d.frames == 1);
        d.frame(
            8,
            [cluster(1, 1, &v), cluster(2, 3, &v)].into_iter(),
            [cluster(1, 1, &w), cluster(9, 9, &v)].into_iter(),
        );
        assert_eq!((d.common, d.values, d.largest_adu, d.only_a, d.only_b, d.frames), (3, 1, 5.0, 1, 1, 2));
        assert_eq!(d.first_values, [Pixel { frame: 8, x: 1, y: 1, difference_adu: Some(5.0) }]);
        assert_eq!(d.first_only_a, [Pixel { frame: 8, x: 2, y: 3, difference_adu: None }]);
        assert_eq!(d.first_only_b, [Pixel { frame: 8, x: 9, y: 9, difference_adu: None }]);
        for _ in 0..20 {
            d.frame(9, [cluster(1, 1, &v)].into_iter(), [].into_iter());
        }
        assert_eq!((d.only_a, d.first_only_a.len()), (21, LISTED));
    }
}
