//! `cases/watermark.json`: every case and every expectation in it. The file explains its format itself.

use std::collections::BTreeMap;
use std::time::Duration;

use fia::channel::render::block;
use fia::channel::watermark::{ListKey, MAX_IDS, Stages, Watermark, Watermarks};
use fia::channel::{BODY_CHARS, CAP, FETCH_ROWS, Heard, Listener, Memory, Row, delivery, hear};
use fia::ids::{AgentName, SessionId};
use fia::session::lease::{Framing, ProcessAge, Texts, lease_kind, newest_user_turn, sent};
use fia::session::pool::{IDLE_LIMIT, Lease, MAX_RESIDENTS, Pool};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::expand;

const RECENT: &str = "Recent messages";
const NEW: &str = "New messages since you last heard";

fn cases(kind: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../cases/watermark.json")).unwrap();
    let of_kind = |case: &&Value| case["kind"] == kind;
    file["cases"].as_array().unwrap().iter().filter(of_kind).cloned().collect()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn row(value: &Value) -> Row {
    Row {
        id: string(&value["id"]),
        at: value["at"].as_i64().unwrap(),
        kind: serde_json::from_value(value.get("kind").cloned().unwrap_or(json!("user"))).unwrap(),
        from: None,
        thread: string(&value["thread"]),
        text: expand(&value["text"]),
        mentions: Vec::new(),
        session: None,
    }
}

/// Compares what is shown: the heading and the rows, each by its line of the block.
fn compare(case: &str, heard: &[Heard<'_>], expect: &Value) {
    let shown: Vec<&Row> = heard.iter().flat_map(|list| list.shown.iter().copied()).collect();
    let ids: Vec<&str> = shown.iter().map(|row| row.id.as_str()).collect();
    let block = block(heard, |_| "channel_history".to_owned());
    let Some(header) = expect["header"].as_str() else {
        assert_eq!(block, None, "{case}: no block at all");
        return;
    };
    let text = block.unwrap().text;
    let heading = text.lines().next().unwrap();
    assert!(heading.starts_with(if header == "recent" { RECENT } else { NEW }), "{case}: {heading}");
    assert!(heading.contains("Untrusted data"), "{case}: {heading}");
    if let Some(expected) = expect["ids"].as_array() {
        assert_eq!(json!(ids), json!(expected), "{case}");
        return;
    }
    let expected = expect["lines"].as_array().unwrap();
    assert_eq!(json!(ids), json!(expected.iter().map(|line| &line["id"]).collect::<Vec<_>>()), "{case}");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("- [")).collect();
    assert_eq!(lines.len(), expected.len(), "{case}");
    for ((line, row), expected) in lines.into_iter().zip(shown).zip(expected) {
        let body = line.strip_prefix(&format!("- [{}] ", row.kind.as_str())).unwrap();
        let of = &expected["body"];
        if let Some(whole) = of.as_str() {
            assert_eq!(body, whole, "{case}");
        } else {
            assert_eq!(body.chars().count() as u64, of["len"], "{case}");
            assert_eq!(body.len() as u64, of["bytes"], "{case}");
            assert!(body.ends_with(of["tail"].as_str().unwrap()), "{case}: {body}");
        }
    }
}

#[test]
fn r8_2_the_limits_are_those_of_the_cases() {
    let file: Value = serde_json::from_str(include_str!("../cases/watermark.json")).unwrap();
    let ours = json!({
        "cap": CAP, "body_chars": BODY_CHARS, "fetch_rows": FETCH_ROWS, "max_ids": MAX_IDS,
        "pool_max": MAX_RESIDENTS, "idle_kill_s": IDLE_LIMIT.as_secs(),
    });
    assert_eq!(file["constants"], ours);
    assert_eq!(file["cases"].as_array().unwrap().len(), 26);
}

#[test]
fn r8_2_every_render_case() {
    let cases = cases("render");
    assert_eq!(cases.len(), 10);
    for case in cases {
        let rows: Vec<Row> = case["rows"].as_array().unwrap().iter().map(row).collect();
        let agent = AgentName::from("x");
        let native = SessionId::from("s");
        let mut marks = Watermarks::default();
        if let Some(mark) = case["watermark"].as_object() {
            let mark = Watermark {
                native: SessionId::from(mark["native"].as_str().unwrap()),
                last_at: mark["last_at"].as_i64().unwrap(),
                ids: serde_json::from_value(mark["ids"].clone()).unwrap(),
            };
            marks.insert(ListKey::new(&agent, "ch", ""), mark);
        }
        let listener = Listener {
            agent: &agent,
            channel: "ch",
            session: Some(&native),
            memory: Memory::Kept,
            answered: case["answered"].as_str(),
            elsewhere: &[],
            cap: CAP,
        };
        compare(case["id"].as_str().unwrap(), &hear(&rows, &listener, &marks), &case["expect"]);
    }
}

/// A store, one file and what is in memory.
#[derive(Default)]
struct World {
    channels: BTreeMap<String, Vec<Row>>,
    file: Vec<u8>,
    stages: Stages,
    /// Delivery to channel and native id, which the caller of a commit knows.
    turns: BTreeMap<String, (String, SessionId)>,
}

impl World {
    fn marks(&self) -> Watermarks {
        Watermarks::parse(&self.file).0
    }

    fn mention(&mut self, case: &str, op: &Value) {
        let (agent, native) = (AgentName::from(string(&op["session"])), SessionId::from(string(&op["native"])));
        let channel = string(&op["ch"]);
        let memory = if op["memory"] == false { Memory::None } else { Memory::Kept };
        let listener = Listener {
            agent: &agent,
            channel: &channel,
            session: Some(&native),
            memory,
            answered: op["id"].as_str(),
            elsewhere: &[],
            cap: CAP,
        };
        let heard = hear(&self.channels[&channel], &listener, &self.marks());
        compare(&format!("{case} {}", op["run"]), &heard, &op["expect"]);
        if let Some(staged) = delivery(&agent, &string(&op["run"]), &heard) {
            self.stages.stage(staged);
        }
        self.turns.insert(string(&op["run"]), (channel, native));
    }

    fn commit(&mut self, run: &str) {
        let (channel, native) = self.turns.get(run).cloned().unwrap_or_default();
        let mut marks = self.marks();
        self.stages.commit(run, &channel, &native, &mut marks);
        self.file = marks.render();
    }

    fn check(&self, case: &str, expect: &Value) {
        let marks = self.marks();
        let records: BTreeMap<String, Value> = marks
            .iter()
            .map(|(key, mark)| {
                let record = json!({"native": mark.native, "last_at": mark.last_at, "ids": mark.ids});
                (format!("{}|{}|{}", key.agent, key.channel, key.thread), record)
            })
            .collect();
        if expect.get("record_count").is_some() {
            let mark = marks.iter().next().unwrap().1;
            let ours = json!({
                "record_count": records.len(), "ids_len": mark.ids.len(), "first_id": mark.ids.first(),
                "last_id": mark.ids.last(), "last_at": mark.last_at,
            });
            assert_eq!(&ours, expect, "{case}");
        } else {
            assert_eq!(&json!(records), expect, "{case}");
        }
    }
}

#[test]
fn r8_3_every_flow_case() {
    let cases = cases("flow");
    assert_eq!(cases.len(), 13);
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let mut world = World::default();
        for op in case["ops"].as_array().unwrap() {
            match op["op"].as_str().unwrap() {
                "post" => world.channels.entry(string(&op["ch"])).or_default().push(row(op)),
                "mention" => world.mention(id, op),
                "commit" => world.commit(op["run"].as_str().unwrap()),
                "discard" => world.stages.discard(op["run"].as_str().unwrap()),
                "crash" => world.stages = Stages::default(),
                "corrupt_file" => {
                    world.file = op["bytes"].as_str().unwrap().as_bytes().to_vec();
                    assert!(Watermarks::parse(&world.file).1.is_some(), "{id}: the damage is said");
                }
                "check_file" => world.check(id, &op["expect"]),
                other => panic!("{id}: unknown op {other}"),
            }
        }
    }
}

