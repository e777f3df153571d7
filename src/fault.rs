//! Boundaries at which a test may kill fia, to prove that no moment is a bad one to die at.
//!
//! Every append, rename and spawn passes a [`point`] before and after it. In a build with debug
//! assertions two variables speak to them: `FIA_FAULT_COUNT` names a file to which each boundary that
//! is passed adds a line with its name, and at `FIA_FAULT_AT` the process kills itself with SIGKILL: the number of the
//! boundary, from 1, its name for the first of that name, or name and number (`append: after 12`) for a later one.
//! `FIA_FAULT_REFUSE` names a call that fails the first time ([`refuse`]), as on a file system that went read-only for a
//! moment. A release build has none of this.

/// Passes a boundary.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn point(_name: &'static str) {}

/// Keeps a child from counting too: it would die of a number that was meant for its parent.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn shield(_child: &mut std::process::Command) {}

/// Fails when a test asks for it.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn refuse(_name: &'static str) -> std::io::Result<()> {
    Ok(())
}

#[cfg(debug_assertions)]
pub(crate) use armed::{point, refuse, shield};

#[cfg(debug_assertions)]
mod armed {
    use std::collections::BTreeMap;
    use std::env;
    use std::fs::{File, OpenOptions};
    use std::io::{self, Write as _};
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock};

    const AT: &str = "FIA_FAULT_AT";
    const COUNT: &str = "FIA_FAULT_COUNT";
    const REFUSE: &str = "FIA_FAULT_REFUSE";

    static REFUSED: AtomicBool = AtomicBool::new(false);

    struct Faults {
        at: Option<String>,
        count: Option<File>,
        passed: Mutex<BTreeMap<&'static str, u64>>,
    }

    static FAULTS: OnceLock<Faults> = OnceLock::new();

    fn faults() -> &'static Faults {
        FAULTS.get_or_init(|| Faults {
            at: env::var(AT).ok(),
            count: env::var_os(COUNT).and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok()),
            passed: Mutex::default(),
        })
    }

    /// Passes a boundary.
    pub(crate) fn point(name: &'static str) {
        let faults = faults();
        let (number, of_name) = {
            let mut passed = faults.passed.lock().expect("nobody dies holding it and lives on");
            *passed.entry(name).or_default() += 1;
            (passed.values().sum::<u64>(), passed[name])
        };
        if let Some(mut file) = faults.count.as_ref() {
            file.write_all(format!("{name}\n").as_bytes()).expect("the file of FIA_FAULT_COUNT takes a line");
        }
        let is_here = |at: &String| {
            let later = at.strip_prefix(name).and_then(|rest| rest.trim_start().parse().ok());
            at == name || later == Some(of_name) || at.parse() == Ok(number)
        };
        if faults.at.as_ref().is_some_and(is_here) {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("a process may kill itself");
        }
    }

    /// Fails the first call of this name when a test asks for it.
    pub(crate) fn refuse(name: &'static str) -> io::Result<()> {
        let asked = env::var_os(REFUSE).is_some_and(|wanted| wanted == name);
        if asked && !REFUSED.swap(true, Ordering::Relaxed) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }

    /// Keeps a child from counting too: it would die of a number that was meant for its parent.
    pub(crate) fn shield(child: &mut Command) {
        child.env_remove(AT).env_remove(COUNT).env_remove(REFUSE);
    }
}
