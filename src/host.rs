//! Who a process is beyond its number, so that no stranger is ever signalled.
//!
//! A process id alone is worth nothing: it is given out again after a death, means another process on
//! another machine, and another one after a boot. A [`Mark`] adds host, boot and start time, and only
//! where all of them fit is a process taken for the one that was written down.

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(any(not(target_os = "linux"), test))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled on Linux for the test of what it reads"))]
mod ps;
#[cfg(not(target_os = "linux"))]
use ps as system;

pub mod zone;

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// A process of this boot of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its id.
    pub pid: u32,
    /// When it started: on Linux in clock ticks since boot, elsewhere in seconds since 1970.
    pub started: u64,
}

/// A process as it is written down for others to find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The machine's name.
    pub host: String,
    /// The boot, another one after each start of the machine.
    pub boot_id: String,
    /// Its id.
    pub pid: u32,
    /// When it started, in the unit of [`ProcessIdentity::started`].
    pub process_started: u64,
}

/// What became of a marked process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It runs.
    Running,
    /// It ended.
    Gone,
    /// It belongs to another machine, which alone can know.
    Elsewhere,
}

impl Mark {
    /// Marks a process of this machine.
    ///
    /// # Errors
    ///
    /// When the system does not say which boot this is.
    pub fn new(identity: ProcessIdentity) -> io::Result<Self> {
        Ok(Self { host: host_name(), boot_id: boot_id()?, pid: identity.pid, process_started: identity.started })
    }

    /// Marks this very process.
    ///
    /// # Errors
    ///
    /// When the system does not say which boot this is or when the process started.
    pub fn own() -> io::Result<Self> {
        Self::new(identity(std::process::id())?)
    }

    /// What became of it. A process that ended and was not reaped yet is gone.
    ///
    /// # Errors
    ///
    /// When the system does not say which boot this is.
    pub fn presence(&self) -> io::Result<Presence> {
        if boot_id()? != self.boot_id {
            return Ok(if host_name() == self.host { Presence::Gone } else { Presence::Elsewhere });
        }
        // One boot and two names: two containers of one machine, which do not share process ids.
        if host_name() != self.host {
            return Ok(Presence::Elsewhere);
        }
        let runs = system::look(self.pid).is_some_and(|seen| seen.runs && seen.started == self.process_started);
        Ok(if runs { Presence::Running } else { Presence::Gone })
    }

    /// What became of the process group that it leads: running while any member does.
    ///
    /// The id of a leader that ended is not given out again while its group has members, so what is
    /// found under it is the group that was marked.
    ///
    /// # Errors
    ///
    /// When the system does not say which boot this is.
    pub fn group_presence(&self) -> io::Result<Presence> {
        let leader = self.presence()?;
        if leader != Presence::Gone || boot_id()? != self.boot_id {
            return Ok(leader);
        }
        let reused = system::look(self.pid).is_some_and(|seen| seen.started != self.process_started);
        let runs = !reused && pid(self.pid).is_some_and(group_runs);
        Ok(if runs { Presence::Running } else { Presence::Gone })
    }

    /// Kills the process group that it leads, if it runs here; says what it found.
    ///
    /// # Errors
    ///
    /// When the system refuses the signal.
    pub fn kill_group(&self) -> io::Result<Presence> {
        let found = self.group_presence()?;
        if let (Presence::Running, Some(group)) = (found, pid(self.pid)) {
            unless_gone(rustix::process::kill_process_group(group, Signal::KILL))?;
        }
        Ok(found)
    }

    /// Sends a signal to the process alone, if it runs here; says what it found.
    ///
    /// # Errors
    ///
    /// When the system refuses the signal.
    pub fn signal(&self, signal: Signal) -> io::Result<Presence> {
        let found = self.presence()?;
        if let (Presence::Running, Some(process)) = (found, pid(self.pid)) {
            unless_gone(rustix::process::kill_process(process, signal))?;
        }
        Ok(found)
    }
}

/// The process id as the system calls take it; `None` for 0, which would mean the caller's own group.
pub(crate) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().filter(|number| *number > 1).and_then(Pid::from_raw)
}

/// Whether any process of the group still runs; zombies do not.
pub(crate) fn group_runs(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok()
        && system::group_runs(group.as_raw_nonzero().get().unsigned_abs())
}

