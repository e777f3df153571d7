//! The channel that the figures are computed on: 200 rows, 30 questions, counted with `cl100k`.

use super::{NATIVE, Replies, Row, Script, SessionId, Turn};
use crate::channel::{CAP, RowKind};

/// Numbers of the rows that ask the agent, from 1.
const QUESTIONS: [usize; 30] = [
    13, 18, 20, 25, 30, 35, 38, 40, 43, 48, 53, 57, 60, 82, 93, 98, 117, 120, 123, 126, 131, 134, 138, 141, 157, 160,
    165, 181, 183, 188,
];

/// Numbers of the rows that the agent wrote.
const OWN_ROWS: [usize; 30] = [
    6, 7, 19, 29, 32, 34, 37, 39, 44, 49, 67, 84, 88, 90, 96, 111, 112, 116, 124, 132, 135, 140, 150, 152, 156, 164,
    166, 167, 170, 176,
];

/// Rows over the limit of a body, with their length in characters.
const LONG_ROWS: [(usize, usize); 8] =
    [(28, 1566), (51, 1395), (63, 949), (74, 1562), (104, 1340), (136, 838), (149, 1282), (185, 1116)];

/// Tokens of each row's line.
const LINE_TOKENS: [u64; 200] = [
    18, 17, 20, 21, 18, 17, 18, 22, 14, 24, 15, 22, 16, 19, 21, 20, 14, 16, 17, 12, 15, 18, 13, 23, 18, 13, 22, 251,
    18, 15, 17, 17, 19, 17, 14, 17, 18, 12, 18, 15, 19, 20, 18, 17, 20, 15, 20, 17, 17, 24, 251, 15, 15, 23, 19, 24,
    16, 18, 20, 12, 23, 17, 250, 24, 17, 19, 19, 17, 16, 19, 19, 21, 20, 250, 20, 13, 13, 13, 13, 23, 19, 15, 21, 18,
    13, 13, 14, 17, 18, 17, 18, 20, 12, 18, 22, 17, 15, 16, 14, 18, 16, 13, 13, 257, 24, 18, 20, 23, 18, 22, 17, 18,
    21, 21, 23, 18, 12, 21, 18, 18, 21, 17, 14, 17, 20, 19, 20, 17, 14, 20, 13, 18, 18, 15, 18, 248, 18, 16, 19, 17,
    15, 13, 14, 19, 21, 15, 20, 14, 243, 18, 17, 18, 13, 20, 17, 17, 12, 21, 22, 16, 16, 19, 14, 17, 14, 17, 17, 21,
    19, 18, 15, 18, 13, 16, 21, 17, 19, 24, 23, 21, 18, 17, 18, 13, 252, 19, 22, 19, 18, 22, 13, 17, 16, 15, 15, 17,
    17, 23, 20, 16,
];

/// Tokens of each question.
const CALL_TOKENS: [u64; 30] = [
    101, 101, 97, 103, 100, 99, 97, 100, 103, 102, 100, 101, 97, 100, 97, 101, 97, 103, 99, 104, 98, 100, 101, 100, 97,
    101, 99, 103, 103, 104,
];

/// Tokens of each answer.
const REPLY_TOKENS: [u64; 30] = [
    19, 12, 9, 11, 21, 16, 20, 21, 18, 10, 23, 19, 10, 23, 20, 13, 16, 13, 13, 12, 21, 15, 16, 20, 20, 14, 12, 13, 14,
    15,
];

pub(super) fn published() -> Script {
    let rows = LINE_TOKENS.iter().zip(1_usize..).map(|(tokens, number)| (row(number), *tokens)).collect();
    let turns = QUESTIONS
        .iter()
        .zip(CALL_TOKENS.iter().zip(&REPLY_TOKENS))
        .map(|(number, (call, reply))| Turn { row: number - 1, replies: Replies::ToIt, call: *call, reply: *reply })
        .collect();
    Script {
        prefix: 2120,
        brief: 480,
        heading_new: 32,
        heading_recent: 26,
        status_line: 28,
        status_line_kept: 5,
        call_kept: 25,
        cap: CAP,
        rows,
        turns,
    }
}

fn row(number: usize) -> Row {
    let long = LONG_ROWS.iter().find(|(row, _)| *row == number).map_or(1, |(_, chars)| *chars);
    // Rows that the agent wrote before its first question are of an earlier session.
    let is_own = OWN_ROWS.contains(&number) && number > QUESTIONS[0];
    Row {
        id: format!("m{number}"),
        at: i64::try_from(number).unwrap_or(i64::MAX),
        kind: RowKind::User,
        from: None,
        thread: String::new(),
        text: "x".repeat(long),
        mentions: Vec::new(),
        session: is_own.then(|| SessionId::from(NATIVE)),
    }
}
