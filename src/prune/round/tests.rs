use super::super::settings::{HardClear, Mode, SoftTrim};
use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn user() -> Shape {
    Shape { kind: Kind::User, chars: 100 }
}

fn answer() -> Shape {
    Shape { kind: Kind::Assistant, chars: 100 }
}

fn result(chars: u64) -> Shape {
    Shape { kind: Kind::Whole { joined: chars, images: false }, chars }
}

/// A user message, then answers and results in turn, then three answers.
fn conversation(results: &[u64]) -> Vec<Shape> {
    let mut shapes = vec![user()];
    for chars in results {
        shapes.extend([answer(), result(*chars)]);
    }
    shapes.extend([answer(), answer(), answer()]);
    shapes
}

fn hard(shapes: &[Shape], settings: &Settings, window: u64) -> usize {
    let round = decide(shapes, settings, Some(window), None).unwrap();
    round.changes.iter().filter(|change| change.cut == Cut::Hard).count()
}

#[test]
fn r9_2_every_way_of_doing_nothing_has_its_reason() {
    let settings = Settings::of(Mode::CacheTtl);
    let shapes = conversation(&[3000]);
    let why = |shapes: &[Shape], window| decide(shapes, &settings, window, None).unwrap_err();
    assert_eq!(why(&shapes, None), NoRound::NoWindow);
    assert_eq!(why(&shapes, Some(0)), NoRound::NoWindow);
    assert_eq!(why(&shapes[..4], Some(1)), NoRound::TooFewAssistants);
    assert_eq!(why(&shapes[1..], Some(1)), NoRound::NothingEligible);
    assert_eq!(why(&shapes, Some(200_000)), NoRound::UnderRatio);
    assert_eq!(why(&shapes, Some(1)), NoRound::NothingEligible);
}

#[test]
fn r9_3_the_low_mark_clears_down_to_half_once_begun() {
    let shapes = conversation(&[3900; 30]);
    let plain = Settings { min_prunable_tool_chars: 0, ..Settings::of(Mode::CacheTtl) };
    let marked = Settings { low_mark: Some(0.5), ..plain.clone() };
    let window = 50_000;
    let left = |settings| 30 - hard(&shapes, settings, window);
    assert_eq!(left(&plain), 24);
    assert_eq!(left(&marked), 11);
}

#[test]
fn r9_3_the_absolute_trigger_opens_a_round_in_a_large_window() {
    let shapes = conversation(&[3900; 62]);
    let plain = Settings::of(Mode::CacheTtl);
    let window = Some(1_000_000);
    assert_eq!(decide(&shapes, &plain, window, None), Err(NoRound::UnderRatio));
    let triggered = Settings { absolute_trigger_tokens: Some(60_000), ..plain };
    let round = decide(&shapes, &triggered, window, None).unwrap();
    assert!(round.by_trigger);
    let cleared = round.changes.len() as u64;
    let left = (62 - cleared) * 3900 + cleared * 33;
    assert!(left <= 120_000 && left + 3867 > 120_000, "{left}");
    let smaller = conversation(&[3900; 61]);
    assert_eq!(decide(&smaller, &triggered, window, None), Err(NoRound::UnderRatio));
}

#[test]
fn r9_1_never_grow_keeps_what_would_become_longer() {
    let settings = Settings {
        keep_last_assistants: 0,
        soft_trim_ratio: 0.0,
        hard_clear_ratio: 0.0,
        min_prunable_tool_chars: 0,
        ..Settings::of(Mode::CacheTtl)
    };
    let shapes = [user(), result(2), result(34)];
    assert_eq!(hard(&shapes, &settings, 1000), 2);
    assert_eq!(hard(&shapes, &Settings { never_grow: true, ..settings }, 1000), 1);
}

#[test]
fn r9_1_images_become_text_only_where_that_is_asked_for() {
    let picture = Shape { kind: Kind::Whole { joined: 40, images: true }, chars: 8000 };
    let mut shapes = conversation(&[3000]);
    shapes[2] = picture;
    let round = decide(&shapes, &Settings::of(Mode::CacheTtl), Some(1000), None).unwrap();
    assert_eq!(round.changes, [Change { index: 2, cut: Cut::Soft, chars: 40 }]);
}

#[test]
fn r9_2_a_measured_size_decides_instead_of_the_estimate() {
    let shapes = conversation(&[5000]);
    let settings = Settings::of(Mode::CacheTtl);
    assert_eq!(decide(&shapes, &settings, Some(200_000), None), Err(NoRound::UnderRatio));
    let round = decide(&shapes, &settings, Some(200_000), Some(240_000)).unwrap();
    assert_eq!((round.chars_before, round.chars_after), (240_000, 240_000 - 5000 + 3086));
}

