//! What a plain scalar means: the core schema of YAML 1.2, and digits with `_`.
//!
//! `off`, `no`, `on` and `yes` are text here, as YAML 1.2 has it. Numbers are told apart from numbers that
//! no 64 bits hold, since the one degrades to a default and the other is an error.

/// A scalar as the core schema reads it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// Nothing, `~` or `null`.
    Null,
    Bool(bool),
    Integer(i128),
    Fraction(f64),
    /// A number that 64 bits do not hold, `.inf` or `.nan`.
    Unbounded,
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    /// Reads a scalar; what was quoted is text whatever it looks like.
    pub(crate) fn read(text: &'a str, plain: bool) -> Self {
        if !plain {
            return Self::Text(text);
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" => Self::Bool(true),
            "false" | "False" | "FALSE" => Self::Bool(false),
            _ => number(text).unwrap_or(Self::Text(text)),
        }
    }
}

fn number(text: &str) -> Option<Scalar<'static>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Some(Scalar::Unbounded);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = unsigned.strip_prefix(prefix) {
            let all = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            return all.then(|| i128::from_str_radix(digits, radix).map_or(Scalar::Unbounded, |n| whole(text, n)));
        }
    }
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') || !grouped(unsigned) {
        return None;
    }
    let digits = unsigned.replace('_', "");
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(digits.parse().map_or(Scalar::Unbounded, |n| whole(text, n)));
    }
    // Rust reads `1e5`, `.5` and `1.` as the core schema does; `inf` and the like were sent away above.
    let value: f64 = digits.parse().ok()?;
    // What is not 0 and becomes 0 would switch a limit off.
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let vanishes = value == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if vanishes || !value.is_finite() {
        return Some(Scalar::Unbounded);
    }
    Some(Scalar::Fraction(if text.starts_with('-') && value > 0.0 { -value } else { value }))
}

fn whole(text: &str, magnitude: i128) -> Scalar<'static> {
    let value = if text.starts_with('-') { -magnitude } else { magnitude };
    if value < i128::from(i64::MIN) || value > i128::from(u64::MAX) {
        return Scalar::Unbounded;
    }
    Scalar::Integer(value)
}

/// Whether every `_` stands between two digits.
fn grouped(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        digit(at.checked_sub(1)) && digit(at.checked_add(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_read_by_the_core_schema() {
        let rows = [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("true", Scalar::Bool(true)),
            ("off", Scalar::Text("off")),
            ("no", Scalar::Text("no")),
            ("180000", Scalar::Integer(180_000)),
            ("180_000", Scalar::Integer(180_000)),
            ("1_000.5", Scalar::Fraction(1000.5)),
            ("_1", Scalar::Text("_1")),
            ("1__0", Scalar::Text("1__0")),
            ("-5", Scalar::Integer(-5)),
            ("+5", Scalar::Integer(5)),
            ("0x1F", Scalar::Integer(31)),
            ("0o17", Scalar::Integer(15)),
            ("1e5", Scalar::Fraction(100_000.0)),
            (".5", Scalar::Fraction(0.5)),
            (".", Scalar::Text(".")),
            ("1.2.3", Scalar::Text("1.2.3")),
            ("2026-11-01", Scalar::Text("2026-11-01")),
            ("180k", Scalar::Text("180k")),
            ("infinity", Scalar::Text("infinity")),
            ("18446744073709551615", Scalar::Integer(18_446_744_073_709_551_615)),
            ("18446744073709551616", Scalar::Unbounded),
            ("-9223372036854775809", Scalar::Unbounded),
            ("99999999999999999999999999999999999999999999", Scalar::Unbounded),
            ("1e999", Scalar::Unbounded),
            ("1e-300", Scalar::Fraction(1e-300)),
            ("1e-400", Scalar::Unbounded),
            ("-0.1E-400", Scalar::Unbounded),
            ("0e-400", Scalar::Fraction(0.0)),
            ("-0", Scalar::Integer(0)),
            ("-.inf", Scalar::Unbounded),
            (".nan", Scalar::Unbounded),
        ];
        for (text, expected) in rows {
            assert_eq!(Scalar::read(text, true), expected, "{text}");
        }
    }

    #[test]
    fn quoted_scalars_are_text() {
        for text in ["", "null", "true", "180000"] {
            assert_eq!(Scalar::read(text, false), Scalar::Text(text));
        }
    }
}
