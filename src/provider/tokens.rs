//! Tokens by arithmetic: a prompt is bytes in cache order, and a cache read is a common prefix.
//!
//! A request is laid out as a prompt cache sees it (tools, system, messages; compact JSON without cache marks). Its
//! size in tokens is bytes / 4 × growth. The longest prefix that it shares with an earlier request that is still warm
//! counts as read, the rest up to the last cache mark as written, and what follows that mark as plain input. The three
//! always add up to the whole prompt.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::request::{Request, blocks, canonical};

/// How many earlier requests of one model are kept to compare with.
const KEPT_REQUESTS: usize = 32;
const FIVE_MINUTES: Duration = Duration::from_secs(5 * 60);
const ONE_HOUR: Duration = Duration::from_secs(60 * 60);

/// Which earlier requests a prompt may share its prefix with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum CacheScope {
    /// The previous request of the same conversation: what a client's own history keeps.
    #[default]
    Conversation,
    /// Any of the last 32 requests of the same model, as a real prefix cache does.
    Model,
}

/// How long a prompt stays cached after the last request that used it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheLife {
    /// For ever.
    #[default]
    Endless,
    /// As its cache marks ask: one hour with `"ttl": "1h"`, else five minutes.
    Marked,
    /// For this long, whatever the marks say.
    Lasting(Duration),
}

/// What a prompt cost, in tokens, in the words of the Messages API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct PromptUsage {
    pub(super) input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation: Written,
}

/// What was written to the cache, by the life time that the marks asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Written {
    pub(super) ephemeral_5m_input_tokens: u64,
    pub(super) ephemeral_1h_input_tokens: u64,
}

/// What comparing a prompt with the earlier ones showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) conversation: String,
    pub(super) prompt_bytes: usize,
    pub(super) common_prefix_bytes: usize,
    pub(super) previous_bytes: Option<usize>,
    pub(super) diverges_at: Option<String>,
    pub(super) any_prefix_bytes: usize,
    pub(super) tokens: PromptUsage,
}

/// The prompts seen so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    previous: HashMap<String, Sent>,
    history: HashMap<String, VecDeque<Sent>>,
}

#[derive(Debug, Clone)]
struct Sent {
    bytes: std::sync::Arc<[u8]>,
    at: Duration,
    life: Option<Duration>,
}

impl Sent {
    fn is_warm(&self, now: Duration) -> bool {
        self.life.is_none_or(|life| now.saturating_sub(self.at) < life)
    }
}

impl Ledger {
    /// Compares a request with the earlier ones and keeps it; `now` is the time since the provider's start.
    pub(super) fn account(
        &mut self,
        request: &Request<'_>,
        growth: f64,
        scope: CacheScope,
        life: CacheLife,
        now: Duration,
    ) -> Account {
        let prompt = Prompt::of(request);
        let conversation = request.conversation();
        let previous = self.previous.get(&conversation);
        let common = previous.map_or(0, |sent| common_prefix(&prompt.bytes, &sent.bytes));
        let history = self.history.entry(request.model().unwrap_or_default().to_owned()).or_default();
        let longest = |warm_only: bool| {
            let considered = history.iter().filter(|sent| !warm_only || sent.is_warm(now));
            considered.map(|sent| common_prefix(&prompt.bytes, &sent.bytes)).max().unwrap_or(0)
        };
        let cached = match scope {
            CacheScope::Conversation if previous.is_some_and(|sent| sent.is_warm(now)) => common,
            CacheScope::Conversation => 0,
            CacheScope::Model => longest(true),
        };
        let account = Account {
            prompt_bytes: prompt.bytes.len(),
            common_prefix_bytes: common,
            previous_bytes: previous.map(|sent| sent.bytes.len()),
            diverges_at: previous.map(|_| prompt.place_of(common)),
            any_prefix_bytes: longest(false),
            tokens: prompt.tokens(cached, growth),
            conversation: conversation.clone(),
        };
        let life = match life {
            CacheLife::Endless => None,
            CacheLife::Marked => Some(prompt.mark.map_or(FIVE_MINUTES, Mark::life)),
            CacheLife::Lasting(life) => Some(life),
        };
        let sent = Sent { bytes: prompt.bytes.into(), at: now, life };
        self.previous.insert(conversation, sent.clone());
        history.push_back(sent);
        if history.len() > KEPT_REQUESTS {
            history.pop_front();
        }
        account
    }
}

/// The size of a request as `count_tokens` reports it.
pub(super) fn count(request: &Request<'_>, growth: f64) -> u64 {
    scaled(Prompt::of(request).bytes.len(), growth)
}

/// A request laid out in cache order.
struct Prompt {
    bytes: Vec<u8>,
    /// Where each block ends.
    ends: Vec<(Place, usize)>,
    /// The end of the last block with a cache mark.
    marked_to: usize,
    /// The longest life that a mark asked for.
    mark: Option<Mark>,
}

