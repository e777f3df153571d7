//! Cuts a stream of bytes into lines at byte 0x0A, in bounded memory and in time linear in bytes.
//!
//! It does no I/O: a reader puts bytes into [`Lines::space`], says how many with [`Lines::filled`] and
//! takes lines out. The same cutting serves the output of a child and a log on disk. Lines are slices
//! of the one buffer, so nothing is copied on the way. A line over the limit is counted and thrown
//! away, and cutting goes on behind it. Nothing is decoded: only 0x0A ends a line, whatever Unicode
//! has to say about line ends.

use std::ops::Range;

/// Free room that [`Lines::space`] offers at least: what a pipe holds by default on Linux, so that one
/// read can empty it.
const READ_BYTES: usize = 64 * 1024;

/// A buffer over this size is given back once its long line was taken.
const KEEP_BYTES: usize = 4 * READ_BYTES;

/// One line, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawLine<'a> {
    /// A line within the limit.
    Line(&'a [u8]),
    /// A line over the limit, thrown away.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// Where a taken line lies: good for [`Lines::get`] until the next call of [`Lines::space`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its bytes in the buffer.
    Line(Range<usize>),
    /// It was thrown away.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// A buffer that bytes go into and lines come out of.
#[derive(Debug)]
pub struct Lines {
    /// All of it initialised; the bytes not yet taken are `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// No newline lies before this place, so that a long line is searched once.
    searched: usize,
    limit: usize,
    /// Bytes thrown away of a line that is over the limit and has not ended yet.
    dropped: u64,
}

impl Lines {
    /// A cutter for lines of at most `limit` bytes. It never holds more than that and one read.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, searched: 0, limit, dropped: 0 }
    }

    /// Room for the next bytes, at least 64 KiB. Take all lines first, or the buffer grows.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.searched -= self.start;
        self.end -= self.start;
        self.start = 0;
        let needed = self.end + READ_BYTES;
        if self.buffer.len() < needed {
            let doubled = (self.buffer.len() * 2).min(self.limit + READ_BYTES);
            self.resize(doubled.max(needed).max(2 * READ_BYTES));
        } else if self.buffer.len() > KEEP_BYTES && needed <= KEEP_BYTES {
            self.resize(KEEP_BYTES);
        }
        &mut self.buffer[self.end..]
    }

    fn resize(&mut self, size: usize) {
        self.buffer.reserve_exact(size.saturating_sub(self.buffer.len()));
        self.buffer.resize(size, 0);
        self.buffer.shrink_to(size);
    }

    /// Says that the first `bytes` of the space now hold input, and returns them.
    pub fn filled(&mut self, bytes: usize) -> &[u8] {
        let from = self.end;
        self.end = (self.end + bytes).min(self.buffer.len());
        &self.buffer[from..self.end]
    }

    /// The next line whose newline has come.
    pub fn take_line(&mut self) -> Option<RawLine<'_>> {
        let taken = self.take()?;
        Some(self.get(&taken))
    }

    /// Whether there is a line whose newline has come.
    pub(crate) fn has_line(&self) -> bool {
        memchr::memchr(b'\n', &self.buffer[self.searched..self.end]).is_some()
    }

    /// Like [`Lines::take_line`], without borrowing.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        if let Some(ahead) = memchr::memchr(b'\n', &self.buffer[self.searched..self.end]) {
            let line = self.start..self.searched + ahead;
            self.start = line.end + 1;
            self.searched = self.start;
            return Some(self.judge(line));
        }
        self.searched = self.end;
        if self.end - self.start > self.limit {
            self.dropped += (self.end - self.start) as u64;
            self.start = self.end;
        }
        None
    }

    /// What stands behind the last newline, once the input has ended, without borrowing; `None` when nothing does.
    pub(crate) fn take_end(&mut self) -> Option<Taken> {
        let line = self.start..self.end;
        if line.is_empty() && self.dropped == 0 {
            return None;
        }
        self.start = self.end;
        self.searched = self.end;
        Some(self.judge(line))
    }

    fn judge(&mut self, line: Range<usize>) -> Taken {
        let bytes = std::mem::take(&mut self.dropped) + line.len() as u64;
        if bytes > self.limit as u64 { Taken::TooLong { bytes } } else { Taken::Line(line) }
    }

    /// The line that was taken last.
    pub(crate) fn get(&self, taken: &Taken) -> RawLine<'_> {
        match taken {
            Taken::Line(range) => RawLine::Line(&self.buffer[range.clone()]),
            Taken::TooLong { bytes } => RawLine::TooLong { bytes: *bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Owned form of a line, to compare.
    #[derive(Debug, PartialEq)]
    enum Got {
        Line(Vec<u8>),
        TooLong(u64),
    }

    impl From<RawLine<'_>> for Got {
        fn from(line: RawLine<'_>) -> Self {
            match line {
                RawLine::Line(bytes) => Self::Line(bytes.to_vec()),
                RawLine::TooLong { bytes } => Self::TooLong(bytes),
            }
        }
    }

    fn cut<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Vec<Got> {
        let mut lines = Lines::new(limit);
        let mut got = Vec::new();
        for chunk in chunks {
            lines.space()[..chunk.len()].copy_from_slice(chunk);
            assert_eq!(lines.filled(chunk.len()), chunk);
            while let Some(line) = lines.take_line() {
                got.push(line.into());
            }
        }
        got.extend(lines.take_end().map(|rest| Got::from(lines.get(&rest))));
        got
    }

    /// What the cutter should say, from the whole input at once.
    fn expected(input: &[u8], limit: usize) -> Vec<Got> {
        let mut parts: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        if parts.last().is_some_and(|last| last.is_empty()) {
            parts.pop();
        }
        let got = |part: &[u8]| match part.len() {
            long if long > limit => Got::TooLong(long as u64),
            _ => Got::Line(part.to_vec()),
        };
        parts.into_iter().map(got).collect()
    }

    proptest! {
        #[test]
        fn any_chunking_of_bytes_gives_the_same_lines(
            input in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..2000),
            cuts in prop::collection::vec(0_usize..2000, 0..40),
            limit in 1_usize..200,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.push(0);
            cuts.push(input.len());
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &input[pair[0]..pair[1]]);
            prop_assert_eq!(cut(chunks, limit), expected(&input, limit));
        }
    }

    #[test]
    fn a_line_at_the_limit_is_kept_and_one_byte_more_is_counted() {
        assert_eq!(
            cut([b"abc\nabcd\nab".as_slice()], 3),
            [Got::Line(b"abc".to_vec()), Got::TooLong(4), Got::Line(b"ab".to_vec())]
        );
    }

    #[test]
    fn a_long_line_leaves_no_more_than_the_limit_and_one_read_in_memory() {
        const LIMIT: usize = 1024 * 1024;
        let mut lines = Lines::new(LIMIT);
        let mut peak = 0;
        for _ in 0..200 {
            let room = lines.space();
            room.fill(b'x');
            let bytes = room.len();
            lines.filled(bytes);
            assert_eq!(lines.take_line(), None);
            peak = peak.max(lines.buffer.capacity());
        }
        assert!(peak <= LIMIT + 2 * READ_BYTES, "{peak}");
        lines.space()[..4].copy_from_slice(b"\nok\n");
        lines.filled(4);
        assert!(matches!(lines.take_line(), Some(RawLine::TooLong { bytes }) if bytes > 10 * LIMIT as u64));
        assert_eq!(lines.take_line(), Some(RawLine::Line(b"ok")));
        lines.space();
        assert_eq!(lines.buffer.capacity(), KEEP_BYTES);
    }
}
