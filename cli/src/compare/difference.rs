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
    /// The largest difference of a value, for clusters that both sides have.
    pub difference_adu: Option<f64>,
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
    /// The largest difference of a value.
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
                        self.largest_adu = self.largest_adu.max(by);
                        note(&mut self.first_values, pixel(&a[i], Some(by)));
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

/// The largest difference of two clusters' values, or nothing when all are equal.
fn difference(a: &Cluster<'_>, b: &Cluster<'_>) -> Option<f64> {
    let pairs = (0..a.values().len()).map(|i| (a.values().get(i), b.values().get(i)));
    // A NaN equals nothing: reported, as an infinite difference.
    let by = pairs.filter(|(p, q)| p != q).map(|(p, q)| (p - q).abs());
    by.map(|d| if d.is_nan() { f64::INFINITY } else { d }).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::{ClusterSize, Values};

    fn cluster(x: u16, y: u16, values: &[i32]) -> Cluster<'_> {
        Cluster::new(x, y, ClusterSize { w: 2, h: 2 }, Values::I32(values)).unwrap()
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
