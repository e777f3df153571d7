//! `fia resume`: which run, what it takes over, when it is refused (SPEC 2.1, 5.3, 5.4, 10.6).

use std::fs;
use std::time::{Duration, Instant};

use fia::event::{AgentStart, Event, FaultKind, Outcome};
use fia::host::{Mark, Presence};
use pretty_assertions::assert_eq;
use rustix::process::Signal;

use crate::support::project::{Log, Project};

/// A run whose review does not approve until a file says so.
pub(crate) fn judged() -> Project {
    Project::new()
        .with("agents: [{ name: builder, writes: [src/] }, { name: reviewer, writes: [] }]\nworkflows:\n  judged:\n    steps:\n      - { name: build, agent: builder, output: build }\n      - { name: review, agent: reviewer, output: review }\n")
        .script("phases:\n  build:\n    - do: [{ write: { src/new: made } }]\n  review:\n    - answer: { status: success, summary: open, approved: false, findings: [], blocking: [] }\n")
        .committed()
}

/// A run whose engine hangs in the first phase.
pub(crate) fn hanging() -> Project {
    Project::new()
        .with("workflows:\n  slow:\n    steps:\n      - { name: build, agent: builder, output: build }\n")
        .script("phases: { build: [{ hang: true }] }\n")
        .committed()
}

/// The processes that a log names.
pub(crate) fn marks(log: &Log) -> Vec<Mark> {
    log.starts().into_iter().map(|(_, start)| mark(start)).collect()
}

pub(crate) fn mark(start: &AgentStart) -> Mark {
    Mark {
        host: start.host.clone(),
        boot_id: start.boot_id.clone(),
        pid: start.pid,
        process_started: start.process_started,
    }
}

