//! No room, no place, and files cut short: a clear error or full recovery, never a wrong continuation.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::scene::{RUNS, Scene, alone, copy, end, two_at_a_time};
use crate::verdict::holds;

/// Lengths that each file is cut to.
const LENGTHS: usize = 20;

/// Long enough for every case; they are few.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_is_lost() {
    let _others_wait = alone();
    // In blocks of 512 or 1024 bytes, as the shell counts; a whole log is about 30 kB.
    let wrong = two_at_a_time(vec![0, 1, 2, 4, 6, 9, 12, 16, 20, 26, 32, 40, 60], LIMIT, |blocks| {
        let scene = Scene::new();
        let mut command = scene.command("sh");
        let line = "ulimit -f \"$0\" && exec \"$@\"";
        command.args(["-c", line, &blocks.to_string(), env!("CARGO_BIN_EXE_fia")]);
        command
            .args(["run", "crash", "greet in capitals", "--run", RUNS[0], "-q"])
            .stderr(std::process::Stdio::piped());
        let full = end(command);
        if full.code.is_none_or(|code| code > 3) || (full.code != Some(0) && !full.stderr.contains(['✗', ':'])) {
            return Err(format!("{blocks} blocks: {full:?}"));
        }
        go_on(&scene, &scene.log(RUNS[0])).map_err(|reason| format!("{blocks} blocks, after {full:?}: {reason}"))
    });
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goes on with a run that ended short, or starts anew where it never began.
fn go_on(scene: &Scene, before: &[u8]) -> Result<(), String> {
    let begun = before.contains(&b'\n');
    let run = if begun { RUNS[0] } else { RUNS[1] };
    let ended = end(if begun { scene.fia(&["resume", run, "--retry-unchanged"]) } else { scene.start(run) });
    if ended.code != Some(0) {
        return Err(format!("going on: {:?}\n{}", ended.code, ended.stderr));
    }
    holds(scene, run, if begun { before } else { b"" })
}

#[test]
fn a_data_directory_below_a_plain_file_is_a_clear_error() {
    let scene = Scene::new();
    let config = fs::read_to_string(scene.work().join("fia.config.yaml")).expect("a file");
    let config = config.replace("model: rehearsal }", "model: rehearsal, data_dir: greet.sh/state }");
    fs::write(scene.work().join("fia.config.yaml"), config).expect("a file");
    for command in [scene.start(RUNS[0]), scene.fia(&["resume"]), scene.fia(&["stop", "--all"])] {
        let ended = end(command);
        assert!(matches!(ended.code, Some(2 | 3)), "{ended:?}");
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("hint: "), "{}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(scene.work().join("greet.sh")).expect("a file"), "nothing\n");
}

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
    let results = two_at_a_time(jobs, LIMIT, |(file, length)| {
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

/// A run that was killed when it had everything but a commit, at about four fifths of its boundaries.
fn killed_halfway() -> Scene {
    let scene = Scene::new();
    let mut command = scene.start(RUNS[0]);
    command.env("FIA_FAULT_AT", "175");
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
