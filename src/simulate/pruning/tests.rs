use super::*;
use pretty_assertions::assert_eq;

fn line(policy: usize, runs: u64) -> [String; 5] {
    let rates = Rates::STANDARD;
    Layout::ALL.map(|layout| {
        let base = mean(layout, Policy::ALL[0], 0, runs, &rates);
        cell(Policy::ALL[policy], &mean(layout, Policy::ALL[policy], 0, runs, &rates), &base)
    })
}

/// A few runs pin the computation; the whole table has a test of its own, as it takes seconds.
#[test]
fn r12_2_two_conversations_to_the_last_token() {
    let none = [
        "2,322,278; 109,279 / 1,438",
        "1,884,475; 114,504 / 1,384",
        "4,186,653; 118,023 / 1,310",
        "1,453,922",
        "2,342,669",
    ];
    let adaptive = ["-47.2%; 47,370 / 2,358", "-44.3%; 50,349 / 1,384", "-52.0%; 51,366 / 1,867", "-39.1%", "-47.8%"];
    let rotated = ["-56.8%; 34,698 / 1,438", "-50.8%; 37,088 / 1,384", "-63.3%; 37,365 / 1,939", "-39.1%", "-47.8%"];
    assert_eq!([line(0, 2), line(5, 2), line(8, 2)], [none, adaptive, rotated]);
}

#[test]
fn r12_2_another_first_run_gives_other_figures() {
    let cost = |first| rounded(mean(Layout::ALL[0], Policy::ALL[2], first, 1, &Rates::STANDARD).cost);
    assert_eq!([0, 1].map(cost), [1_715_134, 1_748_138]);
}

#[test]
fn r12_2_a_recorded_conversation_under_every_policy() {
    let simulation = replay(&Layout::ALL[0].conversation(3));
    assert_eq!(simulation.rows.len(), 11);
    let mean = mean(Layout::ALL[0], Policy::ALL[5], 3, 1, &Rates::STANDARD);
    assert_eq!(simulation.rows[5]["cost"], json!(mean.cost));
}
