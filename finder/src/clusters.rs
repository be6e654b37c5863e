//! Clusters: the windows around photons, as a batch of fixed-size records that is borrowed wherever it lies.

// The derive on `Record` repeats its bound.
#![allow(clippy::multiple_bound_locations)]

use bytemuck::{AnyBitPattern, Pod};
use half::f16;

use crate::Branch;
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

/// The values of one cluster, in the type they are stored in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// `i32` values.
    I32(&'a [i32]),
    /// `i16` values.
    I16(&'a [i16]),
    /// `f16` values.
    F16(&'a [f16]),
    /// `f32` values.
    F32(&'a [f32]),
}

impl Values<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::I32(v) => v.len(),
            Values::I16(v) => v.len(),
            Values::F16(v) => v.len(),
            Values::F32(v) => v.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One value in ADU, widened without loss.
    #[inline]
    pub fn get(&self, i: usize) -> f64 {
        match self {
            Values::I32(v) => f64::from(v[i]),
            Values::I16(v) => f64::from(v[i]),
            Values::F16(v) => f64::from(v[i]),
            Values::F32(v) => f64::from(v[i]),
        }
    }
}

/// Which 2x2 corner of a cluster's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corner {
    /// The centre, its left and its upper neighbours.
    TopLeft,
    /// The centre, its right and its upper neighbours.
    TopRight,
    /// The centre, its left and its lower neighbours.
    BottomLeft,
    /// The centre, its right and its lower neighbours.
    BottomRight,
}

/// Where the charge of a photon lies within the largest 2x2 of its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eta {
    /// Share of the right column in the largest 2x2, 0 to 1 for charge that is all positive.
    pub x: f64,
    /// Share of the lower row in the largest 2x2.
    pub y: f64,
    /// Charge of the largest 2x2 in ADU.
    pub sum: f64,
    /// Which 2x2 that is.
    pub corner: Corner,
}

/// One cluster of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster<'a> {
    /// Column of the centre.
    pub x: u16,
    /// Row of the centre.
    pub y: u16,
    /// The window.
    pub size: ClusterSize,
    /// Its values, row-major.
    pub values: Values<'a>,
}

impl Cluster<'_> {
    /// The value of the centre, in ADU.
    pub fn centre(&self) -> f64 {
        self.values.get(self.size.centre())
    }

    /// The charge of the whole window, in ADU.
    pub fn sum(&self) -> f64 {
        fn sum<T: Copy + Into<f64>>(values: &[T]) -> f64 {
            values.iter().map(|v| (*v).into()).sum()
        }
        match self.values {
            Values::I32(v) => sum(v),
            Values::I16(v) => sum(v),
            Values::F16(v) => sum(v),
            Values::F32(v) => sum(v),
        }
    }

    /// The largest charge of the 2x2 squares that hold the centre, in ADU, and which it is; the first of equal
    /// ones in the order of [`Corner`]. Squares that the window does not hold (even sizes, 2 wide) are left out.
    pub fn max_sum_2x2(&self) -> (f64, Corner) {
        let (square, corner) = self.max_2x2();
        (sum_2x2(square), corner)
    }

    /// How the charge of the largest 2x2 is shared between its columns and rows, or nothing when that charge is
    /// not above 0.
    pub fn eta2(&self) -> Option<Eta> {
        let (square, corner) = self.max_2x2();
        let sum = sum_2x2(square);
        let [_, right, lower, both] = square;
        (sum > 0.0).then(|| Eta { x: (right + both) / sum, y: (lower + both) / sum, sum, corner })
    }

    /// The values of the largest 2x2, row by row.
    fn max_2x2(&self) -> ([f64; 4], Corner) {
        match self.values {
            Values::I32(v) => max_2x2(v, self.size),
            Values::I16(v) => max_2x2(v, self.size),
            Values::F16(v) => max_2x2(v, self.size),
            Values::F32(v) => max_2x2(v, self.size),
        }
    }
}

fn sum_2x2([a, b, c, d]: [f64; 4]) -> f64 {
    a + b + c + d
}

