//! A running child: spawned into its own group, fed, and read line by line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::stderr::Errors;
use super::{CommandSpec, Limits, OWNER, SpawnError, find_program};
use crate::host::{self, ProcessIdentity};
use crate::lines::{Lines, RawLine};

/// Writes that may wait for the child to read: a prompt, and an answer to each of its requests.
const STDIN_QUEUE: usize = 1024;

/// How long a program file may be open for writing before that is an error.
const BUSY_PATIENCE: Duration = Duration::from_millis(500);

/// The most that a pipe holds (`/proc/sys/fs/pipe-max-size`, pipe(7)).
pub(super) const PIPE_BYTES: usize = 1024 * 1024;

/// Where the output of a child is kept, byte for byte; `None` keeps it nowhere.
#[derive(Debug, Default)]
pub struct Keep {
    /// For standard output: the transcript, opened for appending.
    pub stdout: Option<File>,
    /// For standard error.
    pub stderr: Option<File>,
}

/// A child process and everything it starts. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Child {
    /// Not reaped before the end: see the module's docs.
    pub(super) leader: std::process::Child,
    pub(super) group: Pid,
    pub(super) identity: ProcessIdentity,
    /// The value of [`OWNER`] that all it starts inherits, if it was given one.
    owner: Option<OsString>,
    pub(super) limits: Limits,
    /// Dropping it closes the child's standard input once all that was queued is written.
    pub(super) stdin: Option<mpsc::Sender<Vec<u8>>>,
    pub(super) feeder: JoinHandle<()>,
    /// `None` after its end.
    stdout: Option<ChildStdout>,
    lines: Lines,
    pub(super) transcript: Transcript,
    pub(super) stderr: Option<Errors>,
    /// Wakes for the exit of any child of this process.
    exits: tokio::signal::unix::Signal,
    pub(super) exited: Option<Instant>,
    /// Output was still open when the time to drain it was over.
    pub(super) held_open: bool,
    /// The leader's id may be another's by now.
    pub(super) reaped: bool,
}

/// The file that standard output goes to, until a write fails.
#[derive(Debug)]
pub(super) struct Transcript {
    file: Option<File>,
    pub(super) unsaved: Option<io::Error>,
}

impl Transcript {
    fn add(&mut self, bytes: &[u8]) {
        if let (Some(file), None) = (&mut self.file, &self.unsaved) {
            self.unsaved = file.write_all(bytes).err();
        }
    }
}

/// What [`Child::fill`] came back with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// More bytes are in the buffer.
    More,
    /// The leader exited.
    Exited,
    /// Output is at its end, or given up.
    Closed,
}

impl Child {
    /// Starts a command in a process group of its own, with all three standard streams piped.
    ///
    /// Nothing is written to its standard input yet, so that its start can be recorded before it is told
    /// anything: a child of a fia that dies here reads end-of-file.
    ///
    /// # Errors
    ///
    /// When the directory or the program is missing or cannot be executed, or the system refuses.
    pub fn spawn(spec: &CommandSpec, keep: Keep, limits: Limits) -> Result<Self, SpawnError> {
        let program = find_program(spec)?;
        let failed = |action| {
            let path = program.clone();
            move |source| SpawnError::Io { action, path, source }
        };
        // Listens before the start, so that no exit is missed.
        let exits = tokio::signal::unix::signal(SignalKind::child()).map_err(failed("watch for the exit of"))?;
        crate::fault::point("spawn: before");
        let mut leader = start(command(spec, &program)).map_err(|e| SpawnError::from_spawn(program.clone(), e))?;
        crate::fault::point("spawn: after");
        let (pipes, group, identity) = match take_charge(&mut leader) {
            Ok(charge) => charge,
            Err(source) => {
                drop(leader.kill().and_then(|()| leader.wait()));
                return Err(failed("take charge of")(source));
            }
        };
        let (stdin, queue) = mpsc::channel(STDIN_QUEUE);
        Ok(Self {
            leader,
            group,
            identity,
            owner: spec.env.get(OsStr::new(OWNER)).cloned().flatten(),
            limits,
            stdin: Some(stdin),
            feeder: tokio::spawn(feed(pipes.stdin, queue)),
            stdout: Some(pipes.stdout),
            lines: Lines::new(limits.max_line_bytes),
            transcript: Transcript { file: keep.stdout, unsaved: None },
            stderr: Some(Errors::read(pipes.stderr, keep.stderr)),
            exits,
            exited: None,
            held_open: false,
            reaped: false,
        })
    }

    /// Its id and start time; its id is also that of its group.
    pub fn identity(&self) -> ProcessIdentity {
        self.identity
    }

    /// Keeps what comes from now on somewhere else: a process that outlives its turn begins another's files.
    pub fn keep(&mut self, keep: Keep) {
        self.transcript = Transcript { file: keep.stdout, unsaved: None };
        if let Some(errors) = &self.stderr {
            errors.keep(keep.stderr);
        }
    }

