//! Children as a run meets them: what they say arrives whole, they end in time, and nothing of them is left.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fia::host::{Mark, Presence};
use fia::lines::RawLine;
use fia::process::{Child, CommandSpec, Exit, Finish, Keep, Limits, OWNER, SpawnError};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

/// What is too short for no machine: a test that waits for a span to pass makes that one short.
fn limits() -> Limits {
    let long = Duration::from_secs(60);
    Limits { drain: long, exit_grace: long, term_grace: long, ..Limits::default() }
}

/// For those whose output is held open until the time to drain it is over.
fn held_open() -> Limits {
    Limits { drain: Limits::default().drain, ..limits() }
}

fn case(name: &str) -> CommandSpec {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/cases").join(name).join("engine.sh");
    CommandSpec::new("sh", env!("CARGO_MANIFEST_DIR")).arg(script)
}

fn shell(script: &str) -> CommandSpec {
    CommandSpec::new("sh", env!("CARGO_MANIFEST_DIR")).arg("-c").arg(script)
}

/// A child, the files that keep its output, and its mark.
struct Watched {
    child: Child,
    mark: Mark,
    stdout: PathBuf,
    stderr: PathBuf,
    _dir: TempDir,
}

impl Watched {
    fn start(spec: &CommandSpec) -> Self {
        Self::start_within(spec, limits())
    }

    fn start_within(spec: &CommandSpec, limits: Limits) -> Self {
        let dir = TempDir::new().unwrap();
        let (stdout, stderr) = (dir.path().join("stdout"), dir.path().join("stderr"));
        let open = |path: &Path| Some(File::create(path).unwrap());
        let keep = Keep { stdout: open(&stdout), stderr: open(&stderr) };
        let child = Child::spawn(spec, keep, limits).unwrap();
        let mark = Mark::new(child.identity()).unwrap();
        Self { child, mark, stdout, stderr, _dir: dir }
    }

    /// All lines up to the end of output or the closing event, each with its newline again.
    async fn lines(&mut self) -> String {
        let mut text = Vec::new();
        while let Some(line) = self.child.line().await {
            let RawLine::Line(line) = line else { panic!("{line:?}") };
            text.extend_from_slice(line);
            text.push(b'\n');
            if line.starts_with(b"{\"type\":\"result\"") {
                break;
            }
        }
        String::from_utf8(text).unwrap()
    }

    /// Ends the child and collects what it still said.
    async fn finish(self, how: Finish) -> Over {
        let mut rest = Vec::new();
        let ended = self
            .child
            .finish(how, &mut |line| match line {
                RawLine::Line(line) => rest.push(String::from_utf8_lossy(line).into_owned()),
                RawLine::TooLong { bytes } => panic!("{bytes} bytes"),
            })
            .await;
        assert_eq!(self.mark.group_presence().unwrap(), Presence::Gone, "nothing of the group is left");
        let (stdout, stderr) = (fs::read(self.stdout).unwrap(), fs::read(self.stderr).unwrap());
        Over { exit: ended.exit, held_open: ended.held_open, stderr_tail: ended.stderr_tail, rest, stdout, stderr }
    }
}

