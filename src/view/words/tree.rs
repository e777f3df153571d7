//! What became of the work tree, in words.

use super::join;
use crate::event::{Committed, ExternalChange, PathChange, PermissionRetry, TreeChanged};
use crate::view::numbers;

pub(super) fn tree_changed(changed: &TreeChanged) -> String {
    let (mut added, mut modified, mut deleted) = (0, 0, 0);
    for change in &changed.changes {
        match (&change.before, &change.after) {
            (None, _) => added += 1,
            (Some(_), None) => deleted += 1,
            (Some(_), Some(_)) => modified += 1,
        }
    }
    let total = numbers::plural(changed.changes.len() as u64, "path");
    format!("{total} changed: {added} added, {modified} modified, {deleted} deleted{}", paths(&changed.changes))
}

/// The first three paths, and how many more there are.
fn paths(changes: &[PathChange]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = changes.iter().take(3).map(|change| change.path.to_string()).collect();
    let more = changes.len().saturating_sub(3);
    let more = if more > 0 { format!(" (+{more} more)") } else { String::new() };
    format!(": {}{more}", shown.join(" "))
}

pub(super) fn permission_retry(retry: &PermissionRetry) -> String {
    let then = if retry.again { "the phase is tried again" } else { "the phase is not tried again" };
    let rescue = rescue(Some(retry.rescue).filter(|&number| number > 0));
    format!("{} wrote where it may not{}; undone, {then}{rescue}", join(&retry.agents), paths(&retry.undone))
}

pub(super) fn external_change(change: &ExternalChange) -> String {
    let rescue = rescue(change.rescue);
    let done = if change.noticed { "noticed" } else { "put back" };
    format!("{done}: {}{}{rescue}", change.what.join(", "), paths(&change.undone))
}

/// The command that brings a rollback back.
fn rescue(number: Option<u32>) -> String {
    number.map(|number| format!("; fia undo --rescue {number} brings it back")).unwrap_or_default()
}

pub(super) fn committed_text(committed: &Committed) -> String {
    let Some(commit) = &committed.commit else { return "nothing to commit".to_owned() };
    let branch = committed.branch.as_ref().map(|branch| format!(" on {branch}")).unwrap_or_default();
    let mixed = match committed.mixed.len() {
        0 => String::new(),
        left => format!("; {left} left out that you had changed before"),
    };
    let paths = numbers::plural(committed.paths.len() as u64, "file");
    format!("committed {paths} as {}{branch}: {}{mixed}", short_commit(commit), committed.subject)
}

/// The first seven characters of a commit's id.
pub fn short_commit(commit: &str) -> &str {
    commit.char_indices().nth(7).map_or(commit, |(cut, _)| &commit[..cut])
}
