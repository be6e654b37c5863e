//! Which cluster stands for which photon.

use std::ops::RangeInclusive;
use std::sync::Arc;

use scheidegg_finder::{Cluster, ClusterSize, Clusters, PixelMask, Shape};

use super::summary::Tally;
use crate::io::simulate::{Photon, Simulator};

/// Compares the clusters of one frame with its photons.
#[derive(Debug)]
pub(super) struct Judge {
    simulator: Arc<Simulator>,
    size: ClusterSize,
    /// Hot, dead and masked pixels.
    blind: PixelMask,
    main_kev: f64,
}

impl Judge {
    pub fn new(simulator: Arc<Simulator>, size: ClusterSize) -> Judge {
        let mut blind = PixelMask::new(simulator.shape());
        simulator.hot_pixels().iter().for_each(|&(r, c)| blind.insert(r, c));
        simulator.dead_pixels().iter().for_each(|&(r, c, _)| blind.insert(r, c));
        let main_kev = simulator.simulation().main_line().energy_kev;
        Judge { simulator, size, blind, main_kev }
    }

    pub fn mask(&mut self, mask: &PixelMask) {
        self.blind.union(mask);
    }

    pub fn shape(&self) -> Shape {
        self.simulator.shape()
    }

    pub fn size(&self) -> ClusterSize {
        self.size
    }

    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// The height of the main line in ADU.
    pub fn main_adu(&self) -> f64 {
        self.main_kev * self.simulator.simulation().gain_adu_per_kev
    }

    /// Counts frame `k` of a batch, which is frame `index` of the simulation.
    pub fn frame(&self, index: u64, batch: &Clusters<'_>, k: usize, tally: &mut Tally) {
        let photons = Hits::new(self.simulator.photons(index), self.shape());
        let lost = self.simulator.lost_pixels(index);
        let clusters: Vec<Cluster<'_>> = batch.frame(k).collect();
        let (of_photon, of_cluster) = pairs(&photons, &clusters);

        tally.frames += 1;
        tally.photons += photons.list.len() as u64;
        tally.clusters += clusters.len() as u64;
        let threshold = 5.0 * self.simulator.simulation().noise_adu;
        for (p, &found) in of_photon.iter().enumerate() {
            tally.found += u64::from(found.is_some());
            if !self.is_clean(&photons, p, lost.as_ref()) {
                continue;
            }
            tally.clean += 1;
            let Some(c) = found else { continue };
            tally.clean_found += 1;
            let cluster = &clusters[c];
            let over = (0..cluster.values().len()).filter(|i| cluster.values().get(*i) > threshold).count();
            tally.pixels_a_photon[over.min(tally.pixels_a_photon.len() - 1)] += 1;
            if photons.list[p].energy_kev == self.main_kev {
                tally.full.add(cluster.sum());
                tally.square.add(cluster.max_sum_2x2().0);
            }
        }
        for (cluster, matched) in clusters.iter().zip(of_cluster) {
            let (y, x) = (i64::from(cluster.y), i64::from(cluster.x));
            let ClusterSize { w, h } = self.size;
            let rows = y - (h / 2) as i64..=y + self.size.down() as i64;
            let cols = x - (w / 2) as i64..=x + self.size.right() as i64;
            let inside = photons.within(rows, cols).count();
            tally.photons_a_cluster[inside.min(tally.photons_a_cluster.len() - 1)] += 1;
            match (matched, inside) {
                (true, _) => tally.matched += 1,
                (false, 0) => tally.false_clusters += 1,
                (false, _) => tally.extra += 1,
            }
        }
    }

