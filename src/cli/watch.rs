//! `fia watch`: a screen of one run that follows its log, with keys that act on the run.
//!
//! The terminal is given back as it was on every way out: a key, a signal, an error or a panic. Acting is what the
//! commands do: a file by rename, then the bell.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use chrono::Utc;
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use ratatui::crossterm::execute;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::held;
use super::message::{self, Said};
use super::reading;
use super::reading::life;
use super::report::CliError;
use crate::store::atomic::{self, Durability};
use crate::store::{DataDir, Entry, LogReader, RunDir, Tail};
use crate::view::screen::{Dashboard, Foot};
use crate::view::tables::Life;

/// How often the log and the keys are looked at (SPEC 2.5).
const LOOK: Duration = Duration::from_millis(100);
/// How often the clock on the screen moves, and how often it is asked whether the run still lives.
const CLOCK: Duration = Duration::from_secs(1);
/// Records between two looks at the keys, so that a long log can be left while it is read.
const RECORDS_A_LOOK: usize = 20_000;

/// Arguments of `fia watch`.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// The run: its id or a unique part of it; the newest if left out
    run: Option<String>,
}

/// Watches a run until the reader leaves.
pub(super) fn watch(args: &WatchArgs) -> Result<ExitCode, CliError> {
    let data = reading::data()?;
    let dir = reading::find(&data, args.run.as_deref())?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() || super::is_dumb() {
        let hint = format!("`fia events -f {}` follows a run anywhere", dir.run());
        return Err(CliError::usage("`fia watch` needs a terminal that it can draw on", hint));
    }
    let reader = LogReader::open(&dir.events(), Tail::Growing)?;
    let signalled = listen()?;
    let failed = |error| CliError::machine("cannot take over the terminal", error);
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let _clean = Clean;
    let life = life(&data, &dir)?;
    let mut watch =
        Watch { data, dir, reader, dashboard: Dashboard::default(), life, foot: Foot::Keys, asked: None, left: false };
    watch.until_left(&mut terminal, &signalled)?;
    Ok(match signalled.load(Ordering::Relaxed) {
        0 => ExitCode::SUCCESS,
        number => ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX)),
    })
}

/// Gives the terminal back when it is dropped. A panic gives it back before it speaks, by a hook of the library's.
struct Clean;

impl Drop for Clean {
    fn drop(&mut self) {
        // A terminal that is gone needs no cleaning.
        let _gone = execute!(io::stdout(), DisableBracketedPaste);
        let _gone = ratatui::try_restore();
    }
}

/// The number of the first signal that asked for an end; 0 while none did.
fn listen() -> Result<Arc<AtomicI32>, CliError> {
    let failed = |error| CliError::machine("cannot listen for signals", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let came = Arc::new(AtomicI32::new(0));
    let number = Arc::clone(&came);
    let (interrupt, terminate, hangup) = {
        let _inside = runtime.enter();
        let on = |kind| signal(kind).map_err(failed);
        (on(SignalKind::interrupt())?, on(SignalKind::terminate())?, on(SignalKind::hangup())?)
    };
    std::thread::spawn(move || {
        let (mut interrupt, mut terminate, mut hangup) = (interrupt, terminate, hangup);
        let first = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
                _ = hangup.recv() => SignalKind::hangup(),
            }
        });
        number.store(first.as_raw_value(), Ordering::Relaxed);
    });
    Ok(came)
}

/// What a `y` would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Stop,
    Approve,
    Reject,
}

/// What a key makes of a message that is being typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Typed {
    More,
    /// It is given up.
    Left,
    /// It is to be sent.
    Whole,
}

/// Takes a key as a part of a message: no letter of it is a key that acts. Return on an empty line gives up, too.
fn typing(typed: &mut String, key: KeyEvent) -> Typed {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if key.code == KeyCode::Esc {
        return Typed::Left;
    }
    if key.code == KeyCode::Enter {
        return if typed.trim().is_empty() { Typed::Left } else { Typed::Whole };
    }
    if key.code == KeyCode::Backspace {
        typed.pop();
    }
    match key.code.as_char() {
        Some('u') if control => typed.clear(),
        Some(letter) if !control => typed.push(letter),
        Some(_) | None => {}
    }
    Typed::More
}

struct Watch {
    data: DataDir,
    dir: RunDir,
    reader: LogReader,
    dashboard: Dashboard,
    life: Life,
    foot: Foot,
    /// The question that stands in the last row.
    asked: Option<Act>,
    left: bool,
}

impl Watch {
    fn until_left(&mut self, terminal: &mut DefaultTerminal, signalled: &AtomicI32) -> Result<(), CliError> {
        let mut drawn: Option<Instant> = None;
        while !self.left && signalled.load(Ordering::Relaxed) == 0 {
            let read = self.read()?;
            let stale = drawn.is_none_or(|at| at.elapsed() >= CLOCK);
            if stale {
                self.life = life(&self.data, &self.dir)?;
            }
            if stale || read > 0 {
                self.draw(terminal)?;
                drawn = Some(Instant::now());
            }
            let wait = if read == RECORDS_A_LOOK { Duration::ZERO } else { LOOK };
            if self.input(wait)? {
                self.draw(terminal)?;
            }
        }
        Ok(())
    }

    /// Takes in what the log has, at most so much that keys are not kept waiting.
    fn read(&mut self) -> Result<usize, CliError> {
        let mut read = 0;
        while read < RECORDS_A_LOOK
            && let Some(entry) = self.reader.next()?
        {
            read += 1;
            if let Entry::Record { line, .. } = entry
                && let Ok(record) = line.decode()
            {
                self.dashboard.push(record);
            }
        }
        Ok(read)
    }

