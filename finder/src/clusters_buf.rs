//! Clusters in memory of their own.

use scheidegg_kernels::Branch;

use crate::clusters::{Clusters, record_bytes};
use crate::frames::Shape;
use crate::params::{ClusterSize, Payload};

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
        assert_eq!((self.size, self.payload), (batch.size(), batch.payload()), "another kind of clusters");
        let n = batch.len();
        self.spare_bytes(n).copy_from_slice(batch.bytes());
        self.bytes += batch.bytes().len();
        let base = self.offsets[self.offsets.len() - 1];
        self.offsets.extend(batch.offsets()[1..].iter().map(|o| base + o));
        self.numbers.extend_from_slice(batch.numbers());
        if let Some(trace) = batch.trace() {
            self.push_trace(trace);
        }
    }

    /// Exchanges clusters and memory with another buffer.
    ///
    /// # Panics
    /// When the buffers are for other kinds of clusters.
    pub fn swap(&mut self, other: &mut ClustersBuf) {
        let kind = |b: &ClustersBuf| (b.shape, b.size, b.payload);
        assert_eq!(kind(self), kind(other), "another kind of clusters");
        std::mem::swap(self, other);
    }

    /// The clusters, borrowed.
    ///
    /// # Panics
    /// When some frames have a trace and some have none, or the window is none of 2 to 15 pixels each way
    /// ([`ClusterSize::new`] gives no other).
    pub fn view(&self) -> Clusters<'_> {
        let records = &bytemuck::cast_slice::<u64, u8>(&self.words)[..self.bytes];
        Clusters::new(self.shape, self.size, self.payload, &self.numbers, &self.offsets, records)
            .and_then(|c| if self.traced { c.with_trace(&self.trace) } else { Ok(c) })
            .expect("a buffer keeps its parts in step")
    }
}