fn max_2x2<T: Copy + Into<f64>>(values: &[T], size: ClusterSize) -> ([f64; 4], Corner) {
    let ClusterSize { w, h } = size;
    let (r, c) = (size.up(), size.left());
    let square = |top: usize, left: usize| -> [f64; 4] {
        let i = top * w + left;
        [values[i].into(), values[i + 1].into(), values[i + w].into(), values[i + w + 1].into()]
    };
    let mut best = (square(r - 1, c - 1), Corner::TopLeft);
    for (down, right, corner) in
        [(0, 1, Corner::TopRight), (1, 0, Corner::BottomLeft), (1, 1, Corner::BottomRight)]
    {
        if r + down < h && c + right < w {
            let s = square(r + down - 1, c + right - 1);
            if sum_2x2(s) > sum_2x2(best.0) {
                best = (s, corner);
            }
        }
    }
    best
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
    /// [`Error::Param`] when the parts do not fit each other or the records are not aligned to 4 bytes.
    pub fn new(
        shape: Shape,
        size: ClusterSize,
        payload: Payload,
        numbers: &'a [u64],
        offsets: &'a [u64],
        records: &'a [u8],
    ) -> Result<Self> {
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
        Cluster {
            x: u16::from_ne_bytes([r[0], r[1]]),
            y: u16::from_ne_bytes([r[2], r[3]]),
            size: self.size,
            values: match self.payload {
                Payload::I32 => Values::I32(bytemuck::cast_slice(v)),
                Payload::I16 => Values::I16(bytemuck::cast_slice(v)),
                Payload::F16 => Values::F16(bytemuck::cast_slice(v)),
                Payload::F32 => Values::F32(bytemuck::cast_slice(v)),
            },
        }
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

    /// The branch of every pixel (SPEC 6), `frames x rows x cols`, when it was asked for.
    pub fn trace(&self) -> Option<&'a [u8]> {
        self.trace
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

/// Clusters in memory of their own, to be filled frame by frame and used again.
#[derive(Clone, Debug)]
pub struct ClustersBuf {
    shape: Shape,
    size: ClusterSize,
    payload: Payload,
    numbers: Vec<u64>,
    offsets: Vec<u64>,
    /// The records, as words so that they are aligned.
    words: Vec<u64>,
    bytes: usize,
    trace: Vec<u8>,
    traced: bool,
}

impl ClustersBuf {
    /// No frames.
    pub fn new(shape: Shape, size: ClusterSize, payload: Payload) -> Self {
        ClustersBuf {
            shape,
            size,
            payload,
            numbers: Vec::new(),
            offsets: vec![0],
            words: Vec::new(),
            bytes: 0,
            trace: Vec::new(),
            traced: false,
        }
    }

    /// Forgets all frames and keeps the memory.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.offsets.truncate(1);
        self.bytes = 0;
        self.trace.clear();
        self.traced = false;
    }

    /// Makes room for `clusters` more.
    pub fn reserve(&mut self, clusters: usize) {
        self.grow(self.bytes + clusters * record_bytes(self.size, self.payload));
    }

    fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(8);
        if words > self.words.len() {
            // Doubling by hand: `resize` alone would grow to exactly what is asked.
            let more = words.max(self.words.len() * 2);
            self.words.resize(more, 0);
        }
    }

    /// Room for `clusters` more records after those of the frames finished so far; written records become part
    /// of the batch with [`ClustersBuf::finish_frame`].
    pub fn spare_bytes(&mut self, clusters: usize) -> &mut [u8] {
        let more = clusters * record_bytes(self.size, self.payload);
        self.grow(self.bytes + more);
        &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[self.bytes..][..more]
    }

    /// Ends a frame whose `clusters` records were written to [`ClustersBuf::spare_bytes`].
    ///
    /// # Panics
    /// When there is no room for that many, so that they cannot have been written.
    pub fn finish_frame(&mut self, number: u64, clusters: usize) {
        self.bytes += clusters * record_bytes(self.size, self.payload);
        assert!(self.bytes <= self.words.len() * 8, "{clusters} clusters were never written");
        self.numbers.push(number);
        self.offsets.push(self.offsets[self.offsets.len() - 1] + clusters as u64);
    }

    /// Appends a frame given its records.
    ///
    /// # Panics
    /// When `records` is not a whole number of records.
    pub fn push_frame(&mut self, number: u64, records: &[u8]) {
        let b = record_bytes(self.size, self.payload);
        assert!(records.len().is_multiple_of(b), "{} bytes are no records of {b}", records.len());
        let n = records.len() / b;
        self.spare_bytes(n).copy_from_slice(records);
        self.finish_frame(number, n);
    }

    /// Appends the branch codes of a frame. Either every frame has them or none.
    pub fn push_trace(&mut self, codes: &[u8]) {
        self.traced = true;
        self.trace.extend_from_slice(codes);
    }

    /// Room for the branch codes of one more frame, to be written.
    pub fn spare_trace(&mut self) -> &mut [u8] {
        self.traced = true;
        let n = self.trace.len();
        self.trace.resize(n + self.shape.pixels(), Branch::Masked as u8);
        &mut self.trace[n..]
    }

    /// Appends all frames of a batch of the same size and payload.
    ///
    /// # Panics
    /// When size or payload differ.
    pub fn append(&mut self, batch: &Clusters<'_>) {
        assert_eq!((self.size, self.payload), (batch.size, batch.payload), "another kind of clusters");
        let n = batch.len();
        self.spare_bytes(n).copy_from_slice(batch.records);
        self.bytes += batch.records.len();
        let base = self.offsets[self.offsets.len() - 1];
        self.offsets.extend(batch.offsets[1..].iter().map(|o| base + o));
        self.numbers.extend_from_slice(batch.numbers);
        if let Some(trace) = batch.trace {
            self.push_trace(trace);
        }
    }

    /// The clusters, borrowed.
    ///
    /// # Panics
    /// When some frames have a trace and some have none.
    pub fn view(&self) -> Clusters<'_> {
        let records = &bytemuck::cast_slice::<u64, u8>(&self.words)[..self.bytes];
        Clusters::new(self.shape, self.size, self.payload, &self.numbers, &self.offsets, records)
            .and_then(|c| if self.traced { c.with_trace(&self.trace) } else { Ok(c) })
            .expect("a buffer keeps its parts in step")
    }
}
