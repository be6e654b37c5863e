//! Clusters: the windows around photons, as a batch of fixed-size records that is borrowed wherever it lies.

// The derive on `Record` repeats its bound.
#![allow(clippy::multiple_bound_locations)]

use bytemuck::{AnyBitPattern, Pod};
use half::f16;

use crate::cluster::{Cluster, Values};
use crate::clusters_buf::ClustersBuf;
use crate::error::{Error, Result};
use crate::frames::Shape;
use crate::params::{ClusterSize, Payload};

/// One cluster as it lies in memory and in a cluster file: coordinates of the centre and `N = w*h` values,
/// row-major.
#[derive(Clone, Copy, Debug, PartialEq, AnyBitPattern)]
#[repr(C)]
pub struct Record<T: Pod, const N: usize> {
    /// Column of the centre.
    pub x: u16,
    /// Row of the centre.
    pub y: u16,
    /// Pedestal-subtracted values; 0 outside the frame and at masked pixels.
    pub data: [T; N],
}

/// Bytes of a record: 4 for the coordinates, then the values.
pub const fn record_bytes(size: ClusterSize, payload: Payload) -> usize {
    4 + size.pixels() * payload.bytes()
}

/// The clusters of a batch of frames, borrowed: nothing is copied, whoever found them.
///
/// # Shapes
/// `offsets` has one entry a frame and one more; the clusters of frame `k` are `offsets[k] .. offsets[k+1]`, in
/// raster order (y, then x). A record is 4 bytes of coordinates and `w*h` values.
#[derive(Clone, Copy, Debug)]
pub struct Clusters<'a> {
    shape: Shape,
    size: ClusterSize,
    payload: Payload,
    numbers: &'a [u64],
    offsets: &'a [u64],
    records: &'a [u8],
    trace: Option<&'a [u8]>,
}

impl<'a> Clusters<'a> {
    /// A batch from its parts: for backends.
    ///
    /// # Errors
    /// [`Error::Param`] when the parts do not fit each other, the window is none of 2 to 15 pixels each way, or the records
    /// are not aligned to 4 bytes.
    pub fn new(
        shape: Shape,
        size: ClusterSize,
        payload: Payload,
        numbers: &'a [u64],
        offsets: &'a [u64],
        records: &'a [u8],
    ) -> Result<Self> {
        ClusterSize::new(size.w, size.h)?;
        let found = offsets.last().copied().unwrap_or(0) as usize;
        if offsets.len() != numbers.len() + 1 || offsets[0] != 0 || offsets.windows(2).any(|w| w[0] > w[1]) {
            return Err(Error::param(
                "cluster offsets",
                format!("{} for {} frames", offsets.len(), numbers.len()),
                "one a frame and one more, from 0, ascending",
            ));
        }
        let aligned = records.is_empty() || (records.as_ptr() as usize).is_multiple_of(4);
        if records.len() != found * record_bytes(size, payload) || !aligned {
            return Err(Error::param(
                "cluster records",
                format!("{} bytes at {:p}", records.len(), records.as_ptr()),
                format!("{found} records of {} bytes, aligned to 4", record_bytes(size, payload)),
            ));
        }
        Ok(Clusters { shape, size, payload, numbers, offsets, records, trace: None })
    }

    /// The same batch with the branch of every pixel of every frame.
    ///
    /// # Errors
    /// [`Error::Param`] when it has not one byte a pixel and frame.
    pub fn with_trace(self, trace: &'a [u8]) -> Result<Self> {
        let need = self.frames() * self.shape.pixels();
        if trace.len() != need {
            return Err(Error::param("branch trace", trace.len(), format!("{need} bytes")));
        }
        Ok(Clusters { trace: Some(trace), ..self })
    }

    /// The shape of the frames.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The window.
    pub fn size(&self) -> ClusterSize {
        self.size
    }

    /// The type of the values.
    pub fn payload(&self) -> Payload {
        self.payload
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.numbers.len()
    }

