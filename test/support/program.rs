//! A program under test: started in its own process group, read to its end, never left behind.

use std::cell::Cell;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

/// How long a program may take. No test comes near it.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a test waits before it looks again.
const LOOK: Duration = Duration::from_millis(5);

/// A program that runs. Dropped, its process group is killed.
pub(crate) struct Running {
    group: Pid,
    status: Receiver<ExitStatus>,
    ended: Cell<Option<ExitStatus>>,
    stdout: Output,
    stderr: Output,
}

impl Running {
    /// Starts a command, writes a text to it and closes its stdin.
    pub(crate) fn start(command: &mut Command, stdin: &str) -> Self {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.process_group(0).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let group = Pid::from_child(&child);
        let mut pipe = child.stdin.take().expect("stdin is piped");
        let text = stdin.to_owned();
        // A program that ends without reading its input is no fault of the test's.
        std::thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
        let stdout = Output::of(child.stdout.take().expect("stdout is piped"));
        let stderr = Output::of(child.stderr.take().expect("stderr is piped"));
        let (sender, status) = channel();
        std::thread::spawn(move || sender.send(child.wait().expect("a child that nobody else waits for")));
        Self { group, status, ended: Cell::new(None), stdout, stderr }
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).expect("a group that is there");
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        self.stdout.text()
    }

    /// Looks until what a test waits for is there; the program must not end before.
    pub(crate) fn until(&self, wanted: &str, mut look: impl FnMut() -> bool) {
        let patience = Instant::now() + LIMIT;
        while !look() {
            let over = self.status.recv_timeout(LOOK).ok();
            self.ended.set(self.ended.get().or(over));
            let ended = self.ended.get().is_some();
            // What it did last counts too.
            if ended && look() {
                return;
            }
            let how = if ended { "the program ended" } else { "too long" };
            let all = || format!("{}-- stderr\n{}", self.stdout.text(), self.stderr.text());
            assert!(!ended && Instant::now() < patience, "{how} without {wanted}\n-- stdout\n{}", all());
        }
    }

    /// Waits for the end of the program and of its output.
    pub(crate) fn finish(self) -> Finished {
        let wait = || self.status.recv_timeout(LIMIT).expect("an end within the limit");
        let status = self.ended.get().unwrap_or_else(wait);
        Finished { status, stdout: self.stdout.whole(), stderr: self.stderr.whole() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whether somebody of the group was still there does not matter.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

/// What a program prints, read as it comes.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Closed at its end.
    open: Receiver<()>,
}

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let (kept, (closes, open)) = (Arc::clone(&bytes), channel());
        std::thread::spawn(move || {
            let mut some = vec![0; 64 * 1024];
            loop {
                match pipe.read(&mut some) {
                    Ok(0) => break,
                    Ok(count) => kept.lock().expect("no reader panics with it").extend_from_slice(&some[..count]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => panic!("a pipe: {error}"),
                }
            }
            drop(closes);
        });
        Self { bytes, open }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("no reader panics with it")).into_owned()
    }

    fn whole(&self) -> String {
        let over = self.open.recv_timeout(LIMIT);
        assert_eq!(over, Err(RecvTimeoutError::Disconnected), "its output is held open: {}", self.text());
        self.text()
    }
}

/// Waits for a child whose output somebody else reads, or nobody.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let patience = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status;
        }
        if Instant::now() > patience {
            drop(child.kill());
            panic!("no end within the limit");
        }
        std::thread::sleep(LOOK);
    }
}

/// Runs a command to its end, with an empty stdin.
pub(crate) fn run(command: &mut Command) -> Finished {
    Running::start(command, "").finish()
}

/// How a program ended, and all that it printed.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The lines of stdout as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self}"));
        self.stdout.lines().map(parse).collect()
    }

    /// `exit N` or `signal N`.
    pub(crate) fn end(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no end".to_owned(),
        }
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n-- stdout\n{}-- stderr\n{}", self.end(), self.stdout, self.stderr)
    }
}
