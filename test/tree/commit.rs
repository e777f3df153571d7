//! Commits hold only what the run made.

use fia::event::{PathChange, RepoPath};
use fia::tree::{CommitOrder, CommitOutcome, LeftOut, LeftOutReason, Reins, Tree};
use pretty_assertions::assert_eq;

use crate::scratch::{Scratch, may_write};

fn commit(tree: &mut Tree, base: Option<&str>, changes: &[PathChange]) -> CommitOutcome {
    tree.commit(&CommitOrder {
        base,
        changes,
        message: "feat: work\n\n# kept\n",
        declared: &[],
        cut_off_since: None,
        reins: &Reins::default(),
    })
    .unwrap()
}

fn paths(outcome: &CommitOutcome) -> Vec<String> {
    outcome.paths.iter().map(ToString::to_string).collect()
}

fn head(scratch: &Scratch) -> String {
    scratch.sh("git rev-parse HEAD").trim().to_owned()
}

fn left_out(path: &str, reason: LeftOutReason) -> LeftOut {
    LeftOut { path: path.into(), reason }
}

#[test]
fn r11_6_a_commit_holds_what_the_run_made_and_the_users_staged_work_stays_staged() {
    let scratch = Scratch::with(&[("src/a", "1"), ("src/gone", "1"), ("staged", "1"), ("edited", "1")]);
    scratch.sh("echo 2 > staged; git add staged; echo 2 > edited; echo new > staged-new; git add staged-new; echo u > untracked");
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let script =
        "echo 2 > src/a; rm src/gone; echo n > 'src/[new] *'; printf '#!/bin/sh\n' > src/run; chmod +x src/run";
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), script).kept;
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!(outcome.commit, Some(head(&scratch)));
    assert_eq!(outcome.branch.as_deref(), Some("main"));
    assert_eq!(paths(&outcome), ["src/[new] *", "src/a", "src/gone", "src/run"]);
    assert_eq!((outcome.left_out, outcome.refused, outcome.changed_by_hooks), (vec![], None, vec![]));
    assert_eq!(scratch.sh("git log -1 --format=%B"), "feat: work\n\n# kept\n\n");
    assert_eq!(scratch.sh("git ls-tree HEAD src/run").split(' ').next(), Some("100755"));
    assert_eq!(scratch.sh("git status --porcelain"), " M edited\nM  staged\nA  staged-new\n?? untracked\n");
}

#[test]
fn r11_6_a_commit_that_was_killed_before_git_made_it_is_made_by_the_next() {
    for unborn in [false, true] {
        let scratch = Scratch::with(&[]);
        let base = if unborn {
            scratch.sh("git update-ref -d HEAD");
            None
        } else {
            Some(head(&scratch))
        };
        let mut tree = scratch.tree();
        let changes = scratch.leg(&mut tree, &may_write(&["src/"]), "mkdir -p src; echo n > src/new").kept;
        scratch.sh("git add --intent-to-add src/new");
        let outcome = commit(&mut tree, base.as_deref(), &changes);
        assert_eq!(paths(&outcome), ["src/new"]);
        assert_eq!(outcome.left_out, []);
        assert_eq!(scratch.sh("git status --porcelain"), "");
    }
}

#[test]
fn r11_6_a_file_that_the_user_had_changed_is_listed_as_mixed() {
    let scratch = Scratch::with(&[("edited", "1"), ("staged", "1"), ("deleted", "1"), ("clean", "1"), ("later", "1")]);
    scratch.sh("echo u > edited; echo u > staged; git add staged; git show HEAD:staged > staged; rm deleted; echo u > untracked");
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let everywhere = fia::tree::Guard::new(None, &[], &[], &[]).unwrap();
    let script = "for f in edited staged deleted clean later untracked between; do echo agent >> $f; done";
    let mut changes = scratch.leg(&mut tree, &everywhere, script).kept;
    scratch.sh("echo user >> between");
    changes.extend(scratch.leg(&mut tree, &everywhere, "echo again >> between").kept);
    scratch.sh("echo user >> later");
    let declared: Vec<RepoPath> = ["clean", "never"].map(RepoPath::from).to_vec();
    let order = CommitOrder {
        base: Some(&base),
        changes: &changes,
        message: "m",
        declared: &declared,
        cut_off_since: None,
        reins: &Reins::default(),
    };
    let outcome = tree.commit(&order).unwrap();
    assert_eq!(paths(&outcome), ["clean"]);
    let mut expected = ["between", "deleted", "edited", "later", "staged", "untracked"]
        .map(|path| left_out(path, LeftOutReason::Mixed))
        .to_vec();
    expected.insert(4, left_out("never", LeftOutReason::DeclaredOnly));
    assert_eq!(outcome.left_out, expected);
    assert_eq!(scratch.sh("git diff --cached --name-only"), "staged\n");
}

#[test]
fn r11_6_a_hook_that_refuses_is_reported_and_nothing_else_changes() {
    let scratch = Scratch::with(&[("src/a", "1"), ("staged", "1")]);
    scratch.sh("echo 2 > staged; git add staged");
    scratch.sh(
        "printf '#!/bin/sh\\necho no tests >&2\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    );
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), "echo 2 > src/a; echo n > src/n").kept;
    let before = scratch.sh("git ls-files -s; git status --porcelain");
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!((outcome.commit, outcome.refused.as_deref()), (None, Some("no tests")));
    assert_eq!(scratch.sh("git ls-files -s; git status --porcelain"), before);
    assert_eq!(head(&scratch), base);
}

