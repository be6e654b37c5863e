//! The header of a `.npy` file, versions 1.0 to 3.0.

use std::fmt;

use super::literal::Literal;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Bytes before the text of the longest header: magic, version, length.
const LONGEST_PREFIX: usize = 12;

/// The type of one number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar {
    /// `u`, `i`, `f`, `b`, ...
    pub kind: char,
    /// Bytes.
    pub size: usize,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

impl Scalar {
    pub const fn new(kind: char, size: usize) -> Scalar {
        Scalar { kind, size, big_endian: false }
    }

    fn parse(descr: &str) -> Option<Scalar> {
        let mut chars = descr.chars();
        let order = chars.next().filter(|c| "<>|=".contains(*c))?;
        let kind = chars.next()?;
        // Strings of bytes are of any length, numbers are not.
        let most = if kind == 'S' { 1 << 24 } else { 64 };
        let size = chars.as_str().parse::<usize>().ok().filter(|s| (1..=most).contains(s))?;
        Some(Scalar { kind, size, big_endian: order == '>' && size > 1 })
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.size == 1 { '|' } else { ['<', '>'][usize::from(self.big_endian)] };
        write!(f, "{order}{}{}", self.kind, self.size)
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: String,
    pub scalar: Scalar,
    pub shape: Vec<u64>,
    /// Bytes before it in a record.
    pub offset: usize,
}

/// The type of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    One(Scalar),
    Record(Vec<Field>),
}

impl Dtype {
    /// Bytes of an element.
    pub fn bytes(&self) -> usize {
        match self {
            Dtype::One(s) => s.size,
            Dtype::Record(fields) => fields.iter().map(Field::bytes).sum(),
        }
    }
}

impl Field {
    fn bytes(&self) -> usize {
        self.shape.iter().product::<u64>() as usize * self.scalar.size
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dtype::One(s) => write!(f, "{s}"),
            Dtype::Record(fields) => {
                let names: Vec<_> = fields.iter().map(|d| format!("{} {}", d.name, d.scalar)).collect();
                write!(f, "records of {}", names.join(", "))
            }
        }
    }
}

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub dtype: Dtype,
    pub fortran_order: bool,
    pub shape: Vec<u64>,
    /// Where the elements start.
    pub data: u64,
}

impl NpyHeader {
    /// Bytes from the start of a file that hold the header, told by the first 12 of them.
    pub fn bytes_needed(start: &[u8]) -> Result<usize, String> {
        if start.len() < 10 || !start.starts_with(MAGIC) {
            return Err("is not a .npy file: it does not start with \\x93NUMPY".into());
        }
        let (prefix, length) = match start[6] {
            1 => (10, usize::from(u16::from_le_bytes([start[8], start[9]]))),
            2 | 3 if start.len() >= LONGEST_PREFIX => {
                (12, u32::from_le_bytes([start[8], start[9], start[10], start[11]]) as usize)
            }
            2 | 3 => return Err("ends inside its header".into()),
            v => return Err(format!("is a .npy file of version {v}, expected 1 to 3")),
        };
        // numpy itself refuses headers above 10 kB.
        if length > 1 << 20 {
            return Err(format!("has a .npy header of {length} bytes, expected some hundred"));
        }
        Ok(prefix + length)
    }