/// Kills every process of this user but this one that was started with a `wanted` value of this variable, and waits up
/// to `patience` until none runs. Only where the system shows the environment of processes: on Linux.
pub(crate) fn kill_owned(variable: &str, wanted: impl Fn(&[u8]) -> bool, patience: Duration) {
    let give_up = Instant::now() + patience;
    while system::kill_owned(variable, &wanted) > 0 && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn unless_gone(sent: rustix::io::Result<()>) -> io::Result<()> {
    match sent {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// The machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The id of this boot of this machine.
///
/// # Errors
///
/// When the system does not say.
pub fn boot_id() -> io::Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let boot_id = system::boot_id()?;
    Ok(KNOWN.get_or_init(|| boot_id).clone())
}

/// Looks up when a process started.
///
/// # Errors
///
/// When there is no such process, or the system does not say.
pub fn identity(pid: u32) -> io::Result<ProcessIdentity> {
    let seen = system::look(pid).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no process {pid}")))?;
    Ok(ProcessIdentity { pid, started: seen.started })
}

/// A process as the system shows it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    started: u64,
    group: u32,
    /// False for a zombie.
    runs: bool,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, io};

    use rustix::process::{PidfdFlags, Signal};

    use super::Seen;

    /// `PF_KTHREAD` of the kernel's include/linux/sched.h.
    const KERNEL_THREAD: u32 = 0x0020_0000;

    pub(super) fn boot_id() -> io::Result<String> {
        Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
    }

    pub(super) fn look(pid: u32) -> Option<Seen> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse(&String::from_utf8_lossy(&stat))
    }

    /// Reads a line of `/proc/PID/stat` (proc(5)). The name in parentheses may itself hold some.
    fn parse(stat: &str) -> Option<Seen> {
        let fields = behind_name(stat)?;
        let (state, group, started) = (fields.first()?, fields.get(2)?, fields.get(19)?);
        Some(Seen {
            started: started.parse().ok()?,
            group: group.parse().ok()?,
            runs: !matches!(*state, "Z" | "X" | "x"),
        })
    }

    fn behind_name(stat: &str) -> Option<Vec<&str>> {
        Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().collect())
    }

    fn is_kernel_thread(stat: &str) -> Option<bool> {
        Some(behind_name(stat)?.get(6)?.parse::<u32>().ok()? & KERNEL_THREAD != 0)
    }

    fn processes() -> impl Iterator<Item = u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
    }

    /// Whether any process of the group runs.
    pub(super) fn group_runs(group: u32) -> bool {
        processes().filter_map(look).any(|seen| seen.group == group && seen.runs)
    }

    /// Kills those with a `wanted` value of a variable, and says how many there were. Those between two programs, or
    /// between their end and being a zombie, count too: what they carry cannot be seen for that moment.
    pub(super) fn kill_owned(variable: &str, wanted: &dyn Fn(&[u8]) -> bool) -> usize {
        let own = std::process::id();
        processes().filter(|pid| *pid != own && kill_if_owned(*pid, variable, wanted).is_some()).count()
    }

    /// The process is held before it is looked at, so that what is killed is what was looked at.
    fn kill_if_owned(pid: u32, variable: &str, wanted: &dyn Fn(&[u8]) -> bool) -> Option<()> {
        let held = rustix::process::pidfd_open(super::pid(pid)?, PidfdFlags::empty()).ok()?;
        // Not readable where it is another user's.
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        if environment.is_empty() {
            return is_changing(pid).then_some(());
        }
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables.find_map(|text| text.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))?;
        if !wanted(value) {
            return None;
        }
        rustix::process::pidfd_send_signal(held, Signal::KILL).ok()
    }

    /// Whether a process whose environment reads empty is between two programs, or on its way out. The kernel shows
    /// neither environment nor arguments then, as it never does for its own threads (Linux 6.12, fs/proc/base.c).
    fn is_changing(pid: u32) -> bool {
        let arguments = fs::read(format!("/proc/{pid}/cmdline"));
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return false };
        let stat = String::from_utf8_lossy(&stat);
        arguments.is_ok_and(|arguments| arguments.is_empty())
            && parse(&stat).is_some_and(|seen| seen.runs)
            && is_kernel_thread(&stat) == Some(false)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_thread_of_the_kernel_is_told_from_a_process_about_to_run_another_program() {
            let own = fs::read_to_string("/proc/self/stat").unwrap();
            assert_eq!(is_kernel_thread(&own), Some(false));
            let worker = "17 (kworker/0:1-events) I 2 0 0 0 -1 69238880 0 0 0 0 0 7 0 0 20 0 1 0 22";
            assert_eq!(is_kernel_thread(worker), Some(true));
        }

        #[test]
        fn a_name_with_parentheses_does_not_shift_the_fields() {
            let stat = "4711 (a) b) Z 1 4700 4600 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 987654 0 0";
            assert_eq!(parse(stat), Some(Seen { started: 987_654, group: 4700, runs: false }));
            assert_eq!(parse("4711 (sh"), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    fn sleeper() -> std::process::Child {
        Command::new("sleep").arg("600").process_group(0).stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn r5_5_a_process_is_the_marked_one_only_when_all_fits() {
        let own = Mark::own().unwrap();
        assert_eq!(own.presence().unwrap(), Presence::Running);
        let later = Mark { process_started: own.process_started + 1, ..own.clone() };
        assert_eq!(later.presence().unwrap(), Presence::Gone);
        let other_boot = Mark { boot_id: "b".to_owned(), ..own.clone() };
        assert_eq!(other_boot.presence().unwrap(), Presence::Gone);
        let other_host = Mark { host: "h".to_owned(), ..own.clone() };
        assert_eq!(other_host.presence().unwrap(), Presence::Elsewhere);
        let other_machine = Mark { boot_id: "b".to_owned(), ..other_host };
        assert_eq!(other_machine.presence().unwrap(), Presence::Elsewhere);
    }

    #[test]
    fn r5_5_a_group_is_killed_only_by_its_own_mark() {
        let mut child = sleeper();
        let mark = Mark::new(identity(child.id()).unwrap()).unwrap();
        let stranger = Mark { process_started: mark.process_started + 1, ..mark.clone() };
        assert_eq!(stranger.kill_group().unwrap(), Presence::Gone);
        let elsewhere = Mark { host: "h".to_owned(), ..mark.clone() };
        assert_eq!(elsewhere.kill_group().unwrap(), Presence::Elsewhere);
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(mark.kill_group().unwrap(), Presence::Running);
        child.wait().unwrap();
        assert_eq!(mark.kill_group().unwrap(), Presence::Gone);
    }

    #[test]
    fn a_group_outlives_its_leader() {
        let mut leader = Command::new("sh")
            .args(["-c", "sleep 600 & read line"])
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mark = Mark::new(identity(leader.id()).unwrap()).unwrap();
        drop(leader.stdin.take());
        leader.wait().unwrap();
        assert_eq!(mark.presence().unwrap(), Presence::Gone);
        assert_eq!(mark.group_presence().unwrap(), Presence::Running);
        assert_eq!(mark.kill_group().unwrap(), Presence::Running);
    }
}
