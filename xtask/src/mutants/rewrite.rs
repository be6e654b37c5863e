//! A source file with all its changes in it, each behind its number.

use std::collections::HashSet;
use std::ops::Range;

use super::sites::{Form, Site, Source};

/// What is added to the root of a crate, so that its changes can ask which of them is on.
pub const SWITCH: &str = include_str!("switch.rs");

/// A file as it is compiled, and where its changes lie in it.
pub struct Rewritten {
    pub text: String,
    /// Bytes of `text` and the number of the change that they are the only part of.
    pub changes: Vec<(Range<usize>, u32)>,
    /// Bytes of `text` and the numbers of all changes of a site.
    pub sites: Vec<(Range<usize>, Range<u32>)>,
    /// Bytes of `text` of every function, and the numbers of its changes.
    pub functions: Vec<(Range<usize>, Range<u32>)>,
}

/// Writes the file. Its changes are numbered from `first`; those in `dropped` do not compile and are left out, functions
/// in `constant` stay `const`.
pub fn rewrite(
    source: &Source,
    before: &str,
    first: u32,
    dropped: &HashSet<u32>,
    constant: &HashSet<String>,
) -> Rewritten {
    let mut numbered = Vec::new();
    let mut next = first;
    for site in &source.sites {
        numbered.push((site, next));
        next += site.changes.len() as u32;
    }
    let fixed: Vec<_> = source
        .consts
        .iter()
        .filter(|(name, _)| constant.contains(name))
        .filter_map(|(_, word)| source.functions.iter().find(|f| f.contains(&word.start)).cloned())
        .collect();
    let constants =
        source.consts.iter().filter(|(name, _)| !constant.contains(name)).map(|(_, w)| w.clone()).collect();
    let mut w = Writer {
        source,
        numbered,
        fixed,
        constants,
        dropped,
        out: before.to_string(),
        at: Vec::new(),
        changes: Vec::new(),
        sites: Vec::new(),
    };
    let all = w.numbered.len();
    w.part(0..source.text.len(), 0, all);
    let place = |f: &Range<usize>| {
        let inside = |s: &&(&Site, u32)| f.start <= s.0.range.start && s.0.range.end <= f.end;
        let of = |(s, n): &(&Site, u32)| *n..n + s.changes.len() as u32;
        let numbers = w.numbered.iter().filter(inside).map(of).reduce(|a, b| a.start..b.end).unwrap_or(0..0);
        (w.written(f.start)..w.written(f.end), numbers)
    };
    let functions = source.functions.iter().map(place).collect();
    Rewritten { functions, text: w.out, changes: w.changes, sites: w.sites }
}

struct Writer<'s> {
    source: &'s Source,
    /// Sites with the number of their first change.
    numbered: Vec<(&'s Site, u32)>,
    /// Functions that are left as they are.
    fixed: Vec<Range<usize>>,
    /// The words `const` that are left out.
    constants: Vec<Range<usize>>,
    dropped: &'s HashSet<u32>,
    out: String,
    /// Where pieces of the source were written: source offset, offset in `out`.
    at: Vec<(usize, usize)>,
    changes: Vec<(Range<usize>, u32)>,
    sites: Vec<(Range<usize>, Range<u32>)>,
}

