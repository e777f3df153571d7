use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

/// The numbers and damages of a log, in order.
fn read(text: &[u8], tail: Tail) -> (Vec<u64>, Vec<String>) {
    let mut reader = LogReader::new(text, "events.jsonl", tail);
    let (mut seqs, mut damage) = (Vec::new(), Vec::new());
    while let Some(entry) = reader.next().unwrap() {
        match entry {
            Entry::Record { line, raw } => {
                assert_eq!(serde_json::from_slice::<Line<'_>>(raw).unwrap().seq, line.seq);
                seqs.push(line.seq.0);
            }
            Entry::Damaged(found) => damage.push(found.to_string()),
        }
    }
    (seqs, damage)
}

fn end_of(text: &[u8]) -> LogEnd {
    LogReader::new(text, "events.jsonl", Tail::Final).end().unwrap()
}

fn record(seq: u64) -> String {
    format!(
        "{{\"seq\":{seq},\"ts\":\"2026-11-30T12:00:00.000Z\",\"type\":\"waiting\",\"payload\":{{\"reason\":\"é\"}}}}"
    )
}

#[test]
fn r5_3_a_damaged_line_in_the_middle_is_skipped_and_named() {
    let text = format!("{}\nno record\n\n  \r\n{}\n{{}}\n\u{0}\u{0}\n", record(1), record(2));
    let damage = vec![
        "line 2, behind record 1: no record: expected ident at line 1 column 2".to_owned(),
        "line 6, behind record 2: no record: missing field `seq` at line 1 column 2".to_owned(),
        "line 7, behind record 2: no record: expected value at line 1 column 1".to_owned(),
    ];
    assert_eq!(read(text.as_bytes(), Tail::Final), (vec![1, 2], damage));
}

#[test]
fn r5_3_records_on_one_line_are_all_read_and_a_rest_is_named() {
    let text = format!("{}{} {}{{\"seq\":4,\n{}\n", record(1), record(2), record(3), record(5));
    let damage = "line 1, behind record 3: no record: EOF while parsing a value at line 1 column 9";
    assert_eq!(read(text.as_bytes(), Tail::Final), (vec![1, 2, 3, 5], vec![damage.to_owned()]));
}

#[test]
fn what_only_looks_like_a_record_inside_a_torn_one_is_not_read() {
    let text = format!("{{\"seq\":1,\"payload\":{},\"x\n{}\n", record(7), record(2));
    assert_eq!(read(text.as_bytes(), Tail::Final).0, [2]);
}

#[test]
fn r5_3_a_torn_tail_is_named_once_no_more_can_come() {
    let text = format!("{}\n{{\"seq\":2,\"ts\":", record(1));
    let damage = "line 2, behind record 1: the log ends in half a record".to_owned();
    assert_eq!(read(text.as_bytes(), Tail::Final), (vec![1], vec![damage]));
    assert_eq!(read(text.as_bytes(), Tail::Growing), (vec![1], vec![]));
    let end = end_of(text.as_bytes());
    assert_eq!((end.at_line_start, end.bytes), (false, text.len() as u64));
}

#[test]
fn a_growing_log_is_read_on_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let next = |reader: &mut LogReader| match reader.next().unwrap() {
        Some(Entry::Record { line, .. }) => Some(line.seq.0),
        Some(Entry::Damaged(damage)) => panic!("{damage}"),
        None => None,
    };
    let (first, second) = (record(1), record(2));
    std::fs::write(&path, format!("{first}\n{}", &second[..9])).unwrap();
    let mut reader = LogReader::open(&path, Tail::Growing).unwrap();
    assert_eq!((next(&mut reader), next(&mut reader)), (Some(1), None));
    std::fs::write(&path, format!("{first}\n{second}\n")).unwrap();
    assert_eq!((next(&mut reader), next(&mut reader)), (Some(2), None));
}

#[test]
fn reading_can_begin_at_any_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    std::fs::write(&path, format!("{}\nbad\n{}\n", record(1), record(2))).unwrap();
    let offset = record(1).len() as u64 + 1;
    let mut reader = LogReader::open_at(&path, Tail::Final, offset).unwrap();
    let Some(Entry::Damaged(damage)) = reader.next().unwrap() else { panic!("the line is damaged") };
    let place = (damage.line, damage.offset, damage.behind);
    assert_eq!(place, (None, offset, None));
    assert!(matches!(reader.next().unwrap(), Some(Entry::Record { line, .. }) if line.seq.0 == 2));
}

