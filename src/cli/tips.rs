//! What to type instead of a command that fia does not have.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::project::Project;
use crate::workflow;

/// Words of other tools, and what they are here.
const WORDS: [(&str, &str); 12] = [
    ("status", "fia show"),
    ("list", "fia runs"),
    ("ls", "fia runs"),
    ("history", "fia runs"),
    ("log", "fia events"),
    ("logs", "fia events"),
    ("start", "fia run WORKFLOW \"what to do\""),
    ("exec", "fia run WORKFLOW \"what to do\""),
    ("continue", "fia resume"),
    ("cancel", "fia stop"),
    ("kill", "fia stop --now"),
    ("cost", "fia report"),
];

/// Puts the command that was meant in place of one of a similar name.
pub(super) fn with_tips(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let Some(meant) = meant(word) else { return error };
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = vec![format!("`{meant}` does that").into()];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// The command for a word of other tools, or for the name of a workflow.
fn meant(word: &str) -> Option<String> {
    if let Some((_, meant)) = WORDS.iter().find(|(known, _)| *known == word) {
        return Some((*meant).to_owned());
    }
    (workflow::is_built_in(word) || is_own(word)).then(|| format!("fia run {word} \"what to do\""))
}

/// Whether the configuration here, if there is one that can be read, has a workflow of this name.
fn is_own(word: &str) -> bool {
    let Ok(project) = Project::open(None) else { return false };
    workflow::catalog(&project.loaded.config).is_ok_and(|all| all.iter().any(|own| own.name == word))
}