impl Writer<'_> {
    /// Where a byte of the source has gone.
    fn written(&self, offset: usize) -> usize {
        let k = self.at.partition_point(|(s, _)| *s <= offset).saturating_sub(1);
        self.at.get(k).map_or(0, |(s, o)| o + (offset - s))
    }

    /// Writes a range of the source with the sites `from..to`, which lie in it.
    fn part(&mut self, range: Range<usize>, mut from: usize, to: usize) {
        let mut here = range.start;
        while from < to {
            let (site, number) = self.numbered[from];
            let mut inner = from + 1;
            while inner < to
                && !site.range.is_empty()
                && self.numbered[inner].0.range.start < site.range.end
                && self.numbered[inner].0.range.end <= site.range.end
            {
                inner += 1;
            }
            self.plain(here..site.range.start);
            self.one(site, number, from + 1, inner);
            here = site.range.end;
            from = inner;
        }
        self.plain(here..range.end);
    }

    fn plain(&mut self, range: Range<usize>) {
        let mut here = range.start;
        for word in self.constants.clone() {
            if range.start <= word.start && word.end < range.end {
                self.copy(here..word.start);
                here = word.end + 1;
            }
        }
        self.copy(here..range.end);
    }

    fn copy(&mut self, range: Range<usize>) {
        self.at.push((range.start, self.out.len()));
        self.out += &self.source.text[range];
    }

    fn one(&mut self, site: &Site, first: u32, from: usize, to: usize) {
        let count = site.changes.len() as u32;
        let (on, off): (Vec<u32>, Vec<u32>) = (0..count).partition(|k| !self.dropped.contains(&(first + k)));
        let kept = self.fixed.iter().any(|f| f.contains(&site.range.start));
        if on.is_empty() || kept {
            return self.part(site.range.clone(), from, to);
        }
        let begins = self.out.len();
        let ask = format!("crate::scheidegg_switch::at({first}, {count})");
        match site.form {
            Form::Value | Form::Statement => {
                let value = site.form == Form::Value;
                // The source as it is comes first: what does not fit its type is the change.
                let none: String = off.iter().map(|k| format!(" | {}", k + 1)).collect();
                let (open, close) = if value { ("(", ")") } else { ("", "") };
                self.out += &format!("{open}match {ask} {{ 0{none} => {{ ");
                self.part(site.range.clone(), from, to);
                self.out += " }";
                self.arms(site, first, &on);
                self.out += &format!(" }}{close}");
            }
            Form::Guard => {
                self.out += &format!("{ask} == 0 && (");
                self.part(site.range.clone(), from, to);
                self.out += ")";
            }
            Form::NewGuard => self.out += &format!(" if {ask} == 0 "),
            Form::Entry => {
                self.out += &format!(" match {ask} {{ ");
                self.out += if off.len() as u32 == count { "" } else { "0" };
                self.out += &off.iter().map(|k| format!(" | {}", k + 1)).collect::<String>();
                self.out += " => {}";
                self.arms(site, first, &on);
                self.out += " }";
            }
        }
        if matches!(site.form, Form::Guard | Form::NewGuard) {
            self.changes.push((begins..self.out.len(), first));
        }
        self.sites.push((begins..self.out.len(), first..first + count));
    }

    fn arms(&mut self, site: &Site, first: u32, on: &[u32]) {
        for k in on {
            let pattern = if Some(k) == on.last() { "_".to_string() } else { (k + 1).to_string() };
            let begins = self.out.len();
            self.out += &format!(" {pattern} => {{ {} }}", site.changes[*k as usize].1);
            self.changes.push((begins..self.out.len(), first + k));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::sites::find;

    fn squeezed(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_change_of_a_function_stands_behind_its_number() {
        let source = "fn f(a: u8, b: u8) -> bool {\n    a + 1 < b\n}\n".to_string();
        let source = find("x/src/f.rs", source).unwrap();
        let w = rewrite(&source, "", 5, &HashSet::new(), &HashSet::new());
        let expected = "fn f(a: u8, b: u8) -> bool { \
            match crate::scheidegg_switch::at(5, 2) { 0 => {} 1 => { return true } _ => { return false } } \
            (match crate::scheidegg_switch::at(7, 2) { 0 => { \
            (match crate::scheidegg_switch::at(9, 2) { 0 => { a + 1 } 1 => { (a) - (1) } _ => { (a) * (1) } }) < b } \
            1 => { (a + 1) <= (b) } _ => { (a + 1) >= (b) } }) }";
        assert_eq!(squeezed(&w.text), expected);
        for (bytes, number) in &w.changes {
            let text = &w.text[bytes.clone()];
            assert_eq!(text.contains("<="), *number == 7, "{text}");
        }
        let (whole, numbers) = &w.functions[0];
        assert!(w.text[whole.clone()].starts_with("fn f") && *numbers == (5..11));
    }

    #[test]
    fn what_does_not_compile_is_left_out() {
        let source = find("x/src/f.rs", "const fn f(a: u8) -> u8 { a - 1 }".to_string()).unwrap();
        let all = rewrite(&source, "", 1, &HashSet::new(), &HashSet::new());
        assert!(all.text.starts_with("fn f"), "{}", all.text);
        let some = rewrite(&source, "", 1, &HashSet::from([1, 2, 3]), &HashSet::new());
        let expected = "fn f(a: u8) -> u8 { (match crate::scheidegg_switch::at(3, 2) { 0 | 1 => { a - 1 } _ => { (a) / (1) } }) }";
        assert_eq!(squeezed(&some.text), expected);
        let constant = rewrite(&source, "", 1, &HashSet::new(), &HashSet::from(["f".to_string()]));
        assert_eq!(constant.text, source.text);
    }

    #[test]
    fn arms_and_statements_can_go_where_the_rest_compiles() {
        let text = "impl T<'_> { fn f(&mut self, a: u8) -> u8 {\n\
            match a { 1 if self.x => self.g(), 2 => {} _ => {} }\n\
            if a > 3 { return 4; }\n\
            let y; y = 5; self.n += y; self.g(); y } }\n\
            #[cfg(test)] mod tests { fn g() -> u8 { 1 + 2 } }";
        let source = find("x/src/f.rs", text.to_string()).unwrap();
        let found: Vec<_> = source
            .sites
            .iter()
            .flat_map(|s| &s.changes)
            .map(|(c, _)| {
                assert_eq!(c.function, "T<'_>::f");
                format!("{} {} {}", c.line, c.what, c.text)
            })
            .collect();
        let expected = [
            "1 return 1 f",
            "1 return 0 f",
            "2 delete arm 1 1",
            "2 negated condition self.x",
            "2 delete arm 2 2",
            "3 > -> >= a > 3",
            "3 > -> <= a > 3",
            "3 delete statement return 4;",
            "4 delete statement self.n += y;",
            "4 += -> -= self.n += y;",
            "4 delete statement self.g();",
        ];
        let mut found: Vec<_> = found.iter().map(String::as_str).collect();
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
