//! When a limit ends: the sentences in which engines say so, and the clock time that they mean.
//!
//! Finding a sentence needs no clock and happens in the decoder; reading it does, and is [`retry_at`].
//! Wordings were seen with claude 2.1, pi 1.6 (its providers') and cursor-agent builds of 2025 and 2026.

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, TimeDelta, Utc};

use crate::event::item::Reset;
use crate::host::zone::Zone;

/// Words after which a reset is named, longest first where one begins another.
const ANCHORS: [&str; 14] = [
    "cycle ends on",
    "resets at",
    "resets on",
    "resets in",
    "resets",
    "reset at",
    "reset on",
    "reset in",
    "try again at",
    "try again in",
    "try again after",
    "retry after",
    "retry in",
    "available again at",
];

/// Characters after such words that can belong to the time.
const SENTENCE_CHARS: usize = 80;

/// Seconds since 1970 below which a number is no plausible reset, and above which it is milliseconds:
/// 2001 and 2286.
const EPOCH_SECS: std::ops::Range<u64> = 1_000_000_000..10_000_000_000;

/// Longest span that is believed: a billing year and a bit.
const LONGEST_SPAN_SECS: f64 = 400.0 * 86_400.0;

/// Finds what a text says about the end of a limit.
pub fn find(text: &str) -> Reset {
    if let Some(at) = text.rsplit_once('|').and_then(|(_, epoch)| at_epoch(epoch.trim().parse().ok()?)) {
        return Reset::At(at);
    }
    // Lower case letter by letter keeps byte offsets, which `to_lowercase` does not.
    let lower = text.to_ascii_lowercase();
    for anchor in ANCHORS {
        for (at, _) in lower.match_indices(anchor) {
            let rest: String = text[at + anchor.len()..].chars().take(SENTENCE_CHARS).collect();
            if let Some(span) = span(&rest) {
                return Reset::After(span);
            }
            if moment(&rest).is_some() {
                return Reset::Sentence(rest.trim().to_owned());
            }
        }
    }
    Reset::Unknown
}

/// A point in time given as seconds or milliseconds since 1970.
pub fn at_epoch(number: u64) -> Option<DateTime<Utc>> {
    let secs = if number >= EPOCH_SECS.end { number / 1000 } else { number };
    if !EPOCH_SECS.contains(&secs) {
        return None;
    }
    DateTime::from_timestamp(i64::try_from(secs).ok()?, 0)
}

/// When the same engine can be tried again; `None` when nothing, or nothing readable, was said.
///
/// `now` is the moment of the failure. A time without a zone is one of `zone`, the machine's own; a time
/// of day means its next occurrence, a date without a year its next one.
pub fn retry_at(reset: &Reset, now: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
    match reset {
        Reset::Unknown => None,
        Reset::At(at) => Some(*at),
        Reset::After(span) => now.checked_add_signed(TimeDelta::from_std(*span).ok()?),
        Reset::Sentence(sentence) => moment(sentence)?.after(now, zone),
    }
}

/// A span such as `~231 min`, `2 hours 30 minutes` or `1h 5m`.
fn span(text: &str) -> Option<std::time::Duration> {
    let mut secs = 0.0;
    let mut seen = false;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = word.trim_start_matches('~').trim_end_matches(['.', ',', ';', ')']);
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let Ok(number) = word[..digits].parse::<f64>() else { break };
        let unit = match &word[digits..] {
            "" => words.peek().map(|unit| unit.trim_end_matches(['.', ',', ';', ')'])),
            unit => Some(unit),
        };
        let Some(unit_secs) = unit.and_then(unit_secs) else { break };
        if digits == word.len() {
            words.next();
        }
        secs += number * unit_secs;
        seen = true;
    }
    (seen && secs <= LONGEST_SPAN_SECS).then(|| std::time::Duration::from_secs_f64(secs))
}

fn unit_secs(unit: &str) -> Option<f64> {
    match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86_400.0),
        _ => None,
    }
}

/// A point in time as a sentence gives it, with what it leaves open.
#[derive(Debug, Default, PartialEq)]
struct Moment {
    year: Option<i32>,
    month_day: Option<(u32, u32)>,
    time: Option<NaiveTime>,
    zone: Option<Zone>,
}

/// Reads as many words as belong to a date and time; `None` when there is neither.
fn moment(text: &str) -> Option<Moment> {
    let mut found = Moment::default();
    let mut month = None;
    let mut hour = None;
    for word in text.split_whitespace().map(|word| word.trim_matches([',', ';', '.', '·', '(', ')', '"'])) {
        if let Some(zone) = zone(word) {
            found.zone = Some(zone);
        } else if let Some((year, month_day)) = date(word) {
            (found.year, found.month_day) = (Some(year), Some(month_day));
        } else if let Some(number) = month_number(word) {
            month = Some(number);
        } else if let (Some(number), None) = (month, found.month_day) {
            let day = word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
            found.month_day = Some((number, day));
        } else if let (Some(_), None, Some(year)) = (found.month_day, found.year, year(word)) {
            found.year = Some(year);
        } else if let Some(time) = time(word) {
            found.time = Some(time);
        } else if let (Some(half), Some(time)) = (half(word), found.time) {
            found.time = on_half(time, half);
        } else if let Ok(number @ 1..=12) = word.parse::<u32>() {
            hour = NaiveTime::from_hms_opt(number, 0, 0);
        } else if let (Some(half), Some(time)) = (half(word), hour) {
            found.time = on_half(time, half);
        } else if !matches!(word.to_ascii_lowercase().as_str(), "at" | "on" | "the" | "of" | "") {
            break;
        }
    }
    (found.month_day.is_some() || found.time.is_some()).then_some(found)
}

