//! The directory of state of a repository: all its runs, and what they share.

use std::cmp::Reverse;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::atomic::{self, Durability};
use super::{RunDir, StoreError, create_dir, open_append};
use crate::ids::{AgentName, EngineName, RunId, SessionId};
use crate::prune::sticky::sha256;

/// The data directory, `.fia` unless configured otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    path: PathBuf,
}

/// Why no run was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// None has such an id.
    #[error("no run has `{0}` in its id")]
    Unknown(String),
    /// Several do.
    #[error("several runs have `{part}` in their id: {}", list(.runs))]
    Ambiguous {
        /// What was asked for.
        part: String,
        /// Those that fit, newest first.
        runs: Vec<RunId>,
    },
    /// The directory cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn list(runs: &[RunId]) -> String {
    const SHOWN: usize = 5;
    let shown = runs.iter().take(SHOWN).map(RunId::as_str).collect::<Vec<_>>().join(", ");
    if runs.len() > SHOWN { format!("{shown}, …") } else { shown }
}

impl DataDir {
    /// The data directory at `path`, which may not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it with a `.gitignore` that keeps all of it out of the repository, unless it is there.
    ///
    /// # Errors
    ///
    /// When it cannot be created or written to.
    pub fn create(&self) -> Result<(), StoreError> {
        create_dir(&self.runs())?;
        let ignore = self.ignore_file();
        if ignore.exists() { Ok(()) } else { atomic::replace(&ignore, b"*\n", Durability::Unsynced) }
    }

    /// The file that keeps all of it out of the repository.
    pub fn ignore_file(&self) -> PathBuf {
        self.path.join(".gitignore")
    }

    /// Where runs are.
    pub fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The file that stops every run by being there.
    pub fn stop(&self) -> PathBuf {
        self.path.join("stop")
    }

    /// Whether every run is stopped: whatever has that name stops, also what cannot be looked at.
    pub fn is_stopped(&self) -> bool {
        !fs::symlink_metadata(self.stop()).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// The lock of the main work tree.
    pub fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// What a scan of the main work tree need not read again.
    pub fn stat_cache(&self) -> PathBuf {
        self.path.join("stat_cache")
    }

    /// The work tree of a run that has its own.
    pub fn worktree(&self, run: &RunId) -> PathBuf {
        self.path.join("worktrees").join(run.as_str())
    }

    /// Waits for the turn to add a work tree, which is over when the file is dropped: of two that git adds at once,
    /// one may fail on what the other has half written.
    ///
    /// # Errors
    ///
    /// When the directory or the file that is locked cannot be made, or not be locked.
    pub fn turn_to_add_a_worktree(&self) -> Result<File, StoreError> {
        let dir = self.path.join("worktrees");
        create_dir(&dir)?;
        let turn = open_append(&dir.join(".turn"))?;
        turn.lock().map_err(StoreError::io("lock", &dir.join(".turn")))?;
        Ok(turn)
    }

    /// The lock of that work tree.
    pub fn worktree_lock(&self, run: &RunId) -> PathBuf {
        self.linked_lock(run.as_str())
    }

    /// The stat cache of that work tree.
    pub fn worktree_stat_cache(&self, run: &RunId) -> PathBuf {
        self.linked_stat_cache(run.as_str())
    }

    /// The lock of a linked work tree, by git's name for it.
    pub fn linked_lock(&self, name: &str) -> PathBuf {
        self.path.join("worktrees").join(format!("{name}.lock"))
    }

    /// The stat cache of a linked work tree, by git's name for it.
    pub fn linked_stat_cache(&self, name: &str) -> PathBuf {
        self.path.join("worktrees").join(format!("{name}.stat_cache"))
    }

    /// The locks of all work trees that runs have worked in, the main one's first.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.path.join("worktrees");
        let mut locks = vec![self.lock()];
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(locks),
            Err(error) => return Err(StoreError::io("list", &dir)(error)),
        };
        for entry in entries {
            let path = entry.map_err(StoreError::io("list", &dir))?.path();
            if path.extension().is_some_and(|extension| extension == "lock") {
                locks.push(path);
            }
        }
        locks[1..].sort();
        Ok(locks)
    }

    /// The lock of a session, whose id may be any text.
    pub fn session_lock(&self, engine: EngineName, session: &SessionId) -> PathBuf {
        self.path.join("sessions").join(format!("{engine}-{}.lock", sha256(session.as_str().as_bytes())))
    }

    /// What was pruned for an agent outside of a run.
    pub fn gateway_pruning(&self, agent: &AgentName) -> PathBuf {
        self.path.join("gateway").join(format!("{agent}.json"))
    }

    /// The directory of a run, there or not.
    pub fn run(&self, run: &RunId) -> RunDir {
        RunDir::new(run.clone(), self.runs().join(run.as_str()))
    }

    /// Creates the directory of a new run; `None` when there is one of that id.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub fn create_run(&self, run: &RunId) -> Result<Option<RunDir>, StoreError> {
        self.create()?;
        let dir = self.run(run);
        match DirBuilder::new().mode(0o700).create(dir.path()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(StoreError::io("create the directory", dir.path())(error)),
        }
        create_dir(&dir.context_handoff())?;
        Ok(Some(dir))
    }

    /// All runs, those that were started last first. Reads one directory and the first bytes of each log. A data
    /// directory that is not there has none.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<RunId>, StoreError> {
        let mut runs = self.names()?;
        runs.sort_by_cached_key(|run| Reverse((self.run(run).started(), run.clone())));
        Ok(runs)
    }

    /// The ids of all runs, in any order.
    fn names(&self) -> Result<Vec<RunId>, StoreError> {
        let path = self.runs();
        match names_of_dirs(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(StoreError::io("list", &path)),
        }
    }

    /// Finds a run by its id or a part that no other id has.
    ///
    /// # Errors
    ///
    /// When there is none or more than one, or the directory cannot be read.
    pub fn find(&self, part: &str) -> Result<RunDir, FindError> {
        let names = self.names()?;
        let mut fit: Vec<RunId> = match names.iter().find(|run| run.as_str() == part) {
            Some(exact) => vec![exact.clone()],
            None => names.into_iter().filter(|run| run.as_str().contains(part)).collect(),
        };
        match fit.as_slice() {
            [] => Err(FindError::Unknown(part.to_owned())),
            [run] => Ok(self.run(run)),
            _ => {
                fit.sort_by_cached_key(|run| Reverse((self.run(run).started(), run.clone())));
                Err(FindError::Ambiguous { part: part.to_owned(), runs: fit })
            }
        }
    }
}

