//! Names of things: newtypes over text, so that a phase is never passed for an agent.
//!
//! An id that comes from outside (a session's) is opaque in the type too: fia stores it and hands it
//! back, and never looks inside.

use std::borrow::Borrow;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    };
}

text_id! {
    /// One execution of a workflow: `YYYYMMDD-HHMMSS-xxxx` in UTC, so that ids sort by time.
    RunId
}
text_id! {
    /// One executed step of a run: `NN_step`, numbered in the order of execution.
    PhaseName
}
text_id! {
    /// A step of a workflow as written, or an inner one of a repair (`test_1`, `fix_1`).
    StepName
}
text_id! {
    /// A named role of the roster.
    AgentName
}
text_id! {
    /// A command that code runs to judge the tree.
    CheckName
}
text_id! {
    /// The id that an engine gave to a conversation; text that fia never parses.
    SessionId
}

/// The letters of the random part of a run id: base 32 without the look-alikes `i`, `l`, `o` and `u`.
const RUN_ID_LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl RunId {
    /// Makes the id of a run that starts at `now`; `random` supplies the four letters (5 bits each).
    pub fn at(now: DateTime<Utc>, random: u32) -> Self {
        let letters: String =
            (0..4).map(|place| char::from(RUN_ID_LETTERS[((random >> (5 * place)) & 31) as usize])).collect();
        Self(format!("{}-{letters}", now.format("%Y%m%d-%H%M%S")))
    }

    /// The four letters at the end, which people type.
    pub fn short(&self) -> &str {
        self.0.rsplit('-').next().unwrap_or(&self.0)
    }
}

/// The number of a record in its log, from 1, without gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A coding-agent CLI that fia has an adapter for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineName {
    /// Claude Code; `claude_code` is accepted too.
    #[serde(alias = "claude_code")]
    Claude,
    /// pi, the minimal coding agent.
    Pi,
    /// Cursor's `cursor-agent`.
    Cursor,
    /// fia's own engine, driven by a script: rehearsals without an account.
    Scripted,
}

impl EngineName {
    /// Every engine, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Pi, Self::Cursor, Self::Scripted];

    /// The name as configured and logged.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Pi => "pi",
            Self::Cursor => "cursor",
            Self::Scripted => "scripted",
        }
    }

    /// Finds an engine by its name or accepted alias.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "claude_code" => Some(Self::Claude),
            other => Self::ALL.into_iter().find(|name| name.as_str() == other),
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone as _;

    #[test]
    fn r2_1_run_ids_name_their_second_and_end_in_four_letters() {
        let now = Utc.with_ymd_and_hms(2026, 11, 30, 14, 22, 10).unwrap();
        let id = RunId::at(now, 0b00001_00010_00011_11111);
        assert_eq!(id.as_str(), "20261130-142210-z321");
        assert_eq!(id.short(), "z321");
    }

    #[test]
    fn engines_are_found_by_name_and_alias() {
        assert_eq!(EngineName::parse("claude_code"), Some(EngineName::Claude));
        for name in EngineName::ALL {
            assert_eq!(EngineName::parse(name.as_str()), Some(name));
        }
        assert_eq!(EngineName::parse("codex"), None);
    }
}
