//! Figures for people: rounded, short, and `–` where nothing is known. `--json` has the exact ones.

use chrono::{DateTime, Utc};

/// Stands where a figure is not known.
pub const UNKNOWN: &str = "–";

/// Writes a count: `999`, `38k`, `9.1M`, `30M`, `1.2B`.
pub fn count(value: u64) -> String {
    match value {
        0..1_000 => value.to_string(),
        1_000..999_500 => format!("{}k", rounded(value, 1_000)),
        999_500..999_500_000 => tenths(value, 1_000_000, "M"),
        _ => tenths(value, 1_000_000_000, "B"),
    }
}

/// One decimal below ten units, none from there on, and none that is 0.
fn tenths(value: u64, unit: u64, suffix: &str) -> String {
    let tenths = rounded(value, unit / 10);
    if tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{}{suffix}", rounded(value, unit))
    } else {
        format!("{}.{}{suffix}", tenths / 10, tenths % 10)
    }
}

fn rounded(value: u64, unit: u64) -> u64 {
    value / unit + u64::from(value % unit >= unit.div_ceil(2))
}

/// Writes a size in bytes, by thousands: `512 B`, `1.4 kB`, `23 MB`.
pub fn bytes(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} B"),
        1_000..999_500 => tenths(value, 1_000, " kB"),
        999_500..999_500_000 => tenths(value, 1_000_000, " MB"),
        _ => tenths(value, 1_000_000_000, " GB"),
    }
}

/// Writes dollars: `$0.41`, `<$0.01`, `$0.00` for nothing at all.
pub fn dollars(value: f64) -> String {
    if !value.is_finite() {
        UNKNOWN.to_owned()
    } else if value > 0.0 && value < 0.005 {
        "<$0.01".to_owned()
    } else {
        format!("${value:.2}")
    }
}

/// Writes a span of milliseconds: `340ms`, `41s`, `6m 02s`, `2h 11m`, `3d 04h`.
pub fn span(ms: u64) -> String {
    let secs = ms / 1_000;
    match secs {
        0 => format!("{ms}ms"),
        1..60 => format!("{secs}s"),
        60..3_600 => format!("{}m {:02}s", secs / 60, secs % 60),
        3_600..86_400 => format!("{}h {:02}m", secs / 3_600, secs / 60 % 60),
        _ => format!("{}d {:02}h", secs / 86_400, secs / 3_600 % 24),
    }
}

/// Milliseconds from `from` to `to`, 0 when they stand the other way round.
pub fn ms_between(from: DateTime<Utc>, to: DateTime<Utc>) -> u64 {
    u64::try_from((to - from).num_milliseconds()).unwrap_or(0)
}

/// Writes how long ago something was: `now`, `40s ago`, `8m ago`, `2h ago`, `3d ago`.
pub fn ago(then: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let secs = ms_between(then, now) / 1_000;
    match secs {
        0..5 => "now".to_owned(),
        5..60 => format!("{secs}s ago"),
        60..3_600 => format!("{}m ago", secs / 60),
        3_600..86_400 => format!("{}h ago", secs / 3_600),
        _ => format!("{}d ago", secs / 86_400),
    }
}

/// Writes a time of day in UTC, to the second.
pub fn clock(at: DateTime<Utc>) -> String {
    at.format("%H:%M:%S").to_string()
}

/// Writes when something is due: `18:40 UTC (in 2h 11m)`, with the date when that is more than a day away.
pub fn due(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let ahead = ms_between(now, at);
    let day = if ahead >= 86_400_000 { "%Y-%m-%d %H:%M UTC" } else { "%H:%M UTC" };
    let when = at.format(day);
    if ahead == 0 { format!("{when} (now)") } else { format!("{when} (in {})", span(ahead)) }
}

/// Writes a share between 0 and 1 as whole percents.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.0}%", share * 100.0) } else { UNKNOWN.to_owned() }
}

/// Writes a factor with one decimal.
pub fn factor(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { UNKNOWN.to_owned() }
}

/// Writes a figure, or [`UNKNOWN`].
pub fn or_unknown<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), write)
}

/// Writes a count with its noun, which takes an `s` unless there is one.
pub fn plural(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// The part of `part` in `whole`; `None` for a part of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share for people; tokens stay far below 2^52")]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Draws a bar of `cells` between two edges, filled by eighths of a cell: `▕██▌       ▏`.
pub fn bar(value: u64, full: u64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let whole = u128::from(full.max(1));
    let filled = usize::try_from(u128::from(value.min(full)) * (cells as u128 * 8) / whole).unwrap_or(0);
    let inside = format!("{}{}", "█".repeat(filled / 8), EIGHTHS[filled % 8]);
    let drawn = filled.div_ceil(8);
    format!("▕{inside}{}▏", " ".repeat(cells - drawn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone as _;

    #[test]
    fn counts_are_rounded_and_never_show_four_digits() {
        let shown = [0, 999, 1_000, 1_499, 1_500, 999_499, 999_500, 2_100_000, 9_949_999, 9_950_000, 30_000_000];
        assert_eq!(shown.map(count), ["0", "999", "1k", "1k", "2k", "999k", "1M", "2.1M", "9.9M", "10M", "30M"]);
        assert_eq!([999_499_999, 999_500_000, 1_234_000_000, u64::MAX].map(count)[..3], ["999M", "1B", "1.2B"]);
    }

    #[test]
    fn sizes_dollars_and_shares_are_short() {
        assert_eq!(
            [0, 999, 1_400, 2_000, 45_678, 3_200_000].map(bytes),
            ["0 B", "999 B", "1.4 kB", "2 kB", "46 kB", "3.2 MB"]
        );
        assert_eq!(
            [0.0, 0.004, 0.005, 0.41, 12.0, f64::NAN].map(dollars),
            ["$0.00", "<$0.01", "$0.01", "$0.41", "$12.00", "–"]
        );
        assert_eq!([0.0, 0.964, 1.0].map(percent), ["0%", "96%", "100%"]);
        assert_eq!(share(1, 0), None);
        assert_eq!(or_unknown(None, count), "–");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let spans = [0, 340, 1_000, 41_900, 60_000, 362_000, 7_860_000, 273_600_000];
        assert_eq!(spans.map(span), ["0ms", "340ms", "1s", "41s", "1m 00s", "6m 02s", "2h 11m", "3d 04h"]);
    }

    #[test]
    fn a_time_to_come_names_its_day_only_when_it_is_another() {
        let now = Utc.with_ymd_and_hms(2026, 11, 30, 16, 29, 0).unwrap();
        assert_eq!(due(Utc.with_ymd_and_hms(2026, 11, 30, 18, 40, 0).unwrap(), now), "18:40 UTC (in 2h 11m)");
        assert_eq!(due(Utc.with_ymd_and_hms(2026, 12, 3, 20, 0, 0).unwrap(), now), "2026-12-03 20:00 UTC (in 3d 03h)");
        assert_eq!(due(now, now), "16:29 UTC (now)");
        assert_eq!(ago(now, now + chrono::TimeDelta::minutes(8)), "8m ago");
        assert_eq!(ago(now + chrono::TimeDelta::minutes(8), now), "now");
    }

    #[test]
    fn a_bar_always_has_its_width() {
        assert_eq!(bar(23_000, 180_000, 20), "▕██▌                 ▏");
        assert_eq!(bar(200, 100, 4), "▕████▏");
        assert_eq!(bar(0, 0, 4), "▕    ▏");
        for value in 0..=100 {
            assert_eq!(bar(value, 100, 7).chars().count(), 9, "{value}");
        }
    }
}
