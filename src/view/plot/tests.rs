use proptest::prelude::*;

use super::*;
use crate::event::{BreakCause, CacheBreak, PhaseStatus};
use crate::ids::EngineName;
use crate::view::story::{self, Story};

fn fold(story: &Story) -> (PlotFold, Projection) {
    let (mut plot, mut state) = (PlotFold::default(), Projection::default());
    for record in &story.records {
        plot.push(record);
        state.push(record);
    }
    (plot, state)
}

fn svg(story: &Story) -> String {
    let (plot, state) = fold(story);
    plot.svg(&state)
}

/// A run of so many agents that take turns over so many phases, some of them rotated or with cache breaks.
fn crowd(agents: usize, phases: usize, seed: u64) -> Story {
    const NAMES: [&str; 12] = [
        "planner",
        "builder",
        "reviewer",
        "scout",
        "documenter",
        "tester",
        "fixer-of-long-names-indeed",
        "健康検査係",
        "a",
        "b",
        "c",
        "d",
    ];
    let roster = NAMES[..agents].iter().map(|name| (*name, EngineName::Claude, "sonnet")).collect();
    let mut story = Story::with_agents("crowd", "x", roster);
    let mut random = seed;
    for phase in 0..phases {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let size = (random >> 40) % 190_000;
        story = story.phase(&format!("{:02}_step_{phase}", phase + 1), NAMES[phase % agents]);
        if random.is_multiple_of(5) {
            story = story.rotates(size);
        }
        story = story.turn(None).reads([size / 2, size]);
        if random.is_multiple_of(7) {
            let agent = NAMES[phase % agents].into();
            story =
                story.event(Event::CacheBreak(CacheBreak { agent, expected: 9, seen: 1, cause: BreakCause::Unknown }));
        }
        story = story.turn_ends(None).after((random % 100).cast_signed()).ends(PhaseStatus::Success);
    }
    story
}

#[test]
fn a_picture_holds_its_lines_ceiling_marks_phases_and_kinds() {
    let svg = svg(&story::fixed());
    for part in [
        "<svg xmlns=\"http://www.w3.org/2000/svg\"",
        "prefers-color-scheme:dark",
        "class=\"course a0\"",
        "class=\"course a1\"",
        "class=\"ceiling\"",
        ">ceiling 180k</text>",
        ">builder 42k</text>",
        ">04_fix_1</text>",
        "<title>builder 187k ≥ 180k, reseed 1.4 kB, archived pi_session.1.rotated.jsonl</title>",
        "<title>02_build: 7107000 cache read</title>",
    ] {
        assert!(svg.contains(part), "{part} is missing from {svg}");
    }
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    assert!(!svg.contains("<script") && !svg.contains("href"), "stands alone");
}

#[test]
fn the_fixed_story_keeps_every_label() {
    let (plot, state) = fold(&story::fixed());
    let words: Vec<String> = plot.labels(&state).into_iter().map(|label| label.text).collect();
    insta::assert_snapshot!(words.join(" | "), @"live context over time | ceiling | rotation | cache break | phase | 0 | 50k | 100k | 150k | 0 | 2m | 4m | 6m | 8m | ceiling 180k | 01_plan | 02_build | 03_test_1 | 04_fix_1 | 05_test_2 | 06_save | planner 38k | builder 42k | tokens by phase | cache read | cache write | input | output | 0 | 2M | 4M | 6M | 222k | 01_plan | 7.3M | 02_build | 846k | 04_fix_1");
}

#[test]
fn a_pause_between_stretches_takes_no_room() {
    let story = story::capped().after(1_000_000).resumes().phase("04_fix_1", "builder").turn(None).reads([9_000]);
    let (plot, _) = fold(&story);
    assert_eq!(plot.active_ms, 504_000);
}

#[test]
fn text_of_agents_stays_text() {
    let evil = "<script>x</script>\"><img onerror=x>\u{1b}[31m\u{202e}";
    let roster = vec![("\"><script>alert(1)</script>", EngineName::Claude, "sonnet")];
    let story = Story::with_agents("build", evil, roster)
        .phase(&format!("01_{evil}"), "\"><script>alert(1)</script>")
        .turn(None)
        .reads([5_000])
        .turn_ends(None);
    let svg = svg(&story);
    assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains(['\u{1b}', '\u{202e}']), "{svg}");
}

#[test]
fn a_run_of_nothing_is_a_picture_too() {
    let (plot, state) = fold(&Story::begins("build", "x"));
    assert!(plot.svg(&state).contains("live context over time"));
    assert!(PlotFold::default().svg(&Projection::default()).ends_with("</svg>\n"));
}

#[test]
fn the_picture_of_a_long_run_stays_small() {
    let story = Story::begins("build", "x").phase("01_build", "builder").turn(None).reads((0..30_000).map(|n| n * 6));
    let svg = svg(&story);
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn labels_never_overlap_and_never_leave_the_picture(agents in 1usize..=12, phases in 1usize..=200, seed: u64) {
        let (plot, state) = fold(&crowd(agents, phases, seed));
        let scene = plot.scene(&state);
        for (index, label) in scene.labels.iter().enumerate() {
            prop_assert!(label.x >= 0.0 && label.x + label.width <= WIDTH, "{label:?}");
            prop_assert!(label.y >= 0.0 && label.y + label.height <= scene.height, "{label:?}");
            for other in &scene.labels[index + 1..] {
                prop_assert!(!label.overlaps(other), "{label:?} overlaps {other:?}");
            }
        }
        let drawn = agents.min(phases);
        let named = scene.labels.iter().filter(|label| label.x > context::RIGHT && label.class == "ink").count();
        prop_assert_eq!(named, drawn, "every agent has its name");
    }
}
