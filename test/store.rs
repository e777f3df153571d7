//! Logs as they are found on disk, and what is left of one when its writer dies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a writer that is about to be killed says how far it came")]

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
#[cfg(debug_assertions)]
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chrono::{DateTime, Utc};
use fia::event::{Event, Waiting};
use fia::ids::RunId;
use fia::store::{Entry, Journal, LogEnd, LogReader, Tail};
use pretty_assertions::assert_eq;
use serde_json::Value;
use tempfile::TempDir;

fn event() -> Event {
    Event::Waiting(Waiting { until: None, reason: "limit".to_owned(), agent: None, count: 1 })
}

fn run() -> RunId {
    RunId::new("20260820-100000-abcd")
}

fn read(path: &Path) -> (Vec<u64>, LogEnd) {
    let mut reader = LogReader::open(path, Tail::Final).unwrap();
    let mut seqs = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        if let Entry::Record { line, .. } = entry {
            seqs.push(line.seq.0);
        }
    }
    (seqs, reader.end().unwrap())
}

/// Fails on a field that no test looks at.
fn known(expect: &Value, fields: &[&str]) {
    let unknown: Vec<_> = expect.as_object().unwrap().keys().filter(|key| !fields.contains(&key.as_str())).collect();
    assert_eq!(unknown, Vec::<&String>::new());
}

/// Opens the log of a case, appends a record, and looks at both against what is expected. `readable` is
/// given where the case leaves a choice.
fn check(name: &str, readable: Option<&[u64]>) {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/cases").join(name);
    let expect: Value = serde_json::from_slice(&fs::read(case.join("expect.json")).unwrap()).unwrap();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.jsonl");
    let found = fs::read(case.join("events.jsonl")).unwrap();
    fs::write(&path, &found).unwrap();

    let (seqs, end) = read(&path);
    let expected: Vec<u64> = match readable {
        Some(readable) => readable.to_vec(),
        None => serde_json::from_value(expect["readable_seqs"].clone()).unwrap(),
    };
    assert_eq!(seqs, expected);
    known(
        &expect,
        &[
            "opens",
            "readable_seqs",
            "readable_seqs_any_of",
            "damaged_lines",
            "damaged_lines_at_most",
            "after_next_append",
        ],
    );
    assert_eq!(expect["opens"], true);
    let any_of = expect["readable_seqs_any_of"].as_array();
    assert!(any_of.is_none_or(|any_of| any_of.contains(&serde_json::json!(seqs))), "{seqs:?}");
    match (expect["damaged_lines"].as_u64(), expect["damaged_lines_at_most"].as_u64()) {
        (Some(damaged), _) => assert_eq!(end.damaged, damaged),
        (None, at_most) => assert!(end.damaged <= at_most.unwrap(), "{}", end.damaged),
    }

    let mut journal = Journal::resume(&path, run(), &end).unwrap();
    let next = journal.append(DateTime::<Utc>::UNIX_EPOCH, None, event()).unwrap().seq.0;
    let (after, _) = read(&path);
    assert_eq!(after, [expected, vec![next]].concat());
    let later = &expect["after_next_append"];
    known(later, &["readable_seqs", "next_seq_greater_than", "earlier_bytes_of_complete_lines_unchanged"]);
    if let Some(seqs) = later["readable_seqs"].as_array() {
        let named = |seq: &Value| if seq == "next" { next } else { seq.as_u64().unwrap() };
        assert_eq!(after, seqs.iter().map(named).collect::<Vec<_>>());
    }
    assert!(next > expect["after_next_append"]["next_seq_greater_than"].as_u64().unwrap());
    assert!(fs::read(&path).unwrap().starts_with(&found), "no old byte changed");
}

#[test]
fn r5_3_log_crlf_bom() {
    check("log-crlf-bom", None);
}

#[test]
fn r5_3_log_glued_records() {
    check("log-glued-records", Some(&[1, 2, 3, 4]));
}

#[test]
fn r5_3_log_no_final_newline() {
    check("log-no-final-newline", None);
}

