//! An approval that is asked for on the terminal where the run was started (SPEC 4).
//!
//! The terminal is one of `script`, as util-linux has it.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fia::event::{Approval, Event, Outcome};
use pretty_assertions::assert_eq;

use crate::support::program::wait;
use crate::support::project::Project;

const LIMIT: Duration = Duration::from_secs(60);

const QUESTION: &str = "02_look: approve, and let the run go on?";

/// What every question ends with.
const CHOICE: &str = "y or n, and why if you like: ";

/// `fia` on a terminal of its own.
pub(super) struct Terminal {
    child: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// Runs a line of shell there; `None`, and a word about it, where there is no program `script`.
    pub(super) fn start(project: &Project, line: &str) -> Option<Self> {
        let mut command = project.env().command("script");
        let line = line.replace("fia ", &format!("{} ", env!("CARGO_BIN_EXE_fia")));
        command.args(["-q", "-e", "-c", &line, "/dev/null"]).env("TERM", "xterm");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            eprintln!("not checked: there is no program `script` here");
            return None;
        };
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, keys, output, seen: String::new() })
    }

    /// Waits until a text stands behind all that was waited for before.
    fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |seen| seen.contains(text));
        self.seen = self.seen.split_once(text).unwrap().1.to_owned();
    }

    /// Waits until what was not waited for yet is as wanted.
    pub(super) fn wait_until(&mut self, wanted: &str, is_there: impl Fn(&str) -> bool) {
        while !is_there(&self.seen) {
            let more = self.output.recv_timeout(LIMIT);
            let more = more.unwrap_or_else(|error| panic!("no {wanted:?}: {error}: {}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// The exit status, and all that was shown after what was waited for.
    pub(super) fn end(mut self) -> (i32, String) {
        loop {
            match self.output.recv_timeout(LIMIT) {
                Ok(more) => self.seen.push_str(&String::from_utf8_lossy(&more)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {}", self.seen),
            }
        }
        let status = wait(&mut self.child).code().unwrap();
        (status, std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // One that has ended is what is wanted. Who is on it is hung up.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn asking(wait: &str) -> Project {
    Project::new()
        .with(&format!(
            "workflows:\n  ask:\n    steps:\n      - {{ name: build, agent: builder }}\n      - {{ name: look, approve: {{}}{wait} }}\n"
        ))
        .committed()
}

fn answers(project: &Project) -> Vec<(bool, Option<String>)> {
    project.log().all(|event| match event {
        Event::Approval(Approval::Answered { approved, reason }) => Some((*approved, reason.clone())),
        _ => None,
    })
}

#[test]
fn a_yes_on_the_terminal_lets_the_run_go_on_and_what_is_unclear_is_asked_again() {
    let project = asking("");
    let Some(mut terminal) = Terminal::start(&project, "fia run ask x") else { return };
    terminal.wait_for(QUESTION);
    terminal.wait_for(CHOICE);
    terminal.type_in("perhaps\n");
    terminal.wait_for(CHOICE);
    terminal.type_in("y fine work\n");
    let (status, shown) = terminal.end();
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("goal met"), "{shown}");
    assert_eq!(answers(&project), [(true, Some("fine work".to_owned()))]);
}

#[test]
fn a_no_on_the_terminal_ends_the_run_with_its_reason() {
    let project = asking(", wait: 24h");
    let Some(mut terminal) = Terminal::start(&project, "fia run ask x") else { return };
    terminal.wait_for(QUESTION);
    terminal.type_in("n not yet\n");
    let (status, shown) = terminal.end();
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("rejected: not yet"), "{shown}");
    assert_eq!(answers(&project), [(false, Some("not yet".to_owned()))]);
}

#[test]
fn an_answer_from_elsewhere_a_stop_and_ctrl_c_end_the_question_and_leave_the_terminal_as_it_was() {
    let elsewhere: [(&[&str], i32, Outcome); 3] = [
        (&["approve"], 0, Outcome::GoalMet),
        (&["stop", "--reason", "lunch"], 1, Outcome::StoppedByRequest),
        (&[], 130, Outcome::Aborted),
    ];
    for (args, wanted, outcome) in elsewhere {
        let project = asking("");
        let line = "stty -a > ../before; fia run ask x; status=$?; stty -a > ../after; exit $status";
        // An interrupt is for fia alone.
        let Some(mut terminal) = Terminal::start(&project, &format!("trap : INT; {line}")) else { return };
        terminal.wait_for(QUESTION);
        if args.is_empty() {
            terminal.type_in("\u{3}");
        } else {
            assert_eq!(project.fia(args).end(), "exit 0");
        }
        let (status, shown) = terminal.end();
        assert_eq!((status, project.log().outcome()), (wanted, outcome), "{shown}");
        // What comes next begins on a line of its own.
        let after = shown.split_once(CHOICE).unwrap().1;
        assert!(after.trim_start_matches("^C").starts_with("\r\n"), "{shown:?}");
        assert_eq!(project.env().read("../before"), project.env().read("../after"));
    }
}

#[test]
fn a_quiet_run_asks_nobody() {
    for line in ["fia run ask x -q", "fia run ask x --json", "fia run ask x < /dev/null"] {
        let project = asking("");
        let Some(terminal) = Terminal::start(&project, line) else { return };
        let (status, shown) = terminal.end();
        assert_eq!(status, 1, "{shown}");
        assert!(!shown.contains(QUESTION), "{shown}");
        assert_eq!(project.log().outcome(), Outcome::StoppedByRequest);
    }
}
