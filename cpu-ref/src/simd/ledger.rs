//! Where the records of every part of a batch belong.

/// A *cell* is the part of a frame that one thread finds: frame by frame, band by band. Cells follow each other in the
/// result, and are finished in any order.
#[derive(Default)]
pub(super) struct Ledger {
    /// Records of finished cells.
    counts: Vec<Option<usize>>,
    /// Where the cells before `next` begin.
    starts: Vec<usize>,
    /// The first cell that is not finished.
    next: usize,
    /// Records of the cells before `next`.
    total: usize,
    saturated: u64,
}

impl Ledger {
    /// A new batch of so many cells.
    pub fn begin(&mut self, cells: usize) {
        self.counts.clear();
        self.counts.resize(cells, None);
        self.starts.clear();
        self.starts.resize(cells, 0);
        (self.next, self.total, self.saturated) = (0, 0, 0);
    }

    /// Where a cell begins whose predecessors are all finished, while it is not.
    pub fn at(&self, cell: usize) -> Option<usize> {
        (cell == self.next).then_some(self.total)
    }

    /// Where a finished cell begins whose predecessors are all finished.
    pub fn start(&self, cell: usize) -> Option<usize> {
        (cell < self.next).then(|| self.starts[cell])
    }

    /// Notes the records of a cell.
    pub fn finish(&mut self, cell: usize, records: usize, saturated: u64) {
        self.counts[cell] = Some(records);
        self.saturated += saturated;
        while let Some(&Some(records)) = self.counts.get(self.next) {
            self.starts[self.next] = self.total;
            self.total += records;
            self.next += 1;
        }
    }

    /// Whether all cells are finished.
    pub fn is_complete(&self) -> bool {
        self.next == self.counts.len()
    }

    /// Records of the finished cells without a gap before them, and values cut to fit.
    pub fn totals(&self) -> (usize, u64) {
        (self.total, self.saturated)
    }

    /// Records of each frame of so many cells.
    pub fn frames(&self, cells: usize) -> impl Iterator<Item = usize> {
        self.counts.chunks_exact(cells).map(|frame| frame.iter().flatten().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    #[test]
    fn cells_get_their_place_in_order() {
        let mut ledger = Ledger::default();
        ledger.begin(4);
        assert_eq!((ledger.at(0), ledger.at(1), ledger.start(0)), (Some(0), None, None));
        ledger.finish(1, 5, 2);
        assert_eq!(ledger.start(1), None);
        ledger.finish(0, 3, 0);
        assert_eq!((ledger.start(0), ledger.start(1), ledger.at(2)), (Some(0), Some(3), Some(8)));
        ledger.finish(3, 1, 0);
        assert!(!ledger.is_complete());
        ledger.finish(2, 0, 1);
        assert!(ledger.is_complete());
        assert_eq!(ledger.totals(), (9, 3));
        assert_eq!(ledger.frames(2).collect::<Vec<_>>(), [8, 1]);
        ledger.begin(1);
        assert_eq!(ledger.at(0), Some(0));
    }
}
