//! git's state before a leg, written down, so that it is put back also when fia was killed in the leg.
//!
//! Between the death and the next start a person may have used git. A change that came later than the leg can have
//! lasted is therefore left alone and named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::git_files::{GitFiles, Kept};
use super::index::Index;
use super::{GitChanges, GitState, Head, Repository, Tree, TreeError};
use crate::event::RepoPath;

/// A [`GitState`] as it is written down; its paths are relative to the directory of all work trees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GitRecord {
    head: Head,
    refs: BTreeMap<String, String>,
    /// When the index was written, and its bytes.
    index: Option<(SystemTime, Hex)>,
    files: Vec<(RepoPath, RecordedFile)>,
}

/// A file, or a link where there is no mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RecordedFile {
    mode: Option<u32>,
    bytes: Hex,
}

/// Bytes, in JSON as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Hex(Vec<u8>);

impl From<Hex> for String {
    fn from(bytes: Hex) -> Self {
        super::hexadecimal(&bytes.0)
    }
}

impl TryFrom<String> for Hex {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        let bytes = text.as_bytes().chunks(2).map(|two| (two.len() == 2).then(|| pair(two)).flatten());
        bytes.collect::<Option<_>>().map(Self).ok_or("no hexadecimal digits")
    }
}

impl Tree {
    /// Writes a state down.
    pub fn record_git(&self, state: &GitState) -> GitRecord {
        use std::os::unix::ffi::OsStrExt as _;
        let (head, refs, index, files) = state.parts();
        let recorded = |(path, kept): (&PathBuf, &Kept)| {
            let inside = path.strip_prefix(&self.repository.common_dir).unwrap_or(path);
            let file = match kept {
                Kept::File { bytes, mode } => RecordedFile { mode: Some(*mode), bytes: Hex(bytes.clone()) },
                Kept::Link { target } => {
                    RecordedFile { mode: None, bytes: Hex(target.as_os_str().as_bytes().to_vec()) }
                }
            };
            (RepoPath::new(inside.as_os_str().as_bytes()), file)
        };
        GitRecord {
            head: head.clone(),
            refs: refs.clone(),
            index: index.content.as_ref().map(|(bytes, written)| (*written, Hex(bytes.to_vec()))),
            files: files.files.iter().map(recorded).collect(),
        }
    }

    /// Names of what [`Tree::put_git_back`] would look at, refs and HEAD with where they are now.
    ///
    /// # Errors
    ///
    /// When git fails or a file cannot be read.
    pub fn git_changed(&mut self, before: &GitRecord, until: SystemTime) -> Result<Vec<String>, TreeError> {
        let now = GitState::capture(&self.repository, &mut self.checkouts)?;
        let (wanted, _left) = Later { repository: &self.repository, until }.mix(before, &now);
        Ok(wanted.changed(&now, &self.repository))
    }

    /// Puts back what differs from a state that was written down and changed no later than `until`.
    ///
    /// # Errors
    ///
    /// As [`Tree::end`].
    pub fn put_git_back(&mut self, before: &GitRecord, until: SystemTime) -> Result<GitChanges, TreeError> {
        let now = GitState::capture(&self.repository, &mut self.checkouts)?;
        let (wanted, left) = Later { repository: &self.repository, until }.mix(before, &now);
        let mut changes = wanted.put_back(&self.repository, &mut self.checkouts, &self.run)?;
        changes.left_alone.extend(left);
        Ok(changes)
    }
}

/// Tells what changed after a moment.
struct Later<'a> {
    repository: &'a Repository,
    until: SystemTime,
}

impl Later<'_> {
    /// The state before with everything as it is `now` that changed later, and the names of that.
    fn mix(&self, before: &GitRecord, now: &GitState) -> (GitState, Vec<String>) {
        let (head_now, refs_now, index_now, files_now) = now.parts();
        let mut left = Vec::new();
        let mut head = before.head.clone();
        if (head.branch(), head.branch().is_none().then_some(&head))
            != (head_now.branch(), head_now.branch().is_none().then_some(head_now))
            && self.is_later(&self.repository.git_dir.join("HEAD"))
        {
            left.push("HEAD".to_owned());
            head = head_now.clone();
        }
        let mut refs = before.refs.clone();
        let names: BTreeSet<&String> = before.refs.keys().chain(refs_now.keys()).collect();
        for name in names.into_iter().filter(|name| before.refs.get(*name) != refs_now.get(*name)) {
            let (log, file) =
                (self.repository.common_dir.join("logs").join(name), self.repository.common_dir.join(name));
            if self.is_later(&log) || self.is_later(&file) {
                left.push(name.clone());
                take(&mut refs, name, refs_now.get(name));
            }
        }
        let mut index = Index { content: before.index.clone().map(|(written, bytes)| (bytes.0.into(), written)) };
        if index != *index_now && self.is_later(&self.repository.git_dir.join("index")) {
            left.push("index".to_owned());
            index = index_now.clone();
        }
        let files = self.mix_files(before, files_now, &mut left);
        (GitState::of_parts(head, refs, index, files), left)
    }

    fn mix_files(&self, before: &GitRecord, now: &GitFiles, left: &mut Vec<String>) -> GitFiles {
        let recorded = before.files.iter().map(|(path, file)| (path.below(&self.repository.common_dir), file.kept()));
        let mut files: BTreeMap<PathBuf, Kept> = recorded.collect();
        let paths: BTreeSet<PathBuf> = files.keys().chain(now.files.keys()).cloned().collect();
        for path in paths {
            if files.get(&path) != now.files.get(&path) && self.is_later(&path) {
                let inside = path.strip_prefix(&self.repository.common_dir).unwrap_or(&path);
                left.push(format!(".git/{}", inside.display()));
                take(&mut files, &path, now.files.get(&path));
            }
        }
        GitFiles { files }
    }

    /// Whether a file was written, or went, after the moment: of one that is gone, its folder tells.
    fn is_later(&self, path: &Path) -> bool {
        let there = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
        there.and_then(|meta| meta.modified().ok()).is_none_or(|changed| changed > self.until)
    }
}

impl RecordedFile {
    fn kept(&self) -> Kept {
        use std::os::unix::ffi::OsStrExt as _;
        match self.mode {
            Some(mode) => Kept::File { bytes: self.bytes.0.clone(), mode },
            None => Kept::Link { target: Path::new(std::ffi::OsStr::from_bytes(&self.bytes.0)).to_owned() },
        }
    }
}

/// Gives a key the value that it has elsewhere, or none.
fn take<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => map.insert(key.clone(), value.clone()),
        None => map.remove(key),
    };
}
