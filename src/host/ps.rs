//! The same questions put to `ps` and `sysctl`, for systems without `/proc`: macOS.

use std::io;
use std::process::Command;

use chrono::NaiveDateTime;

use super::Seen;

/// The id of this boot.
pub(super) fn boot_id() -> io::Result<String> {
    let output = Command::new("sysctl").args(["-n", "kern.bootsessionuuid"]).output()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if id.is_empty() { Err(io::Error::other("`sysctl` did not say which boot this is")) } else { Ok(id) }
}

/// Looks at one process.
pub(super) fn look(pid: u32) -> Option<Seen> {
    let pid = pid.to_string();
    let output = ps(&["-o", "stat=,pgid=,lstart=", "-p", &pid])?;
    parse(output.lines().next()?)
}

/// Whether any process of the group runs.
pub(super) fn group_runs(group: u32) -> bool {
    let Some(output) = ps(&["-A", "-o", "stat=,pgid=,lstart="]) else { return false };
    output.lines().filter_map(parse).any(|seen| seen.group == group && seen.runs)
}

/// `ps` hides the environment of programs that come with the system, shells among them, so none is found by it.
pub(super) fn kill_owned(_variable: &str, _wanted: &dyn Fn(&[u8]) -> bool) -> usize {
    0
}

fn ps(args: &[&str]) -> Option<String> {
    let output = Command::new("ps").args(args).env("LC_ALL", "C").env("TZ", "UTC0").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads state, group and start, as in `Ss 4711 Mon Nov 30 14:25:01 2026`.
fn parse(line: &str) -> Option<Seen> {
    let mut words = line.split_ascii_whitespace();
    let (state, group) = (words.next()?, words.next()?.parse().ok()?);
    let start: Vec<&str> = words.collect();
    let start = NaiveDateTime::parse_from_str(&start.join(" "), "%a %b %d %H:%M:%S %Y").ok()?;
    Some(Seen { started: start.and_utc().timestamp().try_into().ok()?, group, runs: !state.starts_with('Z') })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_group_and_start_are_read_from_ps() {
        let seen = parse("Ss   4711 Tue Dec  1 14:25:01 2026").unwrap();
        assert_eq!(seen, Seen { started: 1_796_135_101, group: 4711, runs: true });
        assert_eq!(parse("Z 4711 Tue Dec  1 14:25:01 2026").map(|seen| seen.runs), Some(false));
        assert_eq!(parse(""), None);
    }
}
