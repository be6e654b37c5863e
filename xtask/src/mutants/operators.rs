//! Operators and methods, and what each is easily taken for.

use syn::BinOp;

/// What an operator may have been meant to be.
pub fn neighbours(op: &str) -> &'static [&'static str] {
    match op {
        "<" => &["<=", ">="],
        "<=" => &["<", ">"],
        ">" => &[">=", "<="],
        ">=" => &[">", "<"],
        "==" => &["!="],
        "!=" => &["=="],
        "&&" => &["||"],
        "||" => &["&&"],
        "+" => &["-", "*"],
        "-" => &["+", "/"],
        "*" => &["+", "/"],
        "/" => &["*", "%"],
        "%" => &["/", "+"],
        "&" => &["|"],
        "|" => &["&"],
        "^" => &["|"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "+=" => &["-="],
        "-=" => &["+="],
        "*=" => &["/="],
        "/=" => &["*="],
        "%=" => &["/="],
        "|=" => &["&="],
        "&=" => &["|="],
        "^=" => &["|="],
        "<<=" => &[">>="],
        ">>=" => &["<<="],
        _ => &[],
    }
}

/// The method that a method is easily taken for.
pub fn partner(method: &str) -> Option<&'static str> {
    const PAIRS: [(&str, &str); 17] = [
        ("first", "last"),
        ("min", "max"),
        ("any", "all"),
        ("ceil", "floor"),
        ("is_some", "is_none"),
        ("is_ok", "is_err"),
        ("is_some_and", "is_none_or"),
        ("starts_with", "ends_with"),
        ("saturating_add", "saturating_sub"),
        ("wrapping_add", "wrapping_sub"),
        ("checked_add", "checked_sub"),
        ("take", "skip"),
        ("push_back", "push_front"),
        ("pop_back", "pop_front"),
        ("front", "back"),
        ("min_by_key", "max_by_key"),
        ("trim_start", "trim_end"),
    ];
    PAIRS.iter().find_map(|&(a, b)| match method {
        m if m == a => Some(b),
        m if m == b => Some(a),
        _ => None,
    })
}

/// Whether an operator compares.
pub fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

/// Whether an operator computes and assigns.
pub fn is_compound(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
