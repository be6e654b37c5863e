//! The entries of master files, every way of writing them.

use super::fields::{Fields, Roi};

fn json(text: &str) -> Fields {
    Fields::from_json(text).unwrap()
}

#[test]
fn lines_are_read_up_to_the_frame_header() {
    let text = "\n  # a remark\nVersion : 7.2 \n\nTimestamp : Mon 12:30:00\nEmpty :\n#Frame Header of 112 bytes\nBad line\nLate : 1\n";
    let fields = Fields::from_text(text).unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["Version", "Timestamp", "Empty"]);
    let rest = fields.rest();
    let expected = [("Version", "7.2"), ("Timestamp", "Mon 12:30:00"), ("Empty", "")];
    assert_eq!(rest, expected.map(|(k, v)| (k.to_string(), v.to_string())));
    let long = format!("a : b\n\n{}\n", "x".repeat(50));
    let said = Fields::from_text(&long).unwrap_err();
    assert_eq!(said, format!("line 3: `{}` is no `Key : value`: not a master file", "x".repeat(40)));
    assert!(Fields::from_json("[1]").unwrap_err().contains("not an object"));
    assert!(Fields::from_json("{").unwrap_err().contains("not whole JSON"));
}

#[test]
fn the_first_key_that_is_there_is_taken_out() {
    let mut f = json(r#"{"One": "1", "two": 2, "Three": [3]}"#);
    assert_eq!(f.text(&["none", "TWO", "one"]), Some("2".to_string()));
    assert_eq!(f.keys().collect::<Vec<_>>(), ["One", "Three"]);
    assert_eq!(f.text(&["two"]), None);
    assert_eq!(f.text(&["one"]), Some("1".to_string()));
    assert_eq!(f.rest(), [("Three".to_string(), "[3]".to_string())]);
}

#[test]
fn numbers_carry_units_and_bases() {
    for (value, expected) in [
        ("7", Ok(7)),
        ("true", Ok(1)),
        ("false", Ok(0)),
        (r#""5120 bytes""#, Ok(5120)),
        (r#""0x1f""#, Ok(31)),
        (r#""true""#, Ok(1)),
        (r#""false""#, Ok(0)),
        (r#"" 12""#, Ok(12)),
        (r#""""#, Err(())),
        (r#""0xg""#, Err(())),
        (r#""a1""#, Err(())),
        ("-1", Err(())),
        ("1.5", Err(())),
        ("[1]", Err(())),
        ("null", Err(())),
    ] {
        let got = json(&format!(r#"{{"n": {value}}}"#)).number(&["n"]);
        match expected {
            Ok(n) => assert_eq!(got, Ok(Some(n)), "{value}"),
            Err(()) => assert!(got.unwrap_err().ends_with("expected a number"), "{value}"),
        }
    }
    assert_eq!(json("{}").number(&["n"]), Ok(None));
}

#[test]
fn pairs_are_objects_lists_or_text() {
    for (value, expected) in [
        (r#"{"x": 3, "y": 4}"#, Some((3, 4))),
        ("[3, 4]", Some((3, 4))),
        (r#""[3, 4]""#, Some((3, 4))),
        ("[3]", None),
        ("[3, 4, 5]", None),
        (r#""[3, 4, 5]""#, None),
        (r#""3, 4""#, None),
        (r#""[-3, 4]""#, None),
        (r#""[3, -4]""#, None),
        (r#"{"x": 3}"#, None),
        (r#"[3, "4"]"#, None),
        ("3", None),
    ] {
        let got = json(&format!(r#"{{"n": {value}}}"#)).pair(&["n"]);
        match expected {
            Some(pair) => assert_eq!(got, Ok(Some(pair)), "{value}"),
            None => assert!(got.unwrap_err().ends_with("expected two numbers x and y"), "{value}"),
        }
    }
    assert_eq!(json("{}").pair(&["n"]), Ok(None));
}

#[test]
fn regions_are_none_one_or_many() {
    let roi = Roi { xmin: 1, xmax: 2, ymin: 3, ymax: 4 };
    let object = r#"{"xmin": 1, "xmax": 2, "ymin": 3, "ymax": 4}"#;
    let none = r#"{"xmin": -1, "xmax": -1, "ymin": 4294967295, "ymax": -1}"#;
    for (value, expected) in [
        (object.to_string(), Some(vec![roi])),
        (r#""[1, 2, 3, 4]""#.to_string(), Some(vec![roi])),
        (format!("[{object}, {none}, {object}]"), Some(vec![roi, roi])),
        ("[]".to_string(), Some(vec![])),
        (none.to_string(), Some(vec![])),
        (r#""[-1, -1, -1, -1]""#.to_string(), Some(vec![])),
        ("null".to_string(), Some(vec![])),
        (r#""""#.to_string(), Some(vec![])),
        (r#""disabled now""#.to_string(), Some(vec![])),
        (r#""[5, 5, 6, 6]""#.to_string(), Some(vec![Roi { xmin: 5, xmax: 5, ymin: 6, ymax: 6 }])),
        (r#""[1, 2, 3]""#.to_string(), None),
        (r#""[-1, -1, -1]""#.to_string(), None),
        (r#""[-1, -1, -1, 5]""#.to_string(), None),
        (r#""[-1, 2, 3, 4]""#.to_string(), None),
        (r#"{"xmin": 1, "xmax": 2, "ymin": 3}"#.to_string(), None),
        ("7".to_string(), None),
        ("[[1, 2, 3, 4]]".to_string(), None),
    ] {
        let got = json(&format!(r#"{{"roi": {value}}}"#)).rois(&["roi"]);
        match expected {
            Some(rois) => assert_eq!(got, Ok(rois), "{value}"),
            None => assert!(got.unwrap_err().contains("expected xmin, xmax, ymin and ymax"), "{value}"),
        }
    }
    for turned in ["[2, 1, 3, 4]", "[1, 2, 4, 3]"] {
        let said = json(&format!(r#"{{"roi": "{turned}"}}"#)).rois(&["roi"]).unwrap_err();
        assert!(said.ends_with("it ends before it starts"), "{said}");
    }
    assert_eq!(json("{}").rois(&["roi"]), Ok(vec![]));
}

#[test]
fn long_values_are_cut_in_messages() {
    let said = |n: usize| json(&format!(r#"{{"n": "{}"}}"#, "x".repeat(n))).number(&["n"]).unwrap_err();
    // With its two quotes a value of 58 letters has 60.
    assert_eq!(said(58), format!("\"n\" is \"{}\", expected a number", "x".repeat(58)));
    assert_eq!(said(59), format!("\"n\" is \"{}..., expected a number", "x".repeat(59)));
}