impl Prompt {
    fn of(request: &Request<'_>) -> Self {
        let mut prompt = Self { bytes: Vec::new(), ends: Vec::new(), marked_to: 0, mark: None };
        for (index, tool) in request.list("tools").iter().enumerate() {
            prompt.push(Place::Tool(index), "", tool);
        }
        for (index, block) in blocks(request.field("system")).iter().enumerate() {
            prompt.push(Place::System(index), "", block);
        }
        for (index, message) in request.list("messages").iter().enumerate() {
            let role = message["role"].as_str().unwrap_or("?");
            for (part, block) in blocks(&message["content"]).iter().enumerate() {
                prompt.push(Place::Message(index, part), role, block);
            }
        }
        prompt
    }

    fn push(&mut self, place: Place, role: &str, block: &Value) {
        if !role.is_empty() {
            self.bytes.extend_from_slice(role.as_bytes());
            self.bytes.push(b':');
        }
        self.bytes.extend_from_slice(&canonical(block));
        self.ends.push((place, self.bytes.len()));
        let mark = longest_mark(block);
        if mark.is_some() {
            self.marked_to = self.bytes.len();
            self.mark = self.mark.max(mark);
        }
    }

    /// The block, and the byte in it, that lies at `offset`; `none` at the end of the prompt.
    fn place_of(&self, offset: usize) -> String {
        let mut start = 0;
        for (place, end) in &self.ends {
            if offset < *end {
                return format!("{place}+{}", offset - start);
            }
            start = *end;
        }
        "none".to_owned()
    }

