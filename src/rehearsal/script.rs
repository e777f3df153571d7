//! The script of the scripted engine: what to do and say in each phase.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::json;
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter as _};

use crate::config::{Mark, Problem, read_text};
use crate::event::{FailureKind, Usage};
use crate::visible;

/// A whole script.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Multiplies every token count.
    pub growth: f64,
    /// The model's window in tokens.
    pub window: u64,
    /// Turns by phase: `build`, `fix_*`, or `build@2` for the second leg alone; the last turn repeats.
    pub phases: IndexMap<String, Vec<Written>>,
}

impl Default for Script {
    fn default() -> Self {
        Self { growth: 1.0, window: 200_000, phases: IndexMap::new() }
    }
}

/// One turn as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that a person writes")]
pub struct Written {
    /// What to do, in order; each is preceded by a model call.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// The answer: an envelope.
    pub answer: Option<serde_json::Value>,
    /// The answer as text, for answers that hold no envelope or a broken one.
    pub text: Option<String>,
    /// Usage of every model call of the turn, in place of the computed one.
    pub usage: Option<Usage>,
    /// How long the turn takes at least.
    pub seconds: Option<f64>,
    /// Fail at the end instead of answering.
    pub fail: Option<Fail>,
    /// Run into the output limit instead of answering.
    pub cut: bool,
    /// Exit with this status before the first event.
    pub exit: Option<i32>,
    /// What to print on standard error before that.
    pub stderr: String,
    /// Print this file instead of a closing event.
    pub emit: Option<PathBuf>,
    /// Never end.
    pub hang: bool,
    /// End, and stay.
    pub linger: bool,
    /// End, and leave a child that holds standard output.
    pub hold_pipe: bool,
}

/// One action as written: exactly one of its keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Deed {
    /// Path to content.
    write: Option<BTreeMap<String, String>>,
    delete: Option<String>,
    read: Option<String>,
    run: Option<String>,
    say: Option<String>,
}

/// A failure at the end of a turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// Its kind.
    pub kind: FailureKind,
    /// In words.
    #[serde(default)]
    pub message: String,
    /// When to try again.
    #[serde(default)]
    pub retry_after: Option<DateTime<Utc>>,
}

/// One turn, ready to act.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// What to do, in order.
    pub actions: Vec<Action>,
    /// Usage of every model call.
    pub usage: Option<Usage>,
    /// How long it takes at least.
    pub seconds: Option<f64>,
    /// A misbehaviour that takes the place of a good end.
    pub fault: Option<Fault>,
    /// How it ends.
    pub ending: Ending,
}

/// One action.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Deed")]
pub enum Action {
    /// Write files.
    Write(BTreeMap<String, String>),
    /// Delete a file.
    Delete(String),
    /// Read a file.
    Read(String),
    /// Run a command line.
    Run(String),
    /// Say something.
    Say(String),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With an answer.
    Answer(String),
    /// At the output limit.
    Cut,
    /// With a failure.
    Fail(Fail),
}

/// Misbehaviours of engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Exit at once.
    Exit {
        /// The status.
        code: i32,
        /// Printed on standard error before.
        stderr: String,
    },
    /// Print a file and exit without a closing event of its own.
    Emit(PathBuf),
    /// Never end.
    Hang,
    /// End and stay.
    Linger,
    /// End and leave a child that holds standard output.
    HoldPipe,
}

impl Script {
    /// Reads and checks a script, which is called `shown` where it is spoken of.
    ///
    /// # Errors
    ///
    /// The first problem, when the file cannot be read or is no script.
    pub fn load(file: &Path, shown: &str) -> Result<Self, Problem> {
        let text = read_text(file).map_err(|message| Problem::with(shown, message))?;
        serde_saphyr::from_str(&text).map_err(|error| {
            let message = DefaultMessageFormatter.format_message(error.without_snippet());
            let mark = error.location().and_then(|at| {
                Some(Mark { line: usize::try_from(at.line()).ok()?, column: usize::try_from(at.column()).ok()? })
            });
            Problem { mark: mark.filter(|mark| mark.line > 0), ..Problem::with(shown, visible::line(&message)) }
        })
    }

    /// The turn for a prompt: of `label@leg`, else `label`, else the first wildcard, else a plain success.
    pub fn turn(&self, phase: &str, leg: u32, turn: u32) -> Turn {
        let label = phase.split_once('_').map_or(phase, |(_, label)| label);
        let wildcard = || self.phases.iter().find(|(pattern, _)| fits(pattern, label)).map(|(_, turns)| turns);
        let turns = self.phases.get(&format!("{label}@{leg}")).or_else(|| self.phases.get(label)).or_else(wildcard);
        let at = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
        let written = turns.and_then(|turns| turns.get(at).or(turns.last())).cloned().unwrap_or_default();
        written.ready(label)
    }