#[test]
fn r11_6_what_a_hook_changes_is_reported() {
    let scratch = Scratch::with(&[("src/a", "1"), ("src/b", "1")]);
    scratch
        .sh("printf '#!/bin/sh\\necho formatted > src/b\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit");
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), "echo 2 > src/a").kept;
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!(paths(&outcome), ["src/a"]);
    assert_eq!(crate::scratch::names(&outcome.changed_by_hooks), ["src/b"]);
}

#[test]
fn r11_6_a_second_commit_holds_what_came_after_the_first_and_then_nothing_is_left() {
    let scratch = Scratch::with(&[("src/a", "1")]);
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let guard = may_write(&["src/"]);
    let mut changes = scratch.leg(&mut tree, &guard, "echo 2 > src/a; echo n > src/n; echo o > src/o").kept;
    assert_eq!(paths(&commit(&mut tree, Some(&base), &changes)), ["src/a", "src/n", "src/o"]);
    changes.extend(scratch.leg(&mut tree, &guard, "rm src/n; echo 1 > src/o; printf 1 > src/a").kept);
    assert_eq!(paths(&commit(&mut tree, Some(&base), &changes)), ["src/a", "src/n", "src/o"]);
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!((outcome.commit, outcome.refused, outcome.left_out), (None, None, vec![]));
}

#[test]
fn r11_6_filters_do_not_make_a_clean_file_a_mixed_one() {
    let scratch = Scratch::with(&[(".gitattributes", "*.txt eol=crlf\n"), ("a.txt", "one\n"), ("b.txt", "one\n")]);
    scratch.sh("rm *.txt; git checkout -q .; printf 'one\\r\\nuser\\r\\n' > b.txt");
    assert_eq!(scratch.read("a.txt").as_deref(), Some("one\r\n"));
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let script = "printf 'one\\r\\ntwo\\r\\n' > a.txt; printf 'x\\r\\n' > b.txt";
    let changes = scratch.leg(&mut tree, &may_write(&["*.txt"]), script).kept;
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!(paths(&outcome), ["a.txt"]);
    assert_eq!(outcome.left_out, [left_out("b.txt", LeftOutReason::Mixed)]);
    assert_eq!(scratch.sh("git show HEAD:a.txt"), "one\ntwo\n");
}

#[test]
fn r11_6_ignored_nested_and_special_paths_are_left_out() {
    let scratch = Scratch::with(&[("src/a", "1")]);
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let script = "echo 2 > src/a; mkdir src/out; echo o > src/out/o; echo out/ > src/.gitignore; mkfifo src/pipe
        git init -q src/nested; echo n > src/nested/n";
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), script).kept;
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!(paths(&outcome), ["src/.gitignore", "src/a"]);
    let expected = [
        left_out("src/nested/n", LeftOutReason::NestedRepository),
        left_out("src/out/o", LeftOutReason::Ignored),
        left_out("src/pipe", LeftOutReason::NotAFile),
    ];
    assert_eq!(outcome.left_out, expected);
}

#[test]
fn r11_5_the_first_commit_of_a_repository_can_be_the_runs() {
    let scratch = Scratch::empty();
    scratch.sh("git init -q -b main .; git config user.email a@example.invalid; git config user.name a; git config commit.gpgsign false");
    scratch.sh("echo u > user; git add user");
    let mut tree = scratch.tree();
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), "mkdir src; echo 1 > src/a").kept;
    let outcome = commit(&mut tree, None, &changes);
    assert_eq!(paths(&outcome), ["src/a"]);
    assert_eq!(scratch.sh("git diff --cached --name-only"), "user\n");
}

#[test]
fn a_commit_that_git_cannot_make_is_an_error_and_the_index_is_as_before() {
    let scratch = Scratch::with(&[("src/a", "1"), ("b", "1")]);
    scratch.sh("git checkout -q -b side; echo 2 > b; git commit -q -am 2; git checkout -q main; echo 3 > b; git commit -q -am 3");
    scratch.sh("git merge side || :");
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), "echo 2 > src/a; echo n > src/n").kept;
    let before = scratch.sh("git ls-files -s");
    let order = CommitOrder {
        base: Some(&base),
        changes: &changes,
        message: "m",
        declared: &[],
        cut_off_since: None,
        reins: &Reins::default(),
    };
    let error = tree.commit(&order).unwrap_err();
    assert!(error.to_string().contains("partial commit during a merge"), "{error}");
    assert_eq!(scratch.sh("git ls-files -s"), before);
}

#[test]
fn r11_6_files_folders_and_links_that_changed_places_are_committed() {
    let scratch = Scratch::with(&[("src/d/x", "1"), ("src/f", "1"), ("src/l/y", "1"), ("out/y", "1")]);
    let base = head(&scratch);
    let mut tree = scratch.tree();
    let script =
        "rm -r src/d; echo file > src/d; rm src/f; mkdir src/f; echo r > src/f/r; rm -r src/l; ln -s ../out src/l";
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), script).kept;
    let outcome = commit(&mut tree, Some(&base), &changes);
    assert_eq!(outcome.left_out, []);
    assert_eq!(paths(&outcome), ["src/d", "src/d/x", "src/f", "src/f/r", "src/l", "src/l/y"]);
    assert_eq!(scratch.sh("git ls-files; git status --porcelain"), "out/y\nsrc/d\nsrc/f/r\nsrc/l\n");
}
