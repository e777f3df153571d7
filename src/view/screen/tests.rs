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
    assert_snapshot!(screen, @"");
}

#[test]
fn a_wide_screen_has_the_events_beside_the_phases() {
    assert_snapshot!(drawn(story::fixed(), 160, 14, Life::Gone, &Foot::Keys), @"");
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
    let typed = Foot::Typing(format!("{}end", "健康".repeat(60)));
    let screen = drawn(story::fixing(), 40, 10, Life::Alive, &typed);
    assert!(screen.ends_with("end▏\n"), "{screen}");
}
