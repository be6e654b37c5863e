//! The values that a function can return at once instead of what it computes.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

/// Expressions of the type; the empty one is `return` without a value.
pub fn defaults(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, ty) => of_type(ty),
    }
}

fn of_type(ty: &Type) -> Vec<String> {
    let all = |values: &[&str]| values.iter().map(|v| v.to_string()).collect();
    match ty {
        Type::Tuple(t) if t.elems.is_empty() => all(&["()"]),
        Type::Reference(r) => match &*r.elem {
            Type::Path(p) if p.path.is_ident("str") => all(&["\"\""]),
            Type::Slice(_) if r.mutability.is_none() => all(&["&[]"]),
            _ => Vec::new(),
        },
        Type::Path(p) => {
            let Some(last) = p.path.segments.last() else { return Vec::new() };
            let inner = match &last.arguments {
                PathArguments::AngleBracketed(a) => a.args.first(),
                _ => None,
            };
            match last.ident.to_string().as_str() {
                "bool" => all(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
                | "isize" => all(&["0", "1"]),
                "f32" | "f64" => all(&["0.0", "1.0"]),
                "String" => all(&["String::new()"]),
                "Option" => all(&["None"]),
                "Vec" => all(&["Vec::new()"]),
                "Result" => match inner {
                    None => all(&["Ok(())"]),
                    Some(GenericArgument::Type(t)) => {
                        of_type(t).into_iter().map(|v| format!("Ok({v})")).collect()
                    }
                    Some(_) => Vec::new(),
                },
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}
