//! Time zones: the one of this machine, in which engines name times of day without saying so, and those they name.
//!
//! The zone database is compiled in as the bytes that it is published as. A table of Rust values cost 3 MB of the
//! program, and its 45,000 addresses 1.2 ms of every start (2026-11-30).

use std::path::Path;

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, TimeDelta, Timelike as _, Utc};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The folder that a path below the zone database has before the name of the zone.
const DATABASE: &str = "zoneinfo/";

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// The zone of a name such as `Europe/Berlin`; `None` when the database has none of it.
    pub fn named(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().map(Self)
    }

    /// The zone in force: `TZ` if it names one, else what `/etc/localtime` links to, else UTC.
    pub fn local() -> Self {
        let variable = std::env::var("TZ").ok();
        let link = std::fs::read_link("/etc/localtime").ok();
        local(variable.as_deref(), link.as_deref())
    }

    /// The date that a calendar in this zone shows.
    pub fn date(&self, at: DateTime<Utc>) -> NaiveDate {
        self.clock(at).0.date()
    }

    /// Date, minute and the zone's abbreviation, for people.
    pub fn shown(&self, at: DateTime<Utc>) -> String {
        let (clock, zone) = self.clock(at);
        format!("{} {zone}", clock.format("%Y-%m-%d %H:%M"))
    }

    /// What a clock in this zone shows, and how it calls the zone. A time that no calendar has is shown in UTC.
    fn clock(&self, at: DateTime<Utc>) -> (NaiveDateTime, String) {
        let utc = at.naive_utc();
        let Ok(timestamp) = Timestamp::from_second(at.timestamp()) else { return (utc, "UTC".to_owned()) };
        let info = self.0.to_offset_info(timestamp);
        let offset = TimeDelta::seconds(i64::from(info.offset().seconds()));
        (utc.checked_add_signed(offset).unwrap_or(utc), info.abbreviation().to_owned())
    }

    /// The point in time of what a clock in this zone shows: the earlier one where clocks go back, as much later as
    /// the clocks jump where it is skipped. `None` outside of the years -9999 to 9999.
    pub fn at(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let small = |number: u32| i8::try_from(number).ok();
        let local = jiff::civil::DateTime::new(
            i16::try_from(local.year()).ok()?,
            small(local.month())?,
            small(local.day())?,
            small(local.hour())?,
            small(local.minute())?,
            small(local.second())?,
            0,
        );
        let at = self.0.to_ambiguous_timestamp(local.ok()?).compatible().ok()?;
        DateTime::from_timestamp(at.as_second(), 0)
    }
}

/// Reads the zone out of `TZ` and of the target of `/etc/localtime`.
///
/// `TZ` may be a name or a path into the zone database, either after a colon (POSIX); a rule such as `CET-1CEST`
/// names no zone and is passed over, as is one that is set and empty, which means UTC.
fn local(variable: Option<&str>, localtime: Option<&Path>) -> Zone {
    if variable.is_some_and(|text| text.trim_start_matches(':').is_empty()) {
        return Zone::UTC;
    }
    let of_path = |path: &str| Zone::named(path.rsplit_once(DATABASE).map_or(path, |(_, name)| name));
    let variable = variable.and_then(|text| of_path(text.trim_start_matches(':')));
    variable.or_else(|| of_path(localtime?.to_str()?)).unwrap_or(Zone::UTC)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::named(name).unwrap()
    }

    #[test]
    fn the_variable_names_the_zone_by_name_or_path() {
        let link = Path::new("/usr/share/zoneinfo/Asia/Tokyo");
        let zones =
            ["Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", ":/x/zoneinfo/Europe/Berlin"];
        for text in zones {
            assert_eq!(local(Some(text), Some(link)), zone("Europe/Berlin"), "{text}");
        }
        assert_eq!(local(Some(""), Some(link)), Zone::UTC);
    }

    #[test]
    fn without_a_zone_in_the_variable_the_machines_link_counts_and_else_utc() {
        let linux = Path::new("../usr/share/zoneinfo/America/New_York");
        let mac = Path::new("/var/db/timezone/zoneinfo/America/New_York");
        for (variable, link, zone) in [
            (None, Some(linux), zone("America/New_York")),
            (None, Some(mac), zone("America/New_York")),
            (Some("CET-1CEST,M3.5.0"), Some(linux), zone("America/New_York")),
            (None, None, Zone::UTC),
            (None, Some(Path::new("/etc/zone")), Zone::UTC),
        ] {
            assert_eq!(local(variable, link), zone, "{variable:?} {link:?}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_means_the_earlier_time_and_a_skipped_one_the_later() {
        let berlin = zone("Europe/Berlin");
        for (local, at) in [
            ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
            ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z"),
            ("2026-07-01T00:30:00", "2026-06-30T22:30:00Z"),
        ] {
            assert_eq!(berlin.at(local.parse().unwrap()), Some(at.parse().unwrap()), "{local}");
        }
        let summer = "2026-06-30T22:30:00Z".parse().unwrap();
        assert_eq!(berlin.date(summer), "2026-07-01".parse().unwrap());
        assert_eq!(berlin.shown(summer), "2026-07-01 00:30 CEST");
        assert_eq!(Zone::UTC.shown(summer), "2026-06-30 22:30 UTC");
    }
}
