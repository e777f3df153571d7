//! Reading a file of lines from its end, by blocks, without what lies before.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

/// What is read at first; doubled while no line end is found in it, so that long lines take linear time.
const BLOCK_BYTES: u64 = 64 * 1024;

/// A longer line is passed over, in bytes. It is no record anyway.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Where the last `count` lines that `counts` says yes to begin; 0 when there are fewer.
///
/// # Errors
///
/// When the file cannot be read.
pub fn offset_of_last(file: &mut File, count: usize, mut counts: impl FnMut(&[u8]) -> bool) -> io::Result<u64> {
    let mut left = count;
    if left == 0 {
        return file.seek(SeekFrom::End(0));
    }
    let mut start = 0;
    visit(file, &mut |offset, line| {
        if counts(line) {
            left -= 1;
        }
        if left == 0 {
            start = offset;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(start)
}

/// Shows the lines from the last to the first, each with the byte where it begins and without its newline.
pub(super) fn visit(
    file: &mut (impl Read + Seek),
    each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut end = file.seek(SeekFrom::End(0))?;
    if end == 0 {
        return Ok(());
    }
    let mut block = Vec::new();
    load(file, end - 1, end, &mut block)?;
    if block == b"\n" {
        end -= 1;
    }
    let mut size = BLOCK_BYTES;
    let mut passing_over = false;
    loop {
        let from = end.saturating_sub(size);
        load(file, from, end, &mut block)?;
        let mut rest = block.as_slice();
        while let Some(newline) = memchr::memrchr(b'\n', rest) {
            let begin = from + newline as u64 + 1;
            if !std::mem::take(&mut passing_over) && each(begin, &rest[newline + 1..]).is_break() {
                return Ok(());
            }
            rest = &rest[..newline];
        }
        if from == 0 {
            if !passing_over {
                let _ = each(0, rest);
            }
            return Ok(());
        }
        let found = rest.len() < block.len();
        passing_over |= !found && size >= MAX_LINE_BYTES;
        if found || passing_over {
            // What was read of a line without beginning is read again, unless the line is passed over.
            end = if passing_over { from } else { from + rest.len() as u64 };
            size = BLOCK_BYTES;
        } else {
            size *= 2;
        }
    }
}

fn load(file: &mut (impl Read + Seek), from: u64, to: u64, block: &mut Vec<u8>) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    block.clear();
    file.take(to - from).read_to_end(block)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn backward(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut seen = Vec::new();
        visit(&mut Cursor::new(text), &mut |offset, line| {
            seen.push((offset, line.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        seen
    }

    fn forward(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut offset = 0;
        let lines = text.split_inclusive(|byte| *byte == b'\n').map(|line| {
            let at = offset;
            offset += line.len() as u64;
            (at, line.strip_suffix(b"\n").unwrap_or(line).to_vec())
        });
        lines.collect()
    }

    proptest! {
        #[test]
        fn lines_are_the_same_from_behind(lengths in prop::collection::vec(0_usize..300_000, 0..8), newline: bool) {
            let mut text = lengths.iter().map(|length| vec![b'x'; *length]).collect::<Vec<_>>().join(&b'\n');
            if newline && !text.is_empty() {
                text.push(b'\n');
            }
            let mut lines = backward(&text);
            lines.reverse();
            prop_assert!(lines == forward(&text));
        }
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over() {
        let mut text = b"first\n".to_vec();
        text.resize(text.len() + 40 * 1024 * 1024, b'x');
        text.extend_from_slice(b"\nlast\n");
        let begin = text.len() as u64 - 5;
        assert_eq!(backward(&text), [(begin, b"last".to_vec()), (0, b"first".to_vec())]);
    }

    #[test]
    fn the_last_lines_that_count_are_found() {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"a1\nb2\na3\nb4\na5").unwrap();
        let is_a = |line: &[u8]| line.starts_with(b"a");
        let offsets: Vec<u64> = (0..5).map(|count| offset_of_last(&mut file, count, is_a).unwrap()).collect();
        assert_eq!(offsets, [14, 12, 6, 0, 0]);
    }
}
