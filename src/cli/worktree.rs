//! What a run in a work tree of its own ends with: how to take its work over, and how to throw it away.

use std::io::Write;

use crate::store::DataDir;
use crate::tree::{Repository, Worktree};
use crate::view::projection::Projection;
use crate::visible;

/// Says it for a run that is over and whose work tree is still there; nothing for other runs.
pub(super) fn say(repository: &Repository, data: &DataDir, state: &Projection, out: &mut dyn Write) {
    let run = &state.run;
    let path = data.worktree(&run.run);
    if !run.worktree || run.outcome.is_none() || !path.exists() {
        return;
    }
    let Ok(worktree) = Worktree::of(repository, data.path(), &run.run) else { return };
    let [merge, remove, discard] = worktree.commands();
    let keep = if run.commits == 0 { format!("{} && {merge}", worktree.commit_command()) } else { merge };
    // Whoever reads may be gone.
    let _gone = writeln!(
        out,
        "  work tree  {}\n  take over  {keep}\n  then       {remove}\n  throw away {discard}",
        visible::line(&path.display().to_string())
    );
}
