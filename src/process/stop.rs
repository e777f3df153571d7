//! How a child ends: by itself, asked, or killed; and that nothing of it is left.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::child::Fill;
use super::{Child, Exit};
use crate::lines::RawLine;

/// How long a killed process may take to be gone. Only one that hangs in the kernel takes longer.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How long killed members of the group and strays are waited for, that they write nothing behind our back. On a busy
/// machine a killed process took over 200 ms to be scheduled and end.
const SETTLE: Duration = Duration::from_secs(2);

/// How a child is brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It has said all: it gets a moment to exit by itself, then as with `Stop`.
    Closing,
    /// SIGTERM now, SIGKILL after the grace.
    Stop,
    /// SIGKILL now.
    KillNow,
}

/// A child that is gone, and all that it started with it.
#[derive(Debug)]
pub struct Ended {
    /// How the leader ended.
    pub exit: Exit,
    /// The last 64 KiB of its standard error.
    pub stderr_tail: Vec<u8>,
    /// Whether something still held its output open when the time to drain it was over.
    pub held_open: bool,
    /// Why not all of its output is in the files that keep it.
    pub unsaved: Option<io::Error>,
}

impl Child {
    /// Ends the child: closes its input, waits, asks, kills, reads what is left, and kills what remains
    /// of the group whatever the exit. Lines that still come go to `rest`.
    ///
    /// Takes at most the graces of [`super::Limits`] together and a few seconds more.
    pub async fn finish(mut self, how: Finish, rest: &mut dyn FnMut(RawLine<'_>)) -> Ended {
        self.stdin = None;
        self.end_leader(how, rest).await;
        while let Some(line) = self.line().await {
            rest(line);
        }
        let stderr = self.end_errors().await;
        self.signal(Signal::KILL);
        if how != Finish::Closing
            && let Some(kill) = self.stray_killer()
        {
            // Whether they ended in time makes no difference here.
            let _ended = tokio::task::spawn_blocking(move || kill(SETTLE)).await;
        }
        let exit = self.reap().await;
        Ended {
            exit,
            stderr_tail: stderr.tail,
            held_open: self.held_open,
            unsaved: self.transcript.unsaved.take().or(stderr.unsaved),
        }
    }

    async fn end_leader(&mut self, how: Finish, rest: &mut dyn FnMut(RawLine<'_>)) {
        if how == Finish::Closing && timeout(self.limits.exit_grace, self.until_exit(rest)).await.is_ok() {
            return;
        }
        if how != Finish::KillNow {
            self.signal(Signal::TERM);
            // A stopped process hears of SIGTERM only when it goes on.
            self.signal(Signal::CONT);
            if timeout(self.limits.term_grace, self.until_exit(rest)).await.is_ok() {
                return;
            }
        }
        self.signal(Signal::KILL);
        if timeout(KILL_PATIENCE, self.until_exit(rest)).await.is_err() {
            self.exited = Some(Instant::now());
        }
    }

    async fn until_exit(&mut self, rest: &mut dyn FnMut(RawLine<'_>)) {
        while self.exited.is_none() {
            if self.fill().await == Fill::More {
                self.hand_over(rest);
            }
        }
    }

    async fn end_errors(&mut self) -> super::stderr::Kept {
        let Some(mut errors) = self.stderr.take() else { return super::stderr::Kept::default() };
        let give_up = self.exited.unwrap_or_else(Instant::now) + self.limits.drain;
        let _in_time = timeout_at(give_up, errors.ended()).await;
        let kept = errors.take().await;
        self.held_open |= !kept.whole;
        kept
    }

    async fn reap(&mut self) -> Exit {
        let Ok(Some(status)) = self.leader.try_wait() else {
            // It hangs in the kernel and ends when that lets go of it: nothing more can be done.
            return Exit::Signal(Signal::KILL.as_raw());
        };
        self.reaped = true;
        let patience = Instant::now() + SETTLE;
        while crate::host::group_runs(self.group) && Instant::now() < patience {
            sleep(Duration::from_millis(1)).await;
        }
        exit_from(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.feeder.abort();
        if !self.reaped {
            self.signal(Signal::KILL);
            if let Some(kill) = self.stray_killer() {
                kill(SETTLE);
            }
            // A killed process is gone in no time, unless it hangs in the kernel: then it is left to init.
            let patience = std::time::Instant::now() + SETTLE;
            while matches!(self.leader.try_wait(), Ok(None)) && std::time::Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn exit_from(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(status.into_raw()),
    }
}
