use super::*;
use crate::event::Waiting;
use crate::store::{Entry, LogReader, Tail};
use chrono::TimeZone as _;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

fn waiting(reason: &str) -> Event {
    Event::Waiting(Waiting { until: None, reason: reason.to_owned(), agent: None, count: 1 })
}

fn noon() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 11, 30, 12, 0, 0).unwrap() + chrono::TimeDelta::nanoseconds(123_456_789)
}

fn run() -> RunId {
    RunId::new("20261130-120000-abcd")
}

/// All records of a log, and how it ends.
fn read(path: &Path) -> (Vec<Record>, LogEnd) {
    let mut reader = LogReader::open(path, Tail::Final).unwrap();
    let mut records = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        if let Entry::Record { line, .. } = entry {
            records.push(line.decode().unwrap());
        }
    }
    (records, reader.end().unwrap())
}

#[test]
fn records_are_numbered_without_gaps_over_all_stretches_and_read_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let phase = PhaseName::new("01_build");
    let mut written = Vec::new();
    for stretch in 0..3 {
        let mut journal = match stretch {
            0 => Journal::create(&path, run()).unwrap(),
            _ => Journal::resume(&path, run(), &read(&path).1).unwrap(),
        };
        written.push(journal.append(noon(), None, waiting("one\ntwo")).unwrap());
        written.push(journal.append(noon(), Some(&phase), waiting("é\u{2028}")).unwrap());
        journal.sync().unwrap();
    }
    assert_eq!(written.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(read(&path).0, written);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn held_records_are_written_in_order_with_the_next_and_before_64_kib_wait() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let mut journal = Journal::create(&path, run()).unwrap();
    let mut all = vec![journal.hold(noon(), None, waiting("one")).unwrap()];
    assert_eq!(fs::read(&path).unwrap(), b"");
    all.push(journal.append(noon(), None, waiting("two")).unwrap());
    assert_eq!(read(&path).0, all);
    all.push(journal.hold(noon(), None, waiting("three")).unwrap());
    journal.flush().unwrap();
    assert_eq!(read(&path).0, all);
    journal.hold(noon(), None, waiting(&"x".repeat(HELD_BYTES))).unwrap();
    assert_eq!(read(&path).0.len(), 4);
}

#[test]
fn a_log_that_is_there_is_not_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    fs::write(&path, "").unwrap();
    assert!(matches!(Journal::create(&path, run()), Err(StoreError::Io { action: "create", .. })));
}

#[test]
fn r5_3_a_log_of_a_newer_format_is_read_and_never_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let text = "{\"seq\":1,\"type\":\"run_start\",\"payload\":{\"format\":2,\"fia_version\":\"9.0.0\"}}\n";
    fs::write(&path, text).unwrap();
    let end = LogReader::open(&path, Tail::Final).unwrap().end().unwrap();
    assert_eq!(end.records, 1);
    let error = Journal::resume(&path, run(), &end).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`{}` is of log format 2, written by fia 9.0.0, and this fia writes format 1", path.display())
    );
    assert_eq!(error.hint(), "go on with fia 9.0.0 or later");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_log_that_changed_since_it_was_read_is_not_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    Journal::create(&path, run()).unwrap().append(noon(), None, waiting("one")).unwrap();
    let end = read(&path).1;
    fs::write(&path, "").unwrap();
    assert!(matches!(Journal::resume(&path, run(), &end), Err(StoreError::Changed { now: 0, .. })));
}

#[test]
fn a_journal_that_failed_takes_nothing_more() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let mut journal = Journal::create(&path, run()).unwrap();
    journal.file = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let error = journal.append(noon(), None, waiting("one")).unwrap_err();
    assert_eq!(
        (error.to_string(), error.hint()),
        (
            format!("cannot append to `{}`", path.display()),
            "free some space, then try again; a run that had begun goes on with `fia resume`".to_owned()
        )
    );
    assert!(matches!(journal.append(noon(), None, waiting("two")), Err(StoreError::Broken { .. })));
}

proptest! {
    #[test]
    fn r5_3_any_prefix_of_a_log_can_be_gone_on_with(reasons in prop::collection::vec(".{0,40}", 0..6), cut in 0_usize..1500) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut journal = Journal::create(&path, run()).unwrap();
        for reason in &reasons {
            journal.append(noon(), None, waiting(reason)).unwrap();
        }
        let text = fs::read(&path).unwrap();
        let prefix = &text[..cut.min(text.len())];
        fs::write(&path, prefix).unwrap();
        let (before, end) = read(&path);
        let mut journal = Journal::resume(&path, run(), &end).unwrap();
        let added = journal.append(noon(), None, waiting("next")).unwrap();
        prop_assert_eq!(added.seq.0, before.len() as u64 + 1);
        prop_assert!(fs::read(&path).unwrap().starts_with(prefix), "no old byte changed");
        let mut expected = before;
        expected.push(added);
        prop_assert_eq!(read(&path).0, expected);
    }
}

#[test]
fn r11_3_a_log_that_somebody_truncated_rewrote_or_removed_is_put_back_before_the_next_record() {
    type Harm = fn(&Path);
    let harm: [(&str, Harm); 6] = [
        ("truncated", |path| fs::write(path, "").unwrap()),
        ("one byte of the first line", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[10] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("a record more", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes.extend_from_within(..);
            fs::write(path, bytes).unwrap();
        }),
        ("removed with its folder", |path| fs::remove_dir_all(path.parent().unwrap()).unwrap()),
        ("replaced by a copy", |path| {
            fs::copy(path, path.with_extension("copy")).unwrap();
            fs::rename(path.with_extension("copy"), path).unwrap();
        }),
        ("replaced by a folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir_all(path.join("in/it")).unwrap();
        }),
    ];
    for (name, harm) in harm {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/events.jsonl");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let mut journal = Journal::create(&path, run()).unwrap();
        let mut written = vec![journal.append(noon(), None, waiting("one")).unwrap()];
        written.push(journal.append(noon(), None, waiting("two")).unwrap());
        assert_eq!(journal.guard().unwrap(), Guarded::Untouched, "{name}");
        harm(&path);
        written.push(journal.append(noon(), None, waiting("three")).unwrap());
        assert_eq!(journal.guard().unwrap(), Guarded::PutBack, "{name}");
        assert_eq!(read(&path).0, written, "{name}");
        harm(&path);
        assert_eq!(journal.guard().unwrap(), Guarded::PutBack, "{name}");
        assert_eq!(journal.guard().unwrap(), Guarded::Untouched, "{name}");
        assert_eq!(read(&path).0, written, "{name}");
    }
}

#[test]
fn another_link_to_the_log_is_no_change_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let mut journal = Journal::create(&path, run()).unwrap();
    journal.append(noon(), None, waiting("one")).unwrap();
    fs::hard_link(&path, dir.path().join("backup")).unwrap();
    assert_eq!(journal.guard().unwrap(), Guarded::Untouched);
    let mut resumed = Journal::resume(&path, run(), &read(&path).1).unwrap();
    fs::write(&path, "").unwrap();
    resumed.append(noon(), None, waiting("two")).unwrap();
    assert_eq!(read(&path).0.len(), 2);
}
