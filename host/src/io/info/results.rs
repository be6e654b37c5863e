//! What a file of clusters or a saved pedestal holds.

use std::path::Path;

use scheidegg_finder::{ClusterSize, Clusters, Payload, Result, Values};

use super::Info;
use crate::io::npz::Npz;
use crate::io::origin::Beside;
use crate::io::table::TableReader;
use crate::io::{Checksum, ClustReader, Results, cluster_file_kinds, load_pedestal, load_pedestal_facts};

/// A `.npz` file: clusters, a pedestal, or any arrays.
pub(super) fn of_npz(path: &Path) -> Result<Info> {
    let names = Npz::open(path)?.names();
    let has = |name: &str| names.iter().any(|n| n == name);
    if has("frame") && has("data") {
        return of_table(path);
    }
    if has("x0") && has("samples") {
        return Ok(of_pedestal(path));
    }
    let mut info = Info::new("arrays, .npz");
    info.row("arrays", names.join(", "));
    info.warnings.push(format!("{}: neither clusters (frame, x, y, data) nor a pedestal", path.display()));
    Ok(info)
}

fn of_pedestal(path: &Path) -> Info {
    let mut info = Info::new("a pedestal");
    match load_pedestal(path) {
        Ok(p) => {
            info.row("rows x cols", p.shape);
            info.row("dark frames", p.samples);
            info.row("precision", if p.sum.is_f64() { "f64" } else { "f32" });
            info.row("noise", if p.fixed_variance.is_some() { "fixed" } else { "tracked" });
            info.row("pixels without noise", p.quiet_pixels().len());
            info.row("untrained pixels", p.untrained.as_ref().map_or(0, |m| m.count()));
            info.row("checksum", CHECKED);
        }
        Err(e) => info.faults.push(e.to_string()),
    }
    match load_pedestal_facts(path) {
        Ok(facts) => facts.rows().into_iter().for_each(|(what, value)| info.row(what, value)),
        Err(e) => info.faults.push(e.to_string()),
    }
    match Npz::open(path).and_then(|mut npz| npz.json("provenance")) {
        Ok(provenance) => info.provenance = provenance,
        Err(e) => info.faults.push(e.to_string()),
    }
    info
}

/// What is said of content that is what was written.
const CHECKED: &str = "checked";

/// Clusters as columns.
pub(super) fn of_table(path: &Path) -> Result<Info> {
    let mut info = Info::new("clusters");
    let table = TableReader::open(path)?;
    let rows = table.clusters();
    read(&mut info, Box::new(table), Some(rows), path);
    Ok(info)
}

/// A cluster file, whose window and type may not be known.
pub(super) fn of_clust(path: &Path, size: Option<ClusterSize>, payload: Option<Payload>) -> Result<Info> {
    let mut info = Info::new("clusters");
    let said = match Beside::of(path) {
        Ok(beside) => beside.map_or((None, None), |b| b.kind()),
        Err(e) => {
            info.faults.push(e.to_string());
            (None, None)
        }
    };
    let (known_size, known_payload) = (size.or(said.0), payload.or(said.1));
    let kind = match (known_size, known_payload) {
        (Some(size), Some(payload)) => Some((size, payload)),
        (known_size, known_payload) => {
            let fit = cluster_file_kinds(path, known_size, known_payload)?;
            guess(&mut info, &fit, known_size, known_payload, path)
        }
    };
    let Some((size, payload)) = kind else { return Ok(info) };
    let results = match info.faults.is_empty() {
        true => ClustReader::open(path, size, payload)?,
        // What stands beside it is damaged.
        false => ClustReader::open_alone(path, size, payload)?,
    };
    read(&mut info, Box::new(results), None, path);
    Ok(info)
}

