//! Requests of one conversation of claude or pi, from the stream that it prints or the session file that it keeps.
//!
//! claude has one line a content block, with the id and the usage of its message (2.1.332); its session file says when
//! each was written, its stream does not, and then no pauses are known. pi has one line a message, with the time, in
//! both (1.6.0: `message_end` in the stream, `message` in the file).

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Replay;
use crate::economy::prices::CacheLifetime;
use crate::event::Usage;
use crate::simulate::pruning::layout::Turn;
use crate::simulate::rotation::recorded::{self, Recorded};
use crate::simulate::{pruning, rotation::recorded::replay};

/// One request as far as a recording shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Request {
    /// When it answered, in milliseconds since 1970.
    pub(super) at_ms: Option<i64>,
    /// Counts prompts; only equality matters.
    pub(super) phase: u32,
    /// Counts sessions; only equality matters.
    pub(super) session: u32,
    pub(super) usage: Option<Usage>,
    /// Characters of the prompt that it is the first to answer.
    pub(super) text: u64,
    /// Characters of its answer.
    pub(super) answer: u64,
    /// Characters of the tool results that follow it.
    pub(super) result: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    timestamp: Option<DateTime<Utc>>,
    #[serde(borrow, default, alias = "sessionId")]
    session_id: Cow<'a, str>,
    #[serde(default, rename = "isSidechain")]
    side_chain: bool,
    #[serde(borrow, default)]
    parent_tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    /// Of pi's messages alone.
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(default)]
    timestamp: Option<i64>,
    #[serde(borrow, default, alias = "responseId")]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default, alias = "input_tokens")]
    input: Option<u64>,
    #[serde(default, alias = "output_tokens")]
    output: Option<u64>,
    #[serde(default, alias = "cache_read_input_tokens", alias = "cacheRead")]
    cache_read: Option<u64>,
    #[serde(default, alias = "cache_creation_input_tokens", alias = "cacheWrite")]
    cache_write: Option<u64>,
    #[serde(default, rename = "cacheWrite1h")]
    cache_write_1h: Option<u64>,
    #[serde(default)]
    cache_creation: Option<Written>,
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default, alias = "arguments")]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Tokens {
    fn usage(&self) -> Option<Usage> {
        let hour = self.cache_creation.as_ref().and_then(|written| written.ephemeral_1h_input_tokens);
        let usage = Usage {
            input: self.input.unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write: self.cache_write.unwrap_or(0),
            cache_write_1h: self.cache_write_1h.or(hour).unwrap_or(0),
        };
        (usage.context() > 0).then_some(usage)
    }
}

/// Reads the requests of the main conversation. Lines of another kind are passed over.
pub(super) fn read(text: &[u8]) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let (mut phase, mut session, mut last_session, mut prompt) = (0, 0, String::new(), 0);
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { continue };
        let Some(message) = line.message.filter(|_| !line.side_chain && line.parent_tool_use_id.is_none()) else {
            continue;
        };
        if !line.session_id.is_empty() && line.session_id != last_session {
            session += u32::from(!last_session.is_empty());
            last_session = line.session_id.into_owned();
        }
        let (chars, results) = sizes(message.content);
        let speaker = match line.kind.as_ref() {
            "message_end" | "message" => message.role,
            _ => line.kind,
        };
        match speaker.as_ref() {
            "user" => {
                if chars > 0 {
                    phase += 1;
                    prompt += chars;
                }
                if let Some(last) = requests.last_mut() {
                    last.result += results;
                }
            }
            "toolResult" => {
                if let Some(last) = requests.last_mut() {
                    last.result += chars;
                }
            }
            "assistant" if message.model != "<synthetic>" => {
                let next = requests.len();
                let at =
                    if message.id.is_empty() { next } else { *known.entry(message.id.into_owned()).or_insert(next) };
                if at == requests.len() {
                    let text = std::mem::take(&mut prompt);
                    requests.push(Request { phase, session, text, ..Request::default() });
                }
                let request = &mut requests[at];
                let at_ms = message.timestamp.or(line.timestamp.map(|at| at.timestamp_millis()));
                request.at_ms = request.at_ms.or(at_ms);
                request.usage = message.usage.and_then(|tokens| tokens.usage()).or(request.usage);
                request.answer += chars;
            }
            _ => {}
        }
    }
    requests
}