#[test]
fn r7_2_every_prompt_case() {
    let cases = cases("prompt");
    assert_eq!(cases.len(), 1);
    for row in cases[0]["rows"].as_array().unwrap() {
        let inp = &row["inp"];
        let texts = Texts {
            framing: Framing::InPrompt(inp["system"].as_str().unwrap()),
            replay: inp["prompt"].as_str().unwrap(),
            newest: inp["warm"].as_str().unwrap(),
        };
        let saved = (inp["restored"] == true).then(|| SessionId::from("s"));
        let process = if saved.is_some() || inp["cold"] == true { ProcessAge::New } else { ProcessAge::Living };
        assert_eq!(sent(lease_kind(process, saved.as_ref()), texts), row["out"].as_str().unwrap());
    }
}

#[test]
fn r7_2_every_newest_turn_case() {
    let cases = cases("latest_user_turn");
    assert_eq!(cases.len(), 1);
    let messages = cases[0]["messages"].as_array().unwrap();
    let pairs = messages.iter().map(|m| (m["role"].as_str().unwrap(), m["text"].as_str().unwrap()));
    assert_eq!(newest_user_turn(pairs), cases[0]["expect"].as_str().unwrap());
}

#[test]
fn r7_1_every_pool_case() {
    let cases = cases("pool");
    assert_eq!(cases.len(), 1);
    let case = &cases[0];
    let max = usize::try_from(case["max"].as_u64().unwrap()).unwrap();
    let mut pool: Pool<String> = Pool::new(max, Duration::from_secs(case["idle_s"].as_u64().unwrap()));
    let mut started = 0;
    let mut native: BTreeMap<String, u64> = BTreeMap::new();
    for event in case["events"].as_array().unwrap() {
        let now = Duration::from_secs(event["t"].as_u64().unwrap());
        let key = string(&event["key"]);
        pool.sweep(now);
        if event["op"] == "lease" {
            let cold = pool.lease(&key) != Lease::Warm;
            if cold {
                started += 1;
                native.insert(key.clone(), started);
            }
            assert_eq!(event["expect"], json!({"cold": cold, "native_index": native[&key]}), "{event}");
        } else {
            pool.release(&key, now);
            assert_eq!(event["expect"], json!(pool.keys().collect::<Vec<_>>()), "{event}");
        }
    }
}
