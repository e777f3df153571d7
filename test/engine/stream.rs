//! Feeds a recorded output to a decoder and sums up what it says, as the run loop does.

use std::path::{Path, PathBuf};

use fia::engine::{self, failure};
use fia::event::item::{EngineEvent, Failure, TurnEnd, TurnOutcome};
use fia::ids::EngineName;
use fia::process::Exit;

/// The folder of the tests.
pub(crate) fn test_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("test")
}

/// The folders of a folder, in order.
pub(crate) fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// What a decoder made of an output.
pub(crate) struct Decoded {
    pub(crate) events: Vec<EngineEvent>,
    /// The outcome that the end of the process brought, when no closing event had come.
    pub(crate) at_end: Option<TurnOutcome>,
}

/// Decodes a whole output. Lines end at LF only; the last one may have none.
pub(crate) fn decode(engine: EngineName, stdout: &[u8], stderr: &[u8], exit: Exit) -> Decoded {
    let mut decoder = engine::for_name(engine).decoder();
    let mut events = Vec::new();
    let ends_in_newline = stdout.last().is_none_or(|byte| *byte == b'\n');
    let mut lines: Vec<&[u8]> = stdout.split(|byte| *byte == b'\n').collect();
    if ends_in_newline {
        lines.pop();
    }
    for line in lines {
        decoder.line(line, &mut events);
    }
    let at_end = decoder.end(&exit, stderr);
    Decoded { events, at_end }
}

impl Decoded {
    /// How the last turn ended.
    pub(crate) fn outcome(&self) -> &TurnOutcome {
        let closed = self.events.iter().rev().find_map(|event| match event {
            EngineEvent::TurnEnded(outcome) => Some(outcome),
            _ => None,
        });
        self.at_end.as_ref().or(closed).expect("every output ends a turn")
    }

    /// Why it failed, seen as a resume when `resumed`.
    pub(crate) fn failure(&self, resumed: bool) -> Option<Failure> {
        let TurnEnd::Failed(failure) = &self.outcome().end else { return None };
        let answered = self.events.iter().any(|event| matches!(event, EngineEvent::Request { .. }));
        Some(if resumed && !answered { failure::of_resume(failure.clone()) } else { failure.clone() })
    }

    /// Live context at the end: the last reading, unknown after a compaction.
    pub(crate) fn context(&self) -> Option<u64> {
        self.events.iter().fold(None, |context, event| match event {
            EngineEvent::Request { usage: Some(usage), .. } => Some(usage.context()),
            EngineEvent::Compacted { .. } => None,
            _ => context,
        })
    }

    /// The session that the stream named last.
    pub(crate) fn session(&self) -> Option<String> {
        self.events.iter().rev().find_map(|event| match event {
            EngineEvent::Session { session, .. } => Some(session.to_string()),
            _ => None,
        })
    }
}