/// Characters of a content: of tool results, and of everything else.
fn sizes(content: Option<&RawValue>) -> (u64, u64) {
    let Some(content) = content else { return (0, 0) };
    if let Ok(text) = serde_json::from_str::<Cow<'_, str>>(content.get()) {
        return (text.chars().count() as u64, 0);
    }
    let blocks: Vec<Block<'_>> = serde_json::from_str(content.get()).unwrap_or_default();
    let (mut chars, mut results) = (0, 0);
    for block in blocks {
        let texts = [block.text, block.thinking].into_iter().flatten().map(|text| text.chars().count() as u64);
        chars += texts.sum::<u64>() + block.input.map_or(0, |input| input.get().chars().count() as u64);
        if block.kind == "tool_result" {
            let (text, inner) = sizes(block.content);
            results += text + inner;
        }
    }
    (chars, results)
}

/// How long the cache was asked to last.
pub(super) fn lifetime(usages: impl IntoIterator<Item = Usage>) -> CacheLifetime {
    let hour = usages.into_iter().any(|usage| usage.cache_write_1h > 0);
    if hour { CacheLifetime::OneHour } else { CacheLifetime::FiveMinutes }
}

/// The conversation under other rules of rotation.
pub(super) fn rotation(requests: &[Request]) -> Replay {
    let timed = requests.iter().all(|request| request.at_ms.is_some());
    let recorded: Vec<Recorded> = requests
        .iter()
        .filter_map(|request| {
            let usage = request.usage?;
            let at_ms = if timed { request.at_ms? } else { 0 };
            Some(recorded::Recorded {
                at_ms,
                phase: request.phase,
                session: request.session,
                context: usage.context(),
                usage: Some(usage),
            })
        })
        .collect();
    let lifetime = lifetime(recorded.iter().filter_map(|request| request.usage));
    let mut left_out = Vec::new();
    if !timed {
        left_out.push("The file has no times: every request is taken for a warm one.".to_owned());
    }
    if recorded.len() < requests.len() {
        left_out.push(format!("{} requests without usage are left out.", requests.len() - recorded.len()));
    }
    let agents = replay(&recorded, lifetime, None).map(|simulation| ("session".to_owned(), simulation));
    Replay { agents: agents.into_iter().collect(), left_out }
}

/// The conversation under other rules of pruning.
pub(super) fn pruning(requests: &[Request]) -> Replay {
    let timed = requests.iter().all(|request| request.at_ms.is_some());
    let mut left_out = Vec::new();
    if !timed {
        left_out.push("The file has no times: no pauses are known.".to_owned());
    }
    let agents = (!requests.is_empty()).then(|| ("session".to_owned(), pruning::replay(&turns(requests))));
    Replay { agents: agents.into_iter().collect(), left_out }
}

