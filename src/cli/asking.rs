//! Questions on the terminal of a live run: an approval is asked for where the run was started.
//!
//! The terminal stays as it is, a line at a time, so nothing is left to put back. A line is read only once it is
//! there, so the run never waits for the reader, and an answer goes the way of `fia approve`: by the file and the
//! bell. Whoever answers first, here or elsewhere, has answered.

use std::io::{self, IsTerminal as _};
use std::rc::Rc;

use rustix::io::{Errno, ioctl_fionread, read};
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::approve::{Decision, write_answer};
use super::screen::{Loudness, Screen};
use crate::event::{Approval, Event, Record};
use crate::run::{Audience, Watch};
use crate::store::DataDir;

/// Bytes of a line that are read; terminals of Linux hold as many.
const LINE_BYTES: usize = 4096;

/// Who can be asked here.
pub(super) fn audience(loudness: Loudness) -> Audience {
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    if terminal && loudness == Loudness::Usual && in_foreground() { Audience::Terminal } else { Audience::Nobody }
}

/// Whether this process may read the terminal; one in the background would be stopped for it.
fn in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Asks whenever a run asks for an approval, within a local task set.
pub(super) struct Asker {
    pub(super) screen: Screen,
    pub(super) data: DataDir,
    pub(super) bell: Rc<watch::Sender<u64>>,
    pub(super) open: Option<JoinHandle<()>>,
}

impl Watch for Asker {
    #[expect(clippy::wildcard_enum_match_arm, reason = "picks out the facts that open and close a question")]
    fn record(&mut self, record: &Record) {
        match &record.event {
            Event::Approval(Approval::Asked) => {
                let phase = record.phase.as_ref().map(ToString::to_string).unwrap_or_default();
                let (screen, bell) = (self.screen.clone(), Rc::clone(&self.bell));
                let file = self.data.run(&record.run).approval();
                self.open = Some(tokio::task::spawn_local(async move {
                    let Some((decision, reason)) = ask(&screen, &phase).await else { return };
                    match write_answer(&file, decision, reason.as_deref()) {
                        Ok(()) => bell.send_modify(|count| *count += 1),
                        Err(error) => screen.ask(&format!("{error}; fia approve and fia reject answer as well\n")),
                    }
                }));
            }
            Event::Approval(Approval::Answered { .. }) | Event::PhaseEnd(_) | Event::RunEnd(_) => {
                if let Some(open) = self.open.take() {
                    open.abort();
                    self.screen.answered();
                }
            }
            _ => {}
        }
    }
}

/// Puts the question until there is an answer; `None` when nobody can give one here any more.
async fn ask(screen: &Screen, phase: &str) -> Option<(Decision, Option<String>)> {
    #[expect(deprecated, reason = "the other way is unsafe code, and standard input is one open file all along")]
    let terminal = AsyncFd::with_interest(io::stdin(), Interest::READABLE).ok()?;
    // What was typed before the question does not answer it.
    tcflush(terminal.get_ref(), QueueSelector::IFlush).ok()?;
    screen.ask(&format!("{phase}: approve, and let the run go on? y or n, and why if you like: "));
    loop {
        let line = next_line(&terminal).await.ok()?;
        screen.entered();
        if let Some(answer) = understood(&line) {
            return Some(answer);
        }
        screen.ask("y or n, and why if you like: ");
    }
}

/// The next line, once there is one.
async fn next_line(terminal: &AsyncFd<io::Stdin>) -> io::Result<String> {
    loop {
        let mut ready = terminal.readable().await?;
        // Nothing but a whole line counts as there, so the read below returns at once.
        if ioctl_fionread(terminal.get_ref())? == 0 {
            ready.clear_ready();
            continue;
        }
        if !in_foreground() {
            return Err(Errno::NOTTY.into());
        }
        let mut bytes = vec![0; LINE_BYTES];
        let count = read(terminal.get_ref(), &mut bytes)?;
        return Ok(String::from_utf8_lossy(&bytes[..count]).into_owned());
    }
}

/// `y` or `n`, and a reason after it; nothing else is an answer.
fn understood(line: &str) -> Option<(Decision, Option<String>)> {
    let (word, reason) = line.trim().split_once([' ', ',', ':']).unwrap_or((line.trim(), ""));
    let decision = match word.to_ascii_lowercase().as_str() {
        "y" | "yes" => Decision::Approve,
        "n" | "no" => Decision::Reject,
        _ => return None,
    };
    let reason = reason.trim();
    Some((decision, (!reason.is_empty()).then(|| reason.to_owned())))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_yes_and_a_no_are_understood_with_their_reason_and_nothing_else_is() {
        let reason = |text: &str| Some(text.to_owned());
        assert_eq!(understood("y\n"), Some((Decision::Approve, None)));
        assert_eq!(understood(" Yes, good work \n"), Some((Decision::Approve, reason("good work"))));
        assert_eq!(understood("N: not yet\n"), Some((Decision::Reject, reason("not yet"))));
        assert_eq!(understood("no\n"), Some((Decision::Reject, None)));
        for unclear in ["", "\n", "yeah\n", "perhaps\n", "1\n", "not now\n"] {
            assert_eq!(understood(unclear), None, "{unclear:?}");
        }
    }
}
