//! What a raw run says of itself, and when it is refused.

use scheidegg_finder::{FrameBuf, FrameOwner};

use super::header::Header;
use super::source::{RawReading, RawSource};
use crate::io::{Facts, Source};

/// A master of ports of 2 x 3 pixels.
fn master(kind: &str, ports: [usize; 2], more: &str) -> String {
    let [x, y] = ports;
    format!(
        r#"{{"Version": 8.1, "Detector Type": "{kind}", "Geometry": {{"x": {x}, "y": {y}}}, "Image Size": 12,
            "Pixels": {{"x": 3, "y": 2}}{more}}}"#
    )
}

/// Frames of one port from headers.
fn port(headers: &[Header]) -> Vec<u8> {
    headers.iter().flat_map(|h| [&h.to_bytes()[..], &[0; 12]].concat()).collect()
}

fn header(n: u64) -> Header {
    let mut h = Header::parse(&[0; Header::BYTES]);
    h.frame = n;
    h
}

fn open(master: &str, ports: &[Vec<u8>], reading: &RawReading) -> Result<RawSource, String> {
    let files = ports.iter().enumerate().map(|(d, content)| (d, 0, content.clone()));
    RawSource::in_memory(master.as_bytes(), files, reading).map_err(|e| e.to_string())
}

fn plain(master: &str, ports: &[Vec<u8>]) -> RawSource {
    open(master, ports, &RawReading::default()).unwrap()
}

#[test]
fn facts_are_those_of_master_and_first_header() {
    let more = r#", "Exposure Time": "10us", "Acquisition Period": "2ms", "Readout Speed": "half_speed",
        "FPGA Temperature": "40", "Detector Firmware Version": "0x12",
        "Receiver Rois": [{"xmin": 1, "xmax": 2, "ymin": 0, "ymax": 1}]"#;
    let text = |s: &str| Some(s.to_string());
    let mut h = header(5);
    h.spec3 = 9 << 8;
    let cut = [&h.to_bytes()[..], &[0; 8]].concat();
    let known = Facts {
        detector: text("Jungfrau"),
        whole: Some([2, 3]),
        region: Some([1, 2, 0, 1]),
        gain: text("switching by itself"),
        exposure: text("10us"),
        period: text("2ms"),
        temperature: text("40"),
        firmware: text("0x12"),
        readout_speed: text("half_speed"),
        storage_cell: Some(9),
    };
    assert_eq!(plain(&master("Jungfrau", [1, 1], more), std::slice::from_ref(&cut)).facts(), known);
    let moench = Facts { detector: text("Moench"), gain: None, storage_cell: None, ..known };
    assert_eq!(plain(&master("Moench", [1, 1], more), &[cut]).facts(), moench);
    let empty = plain(&master("Jungfrau", [1, 1], ""), &[vec![]]).facts();
    let whole = Some([2, 3]);
    let bare = Facts { detector: text("Jungfrau"), whole, region: Some([0, 2, 0, 1]), ..Facts::default() };
    assert_eq!(empty, bare);

    for (spec3, gain) in [
        (0, "switching by itself"),
        (1, "switching by itself, high gain 0"),
        (1 << 12, "forced to G1"),
        (1 << 12 | 1, "forced to G1, high gain 0"),
        (1 << 13, "forced to G2"),
        (3 << 12 | 1, "forced to G2, high gain 0"),
        (0xcf0e, "switching by itself"),
    ] {
        let mut h = header(1);
        h.spec3 = spec3;
        let source = plain(&master("Jungfrau", [1, 1], ""), &[port(&[h, header(2)])]);
        assert_eq!(source.facts().gain.as_deref(), Some(gain), "{spec3:#x}");
    }
}