    /// Reads the header of `bytes`, the start of a file.
    pub fn parse(bytes: &[u8]) -> Result<NpyHeader, String> {
        let end = Self::bytes_needed(bytes)?;
        let prefix = if bytes[6] == 1 { 10 } else { 12 };
        let text = bytes.get(prefix..end).ok_or("ends inside its header")?;
        let wrong = || "has a .npy header that is no dict of descr, fortran_order and shape".to_string();
        let Some(Literal::Dict(entries)) = std::str::from_utf8(text).ok().and_then(Literal::parse) else {
            return Err(wrong());
        };
        let get = |key: &str| entries.iter().find(|e| e.0 == key).map(|e| &e.1).ok_or_else(wrong);
        let Literal::Bool(fortran_order) = *get("fortran_order")? else { return Err(wrong()) };
        let shape = shape(get("shape")?).ok_or_else(wrong)?;
        let dtype = match get("descr")? {
            Literal::Text(descr) => Dtype::One(
                Scalar::parse(descr)
                    .ok_or_else(|| format!("has elements of type '{descr}', which is not read here"))?,
            ),
            Literal::Many(fields) => Dtype::Record(record(fields).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        };
        let header = NpyHeader { dtype, fortran_order, shape, data: end as u64 };
        header.data_bytes().ok_or_else(|| format!("has a shape of {:?} elements: too many", header.shape))?;
        Ok(header)
    }

    /// Bytes of all elements.
    pub fn data_bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.dtype.bytes() as u64, |n, s| n.checked_mul(*s))
    }

    /// The header of a file of version 1.0. Its length does not depend on the first number of the shape, so that it can be
    /// written before that is known.
    pub fn write(descr: &str, shape: &[u64]) -> Vec<u8> {
        /// Digits of the largest `u64`.
        const DIGITS: usize = 20;
        let numbers: Vec<_> = shape.iter().map(u64::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let text = format!(
            "{{'descr': {descr}, 'fortran_order': False, 'shape': ({}{comma}), }}",
            numbers.join(", ")
        );
        let spare = DIGITS - numbers.first().map_or(DIGITS, String::len);
        // The elements start at a multiple of 64 bytes.
        let length = (10 + text.len() + spare + 1).next_multiple_of(64) - 10;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((length as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.resize(10 + length - 1, b' ');
        bytes.push(b'\n');
        bytes
    }
}

fn shape(literal: &Literal) -> Option<Vec<u64>> {
    let Literal::Many(sides) = literal else { return None };
    let side = |l: &Literal| if let Literal::Number(n) = l { Some(*n) } else { None };
    sides.iter().map(side).collect()
}

fn record(fields: &[Literal]) -> Option<Vec<Field>> {
    let (mut all, mut offset) = (Vec::new(), 0usize);
    for field in fields {
        let Literal::Many(parts) = field else { return None };
        let (name, descr, sides) = match parts.as_slice() {
            [Literal::Text(name), Literal::Text(descr)] => (name, descr, Vec::new()),
            [Literal::Text(name), Literal::Text(descr), sides @ Literal::Many(_)] => {
                (name, descr, shape(sides)?)
            }
            _ => return None,
        };
        let scalar = Scalar::parse(descr)?;
        let count = sides.iter().try_fold(1u64, |n, s| n.checked_mul(*s)).filter(|n| *n < 1 << 32)?;
        all.push(Field { name: name.clone(), scalar, shape: sides, offset });
        offset = offset.checked_add(usize::try_from(count).ok()?.checked_mul(scalar.size)?)?;
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive() {
        let bytes = NpyHeader::write("'<u2'", &[7, 400, 400]);
        assert_eq!(bytes.len() % 64, 0);
        let h = NpyHeader::parse(&bytes).unwrap();
        assert_eq!((h.dtype, h.fortran_order), (Dtype::One(Scalar::new('u', 2)), false));
        assert_eq!((h.shape, h.data), (vec![7, 400, 400], bytes.len() as u64));
        for shape in [[0u64].as_slice(), &[u64::MAX], &[12, 3], &[]] {
            let bytes = NpyHeader::write("'|u1'", shape);
            assert_eq!(NpyHeader::parse(&bytes).unwrap().shape, shape);
        }
        // The length stays when the number of rows becomes known.
        let lengths = [0, 9, 10, u64::MAX].map(|n| NpyHeader::write("'<f8'", &[n, 1]).len());
        assert!(lengths.iter().all(|l| *l == lengths[0]));
        for rows in [1, 10, 1 << 20, 1 << 40, u64::MAX] {
            for descr in ["'<u2'", "'<f8'", "[('frame', '<u8'), ('x', '<u2')]"] {
                let length = |n| NpyHeader::write(descr, &[n, rows]).len();
                assert_eq!(length(0), length(u64::MAX), "{descr}, {rows}");
            }
        }
    }

    /// Bytes of one have no order, whatever stands before them.
    #[test]
    fn types_are_told_apart() {
        for (descr, kind, size, big_endian) in [
            ("<u2", 'u', 2, false),
            (">u2", 'u', 2, true),
            ("=i4", 'i', 4, false),
            ("|u1", 'u', 1, false),
            (">u1", 'u', 1, false),
            ("<b1", 'b', 1, false),
            (">f8", 'f', 8, true),
            ("|S1234", 'S', 1234, false),
            ("|S16777216", 'S', 16_777_216, false),
        ] {
            assert_eq!(Scalar::parse(descr), Some(Scalar { kind, size, big_endian }), "{descr}");
        }
        for not in ["u2", "<u", "<u0", "<u65", "<2u", "", "<", "|S16777217"] {
            assert_eq!(Scalar::parse(not), None, "{not}");
        }
        assert_eq!(Scalar { kind: 'u', size: 2, big_endian: true }.to_string(), ">u2");
        assert_eq!(Scalar::new('u', 1).to_string(), "|u1");
    }

    /// The first number of a shape is known last, whatever the other ones are and wherever the text ends.
    #[test]
    fn the_length_does_not_depend_on_the_first_side() {
        for name in 1..70 {
            let descr = format!("'{}'", "x".repeat(name));
            for rest in [&[][..], &[1], &[123_456_789, 7], &[u64::MAX]] {
                let shape = |n: u64| [&[n], rest].concat();
                let lengths = [0, 7, 1 << 40, u64::MAX].map(|n| NpyHeader::write(&descr, &shape(n)).len());
                assert!(lengths.iter().all(|l| *l == lengths[0] && l.is_multiple_of(64)), "{lengths:?}");
            }
        }
    }

    #[test]
    fn headers_are_of_some_length() {
        let start = |length: u32| {
            let mut bytes = MAGIC.to_vec();
            bytes.extend([2, 0]);
            bytes.extend(length.to_le_bytes());
            bytes
        };
        assert_eq!(NpyHeader::bytes_needed(&start(1 << 20)), Ok((1 << 20) + 12));
        assert!(NpyHeader::bytes_needed(&start((1 << 20) + 1)).unwrap_err().contains("1048577 bytes"));
    }

    #[test]
    fn records_have_offsets() {
        let bytes = NpyHeader::write("[('frame', '<u8'), ('x', '<u2'), ('data', '<i4', (3, 3))]", &[5]);
        let h = NpyHeader::parse(&bytes).unwrap();
        assert_eq!(h.dtype.bytes(), 8 + 2 + 36);
        let Dtype::Record(fields) = h.dtype else { panic!("records") };
        assert_eq!(fields.iter().map(|f| f.offset).collect::<Vec<_>>(), [0, 8, 10]);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = NpyHeader::write("'<u2'", &[7, 4, 4]);
        for cut in 0..good.len() {
            assert!(NpyHeader::parse(&good[..cut]).is_err());
        }
        assert_eq!(Scalar::parse(">u1"), Some(Scalar::new('u', 1)));
        assert!(Scalar::parse(">u2").unwrap().big_endian);
        let mut newer = good.clone();
        newer[6] = 9;
        assert!(NpyHeader::parse(&newer).unwrap_err().contains("version 9"));
        assert!(
            NpyHeader::parse(&NpyHeader::write("'<u2'", &[u64::MAX, 2])).unwrap_err().contains("too many")
        );
        assert!(NpyHeader::parse(&NpyHeader::write("'<U8'", &[1])).is_ok());
        assert!(NpyHeader::parse(&NpyHeader::write("'zz'", &[1])).unwrap_err().contains("'zz'"));
    }

    #[test]
    fn the_length_does_not_depend_on_the_first_number() {
        for digits in 0..70 {
            let descr = format!("'<u2{}'", " ".repeat(digits));
            for rest in [&[][..], &[1], &[u64::MAX, 1]] {
                let length = |n: u64| NpyHeader::write(&descr, &[&[n], rest].concat()).len();
                assert!([12_345, 1 << 40, u64::MAX].iter().all(|n| length(*n) == length(0)));
                assert_eq!(length(0) % 64, 0);
                // No longer than needed: the text, and 20 digits for the first number.
                let text = NpyHeader::write(&descr, &[&[u64::MAX], rest].concat());
                let used = text.iter().rposition(|b| *b == b'}').unwrap() + 3;
                assert!(text.len() < used + 64, "{used} of {}", text.len());
            }
        }
        assert_eq!(NpyHeader::write("'<u2'", &[]).len() % 64, 0);
    }

    #[test]
    fn every_version_is_read_to_its_end() {
        let text = b"{'descr': '>i4', 'fortran_order': True, 'shape': (3,), }\n";
        for version in [1u8, 2, 3] {
            let mut bytes = b"\x93NUMPY".to_vec();
            bytes.extend([version, 0]);
            let length = (text.len() as u32).to_le_bytes();
            bytes.extend(if version == 1 { &length[..2] } else { &length });
            let data = bytes.len() + text.len();
            for cut in 0..bytes.len() {
                let said = NpyHeader::bytes_needed(&bytes[..cut]).unwrap_err();
                assert_eq!(said.contains("ends inside its header"), cut >= 10, "{version} {cut}: {said}");
            }
            assert_eq!(NpyHeader::bytes_needed(&bytes), Ok(data));
            bytes.extend(text);
            let h = NpyHeader::parse(&bytes).unwrap();
            assert_eq!((h.data, h.fortran_order, h.data_bytes()), (data as u64, true, Some(12)));
            assert_eq!(h.dtype.to_string(), ">i4");
        }
        // The longest header that is read, and one byte more.
        let long = |length: u32| {
            let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
            bytes.extend(length.to_le_bytes());
            NpyHeader::bytes_needed(&bytes)
        };
        assert_eq!(long(1 << 20), Ok((1 << 20) + 12));
        assert!(long((1 << 20) + 1).unwrap_err().contains("header of 1048577 bytes"));
    }

    #[test]
    fn types_have_an_order_where_they_have_more_than_one_byte() {
        for (descr, shown, big_endian) in [
            ("<u2", "<u2", false),
            (">f8", ">f8", true),
            (">u1", "|u1", false),
            ("|b1", "|b1", false),
            ("=i4", "<i4", false),
        ] {
            let s = Scalar::parse(descr).unwrap();
            assert_eq!((s.to_string().as_str(), s.big_endian), (shown, big_endian));
            assert_eq!(format!("{s:?}"), shown);
        }
        assert_eq!(Scalar::parse("<U64").unwrap().size, 64);
        for not in ["", "<", "<u", "u2", "<u0", "<u65", "<u-1", "?u2"] {
            assert!(Scalar::parse(not).is_none(), "{not}");
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let dtype = |descr: &str| NpyHeader::parse(&NpyHeader::write(descr, &[1])).map(|h| h.dtype);
        let Dtype::Record(fields) = dtype("[('a', '<u2', (2, 3)), ('b', '|u1', ()), ('c', '<f8')]").unwrap()
        else {
            panic!("records")
        };
        let at: Vec<_> = fields.iter().map(|f| (f.name.as_str(), f.offset, f.bytes())).collect();
        assert_eq!(at, [("a", 0, 12), ("b", 12, 1), ("c", 13, 8)]);
        assert_eq!(Dtype::Record(fields).to_string(), "records of a <u2, b |u1, c <f8");
        // As many values in a field as a number of 32 bits counts.
        assert!(dtype("[('a', '|u1', (4294967295,))]").is_ok());
        for not in [
            "[('a', '|u1', (4294967296,))]",
            "[('a', '|u1', (4294967296, 4294967296))]",
            "[]",
            "[3]",
            "[('a',)]",
            "[('a', '<u2', 3)]",
            "[('a', '<u2', ('x',))]",
            "[('a', 'zz')]",
        ] {
            assert!(dtype(not).is_err(), "{not}");
        }
        assert!(dtype("True").is_err());
        let no_key = NpyHeader::write("'<u2'", &[1])
            .iter()
            .map(|b| if *b == b'p' { b'q' } else { *b })
            .collect::<Vec<_>>();
        assert!(NpyHeader::parse(&no_key).unwrap_err().contains("no dict"));
    }
}