#[test]
fn r9_3_a_warm_round_pays_when_what_it_removes_beats_the_rewrite() {
    let round =
        Round { changes: Vec::new(), chars_before: 100_000, chars_after: 0, by_trigger: false, tail_chars: 130_434 };
    assert!(pays_while_warm(&round, 15, 0.1, 1.25));
    assert!(!pays_while_warm(&Round { tail_chars: 130_435, ..round.clone() }, 15, 0.1, 1.25));
    assert!(!pays_while_warm(&round, 15, 0.1, 2.0));
    let grows = Round { chars_after: 100_001, tail_chars: 0, ..round };
    assert!(!pays_while_warm(&grows, 15, 0.1, 1.25));
}

fn settings() -> impl Strategy<Value = Settings> {
    (0_usize..5, 0.0..1.0_f64, 0.0..1.0_f64, 0_u64..20_000, (0_u64..3000, 0_u64..900, 0_u64..900), any::<[bool; 3]>())
        .prop_map(|(keep, soft, hard, min, (max_chars, head_chars, tail_chars), [enabled, low, never_grow])| Settings {
            keep_last_assistants: keep,
            soft_trim_ratio: soft,
            hard_clear_ratio: hard,
            min_prunable_tool_chars: min,
            soft_trim: SoftTrim { max_chars, head_chars, tail_chars },
            hard_clear: HardClear { enabled, placeholder: "[gone]".to_owned() },
            low_mark: low.then_some(0.5),
            never_grow,
            ..Settings::of(Mode::CacheTtl)
        })
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let shape = (0_u64..9000, 0_u8..6).prop_map(|(chars, kind)| {
        let kind = match kind {
            0 => Kind::User,
            1 => Kind::Assistant,
            2 => Kind::Fixed,
            3 => Kind::Trimmed,
            4 => Kind::Other,
            _ => Kind::Whole { joined: chars, images: false },
        };
        Shape { kind, chars }
    });
    proptest::collection::vec(shape, 0..40)
}

proptest! {
    #[test]
    fn r9_2_only_eligible_results_between_first_user_and_cutoff_change(
        shapes in shapes(), settings in settings(), window in 1_u64..40_000,
    ) {
        let Ok(round) = decide(&shapes, &settings, Some(window), None) else { return Ok(()) };
        let start = shapes.iter().position(|shape| shape.kind == Kind::User).unwrap();
        let mut total: u64 = shapes.iter().map(|shape| shape.chars).sum();
        prop_assert_eq!(total, round.chars_before);
        prop_assert!(!round.changes.is_empty());
        prop_assert!(round.changes.is_sorted_by(|a, b| a.index < b.index));
        for change in &round.changes {
            let shape = shapes[change.index];
            prop_assert!(change.index > start);
            let answers = shapes[change.index..].iter().filter(|shape| shape.kind == Kind::Assistant).count();
            prop_assert!(answers >= settings.keep_last_assistants);
            match shape.kind {
                Kind::Whole { joined, .. } if change.cut == Cut::Soft => {
                    let trim = settings.soft_trim;
                    prop_assert_eq!(change.chars, trimmed_chars(joined, trim.head_chars, trim.tail_chars));
                }
                Kind::Whole { .. } | Kind::Trimmed => {
                    prop_assert_eq!((change.cut, change.chars), (Cut::Hard, 6));
                }
                Kind::User | Kind::Assistant | Kind::Fixed | Kind::Other => prop_assert!(false, "{:?} changed", shape),
            }
            prop_assert!(!settings.never_grow || change.chars <= shape.chars);
            total = total + change.chars - shape.chars;
        }
        prop_assert_eq!(total, round.chars_after);
        prop_assert_eq!(decide(&shapes, &settings, Some(window), None).unwrap(), round);
    }

    #[test]
    fn r9_2_a_trimmed_text_is_as_long_as_was_decided_and_cuts_no_character(
        letters in proptest::collection::vec(any::<char>(), 80..200), head in 0_u64..40, tail in 0_u64..40,
    ) {
        let (text, chars) = (letters.iter().collect::<String>(), letters.len() as u64);
        let short = trimmed(&text, chars, head, tail);
        prop_assert_eq!(short.chars().count() as u64, trimmed_chars(chars, head, tail));
        let kept: String = text.chars().take(usize::try_from(head).unwrap()).collect();
        prop_assert!(short.starts_with(&kept));
        let last: String = text.chars().skip(usize::try_from(chars - tail).unwrap()).collect();
        let marked = format!("{last}\n\n[Tool result trimmed:");
        prop_assert!(short.contains(&marked));
    }
}