#[test]
fn what_does_not_fit_together_is_remarked() {
    let two = || port(&[header(1), header(2)]);
    let unknown = "memory_master_0.json: packets of an image are not known; lost ones are told by rows of 0xFFFF and not \
                   counted";
    let said = |said: u64, ports: &[Vec<u8>]| {
        let more = format!(r#", "Frames in File": {said}"#);
        let mut warnings = plain(&master("Moench", [1, ports.len()], &more), ports).health().warnings;
        assert_eq!(warnings.remove(0), unknown);
        warnings
    };
    assert!(said(2, &[two()]).is_empty());
    let differs = |k| format!("memory_master_0.json: the master says {k} frames, the data files hold 2");
    assert_eq!(said(1, &[two()]), [differs(1)]);
    // The port with the fewest counts.
    assert_eq!(said(3, &[port(&[header(1), header(2), header(3)]), two()]), [differs(3)]);
    // Nothing to tell packets by is nothing to warn of.
    assert!(plain(&master("Moench", [1, 1], ""), &[vec![]]).health().warnings.is_empty());

    let (mut a, mut b) = (header(1), header(1));
    (a.detector, b.detector) = (3, 5);
    (b.row, b.column) = (1, 1);
    let warnings = plain(&master("Moench", [1, 2], ""), &[port(&[a]), port(&[b])]).health().warnings;
    assert_eq!(
        warnings,
        [
            "memory_d0_f0_0.raw: the frame header says detector 3, the master 5 (Moench)",
            "memory_d1_f0_0.raw: the frame header puts port 1 at row 1 and column 1, its place in the run at 1 and 0",
            unknown
        ]
    );
}

#[test]
fn runs_that_cannot_be_read_are_refused() {
    let one = || port(&[header(1)]);
    let regions = |n: usize| {
        let roi = r#"{"xmin": 0, "xmax": 2, "ymin": 0, "ymax": 1}"#;
        format!(r#", "Receiver Rois": [{}]"#, vec![roi; n].join(", "))
    };
    let of = |more: &str, ports: &[Vec<u8>], roi: Option<usize>| {
        let reading = RawReading { roi, ..RawReading::default() };
        open(&master("Moench", [1, 1], more), ports, &reading).map(|s| s.facts().region.unwrap())
    };
    let whole = Ok([0, 2, 0, 1]);
    assert_eq!(of("", &[one()], None), whole);
    assert_eq!(of(&regions(1), &[one()], None), whole);
    assert_eq!(of(&regions(1), &[one()], Some(0)), whole);
    assert_eq!(of(&regions(2), &[one()], Some(1)), whole);
    let err = |what: &str| Err(format!("memory_master_0.json: {what}"));
    for (n, k) in [(0, 0), (1, 1), (2, 2)] {
        let what = format!("region of interest {k} was asked for, the run has {n}");
        assert_eq!(of(&regions(n), &[one()], Some(k)), err(&what));
    }
    let many = "the run has 3 regions of interest, which are images of their own: choose one, 0 to 2";
    assert_eq!(of(&regions(3), &[one()], None), err(many));
    assert_eq!(of("", &[], None), err("no data file like memory_d0_f0_0.raw stands beside it"));
    let port_1 = "port 1 has no data file (memory_d0_f0_0.raw with d1)";
    let half = |keep_going| {
        let reading = RawReading { keep_going, ..RawReading::default() };
        open(&master("Moench", [1, 2], ""), &[one()], &reading)
    };
    let refused = format!("{port_1}: the run is not complete without it");
    assert_eq!(half(false).map(|_| [0; 4]), err(&refused));
    let first = half(true).unwrap().health().warnings.remove(0);
    assert_eq!(first, format!("memory_master_0.json: {port_1}: its pixels are masked"));
}

#[test]
fn ports_without_a_geometry_tell_their_places_themselves() {
    let text = "Version : 6.0\nDetector Type : Moench\nImage Size : 12 bytes\nPixels : [3, 2]\n";
    let at = |row, column, n| {
        let mut h = header(n);
        (h.row, h.column, h.packets) = (row, column, 1);
        h
    };
    // The second file of a port is not asked; a port whose file is empty does not know.
    let files = [
        (0, 0, port(&[at(0, 0, 1)])),
        (1, 0, port(&[at(1, 0, 1)])),
        (2, 1, port(&[at(7, 7, 2)])),
        (2, 0, port(&[at(0, 1, 1)])),
        (3, 0, vec![]),
    ];
    let source = RawSource::in_memory(text.as_bytes(), files, &RawReading::default()).unwrap();
    assert_eq!((source.shape().rows, source.shape().cols), (4, 6));
    let ports: Vec<_> = source.ports().collect();
    assert_eq!(ports, [(0, 1, 1), (1, 1, 1), (2, 2, 2), (3, 1, 0)]);
}

#[test]
fn a_port_that_is_stored_whole_is_told_by_its_length() {
    let more = r#", "Receiver Rois": [{"xmin": 1, "xmax": 2, "ymin": 0, "ymax": 1}]"#;
    let words: Vec<u8> = (0..6u16).flat_map(|w| (w + 10).to_le_bytes()).collect();
    let whole = [&header(1).to_bytes()[..], &words].concat();
    let cut = [&header(1).to_bytes()[..], &words[..8]].concat();
    for (file, pixels) in [(whole, [11, 12, 14, 15]), (cut, [10, 11, 12, 13])] {
        let mut source = plain(&master("Moench", [1, 1], more), &[file]);
        let mut buf = FrameBuf::new(source.shape(), 1);
        assert_eq!(source.read(&mut buf).unwrap(), 1);
        assert_eq!(buf.frames().frame(0), pixels);
    }
}
