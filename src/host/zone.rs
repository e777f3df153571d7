//! The time zone of this machine, in which engines name times of day without saying so.

use std::path::Path;

use chrono_tz::Tz;

/// The folder that a path below the zone database has before the name of the zone.
const DATABASE: &str = "zoneinfo/";

/// The zone in force: `TZ` if it names one, else what `/etc/localtime` links to, else UTC.
pub fn local() -> Tz {
    let variable = std::env::var("TZ").ok();
    let link = std::fs::read_link("/etc/localtime").ok();
    named(variable.as_deref(), link.as_deref())
}

/// Reads the zone out of `TZ` and of the target of `/etc/localtime`.
///
/// `TZ` may be a name or a path into the zone database, either after a colon (POSIX); a rule such as `CET-1CEST`
/// names no zone and is passed over, as is one that is set and empty, which means UTC.
fn named(variable: Option<&str>, localtime: Option<&Path>) -> Tz {
    if variable.is_some_and(|text| text.trim_start_matches(':').is_empty()) {
        return Tz::UTC;
    }
    let of_path = |path: &str| path.rsplit_once(DATABASE).map_or(path, |(_, name)| name).parse::<Tz>().ok();
    let variable = variable.and_then(|text| of_path(text.trim_start_matches(':')));
    variable.or_else(|| of_path(localtime?.to_str()?)).unwrap_or(Tz::UTC)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_variable_names_the_zone_by_name_or_path() {
        let link = Path::new("/usr/share/zoneinfo/Asia/Tokyo");
        let zones =
            ["Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", ":/x/zoneinfo/Europe/Berlin"];
        for text in zones {
            assert_eq!(named(Some(text), Some(link)), Tz::Europe__Berlin, "{text}");
        }
        assert_eq!(named(Some(""), Some(link)), Tz::UTC);
    }

    #[test]
    fn without_a_zone_in_the_variable_the_machines_link_counts_and_else_utc() {
        let linux = Path::new("../usr/share/zoneinfo/America/New_York");
        let mac = Path::new("/var/db/timezone/zoneinfo/America/New_York");
        for (variable, link, zone) in [
            (None, Some(linux), Tz::America__New_York),
            (None, Some(mac), Tz::America__New_York),
            (Some("CET-1CEST,M3.5.0"), Some(linux), Tz::America__New_York),
            (None, None, Tz::UTC),
            (None, Some(Path::new("/etc/zone")), Tz::UTC),
        ] {
            assert_eq!(named(variable, link), zone, "{variable:?} {link:?}");
        }
    }
}
