//! The one writer of a run's event log.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SubsecRound as _, Utc};

use super::{FILE_MODE, LogEnd, StoreError};
use crate::event::{Event, FORMAT, Record};
use crate::ids::{PhaseName, RunId, Seq};

/// Appends records to `events.jsonl`. A record that [`Journal::append`] returned survives the death of
/// fia, and one that [`Journal::sync`] followed survives that of the machine.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    run: RunId,
    next: Seq,
    bytes: u64,
    /// The line written last, its newline included; reused for the next one.
    line: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The log ends with a newline, or is empty.
    AtLineStart,
    /// The log ends without one.
    InLine,
    /// An append failed.
    Broken,
}

impl Journal {
    /// Creates the log of a new run.
    ///
    /// # Errors
    ///
    /// When there is one, or it cannot be created.
    pub fn create(path: &Path, run: RunId) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).mode(FILE_MODE).open(path);
        Ok(Self {
            file: file.map_err(StoreError::io("create", path))?,
            path: path.to_owned(),
            run,
            next: Seq(1),
            bytes: 0,
            line: Vec::new(),
            state: State::AtLineStart,
        })
    }

    /// Opens the log of a run for more, once it was read to its end.
    ///
    /// # Errors
    ///
    /// When it is of a newer format, changed since it was read, or cannot be opened.
    pub fn resume(path: &Path, run: RunId, end: &LogEnd) -> Result<Self, StoreError> {
        if end.format > FORMAT {
            return Err(StoreError::NewerFormat {
                path: path.to_owned(),
                format: end.format,
                known: FORMAT,
                fia_version: end.fia_version.clone(),
            });
        }
        let file = OpenOptions::new().append(true).open(path).map_err(StoreError::io("open", path))?;
        let now = file.metadata().map_err(StoreError::io("open", path))?.len();
        if now != end.bytes {
            return Err(StoreError::Changed { path: path.to_owned(), read: end.bytes, now });
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            run,
            next: end.last.map_or(Seq(1), Seq::next),
            bytes: now,
            line: Vec::new(),
            state: if end.at_line_start { State::AtLineStart } else { State::InLine },
        })
    }

    /// Appends one record: a whole line, in one write. Times are kept to the millisecond.
    ///
    /// # Errors
    ///
    /// When it cannot be written whole. The journal takes nothing more then: what it was about to say
    /// did not happen.
    pub fn append(
        &mut self,
        now: DateTime<Utc>,
        phase: Option<&PhaseName>,
        event: Event,
    ) -> Result<Record, StoreError> {
        self.line.clear();
        match self.state {
            State::AtLineStart => {}
            State::InLine => self.line.push(b'\n'),
            State::Broken => return Err(StoreError::Broken { path: self.path.clone() }),
        }
        let record =
            Record { seq: self.next, ts: now.trunc_subsecs(3), run: self.run.clone(), phase: phase.cloned(), event };
        record.write_line(&mut self.line);
        self.state = State::Broken;
        crate::fault::point("append: before");
        // One call, unless the system takes only a part: then the rest follows.
        self.file.write_all(&self.line).map_err(StoreError::io("append to", &self.path))?;
        crate::fault::point("append: after");
        self.state = State::AtLineStart;
        self.bytes += self.line.len() as u64;
        self.next = self.next.next();
        Ok(record)
    }

    /// Makes what was appended survive a power failure.
    ///
    /// # Errors
    ///
    /// When the system cannot say that it will.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(StoreError::io("sync", &self.path))
    }

    /// The length of the log in bytes, as this writer knows it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The line that was appended last, its newline included; empty before the first.
    pub fn last_line(&self) -> &[u8] {
        self.line.trim_ascii_start()
    }

    /// The number that the next record gets.
    pub fn next_seq(&self) -> Seq {
        self.next
    }
}

#[cfg(test)]
mod tests;