#[test]
fn r5_3_log_torn_tail() {
    check("log-torn-tail", None);
}

/// Names the log that the test binary, started again, is to write.
const WRITE_TO: &str = "TEST_WRITE_TO";

/// What the test binary does when it is started again with `WRITE_TO`: appends until it cannot, and says
/// each record that was acknowledged. Without it this is no test.
#[test]
fn writer() {
    let Some(path) = env::var_os(WRITE_TO) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { fia::process::survive_file_size_limit() }).unwrap();
    let path = PathBuf::from(path);
    let mut journal = if path.exists() {
        Journal::resume(&path, run(), &read(&path).1).unwrap()
    } else {
        Journal::create(&path, run()).unwrap()
    };
    loop {
        match journal.append(Utc::now(), None, event()) {
            Ok(record) => eprintln!("wrote {}", record.seq),
            Err(error) => {
                let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
                eprintln!("failed {:?}", cause.map(io::Error::kind));
                return;
            }
        }
    }
}

/// The test binary as a writer of a log, behind a command of the shell.
fn start_writer(before: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before}; exec \"$0\" --exact writer --nocapture")).arg(env::current_exe().unwrap());
    command.env(WRITE_TO, path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn last_acknowledged(said: &str) -> u64 {
    said.lines().filter_map(|line| line.strip_prefix("wrote ")?.parse().ok()).next_back().unwrap_or(0)
}

#[test]
fn r5_3_kill_9_loses_nothing_that_was_acknowledged() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.jsonl");
    let mut written = 0;
    for round in 1..=5_u64 {
        let mut writer = start_writer(":", &path).spawn().unwrap();
        let mut said = BufReader::new(writer.stderr.take().unwrap()).lines();
        let mut acknowledged = written;
        while acknowledged < written + 20 * round {
            acknowledged = last_acknowledged(&said.next().unwrap().unwrap()).max(acknowledged);
        }
        writer.kill().unwrap();
        let rest: Vec<String> = said.map_while(Result::ok).collect();
        writer.wait().unwrap();
        acknowledged = last_acknowledged(&rest.join("\n")).max(acknowledged);
        let (seqs, end) = read(&path);
        assert!(seqs.len() as u64 >= acknowledged, "{} of {acknowledged}", seqs.len());
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<u64>>());
        assert_eq!(end.damaged, 0);
        written = seqs.len() as u64;
    }
}

#[cfg(debug_assertions)]
#[test]
fn r5_3_a_writer_that_dies_at_any_append_has_acknowledged_only_what_is_there() {
    for at in 1..=20_u64 {
        let dir = TempDir::new().unwrap();
        let (path, count) = (dir.path().join("events.jsonl"), dir.path().join("count"));
        let output = start_writer(":", &path)
            .env("FIA_FAULT_AT", at.to_string())
            .env("FIA_FAULT_COUNT", &count)
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(9));
        let said = String::from_utf8(output.stderr).unwrap();
        let (seqs, _) = read(&path);
        // Odd boundaries lie before an append, even ones behind it.
        assert_eq!((last_acknowledged(&said), seqs.len() as u64), ((at - 1) / 2, at / 2));
        let passed = fs::read_to_string(count).unwrap();
        let expected = ["append: before", "append: after"].into_iter().cycle().take(usize::try_from(at).unwrap());
        assert_eq!(passed.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

#[test]
fn r5_3_an_append_over_the_file_size_limit_is_an_error_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.jsonl");
    let output = start_writer("ulimit -f 8", &path).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().rfind(|line| line.starts_with("failed")), Some("failed Some(FileTooLarge)"), "{said}");
    let (seqs, _) = read(&path);
    assert_eq!(seqs.len() as u64, last_acknowledged(&said));
    assert!(seqs.len() > 20);
    // With room again, the log goes on where it was.
    let end = read(&path).1;
    let mut journal = Journal::resume(&path, run(), &end).unwrap();
    assert_eq!(journal.append(Utc::now(), None, event()).unwrap().seq.0, seqs.len() as u64 + 1);
    assert_eq!(read(&path).0.len(), seqs.len() + 1);
}