/// A child that is gone and what it left.
struct Over {
    exit: Exit,
    held_open: bool,
    stderr_tail: Vec<u8>,
    rest: Vec<String>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// What the script of a case prints between its here-document marks.
fn printed(name: &str) -> String {
    let script = fs::read_to_string(case(name).args[0].clone()).unwrap();
    let (_, from) = script.split_once("<<'X'\n").unwrap();
    from.split_once("\nX\n").unwrap().0.to_owned() + "\n"
}

#[tokio::test]
async fn exit_never_comes() {
    let grace = Duration::from_millis(200);
    let mut watched = Watched::start_within(&case("exit-never-comes"), Limits { exit_grace: grace, ..limits() });
    watched.child.close_stdin();
    assert_eq!(watched.lines().await, printed("exit-never-comes"));
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!((ended.exit, ended.held_open), (Exit::Signal(15), false));
}

#[tokio::test]
async fn grandchild_holds_output() {
    let mut watched = Watched::start_within(&case("grandchild-holds-output"), held_open());
    watched.child.close_stdin();
    assert_eq!(watched.lines().await, printed("grandchild-holds-output"));
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!((ended.exit, ended.held_open), (Exit::Code(0), true));
}

#[tokio::test]
async fn a_grandchild_that_holds_output_does_not_hold_the_reader() {
    let mut watched = Watched::start_within(&shell("echo one; sleep 600 & exit 3"), held_open());
    assert_eq!(watched.lines().await, "one\n");
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!((ended.exit, ended.held_open), (Exit::Code(3), true));
}

#[tokio::test]
async fn a_grandchild_that_holds_only_standard_error_is_ended_too() {
    let script = "echo one; echo bad >&2; sleep 600 >/dev/null & exit 0";
    let mut watched = Watched::start_within(&shell(script), held_open());
    assert_eq!(watched.lines().await, "one\n");
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!((ended.exit, ended.held_open), (Exit::Code(0), true));
    assert_eq!(ended.stderr_tail, b"bad\n");
}

#[tokio::test]
async fn a_silent_grandchild_does_not_outlive_the_child() {
    let mut watched = Watched::start(&shell("sleep 600 >/dev/null 2>&1 & echo one"));
    assert_eq!(watched.lines().await, "one\n");
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!((ended.exit, ended.held_open), (Exit::Code(0), false));
}

#[tokio::test]
async fn ignores_sigterm() {
    let grace = Duration::from_millis(300);
    let mut watched = Watched::start_within(&case("ignores-sigterm"), Limits { term_grace: grace, ..limits() });
    watched.child.close_stdin();
    let mut seen = String::new();
    while seen.lines().count() < 3 {
        let Some(RawLine::Line(line)) = watched.child.line().await else { panic!("the output ended") };
        seen += &(String::from_utf8_lossy(line) + "\n");
    }
    assert_eq!(seen, printed("ignores-sigterm"));
    let started = Instant::now();
    let ended = watched.finish(Finish::Stop).await;
    assert_eq!((ended.exit, ended.held_open), (Exit::Signal(9), false));
    assert!(started.elapsed() >= grace, "it had its grace");
}

#[tokio::test]
async fn floods_stderr() {
    let mut watched = Watched::start(&case("floods-stderr"));
    watched.child.close_stdin();
    assert_eq!(watched.lines().await, printed("floods-stderr"));
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!((ended.exit, ended.stderr.len()), (Exit::Code(0), 4_194_304));
    assert_eq!(ended.stderr_tail, vec![b'e'; 64 * 1024]);
}

#[tokio::test]
async fn waits_for_stdin_end() {
    let mut watched = Watched::start(&case("waits-for-stdin-end"));
    watched.child.send(b"a prompt".to_vec());
    watched.child.close_stdin();
    assert_eq!(watched.lines().await, printed("waits-for-stdin-end"));
    assert_eq!(watched.finish(Finish::Closing).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn prompt_200_kib() {
    let mut watched = Watched::start(&case("prompt-200-kib"));
    watched.child.send(vec![b'Q'; 204_800]);
    watched.child.close_stdin();
    let lines = watched.lines().await;
    assert!(lines.contains("\"result\":\"got 204800\""), "{lines}");
    assert_eq!(watched.finish(Finish::Closing).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn a_prompt_of_5_mib_passes_a_child_that_talks_before_it_listens() {
    let mut watched = Watched::start(&shell("head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; wc -c"));
    watched.child.send(vec![b'Q'; 5 * 1024 * 1024]);
    watched.child.close_stdin();
    let lines = watched.lines().await;
    let (flood, count) = lines.split_once('\n').unwrap();
    assert_eq!((flood.len(), count.trim()), (3_000_000, "5242880"));
    let ended = watched.finish(Finish::Closing).await;
    assert_eq!(ended.exit, Exit::Code(0));
    assert!(ended.stdout == lines.as_bytes(), "the transcript is the output");
}

#[tokio::test]
async fn a_child_that_closed_its_input_is_no_error() {
    let mut watched = Watched::start(&shell("exec <&-; echo deaf; sleep 0.05; echo done"));
    watched.child.send(vec![b'Q'; 5 * 1024 * 1024]);
    assert_eq!(watched.lines().await, "deaf\ndone\n");
    watched.child.send(b"more".to_vec());
    assert_eq!(watched.finish(Finish::Closing).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn lines_can_be_waited_for_beside_other_things() {
    let mut watched = Watched::start(&shell("read line; echo \"$line\"; read line; echo \"$line\""));
    let (bell, mut rings) = tokio::sync::mpsc::channel(2);
    bell.send("one\n").await.unwrap();
    bell.send("two\n").await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        tokio::select! {
            Some(word) = rings.recv() => watched.child.send(word.into()),
            line = watched.child.line() => match line {
                Some(RawLine::Line(line)) => heard.push(String::from_utf8_lossy(line).into_owned()),
                other => panic!("{other:?}"),
            },
        }
    }
    assert_eq!(heard, ["one", "two"]);
    assert_eq!(watched.finish(Finish::Closing).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn a_line_over_the_limit_is_counted_and_reading_goes_on() {
    let limits = Limits { max_line_bytes: 100_000, ..limits() };
    let spec = shell("head -c 100000 /dev/zero; echo; head -c 100001 /dev/zero; echo; printf end");
    let mut child = Child::spawn(&spec, Keep::default(), limits).unwrap();
    assert_eq!(child.line().await, Some(RawLine::Line(&vec![0; 100_000])));
    assert_eq!(child.line().await, Some(RawLine::TooLong { bytes: 100_001 }));
    assert_eq!(child.line().await, Some(RawLine::Line(b"end")));
    assert_eq!(child.line().await, None);
    assert_eq!(child.finish(Finish::Closing, &mut |_| {}).await.exit, Exit::Code(0));
}

#[tokio::test]
async fn lines_said_on_the_way_out_are_handed_over() {
    let spec = shell("trap 'echo last; exit 5' TERM; echo first; while :; do sleep 0.01; done");
    let mut watched = Watched::start(&spec);
    assert_eq!(watched.child.line().await, Some(RawLine::Line(b"first")));
    let ended = watched.finish(Finish::Stop).await;
    assert_eq!((ended.exit, ended.rest), (Exit::Code(5), vec!["last".to_owned()]));
    assert_eq!(ended.stdout, b"first\nlast\n");
}

#[tokio::test]
async fn a_stopped_child_is_ended_like_any_other() {
    let mut watched = Watched::start(&shell("echo one; kill -STOP $$; sleep 600"));
    assert_eq!(watched.child.line().await, Some(RawLine::Line(b"one")));
    assert_eq!(watched.finish(Finish::Stop).await.exit, Exit::Signal(15));
}

#[tokio::test]
async fn a_dropped_child_takes_its_group_with_it() {
    let mut watched = Watched::start(&shell("trap '' TERM; sleep 600 & echo $!; wait"));
    assert!(watched.child.line().await.is_some());
    let Watched { child, mark, .. } = watched;
    drop(child);
    let patience = Instant::now() + Duration::from_secs(60);
    while mark.group_presence().unwrap() != Presence::Gone {
        assert!(Instant::now() < patience, "the group outlived its child");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn output_that_cannot_be_kept_is_said_and_reading_goes_on() {
    let full = || Some(File::options().write(true).open("/dev/full").unwrap());
    if !Path::new("/dev/full").exists() {
        return;
    }
    let keep = Keep { stdout: full(), stderr: None };
    let mut child = Child::spawn(&shell("echo one; echo two"), keep, limits()).unwrap();
    assert_eq!(child.line().await, Some(RawLine::Line(b"one")));
    assert_eq!(child.line().await, Some(RawLine::Line(b"two")));
    let ended = child.finish(Finish::Closing, &mut |_| {}).await;
    assert_eq!(ended.unsaved.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
}

fn spawn_error(spec: &CommandSpec) -> SpawnError {
    Child::spawn(spec, Keep::default(), limits()).map(drop).unwrap_err()
}

#[tokio::test]
async fn binary_missing() {
    let error = spawn_error(&CommandSpec::new("does-not-exist-4711", env!("CARGO_MANIFEST_DIR")));
    assert_eq!(error.to_string(), "program `does-not-exist-4711` not found on PATH");
    assert!(matches!(error, SpawnError::NoProgram { on_path: true, .. }));
    assert_eq!(
        error.hint(),
        "install `does-not-exist-4711`, put its directory on PATH, or name its path in the configuration"
    );
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let here = |program: &Path| CommandSpec::new(program, dir.path());

    let plain = file("plain", "text", 0o644);
    assert!(matches!(spawn_error(&here(&plain)), SpawnError::NotExecutable { path } if path == plain));
    let noise = file("noise", "\u{1}\u{2}", 0o755);
    assert!(matches!(spawn_error(&here(&noise)), SpawnError::NotExecutable { path } if path == noise));
    assert!(matches!(spawn_error(&here(dir.path())), SpawnError::NotExecutable { .. }));
    let script = file("script", "#!/no/such/interpreter\n", 0o755);
    assert!(matches!(spawn_error(&here(&script)), SpawnError::NoInterpreter { path } if path == script));
    let nowhere = dir.path().join("nowhere");
    assert!(matches!(
        spawn_error(&CommandSpec::new("sh", &nowhere)),
        SpawnError::NoDirectory { path } if path == nowhere
    ));
    assert!(matches!(spawn_error(&here(&nowhere)), SpawnError::NoProgram { on_path: false, .. }));
    let long = CommandSpec::new("sh", dir.path()).arg("x".repeat(8 * 1024 * 1024));
    assert!(matches!(spawn_error(&long), SpawnError::ArgumentTooLong { .. }));
}

#[tokio::test]
async fn a_name_is_looked_up_on_the_path_of_the_child() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let tool = dir.path().join("bin/tool");
    fs::write(&tool, "#!/bin/sh\necho found\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let spec = CommandSpec::new("tool", dir.path()).set("PATH", "bin");
    let mut child = Child::spawn(&spec, Keep::default(), limits()).unwrap();
    assert_eq!(child.line().await, Some(RawLine::Line(b"found")));
    child.finish(Finish::Closing, &mut |_| {}).await;
    let error = spawn_error(&CommandSpec::new("sh", dir.path()).unset("PATH"));
    assert!(matches!(error, SpawnError::NoProgram { .. }));
}

#[tokio::test]
async fn a_program_that_is_being_written_is_started_when_it_is_whole() {
    let dir = TempDir::new().unwrap();
    let tool = dir.path().join("tool");
    fs::write(&tool, "#!/bin/sh\necho whole\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let writer = File::options().append(true).open(&tool).unwrap();
    match std::process::Command::new(&tool).spawn() {
        Err(busy) => assert_eq!(busy.kind(), std::io::ErrorKind::ExecutableFileBusy),
        // Not every system refuses.
        Ok(mut started) => return assert!(started.wait().unwrap().success()),
    }
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(writer);
    });
    let mut child = loop {
        let asked = Instant::now();
        match Child::spawn(&CommandSpec::new(&tool, dir.path()), Keep::default(), limits()) {
            Ok(child) => break child,
            // On a busy machine the writer may be later than fia waits; but it waits.
            Err(error) => assert!(asked.elapsed() > Duration::from_millis(100), "{error}"),
        }
    };
    closing.join().unwrap();
    assert_eq!(child.line().await, Some(RawLine::Line(b"whole")));
    child.finish(Finish::Closing, &mut |_| {}).await;
}

#[tokio::test]
async fn what_was_said_before_the_time_was_over_is_read_however_late() {
    let dir = TempDir::new().unwrap();
    let script = "(until [ -e go ]; do sleep 0.01; done; echo last words; echo error >&2; touch gone) & exit 0";
    let mut child =
        Child::spawn(&CommandSpec::new("sh", dir.path()).arg("-c").arg(script), Keep::default(), held_open()).unwrap();
    // Long enough for the exit of the leader to be seen.
    let waited = tokio::time::timeout(held_open().drain / 2, child.line()).await.is_err();
    assert!(waited);
    fs::write(dir.path().join("go"), "").unwrap();
    // A thread that is kept busy: the words come, and the time to drain them is over, before anybody reads.
    let give_up = Instant::now() + Duration::from_secs(60);
    while !dir.path().join("gone").exists() {
        assert!(Instant::now() < give_up, "nothing was said");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(held_open().drain);
    assert_eq!(child.line().await, Some(RawLine::Line(b"last words")));
    let ended = child.finish(Finish::Closing, &mut |_| {}).await;
    assert_eq!(ended.stderr_tail, b"error\n");
    assert!(!ended.held_open);
}

/// A child with one in a session of its own, whose id it tells.
async fn with_a_stray(owner: &str) -> (Watched, Mark) {
    let spec = shell("setsid sleep 600 >/dev/null 2>&1 & echo $!; exec sleep 600").set(OWNER, owner);
    let mut watched = Watched::start(&spec);
    let Some(RawLine::Line(pid)) = watched.child.line().await else { panic!("no id") };
    let pid = String::from_utf8_lossy(pid).parse().unwrap();
    (watched, Mark::new(fia::host::identity(pid).unwrap()).unwrap())
}

#[tokio::test]
async fn what_a_child_started_in_another_session_is_killed_with_it_and_that_of_others_is_not() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (other, theirs) = with_a_stray("another").await;
    for how in [Finish::Stop, Finish::KillNow] {
        let (killed, stray) = with_a_stray("one").await;
        assert_eq!(stray.presence().unwrap(), Presence::Running);
        killed.child.finish(how, &mut |_| {}).await;
        assert_eq!(stray.presence().unwrap(), Presence::Gone);
    }
    let (dropped, stray) = with_a_stray("one").await;
    drop(dropped);
    assert_eq!(stray.presence().unwrap(), Presence::Gone);
    assert_eq!(theirs.presence().unwrap(), Presence::Running);
    drop(other);
}
