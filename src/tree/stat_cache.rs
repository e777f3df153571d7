//! What the last look at each file said, so that only changed files are read again.
//!
//! One line a file: seven numbers, the content's id, the path with its length in front, since a name may hold
//! any byte. A cache that cannot be read is an empty one: it costs time, never truth.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::TreeError;
use crate::event::RepoPath;
use crate::solid;

/// First line of the file; another one means that another fia wrote it.
const HEADING: &[u8] = b"fia stat cache 1\n";

/// A file touched so shortly before it was read may change again without another time stamp. Two seconds is
/// the coarsest clock of a file system still met (FAT); most tick every 1 to 10 ms.
const TICK: Duration = Duration::from_secs(2);

/// What lstat said about a file when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
    inode: u64,
    device: u64,
    mode: u32,
}

impl Stamp {
    /// Takes the stamp of what lstat said.
    pub(crate) fn of(meta: &Metadata) -> Self {
        // A time beyond the year 2262 never counts as settled.
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: meta.size(),
            mtime_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            device: meta.dev(),
            mode: meta.mode(),
        }
    }

    /// Whether a write after `read_at` is sure to change the stamp.
    pub(super) fn settled(&self, read_at: SystemTime) -> bool {
        let now = read_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let settled_before = i64::try_from(now.saturating_sub(TICK.as_nanos())).unwrap_or(i64::MAX);
        self.mtime_ns.max(self.ctime_ns) < settled_before
    }
}

/// Stamps and content ids of the files of a work tree.
#[derive(Debug, Default)]
pub(crate) struct StatCache {
    files: HashMap<RepoPath, (Stamp, String)>,
    changed: bool,
}

impl StatCache {
    /// Reads a cache; an unreadable one is empty.
    pub(crate) fn load(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap_or_default();
        Self { files: read(&bytes).unwrap_or_default(), changed: false }
    }

    /// The id of a file's content, if the file is as it was when it was read.
    pub(crate) fn id(&self, path: &RepoPath, stamp: &Stamp) -> Option<&str> {
        self.files.get(path).filter(|(known, _)| known == stamp).map(|(_, id)| id.as_str())
    }

    /// Remembers a file that was read at `read_at` or later; a racy one is forgotten, to be read again.
    pub(crate) fn learn(&mut self, path: &RepoPath, stamp: Stamp, id: &str, read_at: SystemTime) {
        self.changed = true;
        if stamp.settled(read_at) {
            self.files.insert(path.clone(), (stamp, id.to_owned()));
        } else {
            self.files.remove(path);
        }
    }

    /// Forgets files that are gone, once they are many.
    pub(crate) fn keep_only(&mut self, there: impl Fn(&RepoPath) -> bool, count: usize) {
        if self.files.len() > count {
            self.files.retain(|path, _| there(path));
            self.changed = true;
        }
    }

    /// Writes the cache by rename, when it changed.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn save(&mut self, file: &Path) -> Result<(), TreeError> {
        if !self.changed {
            return Ok(());
        }
        let error = |source| TreeError::io("write the stat cache", file, source);
        let folder = file.parent().unwrap_or(Path::new("."));
        let new = solid::folders(folder).and_then(|()| tempfile::NamedTempFile::new_in(folder));
        let mut new = new.map_err(error)?;
        let mut out = BufWriter::with_capacity(1 << 16, new.as_file_mut());
        let written = out.write_all(HEADING).and_then(|()| {
            for (path, (stamp, id)) in &self.files {
                let Stamp { size, mtime_ns, ctime_ns, inode, device, mode } = stamp;
                let path = path.as_bytes();
                write!(out, "{size} {mtime_ns} {ctime_ns} {inode} {device} {mode} {id} {} ", path.len())?;
                out.write_all(path)?;
                out.write_all(b"\n")?;
            }
            out.flush()
        });
        drop(out);
        written.map_err(error)?;
        new.persist(file).map_err(|failed| error(failed.error))?;
        self.changed = false;
        Ok(())
    }
}

/// Reads the file's bytes; `None` when any of it is not as written.
fn read(bytes: &[u8]) -> Option<HashMap<RepoPath, (Stamp, String)>> {
    let mut rest = bytes.strip_prefix(HEADING)?;
    let mut files = HashMap::new();
    while !rest.is_empty() {
        let mut word = || {
            let end = rest.iter().position(|byte| *byte == b' ')?;
            let word = std::str::from_utf8(&rest[..end]).ok()?;
            rest = &rest[end + 1..];
            Some(word)
        };
        let stamp = Stamp {
            size: word()?.parse().ok()?,
            mtime_ns: word()?.parse().ok()?,
            ctime_ns: word()?.parse().ok()?,
            inode: word()?.parse().ok()?,
            device: word()?.parse().ok()?,
            mode: word()?.parse().ok()?,
        };
        let id = word()?.to_owned();
        let length: usize = word()?.parse().ok()?;
        let (path, after) = rest.split_at_checked(length)?;
        files.insert(RepoPath::new(path), (stamp, id));
        rest = after.strip_prefix(b"\n")?;
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp_at(seconds: i64) -> Stamp {
        let ns = seconds * 1_000_000_000;
        Stamp { size: 3, mtime_ns: ns, ctime_ns: ns, inode: 7, device: 1, mode: 0o100_644 }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_cache_survives_the_disk_with_any_byte_in_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stat_cache");
        let path = RepoPath::new(&b"a b\nc \xff"[..]);
        let mut cache = StatCache::default();
        cache.learn(&path, stamp_at(100), "abc", at(200));
        cache.learn(&"plain".into(), stamp_at(101), "def", at(200));
        cache.save(&file).unwrap();
        let loaded = StatCache::load(&file);
        assert_eq!(loaded.files, cache.files);
        assert_eq!(loaded.id(&path, &stamp_at(100)), Some("abc"));
        assert_eq!(loaded.id(&path, &stamp_at(99)), None);
    }

    #[test]
    fn r11_1_a_racy_file_is_read_again() {
        let mut cache = StatCache::default();
        cache.learn(&"racy".into(), stamp_at(199), "abc", at(200));
        assert_eq!(cache.id(&"racy".into(), &stamp_at(199)), None);
    }

    #[test]
    fn a_damaged_cache_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stat_cache");
        for bytes in [&b"fia stat cache 1\n3 1 1 7 1 33188 abc 5 ab"[..], b"fia stat cache 0\n", b"", b"\xff\xfe"] {
            fs::write(&file, bytes).unwrap();
            assert_eq!(StatCache::load(&file).files.len(), 0);
        }
    }
}