    /// Whether it has exited, as far as the system knows at this moment. It is not reaped.
    pub fn has_exited(&self) -> bool {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::Pid(self.group), peek), Ok(None))
    }

    /// Queues bytes for standard input and returns at once. A child that no longer reads is no error:
    /// what became of the turn is told by its output. One that lets 1024 writes wait is not reading
    /// either, and its input is closed.
    pub fn send(&mut self, bytes: Vec<u8>) {
        if self.stdin.as_ref().is_some_and(|queue| queue.try_send(bytes).is_err()) {
            self.stdin = None;
        }
    }

    /// Closes standard input once all that was queued is written.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line of output; `None` when no more will come. Safe to cancel: no byte is lost.
    ///
    /// When the leader has exited and something else holds its output open longer than [`Limits::drain`],
    /// the group is killed and the output is over.
    pub async fn line(&mut self) -> Option<RawLine<'_>> {
        let taken = loop {
            if let Some(taken) = self.lines.take() {
                break taken;
            }
            if self.stdout.is_none() {
                break self.lines.take_end()?;
            }
            self.fill().await;
        };
        Some(self.lines.get(&taken))
    }

    /// Whether the next line has come whole, so that [`Child::line`] will not wait.
    pub fn has_line(&self) -> bool {
        self.lines.has_line()
    }

    /// Waits until there is something new: bytes, the exit, or the end of output. Safe to cancel. Not to
    /// be called when both the end and the exit were seen.
    pub(super) async fn fill(&mut self) -> Fill {
        let give_up = self.exited.map(|at| at + self.limits.drain);
        let (stdout, space) = (&mut self.stdout, self.lines.space());
        let read = tokio::select! {
            biased;
            () = sleep_until(give_up.unwrap_or_else(Instant::now)), if give_up.is_some() => None,
            () = exit_of(self.group, &mut self.exits), if self.exited.is_none() => {
                self.exited = Some(Instant::now());
                return Fill::Exited;
            }
            read = read(stdout, space), if stdout.is_some() => Some(read.unwrap_or(0)),
        };
        match read {
            Some(bytes @ 1..) => {
                self.transcript.add(self.lines.filled(bytes));
                Fill::More
            }
            Some(0) => self.close(),
            None if self.take_ready().await => self.close(),
            None => {
                self.held_open = true;
                self.signal(Signal::KILL);
                self.close()
            }
        }
    }

    /// Takes what lies in the pipe already, and no more than one holds. Whether that was the end of the output. Safe
    /// to cancel.
    async fn take_ready(&mut self) -> bool {
        let mut left = PIPE_BYTES;
        while left > 0 {
            match timeout(Duration::ZERO, read(&mut self.stdout, self.lines.space())).await {
                Ok(Ok(bytes @ 1..)) => {
                    self.transcript.add(self.lines.filled(bytes));
                    left = left.saturating_sub(bytes);
                }
                Ok(Ok(0) | Err(_)) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    fn close(&mut self) -> Fill {
        self.stdout = None;
        Fill::Closed
    }

    /// Hands over all lines that have come.
    pub(super) fn hand_over(&mut self, rest: &mut dyn FnMut(RawLine<'_>)) {
        while let Some(line) = self.lines.take_line() {
            rest(line);
        }
    }

    /// What kills all that it started outside of its group, and waits for their end on the thread that calls it. Only
    /// for a child that is not left to end by itself.
    pub(super) fn stray_killer(&self) -> Option<impl FnOnce(Duration) + Send + 'static> {
        let owner = self.owner.clone()?;
        Some(move |patience| host::kill_owned(OWNER, |value| value == owner.as_bytes(), patience))
    }

    /// Signals the whole group. A group that is gone already is what was wanted.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.group, signal);
    }
}

async fn read(stdout: &mut Option<ChildStdout>, space: &mut [u8]) -> io::Result<usize> {
    match stdout {
        Some(stdout) => stdout.read(space).await,
        None => Ok(0),
    }
}

/// Waits until the leader has exited, and leaves it unreaped.
async fn exit_of(leader: Pid, exits: &mut tokio::signal::unix::Signal) {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        exits.recv().await;
        if !matches!(rustix::process::waitid(WaitId::Pid(leader), peek), Ok(None)) {
            return;
        }
    }
}

/// Writes what is queued, in order, until the queue is closed or the child stops reading.
async fn feed(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn take_charge(leader: &mut std::process::Child) -> io::Result<(Pipes, Pid, ProcessIdentity)> {
    let group = host::pid(leader.id()).ok_or_else(|| io::Error::other("its process id is out of range"))?;
    Ok((Pipes::of(leader)?, group, host::identity(leader.id())?))
}

/// A program file that somebody has open for writing cannot be run (`ETXTBSY`, execve(2)). One that is being installed
/// anew, as CLIs do that update themselves, is whole a moment later.
fn start(mut command: Command) -> io::Result<std::process::Child> {
    let give_up = std::time::Instant::now() + BUSY_PATIENCE;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && std::time::Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => return started,
        }
    }
}

fn command(spec: &CommandSpec, program: &PathBuf) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(program);
    command.args(&spec.args).current_dir(&spec.cwd).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in &spec.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    crate::fault::shield(&mut command);
    command
}

struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

impl Pipes {
    fn of(leader: &mut std::process::Child) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe is missing");
        Ok(Self {
            stdin: ChildStdin::from_std(leader.stdin.take().ok_or_else(missing)?)?,
            stdout: ChildStdout::from_std(leader.stdout.take().ok_or_else(missing)?)?,
            stderr: ChildStderr::from_std(leader.stderr.take().ok_or_else(missing)?)?,
        })
    }
}
