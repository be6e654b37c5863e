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