/// The window and type of a file that one kind alone fits, or that has no clusters; the type of the peer's files where the
/// window is known.
fn guess(
    info: &mut Info,
    fit: &[(ClusterSize, Payload)],
    size: Option<ClusterSize>,
    payload: Option<Payload>,
    path: &Path,
) -> Option<(ClusterSize, Payload)> {
    let name = path.display();
    match fit {
        &[(size, payload)] => {
            let note = format!(
                "{name}: {size} of {payload} is a guess: no other window and type fits the whole file"
            );
            info.warnings.push(note);
            Some((size, payload))
        }
        // The type of the peer's files, where nothing speaks against it.
        several if size.is_some() && several.contains(&(size?, Payload::I32)) => Some((size?, Payload::I32)),
        [] if size.is_some() => Some((size?, payload.unwrap_or(Payload::I32))),
        [] if std::fs::metadata(path).is_ok_and(|m| m.len() == 0) => {
            Some((ClusterSize { w: 3, h: 3 }, Payload::I32))
        }
        [] => {
            info.faults.push(format!(
                "{name}: no window of 2 to 15 pixels each way fits the whole file: it is cut short, no cluster file, or \
                 without clusters (give its window to see where it ends)"
            ));
            None
        }
        several => {
            let several: Vec<_> = several.iter().map(|(s, p)| format!("{s} of {p}")).collect();
            info.faults.push(format!(
                "{name}: a cluster file does not say its window and type, and several fit: give one of {}",
                several.join(", ")
            ));
            None
        }
    }
}

/// Reads clusters to their end, or to a fault. Columns tell beforehand how many there are.
fn read(info: &mut Info, mut results: Box<dyn Results>, rows: Option<u64>, path: &Path) {
    /// Frames that are looked at together.
    const AT_ONCE: usize = 256;
    info.row("window", results.size());
    info.row("values", results.payload());
    let (mut frames, mut clusters, mut at_limit, mut numbers) = (0u64, 0u64, 0u64, None::<(u64, u64)>);
    let (mut buf, mut whole) = (results.buffer(), true);
    loop {
        buf.clear();
        let outcome = results.read(&mut buf, AT_ONCE);
        let view = buf.view();
        frames += view.frames() as u64;
        clusters += view.len() as u64;
        at_limit += values_at_limit(&view);
        for &n in view.numbers() {
            let (low, high) = numbers.unwrap_or((n, n));
            numbers = Some((low.min(n), high.max(n)));
        }
        match outcome {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => {
                info.faults.push(e.to_string());
                whole = false;
                break;
            }
        }
    }
    let before = if whole { "" } else { " before the fault below" };
    info.row(if rows.is_some() { "frames with clusters" } else { "frames" }, format!("{frames}{before}"));
    if let Some((low, high)) = numbers {
        info.row("frame numbers", format!("{low} to {high}"));
    }
    match rows {
        Some(rows) if !whole => info.row("clusters", format!("{clusters} of {rows}{before}")),
        _ => info.row("clusters", format!("{clusters}{before}")),
    }
    if frames > 0 {
        info.row("clusters a frame", format!("{:.2}", clusters as f64 / frames as f64));
    }
    if at_limit > 0 {
        let (what, how) = limit_of(results.payload());
        info.row(what, at_limit);
        info.warnings.push(format!("{}: {at_limit} values {how}", path.display()));
    }
    match results.checksum() {
        Checksum::Agrees => info.row("checksum", CHECKED),
        Checksum::None => info.row("checksum", "none beside it"),
        Checksum::Unread => {}
    }
    info.warnings.extend(results.notes().into_iter().map(|n| format!("{}: {n}", path.display())));
    if let Some(said) = results.provenance() {
        info.provenance = Some(said.clone());
        let beside = Beside::path_of(path);
        if beside.is_file() {
            info.files.push(beside);
        }
    }
}

/// Values that stand at the end of what their type holds.
fn values_at_limit(clusters: &Clusters<'_>) -> u64 {
    let of = |values: Values<'_>| match values {
        Values::I32(v) => v.iter().filter(|v| matches!(**v, i32::MIN | i32::MAX)).count(),
        Values::I16(v) => v.iter().filter(|v| matches!(**v, i16::MIN | i16::MAX)).count(),
        Values::F16(v) => v.iter().filter(|v| !v.is_finite()).count(),
        Values::F32(v) => v.iter().filter(|v| !v.is_finite()).count(),
    };
    clusters.iter().map(|c| of(c.values()) as u64).sum()
}

/// What such values are called.
const fn limit_of(payload: Payload) -> (&'static str, &'static str) {
    match payload {
        Payload::I32 | Payload::I16 => {
            ("saturated values", "are the smallest or the largest that their type holds: they were cut to it")
        }
        Payload::F16 | Payload::F32 => {
            ("values without a number", "are infinite or no number (f16 holds up to 65504)")
        }
    }
}
