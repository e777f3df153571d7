//! A git that another thread can end, with the hooks that it runs.

use std::io::{self, Read, Write as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Holds the process group of one git. Clones hold the same one.
#[derive(Debug, Clone, Default)]
pub struct Reins {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    /// The group, from its start until its leader is reaped.
    group: Option<Pid>,
    /// Somebody asked for its end.
    stopped: bool,
    /// Somebody drives it, or puts things in order after it.
    busy: bool,
}

impl Reins {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the group, if it runs; after that none is started.
    pub fn pull(&self, signal: Signal) {
        let mut state = self.state();
        state.stopped = true;
        if let Some(group) = state.group {
            // Gone already is as good.
            let _gone = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Says that something is under way which [`Reins::wait`] is to wait for.
    pub fn take_up(&self) {
        self.state().busy = true;
    }

    /// Says that nothing more follows.
    pub fn let_go(&self) {
        self.state().busy = false;
        self.shared.1.notify_all();
    }

    /// Waits until nothing is under way, but not for longer than this.
    pub fn wait(&self, patience: Duration) {
        let _whatever_came = self
            .shared
            .1
            .wait_timeout_while(self.state(), patience, |state| state.busy)
            .map_err(PoisonError::into_inner);
    }

    /// Runs a command, which leads a group of its own; `None` when it was ended, or not started since its end was asked for.
    pub(crate) fn run(&self, command: &mut Command, input: &[u8]) -> io::Result<Option<Output>> {
        let mut child = {
            let mut state = self.state();
            if state.stopped {
                return Ok(None);
            }
            let child = command.stdin(Stdio::piped()).spawn()?;
            state.group = Some(Pid::from_child(&child));
            child
        };
        let mut stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = std::thread::scope(|scope| {
            // A git that fails stops reading; its status tells, not the broken pipe.
            scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(input)));
            let stderr = scope.spawn(|| all(stderr));
            (all(stdout), stderr.join().expect("reading returns its failures"))
        });
        let status = self.reap(&mut child)?;
        let output = Output { status, stdout: stdout?, stderr: stderr? };
        Ok(if self.state().stopped && !status.success() { None } else { Some(output) })
    }

    /// Waits for the leader's end. While it is not reaped, its number is the group's and nobody else's.
    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let leader = Pid::from_child(child);
        while let Err(error) =
            rustix::process::waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let mut state = self.state();
        if state.stopped {
            // What is left of the group writes nothing more behind our back.
            let _gone = rustix::process::kill_process_group(leader, Signal::KILL);
        }
        state.group = None;
        child.wait()
    }
}

fn all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes))?;
    Ok(bytes)
}