/// Requests as the simulation of pruning takes them.
pub(super) fn turns(requests: &[Request]) -> Vec<Turn> {
    let mut before = None;
    let turn = |request: &Request| {
        let gap_ms = before.zip(request.at_ms).map_or(0, |(before, now): (i64, i64)| now.saturating_sub(before));
        before = request.at_ms.or(before);
        let gap_secs = u64::try_from(gap_ms / 1000).unwrap_or(0);
        Turn { gap_secs, text: request.text, answer: request.answer, result: request.result }
    };
    requests.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    const SESSION: &str = r#"
{"type":"user","timestamp":"2026-11-30T12:00:00.000Z","sessionId":"s1","message":{"role":"user","content":"do it"}}
{"type":"assistant","timestamp":"2026-11-30T12:00:05.000Z","sessionId":"s1","message":{"id":"m1","model":"m","content":[{"type":"thinking","thinking":"hm"}],"usage":{"input_tokens":4,"cache_creation_input_tokens":100}}}
{"type":"assistant","timestamp":"2026-11-30T12:00:06.000Z","sessionId":"s1","message":{"id":"m1","model":"m","content":[{"type":"tool_use","id":"t","name":"Read","input":{"a":1}}],"usage":{"input_tokens":4,"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_1h_input_tokens":100}}}}
{"type":"assistant","isSidechain":true,"sessionId":"s1","message":{"id":"x","model":"m","content":[],"usage":{"input_tokens":9}}}
{"type":"user","timestamp":"2026-11-30T12:00:07.000Z","sessionId":"s1","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"12345"}]}]}}
no json
{"type":"assistant","timestamp":"2026-11-30T12:10:05.000Z","sessionId":"s1","message":{"id":"m2","model":"m","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":4,"cache_read_input_tokens":104}}}
{"type":"assistant","sessionId":"s1","message":{"id":"z","model":"<synthetic>","content":[{"type":"text","text":"error"}]}}
"#;

    #[test]
    fn a_session_is_read_once_a_message_and_without_side_chains() {
        let usage = |input, cache_read, cache_write, cache_write_1h| {
            Some(Usage { input, output: 0, cache_read, cache_write, cache_write_1h })
        };
        let requests = read(SESSION.as_bytes());
        let first = Request {
            at_ms: Some(1_796_040_005_000),
            phase: 1,
            session: 0,
            usage: usage(4, 0, 100, 100),
            text: 5,
            answer: 9,
            result: 5,
        };
        let second = Request {
            at_ms: Some(1_796_040_605_000),
            usage: usage(4, 104, 0, 0),
            text: 0,
            answer: 4,
            result: 0,
            ..first.clone()
        };
        assert_eq!(requests, [first, second]);
        assert_eq!(lifetime(requests.iter().filter_map(|request| request.usage)), CacheLifetime::OneHour);
        let gaps: Vec<u64> = turns(&requests).iter().map(|turn| turn.gap_secs).collect();
        assert_eq!(gaps, [0, 600]);
    }

    #[test]
    fn a_stream_and_a_session_of_pi_are_read_a_message_a_line() {
        let lines = r#"
{"type":"KIND","message":{"role":"system","content":"you are"}}
{"type":"KIND","message":{"role":"user","content":[{"type":"text","text":"do it"}],"timestamp":1000}}
{"type":"KIND","message":{"role":"assistant","content":[{"type":"text","text":"I"},{"type":"toolCall","id":"t","name":"bash","arguments":{"a":1}}],"usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cacheWrite1h":4},"responseId":"m1","timestamp":2000}}
{"type":"turn_end","message":{"role":"assistant","content":[{"type":"text","text":"again"}]}}
{"type":"KIND","message":{"role":"toolResult","toolCallId":"t","content":[{"type":"text","text":"12345"}],"timestamp":3000}}
{"type":"KIND","message":{"role":"assistant","content":[],"usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"stopReason":"error","timestamp":4000}}"#;
        let usage = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cache_write_1h: 4 };
        let first =
            Request { at_ms: Some(2000), phase: 1, session: 0, usage: Some(usage), text: 5, answer: 8, result: 5 };
        let failed = Request { at_ms: Some(4000), phase: 1, ..Request::default() };
        for kind in ["message_end", "message"] {
            assert_eq!(read(lines.replace("KIND", kind).as_bytes()), [first.clone(), failed.clone()], "{kind}");
        }
    }

    #[test]
    fn without_times_it_is_said_that_none_are_known() {
        let stream = SESSION.replace("timestamp", "other");
        let replay = rotation(&read(stream.as_bytes()));
        assert_eq!(replay.agents.len(), 1);
        assert_eq!(replay.left_out, ["The file has no times: every request is taken for a warm one."]);
        assert!(rotation(&read(b"nothing")).agents.is_empty());
    }
}
