//! The one writer of a run's event log, and its keeper.
//!
//! Agents work beside the log and may truncate, rewrite or unlink it. So a live journal has every byte twice: in
//! the file, and in a copy that no path leads to. Each append first looks whether the file is as the last one left
//! it (one call), and puts it back from the copy if not.

mod twin;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SubsecRound as _, Utc};

use super::{FILE_MODE, LogEnd, StoreError};
use crate::event::{Event, FORMAT, Record};
use crate::ids::{PhaseName, RunId, Seq};
use crate::solid;
use twin::{Stamp, Twin};

/// Appends records to `events.jsonl`. A record that [`Journal::append`] returned, or that [`Journal::flush`] followed,
/// survives the death of fia, and one that [`Journal::sync`] followed survives that of the machine.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    run: RunId,
    next: Seq,
    /// Lines that wait to be written.
    held: Vec<u8>,
    /// What was written last.
    written: Vec<u8>,
    state: State,
    twin: Twin,
    /// What the system said of the log after the last append.
    stamp: Stamp,
    /// Whether the log had to be put back since somebody asked.
    restored: bool,
}

/// How much is held at most, in bytes.
const HELD_BYTES: usize = 64 * 1024;

/// What a look at the log found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// It is as it was written.
    Untouched,
    /// Somebody had changed it, and it was put back.
    PutBack,
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
        options.append(true).create_new(true).mode(FILE_MODE);
        let file = solid::open(&mut options, path).map_err(StoreError::io("create", path))?;
        Ok(Self {
            twin: Twin::of(path, 0)?,
            stamp: Stamp::of(&file).map_err(StoreError::io("open", path))?,
            file,
            path: path.to_owned(),
            run,
            next: Seq(1),
            held: Vec::new(),
            written: Vec::new(),
            state: State::AtLineStart,
            restored: false,
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
        let file = solid::open(OpenOptions::new().append(true), path).map_err(StoreError::io("open", path))?;
        let now = file.metadata().map_err(StoreError::io("open", path))?.len();
        if now != end.bytes {
            return Err(StoreError::Changed { path: path.to_owned(), read: end.bytes, now });
        }
        Ok(Self {
            twin: Twin::of(path, now)?,
            stamp: Stamp::of(&file).map_err(StoreError::io("open", path))?,
            file,
            path: path.to_owned(),
            run,
            next: end.last.map_or(Seq(1), Seq::next),
            held: Vec::new(),
            written: Vec::new(),
            state: if end.at_line_start { State::AtLineStart } else { State::InLine },
            restored: false,
        })
    }

    /// Appends one record: a whole line, in one write, after those that were held. Times are kept to the millisecond.
    ///
    /// # Errors
    ///
    /// When it cannot be written whole. The journal takes nothing more then: what it was about to say
    /// did not happen. When somebody changed the log meanwhile, it is put back first; an error says that this
    /// could not be done.
    pub fn append(
        &mut self,
        now: DateTime<Utc>,
        phase: Option<&PhaseName>,
        event: Event,
    ) -> Result<Record, StoreError> {
        let record = self.hold(now, phase, event)?;
        self.flush()?;
        Ok(record)
    }

    /// Numbers one record that is written before the next one, or by [`Journal::flush`]: a burst of small facts shares
    /// the looks at the log and its copy. Nothing may be done on the strength of it before.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`], since at most 64 KiB are held.
    pub fn hold(&mut self, now: DateTime<Utc>, phase: Option<&PhaseName>, event: Event) -> Result<Record, StoreError> {
        match self.state {
            State::InLine if self.held.is_empty() => self.held.push(b'\n'),
            State::AtLineStart | State::InLine => {}
            State::Broken => return Err(StoreError::Broken { path: self.path.clone() }),
        }
        let record =
            Record { seq: self.next, ts: now.trunc_subsecs(3), run: self.run.clone(), phase: phase.cloned(), event };
        record.write_line(&mut self.held);
        self.next = self.next.next();
        if self.held.len() >= HELD_BYTES {
            self.flush()?;
        }
        Ok(record)
    }

    /// Writes what is held.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`].
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if self.held.is_empty() {
            return Ok(());
        }
        if self.state == State::Broken {
            return Err(StoreError::Broken { path: self.path.clone() });
        }
        std::mem::swap(&mut self.held, &mut self.written);
        self.held.clear();
        if Stamp::at(&self.path) != Some(self.stamp) {
            self.compare()?;
        }
        self.state = State::Broken;
        for line in self.written.split_inclusive(|byte| *byte == b'\n') {
            crate::fault::point("append: before");
            // One call, unless the system takes only a part: then the rest follows.
            self.file.write_all(line).map_err(StoreError::io("append to", &self.path))?;
            crate::fault::point("append: after");
        }
        self.twin.append(&self.written).map_err(StoreError::io("keep a copy of", &self.path))?;
        self.stamp = Stamp::of(&self.file).map_err(StoreError::io("append to", &self.path))?;
        self.state = State::AtLineStart;
        Ok(())
    }

    /// Makes what was appended survive a power failure.
    ///
    /// # Errors
    ///
    /// When the system cannot say that it will.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(StoreError::io("sync", &self.path))
    }

    /// Looks whether the log still is what was written, and puts it back if not. Says whether it had to be put back
    /// since this was called last, be it now or before an append.
    ///
    /// # Errors
    ///
    /// When it cannot be put back.
    pub fn guard(&mut self) -> Result<Guarded, StoreError> {
        if self.state != State::Broken {
            let same = Stamp::at(&self.path) == Some(self.stamp);
            // A write in the same tick of the file system's clock as the last append leaves the stamp as it is.
            if !same || !twin::ends_with(&self.path, &self.written).unwrap_or(false) {
                self.compare()?;
            }
        }
        Ok(if std::mem::take(&mut self.restored) { Guarded::PutBack } else { Guarded::Untouched })
    }

    /// Compares the log with its twin, byte by byte, and puts it back where it differs. A backup that only made
    /// another link changes nothing.
    fn compare(&mut self) -> Result<(), StoreError> {
        if Stamp::at(&self.path).is_some_and(|now| now.is_same_file(&self.stamp))
            && self.twin.equals(&self.path).unwrap_or(false)
        {
            self.stamp = Stamp::of(&self.file).map_err(StoreError::io("read", &self.path))?;
            return Ok(());
        }
        self.file = self.twin.put_back(&self.path)?;
        self.stamp = Stamp::of(&self.file).map_err(StoreError::io("open", &self.path))?;
        self.restored = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
