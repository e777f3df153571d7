//! A program under test: started in its own process group, read to its end, never left behind.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

/// How long a program may take. No test comes near it.
const LIMIT: Duration = Duration::from_secs(120);

/// A program that runs. Dropped, its process group is killed.
pub(crate) struct Running {
    group: Pid,
    pub(crate) status: Receiver<ExitStatus>,
    output: Option<(JoinHandle<String>, JoinHandle<String>)>,
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
        let stdout = read(child.stdout.take().expect("stdout is piped"));
        let stderr = read(child.stderr.take().expect("stderr is piped"));
        let (sender, status) = channel();
        std::thread::spawn(move || sender.send(child.wait().expect("a child that nobody else waits for")));
        Self { group, status, output: Some((stdout, stderr)) }
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).expect("a group that is there");
    }

    /// Waits for the end of the program and of its output.
    pub(crate) fn finish(mut self) -> Finished {
        let status = self.status.recv_timeout(LIMIT).expect("an end within the limit");
        let (stdout, stderr) = self.output.take().expect("taken once, as this consumes it");
        let text = |reader: JoinHandle<String>| reader.join().expect("a reader that does not panic");
        Finished { status, stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whether somebody of the group was still there does not matter.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe");
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
