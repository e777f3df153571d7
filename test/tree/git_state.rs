//! HEAD, refs, index, config and hooks after a leg.

use std::fs;

use pretty_assertions::assert_eq;

use crate::scratch::{Scratch, may_write, names, sh};

const STATE: &str = "git symbolic-ref -q HEAD || git rev-parse HEAD; git for-each-ref; git ls-files -s
    git diff --cached --stat; git stash list; git config --list --local";

#[test]
fn r11_4_commits_branches_tags_stashes_and_the_index_go_back_and_the_work_stays() {
    let scratch = Scratch::with(&[("src/a", "1"), ("docs/a", "1"), ("b", "1")]);
    scratch.sh("git branch topic; git branch other; git tag v1; echo stashed > b; git stash -q");
    scratch.sh("echo staged > docs/a; git add docs/a");
    let before = scratch.sh(STATE);
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&["src/", "new/"]),
        "git stash drop -q; echo 2 > src/a; mkdir new; echo n > new/n; git add -A; git commit -q -m work
         git branch -D -q topic; git branch topic/sub; git branch -f other HEAD; git tag -d v1 >/dev/null; git tag v2
         git checkout -q -b feature; echo 3 > src/a; git stash -q; git stash pop -q; git rm -q --cached b",
    );
    assert_eq!(scratch.sh(STATE), before);
    assert_eq!((names(&end.kept), names(&end.violations)), (vec!["new/n".to_owned(), "src/a".to_owned()], vec![]));
    assert_eq!(scratch.read("src/a").as_deref(), Some("3\n"));
    assert!(end.git.head_moved_to.is_some());
    let heads: Vec<&str> = end.git.put_back.iter().map(|what| what.split(' ').next().unwrap()).collect();
    assert_eq!(
        heads,
        [
            "HEAD",
            "refs/heads/feature",
            "refs/heads/main",
            "refs/heads/other",
            "refs/heads/topic",
            "refs/heads/topic/sub",
            "refs/stash",
            "refs/tags/v1",
            "refs/tags/v2",
            "index",
            ".git/AUTO_MERGE",
            ".git/logs/refs/stash",
        ]
    );
}

#[test]
fn r11_4_a_detached_head_and_an_unborn_branch_go_back() {
    let scratch = Scratch::with(&[("src/a", "1")]);
    scratch.sh("git checkout -q --detach");
    let before = scratch.sh(STATE);
    let end = scratch.leg(&mut scratch.tree(), &may_write(&["src/"]), "echo 2 > src/a; git commit -q -am x");
    assert_eq!(scratch.sh(STATE), before);
    assert_eq!(end.git.put_back, ["HEAD", "index"]);
    scratch.leg(&mut scratch.tree(), &may_write(&["src/"]), "git checkout -q main");
    assert_eq!(scratch.sh(STATE), before);

    let scratch = Scratch::empty();
    scratch.sh("git init -q -b main .; git config user.email a@example.invalid; git config user.name a");
    let script = "mkdir src; echo 1 > src/a; git add -A; git commit -q -m first";
    let end = scratch.leg(&mut scratch.tree(), &may_write(&["src/"]), script);
    assert_eq!(scratch.sh("git symbolic-ref HEAD; git for-each-ref; git ls-files"), "refs/heads/main\n");
    assert_eq!(names(&end.kept), ["src/a"]);
}

#[test]
fn r11_4_config_hooks_and_info_go_back_before_git_obeys_them() {
    let scratch = Scratch::with(&[("a", "1")]);
    scratch.sh("printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit");
    let listed = || {
        scratch.sh("cat .git/config .git/info/exclude; ls -lR .git/hooks | grep -v '^[td]'; cat .git/hooks/pre-commit")
    };
    let before = listed();
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&["src/"]),
        "git config core.fsmonitor \"$PWD/.git/hooks/evil\"; git config alias.x '!rm -rf .'; echo '*' >> .git/info/exclude
         printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/evil; chmod +x .git/hooks/evil
         echo 'exit 1' >> .git/hooks/pre-commit; chmod 644 .git/hooks/pre-commit; ln -s /bin/sh .git/hooks/post-commit",
    );
    assert_eq!(listed(), before);
    let put_back =
        [".git/config", ".git/hooks/evil", ".git/hooks/post-commit", ".git/hooks/pre-commit", ".git/info/exclude"];
    assert_eq!(end.git.put_back, put_back);
    assert_eq!((names(&end.violations), end.git.head_moved_to), (vec![], None));
}

#[test]
fn r11_4_a_merge_or_rebase_left_half_done_goes_away() {
    let scratch = Scratch::with(&[("src/a", "1")]);
    scratch.sh("git checkout -q -b side; echo 2 > src/a; git commit -q -am 2; git checkout -q main; echo 3 > src/a");
    scratch.sh("git commit -q -am 3");
    for script in ["git merge side || :", "git rebase side || :", "git cherry-pick side || :"] {
        scratch.leg(&mut scratch.tree(), &may_write(&[]), script);
        let status = scratch.sh("git status; ls .git");
        assert!(status.contains("nothing to commit, working tree clean"), "{script}: {status}");
        assert!(!status.contains("MERGE") && !status.contains("rebase") && !status.contains("CHERRY"), "{status}");
    }
}

