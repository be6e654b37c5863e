//! Masters key by key: what each value means, and which detector they speak of.

use std::path::Path;

use super::boards::Board;
use super::header::Detector;
use super::master::Master;

fn parse(text: &str) -> Result<Master, String> {
    Master::parse(Path::new("m"), text.as_bytes()).map_err(|e| e.to_string())
}

/// A master with these entries besides those that it must have.
fn with(entries: &str) -> String {
    let must = [
        ("Detector Type", "\"Jungfrau\""),
        ("Image Size", "1048576"),
        ("Pixels", "[1024, 512]"),
        ("Version", "8.0"),
    ];
    let own = |key: &str| !entries.contains(&format!("\"{key}\""));
    let mut all: Vec<_> = must.iter().filter(|m| own(m.0)).map(|(k, v)| format!("\"{k}\": {v}")).collect();
    all.extend(Some(entries.to_string()).filter(|e| !e.is_empty()));
    format!("{{{}}}", all.join(", "))
}

fn master(entries: &str) -> Master {
    parse(&with(entries)).unwrap()
}

#[test]
fn what_is_no_text_is_refused_by_what_it_is() {
    let of = |bytes: &[u8]| Master::parse(Path::new("m"), bytes).unwrap_err().to_string();
    let wide = "m: is text of 16 bits a character (UTF-16): save it as UTF-8";
    assert_eq!(of(&[0xff, 0xfe, b'{', 0]), wide);
    assert_eq!(of(&[0xfe, 0xff, 0, b'{']), wide);
    assert_eq!(of(&[b'{', 0xff, 0xfe]), "m: is not text: not a master file");
    // Blanks in front, behind a byte order mark or not.
    for before in ["", " \n\t", "\u{feff}", "\u{feff}\n "] {
        assert_eq!(parse(&format!("{before}{}\n", with(""))).unwrap(), master(""), "{before:?}");
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m");
    let of = |bytes: u64| {
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        Master::read(&path).unwrap_err().to_string()
    };
    assert!(of((16 << 20) + 1).ends_with("m: 16777217 bytes: too large for a master file"));
    assert!(of(16 << 20).ends_with("not a master file"), "it is read");
    std::fs::write(&path, with("")).unwrap();
    assert_eq!(Master::read(&path).unwrap(), Master { path: path.clone(), ..master("") });
}

#[test]
fn values_mean_what_they_say_or_what_is_usual() {
    let plain = master("");
    assert!(plain.padding && plain.ten_giga && plain.board_is_guessed);
    assert_eq!((plain.dynamic_range, plain.max_frames_per_file, plain.udp_interfaces), (16, 0, 1));
    assert_eq!((plain.adc_mask, plain.analog_samples, plain.digital_samples), (0xffff_ffff, None, None));
    assert_eq!((plain.rows_read, plain.total_frames, plain.frames_in_file), (None, None, None));
    assert_eq!(plain.other, []);

    for on in [0, 1] {
        let m = master(&format!(r#""Frame Padding": {on}, "Ten Giga": {on}"#));
        assert_eq!((m.padding, m.ten_giga), (on == 1, on == 1));
    }
    for (entries, analog, digital) in [
        (r#""Analog Samples": 5, "Digital Samples": 7"#, Some(5), Some(7)),
        (
            r#""Analog Flag": 1, "Analog Samples": 5, "Digital Flag": 1, "Digital Samples": 7"#,
            Some(5),
            Some(7),
        ),
        (r#""Analog Flag": 0, "Analog Samples": 5, "Digital Flag": 0, "Digital Samples": 7"#, None, None),
        (r#""Digital Flag": 1, "Digital Samples": 0"#, None, None),
        (r#""Digital Samples": 1"#, None, Some(1)),
    ] {
        let m = master(entries);
        assert_eq!((m.analog_samples, m.digital_samples), (analog, digital), "{entries}");
    }
    let described = master(r#""Frame Header Format": "112 bytes", "Unknown": 5, "Scan Parameters": "none""#);
    assert_eq!(described.other, [("Unknown".to_string(), "5".to_string())]);
    assert_eq!(described.scan, "none");
    for (list, ports) in [
        ("[1, 3]", vec![1, 3]),
        (r#""[2, 5]""#, vec![2, 5]),
        (r#""[2, -1]""#, vec![2]),
        ("[]", vec![]),
        (r#""[]""#, vec![]),
        (r#"" ""#, vec![]),
        ("null", vec![]),
    ] {
        assert_eq!(master(&format!(r#""UDP Ports Disabled": {list}"#)).disabled_ports, ports, "{list}");
        assert_eq!(master(&format!(r#""Disabled": {list}"#)).disabled_ports, ports, "{list}");
    }
}

#[test]
fn wrong_values_are_named_with_their_key() {
    let said = |entries: &str| parse(&with(entries)).unwrap_err();
    for (entries, what) in [
        (r#""Disabled": 7"#, r#""Disabled" is 7, expected a list of port numbers"#),
        (r#""Disabled": "x""#, r#""Disabled" is "x", expected a list of port numbers"#),
        (r#""Disabled": [-1]"#, r#""Disabled" is [-1], expected a list of port numbers"#),
        (r#""Image Size": 0"#, r#""Image Size" is 0, expected the bytes of an image"#),
        (r#""Image Size": 8589934593"#, r#""Image Size" is 8589934593, expected the bytes of an image"#),
        (
            r#""Version": 7.2, "Image Size in bytes": 0, "Image Size": 5"#,
            r#""Image Size in bytes" is 0, expected the bytes of an image"#,
        ),
        (r#""Number of UDP Interfaces": 3"#, r#""Number of UDP Interfaces" is 3, expected 1 or 2"#),
        (r#""Number of UDP Interfaces": 0"#, r#""Number of UDP Interfaces" is 0, expected 1 or 2"#),
    ] {
        assert_eq!(said(entries), format!("m: {what}"));
    }
    assert!(said(r#""Pixels": [0, 4]"#).starts_with("m: \"Pixels\": "));
    assert!(said(r#""Geometry": [0, 4]"#).starts_with("m: \"Geometry\": "));
    assert_eq!(master(r#""Image Size": 8589934592"#).image_bytes, 1 << 33);
    assert_eq!(master(r#""Number of UDP Interfaces": 2"#).udp_interfaces, 2);
    for (version, key) in [("7.2", "Image Size in bytes"), ("8.0", "Image Size"), ("6.4", "Image Size")] {
        let text = format!(r#"{{"Version": {version}, "Detector Type": "x", "Odd": 1, "Even": 2}}"#);
        let what = format!(
            "m: the key \"{key}\" is missing: without it the data files cannot be read (keys that mean nothing here: \"Even\", \
             \"Odd\")"
        );
        assert_eq!(parse(&text).unwrap_err(), what);
    }
    assert!(parse(r#"{"Detector Type": "x"}"#).unwrap_err().ends_with("mean nothing here: none)"));
}

#[test]
fn the_detector_is_told_by_its_type_and_samples() {
    let of = |entries: &str| master(entries).detector(None).map_err(|e| e.to_string());
    let image = |kind: &str, bytes: u64| format!(r#""Detector Type": "{kind}", "Image Size": {bytes}"#);
    assert_eq!(of(""), Ok(Detector::Jungfrau));
    assert_eq!(of(&image("JUNGFRAU", 1 << 20)), Ok(Detector::Jungfrau));
    assert_eq!(of(&image("moench", 1 << 20)), Ok(Detector::Moench));
    assert_eq!(
        of(&image("ChipTestBoard", 1 << 20)),
        Err("m: a chip test board without analog samples: no charge to look for photons in".into())
    );
    for kind in ["Eiger", "Mythen3", "Gotthard", "Gotthard2", "xilinx_ChipTestBoard"] {
        let what = format!(
            "m: taken with {kind}: photons are found in charge-integrating images of 16 bits, from JUNGFRAU or MÖNCH"
        );
        assert_eq!(of(&image(kind, 1 << 20)), Err(what));
    }
    let what = "m: detector type \"Pilatus\" is not known, expected Jungfrau, Moench or ChipTestBoard (MÖNCH 03, 04, 05)";
    assert_eq!(of(&image("Pilatus", 1 << 20)), Err(what.into()));
    assert_eq!(
        of(r#""Dynamic Range": 8"#),
        Err("m: \"Dynamic Range\" is 8, expected 16 bits a pixel".into())
    );
    assert_eq!(
        of(r#""Image Size": 1000"#),
        Err("m: the image of a port has 1000 bytes, expected 1048576 for 512 x 1024 pixels of 16 bits".into())
    );
    // With a region of interest the master may tell either length.
    let region = r#""Image Size": 1000, "Receiver Roi": {"xmin": 1, "xmax": 9, "ymin": 1, "ymax": 9}"#;
    assert_eq!(of(region), Ok(Detector::Jungfrau));
}

#[test]
fn the_detector_behind_a_board_is_told_or_asked_for() {
    use Board::{Moench03, Moench04, Moench05};
    let of = |kind: &str, samples: u64, mask: u64, digital: u64, bytes: u64, said: Option<Board>| {
        let entries = format!(
            r#""Detector Type": "{kind}", "Image Size": {bytes}, "Analog Samples": {samples}, "ADC Mask": {mask},
               "Digital Samples": {digital}, "Dynamic Range": 8"#
        );
        master(&entries).detector(said).map_err(|e| e.to_string())
    };
    let (ctb, all) = ("ChipTestBoard", 0xffff_ffff);
    for (kind, samples, mask, digital, bytes, said, board) in [
        (ctb, 5000, all, 0, 320_000, Some(Moench03), Moench03),
        (ctb, 5000, all, 9, 320_000, Some(Moench03), Moench03),
        (ctb, 5000, all, 0, 320_000, Some(Moench04), Moench04),
        (ctb, 5000, all, 9, 400_000, None, Moench04),
        ("Moench", 5000, all, 0, 320_000, None, Moench03),
        ("moench", 5000, all, 9, 320_000, None, Moench03),
        (ctb, 8000, 7, 0, 48_000, None, Moench05),
        (ctb, 8000, 0xfff, 9, 192_000, None, Moench05),
        ("Moench", 8000, all, 0, 512_000, None, Moench05),
    ] {
        let found = of(kind, samples, mask, digital, bytes, said);
        assert_eq!(found, Ok(Detector::Board(board)), "{kind} {samples} {mask:#x} {digital} {said:?}");
    }
    assert_eq!(
        of(ctb, 5000, all, 0, 320_000, None),
        Err("m: a chip test board read either a MÖNCH 03 or a MÖNCH 04, whose pixels lie in another order: say which (board \
             = moench03 or moench04)"
            .into())
    );
    for (samples, mask, bytes, said, what) in [
        (
            4000,
            all,
            320_000,
            None,
            "4000 analog samples of ADCs 0xffffffff in 320000 bytes: an image of moench03 is 5000",
        ),
        (
            5000,
            all,
            319_999,
            Some(Moench04),
            "5000 analog samples of ADCs 0xffffffff in 319999 bytes: an image of moench04 is",
        ),
        (
            5000,
            7,
            320_000,
            Some(Moench03),
            "5000 analog samples of ADCs 0x7 in 320000 bytes: an image of moench03 is 5000",
        ),
        (
            8000,
            15,
            64_000,
            None,
            "8000 analog samples of ADCs 0xf in 64000 bytes: an image of moench05 is 8000",
        ),
        (
            5000,
            7,
            48_000,
            Some(Moench05),
            "5000 analog samples of ADCs 0x7 in 48000 bytes: an image of moench05 is 8000",
        ),
    ] {
        let found = of(ctb, samples, mask, 0, bytes, said).unwrap_err();
        assert!(found.starts_with(&format!("m: {what}")), "{found}");
        let adcs = if what.contains("moench05") {
            "samples of 3, 12 or all 32 ADCs"
        } else {
            "samples of all 32 ADCs"
        };
        assert!(found.ends_with(adcs), "{found}");
    }
}