#[test]
fn r5_3_a_log_without_format_is_of_the_first_and_the_newest_stretch_counts() {
    let start = |seq: u64, payload: &str| format!("{{\"seq\":{seq},\"type\":\"run_start\",\"payload\":{payload}}}\n");
    let old = start(1, "{\"fia_version\":\"0.1.0\"}");
    let end = end_of(old.as_bytes());
    assert_eq!((end.format, end.fia_version.as_str()), (1, "0.1.0"));
    let newer = old + &start(2, "{\"format\":7,\"fia_version\":\"9.0.0\"}") + &start(3, "{\"format\":1}");
    let end = end_of(newer.as_bytes());
    assert_eq!((end.format, end.fia_version.as_str(), end.last), (7, "9.0.0", Some(Seq(3))));
}

#[test]
fn a_number_that_leaves_no_room_for_the_next_is_damage() {
    let text = format!("{}\n{}\n{}\n", record(1), record(u64::MAX), record(2));
    let damage = "line 2, behind record 1: no record: its number 18446744073709551615 is out of range".to_owned();
    assert_eq!(read(text.as_bytes(), Tail::Final), (vec![1, 2], vec![damage]));
}

#[test]
fn damage_is_counted_past_what_is_kept() {
    let text = "bad\n".repeat(KEPT_DAMAGES + 50);
    let end = end_of(text.as_bytes());
    assert_eq!((end.damage.len(), end.damaged, end.records), (KEPT_DAMAGES, KEPT_DAMAGES as u64 + 50, 0));
}

#[test]
fn a_line_too_long_for_a_record_is_damage_and_reading_goes_on() {
    let long = std::io::repeat(b'x').take(MAX_LINE_BYTES as u64 + 1);
    let rest = format!("\n{}\n", record(1));
    let mut reader = LogReader::new(long.chain(rest.as_bytes()), "events.jsonl", Tail::Final);
    let Some(Entry::Damaged(damage)) = reader.next().unwrap() else { panic!("the line is damaged") };
    assert_eq!(damage.to_string(), "line 1: 16777217 bytes, too long for a record");
    assert!(matches!(reader.next().unwrap(), Some(Entry::Record { line, .. }) if line.seq.0 == 1));
}

#[test]
fn a_sifted_log_shows_only_lines_that_hold_the_bytes() {
    let waiting = record(1);
    let text = format!("{waiting}\n{{\"seq\":2,\"type\":\"log\"}}\nbad\n{{\"seq\":3,\"type\":\"log\"}}");
    let mut sift = LogReader::new(text.as_bytes(), "events.jsonl", Tail::Final).sift(&[b"\"log\""]);
    let mut seqs = Vec::new();
    while let Some(entry) = sift.next().unwrap() {
        match entry {
            Entry::Record { line, .. } => seqs.push(line.seq.0),
            Entry::Damaged(damage) => panic!("{damage}"),
        }
    }
    assert_eq!(seqs, [2, 3]);
}

proptest! {
    #[test]
    fn r5_3_any_prefix_of_a_log_keeps_its_whole_records(records in 0_u64..8, cut in 0_usize..2000) {
        let text: String = (1..=records).map(|seq| record(seq) + "\n").collect();
        let prefix = &text.as_bytes()[..cut.min(text.len())];
        // A record is whole once its closing brace is there, with or without its newline.
        let whole = (1..=records).take_while(|seq| (1..=*seq).map(|n| record(n).len() + 1).sum::<usize>() <= prefix.len() + 1);
        let (seqs, damage) = read(prefix, Tail::Final);
        prop_assert_eq!(seqs, whole.collect::<Vec<u64>>());
        prop_assert!(damage.len() <= 1);
    }

    #[test]
    fn no_input_makes_reading_fail(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let end = end_of(&text);
        prop_assert_eq!(end.bytes, text.len() as u64);
    }
}
