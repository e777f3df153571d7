//! What was written in the tree: kept, undone, committed.

use serde::{Deserialize, Serialize};

use super::{PathChange, RepoPath};
use crate::ids::AgentName;

/// Payload of `tree_changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeChanged {
    /// The leg that did it, 0 for a check.
    pub leg: u32,
    /// What changed and was kept.
    pub changes: Vec<PathChange>,
}

/// Payload of `permission_retry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRetry {
    /// The agents that may have done it; several in a parallel block.
    pub agents: Vec<AgentName>,
    /// What was written against the rules and undone.
    pub undone: Vec<PathChange>,
    /// Number of the rescue that brings it back; 0 when only files of fia's own were put back.
    pub rescue: u32,
    /// Whether the phase is tried again; else it is blocked.
    pub again: bool,
}

/// Payload of `external_change`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalChange {
    /// What it was: by-products, head, refs, index, git config, hooks.
    pub what: Vec<String>,
    /// Paths put back.
    #[serde(default)]
    pub undone: Vec<PathChange>,
    /// Number of the rescue that brings them back, if there is one.
    #[serde(default)]
    pub rescue: Option<u32>,
    /// Whether nothing of it was put back: it was seen, and stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noticed: bool,
}

impl ExternalChange {
    /// What was put back without a rescue.
    pub fn put_back(what: Vec<String>) -> Self {
        Self { what, undone: Vec::new(), rescue: None, noticed: false }
    }

    /// What was seen and stays.
    pub fn noticed(what: Vec<String>) -> Self {
        Self { noticed: true, ..Self::put_back(what) }
    }
}

/// Payload of `committed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The commit; null when there was nothing to commit.
    pub commit: Option<String>,
    /// The branch it went to.
    pub branch: Option<String>,
    /// First line of its message.
    pub subject: String,
    /// Paths in it.
    pub paths: Vec<RepoPath>,
    /// Paths that an envelope declares and the run did not change.
    #[serde(default)]
    pub declared_only: Vec<RepoPath>,
    /// Paths that the user had changed before, left out.
    #[serde(default)]
    pub mixed: Vec<RepoPath>,
    /// Paths that cannot be in it: ignored, in a repository of their own, or neither file nor link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<RepoPath>,
}
