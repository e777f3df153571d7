//! The messages of a run on disk: rows get their id and time here, under the lock of their file.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{FILE_MODE, StoreError, append_locked, backward};
use crate::channel::{Row, RowKind, next_at};

/// A longer text is refused, in bytes: escaped as JSON it still is a line that every reader reads.
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Adds a row; whatever id and time it has, the store gives it new ones and returns it with them.
///
/// Ids are `m1`, `m2`, … in store order. Times are milliseconds and rise strictly, whatever `now_ms` says.
///
/// # Errors
///
/// When the text is longer than [`MAX_TEXT_BYTES`], or the file cannot be opened, locked, read or written.
pub fn add_row(path: &Path, now_ms: i64, row: Row) -> Result<Row, StoreError> {
    if row.text.len() > MAX_TEXT_BYTES {
        return Err(StoreError::io("add a message of more than 1 MiB to", path)(ErrorKind::InvalidInput.into()));
    }
    append_locked(path, parse, |newest: Option<Row>| {
        let at = next_at(newest.as_ref().map(|row| row.at), now_ms);
        let row = Row { id: id_after(newest.as_ref(), at), at, ..row };
        let line = serde_json::to_vec(&row).expect("a row is plain data");
        (line, row)
    })
}

/// The id after that of the newest row. After one that fia did not give it is made of the time, which no count reaches.
fn id_after(newest: Option<&Row>, at: i64) -> String {
    let Some(newest) = newest else { return "m1".to_owned() };
    let number = newest.id.strip_prefix('m').and_then(|number| number.parse::<u64>().ok());
    number.map_or_else(|| format!("m{at}"), |number| format!("m{}", number + 1))
}

/// All rows in store order; lines that are none are passed over. A channel that is not there has none.
///
/// # Errors
///
/// When the file is there and cannot be read.
pub fn rows(path: &Path) -> Result<Vec<Row>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes.split(|byte| *byte == b'\n').filter_map(parse).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// The row of this id; `None` when there is none.
///
/// # Errors
///
/// When the file is there and cannot be read.
pub fn row(path: &Path, id: &str) -> Result<Option<Row>, StoreError> {
    let mut found = None;
    backward(path, |row| {
        if row.id == id {
            found = Some(row);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// A page of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its rows, oldest first.
    pub rows: Vec<Row>,
    /// Whether there are older ones.
    pub more: bool,
}

/// The last `count` rows, or those before the row `before`. Reads the file from its end, and no further than needed.
/// `None` when there is no row `before`.
///
/// # Errors
///
/// When the file is there and cannot be read.
pub fn page(path: &Path, before: Option<&str>, count: usize) -> Result<Option<Page>, StoreError> {
    let (mut rows, mut more, mut reached) = (VecDeque::new(), false, before.is_none());
    backward(path, |row| {
        if !reached {
            reached = before == Some(row.id.as_str());
            return ControlFlow::Continue(());
        }
        more = rows.len() == count;
        if more {
            return ControlFlow::Break(());
        }
        rows.push_front(row);
        ControlFlow::Continue(())
    })?;
    Ok(reached.then(|| Page { rows: rows.into(), more }))
}

/// Makes sure that all rows so far are on the disk. Without a channel there is nothing to do.
///
/// # Errors
///
/// When the file is there and cannot be synced.
pub fn sync_channel(path: &Path) -> Result<(), StoreError> {
    match File::open(path).and_then(|file| file.sync_data()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("sync", path)(error)),
    }
}

/// What became of a channel while agents worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Messages that others added.
    pub came: Vec<Row>,
    /// Whether something had to be put back.
    pub changed: bool,
}

/// Makes sure that a channel still begins with what it held, and that the only rows after that are `posted` by its run
/// and messages of people, none of which is lost; rows of other kinds go, as nobody but fia writes them.
///
/// # Errors
///
/// When it cannot be opened, locked, read or written.
pub fn put_back(path: &Path, held: &[u8], posted: &[Row]) -> Result<Heard, StoreError> {
    let found = fs::symlink_metadata(path);
    let absent = found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if absent && held.is_empty() && posted.is_empty() {
        return Ok(Heard { came: Vec::new(), changed: false });
    }
    // Something else of that name is no channel, and is not followed.
    if let Ok(found) = found
        && !found.is_file()
    {
        let removed = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.map_err(StoreError::io("remove", path))?;
    }
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path);
    let mut file = file.map_err(StoreError::io("open", path))?;
    file.lock().map_err(StoreError::io("lock", path))?;
    put_back_locked(&mut file, held, posted).map_err(StoreError::io("put back", path))
}

fn put_back_locked(file: &mut File, held: &[u8], posted: &[Row]) -> io::Result<Heard> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (kept, rest) = if bytes.starts_with(held) { (held.len(), &bytes[held.len()..]) } else { (0, &bytes[..]) };
    let known: Vec<Row> = held.split(|byte| *byte == b'\n').filter_map(parse).collect();
    let all: Vec<Row> = rest.split(|byte| *byte == b'\n').filter_map(parse).collect();
    let new = |row: &&Row| kept == held.len() || !known.contains(row);
    let came: Vec<Row> =
        all.iter().filter(new).filter(|row| row.kind == RowKind::User && !posted.contains(row)).cloned().collect();
    let lost = posted.iter().filter(|row| !all.contains(row));
    let right: Vec<&Row> = all.iter().filter(new).filter(|row| came.contains(row) || posted.contains(row)).collect();
    let right: Vec<&Row> = right.into_iter().chain(lost).collect();
    let changed = kept < held.len() || right != all.iter().collect::<Vec<_>>();
    if changed {
        let mut text = held.to_vec();
        for row in right {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            serde_json::to_writer(&mut text, row)?;
            text.push(b'\n');
        }
        // What stands already is not written again, so that a crash here costs nothing older.
        file.set_len(kept as u64)?;
        file.seek(SeekFrom::Start(kept as u64))?;
        file.write_all(&text[kept..])?;
        file.sync_data()?;
    }
    Ok(Heard { came, changed })
}

