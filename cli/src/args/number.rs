//! Numbers on the command line.

use std::num::IntErrorKind;

/// A parser of whole numbers from `least` on.
pub fn whole(least: u64) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| match text.parse::<u64>() {
        Ok(n) if n >= least => Ok(n),
        Err(e) if *e.kind() == IntErrorKind::PosOverflow => Err(format!("expected at most {}", u64::MAX)),
        _ => Err(format!("expected a whole number, {least} or more")),
    }
}

/// The same for numbers of things in memory.
pub fn count(least: u64) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    let whole = whole(least);
    move |text| whole(text).and_then(|n| usize::try_from(n).map_err(|e| e.to_string()))
}

/// A number, with or without a fraction.
pub fn real(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|v| v.is_finite());
    number.ok_or_else(|| "expected a number, like 5 or 4.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_told_in_plain_words() {
        assert_eq!(whole(1)("12"), Ok(12));
        for (text, words) in [
            ("-3", "whole number, 1 or more"),
            ("0", "whole number, 1 or more"),
            ("1.5", "whole number"),
            ("", "whole number"),
            ("99999999999999999999", "at most 18446744073709551615"),
        ] {
            assert!(whole(1)(text).unwrap_err().contains(words), "{text}");
        }
        assert_eq!((count(0)("7"), real("-4.5")), (Ok(7), Ok(-4.5)));
        assert!(real("nan").is_err() && real("inf").is_err() && real("5,3").is_err());
    }
}