fn names_of_dirs(path: &Path) -> io::Result<Vec<RunId>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if let (true, Ok(name)) = (entry.file_type()?.is_dir(), entry.file_name().into_string())
            && !name.starts_with('.')
        {
            names.push(RunId::new(name));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::os::unix::fs::PermissionsExt as _;

    fn with_runs(ids: &[&str]) -> (tempfile::TempDir, DataDir) {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::new(dir.path().join(".fia"));
        for id in ids {
            assert!(data.create_run(&RunId::new(*id)).unwrap().is_some());
        }
        (dir, data)
    }

    #[test]
    fn r5_5_a_run_has_a_directory_of_its_own_that_git_ignores() {
        let (_dir, data) = with_runs(&["20261130-142210-z321"]);
        assert_eq!(fs::read_to_string(data.path().join(".gitignore")).unwrap(), "*\n");
        let run = data.run(&RunId::new("20261130-142210-z321"));
        for path in [data.path(), &data.runs(), run.path(), &run.context_handoff()] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
        }
        assert_eq!(data.create_run(run.run()).unwrap(), None);
    }

    /// The run begins its log at this millisecond of an hour.
    fn begins(data: &DataDir, run: &str, ms: u32) {
        let log = data.run(&RunId::new(run)).events();
        let (second, ms) = (ms / 1000, ms % 1000);
        let first = format!("{{\"seq\":1,\"ts\":\"2026-11-30T14:00:{second:02}.{ms:03}Z\",\"run\":\"{run}\"}}\n");
        fs::write(log, first).unwrap();
    }

    #[test]
    fn r2_1_the_newest_run_is_the_one_that_was_started_last_whatever_it_is_called() {
        let (_dir, data) = with_runs(&["zz-nightly", "20261130-140000-bbbb", "20261130-140000-aaaa", "a"]);
        begins(&data, "zz-nightly", 999);
        begins(&data, "20261130-140000-bbbb", 1001);
        begins(&data, "20261130-140000-aaaa", 1002);
        begins(&data, "a", 30_000);
        fs::write(data.runs().join("20271130-142210-file"), "").unwrap();
        let runs: Vec<String> = data.list().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(runs, ["a", "20261130-140000-aaaa", "20261130-140000-bbbb", "zz-nightly"]);
        assert_eq!(DataDir::new("no/such/directory").list().unwrap(), []);
    }

    #[test]
    fn a_run_without_a_first_record_is_as_old_as_its_directory() {
        let (_dir, data) = with_runs(&["20991231-000000-aaaa", "torn", "whole"]);
        fs::create_dir(data.run(&RunId::new("20991231-000000-aaaa")).events()).unwrap();
        fs::write(data.run(&RunId::new("torn")).events(), "{\"seq\":1,\"ts\":\"2026-11").unwrap();
        begins(&data, "whole", 0);
        for (run, secs) in [("20991231-000000-aaaa", 1_700_000_001), ("torn", 1_900_000_000)] {
            let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(secs);
            fs::File::open(data.run(&RunId::new(run)).path()).unwrap().set_modified(then).unwrap();
        }
        let runs: Vec<String> = data.list().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(runs, ["torn", "whole", "20991231-000000-aaaa"]);
    }

    #[test]
    fn r2_1_a_run_is_found_by_id_or_by_a_unique_part() {
        let (_dir, data) = with_runs(&["20261130-142210-abcd", "20261130-142210-abce", "20261201-000000-xyz1"]);
        begins(&data, "20261130-142210-abcd", 1);
        begins(&data, "20261130-142210-abce", 2);
        let found = |part| data.find(part).map(|run| run.run().to_string()).map_err(|error| error.to_string());
        assert_eq!(found("abce"), Ok("20261130-142210-abce".to_owned()));
        assert_eq!(found("20261130-142210-abcd"), Ok("20261130-142210-abcd".to_owned()));
        assert_eq!(found("q"), Err("no run has `q` in its id".to_owned()));
        let several = "several runs have `abc` in their id: 20261130-142210-abce, 20261130-142210-abcd";
        assert_eq!(found("abc"), Err(several.to_owned()));
    }

    #[test]
    fn a_data_directory_below_a_plain_file_is_an_error_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = DataDir::new(file.join(".fia")).create_run(&RunId::new("r")).unwrap_err();
        assert!(error.to_string().starts_with("cannot create the directory `"), "{error}");
        assert!(error.hint().starts_with("a plain file is in the way"), "{}", error.hint());
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