    /// The numbers of the frames.
    pub fn numbers(&self) -> &'a [u64] {
        self.numbers
    }

    /// Where each frame's clusters start, and one more.
    pub fn offsets(&self) -> &'a [u64] {
        self.offsets
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.offsets[self.numbers.len()] as usize
    }

    /// Whether there is no cluster.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.size, self.payload)
    }

    /// All records, one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.records
    }

    /// The records of one frame.
    ///
    /// # Panics
    /// When `k` is not below [`Clusters::frames`].
    pub fn frame_bytes(&self, k: usize) -> &'a [u8] {
        let b = self.record_bytes();
        &self.records[self.offsets[k] as usize * b..self.offsets[k + 1] as usize * b]
    }

    /// All records as typed values, without a copy. `N` is `w*h`.
    ///
    /// # Errors
    /// [`Error::Param`] when `T` or `N` is not what is stored.
    pub fn records<T: PayloadType, const N: usize>(&self) -> Result<&'a [Record<T, N>]> {
        if T::PAYLOAD != self.payload || N != self.size.pixels() {
            return Err(Error::param(
                "record type",
                format!("{} x {N}", T::PAYLOAD),
                format!("{} x {} ({})", self.payload, self.size.pixels(), self.size),
            ));
        }
        // An empty slice may start anywhere.
        if self.records.is_empty() {
            return Ok(&[]);
        }
        bytemuck::try_cast_slice(self.records).map_err(|e| Error::Other(format!("cluster records: {e}")))
    }

    /// One cluster.
    ///
    /// # Panics
    /// When `i` is not below [`Clusters::len`].
    pub fn get(&self, i: usize) -> Cluster<'a> {
        let b = self.record_bytes();
        let r = &self.records[i * b..(i + 1) * b];
        let v = &r[4..];
        let values = match self.payload {
            Payload::I32 => Values::I32(bytemuck::cast_slice(v)),
            Payload::I16 => Values::I16(bytemuck::cast_slice(v)),
            Payload::F16 => Values::F16(bytemuck::cast_slice(v)),
            Payload::F32 => Values::F32(bytemuck::cast_slice(v)),
        };
        let coordinate = |i: usize| u16::from_ne_bytes([r[i], r[i + 1]]);
        Cluster::of_record(coordinate(0), coordinate(2), self.size, values)
    }

    /// All clusters in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Cluster<'a>> + use<'a> {
        let all = *self;
        (0..all.len()).map(move |i| all.get(i))
    }

    /// The clusters of one frame.
    pub fn frame(&self, k: usize) -> impl ExactSizeIterator<Item = Cluster<'a>> + use<'a> {
        let all = *self;
        (all.offsets[k] as usize..all.offsets[k + 1] as usize).map(move |i| all.get(i))
    }

    /// The branch of every pixel ([SPEC 6](crate::spec#6-branch-codes)), `frames x rows x cols`, when it was asked
    /// for.
    pub fn trace(&self) -> Option<&'a [u8]> {
        self.trace
    }

    /// How many values are infinite in an `f16` payload: too large for it ([SPEC 3](crate::spec#3-a-frame)). 0 for
    /// every other payload.
    pub fn infinite_f16(&self) -> u64 {
        /// The bits of infinity without the sign.
        const INFINITE: u16 = 0x7c00;
        // An empty slice may start anywhere.
        if self.payload != Payload::F16 || self.records.is_empty() {
            return 0;
        }
        // Short sums in 16 bits, which a compiler makes in vectors.
        let part = |words: &[u16]| words.iter().map(|w| u16::from(w & 0x7fff == INFINITE)).sum::<u16>();
        let infinite = |words: &[u16]| words.chunks(4096).map(|words| u64::from(part(words))).sum::<u64>();
        // Coordinates may look like infinity as well; there is hardly ever anything that does.
        let words: &[u16] = bytemuck::cast_slice(self.records);
        if infinite(words) == 0 {
            return 0;
        }
        words.chunks_exact(self.record_bytes() / 2).map(|record| infinite(&record[2..])).sum()
    }

    /// A copy that owns its memory.
    pub fn to_owned(&self) -> ClustersBuf {
        let mut buf = ClustersBuf::new(self.shape, self.size, self.payload);
        buf.append(self);
        buf
    }
}

/// The Rust types of stored values.
pub trait PayloadType: Pod {
    /// Which payload the type is.
    const PAYLOAD: Payload;
}
impl PayloadType for i32 {
    const PAYLOAD: Payload = Payload::I32;
}
impl PayloadType for i16 {
    const PAYLOAD: Payload = Payload::I16;
}
impl PayloadType for f16 {
    const PAYLOAD: Payload = Payload::F16;
}
impl PayloadType for f32 {
    const PAYLOAD: Payload = Payload::F32;
}