    /// Dollars of a usage at made-up prices: 3 a million of input, cache reads a tenth, writes a quarter more.
    #[expect(clippy::cast_precision_loss, reason = "made-up dollars")]
    pub fn price(&self, usage: &Usage) -> f64 {
        let input = usage.input as f64 + 0.1 * usage.cache_read as f64 + 1.25 * usage.cache_write as f64;
        (3.0 * input + 15.0 * usage.output as f64) / 1e6
    }
}

fn fits(pattern: &str, label: &str) -> bool {
    pattern.split_once('*').is_some_and(|(before, after)| {
        label.len() >= before.len() + after.len() && label.starts_with(before) && label.ends_with(after)
    })
}

impl TryFrom<Deed> for Action {
    type Error = &'static str;

    fn try_from(deed: Deed) -> Result<Self, Self::Error> {
        let given = [
            deed.write.map(Self::Write),
            deed.delete.map(Self::Delete),
            deed.read.map(Self::Read),
            deed.run.map(Self::Run),
            deed.say.map(Self::Say),
        ];
        let mut given = given.into_iter().flatten();
        let only = given.next().filter(|_| given.next().is_none());
        only.ok_or("an action needs exactly one of write, delete, read, run, say")
    }
}

impl Written {
    fn ready(self, label: &str) -> Turn {
        let fault = if let Some(code) = self.exit {
            Some(Fault::Exit { code, stderr: self.stderr })
        } else if let Some(file) = self.emit {
            Some(Fault::Emit(file))
        } else if self.hang {
            Some(Fault::Hang)
        } else if self.linger {
            Some(Fault::Linger)
        } else if self.hold_pipe {
            Some(Fault::HoldPipe)
        } else {
            None
        };
        let ending = match (self.fail, self.cut, self.text, self.answer) {
            (Some(fail), _, _, _) => Ending::Fail(fail),
            (None, true, _, _) => Ending::Cut,
            (None, false, Some(text), _) => Ending::Answer(text),
            (None, false, None, Some(answer)) => Ending::Answer(report(&answer)),
            (None, false, None, None) => Ending::Answer(report(&json!({
                "status": "success", "summary": format!("rehearsed {label}"), "approved": true, "passed": true,
            }))),
        };
        Turn { actions: self.actions, usage: self.usage, seconds: self.seconds, fault, ending }
    }
}

fn report(envelope: &serde_json::Value) -> String {
    format!("Done.\n\n```json\n{}\n```\n", serde_json::to_string_pretty(envelope).expect("a value is JSON"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn script(text: &str) -> Script {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn a_turn_is_found_by_leg_then_name_then_wildcard_and_the_last_one_repeats() {
        let script = script(
            "phases:\n  build: [{text: one}, {text: two}]\n  build@2: [{text: second leg}]\n  'fix_*': [{text: fixed}]\n",
        );
        let said = |phase, leg, turn| match script.turn(phase, leg, turn).ending {
            Ending::Answer(text) => text,
            ending @ (Ending::Cut | Ending::Fail(_)) => panic!("{ending:?}"),
        };
        assert_eq!(said("02_build", 1, 1), "one");
        assert_eq!(said("02_build", 1, 2), "two");
        assert_eq!(said("02_build", 1, 9), "two");
        assert_eq!(said("02_build", 2, 1), "second leg");
        assert_eq!(said("104_fix_1", 1, 1), "fixed");
        assert!(said("05_review", 1, 1).contains("\"approved\": true"));
    }

    #[test]
    fn what_is_wrong_with_a_script_is_one_line_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script.yaml");
        let problem = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Script::load(&file, "a.yaml").unwrap_err().to_string()
        };
        let keys = "an action needs exactly one of write, delete, read, run, say";
        assert_eq!(problem("phases:\n  build:\n    - do: [{}]\n"), format!("a.yaml:3:12 {keys}"));
        assert_eq!(problem("phases: {build: [{do: [{run: x, say: y}]}]}"), format!("a.yaml:1:24 {keys}"));
        assert!(
            problem("phases: {build: [{dance: true}]}").starts_with("a.yaml:1:19 unknown field `dance`, expected ")
        );
        assert_eq!(problem("phases: {build: [}"), "a.yaml:1:17 mismatched bracket '[' closed by '}'");
        assert_eq!(problem("phases: {build: 7}\n"), "a.yaml:1:17 expected sequence start");
        assert!(Script::load(folder.path(), "a.yaml").unwrap_err().to_string().contains("regular file"));
    }
}
