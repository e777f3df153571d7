//! `fia watch` on a real terminal: tmux runs it, and what stands on the screen is read back as text.
//!
//! Needs tmux, so the tests are not run unless asked for: `cargo test --test watch -- --ignored`.

/// The parts that these tests use.
#[expect(dead_code, reason = "other tests use the rest")]
mod support {
    pub(crate) mod program;
    pub(crate) mod rehearsed;
    pub(crate) mod test_env;
}

use std::process::Command;

use support::program::Running;
use support::rehearsed::{fia, ran, stage, wait_for, wait_for_log};
use support::test_env::TestEnv;

/// A terminal with a shell that says how `fia watch` ended, and then waits.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn watching(env: &TestEnv, columns: u16, rows: u16, args: &str) -> Self {
        let socket = env.work().join("../tmux.socket").display().to_string();
        let terminal = Self { socket };
        let fia = env!("CARGO_BIN_EXE_fia");
        let shell =
            format!("'{fia}' watch {args}; echo left with $?; stty -a | tr ';' '\\n' | grep -o ' echo '; exec cat");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut command = env.command("tmux");
        command.args(["-S", &terminal.socket, "-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows]);
        let status = command.env("TERM", "xterm-256color").args(["sh", "-c", &shell]).status().expect("tmux starts");
        assert!(status.success());
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(args).output().expect("tmux starts");
        assert!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("tmux prints UTF-8")
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// The screen once it holds a text.
    fn with(&self, text: &str) -> String {
        let mut last = String::new();
        wait_for(text, || {
            last = self.screen();
            last.contains(text).then(|| last.clone())
        })
    }

    /// The terminal is as it was: no alternate screen, the cursor to be seen, typing echoed.
    fn assert_clean(&self, left: &str) {
        let screen = self.with(left);
        assert!(self.with("echo").contains(left), "{screen}");
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]), "0 1\n");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A server that is gone already is what is wanted.
        drop(Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output());
    }
}

fn assert_within(screen: &str, columns: usize, rows: usize) {
    assert!(screen.lines().count() <= rows, "{screen}");
    for line in screen.lines() {
        assert!(line.chars().count() <= columns, "{line}");
    }
}

#[test]
#[ignore = "needs tmux"]
fn a_live_run_is_watched_approved_and_seen_to_its_end() {
    let env = TestEnv::new();
    stage(&env);
    let going = Running::start(&mut fia(&env, &["run", "asks", "add a --shout flag"]), "");
    wait_for_log(&env.work(), "\"waiting\"");
    let terminal = Terminal::watching(&env, 80, 24, "");
    let screen = terminal.with("a approve");
    assert_within(&screen, 80, 24);
    for shown in ["asks  “add a --shout flag”", "⏸ approval", "planner", "✓ 01 plan", "▶ 02 ok", "s stop before"]
    {
        assert!(screen.contains(shown), "no {shown} in\n{screen}");
    }
    terminal.press("a");
    terminal.with("approve, and let the run go on? y / n");
    terminal.press("y");
    let screen = terminal.with("✓ goal met");
    assert!(screen.contains("✓ 03 build"), "{screen}");
    assert!(going.finish().status.success());
    terminal.press("q");
    terminal.assert_clean("left with 0");
}

#[test]
#[ignore = "needs tmux"]
fn a_run_that_is_over_fills_a_large_terminal_and_a_signal_leaves_it_clean() {
    let env = TestEnv::new();
    stage(&env);
    ran(&env, "demo", "add a --shout flag");
    let terminal = Terminal::watching(&env, 200, 50, "");
    let screen = terminal.with("✓ goal met");
    assert_within(&screen, 200, 50);
    for shown in ["↻ 04 fix_1", "fresh session", "178k", "✓ 07 save", "q leave"] {
        assert!(screen.contains(shown), "no {shown} in\n{screen}");
    }
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let killed = Command::new("pkill").args(["-TERM", "-P", shell.trim()]).status().expect("pkill starts");
    assert!(killed.success());
    terminal.assert_clean("left with 143");
}

#[test]
#[ignore = "needs tmux"]
fn a_message_is_typed_and_sent_from_the_screen() {
    let env = TestEnv::new();
    stage(&env);
    let going = Running::start(&mut fia(&env, &["run", "asks", "p"]), "");
    let run = wait_for_log(&env.work(), "\"waiting\"");
    let terminal = Terminal::watching(&env, 80, 24, "");
    terminal.with("m message");
    terminal.press("m");
    terminal.with("message: ");
    terminal.press("aq");
    terminal.with("message: aq");
    terminal.press("Escape");
    terminal.with("m message");
    terminal.press("m");
    terminal.with("message: ");
    terminal.press("sayq");
    terminal.press("Enter");
    terminal.with("message m1: its agents read it at their next phase");
    let channel = std::fs::read_to_string(run.join("channel.jsonl")).expect("a channel");
    assert!(channel.contains("\"sayq\"") && !run.join("approval.json").exists(), "{channel}");
    terminal.press("a");
    terminal.press("y");
    assert!(going.finish().status.success());
    terminal.press("q");
    terminal.assert_clean("left with 0");
}

#[test]
#[ignore = "needs tmux"]
fn a_run_is_stopped_from_the_screen() {
    let env = TestEnv::new();
    stage(&env);
    let going = Running::start(&mut fia(&env, &["run", "asks", "p"]), "");
    let run = wait_for_log(&env.work(), "\"waiting\"");
    let terminal = Terminal::watching(&env, 80, 24, "");
    terminal.with("s stop before");
    terminal.press("s");
    terminal.with("stop the run before its next phase? y / n");
    terminal.press("n");
    terminal.with("s stop before");
    assert!(!run.join("stop").exists());
    terminal.press("s");
    terminal.press("y");
    terminal.with("it stops before its next phase");
    let request: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("stop")).expect("a file")).expect("JSON");
    assert_eq!(request, serde_json::json!({ "now": false, "reason": "fia watch" }));
    terminal.press("a");
    terminal.press("y");
    going.finish();
    terminal.press("C-c");
    terminal.assert_clean("left with 0");
}
