//! Whether the values of clusters look like what they are read as. Files without a header are read as anything.

use scheidegg_finder::{Cluster, ClusterSize, Payload};

/// Clusters that are looked at.
const MOST: u64 = 4096;

/// What the first clusters of a file look like.
#[derive(Clone, Debug)]
pub(crate) struct Looks {
    size: ClusterSize,
    payload: Payload,
    clusters: u64,
    /// Clusters whose centre is not their largest value. Finders store none.
    off_centre: u64,
    /// Values that are not 0, and those of them that pixels never have.
    values: u64,
    odd: u64,
}

impl Looks {
    pub fn new(size: ClusterSize, payload: Payload) -> Looks {
        Looks { size, payload, clusters: 0, off_centre: 0, values: 0, odd: 0 }
    }

    /// Whether enough was seen.
    pub fn is_full(&self) -> bool {
        self.clusters >= MOST
    }

    pub fn take(&mut self, cluster: &Cluster<'_>) {
        let (values, centre) = (cluster.values(), cluster.centre());
        self.clusters += 1;
        let mut largest = true;
        for i in 0..values.len() {
            let v = values.get(i);
            largest &= v <= centre;
            if v != 0.0 {
                self.values += 1;
                self.odd += u64::from(is_odd(self.payload, v));
            }
        }
        self.off_centre += u64::from(!largest);
    }

    /// A sentence when most of it cannot be what it is read as.
    pub fn doubt(&self) -> Option<String> {
        // Signal of thousands of ADU is rare, but there is some.
        let bar = if self.payload == Payload::I16 { 0.75 } else { 0.5 };
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let odd = share(self.odd, self.values);
        if odd > bar {
            let (what, other) = match self.payload {
                Payload::I32 => ("above 131072 or below -131072", Payload::F32),
                Payload::F32 => ("no number, or none that a pixel has", Payload::I32),
                Payload::I16 => ("above 8192 or below -8192", Payload::F16),
                Payload::F16 => ("no number, or nearer to 0 than 0.01", Payload::I16),
            };
            return Some(format!(
                "{:.0} % of the values are {what}: are they really {}, and not {other}?",
                100.0 * odd,
                self.payload
            ));
        }
        let off = share(self.off_centre, self.clusters);
        (off > 0.5).then(|| {
            format!(
                "in {:.0} % of the clusters the centre is not the largest value: is the window really {} of {}?",
                100.0 * off,
                self.size,
                self.payload
            )
        })
    }
}

/// Charge that no pixel of 16 bits has, by far.
const MOST_ADU: f64 = 131_072.0;

/// Whether no pixel has this value, which is not 0, and the bits of another type often do.
fn is_odd(payload: Payload, v: f64) -> bool {
    match payload {
        Payload::I32 => v.abs() > MOST_ADU,
        Payload::F32 => !v.is_finite() || v.abs() < 1e-20 || v.abs() > MOST_ADU,
        Payload::I16 => v.abs() >= 8192.0,
        // Charge above 65504 is infinite.
        Payload::F16 => v.is_nan() || v.abs() < 0.01,
    }
}

#[cfg(test)]
mod tests {
    use scheidegg_finder::Values;

    use super::*;

    const SIZE: ClusterSize = ClusterSize { w: 2, h: 2 };

    #[test]
    fn strange_values_begin_where_pixels_end() {
        for (payload, v, odd) in [
            (Payload::I32, 131_072.0, false),
            (Payload::I32, -131_073.0, true),
            (Payload::F32, -131_072.0, false),
            (Payload::F32, 131_072.5, true),
            (Payload::F32, 1e-20, false),
            (Payload::F32, -9e-21, true),
            (Payload::F32, f64::NAN, true),
            (Payload::F32, f64::INFINITY, true),
            (Payload::I16, 8192.0, true),
            (Payload::I16, -8191.0, false),
            (Payload::F16, 0.01, false),
            (Payload::F16, -0.0099, true),
            (Payload::F16, f64::NAN, true),
            (Payload::F16, f64::INFINITY, false),
        ] {
            assert_eq!(is_odd(payload, v), odd, "{v} of {payload}");
        }
    }

    #[test]
    fn enough_is_seen_at_last_and_zeros_count_for_nothing() {
        let mut looks = Looks::new(SIZE, Payload::I32);
        let cluster = |values: &'static [i32]| Cluster::new(0, 0, SIZE, Values::I32(values)).unwrap();
        looks.take(&cluster(&[0, 200_000, 7, 5]));
        looks.take(&cluster(&[0, 0, 9, 9]));
        assert_eq!((looks.clusters, looks.off_centre, looks.values, looks.odd), (2, 1, 5, 1));
        for k in 2..=MOST {
            assert!(looks.clusters == k && looks.is_full() == (k == MOST));
            looks.take(&cluster(&[0, 0, 0, 5]));
        }
        assert!(looks.is_full());
    }

    #[test]
    fn most_of_it_must_be_strange_to_be_doubted() {
        let values = |payload: Payload, odd: u64, all: u64| {
            Looks { values: all, odd, clusters: 10, off_centre: 5, ..Looks::new(SIZE, payload) }.doubt()
        };
        for payload in [Payload::I32, Payload::F16, Payload::F32] {
            assert_eq!(values(payload, 5, 10), None);
        }
        assert_eq!((values(Payload::I16, 6, 8), values(Payload::I32, 0, 0)), (None, None));
        for (payload, odd, said) in [
            (
                Payload::I32,
                51,
                "51 % of the values are above 131072 or below -131072: are they really i32, and not f32?",
            ),
            (
                Payload::F32,
                60,
                "60 % of the values are no number, or none that a pixel has: are they really f32, and not i32?",
            ),
            (
                Payload::I16,
                76,
                "76 % of the values are above 8192 or below -8192: are they really i16, and not f16?",
            ),
            (
                Payload::F16,
                100,
                "100 % of the values are no number, or nearer to 0 than 0.01: are they really f16, and not i16?",
            ),
        ] {
            assert_eq!(values(payload, odd, 100).as_deref(), Some(said));
        }
        let looks = Looks { clusters: 100, off_centre: 51, ..Looks::new(SIZE, Payload::I16) };
        let said =
            "in 51 % of the clusters the centre is not the largest value: is the window really 2x2 of i16?";
        assert_eq!(looks.doubt().as_deref(), Some(said));
    }
}
