//! A readable digest of a session: prompts, texts of the agent, tools with the first line of arguments and result.
//!
//! It is what a fresh session may read of the one before it. The newest 64 KiB are kept.

use std::collections::VecDeque;

/// Bytes that are kept.
pub const MAX_DIGEST_BYTES: usize = 64 * 1024;

/// Characters of one text that are kept: a digest of one long text would be no digest.
const MAX_TEXT_CHARS: usize = 2000;

/// The digest of one session while it grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    entries: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

impl Digest {
    /// Goes on with a digest that was rendered before, as one entry.
    pub fn resume(text: &str) -> Self {
        let mut digest = Self::default();
        let from = text.len().saturating_sub(MAX_DIGEST_BYTES / 2);
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        if from < text.len() {
            digest.push(text[from..].to_owned());
        }
        digest
    }

    /// Adds a prompt that was sent.
    pub fn prompt(&mut self, phase: &str, text: &str) {
        self.push(format!("## prompt, {phase}\n\n{}\n\n", cut(text)));
    }

    /// Adds a text of the agent.
    pub fn text(&mut self, text: &str) {
        self.push(format!("{}\n\n", cut(text)));
    }

    /// Adds a tool call.
    pub fn tool(&mut self, tool: &str, arguments: &str) {
        self.push(format!("- {tool}: {}\n", first_line(arguments)));
    }

    /// Adds the result of the last tool call.
    pub fn result(&mut self, ok: bool, line: &str) {
        let word = if ok { "result" } else { "failed" };
        self.push(format!("  {word}: {}\n", first_line(line)));
    }

    /// The digest as a file of Markdown.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(self.bytes + 64);
        if self.dropped > 0 {
            text += &format!("(the oldest {} entries are left out)\n\n", self.dropped);
        }
        self.entries.iter().for_each(|entry| text.push_str(entry));
        text
    }

    fn push(&mut self, entry: String) {
        self.bytes += entry.len();
        self.entries.push_back(entry);
        while self.bytes > MAX_DIGEST_BYTES - 64 {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((at, _)) => format!("{} … [{} more characters]", &text[..at], text[at..].chars().count()),
        None => text.to_owned(),
    }
}

fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.char_indices().nth(200).map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_digest_reads_as_a_short_story() {
        let mut digest = Digest::default();
        digest.prompt("02_build", "add a route");
        digest.text("I will look first.");
        digest.tool("bash", "ls\nrm x");
        digest.result(true, "src\ntest");
        assert_eq!(
            digest.render(),
            "## prompt, 02_build\n\nadd a route\n\nI will look first.\n\n- bash: ls\n  result: src\n"
        );
    }

    #[test]
    fn r6_6_the_newest_64_kib_are_kept() {
        let mut digest = Digest::default();
        for number in 0..5000 {
            digest.text(&format!("text {number} {}", "é".repeat(20)));
        }
        digest.text(&"x".repeat(100_000));
        let text = digest.render();
        assert!(text.len() <= MAX_DIGEST_BYTES, "{}", text.len());
        assert!(text.starts_with("(the oldest "), "{}", &text[..60]);
        assert!(text.ends_with(&format!("{} … [98000 more characters]\n\n", "x".repeat(2000))));
        assert!(text.contains("text 4999 "));
        let resumed = Digest::resume(&text);
        assert!(resumed.render().ends_with("more characters]\n\n"));
    }
}
