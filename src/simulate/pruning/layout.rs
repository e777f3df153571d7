//! Made-up conversations: blocks of requests with pauses between them, and sizes from a written-down generator.

use crate::simulate::real;

/// Time between two requests of a block, in seconds.
const REQUEST_SECS: u64 = 20;

/// Size of the text that opens a conversation, in characters.
const FIRST_TEXT: u64 = 2000;

/// Size of the text that opens a later block, in characters.
const BLOCK_TEXT: u64 = 800;

/// One request of a conversation: what it adds, and the pause before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Time since the request before, in seconds.
    pub gap_secs: u64,
    /// Size of the user's text that opens it, in characters; 0 is none.
    pub text: u64,
    /// Size of the answer, in characters.
    pub answer: u64,
    /// Size of the tool result that follows, in characters.
    pub result: u64,
}

/// Blocks of requests with pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Blocks.
    pub blocks: u64,
    /// Requests of each.
    pub requests: u64,
    /// Pause after a block, in seconds.
    pub gap_secs: u64,
}

impl Layout {
    /// The layouts of the table.
    pub const ALL: [Self; 5] = [
        Self { blocks: 8, requests: 14, gap_secs: 1200 },
        Self { blocks: 3, requests: 40, gap_secs: 1200 },
        Self { blocks: 20, requests: 6, gap_secs: 1200 },
        Self { blocks: 8, requests: 14, gap_secs: 100 },
        Self { blocks: 1, requests: 150, gap_secs: 0 },
    ];

    /// Its name in the table.
    pub fn name(self) -> String {
        if self.blocks == 1 {
            return format!("1 x {}", self.requests);
        }
        format!("{} x {}, {} s", self.blocks, self.requests, self.gap_secs)
    }

    /// The conversation of one run number.
    pub fn conversation(self, run: u64) -> Vec<Turn> {
        let mut random = SplitMix64 { state: run };
        let mut turns = Vec::new();
        for block in 0..self.blocks {
            for request in 0..self.requests {
                let (gap_secs, text) = match (block, request) {
                    (0, 0) => (0, FIRST_TEXT),
                    (_, 0) => (REQUEST_SECS + self.gap_secs, BLOCK_TEXT),
                    _ => (REQUEST_SECS, 0),
                };
                let answer = random.between(400, 2000);
                turns.push(Turn { gap_secs, text, answer, result: random.result_size() });
            }
        }
        turns
    }
}

/// A generator of 64 random bits; the constants are those of its authors (Steele, Lea, Flood, 2014).
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Above 0, at most 1.
    fn unit(&mut self) -> f64 {
        real((self.next() >> 11) + 1) / real(1 << 53)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Half of a log-normal size, at most 100,000: most results are short, a few are very long.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "truncated on purpose, and positive")]
    fn result_size(&mut self) -> u64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let normal = radius * (2.0 * std::f64::consts::PI * self.unit()).cos();
        let size = (0.5 * (8.6 + 1.1 * normal).exp()).trunc();
        (size as u64).min(100_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r12_2_the_generator_draws_what_its_authors_say() {
        assert_eq!(SplitMix64 { state: 0 }.next(), 0xe220_a839_7b1d_cdaf);
        let turns = Layout::ALL[0].conversation(0);
        let drawn: Vec<(u64, u64)> = turns[..3].iter().map(|turn| (turn.answer, turn.result)).collect();
        assert_eq!(drawn, [(782, 11_085), (828, 915), (1911, 2774)]);
    }
}