    fn draw(&self, terminal: &mut DefaultTerminal) -> Result<(), CliError> {
        let drawn = terminal.draw(|screen| self.dashboard.draw(screen, &self.foot, self.life, Utc::now()));
        drawn.map(|_| ()).map_err(|error| CliError::machine("cannot draw on the terminal", error))
    }

    /// Waits for a key or a new size of the terminal; says whether there is something to draw.
    fn input(&mut self, wait: Duration) -> Result<bool, CliError> {
        let failed = |error| CliError::machine("cannot read from the terminal", error);
        match event::poll(wait) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        match (event::read().map_err(failed)?, &mut self.foot) {
            (Input::Key(key), _) if key.kind != KeyEventKind::Release => self.key(key)?,
            (Input::Paste(text), Foot::Typing(typed)) => typed.push_str(&text),
            (
                Input::Key(_)
                | Input::Paste(_)
                | Input::Mouse(_)
                | Input::Resize(..)
                | Input::FocusGained
                | Input::FocusLost,
                _,
            ) => {}
        }
        Ok(true)
    }

    fn key(&mut self, key: KeyEvent) -> Result<(), CliError> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if let Foot::Typing(typed) = &mut self.foot
            && !(control && key.code == KeyCode::Char('c'))
        {
            match typing(typed, key) {
                Typed::More => {}
                Typed::Left => self.type_no_more(Foot::Keys)?,
                Typed::Whole => {
                    let text = std::mem::take(typed);
                    let said = self.send(text);
                    self.type_no_more(Foot::Said(said))?;
                }
            }
            return Ok(());
        }
        if let Some(act) = self.asked.take() {
            self.foot = if key.code == KeyCode::Char('y') { Foot::Said(self.act(act)?) } else { Foot::Keys };
            return Ok(());
        }
        self.foot = Foot::Keys;
        let failed = |error| CliError::machine("cannot write to the terminal", error);
        let letter = if key.code == KeyCode::Esc { 'q' } else { key.code.as_char().unwrap_or_default() };
        match letter {
            'c' if control => self.left = true,
            'q' => self.left = true,
            's' if self.is_live() => self.ask(Act::Stop, "stop the run before its next phase?"),
            'a' if self.asks() => self.ask(Act::Approve, "approve, and let the run go on?"),
            'm' if self.is_live() => {
                self.foot = Foot::Typing(String::new());
                // A pasted line end is not the key that sends.
                execute!(io::stdout(), EnableBracketedPaste).map_err(failed)?;
            }
            'r' if self.asks() => self.ask(Act::Reject, "reject, and end the run?"),
            _ => {}
        }
        Ok(())
    }

    /// Sends what was typed and says what came of it; a message that cannot be sent ends nothing.
    fn send(&self, text: String) -> String {
        let sent = message::whole(text)
            .and_then(|text| message::send(&self.data, &self.dir, Said { text, ..Said::default() }));
        match sent {
            Ok(row) => {
                let outcome = self.dashboard.state().run.outcome;
                format!("message {}: {}", row.id, message::heard(&self.dir, self.life, outcome, &row.mentions))
            }
            Err(error) => format!("not sent: {error}"),
        }
    }

    fn type_no_more(&mut self, foot: Foot) -> Result<(), CliError> {
        self.foot = foot;
        let failed = |error| CliError::machine("cannot write to the terminal", error);
        execute!(io::stdout(), DisableBracketedPaste).map_err(failed)
    }

    fn is_live(&self) -> bool {
        self.life == Life::Alive && self.dashboard.state().run.outcome.is_none()
    }

    fn asks(&self) -> bool {
        self.is_live() && self.dashboard.state().run.approval_open
    }

    fn ask(&mut self, act: Act, question: &str) {
        self.asked = Some(act);
        self.foot = Foot::Question(question.to_owned());
    }

    /// Does what was asked for and says so.
    fn act(&self, act: Act) -> Result<String, CliError> {
        let reason = "fia watch";
        let said = match act {
            Act::Stop => {
                let request = json!({ "now": false, "reason": reason });
                atomic::replace_json(&self.dir.stop(), &request, Durability::Unsynced)?;
                "it stops before its next phase; fia resume goes on later"
            }
            Act::Approve | Act::Reject => {
                let approved = act == Act::Approve;
                let answer = json!({ "approved": approved, "reason": (!approved).then_some(reason) });
                atomic::replace_json(&self.dir.approval(), &answer, Durability::Synced)?;
                if approved { "approved" } else { "rejected" }
            }
        };
        held::ring(&self.data, self.dir.run())?;
        Ok(said.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn letters_of_a_message_are_no_keys_and_only_return_and_escape_end_it() {
        let mut text = String::new();
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for letter in "qsary@é".chars() {
            assert_eq!(typing(&mut text, plain(KeyCode::Char(letter))), Typed::More);
        }
        assert_eq!(typing(&mut text, plain(KeyCode::Backspace)), Typed::More);
        assert_eq!(typing(&mut text, plain(KeyCode::F(1))), Typed::More);
        assert_eq!((text.as_str(), typing(&mut text.clone(), plain(KeyCode::Enter))), ("qsary@", Typed::Whole));
        assert_eq!(typing(&mut text, plain(KeyCode::Esc)), Typed::Left);
        assert_eq!(typing(&mut text, KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)), Typed::More);
        assert_eq!((text.as_str(), typing(&mut text.clone(), plain(KeyCode::Enter))), ("", Typed::Left));
    }
}
