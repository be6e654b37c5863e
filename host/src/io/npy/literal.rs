//! The Python literals that the header of a `.npy` file is made of.

/// A Python literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    Number(u64),
    Bool(bool),
    /// A tuple or a list.
    Many(Vec<Literal>),
    Dict(Vec<(String, Literal)>),
}

impl Literal {
    /// Reads one literal; nothing but white space may follow.
    pub fn parse(text: &str) -> Option<Literal> {
        let mut p = Parser { rest: text };
        let literal = p.literal(0)?;
        p.space();
        p.rest.is_empty().then_some(literal)
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, start: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(start) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn literal(&mut self, depth: usize) -> Option<Literal> {
        /// A dtype of fields of fields is deeper than any that is read here.
        const DEEPEST: usize = 8;
        if depth > DEEPEST {
            return None;
        }
        self.space();
        match self.rest.chars().next()? {
            '\'' | '"' => self.text().map(Literal::Text),
            '(' => self.many("(", ")", depth),
            '[' => self.many("[", "]", depth),
            '{' => {
                self.eat("{");
                let mut entries = Vec::new();
                while !self.eat("}") {
                    self.space();
                    let key = self.text()?;
                    if !self.eat(":") {
                        return None;
                    }
                    entries.push((key, self.literal(depth + 1)?));
                    if !self.eat(",") {
                        return self.eat("}").then_some(Literal::Dict(entries));
                    }
                }
                Some(Literal::Dict(entries))
            }
            c if c.is_ascii_digit() => {
                let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
                let number = self.rest[..end].parse().ok()?;
                self.rest = &self.rest[end..];
                // Python 2 wrote long numbers with an L.
                self.eat("L");
                Some(Literal::Number(number))
            }
            _ if self.eat("True") => Some(Literal::Bool(true)),
            _ if self.eat("False") => Some(Literal::Bool(false)),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (text, rest) = self.rest[1..].split_once(quote)?;
        self.rest = rest;
        // Names with escapes do not occur in what is read here.
        (!text.contains('\\')).then(|| text.to_string())
    }

    fn many(&mut self, open: &str, close: &str, depth: usize) -> Option<Literal> {
        self.eat(open);
        let mut all = Vec::new();
        while !self.eat(close) {
            all.push(self.literal(depth + 1)?);
            if !self.eat(",") {
                return self.eat(close).then_some(Literal::Many(all));
            }
        }
        Some(Literal::Many(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read() {
        let text = |s: &str| Literal::Text(s.into());
        let many = |v: &[Literal]| Literal::Many(v.to_vec());
        assert_eq!(Literal::parse(" (3, 4L,)  "), Some(many(&[Literal::Number(3), Literal::Number(4)])));
        assert_eq!(Literal::parse("()"), Some(many(&[])));
        let fields = Literal::parse("[('a', '<u2'), (\"b\", '<i4', (3, 3))]").unwrap();
        let shape = many(&[Literal::Number(3), Literal::Number(3)]);
        assert_eq!(fields, many(&[many(&[text("a"), text("<u2")]), many(&[text("b"), text("<i4"), shape])]));
        let dict = Literal::parse("{'x': True, 'y': False}").unwrap();
        let entries = vec![("x".into(), Literal::Bool(true)), ("y".into(), Literal::Bool(false))];
        assert_eq!(dict, Literal::Dict(entries.clone()));
        // White space and commas as Python takes them.
        assert_eq!(Literal::parse("\n{ 'x' : True ,\t'y': False , } \n"), Some(Literal::Dict(entries)));
        assert_eq!(Literal::parse("{}"), Some(Literal::Dict(Vec::new())));
        assert_eq!(Literal::parse("[0, 12 , ]"), Some(many(&[Literal::Number(0), Literal::Number(12)])));
        assert_eq!(Literal::parse("18446744073709551615"), Some(Literal::Number(u64::MAX)));
        assert_eq!(Literal::parse("(\"it's\")"), Some(many(&[text("it's")])));
    }

    #[test]
    fn what_is_no_literal_is_refused() {
        for not in [
            "",
            "(",
            "(3 4)",
            "{'a'}",
            "{'a': }",
            "{'a' 1}",
            "{'a': 1 'b': 2}",
            "[1 2]",
            "{3: 4}",
            "{'a': 1",
            "{'a': 1)",
            "'abc",
            "3)",
            "None",
            "-1",
            "'a\\'b'",
            "99999999999999999999",
        ] {
            assert_eq!(Literal::parse(not), None, "{not}");
        }
        assert_eq!(Literal::parse(&"(".repeat(100_000)), None);
        let nested = |depth| Literal::parse(&format!("{}{}", "(".repeat(depth), ")".repeat(depth))).is_some();
        assert!(nested(9) && !nested(10));
        assert!(Literal::parse("{'a': 1}").is_some() && Literal::parse("{'a': 1 'b': 2}").is_none());
        // Nine brackets in each other are read, ten are not.
        let deep = |n: usize| Literal::parse(&("[".repeat(n) + &"]".repeat(n)));
        assert!(deep(9).is_some() && deep(10).is_none());
        let dicts = |n: usize| Literal::parse(&("{'a': ".repeat(n) + "3" + &"}".repeat(n)));
        assert!(dicts(8).is_some() && dicts(9).is_none());
        let trailing = Literal::parse("{'a': 1,}").unwrap();
        assert_eq!(trailing, Literal::Dict(vec![("a".into(), Literal::Number(1))]));
    }
}
