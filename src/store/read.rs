//! Reading a log, whatever became of it: every whole record is read, everything else is named.
//!
//! A log may have been cut by a crash, edited, copied from Windows or glued together. A byte order mark,
//! carriage returns, blank lines and a missing last newline are no damage; two records on one line are
//! both read. What is neither a record nor blank is skipped and named. Nothing is guessed: behind the
//! first unreadable byte of a line there may be text of an agent that only looks like a record.

mod damage;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use serde::Deserialize;

pub use damage::{Damage, DamageKind};

use super::StoreError;
use crate::event::wire::Line;
use crate::ids::Seq;
use crate::lines::{Lines, RawLine, Taken};

/// The longest line that is read, in bytes: far above any record, whose largest part is an envelope of 64 KiB.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The largest number that every JSON reader keeps exact. A record that claims a larger one is damaged.
const MAX_SEQ: u64 = (1 << 53) - 1;

/// At most so many damages are kept; the rest is counted.
const KEPT_DAMAGES: usize = 100;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What stands in a log.
#[derive(Debug)]
pub enum Entry<'a> {
    /// A whole record.
    Record {
        /// Its outer fields; the payload is unread.
        line: Line<'a>,
        /// Its bytes.
        raw: &'a [u8],
    },
    /// Something that is no record.
    Damaged(Damage),
}

/// What a last line without newline means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing more will come: it is a record, or damage.
    Final,
    /// It may be in the making: it waits until its newline comes, and reading again goes on from there.
    Growing,
}

/// What was learned by reading a log to its end; who has it may append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The highest number seen; `None` in a log without records.
    pub last: Option<Seq>,
    /// Records read.
    pub records: u64,
    /// Length of the log in bytes.
    pub bytes: u64,
    /// Whether the next record can begin where the log ends.
    pub at_line_start: bool,
    /// The newest format that a stretch of the run was written in.
    pub format: u32,
    /// The fia that wrote it.
    pub fia_version: String,
    /// What was damaged: the first hundred.
    pub damage: Vec<Damage>,
    /// How much was damaged in all.
    pub damaged: u64,
}

impl LogEnd {
    fn new() -> Self {
        Self {
            last: None,
            records: 0,
            bytes: 0,
            at_line_start: true,
            format: 1,
            fia_version: String::new(),
            damage: Vec::new(),
            damaged: 0,
        }
    }

    fn saw(&mut self, line: &Line<'_>) {
        self.records += 1;
        self.last = self.last.max(Some(line.seq));
        if line.kind == "run_start"
            && let Some(stretch) = line.payload.and_then(|payload| serde_json::from_str::<Stretch>(payload.get()).ok())
            && stretch.format >= self.format
        {
            self.format = stretch.format;
            self.fia_version = stretch.fia_version;
        }
    }

    fn name(&mut self, place: Place, kind: DamageKind) -> Damage {
        let damage = Damage { line: place.line, offset: place.offset, behind: self.last, kind };
        self.damaged += 1;
        if self.damage.len() < KEPT_DAMAGES {
            self.damage.push(damage.clone());
        }
        damage
    }
}

/// What a `run_start` says of the program that wrote it.
#[derive(Deserialize)]
struct Stretch {
    #[serde(default = "first_format")]
    format: u32,
    #[serde(default)]
    fia_version: String,
}

fn first_format() -> u32 {
    1
}

/// Where a line begins.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// From 1; `None` when reading began in the middle of the file.
    line: Option<u64>,
    offset: u64,
}

/// A line of the log and what is known of it.
struct Found {
    taken: Taken,
    place: Place,
    has_newline: bool,
}

/// Reads a log from front to back in bounded memory.
#[derive(Debug)]
pub struct LogReader<R = File> {
    source: R,
    path: PathBuf,
    tail: Tail,
    lines: Lines,
    /// Where the next line begins.
    next: Place,
    glued: Glued,
    end: LogEnd,
}

impl LogReader<File> {
    /// Opens a log.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn open(path: &Path, tail: Tail) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        Ok(Self::new(file, path, tail))
    }

    /// Opens a log at the byte where one of its lines begins. Lines are not numbered then.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn open_at(path: &Path, tail: Tail, offset: u64) -> Result<Self, StoreError> {
        let mut reader = Self::open(path, tail)?;
        reader.source.seek(SeekFrom::Start(offset)).map_err(StoreError::io("read", path))?;
        reader.next = Place { line: if offset == 0 { Some(1) } else { None }, offset };
        Ok(reader)
    }
}

impl<R: Read> LogReader<R> {
    /// Reads a log from its first byte; `path` is for messages.
    pub fn new(source: R, path: impl Into<PathBuf>, tail: Tail) -> Self {
        Self {
            source,
            path: path.into(),
            tail,
            lines: Lines::new(MAX_LINE_BYTES),
            next: Place { line: Some(1), offset: 0 },
            glued: Glued::default(),
            end: LogEnd::new(),
        }
    }

