//! Facts that differ, and what is said of them.

use super::Facts;

fn facts() -> Facts {
    let text = |s: &str| Some(s.to_string());
    Facts {
        detector: text("Jungfrau"),
        whole: Some([512, 1024]),
        region: Some([0, 1023, 0, 511]),
        gain: text("dynamic"),
        period: text("1ms"),
        firmware: text("0x230104"),
        storage_cell: Some(15),
        ..Facts::default()
    }
}

#[test]
fn what_is_known_is_told_in_rows() {
    let rows: Vec<_> = facts().rows().into_iter().map(|(what, value)| format!("{what}: {value}")).collect();
    let want = [
        "detector: Jungfrau",
        "size of the whole detector: 512 x 1024 pixels",
        "region of interest: columns 0 to 1023, rows 0 to 511",
        "gain: dynamic",
        "period: 1ms",
        "firmware: 0x230104",
        "storage cell: 15",
    ];
    assert_eq!(rows, want);
    assert!(Facts { gain: Some(" ".into()), ..Facts::default() }.rows().is_empty());
}

#[test]
fn times_are_the_same_in_any_unit() {
    for (a, b, same) in [
        ("10us", "0.01ms", true),
        ("10us", " 10 us ", true),
        ("1000ns", "1us", true),
        ("1000us", "1ms", true),
        ("1000ms", "1s", true),
        ("60s", "1min", true),
        ("60min", "1h", true),
        ("0s", "0ms", true),
        ("1s", "1.0000009s", true),
        ("1.0000009s", "1s", true),
        ("1s", "1.000002s", false),
        ("1.000002s", "1s", false),
        ("1s", "-1s", false),
        ("1us", "1ms", false),
        ("us", "us ", true),
        ("us", "s", false),
        ("1 fortnight", "1 fortnight", true),
        ("1 fortnight", "1  fortnight", false),
        ("10", "10", true),
        ("10", "10s", false),
    ] {
        let of = |t: &str| Facts { exposure: Some(t.into()), ..Facts::default() };
        assert_eq!(of(a).mismatches(&of(b)).is_empty(), same, "{a} and {b}");
    }
}

#[test]
fn temperatures_differ_by_more_than_two_degrees() {
    for (a, b, same) in [
        ("20", "22", true),
        ("22 C", "20", true),
        ("20", "22.1", false),
        ("-20.5 C", "-22", true),
        ("-1", "1", true),
        ("+3", "5 degrees", true),
        ("2", "-1", false),
        (" 7", "7 ", true),
        ("cold", "cold ", true),
        ("cold", "warm", false),
        ("cold", "20", false),
    ] {
        let of = |t: &str| Facts { temperature: Some(t.into()), ..Facts::default() };
        assert_eq!(of(a).mismatches(&of(b)).is_empty(), same, "{a} and {b}");
    }
}

#[test]
fn differences_are_put_in_sentences() {
    let other = Facts {
        detector: Some("JUNGFRAU ".into()),
        whole: Some([256, 1024]),
        region: Some([1, 1023, 0, 255]),
        gain: Some(" ".into()),
        period: Some("2ms".into()),
        firmware: None,
        storage_cell: Some(3),
        ..facts()
    };
    let grave = "size of the whole detector: 512 x 1024 pixels here, 256 x 1024 pixels in b; region of interest: columns 0 \
                 to 1023, rows 0 to 511 here, columns 1 to 1023, rows 0 to 255 in b";
    let refused = facts().check("a", &other, "b", false).unwrap_err().to_string();
    let advice = "(take frames of one setting, or force = true to take them all the same)";
    assert_eq!(refused, format!("a: does not go with b: {grave} {advice}"));
    let slight = ["period: 1ms here, 2ms in b", "storage cell: 15 here, 3 in b"];
    let told: Vec<_> = grave.split("; ").chain(slight).map(|s| format!("a: other {s}")).collect();
    assert_eq!(facts().check("a", &other, "b", true).unwrap(), told);
}
