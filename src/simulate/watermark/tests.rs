use super::*;
use pretty_assertions::assert_eq;

fn outcomes() -> [Outcome; 6] {
    let script = Script::published();
    Rule::ALL.map(|rule| run(&script, rule, None, &Rates::STANDARD))
}

#[test]
fn r12_2_the_table_of_rules() {
    let ours = outcomes();
    assert_eq!(ours.map(|o| o.input), [503_073, 419_312, 420_152, 412_942, 409_108, 91_550]);
    assert_eq!(ours.map(|o| o.cached), [472_539, 393_966, 145, 388_003, 384_335, 62_205]);
    assert_eq!(ours.map(|o| format!("{:.3}", o.share())), ["0.939", "0.940", "0.000", "0.940", "0.939", "0.679"]);
    assert_eq!(ours.map(|o| rounded(o.uncached_per_turn)), [951, 772, 14_380, 758, 752, 910]);
    assert_eq!(ours.map(|o| o.channel), [9445, 4274, 4274, 3892, 3806, 9445]);
    assert_eq!(ours.map(|o| o.seen_before), [5171, 0, 0, 0, 0, 5171]);
    assert_eq!(ours.map(|o| o.never_shown), [21, 21, 21, 21, 11, 21]);
    assert_eq!(ours.map(|o| o.lines), [360, 162, 162, 137, 119, 360]);
    assert_eq!(ours.map(|o| rounded(o.cost)), [85_421, 71_079, 525_023, 69_974, 69_400, 42_902]);
}

#[test]
fn r12_2_a_session_that_is_lost_gets_a_snapshot() {
    let script = Script::published();
    let lost = |rule| run(&script, rule, Some(15), &Rates::STANDARD);
    let inputs = [Rule::Window, Rule::Watermark, Rule::Delivered].map(|rule| lost(rule).input);
    assert_eq!(inputs, [283_681, 246_560, 243_582]);
    assert_eq!(lost(Rule::Watermark).seen_before, 19);
}

#[test]
fn r12_2_the_improved_delivery_beats_the_note() {
    let delivered = outcomes()[3];
    assert!(delivered.input < 417_419 && delivered.channel < 4075, "{delivered:?}");
}

#[test]
fn r12_2_another_cap_gives_other_figures() {
    let with_cap = |cap| Script { cap, ..Script::published() };
    let lines = |cap| run(&with_cap(cap), Rule::Delivered, None, &Rates::STANDARD).lines;
    assert_eq!([6, 12, 30].map(lines), [103, 137, 158]);
}

#[test]
fn r12_2_a_recorded_channel_is_measured_by_its_texts() {
    let script = Script::published();
    let rows: Vec<Row> = script.rows.iter().map(|(row, _)| row.clone()).collect();
    let recorded = Script::recorded(rows, script.turns.clone(), 20_000);
    assert_eq!(recorded.rows[27].1, 153);
    let simulation = replay(&recorded);
    let lines: Vec<u64> = simulation.rows.iter().map(|row| row["channel_lines"].as_u64().unwrap()).collect();
    assert_eq!(lines, [360, 162, 162, 137, 119, 360]);
    assert_eq!(simulation.published, []);
}

#[test]
fn r12_2_a_simulation_shows_its_rows_and_the_published_figures() {
    let simulation = simulate();
    assert_eq!((simulation.rows.len(), simulation.published.len()), (10, 24));
    let text = simulation.text();
    let line = text.lines().find(|line| line.starts_with("channel lines")).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["channel", "lines", "360", "162", "162", "137", "119", "360"]
    );
}
