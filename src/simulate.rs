//! What a policy would have cost: the product's own functions over made-up or recorded conversations.
//!
//! No network and no model. Sizes come from tables or from a recorded run; which rows are delivered, when a
//! session rotates and which results shrink is decided by `channel`, `economy` and `prune` themselves.
//! Costs are in uncached input tokens; output is left out, as no policy changes it.

pub mod pruning;
pub mod rotation;
pub mod table;
pub mod watermark;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::economy::prices::Rates;
use table::Table;

/// The result of a simulation: as JSON an object of these fields, as text a table and its comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulation {
    /// Which one: watermark, rotation, pruning.
    pub simulation: &'static str,
    /// Prices relative to an uncached token.
    pub prices: Rates,
    /// What it takes for granted, and what it leaves out.
    pub assumptions: Vec<String>,
    /// One object a policy and layout.
    pub rows: Vec<Map<String, Value>>,
    /// Published figures beside ours.
    pub published: Vec<Published>,
    /// The rows as people read them.
    #[serde(skip)]
    pub table: Table,
}

/// A figure that a founding note gives, and what this simulation gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// What it measures.
    pub figure: String,
    /// The note that gives it.
    pub note: &'static str,
    /// The note's number.
    pub published: f64,
    /// Ours.
    pub ours: f64,
}

impl Simulation {
    /// The whole text: assumptions, table, comparison.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.assumptions {
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.table.text());
        if !self.published.is_empty() {
            let mut published = Table::new(["published figure", "note", "published", "ours", "difference"]);
            for line in &self.published {
                published.push([
                    line.figure.clone(),
                    line.note.to_owned(),
                    number(line.published),
                    number(line.ours),
                    line.difference(),
                ]);
            }
            text.push('\n');
            text.push_str(&published.text());
        }
        text
    }
}

impl Published {
    fn difference(&self) -> String {
        if self.published == 0.0 {
            return number(self.ours);
        }
        format!("{:+.1}%", 100.0 * (self.ours / self.published - 1.0))
    }
}

/// A number with thousands apart, and with decimals where it is small.
pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 {
        return thousands(rounded(value));
    }
    if value.abs() < 1.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

/// A count with thousands apart.
pub(crate) fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, reason = "sums of a simulation are far below 2^53")]
pub(crate) fn rounded(value: f64) -> i64 {
    value.round() as i64
}

/// A count as a real number.
#[expect(clippy::cast_precision_loss, reason = "sums of a simulation are far below 2^53")]
pub(crate) fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let shown = [1_234_567.0, -1234.4, 999.0, 12.34, 0.94, 0.0].map(number);
        assert_eq!(shown, ["1,234,567", "-1,234", "999", "12.3", "0.940", "0"]);
    }
}
