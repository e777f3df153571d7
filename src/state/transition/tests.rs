use std::fmt::Write as _;

use serde_json::Value;

use super::*;
use crate::event::Record;
use crate::event::sample::Draw;
use crate::event::wire::Line;

/// One event of every kind, read from its record.
fn every_kind() -> Vec<Event> {
    let read = |(kind, name, payload): (&str, String, Value)| {
        let line = serde_json::json!({"seq": 1, "ts": "2026-11-30T12:00:00.000Z", "run": "r", "type": kind,
                                      "name": name, "payload": payload});
        let record: Record = serde_json::from_str::<Line<'_>>(&line.to_string()).unwrap().decode().unwrap();
        record.event
    };
    Draw::new(1).every_kind().into_iter().map(read).collect()
}

#[test]
fn the_transition_table() {
    let mut table = String::new();
    for event in every_kind() {
        let kind = if event.kind() == "log" { event.name() } else { event.kind() };
        let cells = Stage::ALL.map(|stage| match (needs(&event), stage) {
            (needs, stage) if !needs.met_in(stage) => "-",
            (Needs::Phase, _) | (Needs::Turn, Stage::InPhase) => "of its phase",
            (Needs::Nothing | Needs::Stretch | Needs::Begin | Needs::Run | Needs::Turn, _) => "yes",
        });
        writeln!(table, "{kind:21} {:6} {:8} {:13} {}", cells[0], cells[1], cells[2], cells[3]).unwrap();
    }
    insta::assert_snapshot!(table, @r"
    run_start             yes    yes      yes           yes
    phase_start           -      yes      yes           -
    phase_end             -      -        of its phase  -
    agent_start           -      yes      of its phase  yes
    agent_end             -      yes      of its phase  yes
    session               -      yes      of its phase  yes
    context               -      yes      of its phase  yes
    tool_call             -      yes      of its phase  yes
    check_start           -      -        of its phase  -
    check                 -      -        of its phase  -
    gate_pass             -      -        of its phase  -
    gate_fail             -      -        of its phase  -
    engine_error          -      yes      of its phase  yes
    engine_retry          -      -        of its phase  -
    engine_relay          -      -        of its phase  -
    engine_fallback       -      -        of its phase  -
    engine_continuation   -      -        of its phase  -
    cache_break           -      yes      of its phase  yes
    error                 -      yes      yes           yes
    waiting               -      yes      yes           -
    approval              -      -        of its phase  -
    verdict               -      yes      yes           yes
    message               -      yes      of its phase  yes
    run_end               -      yes      yes           -
    envelope              -      -        of its phase  -
    session_rotation      -      -        of its phase  -
    session_retired       -      yes      of its phase  yes
    rotation_stood_down   -      -        of its phase  -
    usage_unknown         -      yes      of its phase  yes
    compacted             -      yes      of its phase  yes
    phase_reused          -      yes      yes           -
    step_skipped          -      yes      yes           -
    tree_changed          -      yes      yes           -
    permission_retry      -      yes      yes           -
    external_change       -      yes      yes           yes
    committed             -      -        of its phase  -
    budget_warning        -      yes      yes           -
    bounded_continuation  -      -        of its phase  -
    prefix_changed        -      yes      of its phase  yes
    context_pruned        -      yes      of its phase  yes
    session_evicted       -      yes      yes           yes
    api_key_billing       -      yes      of its phase  yes
    ");
}