/// Waits until a process group is as wanted.
pub(crate) fn await_presence(mark: &Mark, wanted: Presence) {
    let patience = Instant::now() + Duration::from_secs(20);
    while mark.group_presence().unwrap() != wanted {
        assert!(Instant::now() < patience, "{mark:?} is not {wanted:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn r10_6_unchanged_work_is_not_judged_again_unless_asked_to() {
    let project = judged();
    assert_eq!(project.run("judged").outcome(), Outcome::VerificationFailed);
    let refused = project.fia(&["resume"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(refused.stderr.contains("fia verdict set"), "{refused}");
    assert!(refused.stderr.starts_with("fia resume: run "), "{refused}");
    assert_eq!(project.fia(&["resume", "--retry-unchanged", "--json"]).end(), "exit 1");
    // Content counts, also of a file that git does not track.
    project.env().write("src/new", "edited");
    assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 1");
    assert_eq!(project.fia(&["resume"]).end(), "exit 2");
}

#[test]
fn r10_6_unchanged_work_is_refused_after_every_outcome_that_judges_it() {
    let failure = "phases: { build: [{ answer: { status: failure, summary: no } }] }";
    let builds = "{ name: build, agent: builder }";
    let repairs = "{ name: tests, repair: { check: [never], fix: builder } }";
    for (outcome, step, stop, script) in [
        (Outcome::Failed, builds, "{}", failure),
        (Outcome::BlockedByGate, "{ name: build, agent: builder, gates: [never], retries: 0 }", "{}", "phases: {}"),
        (Outcome::AttemptCap, repairs, "{ attempt_cap: 1 }", "phases: {}"),
        (Outcome::NoProgress, repairs, "{ no_progress_window: 1 }", "phases: {}"),
        (Outcome::VerificationFailed, "{ name: tests, check: [never] }", "{}", "phases: {}"),
    ] {
        let project = Project::new()
            .with(&format!(
                "stop: {stop}\nchecks: {{ never: {{ run: 'exit 1' }} }}\nworkflows: {{ one: {{ steps: [ {step} ] }} }}\n"
            ))
            .script(script)
            .committed();
        assert_eq!(project.run("one").outcome(), outcome);
        let refused = project.fia(&["resume"]);
        assert_eq!(refused.end(), "exit 2", "{outcome}: {refused}");
        assert!(refused.stderr.contains("nothing that the run changed differs"), "{outcome}: {refused}");
        assert_eq!(project.fia(&["resume", "--retry-unchanged", "--json"]).end(), "exit 1", "{outcome}");
    }
}

#[test]
fn r10_6_eight_resumes_after_a_judgement_are_the_most() {
    let project = judged();
    project.run("judged");
    for _ in 0..8 {
        assert_eq!(project.fia(&["resume", "--retry-unchanged", "--json"]).end(), "exit 1");
    }
    let refused = project.fia(&["resume", "--retry-unchanged"]);
    assert_eq!(refused.end(), "exit 2");
    assert!(refused.stderr.contains("8 resumes and verdicts are used up"), "{refused}");
    assert!(refused.stderr.contains("fia run judged"), "{refused}");
    assert_eq!(project.fia(&["verdict", "set", &project.runs()[0], "--missing", "x"]).end(), "exit 2");
}

#[test]
fn r2_1_with_several_unfinished_runs_resume_lists_them() {
    let project = judged();
    project.run("judged");
    project.fia(&["run", "judged", "again", "-q"]);
    let refused = project.fia(&["resume"]);
    assert_eq!(refused.end(), "exit 2");
    for run in project.runs() {
        assert!(refused.stderr.contains(&run), "{refused}");
    }
}

#[test]
fn a_held_work_tree_is_refused_and_the_holder_named() {
    let project = hanging();
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "session");
    let run = project.runs().remove(0);
    for args in [&["run", "slow", "y"][..], &["resume", &run], &["undo", &run, "--apply"]] {
        let refused = project.fia(args);
        assert_eq!(refused.end(), "exit 2", "{refused}");
        assert!(refused.stderr.contains(&format!("another run holds this work tree: {run} (pid ")), "{refused}");
        assert!(refused.stderr.contains("fia stop "), "{refused}");
    }
    let verdict = project.fia(&["verdict", "set", &run, "--missing", "x"]);
    assert!(verdict.end() == "exit 2" && verdict.stderr.contains("is live"), "{verdict}");
    running.signal(Signal::INT);
    assert_eq!(running.finish().end(), "exit 130");
}

#[test]
fn r5_4_engines_of_a_killed_fia_are_named_by_readers_and_ended_by_the_next_actor() {
    let actors: [&[&str]; 4] = [&["run", "fast", "x", "-q"], &["resume", "--json"], &["stop"], &["undo", "--apply"]];
    for actor in actors {
        let project = hanging();
        let running = project.start(&["run", "slow", "x"]);
        project.wait_for(&running, "session");
        running.signal(Signal::KILL);
        drop(running.finish());
        let engine = marks(&project.log()).remove(0);
        // A hanging engine hears nothing of its fia's death.
        assert_eq!(engine.group_presence().unwrap(), Presence::Running);
        let shown = project.fia(&["show"]);
        assert!(shown.stderr.contains(&format!("process {}) still works", engine.pid)), "{shown}");
        assert_eq!(engine.group_presence().unwrap(), Presence::Running);
        let config = project.env().read("fia.config.yaml");
        project
            .env()
            .write("fia.config.yaml", &format!("{config}  fast:\n    steps: [{{ name: a, agent: builder }}]\n"));
        project.env().write("rehearsal.yaml", "phases: {}\n");
        let acted = project.fia(actor);
        assert_eq!(acted.end(), "exit 0", "{actor:?}: {acted}");
        await_presence(&engine, Presence::Gone);
    }
}

#[test]
fn r5_3_a_log_of_a_newer_format_is_read_and_not_appended_to() {
    let project = judged();
    project.run("judged");
    let log = project.run_dir().join("events.jsonl");
    let text = fs::read_to_string(&log).unwrap().replacen("\"format\":1", "\"format\":9", 1);
    fs::write(&log, &text).unwrap();
    assert_eq!(project.fia(&["show"]).end(), "exit 0");
    let refused = project.fia(&["resume", "--retry-unchanged"]);
    assert_eq!(refused.end(), "exit 3", "{refused}");
    assert!(refused.stderr.contains("go on with fia"), "{refused}");
    assert_eq!(fs::read_to_string(&log).unwrap(), text);
}

#[test]
fn r10_3_limits_are_read_anew_and_by_flag() {
    let project = hanging();
    project.env().write("rehearsal.yaml", "phases: {}\n");
    let config = project.env().read("fia.config.yaml");
    project.env().write("fia.config.yaml", &format!("{config}stop: {{ token_budget: 1 }}\n"));
    // One turn spends more than the budget, so the run ends before the next phase, or with it.
    project.fia(&["run", "slow", "x", "-q"]);
    assert_eq!(project.fia(&["resume", "--budget", "tokens=5"]).end(), "exit 2");
    project.fia(&["resume", &project.runs()[0], "--budget", "token_budget=9_000_000", "--json"]);
    let limits = project.log().all(|event| match event {
        Event::RunStart(start) => Some(start.stop["token_budget"].clone()),
        _ => None,
    });
    assert_eq!(limits, [serde_json::json!(1), serde_json::json!(9_000_000)]);
}

#[test]
fn pruning_state_that_is_damaged_is_set_aside_and_named_in_the_log() {
    let project = Project::new()
        .config(
            "defaults: { coding_agent: claude, model: sonnet }\n\
             engines: { claude: { program: sh, args: [./claude.sh] } }\n\
             context_pruning: { mode: cache-ttl }\n\
             workflows: { one: { steps: [{ name: build, agent: builder }] } }\n",
        )
        .file("claude.sh", "echo 'Invalid API key · Please run /login' >&2\nexit 1\n")
        .committed();
    assert_eq!(project.fia(&["run", "one", "x", "-q"]).end(), "exit 1");
    let state = project.run_dir().join("pruning/builder.json");
    fs::write(&state, "{").unwrap();
    assert_eq!(project.fia(&["resume", "-q"]).end(), "exit 1");
    let told = project.log().all(|event| match event {
        Event::Error(fault) => Some((fault.kind, fault.message.clone())),
        _ => None,
    });
    let aside = "; moved to pruning/builder.json.damaged, and pruning begins anew";
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, FaultKind::Storage);
    assert!(told[0].1.starts_with("pruning/builder.json: ") && told[0].1.ends_with(aside), "{told:?}");
    assert_eq!(fs::read_to_string(state.with_extension("json.damaged")).unwrap(), "{");
}
