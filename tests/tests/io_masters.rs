//! Master files of every version, real ones where they are there, and what they make of data files.

mod io_common;

use std::fs;
use std::path::Path;

use io_common::*;
use scheidegg::Shape;
use scheidegg::io::raw::{Detector, Header, PacketSet, Roi};
use scheidegg::io::{Board, Master, RawOptions, RawReading, RawSource, Source};

fn parse(text: &str) -> scheidegg::Result<Master> {
    Master::parse(Path::new("a_master_0.json"), text.as_bytes())
}

const JSON_8: &str = r#"{
    "Version": 8.1,
    "Timestamp": "Tue Mar 26 17:24:02 2026",
    "Detector Type": "Moench",
    "Timing Mode": "trigger",
    "Geometry": { "x": 1, "y": 2 },
    "Image Size": 160000,
    "Pixels": { "x": 400, "y": 200 },
    "Max Frames Per File": 100000,
    "Frame Discard Policy": "discardpartial",
    "Frame Padding": 1,
    "Scan Parameters": { "enable": 0 },
    "Total Frames": 5,
    "Exposure Time": "10us",
    "Acquisition Period": "2ms",
    "Number of UDP Interfaces": 2,
    "Number of Rows": 400,
    "Receiver Rois": [{ "xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1 }],
    "UDP Ports Type": ["a", "b"],
    "Disabled": [],
    "Readout Speed": "full_speed",
    "A key of the future": [1, { "b": 2 }],
    "Frames in File": 5
}"#;

#[test]
fn version_8_has_other_names() {
    let m = parse(JSON_8).unwrap();
    assert_eq!((m.version.as_str(), m.detector(None).unwrap()), ("8.1", Detector::Moench));
    assert_eq!((m.geometry, m.port), (Some(Shape { rows: 2, cols: 1 }), Shape { rows: 200, cols: 400 }));
    assert_eq!((m.image_bytes, m.max_frames_per_file), (160_000, 100_000));
    assert_eq!(
        (m.exposure.as_str(), m.period.as_str(), m.readout_speed.as_str()),
        ("10us", "2ms", "full_speed")
    );
    assert_eq!((m.total_frames, m.frames_in_file, m.udp_interfaces), (Some(5), Some(5), 2));
    assert_eq!((m.rois.len(), m.rows_read), (0, Some(400)));
    let other: Vec<_> = m.other.iter().map(|o| (o.0.as_str(), o.1.as_str())).collect();
    assert!(other.contains(&("A key of the future", r#"[1,{"b":2}]"#)), "{other:?}");
    assert!(other.contains(&("UDP Ports Type", r#"["a","b"]"#)), "{other:?}");
    assert!(m.disabled_ports.is_empty());
}

#[test]
fn regions_of_interest_are_read() {
    let with = |roi: &str| JSON_8.replace(r#"{ "xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1 }"#, roi);
    let m = parse(&with(r#"{ "xmin": 1, "xmax": 20, "ymin": 3, "ymax": 40 }"#)).unwrap();
    assert_eq!(m.rois, [Roi { xmin: 1, xmax: 20, ymin: 3, ymax: 40 }]);
    let old = parse(&JSON_8.replace("\"Receiver Rois\"", "\"x\"").replace(
        "\"Disabled\": []",
        r#""Receiver Roi": { "xmin": 4294967295, "xmax": 4294967295, "ymin": 4294967295, "ymax": 4294967295 }"#,
    ));
    assert_eq!(old.unwrap().rois, []);
    for (bad, part) in [
        (r#"{ "xmin": 9, "xmax": 2, "ymin": 3, "ymax": 40 }"#, "ends before it starts"),
        (r#"{ "xmin": 9 }"#, "expected xmin"),
        (r#"{ "xmin": -7, "xmax": 2, "ymin": 3, "ymax": 40 }"#, "expected xmin"),
    ] {
        let refused = said(parse(&with(bad)));
        assert!(refused.contains("Receiver Rois") && refused.contains(part), "{refused}");
    }
}

#[test]
fn a_missing_or_wrong_key_is_named() {
    for (key, named) in
        [("Image Size", "Image Size"), ("Pixels", "Pixels"), ("Detector Type", "Detector Type")]
    {
        let refused = said(parse(&JSON_8.replace(&format!("\"{key}\""), "\"Gone\"")));
        assert!(
            refused.contains(&format!("\"{named}\" is missing")) && refused.contains("\"Gone\""),
            "{refused}"
        );
    }
    let refused = said(parse(&JSON_8.replace("160000", "\"large\"")));
    assert!(refused.contains("\"Image Size\" is \"large\""), "{refused}");
    let refused = said(parse(&JSON_8.replace(r#"{ "x": 400, "y": 200 }"#, r#"{ "x": 400, "y": -1 }"#)));
    assert!(refused.contains("\"Pixels\""), "{refused}");
    assert!(said(parse("")).contains("missing"));
    assert!(said(parse("hello")).contains("line 1"));
    assert!(said(parse("{")).contains("not whole JSON"));
    assert!(said(Master::parse(Path::new("m.json"), &[0xff, 0x20])).contains("not text"));
}

/// Fault: a byte order mark is called a missing key.
#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(parse(&format!("\u{feff}{JSON_8}")).unwrap(), parse(JSON_8).unwrap());
    let wide: Vec<u8> = format!("\u{feff}{JSON_8}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(said(Master::parse(Path::new("m.json"), &wide)).contains("UTF-16"));
}

#[test]
fn endings_may_be_written_large() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let master = write_run(dir.path(), &o, 10);
    for k in 0..3 {
        let name = dir.path().join(format!("run_d0_f{k}_0.raw"));
        fs::rename(&name, name.with_extension("RAW")).unwrap();
    }
    let large = master.with_extension("JSON");
    fs::rename(&master, &large).unwrap();
    assert_known(&read_all(&mut open(&large)), o.shape, 1..=10);
}

#[test]
fn other_detectors_are_refused_by_name() {
    for name in ["Eiger", "Mythen3", "Gotthard2", "Whatever"] {
        let refused = said(parse(&JSON_8.replace("Moench", name)).unwrap().detector(None));
        assert!(refused.contains(name), "{refused}");
    }
    let refused =
        said(parse(&JSON_8.replace("\"Disabled\": []", "\"Dynamic Range\": 32")).unwrap().detector(None));
    assert!(refused.contains("32"), "{refused}");
    let refused = said(parse(&JSON_8.replace("160000", "320000")).unwrap().detector(None));
    assert!(refused.contains("320000 bytes, expected 160000"), "{refused}");
}

#[test]
fn real_masters_are_read() {
    let Some(folder) = real_data("masters") else { return };
    let read = |name: &str| Master::read(&folder.join(name)).unwrap();
    let eiger = read("eiger_500k_32bit_master_0.json");
    assert_eq!((eiger.dynamic_range, eiger.geometry), (32, Some(Shape { rows: 2, cols: 2 })));
    assert!(eiger.other.iter().any(|o| o.0 == "Rate Corrections"));
    assert!(said(eiger.detector(None)).contains("Eiger"));
    assert!(said(read("eiger_500k_16bit_master_0.json").detector(None)).contains("Eiger"));
    assert!(said(read("m3_master_0.json").detector(None)).contains("Mythen3"));
    let text = read("CORRECTED_scan242_master_3.raw");
    assert_eq!((text.version.as_str(), text.geometry), ("6.2", Some(Shape { rows: 1, cols: 4 })));
    assert_eq!((text.image_bytes, text.port), (5120, Shape { rows: 1, cols: 1280 }));
    assert_eq!((text.dynamic_range, text.total_frames, text.frames_in_file), (32, Some(1), None));
    assert!(text.other.contains(&("Counter Mask".into(), "0x1".into())), "{:?}", text.other);
    let moench = read("moench04_noise_200V_sto_both_100us_no_light_thresh_900_master_0.raw");
    assert_eq!(
        (moench.analog_samples, moench.adc_mask, moench.image_bytes),
        (Some(5000), 0xffff_ffff, 360_000)
    );
    assert_eq!(moench.digital_samples, Some(5000));
    assert_eq!(moench.detector(None).unwrap(), Detector::Board(Board::Moench04));
    assert_eq!(moench.detector(Some(Board::Moench03)).unwrap(), Detector::Board(Board::Moench03));
    assert!(said(moench.detector(Some(Board::Moench05))).contains("moench05 is 8000 samples"));
    let refused = said(Master::read(&folder.join("malformed_jungfrau_master_0.json")));
    assert!(refused.contains("\"Image Size in bytes\" is missing"), "{refused}");
    assert!(refused.contains("NDArray Size in bytes"), "{refused}");
}

/// The text master that belongs to a run of the tests.
fn text_master(geometry: bool, rows: usize, cols: usize) -> String {
    let geometry = if geometry { "Geometry                   : [1, 2]\n" } else { "" };
    format!(
        "Version                    : 6.4\nTimeStamp                  : Wed Aug 31 09:08:49 2022\n\n\
         Detector Type              : Moench\nTiming Mode                : auto\n{geometry}\
         Image Size                 : {} bytes\nPixels                     : [{cols}, {rows}]\n\
         Max Frames Per File        : 4\nFrame Discard Policy       : nodiscard\nFrame Padding              : 1\n\
         Total Frames               : 10\nFrames in File             : 10\n\n#Frame Header\n\
         Frame Number               : 8 bytes\n",
        rows * cols * 2
    )
}

#[test]
fn a_text_master_reads_the_same_frames_with_and_without_geometry() {
    for geometry in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports: 2, ..options(16, 20) };
        let json = write_run(dir.path(), &o, 10);
        fs::remove_file(json).unwrap();
        let master = dir.path().join("run_master_0.raw");
        fs::write(&master, text_master(geometry, 8, 20)).unwrap();
        let mut source = open(&master);
        assert_known(&read_all(&mut source), o.shape, 1..=10);
        assert_eq!(source.health(), Default::default());
    }
}

#[test]
fn a_master_is_called_master() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("settings.json");
    fs::write(&path, JSON_8).unwrap();
    assert!(said(RawSource::open(&path, &RawReading::default())).contains("NAME_master_RUN.json"));
}

/// A header of frame `number` with all of `packets` caught.
fn header(number: u64, packets: usize, detector: u8) -> Header {
    let mut h = Header::parse(&[0; Header::BYTES]);
    (h.frame, h.packets, h.detector) = (number, packets as u32, detector);
    h.caught = PacketSet::first(packets);
    h
}

fn bytes_of(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn a_region_of_interest_is_an_image_of_its_own() {
    // Two ports of 200 x 400; columns 10 to 14 of rows 198 to 201: two rows of each port are in the files.
    let roi = r#"{ "xmin": 10, "xmax": 14, "ymin": 198, "ymax": 201 }"#;
    let master = JSON_8.replace(r#"{ "xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1 }"#, roi);
    let shape = Shape { rows: 4, cols: 5 };
    let parts = |n: u64| image(shape, n).chunks(10).map(bytes_of).collect::<Vec<_>>();
    let mut files = [Vec::new(), Vec::new()];
    for n in 1..=3 {
        for (d, part) in parts(n).iter().enumerate() {
            let mut h = header(n, 25, 5);
            if n == 2 && d == 1 {
                // Its first packet has rows 200 to 207 of the detector, both rows of this port's part.
                h.caught.remove(0);
                h.packets = 24;
            }
            files[d].extend(h.to_bytes());
            files[d].extend(part);
        }
    }
    let files = files.into_iter().enumerate().map(|(d, f)| (d, 0, f));
    let mut source = RawSource::in_memory(master.as_bytes(), files, &RawReading::default()).unwrap();
    assert_eq!(source.shape(), shape);
    let mut frames = read_all(&mut source);
    assert_eq!(frames[1].lost.as_ref().unwrap().indices().collect::<Vec<_>>(), (10..20).collect::<Vec<_>>());
    frames.remove(1);
    assert_known(&frames, shape, [1, 3]);
    assert_eq!((source.health().lost_packets, source.health().lost_pixels), (1, 10));
}

#[test]
fn a_port_outside_the_region_needs_no_file_and_a_whole_port_is_cut() {
    let roi = r#"{ "xmin": 0, "xmax": 399, "ymin": 250, "ymax": 299 }"#;
    let master = JSON_8.replace(r#"{ "xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1 }"#, roi);
    let (port, shape) = (Shape { rows: 200, cols: 400 }, Shape { rows: 50, cols: 400 });
    for whole in [false, true] {
        let mut file = Vec::new();
        for n in 1..=3 {
            let mut words = image(shape, n);
            if whole {
                let mut all = vec![0x3fff; port.pixels()];
                all[50 * 400..100 * 400].copy_from_slice(&words);
                words = all;
            }
            file.extend(header(n, 25, 5).to_bytes());
            file.extend(bytes_of(&words));
        }
        let reading = RawReading::default();
        let mut source = RawSource::in_memory(master.as_bytes(), [(1, 0, file)], &reading).unwrap();
        assert_known(&read_all(&mut source), shape, 1..=3);
    }
}

#[test]
fn of_several_regions_one_must_be_chosen() {
    let rois = r#"{ "xmin": 0, "xmax": 9, "ymin": 0, "ymax": 9 }, { "xmin": 5, "xmax": 7, "ymin": 300, "ymax": 301 }"#;
    let master = JSON_8.replace(r#"{ "xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1 }"#, rois);
    let shape = Shape { rows: 2, cols: 3 };
    let mut file = header(1, 25, 5).to_bytes().to_vec();
    file.extend(bytes_of(&image(shape, 1)));
    let open = |roi| {
        let reading = RawReading { roi, ..RawReading::default() };
        RawSource::in_memory(master.as_bytes(), [(1, 0, file.clone())], &reading)
    };
    assert!(said(open(None)).contains("2 regions of interest"));
    assert!(said(open(Some(2))).contains("region of interest 2"));
    assert_known(&read_all(&mut open(Some(1)).unwrap()), shape, [1]);
}

/// A master of a chip test board: detector type, analog samples, ADC mask, digital samples, bytes.
fn board_master(kind: &str, analog: u64, mask: u64, digital: u64, bytes: usize) -> String {
    format!(
        "Version : 6.4\nDetector Type : {kind}\nGeometry : [1, 1]\nImage Size : {bytes} bytes\n\
         Pixels : [96, 1]\nMax Frames Per File : 100\nTen Giga : 1\nADC Mask : {mask:#x}\n\
         Analog Flag : 1\nAnalog Samples : {analog}\nDigital Flag : {}\nDigital Samples : {digital}\n",
        u8::from(digital > 0)
    )
}

/// Written down again from the detectors' descriptions: the pixel of a word.
fn place(board: Board, word: usize) -> usize {
    let (s, a) = (word / 32, word % 32);
    let (row, col) = match board {
        Board::Moench03 => {
            let row = if a / 4 % 2 == 0 { 199 - s / 25 } else { 200 + s / 25 };
            (row, (3 - a / 8) * 100 + a % 4 * 25 + s % 25)
        }
        // Pairs of ADCs change places; the upper half begins at the ninth block, the lower one at the eighth and descends.
        _ if a < 16 => (199 - s / 25, ((a ^ 1) + 8) % 16 * 25 + s % 25),
        _ => (200 + s / 25, (23 + 16 - a) % 16 * 25 + s % 25),
    };
    row * 400 + col
}

#[test]
fn a_moench_behind_a_test_board_is_unscrambled() {
    let shape = Shape { rows: 400, cols: 400 };
    for (board, said, digital) in [
        (Board::Moench03, Some(Board::Moench03), 5000),
        (Board::Moench03, Some(Board::Moench03), 0),
        (Board::Moench04, None, 5000),
        (Board::Moench04, Some(Board::Moench04), 0),
    ] {
        let bytes = 320_000 + 8 * digital;
        let master = board_master("ChipTestBoard", 5000, 0xffff_ffff, digital as u64, bytes);
        let packets = bytes.div_ceil(8144);
        let pixels = image(shape, 1);
        let mut words: Vec<u16> = (0..160_000).map(|w| pixels[place(board, w)]).collect();
        words.extend(vec![0xabcd; 4 * digital]);
        let mut file = header(1, packets, 4).to_bytes().to_vec();
        file.extend(bytes_of(&words));
        // Packet 3 of the second frame is lost.
        let mut h = header(2, packets, 4);
        h.caught.remove(3);
        h.packets -= 1;
        file.extend(h.to_bytes());
        words[3 * 4072..4 * 4072].fill(0xffff);
        file.extend(bytes_of(&words));
        let reading = RawReading { board: said, ..RawReading::default() };
        let mut source = RawSource::in_memory(master.as_bytes(), [(0, 0, file)], &reading).unwrap();
        assert_eq!((source.shape(), source.packets()), (shape, Some(packets)));
        let guessed = source.health().warnings.iter().any(|w| w.contains("taken for a MÖNCH 04"));
        assert_eq!(guessed, said.is_none());
        let frames = read_all(&mut source);
        assert_known(&frames[..1], shape, [1]);
        let mut lost: Vec<_> = (3 * 4072..4 * 4072).map(|w| place(board, w)).collect();
        lost.sort_unstable();
        assert_eq!(frames[1].lost.as_ref().unwrap().indices().collect::<Vec<_>>(), lost);
        assert_eq!((source.health().lost_packets, source.health().gain_pixels), (1, 0));
    }
}

#[test]
fn a_board_whose_detector_nothing_tells_is_refused() {
    let detector = |kind, analog, mask, digital, bytes, board| {
        parse(&board_master(kind, analog, mask, digital, bytes)).unwrap().detector(board)
    };
    let refused = said(detector("ChipTestBoard", 5000, 0xffff_ffff, 0, 320_000, None));
    assert!(refused.contains("board = moench03 or moench04"), "{refused}");
    let known = |kind, analog, mask: u64, bytes| detector(kind, analog, mask, 0, bytes, None).unwrap();
    assert_eq!(known("Moench", 5000, 0xffff_ffff, 320_000), Detector::Board(Board::Moench03));
    for (mask, adcs) in [(0xfff0, 12), (7, 3), (0xffff_ffff, 32)] {
        assert_eq!(known("ChipTestBoard", 8000, mask, 16_000 * adcs), Detector::Board(Board::Moench05));
    }
    for (analog, mask, bytes, part) in [
        (5000, 0xffff, 320_000, "of ADCs 0xffff"),
        (5000, 0xffff_ffff, 319_998, "in 319998 bytes"),
        (4999, 0xffff_ffff, 320_000, "4999 analog samples"),
        (8000, 0xff, 320_000, "8000 samples of 3, 12 or all 32 ADCs"),
    ] {
        let refused = said(detector("ChipTestBoard", analog, mask, 5000, bytes, None));
        assert!(refused.contains(part), "{refused}");
    }
}

/// Fault: a run with a disabled port is refused although its master tells all.
#[test]
fn disabled_ports_are_left_out_of_the_image() {
    let half = Shape { rows: 200, cols: 400 };
    let file = |n: u64| [header(n, 25, 5).to_bytes().to_vec(), bytes_of(&image(half, n))].concat();
    for (disabled, rois) in [(0, ""), (1, ""), (1, r#"{ "xmin": 0, "xmax": 399, "ymin": 0, "ymax": 199 }"#)] {
        let mut master = JSON_8.replace("\"Disabled\": []", &format!("\"UDP Ports Disabled\": [{disabled}]"));
        if !rois.is_empty() {
            master = master.replace(r#"{ "xmin": -1, "xmax": -1, "ymin": -1, "ymax": -1 }"#, rois);
        }
        let files = [(1 - disabled, 0, [file(1), file(2)].concat())];
        let mut source = RawSource::in_memory(master.as_bytes(), files, &RawReading::default()).unwrap();
        assert_eq!(source.shape(), half);
        assert_known(&read_all(&mut source), half, [1, 2]);
    }
    // What is missing but was not disabled is an error, unless one keeps going: then it is masked.
    let open = |keep_going| {
        let reading = RawReading { keep_going, ..RawReading::default() };
        RawSource::in_memory(JSON_8.as_bytes(), [(1, 0, file(1))], &reading)
    };
    assert!(said(open(false)).contains("port 0 has no data file"));
    let mut source = open(true).unwrap();
    let frame = read_all(&mut source).remove(0);
    assert_eq!(frame.lost.unwrap().indices().collect::<Vec<_>>(), (0..80_000).collect::<Vec<_>>());
    assert_eq!(frame.pixels[80_000..], image(half, 1));
    assert_eq!(source.health().lost_pixels, 0);
}