    /// The next entry; `None` at the end of the log. With [`Tail::Growing`] a later call may find more.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. Damage is no error.
    #[expect(clippy::should_implement_trait, reason = "an entry borrows from the reader, which no iterator can say")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        if self.glued.has_more() {
            return Ok(Some(self.glued.next(&mut self.end)));
        }
        match self.advance()? {
            Some(found) => Ok(Some(self.read(&found))),
            None => Ok(None),
        }
    }

    /// Reads what is left and says what the whole was like.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn end(mut self) -> Result<LogEnd, StoreError> {
        while self.next()?.is_some() {}
        self.end.bytes = self.next.offset;
        Ok(self.end)
    }

    /// Reads only lines that hold one of these texts anywhere, which is much faster than reading all. The
    /// caller still has to look whether a record is one that it wants.
    pub fn sift(self, needles: &[&[u8]]) -> Sift<R> {
        let needles = needles.iter().map(|needle| Finder::new(*needle).into_owned()).collect();
        Sift { reader: self, needles }
    }

    /// Moves to the next line that is not blank.
    fn advance(&mut self) -> Result<Option<Found>, StoreError> {
        loop {
            let Some((mut taken, has_newline)) = self.take()? else { return Ok(None) };
            let place = self.next;
            let bytes = match &taken {
                Taken::Line(range) => range.len() as u64,
                Taken::TooLong { bytes } => *bytes,
            };
            self.next.offset += bytes + u64::from(has_newline);
            self.next.line = place.line.map(|line| line + 1);
            self.end.at_line_start = has_newline;
            let text = match self.lines.get(&taken) {
                RawLine::Line(text) => text,
                RawLine::TooLong { .. } => return Ok(Some(Found { taken, place, has_newline })),
            };
            let marked = place.offset == 0 && text.starts_with(BYTE_ORDER_MARK);
            let text = if marked { &text[BYTE_ORDER_MARK.len()..] } else { text };
            if text.trim_ascii().is_empty() {
                continue;
            }
            if let (true, Taken::Line(range)) = (marked, &mut taken) {
                range.start += BYTE_ORDER_MARK.len();
            }
            return Ok(Some(Found { taken, place, has_newline }));
        }
    }

    /// The next line as it stands, and whether its newline has come.
    fn take(&mut self) -> Result<Option<(Taken, bool)>, StoreError> {
        loop {
            if let Some(taken) = self.lines.take() {
                return Ok(Some((taken, true)));
            }
            match self.source.read(self.lines.space()) {
                Ok(0) if self.tail == Tail::Growing => return Ok(None),
                Ok(0) => return Ok(self.lines.take_end().map(|taken| (taken, false))),
                Ok(bytes) => drop(self.lines.filled(bytes)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::io("read", &self.path)(error)),
            }
        }
    }

    fn read(&mut self, found: &Found) -> Entry<'_> {
        let raw = match self.lines.get(&found.taken) {
            RawLine::Line(raw) => raw,
            RawLine::TooLong { bytes } => {
                return Entry::Damaged(self.end.name(found.place, DamageKind::TooLong { bytes }));
            }
        };
        match serde_json::from_slice::<Line<'_>>(raw) {
            Ok(line) if line.seq.0 <= MAX_SEQ => {
                self.end.saw(&line);
                Entry::Record { line, raw }
            }
            _ => {
                self.glued.hold(raw, found);
                self.glued.next(&mut self.end)
            }
        }
    }
}

/// A line that is not one record: several, or damage, or both.
#[derive(Debug, Default)]
struct Glued {
    text: Vec<u8>,
    /// What lies before it was read.
    at: usize,
    line: Option<u64>,
    offset: u64,
    has_newline: bool,
}

impl Glued {
    fn hold(&mut self, raw: &[u8], found: &Found) {
        self.text.clear();
        self.text.extend_from_slice(raw);
        self.at = 0;
        self.line = found.place.line;
        self.offset = found.place.offset;
        self.has_newline = found.has_newline;
    }

    fn has_more(&self) -> bool {
        self.at < self.text.len()
    }

    fn next(&mut self, end: &mut LogEnd) -> Entry<'_> {
        let text = &self.text[self.at..];
        let mut records = serde_json::Deserializer::from_slice(text).into_iter::<Line<'_>>();
        let reason = match records.next() {
            Some(Ok(line)) if line.seq.0 <= MAX_SEQ => {
                let raw = &text[..records.byte_offset()];
                let rest = text[raw.len()..].trim_ascii_start();
                self.at = self.text.len() - rest.len();
                end.saw(&line);
                return Entry::Record { line, raw };
            }
            Some(Ok(line)) => format!("its number {} is out of range", line.seq),
            Some(Err(error)) => error.to_string(),
            None => "it is blank".to_owned(),
        };
        let place = Place { line: self.line, offset: self.offset + self.at as u64 };
        self.at = self.text.len();
        let kind = if self.has_newline { DamageKind::NoRecord { reason } } else { DamageKind::Torn };
        Entry::Damaged(end.name(place, kind))
    }
}

/// Reads those lines of a log that hold one of certain texts.
#[derive(Debug)]
pub struct Sift<R = File> {
    reader: LogReader<R>,
    needles: Vec<Finder<'static>>,
}

impl<R: Read> Sift<R> {
    /// The next entry on a line that holds one of them; `None` at the end of the log.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an entry borrows from the reader, which no iterator can say")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        if self.reader.glued.has_more() {
            return Ok(Some(self.reader.glued.next(&mut self.reader.end)));
        }
        while let Some(found) = self.reader.advance()? {
            let holds = match self.reader.lines.get(&found.taken) {
                RawLine::Line(text) => self.needles.iter().any(|needle| needle.find(text).is_some()),
                RawLine::TooLong { .. } => true,
            };
            if holds {
                return Ok(Some(self.reader.read(&found)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