    fn tokens(&self, cached: usize, growth: f64) -> PromptUsage {
        let read = scaled(cached.min(self.marked_to), growth);
        let marked = scaled(self.marked_to, growth);
        let written = marked - read;
        let (five_minutes, one_hour) = match self.mark {
            Some(Mark::OneHour) => (0, written),
            Some(Mark::FiveMinutes) | None => (written, 0),
        };
        PromptUsage {
            input_tokens: scaled(self.bytes.len(), growth) - marked,
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
            cache_creation: Written { ephemeral_5m_input_tokens: five_minutes, ephemeral_1h_input_tokens: one_hour },
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Tool(usize),
    System(usize),
    Message(usize, usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(index) => write!(f, "tools[{index}]"),
            Self::System(index) => write!(f, "system[{index}]"),
            Self::Message(index, part) => write!(f, "messages[{index}].content[{part}]"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    FiveMinutes,
    OneHour,
}

impl Mark {
    fn life(self) -> Duration {
        match self {
            Self::FiveMinutes => FIVE_MINUTES,
            Self::OneHour => ONE_HOUR,
        }
    }
}

fn longest_mark(value: &Value) -> Option<Mark> {
    match value {
        Value::Object(map) => {
            let own = map.get("cache_control").map(|mark| match mark["ttl"].as_str() {
                Some("1h") => Mark::OneHour,
                Some(_) | None => Mark::FiveMinutes,
            });
            map.values().map(longest_mark).fold(own, Option::max)
        }
        Value::Array(list) => list.iter().map(longest_mark).fold(None, Option::max),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The length of the longest common prefix: whole pages first, since most of a prompt is the same as before.
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    const PAGE: usize = 4096;
    let pages = left.chunks_exact(PAGE).zip(right.chunks_exact(PAGE)).take_while(|(a, b)| a == b).count() * PAGE;
    pages + left[pages..].iter().zip(&right[pages..]).take_while(|(a, b)| a == b).count()
}

/// Bytes as tokens, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "prompts are far below 2^52 bytes, and growth is checked to be positive and finite"
)]
fn scaled(bytes: usize, growth: f64) -> u64 {
    (bytes as f64 / 4.0 * growth) as u64
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn account(ledger: &mut Ledger, body: &Value, life: CacheLife, now: u64) -> Account {
        let headers = HeaderMap::new();
        let request = Request::new(body, &headers);
        ledger.account(&request, 4.0, CacheScope::Conversation, life, Duration::from_secs(now))
    }

    /// Two messages; the mark is on the last one.
    fn body(last: &str, ttl: Option<&str>) -> Value {
        let mark = ttl.map_or(json!({"type": "ephemeral"}), |ttl| json!({"type": "ephemeral", "ttl": ttl}));
        json!({"model": "m", "system": "s", "messages": [
            {"role": "user", "content": "first"},
            {"role": "user", "content": [{"type": "text", "text": last, "cache_control": mark}]},
        ]})
    }

    fn tokens(input: u64, five_minutes: u64, one_hour: u64, read: u64) -> PromptUsage {
        PromptUsage {
            input_tokens: input,
            cache_creation_input_tokens: five_minutes + one_hour,
            cache_read_input_tokens: read,
            cache_creation: Written { ephemeral_5m_input_tokens: five_minutes, ephemeral_1h_input_tokens: one_hour },
        }
    }

    #[test]
    fn a_second_request_reads_what_it_shares_with_the_first() {
        let mut ledger = Ledger::default();
        let first = account(&mut ledger, &body("aaaa", None), CacheLife::Endless, 0);
        let size = r#"{"type":"text","text":"s"}user:{"type":"text","text":"first"}user:{"type":"text","text":"aaaa"}"#;
        assert_eq!((first.prompt_bytes, first.previous_bytes, first.diverges_at), (size.len(), None, None));
        assert_eq!(first.tokens, tokens(0, size.len() as u64, 0, 0));

        let second = account(&mut ledger, &body("aabb", None), CacheLife::Endless, 0);
        let common = size.len() - r#"aa"}"#.len();
        assert_eq!(second.common_prefix_bytes, common);
        assert_eq!(second.diverges_at.as_deref(), Some("messages[1].content[0]+30"));
        assert_eq!(second.tokens, tokens(0, 4, 0, common as u64));

        let third = account(&mut ledger, &body("aabb", None), CacheLife::Endless, 0);
        assert_eq!(third.diverges_at.as_deref(), Some("none"));
        assert_eq!(third.tokens, tokens(0, 0, 0, size.len() as u64));
    }

    #[test]
    fn what_follows_the_last_mark_is_plain_input_and_without_a_mark_all_is() {
        let mut ledger = Ledger::default();
        let mut unmarked = body("aaaa", None);
        unmarked["messages"][1]["content"][0].as_object_mut().unwrap().remove("cache_control");
        let plain = account(&mut ledger, &unmarked, CacheLife::Endless, 0);
        assert_eq!(plain.tokens, tokens(plain.prompt_bytes as u64, 0, 0, 0));

        let mut longer = body("aaaa", Some("1h"));
        longer["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "tail"}));
        let marked = account(&mut ledger, &longer, CacheLife::Endless, 0);
        let tail = r#"user:{"type":"text","text":"tail"}"#.len();
        assert_eq!(marked.tokens, tokens(tail as u64, 0, 0, (marked.prompt_bytes - tail) as u64));
    }

    #[test]
    fn a_cache_goes_cold_at_the_end_of_its_life_and_stays_warm_while_it_is_used() {
        let cold_at = |life: CacheLife, ttl: Option<&str>, times: &[u64]| {
            let mut ledger = Ledger::default();
            let read = |ledger: &mut Ledger, now| account(ledger, &body("a", ttl), life, now).tokens;
            times.iter().map(|now| read(&mut ledger, *now).cache_read_input_tokens == 0).collect::<Vec<_>>()
        };
        assert_eq!(cold_at(CacheLife::Marked, None, &[0, 299, 598, 898]), [true, false, false, true]);
        assert_eq!(cold_at(CacheLife::Marked, Some("1h"), &[0, 3599, 7199]), [true, false, true]);
        assert_eq!(cold_at(CacheLife::Lasting(Duration::from_secs(9)), Some("1h"), &[0, 8, 17]), [true, false, true]);
        assert_eq!(cold_at(CacheLife::Endless, None, &[0, 1_000_000]), [true, false]);
    }

    #[test]
    fn a_common_prefix_ends_inside_a_page_at_its_border_or_with_the_shorter_text() {
        let text = vec![7; 10_000];
        for at in [0, 1, 4095, 4096, 4097, 8192, 9_999] {
            let mut other = text.clone();
            other[at] = 8;
            assert_eq!(common_prefix(&text, &other), at);
            assert_eq!(common_prefix(&text[..at], &text), at);
        }
    }

    #[test]
    fn by_model_another_conversation_lends_its_prefix() {
        let headers = HeaderMap::new();
        let read_by_second = |scope| {
            let mut ledger = Ledger::default();
            let (first, second) = (body("a", None), {
                let mut other = body("a", None);
                other["messages"][0]["content"] = json!("second");
                other
            });
            let mut ask = |body: &Value| {
                ledger.account(&Request::new(body, &headers), 4.0, scope, CacheLife::Endless, Duration::ZERO)
            };
            ask(&first);
            ask(&second)
        };
        let shared = r#"{"type":"text","text":"s"}user:{"type":"text","text":""#.len();
        let by_model = read_by_second(CacheScope::Model);
        assert_eq!((by_model.previous_bytes, by_model.any_prefix_bytes), (None, shared));
        assert_eq!(by_model.tokens.cache_read_input_tokens, shared as u64);
        assert_eq!(read_by_second(CacheScope::Conversation).tokens.cache_read_input_tokens, 0);
    }
}