impl Moment {
    /// The point in time, its open parts filled so that it lies after `now`.
    fn after(&self, now: DateTime<Utc>, machine: &Zone) -> Option<DateTime<Utc>> {
        let zone = self.zone.as_ref().unwrap_or(machine);
        let today = zone.date(now);
        let time = self.time.unwrap_or(NaiveTime::MIN);
        let Some((month, day)) = self.month_day else {
            let first = zone.at(today.and_time(time))?;
            return if first > now {
                Some(first)
            } else {
                zone.at(today.checked_add_days(Days::new(1))?.and_time(time))
            };
        };
        let on = |year| zone.at(NaiveDate::from_ymd_opt(year, month, day)?.and_time(time));
        match self.year {
            Some(year) => on(year),
            None => on(today.year()).filter(|first| *first > now).or_else(|| on(today.year() + 1)),
        }
    }
}

fn zone(word: &str) -> Option<Zone> {
    match word {
        "UTC" | "GMT" | "Z" => Some(Zone::UTC),
        word if word.contains('/') => Zone::named(word),
        _ => None,
    }
}

/// `11/17/2025` as cursor writes it, or `2025-11-17`.
fn date(word: &str) -> Option<(i32, (u32, u32))> {
    let american = NaiveDate::parse_from_str(word, "%m/%d/%Y");
    let date = american.or_else(|_| NaiveDate::parse_from_str(word, "%Y-%m-%d")).ok()?;
    Some((date.year(), (date.month(), date.day())))
}

fn year(word: &str) -> Option<i32> {
    word.parse().ok().filter(|year| (2000..2200).contains(year))
}

fn month_number(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    if word.len() < 3 || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    (1..).zip(MONTHS).find(|(_, month)| lower.starts_with(month)).map(|(number, _)| number)
}

#[derive(Clone, Copy)]
enum Half {
    Morning,
    Afternoon,
}

fn half(word: &str) -> Option<Half> {
    match word.to_ascii_lowercase().as_str() {
        "am" | "a.m" => Some(Half::Morning),
        "pm" | "p.m" => Some(Half::Afternoon),
        _ => None,
    }
}

/// `10pm`, `2:30pm`, `14:30` or `14:30:05`.
fn time(word: &str) -> Option<NaiveTime> {
    let lower = word.to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(lower.len());
    let (clock, suffix) = lower.split_at(split);
    let mut parts = clock.split(':').map(|part| part.parse::<u32>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next(), parts.next());
    let time = NaiveTime::from_hms_opt(hour, minute.unwrap_or(Some(0))?, second.unwrap_or(Some(0))?)?;
    match (suffix, minute) {
        ("", Some(_)) => Some(time),
        _ => on_half(time, half(suffix)?),
    }
}

/// A time of the twelve-hour clock on the half of the day that it belongs to.
fn on_half(time: NaiveTime, half: Half) -> Option<NaiveTime> {
    use chrono::Timelike as _;
    let hour = time.hour();
    if !(1..=12).contains(&hour) {
        return None;
    }
    time.with_hour(match half {
        Half::Morning => hour % 12,
        Half::Afternoon => hour % 12 + 12,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(text: &str, now: &str, zone: &str) -> Option<String> {
        let at = retry_at(&find(text), now.parse().unwrap(), &Zone::named(zone).unwrap())?;
        Some(at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
    }

    #[test]
    fn r10_a_time_of_day_is_its_next_occurrence_in_its_zone() {
        let now = "2026-11-30T12:00:00Z";
        for (text, at) in [
            ("Your limit resets 1pm (UTC)", "2026-11-30T13:00:00Z"),
            ("resets 12pm (UTC)", "2026-12-01T12:00:00Z"),
            ("resets at 14:30", "2026-11-30T13:30:00Z"),
            ("resets at 3 PM", "2026-11-30T14:00:00Z"),
            ("resets Jan 2, 9am (Asia/Tokyo)", "2027-01-02T00:00:00Z"),
            ("resets on December 5", "2026-12-04T23:00:00Z"),
            ("will reset on 2026-12-24 at 08:15:30 UTC.", "2026-12-24T08:15:30Z"),
        ] {
            assert_eq!(read(text, now, "Europe/Zurich").as_deref(), Some(at), "{text}");
        }
    }

    #[test]
    fn spans_and_epochs_need_no_sentence() {
        assert_eq!(find("Try again in ~231 min."), Reset::After(Duration::from_secs(231 * 60)));
        assert_eq!(find("please retry in 1h 5m, then"), Reset::After(Duration::from_secs(3900)));
        assert_eq!(find("try again in 2 days"), Reset::After(Duration::from_secs(172_800)));
        assert_eq!(find("limit reached|1749924000"), Reset::At("2025-06-14T18:00:00Z".parse().unwrap()));
        assert_eq!(at_epoch(1_749_924_000_000), at_epoch(1_749_924_000));
    }

    #[test]
    fn what_is_no_time_stays_unknown() {
        for text in [
            "",
            "Please try again later.",
            "resets soon",
            "try again in a moment",
            "resets 25pm",
            "limit|7",
            "resets Feb",
            "retry in 99999999999999999999 days",
        ] {
            assert_eq!(read(text, "2026-11-30T12:00:00Z", "UTC"), None, "{text}");
        }
        assert_eq!(read("resets on 02/30/2026", "2026-11-30T12:00:00Z", "UTC"), None);
        assert_eq!(read("resets Feb 30", "2026-11-30T12:00:00Z", "UTC"), None);
    }

    #[test]
    fn a_skipped_hour_is_read_an_hour_on() {
        assert_eq!(
            read("resets 2:30am (Europe/Zurich)", "2026-03-28T20:00:00Z", "UTC").as_deref(),
            Some("2026-03-29T01:30:00Z")
        );
    }
}
