//! What holds for every view.

use proptest::prelude::*;

use super::ending::{Brake, Ending};
use super::html::PageFold;
use super::human::PlainLog;
use super::live::Live;
use super::paint::Paint;
use super::report::ReportFold;
use super::story::Story;
use super::tables::{self, Life};
use crate::event::{
    BreakCause, CacheBreak, Compacted, ContextPruned, Event, Outcome, PhaseEnd, PhaseReused, PhaseStatus, RunEnd, Usage,
};

/// Figures at the edges of their types.
fn figure() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX / 2), 0u64..300_000]
}

fn event() -> impl Strategy<Value = Event> {
    let agent = || prop_oneof![Just("builder"), Just("stranger")];
    prop_oneof![
        (agent(), figure(), figure()).prop_map(|(agent, expected, seen)| Event::CacheBreak(CacheBreak {
            agent: agent.into(),
            expected,
            seen,
            cause: BreakCause::TtlPassed
        })),
        (agent(), figure(), figure()).prop_map(|(agent, before, after)| Event::Compacted(Compacted {
            agent: agent.into(),
            before: Some(before),
            after: Some(after)
        })),
        (agent(), figure(), figure()).prop_map(|(agent, before, after)| Event::ContextPruned(ContextPruned {
            agent: agent.into(),
            reason: "ttl".to_owned(),
            soft: 1,
            hard: 1,
            chars_before: before,
            chars_after: after,
            ratio_before: f64::NAN,
            ratio_after: f64::INFINITY,
            gap_ms: None,
            first_changed: None,
        })),
        figure().prop_map(|elapsed_ms| Event::PhaseEnd(PhaseEnd {
            step: "x".into(),
            status: PhaseStatus::Red,
            elapsed_ms,
            outcome: None,
            tree_sha256: None,
            reason: None
        })),
        figure().prop_map(|elapsed_ms| Event::RunEnd(RunEnd {
            outcome: Outcome::BudgetExhausted,
            reason: String::new(),
            tokens: Some(Usage { input: elapsed_ms, output: elapsed_ms, cache_read: elapsed_ms, ..Usage::default() }),
            cost_usd: Some(f64::NAN),
            phases: u32::MAX,
            replayed: 0,
            elapsed_ms,
            tree_sha256: None,
        })),
        Just(Event::PhaseReused(PhaseReused { step: "x".into(), phase: "no_such".into() })),
    ]
}

#[derive(Debug, Clone)]
enum Move {
    Phase,
    Turn(bool),
    Reads(u64),
    Rotates(u64),
    EndTurn,
    Resume,
    Other(Box<Event>),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        Just(Move::Phase),
        any::<bool>().prop_map(Move::Turn),
        figure().prop_map(Move::Reads),
        figure().prop_map(Move::Rotates),
        Just(Move::EndTurn),
        Just(Move::Resume),
        event().prop_map(|event| Move::Other(Box::new(event))),
    ];
    proptest::collection::vec(one, 0..40)
}

fn tell(moves: Vec<Move>) -> Story {
    let mut story = Story::begins("build", "x").phase("00_x", "builder");
    for (number, step) in moves.into_iter().enumerate() {
        story = match step {
            Move::Phase => story.phase(&format!("{number:02}_x"), "builder"),
            Move::Turn(fresh) => story.turn((!fresh).then_some("s-1")),
            Move::Reads(tokens) => story.reads([tokens]),
            Move::Rotates(tokens) => story.rotates(tokens),
            Move::EndTurn => story.turn_ends(Some(1e300)),
            Move::Resume => story.resumes(),
            Move::Other(event) => story.event(*event),
        };
    }
    story
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_log_however_odd_stops_a_view(moves in moves(), width in 0usize..100) {
        let story = tell(moves);
        let (mut plain, mut live) = (PlainLog::new(), Live::new(Paint::Ansi));
        let (mut page, mut report) = (PageFold::default(), ReportFold::default());
        let mut out = Vec::new();
        for record in &story.records {
            plain.push(record, &mut out).unwrap();
            live.push(record, width);
            live.draw(&mut out, record.ts, width).unwrap();
            page.push(record);
            report.push(record);
            super::events::write_text(&mut out, record, Paint::Plain).unwrap();
        }
        live.clear(&mut out, width).unwrap();
        page.write(&mut out, Vec::new(), |_| None).unwrap();
        report.report(|_| None).write_text(&mut out, Some(width), Paint::Ansi).unwrap();
        let state = report.state();
        let (frame, savings) = (report.frame(), Some(report.savings()));
        let ending = Ending { state, frame, savings, brake: Brake::Off, instead: None, place: None };
        tables::show(&mut out, ending, Life::Gone, story.now, Some(width), Paint::Plain).unwrap();
        tables::phases(state).write(&mut out, Some(width), Paint::Plain).unwrap();
        tables::agents(state, story.now).write(&mut out, Some(width), Paint::Plain).unwrap();
        super::json::write(&mut out, &super::json::Shown::of(state, Life::Gone)).unwrap();
    }
}
