//! The text that a fresh session of a working agent begins with, strictly under 2048 bytes whatever goes in.
//!
//! Two kinds: a *reseed* tells an agent that its own earlier session ended, a *continuation* tells whoever
//! takes over that an engine died in the middle of this phase. Exactly one of them opens a leg.

use serde::{Deserialize, Serialize};

use crate::event::{RepoPath, RetirementReason, RotationReason};

/// A preamble is shorter than this many bytes.
pub const PREAMBLE_LIMIT_BYTES: usize = 2048;

/// Paths that are named at most.
pub const MAX_PATHS: usize = 50;

/// A reference longer than this is left out: the rules matter more than where the old transcript lies.
const MAX_REFERENCE_BYTES: usize = 300;

/// Why a session is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fresh {
    /// Rotated on purpose.
    Rotated {
        /// Why.
        reason: RotationReason,
        /// Live context of the old session, in tokens; `None` is unknown.
        context_tokens: Option<u64>,
        /// The ceiling in force.
        cap: u64,
    },
    /// Left behind for another reason.
    Retired(RetirementReason),
    /// An engine died in this phase, and this leg goes on.
    Continued,
}

/// What a preamble tells.
#[derive(Debug, Clone, Copy)]
pub struct Preamble<'a> {
    /// Why the session is fresh.
    pub fresh: Fresh,
    /// Paths that the run changed so far.
    pub changed: &'a [RepoPath],
    /// The digest of the old session, as a path that the agent can open; `None` when there is none.
    pub digest: Option<&'a str>,
    /// The archived transcript of the old session, likewise.
    pub transcript: Option<&'a str>,
    /// Whether the previous phase's report stands further down in the same prompt.
    pub report_below: bool,
}

impl Preamble<'_> {
    /// Renders the preamble, with a blank line at its end.
    pub fn render(&self) -> String {
        let mut text = self.heading();
        let tail = self.references() + &self.rules();
        let room = PREAMBLE_LIMIT_BYTES - 1 - text.len() - tail.len();
        text.push_str(&path_section(self.changed, room));
        text.push_str(&tail);
        text
    }

    fn heading(&self) -> String {
        let first = match self.fresh {
            Fresh::Rotated { reason, context_tokens, cap } => {
                let size = match context_tokens {
                    Some(tokens) => format!("{tokens} tokens >= {cap}"),
                    None => format!("size unknown, ceiling {cap}"),
                };
                match reason {
                    RotationReason::Ceiling => format!("# Fresh session: ceiling reached ({size})"),
                    RotationReason::MidPhase => format!("# Fresh session: ceiling reached inside the phase ({size})"),
                    RotationReason::BreakEven => {
                        format!(
                            "# Fresh session: price, a small context is cheaper from here ({})",
                            known(context_tokens)
                        )
                    }
                    RotationReason::Expired => {
                        format!("# Fresh session: cache expired, resuming would cost more ({})", known(context_tokens))
                    }
                    RotationReason::Overflow => {
                        format!(
                            "# Fresh session: overflow, the old one no longer fits the model ({})",
                            known(context_tokens)
                        )
                    }
                }
            }
            Fresh::Retired(RetirementReason::SessionLost) => "# Fresh session: session lost".to_owned(),
            Fresh::Retired(RetirementReason::ModelChanged) => "# Fresh session: model changed".to_owned(),
            Fresh::Continued => "# Continuation: the engine that worked on this phase died".to_owned(),
        };
        let second = match self.fresh {
            Fresh::Continued => {
                "This is the same run and the same phase. Do not start from scratch: what was done before the failure \
                 is in the work tree. Look at it, then finish the task below."
            }
            Fresh::Rotated { .. } | Fresh::Retired(_) => {
                "This is the same run, and you have worked in it before; only your conversation is new. \
                 Do not start from scratch: your earlier work is in the work tree."
            }
        };
        format!("{first}\n\n{second}\n")
    }

    fn references(&self) -> String {
        let mut lines = String::new();
        for (what, path) in [("digest", self.digest), ("full transcript", self.transcript)] {
            if let Some(path) = path.filter(|path| path.len() <= MAX_REFERENCE_BYTES) {
                lines += &format!("- {what}: {}\n", one_line(path));
            }
        }
        if lines.is_empty() { lines } else { format!("\nThe earlier session, read-only, for reference:\n{lines}") }
    }

    fn rules(&self) -> String {
        let mut rules = "\nRules:\n\
             - The workspace is the authority: where it and a note differ, believe the workspace.\n\
             - Read the reference selectively: search it for what you need, never load it whole.\n"
            .to_owned();
        if self.report_below {
            rules.push_str("- Trust the previous report below; do not do its work again.\n");
        }
        rules.push('\n');
        rules
    }
}

fn known(context_tokens: Option<u64>) -> String {
    context_tokens.map_or_else(|| "size unknown".to_owned(), |tokens| format!("{tokens} tokens"))
}

/// A path is shown on one line, so control characters never reach the prompt raw.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// The paths as many as fit into `room` bytes, and how many were left out.
fn path_section(changed: &[RepoPath], room: usize) -> String {
    if changed.is_empty() {
        return String::new();
    }
    let mut text = "\nChanged by this run so far:\n".to_owned();
    let note = |left_out: usize| format!("(+{left_out} more: git status)\n");
    let reserve = note(changed.len()).len();
    if text.len() + reserve > room {
        return String::new();
    }
    let mut named = 0;
    for path in changed {
        let line = format!("- {path}\n");
        if named == MAX_PATHS || text.len() + line.len() + reserve > room {
            continue;
        }
        text.push_str(&line);
        named += 1;
    }
    if named < changed.len() {
        text.push_str(&note(changed.len() - named));
    }
    text
}

#[cfg(test)]
mod tests;