fn parse(line: &[u8]) -> Option<Row> {
    serde_json::from_slice(line).ok()
}

fn backward(path: &Path, mut each: impl FnMut(Row) -> ControlFlow<()>) -> Result<(), StoreError> {
    let read = |mut file: File| -> io::Result<()> {
        backward::visit(&mut file, &mut |_, line| parse(line).map_or(ControlFlow::Continue(()), &mut each))
    };
    match File::open(path).and_then(read) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io("read", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn written(text: &str) -> Row {
        Row {
            id: "forged".to_owned(),
            at: i64::MAX,
            kind: RowKind::User,
            from: None,
            thread: String::new(),
            text: text.to_owned(),
            mentions: Vec::new(),
            session: None,
        }
    }

    fn ids(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn r8_1_ids_and_strictly_rising_times_are_given_by_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        let times = [50, 50, 7, 90].map(|now| {
            let row = add_row(&path, now, written("x")).unwrap();
            (row.id, row.at)
        });
        let expected = [("m1", 50), ("m2", 51), ("m3", 52), ("m4", 90)].map(|(id, at)| (id.to_owned(), at));
        assert_eq!(times, expected);
        assert_eq!(ids(&rows(&path).unwrap()), ["m1", "m2", "m3", "m4"]);
        assert_eq!(row(&path, "m3").unwrap().unwrap().at, 52);
        assert_eq!(row(&path, "m9").unwrap(), None);
    }

    #[test]
    fn r8_1_a_torn_last_line_and_a_foreign_id_give_no_id_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        let foreign = serde_json::to_string(&Row { at: 9, ..written("x") }).unwrap();
        fs::write(&path, format!("{foreign}\n{{\"id\":\"m1\",\"at\":1")).unwrap();
        assert_eq!(add_row(&path, 70, written("y")).unwrap().id, "m70");
        assert_eq!(add_row(&path, 70, written("y")).unwrap().id, "m71");
        assert_eq!(ids(&rows(&path).unwrap()), ["forged", "m70", "m71"]);
    }

    #[test]
    fn r8_1_a_text_of_a_mebibyte_fits_whatever_it_holds_and_a_longer_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        let text = "\u{1}".repeat(MAX_TEXT_BYTES);
        add_row(&path, 1, written(&text)).unwrap();
        assert_eq!(add_row(&path, 1, written("y")).unwrap().id, "m2");
        assert_eq!(rows(&path).unwrap()[0].text, text);
        assert!(add_row(&path, 1, written(&(text + "x"))).is_err());
        assert_eq!(rows(&path).unwrap().len(), 2);
    }

    #[test]
    fn r11_3_a_channel_keeps_what_it_held_and_messages_and_loses_rows_that_only_fia_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        let nothing = Heard { came: Vec::new(), changed: false };
        assert_eq!(put_back(&path, b"", &[]).unwrap(), nothing);
        assert!(!path.exists());
        let first = add_row(&path, 1, written("first")).unwrap();
        let held = fs::read(&path).unwrap();
        let posted = add_row(&path, 1, Row { kind: RowKind::Gate, ..written("no") }).unwrap();
        assert_eq!(put_back(&path, &held, std::slice::from_ref(&posted)).unwrap(), nothing);
        let message = add_row(&path, 1, written("hello")).unwrap();
        add_row(&path, 1, Row { kind: RowKind::Check, ..written("forged") }).unwrap();
        let heard = |changed| Heard { came: vec![message.clone()], changed };
        assert_eq!(put_back(&path, &held, std::slice::from_ref(&posted)).unwrap(), heard(true));
        let right = [first, posted.clone(), message.clone()];
        assert_eq!(rows(&path).unwrap(), right);
        assert_eq!(put_back(&path, &held, std::slice::from_ref(&posted)).unwrap(), heard(false));
        // Older rows that were edited come back, and what came meanwhile stays.
        let edited = fs::read_to_string(&path).unwrap().replace("first", "last");
        fs::write(&path, edited.lines().filter(|line| !line.contains("gate")).collect::<Vec<_>>().join("\n")).unwrap();
        let after = put_back(&path, &held, std::slice::from_ref(&posted)).unwrap();
        assert!(after.changed && after.came.contains(&message), "{after:?}");
        assert!(right.iter().all(|row| rows(&path).unwrap().contains(row)));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        put_back(&path, &held, &[]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), held);
    }

    #[test]
    fn pages_go_backwards_to_the_first_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("channel.jsonl");
        assert_eq!(page(&path, None, 2).unwrap(), Some(Page { rows: Vec::new(), more: false }));
        for _ in 0..5 {
            add_row(&path, 1, written("x")).unwrap();
        }
        let seen = |before, count| {
            let page = page(&path, before, count).unwrap().unwrap();
            (ids(&page.rows).join(" "), page.more)
        };
        assert_eq!(seen(None, 2), ("m4 m5".to_owned(), true));
        assert_eq!(seen(Some("m4"), 2), ("m2 m3".to_owned(), true));
        assert_eq!(seen(Some("m2"), 2), ("m1".to_owned(), false));
        assert_eq!(seen(Some("m1"), 2), (String::new(), false));
        assert_eq!(page(&path, Some("m9"), 2).unwrap(), None);
    }
}
