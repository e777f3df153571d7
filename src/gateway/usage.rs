//! What an answer says about the size of its request, read from a copy as it passes.
//!
//! Of a stream only `message_start`, `message_delta` and `message_stop` are looked into (the Messages API of November
//! 2026); any other answer is read as one JSON object at its end.

use std::borrow::Cow;

use serde::Deserialize;

/// Bytes of an answer that is no stream, and of one line of a stream, that are kept to be read. Longer ones pass unread.
const MAX_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Reads the copy of an answer.
#[derive(Debug)]
pub(super) struct Reader {
    form: Form,
    /// A line that has not ended yet, or all of an object.
    kept: Vec<u8>,
    /// Whether what is kept has lost its rest.
    too_long: bool,
    tokens: Option<u64>,
    stopped: bool,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Events, a line of JSON each.
    Events,
    /// One JSON object.
    Object,
    /// Something that is not read: its end is all that counts.
    Opaque,
}

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default, rename = "input_tokens")]
    input: Option<u64>,
    #[serde(default, rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(default, rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
}

impl Tokens {
    /// Input with its cached parts; `None` when the answer says nothing.
    fn context(&self) -> Option<u64> {
        let parts = [self.input, self.cache_read, self.cache_write];
        let sum = parts.into_iter().flatten().fold(0, u64::saturating_add);
        (sum > 0).then_some(sum)
    }
}

impl Reader {
    /// A reader at the start of an answer.
    pub(super) fn new(form: Form) -> Self {
        Self { form, kept: Vec::new(), too_long: false, tokens: None, stopped: false }
    }

    /// Takes in the next chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        match self.form {
            Form::Events => self.push_lines(chunk),
            Form::Object => self.keep(chunk),
            Form::Opaque => {}
        }
    }

    fn push_lines(&mut self, mut rest: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if self.kept.is_empty() && !self.too_long {
                self.line(line);
                continue;
            }
            self.keep(line);
            let line = std::mem::take(&mut self.kept);
            if !std::mem::take(&mut self.too_long) {
                self.line(&line);
            }
        }
        self.keep(rest);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.too_long || self.kept.len() + bytes.len() > MAX_KEPT_BYTES {
            self.too_long = true;
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        // Most lines are pieces of text, and this finds out without parsing them.
        if memchr::memmem::find(data, b"message_").is_none() {
            return;
        }
        let Ok(told) = serde_json::from_slice::<Told<'_>>(data) else { return };
        let usage = match told.kind.as_ref() {
            "message_start" => told.message.and_then(|message| message.usage),
            "message_delta" => told.usage,
            "message_stop" => {
                self.stopped = true;
                None
            }
            _ => None,
        };
        self.tokens = usage.and_then(|usage| usage.context()).or(self.tokens);
    }

    /// Whether a stream has said that it is whole.
    pub(super) fn is_whole(&self) -> bool {
        self.stopped
    }

    /// The answer has reached its end: whether it is whole.
    pub(super) fn end(&mut self) -> bool {
        match self.form {
            Form::Events => self.stopped,
            Form::Object => {
                let told = serde_json::from_slice::<Told<'_>>(&self.kept).ok();
                self.tokens = told.and_then(|told| told.usage).and_then(|usage| usage.context());
                true
            }
            Form::Opaque => true,
        }
    }

    /// Input tokens of the request as the answer has them, cached ones included; `None` is unknown.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: message_start\n\
        data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":4,\"cache_read_input_tokens\":100,\"cache_creation_input_tokens\":20}}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"message_stop\"}}\n\n\
        data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":5}}\n\n\
        data: {\"type\":\"message_stop\"}\n\n";

    #[test]
    fn any_chunking_of_a_stream_gives_the_same_reading() {
        for size in 1..STREAM.len() {
            let mut reader = Reader::new(Form::Events);
            STREAM.as_bytes().chunks(size).for_each(|chunk| reader.push(chunk));
            assert_eq!((reader.is_whole(), reader.tokens(), reader.end()), (true, Some(124), true), "{size}");
        }
    }

    #[test]
    fn a_stream_without_its_stop_is_not_whole() {
        let mut reader = Reader::new(Form::Events);
        reader.push(STREAM.strip_suffix("data: {\"type\":\"message_stop\"}\n\n").unwrap().as_bytes());
        assert_eq!((reader.is_whole(), reader.tokens(), reader.end()), (false, Some(124), false));
    }

    #[test]
    fn an_object_is_read_at_its_end() {
        let mut reader = Reader::new(Form::Object);
        reader.push(br#"{"type":"message","usage":{"input_tokens":7,"#);
        reader.push(br#""cache_read_input_tokens":null}}"#);
        assert_eq!((reader.end(), reader.tokens()), (true, Some(7)));
    }

    #[test]
    fn a_line_that_is_too_long_or_no_json_is_passed_over() {
        let mut reader = Reader::new(Form::Events);
        reader.push(b"data: {\"type\":\"message_start\",\"text\":\"");
        reader.push(&vec![b'x'; MAX_KEPT_BYTES]);
        reader.push(b"\"}\ndata: message_stop\ndata: {\"type\":\"message_stop\"}\n");
        assert_eq!((reader.end(), reader.tokens()), (true, None));
    }
}
