//! Requests to stop, by files: one of this run, one of everything in the data directory (SPEC 10.5).
//!
//! They fail closed: a file that exists stops, whatever is in it and whether or not it can be read.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Bytes of a request that are read; a reason is a sentence.
const MAX_BYTES: u64 = 64 * 1024;

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The running phase is finished first.
    NextPhase,
    /// The running turn is ended.
    Now,
}

/// A request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) urgency: Urgency,
    /// Why, and what asked.
    pub(super) reason: String,
}

/// What stands in a file that `fia stop` wrote. An empty one, or one in other words, stops before the next phase.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    now: bool,
    reason: Option<String>,
}

/// The files that are looked at.
#[derive(Debug, Clone)]
pub(super) struct StopFiles {
    /// Of this run; a resume removes it.
    pub(super) run: PathBuf,
    /// Of all runs; people remove it.
    pub(super) all: PathBuf,
}

impl StopFiles {
    /// The request in force, the more urgent one of two.
    pub(super) fn request(&self) -> Option<Request> {
        let run = written(&self.run).map(|written| {
            let reason = written.reason.clone().unwrap_or_else(|| "its stop file exists".to_owned());
            written.request(reason)
        });
        let all = written(&self.all).map(|written| {
            let reason = written.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            written.request(format!("every run here is stopped{reason} until `fia stop --clear`"))
        });
        [run, all].into_iter().flatten().max_by_key(|request| request.urgency)
    }
}

impl Written {
    fn request(&self, reason: String) -> Request {
        Request { urgency: if self.now { Urgency::Now } else { Urgency::NextPhase }, reason }
    }
}

/// What a stop file says; `None` only when there is certainly none.
fn written(path: &Path) -> Option<Written> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // Only a plain file is read: a pipe would be waited for.
        Ok(found) if found.is_file() => {
            let mut bytes = Vec::new();
            let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
            Some(read.ok().and_then(|_| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
        }
        Ok(_) | Err(_) => Some(Written::default()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn files(dir: &Path) -> StopFiles {
        StopFiles { run: dir.join("run-stop"), all: dir.join("stop") }
    }

    #[test]
    fn r10_5_no_file_asks_for_nothing_and_any_file_stops() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        assert_eq!(files.request(), None);
        for text in ["", "please", "{\"now\": \"perhaps\"}", "[]", "{\"now\": false}"] {
            fs::write(&files.run, text).unwrap();
            let asked = files.request();
            let soft = Request { urgency: Urgency::NextPhase, reason: "its stop file exists".to_owned() };
            assert_eq!(asked, Some(soft), "{text:?}");
        }
        fs::remove_file(&files.run).unwrap();
        assert_eq!(files.request(), None);
        fs::create_dir(&files.run).unwrap();
        assert!(files.request().is_some(), "a directory is something that exists");
        fs::remove_dir(&files.run).unwrap();
        std::os::unix::fs::symlink("nowhere", &files.run).unwrap();
        assert!(files.request().is_some(), "so is a link to nothing");
    }

    #[test]
    fn r10_5_the_more_urgent_of_two_requests_counts_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        fs::write(&files.run, "{\"now\": false, \"reason\": \"later\"}").unwrap();
        fs::write(&files.all, "{\"now\": true, \"reason\": \"maintenance\"}").unwrap();
        let request = files.request().unwrap();
        assert_eq!(request.urgency, Urgency::Now);
        assert_eq!(request.reason, "every run here is stopped (maintenance) until `fia stop --clear`");
        fs::remove_file(&files.all).unwrap();
        assert_eq!(files.request().unwrap().reason, "later");
    }
}
