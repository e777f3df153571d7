use chrono::TimeDelta;
use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::view::story::{self, Story};

fn drawn(story: Story, columns: u16, rows: u16, life: Life, foot: &Foot) -> String {
    let mut dashboard = Dashboard::default();
    let now = story.now + TimeDelta::seconds(12);
    story.records.into_iter().for_each(|record| dashboard.push(record));
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|screen| dashboard.draw(screen, foot, life, now)).unwrap();
    let screen = terminal.backend().to_string();
    screen.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
}

#[test]
fn a_live_run_fits_80_by_24() {
    let screen = drawn(story::fixing(), 80, 24, Life::Alive, &Foot::Keys);
    assert_eq!(screen.lines().count(), 24);
    assert_snapshot!(screen, @r#"
    fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”
    ▶ running 8m 19s
      tokens 7.8M of 30M   cost $0.94   90 requests   cache 97%   1 rotation
    ── context ─────────────────────────────────────────────────────────────────────
      planner   ▕████▏               ▏  38k of 180k   claude sonnet  8 requests
    ▶ builder   ▕██▌                 ▏  23k of 180k   pi gpt-5.6  82 requests  ↻1
      reviewer  not started                           cursor
    ── phases (1 earlier) ──────────────────────────────────────────────────────────
    ✓ 02 build     builder   pi gpt-5.6      6m 02s  context 187k ▲ceiling   $0.88
    ✗ 03 test_1    cargo test                   12s
                   test: exit 101, see context_handoff/03_test_1.log
    ↻ 04 fix_1     builder   fresh session: 187k ≥ 180k, reseed 1.4 kB
    ▶ 04 fix_1     builder   pi gpt-5.6      1m 24s  edit src/health.rs
    ── events ──────────────────────────────────────────────────────────────────────
    14:28:53 02_build    done in 6m 02s
    14:28:53 03_test_1   check test (check)
    14:29:05 03_test_1   test failed, exit 101, in 12s: context_handoff/03_test_1.l…
    14:29:05 03_test_1   red in 12s
    14:29:05 04_fix_1    builder works (agent)
    14:29:05 04_fix_1    builder 187k ≥ 180k, reseed 1.4 kB, archived pi_session.1.…
    14:29:05 04_fix_1    builder on pi gpt-5.6, new session
    14:29:05 04_fix_1    builder new session s-2 on pi gpt-5.6
    14:30:05 04_fix_1    builder edit src/health.rs in 20ms
    q leave   s stop before the next phase   m message
    "#);
}

#[test]
fn a_wide_screen_has_the_events_beside_the_phases() {
    assert_snapshot!(drawn(story::fixed(), 160, 14, Life::Gone, &Foot::Keys), @r#"
    fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”
    ✓ goal met in 9m 55s
      tokens 8.4M of 30M   cost $1.03   109 requests   cache 97%   1 rotation
    ── context ───────────────────────────────────────────────────────────────────  ── events ──────────────────────────────────────────────────────────────────────
      planner   ▕████▏               ▏  38k of 180k   claude sonnet  8 requests     14:31:52 04_fix_1    builder completed: 31 requests, 846k tokens, context 42k, …
      builder   ▕████▋               ▏  42k of 180k   pi gpt-5.6  101 requests  ↻1  14:31:52 04_fix_1    done in 2m 47s
      reviewer  not started                           cursor                        14:31:52 05_test_2   check test (check)
    ── phases (3 earlier) ────────────────────────────────────────────────────────  14:32:04 05_test_2   test passed in 12s
    ↻ 04 fix_1     builder   fresh session: 187k ≥ 180k, reseed 1.4 kB              14:32:04 05_test_2   done in 12s
    ✓ 04 fix_1     builder   pi gpt-5.6      2m 47s  context  42k            $0.09  14:32:04 06_save     commit what the run made (commit)
    ✓ 05 test_2    cargo test                   12s                                 14:32:05 06_save     committed 3 files as 4f2a91c on main: Add a health endpoint
    ✓ 06 save      commit what the run made      1s                                 14:32:05 06_save     done in 1s
                                                                                    14:32:05             goal met in 9m 55s, 8.4M tokens, $1.03: every step succeed…
    q leave
    "#);
}

#[test]
fn the_smallest_terminals_lose_lines_and_nothing_else() {
    for (columns, rows) in [(1, 1), (20, 3), (40, 5), (79, 9)] {
        drawn(story::fixing(), columns, rows, Life::Alive, &Foot::Typing("a message".to_owned()));
    }
    assert_eq!(drawn(Story::begins("w", "p"), 40, 1, Life::Alive, &Foot::Keys).lines().count(), 1);
}

#[test]
fn what_agents_wrote_cannot_steer_the_screen() {
    let story = story::fixing().tool("bash", "echo \u{1b}]0;title\u{7} \u{202e}<script>");
    let screen = drawn(story, 80, 24, Life::Alive, &Foot::Said("\u{1b}[2J".to_owned()));
    assert!(!screen.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    assert!(screen.contains("echo ␛]0;title␇ ⟨202e⟩<script>"), "{screen}");
    assert!(screen.ends_with("␛[2J\n"), "{screen}");
}

#[test]
fn the_end_of_a_long_message_stays_in_sight() {
    let typed = Foot::Typing(format!("{}end", "naïve ".repeat(60)));
    let screen = drawn(story::fixing(), 40, 10, Life::Alive, &typed);
    assert!(screen.ends_with("end▏\n"), "{screen}");
}
