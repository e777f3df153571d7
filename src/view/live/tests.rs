use insta::assert_snapshot;

use super::*;
use crate::event::{EngineError, FailureKind, Waiting};
use crate::ids::EngineName;
use crate::view::story::{self, Story};

/// A terminal that knows what the live screen sends: text, new lines, cursor up, erase to the end.
#[derive(Default)]
struct Terminal {
    rows: Vec<String>,
    row: usize,
    escapes: String,
}

impl Terminal {
    fn show(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            match letter {
                '\n' => self.row += 1,
                '\r' => {}
                '\x1b' => {
                    let sequence: String = rest.by_ref().take_while(|c| !c.is_ascii_alphabetic()).collect();
                    // `take_while` has eaten the final letter: digits mean cursor up, none means erase.
                    match sequence.trim_start_matches('[').parse::<usize>() {
                        Ok(up) => self.row = self.row.checked_sub(up).expect("never above the screen"),
                        Err(_) => self.rows.truncate(self.row),
                    }
                    self.escapes.push_str(&sequence);
                }
                other => {
                    while self.rows.len() <= self.row {
                        self.rows.push(String::new());
                    }
                    self.rows[self.row].push(other);
                }
            }
        }
    }

    fn text(&self) -> String {
        self.rows.join("\n")
    }
}

fn shown(story: &Story, width: usize) -> (Live, Terminal) {
    let mut live = Live::new(Paint::Plain);
    let mut terminal = Terminal::default();
    for record in &story.records {
        live.push(record, width);
        let mut out = Vec::new();
        live.draw(&mut out, record.ts, width).unwrap();
        terminal.show(&out);
    }
    let mut out = Vec::new();
    live.draw(&mut out, story.now, width).unwrap();
    terminal.show(&out);
    (live, terminal)
}

#[test]
fn finished_phases_stand_above_and_one_block_below() {
    let (_, terminal) = shown(&story::fixing(), 80);
    assert_snapshot!(terminal.text(), @"
        fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”

        ✓ 01 plan      planner   claude sonnet      41s  context  38k            $0.06
        ✓ 02 build     builder   pi gpt-5.6      6m 02s  context 187k ▲ceiling   $0.88
        ✗ 03 test_1    cargo test                   12s
                       test: exit 101, see context_handoff/03_test_1.log
        ↻ 04 fix_1     builder   fresh session: 187k ≥ 180k, reseed 1.4 kB

        ▶ 04 fix_1     builder   pi gpt-5.6      1m 12s  edit src/health.rs
          context  ▕██▌                 ▏  23k of 180k   12 requests   cache 89%
          tokens   7.8M of 30M                          cost $0.94
        ");
}

#[test]
fn the_block_goes_and_what_ended_stays() {
    let (mut live, mut terminal) = shown(&story::fixing(), 80);
    let mut out = Vec::new();
    live.clear(&mut out, 80).unwrap();
    terminal.show(&out);
    assert_snapshot!(terminal.text(), @"
        fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”

        ✓ 01 plan      planner   claude sonnet      41s  context  38k            $0.06
        ✓ 02 build     builder   pi gpt-5.6      6m 02s  context 187k ▲ceiling   $0.88
        ✗ 03 test_1    cargo test                   12s
                       test: exit 101, see context_handoff/03_test_1.log
        ↻ 04 fix_1     builder   fresh session: 187k ≥ 180k, reseed 1.4 kB
        ");
    out.clear();
    live.clear(&mut out, 80).unwrap();
    assert_eq!(out, b"", "a cleared screen needs nothing");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let (_, terminal) = shown(&story::capped(), 40);
    assert!(terminal.rows.iter().all(|row| text::width(row) <= 40), "{}", terminal.text());
}

#[test]
fn at_40_columns_context_and_cost_stay() {
    let (_, terminal) = shown(&story::fixing(), 40);
    assert_snapshot!(terminal.text(), @"
        fia 20261130-142210-k3fa  plan_build_te…

        ✓ 01 plan           41s  38k $0.06
        ✓ 02 build       6m 02s  187k▲ $0.88
        ✗ 03 test_1    cargo test     12s
          test: exit 101, see
          context_handoff/03_test_1.log
        ↻ 04 fix_1     builder   fresh session:…

        ▶ 04 fix_1       1m 12s  edit src/healt…
          context  23k of 180k   cache 89%
          tokens   7.8M of 30M
          cost     $0.94
        ");
}

#[test]
fn a_narrowed_terminal_is_cleared_of_its_wrapped_lines() {
    let (mut live, _) = shown(&story::fixing(), 80);
    let mut out = Vec::new();
    live.draw(&mut out, story::fixing().now, 40).unwrap();
    // Four lines, of which three take two rows of 40 columns.
    assert!(out.starts_with(b"\x1b[7A\r\x1b[J"), "{}", String::from_utf8_lossy(&out).escape_debug());
}

#[test]
fn a_wait_says_for_what_until_when_and_how_to_leave() {
    let story = Story::begins("build", "x").phase("01_build", "planner").turn(None).reads([20_000]);
    let until = story.now + chrono::TimeDelta::minutes(131);
    let story = story
        .event(Event::EngineError(EngineError {
            agent: "planner".into(),
            engine: EngineName::Claude,
            model: "sonnet".to_owned(),
            kind: FailureKind::Limit,
            transient: false,
            leg: 1,
            count: 1,
            message: "You've hit your limit \u{1b}[31m\u{202e}".to_owned(),
            retry_after: Some(until),
        }))
        .event(Event::Waiting(Waiting {
            until: Some(until),
            reason: "claude’s plan limit".to_owned(),
            agent: Some("planner".into()),
            count: 1,
        }));
    assert_snapshot!(shown(&story, 80).1.text(), @"
        fia 20261130-142210-k3fa  build  “x”

        ✗ 01 build     planner   limit: You've hit your limit ␛[31m⟨202e⟩

        ▶ 01 build     planner   claude sonnet       5s
          context  ▕██▏                 ▏  20k of 180k   1 request   cache 0%
        ⏸ planner: claude’s plan limit, until 16:33 UTC (in 2h 11m)
          waiting; Ctrl-C stops, fia resume goes on later
          tokens   20k of 30M                           cost –
        ");
}

#[test]
fn colour_is_only_there_when_it_is_asked_for() {
    let story = story::fixing();
    let bytes = |paint: Paint| {
        let mut live = Live::new(paint);
        story.records.iter().for_each(|record| live.push(record, 80));
        let mut out = Vec::new();
        live.draw(&mut out, story.now, 80).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(!bytes(Paint::Plain).contains('\x1b'));
    assert!(bytes(Paint::Ansi).contains("\x1b[31m✗\x1b[0m 03 test_1"));
}
