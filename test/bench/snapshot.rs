//! Prints how long snapshots and rollbacks take beside git itself, in one run over one tree.
//!
//! `cargo bench --bench snapshot` uses 50,000 files, 6,000 of them changed, and a rollback of 1,000 paths. The
//! number of processes is counted by a `git` in front of `PATH` that notes each call, so it runs in a process of
//! its own.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fia::ids::RunId;
use fia::tree::{Guard, Repository, Tree, TreeOptions, compare};

type Outcome<T> = Result<T, Box<dyn Error>>;

const FILES: usize = 50_000;
const CHANGED: usize = 6_000;
const ROLLED_BACK: usize = 1_000;

/// Times are the least of so many tries: what the machine's other work adds is not ours.
const TRIES: usize = 5;

fn main() -> Outcome<()> {
    let mut out = std::io::stdout();
    if let Some(dir) = std::env::args().skip_while(|argument| argument != "--rollback").nth(1) {
        return Ok(writeln!(out, "{} ms", rollback(Path::new(&dir))?)?);
    }
    let folder = tempfile::tempdir()?;
    let top = folder.path();
    make_files(top)?;
    git(top, "git init -q -b main . && git config user.email a@example.invalid && git config user.name a")?;
    git(top, "git config gc.auto 0; mkdir .fia; echo '*' > .fia/.gitignore; git add -A; git commit -q -m base")?;

    let hashed = best(3, || git(top, "git ls-files | git hash-object --no-filters --stdin-paths"))?;
    let first = best(3, || {
        fs::remove_dir_all(top.join(".fia/run")).or_else(ignore_absent)?;
        fs::remove_file(top.join(".fia/stat_cache")).or_else(ignore_absent)?;
        open(top)?.snapshot().map(drop).map_err(Into::into)
    })?;
    line(&mut out, "first snapshot / git hash-object", first, hashed)?;

    // Two seconds, so that no file counts as touched just now.
    std::thread::sleep(Duration::from_millis(2_100));
    let mut tree = open(top)?;
    let before = tree.snapshot()?;
    change(top, 0..CHANGED, "changed\n")?;
    let started = Instant::now();
    let after = tree.snapshot()?;
    let changes = compare(&before, &after);
    let fresh = started.elapsed();
    assert_eq!(changes.len(), CHANGED);
    std::thread::sleep(Duration::from_millis(2_100));
    tree.snapshot()?;
    git(top, "git status")?;
    let status = best(TRIES, || git(top, "GIT_OPTIONAL_LOCKS=0 git status --porcelain"))?;
    let warm = best(TRIES, || {
        let after = tree.snapshot()?;
        assert_eq!(compare(&before, &after).len(), CHANGED);
        Ok(())
    })?;
    line(&mut out, "snapshot + compare, 6,000 changed, cache warm / git status", warm, status)?;
    line(&mut out, "the same just after the change (6,000 read and kept) / git status", fresh, status)?;
    let reopened = best(3, || open(top)?.snapshot().map(drop).map_err(Into::into))?;
    line(&mut out, "open a resumed run and snapshot / git status", reopened, status)?;
    drop(tree);

    let log = top.join(".fia/calls");
    let shim = top.join(".fia/bin/git");
    fs::create_dir(top.join(".fia/bin"))?;
    let real = git(top, "command -v git")?;
    let script = format!("#!/bin/sh\necho x >> '{}'\nexec '{}' \"$@\"\n", log.display(), real.trim());
    fs::write(&shim, script)?;
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", top.join(".fia/bin").display(), std::env::var("PATH")?);
    let output = Command::new(std::env::current_exe()?).arg("--rollback").arg(top).env("PATH", path).output()?;
    let calls = fs::read_to_string(log)?.lines().count();
    let took = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writeln!(
        out,
        "end of a leg with a rollback of 1,000 paths: {}; {calls} processes with opening and the look before",
        took.trim()
    )?;
    Ok(())
}

/// A leg that overwrites, deletes and makes files outside its lane, in another process.
fn rollback(top: &Path) -> Outcome<u128> {
    let mut tree = open(top)?;
    let start = tree.begin()?;
    change(top, 0..ROLLED_BACK - 200, "against the rules\n")?;
    for number in ROLLED_BACK - 200..ROLLED_BACK - 100 {
        fs::remove_file(top.join(name(number)))?;
        fs::write(top.join(format!("new{number}")), "made")?;
    }
    let started = Instant::now();
    let end = tree.end(&start, &Guard::new(Some(&[]), &[], &[], &[])?)?;
    let took = started.elapsed().as_millis();
    assert_eq!((end.violations.len(), end.not_restored.len()), (ROLLED_BACK, 0));
    assert!(end.snapshot == start.snapshot, "every path is as before");
    Ok(took)
}

fn open(top: &Path) -> Outcome<Tree> {
    let repository = Repository::discover(top)?;
    let data_dir = repository.top.join(".fia");
    let options = TreeOptions {
        run: &RunId::new("bench"),
        data_dir: &data_dir,
        store: &data_dir.join("run"),
        stat_cache: &data_dir.join("stat_cache"),
        protected: &[],
        judge_files: &[],
    };
    Ok(Tree::open(repository, &options)?)
}

fn name(number: usize) -> String {
    format!("d{}/e{}/f{number}.txt", number % 50, number / 50 % 20)
}

fn make_files(top: &Path) -> Outcome<()> {
    for number in 0..FILES {
        let file = top.join(name(number));
        if number < 1_000 {
            fs::create_dir_all(file.parent().ok_or("no folder")?)?;
        }
        fs::write(file, format!("file {number}\n").repeat(20 + number % 200))?;
    }
    Ok(())
}

fn change(top: &Path, numbers: std::ops::Range<usize>, text: &str) -> Outcome<()> {
    for number in numbers {
        let mut file = fs::OpenOptions::new().append(true).open(top.join(name(number)))?;
        write!(file, "{number} {text}")?;
    }
    Ok(())
}

fn git(top: &Path, script: &str) -> Outcome<String> {
    let output = Command::new("sh").arg("-ec").arg(script).current_dir(top).output()?;
    if !output.status.success() {
        return Err(format!("{script}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The least time of several tries.
fn best<T>(tries: usize, mut work: impl FnMut() -> Outcome<T>) -> Outcome<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..tries {
        let started = Instant::now();
        work()?;
        least = least.min(started.elapsed());
    }
    Ok(least)
}

fn line(out: &mut impl std::io::Write, what: &str, ours: Duration, gits: Duration) -> Outcome<()> {
    let ratio = ours.as_secs_f64() / gits.as_secs_f64();
    Ok(writeln!(out, "{what}: {} ms / {} ms = {ratio:.2}", ours.as_millis(), gits.as_millis())?)
}

fn ignore_absent(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
