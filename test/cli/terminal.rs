//! What fia writes to a real terminal.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::program::wait;
use crate::support::project::Project;

/// All that a run writes to a terminal of this kind.
fn on_terminal(kind: &str) -> String {
    let project = Project::new();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let end = || Stdio::from(theirs.try_clone().unwrap());
    let mut command = project.command(&["run", "build", "do", "it"]);
    let mut child = command.env("TERM", kind).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((command, theirs));
    let mut written = Vec::new();
    // The last end that closes is an error here, not an end.
    let _closed = File::from(ours).read_to_end(&mut written);
    assert!(wait(&mut child).success());
    String::from_utf8(written).unwrap()
}

#[test]
fn r2_4_a_terminal_that_only_prints_lines_gets_plain_ones() {
    let plain = on_terminal("dumb");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(plain.contains(" phase 01_build started: ") && plain.contains(" run ended: goal met in "), "{plain:?}");
    assert!(on_terminal("xterm").contains('\u{1b}'));
}
