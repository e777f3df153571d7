//! No room and no place: a clear error or full recovery, never a wrong continuation.

use std::fs;
use std::time::Duration;

use crate::scene::{RUNS, Scene, alone, end, two_at_a_time};
use crate::verdict::holds;

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_is_lost() {
    let _others_wait = alone();
    // In blocks of 512 or 1024 bytes, as the shell counts; a whole log is about 30 kB.
    let wrong = two_at_a_time(vec![0, 1, 2, 4, 6, 9, 12, 16, 20, 26, 32, 40, 60], Duration::MAX, |blocks| {
        let scene = Scene::new();
        let mut command = scene.command("sh");
        let line = "ulimit -f \"$0\" && exec \"$@\"";
        command.args(["-c", line, &blocks.to_string(), env!("CARGO_BIN_EXE_fia")]);
        command.args(["run", "crash", "greet in capitals", "--run", RUNS[0], "-q"]);
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