    fn is_clean(&self, photons: &Hits, p: usize, lost: Option<&PixelMask>) -> bool {
        let (row, col) = photons.list[p].pixel();
        let (row, col) = (row as i64, col as i64);
        let ClusterSize { w, h } = self.size;
        let alone = photons
            .within(row - h as i64..=row + h as i64, col - w as i64..=col + w as i64)
            .all(|other| other == p);
        if !alone {
            return false;
        }
        let rows = row - self.size.up() as i64 - 1..=row + self.size.down() as i64 + 1;
        let cols = col - self.size.left() as i64 - 1..=col + self.size.right() as i64 + 1;
        let Shape { rows: height, cols: width } = self.shape();
        if *rows.start() < 0
            || *cols.start() < 0
            || *rows.end() >= height as i64
            || *cols.end() >= width as i64
        {
            return false;
        }
        let good = |r: i64, c: i64| {
            let i = r as usize * width + c as usize;
            !self.blind.contains_index(i) && !lost.is_some_and(|m| m.contains_index(i))
        };
        rows.into_iter().all(|r| cols.clone().all(|c| good(r, c)))
    }
}

/// For every photon its cluster, and for every cluster whether it has a photon.
fn pairs(photons: &Hits, clusters: &[Cluster<'_>]) -> (Vec<Option<usize>>, Vec<bool>) {
    let mut near = Vec::new();
    for (c, cluster) in clusters.iter().enumerate() {
        let (y, x) = (i64::from(cluster.y), i64::from(cluster.x));
        for p in photons.within(y - 1..=y + 1, x - 1..=x + 1) {
            let photon = &photons.list[p];
            let (dy, dx) = (photon.y - (y as f64 + 0.5), photon.x - (x as f64 + 0.5));
            near.push((dy * dy + dx * dx, p, c));
        }
    }
    near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut of_photon = vec![None; photons.list.len()];
    let mut of_cluster = vec![false; clusters.len()];
    for (_, p, c) in near {
        if of_photon[p].is_none() && !of_cluster[c] {
            of_photon[p] = Some(c);
            of_cluster[c] = true;
        }
    }
    (of_photon, of_cluster)
}

/// Columns of a cell of [`Hits`]. Few photons share one, so that whoever looks for some meets few others.
const CELL: usize = 16;

/// The photons of a frame, found by pixel: sorted into cells of one row and [`CELL`] columns.
struct Hits {
    list: Vec<Photon>,
    shape: Shape,
    cells_a_row: usize,
    /// Column and photon, cell by cell.
    by_cell: Vec<(u32, u32)>,
    /// Where each cell starts in `by_cell`, and one more.
    starts: Vec<u32>,
}

impl Hits {
    fn new(list: Vec<Photon>, shape: Shape) -> Hits {
        let cells_a_row = shape.cols.div_ceil(CELL);
        let cell = |p: &Photon| p.pixel().0 * cells_a_row + p.pixel().1 / CELL;
        // Counted one cell further on, so that the sums up to a cell are its start.
        let mut starts = vec![0u32; shape.rows * cells_a_row + 1];
        list.iter().for_each(|p| starts[cell(p) + 1] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut by_cell = vec![(0, 0); list.len()];
        for (p, photon) in list.iter().enumerate() {
            let at = &mut next[cell(photon)];
            by_cell[*at as usize] = (photon.pixel().1 as u32, p as u32);
            *at += 1;
        }
        Hits { list, shape, cells_a_row, by_cell, starts }
    }

    /// The photons that hit these rows and columns, which may reach over the frame's edge.
    fn within(
        &self,
        rows: RangeInclusive<i64>,
        cols: RangeInclusive<i64>,
    ) -> impl Iterator<Item = usize> + '_ {
        let cut = |range: &RangeInclusive<i64>, side: usize| {
            let (first, end) = ((*range.start()).max(0), (range.end() + 1).min(side as i64));
            first as usize..end.max(first) as usize
        };
        let (rows, cols) = (cut(&rows, self.shape.rows), cut(&cols, self.shape.cols));
        let cells = cols.start / CELL..cols.end.div_ceil(CELL);
        rows.flat_map(move |r| {
            let start = |cell: usize| self.starts[r * self.cells_a_row + cell] as usize;
            let cols = cols.clone();
            let row = &self.by_cell[start(cells.start)..start(cells.end)];
            row.iter().filter(move |(c, _)| cols.contains(&(*c as usize))).map(|(_, p)| *p as usize)
        })
    }
}