#[test]
fn r11_4_branches_of_other_work_trees_and_other_runs_are_left_alone() {
    let scratch = Scratch::with(&[("a", "1")]);
    scratch.sh("git worktree add -q .fia/wt -b theirs; git branch fia/other-run; git branch mine");
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&[]),
        "c=$(git commit-tree -m x HEAD^{tree}); for b in theirs fia/other-run mine; do git update-ref refs/heads/$b $c; done
         git update-ref refs/remotes/origin/main $c",
    );
    assert_eq!(end.git.left_alone, ["refs/heads/fia/other-run", "refs/heads/theirs"]);
    assert_eq!(end.git.put_back.len(), 1);
    let subjects = "git log -1 --format=%s theirs; git log -1 --format=%s fia/other-run; git log -1 --format=%s mine";
    assert_eq!(scratch.sh(subjects), "x\nx\nbase\n");
    assert_eq!(scratch.sh("git log -1 --format=%s origin/main"), "x\n");
}

#[test]
fn a_work_tree_that_another_git_is_adding_is_waited_for() {
    let scratch = Scratch::with(&[("a", "1")]);
    // As git leaves it for a moment: `commondir` is there and empty.
    scratch.sh("mkdir -p .git/worktrees/half && cd .git/worktrees/half && echo /nowhere > gitdir && : > commondir");
    assert!(scratch.sh("git worktree list 2>&1 || :").contains("commondir"));
    // The adding ends while the leg is looked at: a pipe waits for its reader, who then finds it empty.
    let finishes = "git branch new; cd .git/worktrees/half; rm commondir; mkfifo commondir
        timeout 60 sh -c 'exec 3> commondir; rm -r ../half' >/dev/null 2>&1 &";
    let end = scratch.leg(&mut scratch.tree(), &may_write(&[]), finishes);
    assert_eq!((end.git.put_back.len(), end.git.not_put_back), (1, Vec::new()));
    assert_eq!(scratch.sh("git branch --format='%(refname)'"), "refs/heads/main\n");
}

#[test]
fn an_index_that_git_merely_refreshed_is_no_change() {
    let scratch = Scratch::with(&[("a", "1"), ("b", "1")]);
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&["src/"]),
        "touch -d '2020-01-01' a; git status; git update-index --refresh",
    );
    assert_eq!(end.git.put_back, [] as [String; 0]);
    let end = scratch.leg(&mut scratch.tree(), &may_write(&["src/"]), "git update-index --assume-unchanged a");
    assert_eq!(end.git.put_back, ["index"]);
    assert_eq!(scratch.sh("git ls-files -v"), "H a\nH b\n");
}

#[test]
fn an_index_put_back_hides_no_edit_made_in_the_moment_it_was_written() {
    let scratch = Scratch::with(&[("a", "1")]);
    // Size and time of the edit are those of the index entry: only the time of the index itself tells.
    scratch.sh("touch -d '2024-01-01 00:00:00' a; git add a; git update-index --refresh; touch -d '2024-01-01 00:00:00' .git/index");
    scratch.sh("printf 2 > a; touch -d '2024-01-01 00:00:00' a");
    scratch.leg(&mut scratch.tree(), &may_write(&["src/"]), "git rm -q --cached a");
    assert_eq!(scratch.sh("git diff --name-only"), "a\n");
}

#[test]
fn r11_7_in_a_linked_work_tree_its_own_head_and_index_and_the_common_config_go_back() {
    let scratch = Scratch::with(&[("src/a", "1")]);
    scratch.sh("git worktree add -q --detach wt");
    let top = scratch.path().join("wt");
    let before = sh(&top, STATE);
    let mut tree = crate::scratch::open(&top, &[]);
    let start = tree.begin().unwrap();
    sh(&top, "echo 2 > src/a; git commit -q -am x; git config alias.x status; git switch -q -c new");
    let end = tree.end(&start, &may_write(&["src/"])).unwrap();
    assert_eq!(sh(&top, STATE), before);
    assert_eq!(names(&end.kept), ["src/a"]);
    assert_eq!(fs::read_to_string(top.join("src/a")).unwrap(), "2\n");
}

#[test]
fn what_a_killed_git_left_locked_is_named_and_the_files_are_undone_all_the_same() {
    let scratch = Scratch::with(&[("a", "1"), ("b", "1")]);
    let script = "echo 2 > a; git commit -q -am x; touch .git/index.lock .git/refs/heads/main.lock";
    let end = scratch.leg(&mut scratch.tree(), &may_write(&["src/"]), script);
    assert_eq!((names(&end.violations), scratch.read("a").as_deref()), (vec!["a".to_owned()], Some("1")));
    assert_eq!(end.git.put_back, [] as [String; 0]);
    let [refs, index] = &end.git.not_put_back[..] else { panic!("{:?}", end.git) };
    assert!(refs.starts_with("refs/heads/main (") && refs.contains("main.lock"), "{refs}");
    assert!(index.starts_with("index: ") && index.contains("index.lock"), "{index}");
}
