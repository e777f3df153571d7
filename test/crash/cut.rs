//! Files of a run that are cut short: made anew or named, never a wrong continuation.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fia::event::Event;
use fia::ids::RunId;
use fia::store::RunDir;
use rustix::process::Signal;

use crate::scene::{RUNS, Scene, alone, copy, end, two_at_a_time};
use crate::verdict::{holds, records};

/// Lengths that each file is cut to.
const LENGTHS: usize = 20;

#[test]
fn files_that_were_cut_short_are_made_anew_or_named() {
    let _others_wait = alone();
    let killed = killed_halfway();
    let files = [
        "events.jsonl",
        "run.json",
        "agent_map.json",
        "before_leg.json",
        "before_legs.jsonl",
        "channel.jsonl",
        "channel_watermarks.json",
        "objects/ignore_rules.json",
    ];
    let jobs: Vec<(&str, u64)> = files
        .iter()
        .flat_map(|file| {
            let length = fs::metadata(killed.run_dir(RUNS[0]).join(file)).expect("a file of a run").len();
            (0..LENGTHS).map(move |_| (*file, random_below(length)))
        })
        .collect();
    let results = two_at_a_time(jobs, Duration::MAX, |(file, length)| {
        let scene = Scene::new();
        copy(&killed.work(), &scene.work());
        cut(&scene.run_dir(RUNS[0]).join(file), length);
        let before = scene.log(RUNS[0]);
        let shown = end(scene.fia(&["show", RUNS[0]]));
        let readable = shown.code == Some(0) || (file == "events.jsonl" && shown.code == Some(2));
        let ended = end(scene.fia(&["resume", RUNS[0]]));
        let came = match ended.code {
            _ if !readable => Err(format!("show: {shown:?}")),
            Some(0) => holds(&scene, RUNS[0], &before).map(|()| "recovered"),
            // What cannot be made anew is named, and nothing is touched.
            Some(2 | 3) if file != "run.json" && file != "agent_map.json" && ended.stderr.contains("error: ") => {
                if scene.log(RUNS[0]) == before {
                    Ok("named")
                } else {
                    Err("the log was touched".to_owned())
                }
            }
            _ => Err(format!("{ended:?}")),
        };
        (file, length, came)
    });
    let wrong: Vec<_> = results.iter().filter(|(_, _, came)| came.is_err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let recovered = |file| results.iter().filter(|(of, _, came)| *of == file && *came == Ok("recovered")).count();
    assert_eq!((recovered("run.json"), recovered("agent_map.json")), (LENGTHS, LENGTHS));
}

/// A run that was killed when it had everything but a commit: in the last turn of an agent.
fn killed_halfway() -> Scene {
    let whole = Scene::new();
    assert_eq!(end(whole.start(RUNS[0])).code, Some(0));
    let records = records(&RunDir::new(RunId::new(RUNS[0]), whole.run_dir(RUNS[0])));
    let last = records.iter().rfind(|record| matches!(record.event, Event::AgentStart(_))).expect("an agent");
    let scene = Scene::new();
    let mut command = scene.start(RUNS[0]);
    // The record with number N is the Nth append.
    command.env("FIA_FAULT_AT", format!("append: after {}", last.seq));
    assert_eq!(end(command).signal, Some(Signal::KILL.as_raw()));
    scene
}

fn cut(file: &Path, length: u64) {
    fs::File::options().write(true).open(file).and_then(|file| file.set_len(length)).expect("a file that can be cut");
}

fn random_below(length: u64) -> u64 {
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("random bytes");
    u64::from_le_bytes(random) % length.max(1)
}
