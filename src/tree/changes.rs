//! What differs between two states of a tree, and what a run changed in all.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::{Snapshot, hexadecimal};
use crate::event::{Content, FileKind, PathChange, RepoPath};

/// Every path that differs, in the order of paths.
pub fn compare(before: &Snapshot, after: &Snapshot) -> Vec<PathChange> {
    let (mut old, mut new) = (before.files().iter().peekable(), after.files().iter().peekable());
    let mut changes = Vec::new();
    loop {
        let path = match (old.peek(), new.peek()) {
            (None, None) => return changes,
            (Some((path, _)), None) | (None, Some((path, _))) => *path,
            (Some((one, _)), Some((other, _))) => one.min(other),
        };
        let before = old.next_if(|(found, _)| *found == path).map(|(_, content)| content);
        let after = new.next_if(|(found, _)| *found == path).map(|(_, content)| content);
        if before != after {
            changes.push(PathChange { path: path.clone(), before: before.cloned(), after: after.cloned() });
        }
    }
}

/// What a series of changes, oldest first, comes to: each path once, from its first content to its last. A path
/// that came back to its first content is not in it.
pub fn net<'a>(changes: impl IntoIterator<Item = &'a PathChange>) -> Vec<PathChange> {
    let mut paths: BTreeMap<&RepoPath, (&Option<Content>, &Option<Content>)> = BTreeMap::new();
    for change in changes {
        let entry = paths.entry(&change.path).or_insert((&change.before, &change.after));
        entry.1 = &change.after;
    }
    paths
        .into_iter()
        .filter(|(_, (before, after))| before != after)
        .map(|(path, (before, after))| PathChange { path: path.clone(), before: before.clone(), after: after.clone() })
        .collect()
}

/// SHA-256 over paths and their contents in a snapshot, in hexadecimal: equal when, and only when, all of them
/// hold the same. The order and repetition of `paths` do not matter.
pub fn digest<'a>(paths: impl IntoIterator<Item = &'a RepoPath>, snapshot: &Snapshot) -> String {
    let contents: BTreeMap<&RepoPath, Option<&Content>> =
        paths.into_iter().map(|path| (path, snapshot.get(path))).collect();
    let mut hash = Sha256::new();
    for (path, content) in contents {
        hash.update((path.as_bytes().len() as u64).to_be_bytes());
        hash.update(path.as_bytes());
        match content {
            None => hash.update(b"-"),
            Some(Content { kind, mode, id }) => {
                let kind = match kind {
                    FileKind::File => b"f",
                    FileKind::Symlink => b"l",
                    FileKind::Special => b"s",
                };
                hash.update(kind);
                hash.update(mode.to_be_bytes());
                hash.update((id.len() as u64).to_be_bytes());
                hash.update(id);
            }
        }
    }
    hexadecimal(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(id: &str) -> Content {
        Content { kind: FileKind::File, mode: 0o644, id: id.to_owned() }
    }

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> PathChange {
        PathChange { path: path.into(), before: before.map(content), after: after.map(content) }
    }

    fn snapshot(files: &[(&str, &str)]) -> Snapshot {
        let files = files.iter().map(|(path, id)| (RepoPath::from(*path), content(id)));
        files.collect()
    }

    #[test]
    fn two_snapshots_differ_in_what_was_made_edited_and_deleted() {
        let before = snapshot(&[("a", "1"), ("b", "1"), ("d", "1")]);
        let after = snapshot(&[("a", "1"), ("b", "2"), ("c", "1")]);
        let expected = [change("b", Some("1"), Some("2")), change("c", None, Some("1")), change("d", Some("1"), None)];
        assert_eq!(compare(&before, &after), expected);
        assert_eq!(compare(&after, &after), []);
    }

    #[test]
    fn a_series_of_changes_is_folded_to_first_and_last() {
        let series = [
            change("a", Some("1"), Some("2")),
            change("b", None, Some("1")),
            change("a", Some("2"), Some("3")),
            change("b", Some("1"), None),
        ];
        assert_eq!(net(&series), [change("a", Some("1"), Some("3"))]);
    }

    #[test]
    fn r10_4_the_digest_tells_contents_and_absence_apart() {
        let paths: Vec<RepoPath> = ["a", "b"].map(RepoPath::from).to_vec();
        let of = |files: &[(&str, &str)]| digest(&paths, &snapshot(files));
        assert_eq!(of(&[("a", "1"), ("c", "1")]), of(&[("a", "1"), ("c", "2")]));
        let different =
            [of(&[]), of(&[("a", "1")]), of(&[("b", "1")]), of(&[("a", "2")]), of(&[("a", "1"), ("b", "1")])];
        for (place, one) in different.iter().enumerate() {
            assert!(different[place + 1..].iter().all(|other| other != one));
        }
    }
}
