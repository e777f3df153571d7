//! What commands that only read begin with: where the runs are, and the records of one.
//!
//! They start often and should feel like `tail`, so git is asked only where a look at the folders does not say where
//! the top of the work tree is.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use chrono::Utc;

use super::project::{Project, load_what_holds};
use super::report::CliError;
use super::say;
use crate::config::{self, Surroundings};
use crate::event::Record;
use crate::event::wire::Line;
use crate::host::Presence;
use crate::solid;
use crate::store::{self, DataDir, Entry, LogReader, RunDir, StoreError, Tail, atomic};
use crate::view::projection::Projection;
use crate::view::tables::Life;

/// Variables that move a repository away from where its folders are.
const MOVED_BY: [&str; 3] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"];

/// The data directory of the repository around the current directory.
pub(super) fn data() -> Result<DataDir, CliError> {
    let start = super::current_dir()?;
    if MOVED_BY.iter().any(|name| std::env::var_os(name).is_some()) {
        return Project::look().map(|project| project.data);
    }
    let Some(top) = plain_top(&start) else { return Project::look().map(|project| project.data) };
    let file = config::find(&start, &top, None, std::env::var_os("FIA_CONFIG").as_deref());
    let name = if let Ok(name) = config::data_dir(file.as_deref(), &top) {
        name
    } else {
        // What is wrong with the file is told, and what can be read of it holds.
        load_what_holds(file.as_deref(), Surroundings { top: &top, engines: &[] })?.config.data_dir()
    };
    let path = top.join(name);
    Ok(DataDir::new(solid::resolved(&path)))
}

/// The top of the work tree around `start` where that is plain to see: the nearest folder with a whole `.git` of its
/// own. Linked work trees, submodules and configured ones are git's to find.
fn plain_top(start: &Path) -> Option<PathBuf> {
    let top = start.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let git = top.join(".git");
    let whole = git.join("HEAD").is_file() && git.join("objects").is_dir() && git.join("refs").is_dir();
    let config = std::fs::read(git.join("config")).ok()?;
    let moved = memchr::memmem::find(&config.to_ascii_lowercase(), b"worktree").is_some();
    (whole && !moved).then(|| top.to_owned())
}

/// Reads the log of a run once, from its first record to its last. What is damaged or of a newer fia is passed over;
/// `fia events` names it.
pub(super) fn records(dir: &RunDir, mut each: impl FnMut(&Record) -> Result<(), CliError>) -> Result<(), CliError> {
    let mut reader = LogReader::open(&dir.events(), Tail::Final)?;
    while let Some(entry) = reader.next()? {
        if let Entry::Record { line, .. } = entry
            && let Ok(record) = line.decode()
        {
            each(&record)?;
        }
    }
    Ok(())
}

/// The run that a reading command means: the one that is named by its id or a part, else the one that was started
/// last. Runs without a record that can be read are named on standard error and passed over.
pub(super) fn find(data: &DataDir, part: Option<&str>) -> Result<RunDir, CliError> {
    if let Some(part) = part {
        return Ok(data.find(part)?);
    }
    for run in data.list()? {
        let dir = data.run(&run);
        match has_records(&dir) {
            Ok(true) => return Ok(dir),
            Ok(false) => pass_over(&dir, None),
            Err(error) => pass_over(&dir, Some(error)),
        }
    }
    let message = format!("there is no run in `{}`", data.runs().display());
    Err(CliError::usage(message, "`fia run WORKFLOW PROMPT` starts one"))
}

/// A run and what is known of it.
pub(super) struct Known {
    pub(super) dir: RunDir,
    pub(super) life: Life,
    pub(super) projection: Projection,
}

/// All runs, the one that was started last first. What cannot be read, or has no record, is named on standard error
/// and passed over.
pub(super) fn known(data: &DataDir) -> Result<impl Iterator<Item = Known>, CliError> {
    Ok(data.list()?.into_iter().filter_map(|run| {
        let dir = data.run(&run);
        let look = || {
            let life = life(data, &dir)?;
            Ok(projection(&dir, life)?.map(|projection| (life, projection)))
        };
        match look() {
            Ok(Some((life, projection))) => return Some(Known { dir, life, projection }),
            Ok(None) => pass_over(&dir, None),
            Err(error) => pass_over(&dir, Some(error)),
        }
        None
    }))
}

/// Names a run that is passed over.
pub(super) fn pass_over(dir: &RunDir, error: Option<StoreError>) {
    let why = match error {
        None => format!("it has no records (remove `{}` if it is nothing)", dir.path().display()),
        Some(error) => with_cause(&error),
    };
    say(&format!("warning: run {} is passed over: {why}", dir.run()));
}

fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", with_cause(cause)))
}

fn has_records(dir: &RunDir) -> Result<bool, StoreError> {
    let Some(mut log) = log(dir)? else { return Ok(false) };
    while let Some(entry) = log.next()? {
        if matches!(entry, Entry::Record { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The log of a run, if there is one.
fn log(dir: &RunDir) -> Result<Option<LogReader>, StoreError> {
    match LogReader::open(&dir.events(), Tail::Final) {
        Ok(reader) => Ok(Some(reader)),
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is known of a run, turns that have not ended included: its run file with what the log has beyond, or the whole
/// log where that file is missing or damaged.
pub(super) fn projection(dir: &RunDir, life: Life) -> Result<Option<Projection>, StoreError> {
    let mut known = match atomic::load_json::<Projection>(&dir.run_file()) {
        Ok(Some(projection)) => caught_up(projection, dir)?,
        Ok(None) | Err(StoreError::Damaged { .. }) => fold(dir)?,
        Err(error) => return Err(error),
    };
    // Between two records time passes too.
    if let (Life::Alive, Some(Projection { run, .. })) = (life, &mut known)
        && run.outcome.is_none()
    {
        run.elapsed_ms = run.so_far(Utc::now());
    }
    Ok(known.map(Projection::so_far))
}

/// Takes in what the log has beyond a run file, which is written at the borders of phases: read from the end of the log
/// up to the record that the file was made at, however long the log is. A log that has no such record is folded whole.
fn caught_up(mut projection: Projection, dir: &RunDir) -> Result<Option<Projection>, StoreError> {
    let path = dir.events();
    let wrap = |source| StoreError::Io { action: "read", path: path.clone(), source };
    let mut log = File::open(&path).map_err(wrap)?;
    let made_at = projection.run.events;
    let (mut last, mut border) = (None, None);
    let offset = store::offset_of_last(&mut log, 1, |line| {
        let seq = serde_json::from_slice::<Line<'_>>(line).ok().map(|line| line.seq);
        last = last.max(seq);
        border = seq.filter(|seq| *seq <= made_at);
        border.is_some()
    })
    .map_err(wrap)?;
    if border != Some(made_at) {
        return fold(dir);
    }
    if last > Some(made_at) {
        let mut reader = LogReader::open_at(&path, Tail::Final, offset)?;
        while let Some(entry) = reader.next()? {
            if let Entry::Record { line, .. } = entry
                && line.seq > made_at
                && let Ok(record) = line.decode()
            {
                projection.push(&record);
            }
        }
    }
    Ok(Some(projection))
}

fn fold(dir: &RunDir) -> Result<Option<Projection>, StoreError> {
    let Some(mut reader) = log(dir)? else { return Ok(None) };
    let (mut projection, mut any) = (Projection::default(), false);
    while let Some(entry) = reader.next()? {
        if let Entry::Record { line, .. } = entry
            && let Ok(record) = line.decode()
        {
            projection.push(&record);
            any = true;
        }
    }
    Ok(any.then_some(projection))
}

/// Whether a process is at the run.
pub(super) fn life(data: &DataDir, dir: &RunDir) -> Result<Life, StoreError> {
    for lock in data.locks()? {
        if let Some(holder) = store::holder(&lock)?
            && holder.run == *dir.run()
            && matches!(holder.mark.presence(), Ok(Presence::Running | Presence::Elsewhere))
        {
            return Ok(Life::Alive);
        }
    }
    Ok(Life::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(config: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for folder in [".git/objects", ".git/refs", "deep/er"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(dir.path().join(".git/config"), config).unwrap();
        dir
    }

    #[test]
    fn the_top_of_a_plain_repository_is_seen_from_below() {
        let dir = repository("[core]\n\tbare = false\n");
        assert_eq!(plain_top(&dir.path().join("deep/er")).as_deref(), Some(dir.path()));
    }

    #[test]
    fn what_is_not_plain_is_left_to_git() {
        let moved = repository("[core]\n\tworkTree = /elsewhere\n");
        assert_eq!(plain_top(moved.path()), None);
        let linked = repository("");
        std::fs::write(linked.path().join("deep/.git"), "gitdir: ../.git/worktrees/deep\n").unwrap();
        assert_eq!(plain_top(&linked.path().join("deep/er")), None);
        let broken = repository("");
        std::fs::remove_file(broken.path().join(".git/HEAD")).unwrap();
        assert_eq!(plain_top(broken.path()), None);
    }
}
