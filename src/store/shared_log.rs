//! A log with several writers: the channel.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{FILE_MODE, StoreError, backward};
use crate::solid;

/// Appends one line to a log that others append to as well, under its lock, and creates it if it is not
/// there.
///
/// `read` is shown the lines from the last to the first until it makes something of one: the newest row,
/// which a damaged last line may hide. `make` gets that, or `None`, and makes the new line without its
/// newline, and what the caller wants to know of it. Whatever it decides is decided for all writers,
/// since the lock is held. A missing last newline is added first; no old byte changes.
///
/// # Errors
///
/// When the file cannot be opened, locked, read or written.
pub fn append_locked<T, R>(
    path: &Path,
    read: impl FnMut(&[u8]) -> Option<T>,
    make: impl FnOnce(Option<T>) -> (Vec<u8>, R),
) -> Result<R, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(FILE_MODE);
    let mut file = solid::open(&mut options, path).map_err(StoreError::io("open", path))?;
    file.lock().map_err(StoreError::io("lock", path))?;
    // Closing the file frees the lock.
    append(&mut file, read, make).map_err(StoreError::io("append to", path))
}

fn append<T, R>(
    file: &mut File,
    mut read: impl FnMut(&[u8]) -> Option<T>,
    make: impl FnOnce(Option<T>) -> (Vec<u8>, R),
) -> io::Result<R> {
    let mut newest = None;
    backward::visit(file, &mut |_, line| {
        newest = read(line);
        if newest.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let (line, answer) = make(newest);
    let mut bytes = Vec::with_capacity(line.len() + 2);
    if in_line(file)? {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(&line);
    bytes.push(b'\n');
    crate::fault::point("append: before");
    file.write_all(&bytes)?;
    crate::fault::point("append: after");
    Ok(answer)
}

/// Whether the file ends without a newline.
fn in_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::fs;

    /// Appends the number after the newest one.
    fn count_up(path: &Path) -> u64 {
        let read = |line: &[u8]| std::str::from_utf8(line).ok()?.parse::<u64>().ok();
        append_locked(path, read, |newest| {
            let number = newest.unwrap_or(0) + 1;
            (number.to_string().into_bytes(), number)
        })
        .unwrap()
    }

    #[test]
    fn a_new_line_follows_the_newest_that_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        assert_eq!((count_up(&path), count_up(&path)), (1, 2));
        fs::write(&path, "1\n2\ntorn").unwrap();
        assert_eq!(count_up(&path), 3);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\ntorn\n3\n");
    }

    #[test]
    fn writers_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        count_up(&path);
                    }
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (1..=200).collect::<Vec<u64>>());
    }
}
