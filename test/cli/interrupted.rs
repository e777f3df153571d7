//! What an agent did with git in a leg in which fia was killed (SPEC 11.4).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fia::event::Event;
use pretty_assertions::assert_eq;
use rustix::process::Signal;

use super::resume::marks;
use crate::support::project::Project;

/// Uses git in every way that a leg has put back, and hangs.
const MEDDLES: &str = "echo more >> README && git stash push -q README && git checkout -q -b side && echo x > made && \
    git add made && git commit -qm theirs && git tag mark && echo y > staged && git add staged && \
    git config user.name Agent && touch ../ready";

/// A run whose builder meddles, killed then; and what git held before.
fn killed() -> (Project, Vec<String>) {
    let project = Project::new()
        .with("workflows:\n  one:\n    steps: [{ name: build, agent: builder }]\n")
        .script(&format!("phases: {{ build: [{{ do: [{{ run: {MEDDLES:?} }}], hang: true }}], build@2: [{{}}] }}\n"))
        .committed()
        .file("mine", "the user's own\n");
    project.env().git(&["add", "mine"]);
    let before = held(&project);
    let running = project.start(&["run", "one", "x"]);
    running.until("ready", || project.env().work().with_file_name("ready").exists());
    running.signal(Signal::KILL);
    drop(running.finish());
    assert!(held(&project).iter().zip(&before).all(|(now, before)| now != before), "all of it was meddled with");
    (project, before)
}

/// HEAD, refs, index and settings.
fn held(project: &Project) -> Vec<String> {
    let git = |args: &[&str]| project.env().git(args);
    vec![
        git(&["rev-parse", "--symbolic-full-name", "HEAD"]),
        git(&["for-each-ref"]),
        git(&["ls-files", "--stage"]),
        git(&["config", "--list", "--local"]),
    ]
}

fn changes(project: &Project) -> Vec<String> {
    let all = project.log().all(|event| match event {
        Event::ExternalChange(change) => Some(change.what.clone()),
        _ => None,
    });
    all.concat()
}

/// The files that the killed leg wrote, and the folder of its agent.
fn leg_files(project: &Project) -> Vec<PathBuf> {
    let entries = fs::read_dir(project.run_dir().join("agents/builder")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn r11_4_commits_branches_stashes_and_stages_of_a_leg_that_was_killed_go_back() {
    let (project, before) = killed();
    let theirs = project.env().git(&["rev-parse", "HEAD"]);
    let resumed = project.fia(&["resume", "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    assert_eq!(held(&project), before);
    // The work is kept, and counts as the run's.
    assert_eq!((project.env().read("made"), project.env().read("staged")), ("x\n".to_owned(), "y\n".to_owned()));
    let told = changes(&project);
    let stake = format!("to be put back to before a leg that was killed: HEAD ({}), refs/heads/side (", theirs.trim());
    assert!(told[0].starts_with(&stake) && told[0].ends_with(", index, .git/config, .git/logs/refs/stash"), "{told:?}");
    for name in ["HEAD", "index", "refs/heads/side", "refs/tags/mark", "refs/stash", ".git/config"] {
        assert!(told.iter().any(|what| what.starts_with(name)), "{name} is not in {told:?}");
    }
    assert!(told.contains(&format!("HEAD had moved to {}", theirs.trim())), "{told:?}");
    // Once is enough.
    let run = project.runs().remove(0);
    assert_eq!(project.fia(&["resume", &run, "--json"]).end(), "exit 0");
    assert_eq!(changes(&project), told);
}

#[test]
fn r11_4_what_a_person_did_with_git_long_after_the_kill_stays_and_is_named() {
    let (project, _) = killed();
    let (run, engine) = (project.runs().remove(0), marks(&project.log()).remove(0));
    engine.kill_group().unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for file in leg_files(&project) {
        File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    }
    project.env().git(&["commit", "--quiet", "--all", "--message", "taken over by hand"]);
    let by_hand = held(&project);
    let resumed = project.fia(&["resume", &run, "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    assert_eq!(held(&project), by_hand);
    let left = "refs/heads/side changed in a leg that was killed or since, and was left as it is";
    assert!(changes(&project).contains(&left.to_owned()), "{:?}", changes(&project));
}

#[test]
fn what_git_held_before_a_leg_is_written_without_the_place_of_the_repository() {
    let (project, _) = killed();
    let written = fs::read_to_string(project.run_dir().join("before_legs.jsonl")).unwrap();
    let place: &Path = &project.env().work();
    assert!(written.contains("\"config\"") && !written.contains(&place.display().to_string()), "{written}");
}

/// A run whose builder stages a file, and writes over one that it may not touch.
#[cfg(debug_assertions)]
fn trespassing() -> Project {
    let acts = "{ run: 'echo y > src/staged && git add src/staged' }, { write: { theirs: changed } }";
    Project::new()
        .with("agents: [{ name: builder, writes: [src/] }]\nworkflows:\n  one:\n    steps: [{ name: build, agent: builder }]\n")
        .script(&format!("phases: {{ build: [{{ do: [{acts}] }}], build@2: [{{}}] }}\n"))
        .file("theirs", "the user's own\n")
        .file("src/old", "old\n")
        .committed()
}

/// A run that was killed the first time it came to a boundary of this name, as builds with debug assertions alone can be.
#[cfg(debug_assertions)]
fn killed_at(boundary: &str, project: Project) -> Project {
    let killed = crate::support::program::run(project.command(&["run", "one", "x"]).env("FIA_FAULT_AT", boundary));
    assert_eq!(killed.end(), "signal 9", "{killed}");
    project
}

#[cfg(debug_assertions)]
#[test]
fn a_rollback_that_was_killed_leaves_nothing_of_fia_in_the_work_tree() {
    let project = killed_at("restore: before", trespassing());
    assert_eq!(project.env().git(&["status", "--porcelain", "--untracked-files=all"]), " M theirs\n?? src/staged\n");
    let resumed = project.fia(&["resume", "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    let made = project.log().all(|event| match event {
        Event::TreeChanged(changed) => Some(changed.changes.iter().map(|it| it.path.to_string()).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(made, [["src/staged"]]);
}

#[cfg(debug_assertions)]
#[test]
fn a_lock_of_the_index_that_a_killed_fia_left_is_known_for_its_own() {
    let project = killed_at("index: locked", trespassing());
    let lock = project.env().work().join(".git/index.lock");
    assert!(lock.exists());
    let resumed = project.fia(&["resume", "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    assert!(!lock.exists());
    assert_eq!(project.env().git(&["ls-files", "src"]), "src/old\n");
    assert!(changes(&project).contains(&"index".to_owned()), "{:?}", changes(&project));
}

#[cfg(debug_assertions)]
#[test]
fn r11_4_a_resume_that_is_killed_once_it_has_put_git_back_has_said_so_before() {
    let (project, before) = killed();
    let theirs = project.env().git(&["rev-parse", "HEAD"]);
    let killed =
        crate::support::program::run(project.command(&["resume", "--json"]).env("FIA_FAULT_AT", "index: locked"));
    assert_eq!(killed.end(), "signal 9", "{killed}");
    assert_eq!(held(&project)[..2], before[..2], "HEAD and refs are back");
    let resumed = project.fia(&["resume", "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    let told = changes(&project);
    assert!(told[0].contains(&format!("HEAD ({})", theirs.trim())), "{told:?}");
    assert_eq!(told[1], "to be put back to before a leg that was killed: index");
}
