use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::event::sample::{Draw, said};

fn read(line: &[u8]) -> Record {
    serde_json::from_slice::<Line<'_>>(line).unwrap().decode().unwrap()
}

proptest! {
    #[test]
    fn r5_events_of_every_kind_survive_being_written_and_read(seed in any::<u64>(), millis in 0_i64..4_000_000_000_000) {
        let mut seen = BTreeSet::new();
        for (at, (kind, name, payload)) in Draw::new(seed).every_kind().into_iter().enumerate() {
            let event = Event::from_parts(kind, &name, &payload.to_string()).unwrap().unwrap();
            prop_assert_eq!((event.kind(), event.name()), (kind, name.as_str()));
            let record = Record {
                seq: Seq(seed >> 1),
                ts: DateTime::from_timestamp_millis(millis).unwrap(),
                run: RunId::new("20261130-142210-k3fa"),
                phase: at.is_multiple_of(2).then(|| PhaseName::new(name.clone())),
                event,
            };
            let mut line = Vec::new();
            record.write_line(&mut line);
            prop_assert_eq!(line.split(|byte| *byte == b'\n').count(), 2);
            prop_assert_eq!(&read(&line), &record);
            // Nothing that stood in the payload was dropped or changed.
            let written: Value = serde_json::from_slice(&line).unwrap();
            for (key, value) in said(&payload) {
                // A whole second may be written without its milliseconds.
                let time = |value: &Value| value.as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok());
                let found = &written["payload"][&key];
                let same_time = time(found).is_some() && time(found) == time(&value);
                prop_assert!(same_time || *found == value, "{} {}: {} {}", kind, key, found, value);
            }
            seen.insert(if kind == "log" { name } else { kind.to_owned() });
        }
        let known = Event::KINDS.iter().chain(Event::LOG_NAMES).filter(|kind| **kind != "log");
        prop_assert_eq!(seen, known.map(|kind| (*kind).to_owned()).collect::<BTreeSet<_>>());
    }
}

#[test]
fn unknown_kinds_bad_payloads_and_bad_times_are_told_apart() {
    let told = |line: &str| serde_json::from_str::<Line<'_>>(line).unwrap().decode().unwrap_err().to_string();
    let ts = "2026-11-30T12:00:00.000Z";
    for (line, said) in [
        (
            format!(r#"{{"seq":7,"ts":"{ts}","type":"log","name":"dance","payload":{{}}}}"#),
            "record 7: unknown kind `log` `dance`",
        ),
        (
            format!(r#"{{"seq":7,"ts":"{ts}","type":"waiting","payload":{{}}}}"#),
            "record 7: payload of `waiting` cannot be read",
        ),
        (r#"{"seq":7,"ts":"noon","type":"waiting","payload":{}}"#.to_owned(), "record 7: `noon` is no time"),
    ] {
        assert_eq!(told(&line), said);
    }
}

#[test]
fn the_documents_name_the_fields_of_every_payload() {
    let (_, docs) = include_str!("../../../DOCS.md").split_once("\n## Events\n").unwrap();
    for (kind, name, payload) in Draw::new(3).every_kind() {
        let shown = if kind == "log" { &name } else { kind };
        let row =
            docs.lines().find(|line| line.starts_with(&format!("| `{shown}` | ")) && line.matches(" | ").count() > 1);
        let fields = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next()).unwrap_or_default();
        let named: BTreeSet<_> = fields.split(", ").collect();
        for field in said(&payload).keys().filter(|_| kind != "envelope") {
            assert!(named.contains(field.as_str()), "{shown}: `{field}` is not in DOCS.md: {row:?}");
        }
    }
}
