use chrono::TimeZone as _;
use insta::assert_snapshot;

use super::*;
use crate::view::story;

fn seqs(filter: &Filter) -> Vec<u64> {
    story::fixed().records.iter().filter(|record| filter.admits(record)).map(|record| record.seq.0).collect()
}

fn list(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn no_filter_lets_every_record_pass() {
    assert_eq!(seqs(&Filter::default()).len(), story::fixed().records.len());
}

#[test]
fn kinds_of_filters_must_all_hold_and_values_of_one_are_alternatives() {
    let rotation = Filter { types: list(&["log"]), names: list(&["session_rotation"]), ..Filter::default() };
    let of_builder = Filter { agents: list(&["builder"]), ..rotation.clone() };
    let of_planner = Filter { agents: list(&["planner"]), ..rotation.clone() };
    assert_eq!(seqs(&rotation), seqs(&of_builder));
    assert_eq!(seqs(&rotation).len(), 1);
    assert_eq!(seqs(&of_planner), [0u64; 0]);
    let ends = Filter { types: list(&["phase_end", "run_end"]), ..Filter::default() };
    assert_eq!(seqs(&ends).len(), 7);
}

#[test]
fn a_phase_is_named_whole_or_by_number_or_by_step() {
    let of = |phase: &str| seqs(&Filter { phases: list(&[phase]), ..Filter::default() });
    assert_eq!(of("04_fix_1"), of("04"));
    assert_eq!(of("04_fix_1"), of("fix_1"));
    assert_eq!(of("fix"), [0u64; 0]);
}

#[test]
fn since_takes_numbers_spans_dates_and_times() {
    let now = Utc.with_ymd_and_hms(2026, 11, 30, 14, 30, 0).unwrap();
    let at = |hour, minute| Since::Time(Utc.with_ymd_and_hms(2026, 11, 30, hour, minute, 0).unwrap());
    assert_eq!(Since::parse("41", now), Ok(Since::Seq(Seq(41))));
    assert_eq!(Since::parse("10m", now), Ok(at(14, 20)));
    assert_eq!(Since::parse("2h", now), Ok(at(12, 30)));
    assert_eq!(Since::parse("2026-11-30", now), Ok(at(0, 0)));
    assert_eq!(Since::parse("2026-11-30T15:20:00+01:00", now), Ok(at(14, 20)));
    for bad in ["", "m", "yesterday", "-5m", "5w", "4294967296d", "1é"] {
        assert_eq!(Since::parse(bad, now), Err(SinceError(bad.to_owned())));
    }
}

#[test]
fn since_includes_the_record_it_names() {
    let records = story::fixed().records;
    let all = seqs(&Filter { since: Some(Since::Seq(Seq(130))), ..Filter::default() });
    assert_eq!(all, (130..=records.len() as u64).collect::<Vec<_>>());
    let ts = records[129].ts;
    let by_time = seqs(&Filter { since: Some(Since::Time(ts)), ..Filter::default() });
    assert!(by_time.contains(&130) && by_time.len() < records.len());
}

#[test]
fn the_last_records_are_kept_in_order() {
    let mut last = Last::new(2);
    story::fixed().records.into_iter().for_each(|record| last.push(record));
    let kept: Vec<_> = last.records().map(|record| record.event.kind()).collect();
    assert_eq!(kept, ["phase_end", "run_end"]);
    let mut none = Last::new(0);
    none.push(story::fixed().records.remove(0));
    assert_eq!(none.records().count(), 0);
}

#[test]
fn records_are_one_line_each_for_people() {
    let mut out = Vec::new();
    let story = story::fixing();
    for record in story.records.iter().filter(|record| record.event.kind() != "context") {
        write_text(&mut out, record, Paint::Plain).unwrap();
    }
    assert_snapshot!(String::from_utf8(out).unwrap(), @"
          1 14:22:10              run_start plan_build_test    “add a /health endpoint”
          2 14:22:10 01_plan      phase_start plan             planner works (agent)
          3 14:22:10 01_plan      agent_start planner          planner on claude sonnet, new session
          4 14:22:10 01_plan      session planner              planner new session 84f0b9e9-1111-4222-8333-444455556666 on claude sonnet
         13 14:22:50 01_plan      agent_end planner            planner completed: 8 requests, 222k tokens, context 38k, cache –, $0.06
         14 14:22:51 01_plan      phase_end plan               done in 41s
         15 14:22:51 02_build     phase_start build            builder works (agent)
         16 14:22:51 02_build     agent_start builder          builder on pi gpt-5.6, new session
         17 14:22:51 02_build     session builder              builder new session s-1 on pi gpt-5.6
         88 14:28:41 02_build     tool_call                    builder edit src/health.rs in 20ms
         89 14:28:41 02_build     agent_end builder            builder completed: 70 requests, 7.3M tokens, context 187k, cache –, $0.88
         90 14:28:53 02_build     phase_end build              done in 6m 02s
         91 14:28:53 03_test_1    phase_start test_1           check test (check)
         92 14:29:05 03_test_1    check test                   test failed, exit 101, in 12s: context_handoff/03_test_1.log
         93 14:29:05 03_test_1    phase_end test_1             red in 12s
         94 14:29:05 04_fix_1     phase_start fix_1            builder works (agent)
         95 14:29:05 04_fix_1     log session_rotation         builder 187k ≥ 180k, reseed 1.4 kB, archived pi_session.1.rotated.jsonl
         96 14:29:05 04_fix_1     agent_start builder          builder on pi gpt-5.6, new session
         97 14:29:05 04_fix_1     session builder              builder new session s-2 on pi gpt-5.6
        110 14:30:05 04_fix_1     tool_call                    builder edit src/health.rs in 20ms
        ");
}

/// Filters of every kind, alone and together.
fn filters() -> Vec<Filter> {
    let filter = |types: &[&str], names: &[&str], phases: &[&str], agents: &[&str]| Filter {
        types: list(types),
        names: list(names),
        phases: list(phases),
        agents: list(agents),
        since: None,
    };
    vec![
        Filter::default(),
        filter(&["context"], &[], &[], &[]),
        filter(&["phase_end", "run_end"], &[], &[], &[]),
        filter(&["log"], &["session_rotation"], &[], &[]),
        filter(&[], &["edit src/health.rs"], &[], &[]),
        filter(&[], &[], &["04"], &[]),
        filter(&[], &[], &["fix_1"], &["builder"]),
        filter(&[], &[], &[], &["builder"]),
        Filter { since: Some(Since::Seq(Seq(90))), ..filter(&["check"], &[], &[], &[]) },
        Filter { since: Some(Since::Time(story::fixed().records[50].ts)), ..Filter::default() },
    ]
}

#[test]
fn a_line_says_as_much_as_its_record_but_for_the_agent() {
    for filter in filters() {
        for record in story::fixed().records {
            let mut bytes = Vec::new();
            record.write_line(&mut bytes);
            let line: Line<'_> = serde_json::from_slice(&bytes).unwrap();
            let (by_line, by_record) = (filter.admits_line(&line), filter.admits(&record));
            assert!(by_line || !by_record, "{filter:?} {record:?}");
            assert!(by_line == by_record || !filter.is_told_by_line(), "{filter:?} {record:?}");
        }
    }
}

#[test]
fn every_line_that_is_asked_for_holds_the_needle() {
    for filter in filters() {
        let Some(needle) = filter.needle() else { continue };
        for record in story::fixed().records.iter().filter(|record| filter.admits(record)) {
            let mut line = Vec::new();
            record.write_line(&mut line);
            assert!(memchr::memmem::find(&line, &needle).is_some(), "{filter:?} {record:?}");
        }
    }
    let needles: Vec<bool> = filters().iter().map(|filter| filter.needle().is_some()).collect();
    assert_eq!(needles, [false, true, false, true, false, true, true, true, true, false]);
}

#[test]
fn what_agents_wrote_cannot_steer_the_terminal() {
    let story = story::fixing().tool("bash", "echo \u{1b}]0;title\u{7} \u{202e}");
    let mut out = Vec::new();
    write_text(&mut out, story.records.last().unwrap(), Paint::Plain).unwrap();
    assert_snapshot!(String::from_utf8(out).unwrap(), @"  111 14:30:17 04_fix_1     tool_call                    builder bash echo ␛]0;title␇ ⟨202e⟩ in 20ms");
}
