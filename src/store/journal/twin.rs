//! A second copy of the log that no path leads to, so that nobody who works beside it can change it.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::store::{StoreError, create_dir};

/// How often a log is put back before that counts as failed.
const ATTEMPTS: u32 = 5;

/// An unlinked file with the bytes of the log.
#[derive(Debug)]
pub(super) struct Twin {
    file: File,
}

impl Twin {
    /// Copies the first `bytes` of a log.
    pub(super) fn of(path: &Path, bytes: u64) -> Result<Self, StoreError> {
        let wrap = |error| StoreError::io("keep a copy of", path)(error);
        // Beside the log, where there is room for another one; without a name from the start where the system can.
        let mut file = tempfile::tempfile_in(path.parent().unwrap_or(Path::new("."))).map_err(wrap)?;
        let log = File::open(path).map_err(wrap)?;
        io::copy(&mut log.take(bytes), &mut file).map_err(wrap)?;
        Ok(Self { file })
    }

    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)
    }

    /// Whether a file holds the same bytes.
    pub(super) fn equals(&mut self, path: &Path) -> io::Result<bool> {
        let other = File::open(path)?;
        if other.metadata()?.len() != self.file.metadata()?.len() {
            return Ok(false);
        }
        self.file.rewind()?;
        let same = same(BufReader::new(&self.file), BufReader::new(other));
        self.file.seek(SeekFrom::End(0))?;
        same
    }

    /// Makes the file at `path` anew, whatever is there now, and syncs it. Returns it, open for appending.
    pub(super) fn put_back(&mut self, path: &Path) -> Result<File, StoreError> {
        // Whoever removed the file may be about to put something else in its place.
        for _ in 1..ATTEMPTS {
            if let Ok(file) = self.try_put_back(path) {
                return Ok(file);
            }
        }
        self.try_put_back(path)
    }

    fn try_put_back(&mut self, path: &Path) -> Result<File, StoreError> {
        let wrap = |error| StoreError::io("put back", path)(error);
        let dir = path.parent().unwrap_or(Path::new("."));
        create_dir(dir)?;
        if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
            fs::remove_dir_all(path).map_err(wrap)?;
        }
        let mut builder = tempfile::Builder::new();
        let mut new = builder.prefix(".events").suffix(".tmp").append(true).tempfile_in(dir).map_err(wrap)?;
        self.file.rewind().map_err(wrap)?;
        let copied = io::copy(&mut self.file, new.as_file_mut()).and_then(|_| new.as_file().sync_data());
        self.file.seek(SeekFrom::End(0)).map_err(wrap)?;
        copied.map_err(wrap)?;
        new.persist(path).map_err(|failed| wrap(failed.error))
    }
}

fn same(mut one: impl io::BufRead, mut other: impl io::BufRead) -> io::Result<bool> {
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let length = left.len().min(right.len());
        if length == 0 {
            return Ok(left.len() == right.len());
        }
        if left[..length] != right[..length] {
            return Ok(false);
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Whether a file ends with a line.
pub(super) fn ends_with(path: &Path, line: &[u8]) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let length = file.metadata()?.len();
    let Some(start) = length.checked_sub(line.len() as u64) else { return Ok(false) };
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::with_capacity(line.len());
    file.read_to_end(&mut end)?;
    Ok(end == line)
}

/// What tells whether somebody else touched a file: nobody can set the time of the last change of a file's inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of an open file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|meta| Self::from(&meta))
    }

    /// The stamp of what stands at a path; `None` when that cannot be told.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::from(&meta))
    }

    /// Whether it is of the same file, whatever became of its content.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    fn from(meta: &fs::Metadata) -> Self {
        let (device, inode, bytes) = (meta.dev(), meta.ino(), meta.len());
        Self { device, inode, bytes, changed: (meta.ctime(), meta.ctime_nsec()) }
    }
}
