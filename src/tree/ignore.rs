//! The ignore rules as they stood when the run started (SPEC 11.2).
//!
//! They are frozen: an agent that edits an ignore file moves nothing in or out of the guard. What the index
//! tracked at that moment is never ignored. Precedence is git's: a deeper `.gitignore` beats a higher one, those
//! beat `info/exclude`, that beats `core.excludesFile`; in one file the last match wins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::{any_below, entries, join};
use super::git::{self, Git};
use super::{Repository, TreeError, wildmatch};
use crate::event::RepoPath;
use crate::solid;

/// What was ignored at run start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct IgnoreRules {
    written: Written,
    /// Rules for all folders, lowest precedence first.
    shared: Vec<Vec<Rule>>,
    /// Rules of the `.gitignore` in a folder.
    folders: BTreeMap<Vec<u8>, Vec<Rule>>,
}

/// The rules as they are kept for a resume: the files' own bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    fold_case: bool,
    shared: Vec<RepoPath>,
    folders: Vec<(RepoPath, RepoPath)>,
    tracked: BTreeSet<RepoPath>,
}

impl From<Written> for IgnoreRules {
    fn from(written: Written) -> Self {
        let parse = |file: &RepoPath| parse(file.as_bytes(), written.fold_case);
        let shared = written.shared.iter().map(parse).collect();
        let folders = written.folders.iter().map(|(folder, file)| (folder.as_bytes().to_vec(), parse(file))).collect();
        Self { written, shared, folders }
    }
}

impl From<IgnoreRules> for Written {
    fn from(rules: IgnoreRules) -> Self {
        rules.written
    }
}

/// One line of an ignore file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    pattern: Vec<u8>,
    /// The first bytes of the pattern that hold no wildcard.
    literal: usize,
    brings_back: bool,
    folders_only: bool,
    /// Without a slash inside: matches the last segment anywhere below.
    name_only: bool,
}

impl IgnoreRules {
    /// Reads the rules that an earlier stretch of the run kept in `file`, else captures and keeps them.
    pub(crate) fn load_or_capture(
        file: &Path,
        repository: &Repository,
        skip: Option<&RepoPath>,
    ) -> Result<Self, TreeError> {
        if let Some(bytes) = read_if_there(file)? {
            return serde_json::from_slice(&bytes).map_err(|source| TreeError::Rules { path: file.to_owned(), source });
        }
        let rules = Self::capture(repository, skip)?;
        let error = |source| TreeError::io("keep the ignore rules in", file, source);
        let folder = file.parent().unwrap_or(Path::new("."));
        let new = solid::folders(folder).and_then(|()| tempfile::NamedTempFile::new_in(folder));
        let mut new = new.map_err(error)?;
        let json = serde_json::to_vec(&rules).map_err(|source| error(source.into()))?;
        new.write_all(&json).map_err(error)?;
        new.as_file().sync_all().map_err(error)?;
        new.persist(file).map_err(|failed| error(failed.error))?;
        Ok(rules)
    }

    /// Captures the rules of a work tree now; `skip` (the data directory) is not looked at.
    ///
    /// # Errors
    ///
    /// When git fails, or a folder or an ignore file cannot be read.
    pub fn capture(repository: &Repository, skip: Option<&RepoPath>) -> Result<Self, TreeError> {
        let git = repository.git();
        let tracked = git::records(&git.run(&["ls-files", "-z"])?).map(RepoPath::new).collect();
        let (fold_case, users) = settings(&git)?;
        let info = Some(repository.common_dir.join("info/exclude"));
        let mut shared = Vec::new();
        for file in [users, info].into_iter().flatten() {
            shared.extend(read_if_there(&file)?.map(RepoPath::new));
        }
        let mut rules = Self::from(Written { fold_case, shared, folders: Vec::new(), tracked });
        rules.enter(&repository.top, &RepoPath::new(""), skip)?;
        rules.written.folders.sort();
        Ok(rules)
    }

    /// Reads the `.gitignore` of a folder, then looks into the folders below that are not ignored.
    fn enter(&mut self, top: &Path, folder: &RepoPath, skip: Option<&RepoPath>) -> Result<(), TreeError> {
        let dir = folder.below(top);
        let own = dir.join(".gitignore");
        // git does not follow a `.gitignore` that is a link.
        if fs::symlink_metadata(&own).is_ok_and(|meta| meta.is_file())
            && let Some(bytes) = read_if_there(&own)?
        {
            self.folders.insert(folder.as_bytes().to_vec(), parse(&bytes, self.written.fold_case));
            self.written.folders.push((folder.clone(), RepoPath::new(bytes)));
        }
        for entry in entries(&dir)? {
            let path = join(folder, &entry.name);
            if entry.name == b".git" && !folder.as_bytes().is_empty() {
                self.enter_nested(top, folder)?;
            }
            let entered = entry.is_folder && entry.name != b".git" && skip != Some(&path);
            if entered && (!self.ignores(&path, Entry::Folder) || self.tracks_below(&path)) {
                self.enter(top, &path, skip)?;
            }
        }
        Ok(())
    }

    /// Adds what the index of a nested repository tracks. One that git cannot read counts as a plain folder.
    fn enter_nested(&mut self, top: &Path, folder: &RepoPath) -> Result<(), TreeError> {
        let output = Git::at(folder.below(top)).output(&["ls-files", "-z"], None)?;
        if output.status.success() {
            self.written.tracked.extend(git::records(&output.stdout).map(|name| join(folder, name)));
        }
        Ok(())
    }

    /// Whether a path is ignored by itself; one in an ignored folder is too, which the walk knows.
    pub fn ignores(&self, path: &RepoPath, entry: Entry) -> bool {
        let bytes = path.as_bytes();
        let folded = self.written.fold_case.then(|| bytes.to_ascii_lowercase());
        let text = folded.as_deref().unwrap_or(bytes);
        // Most paths match no rule, which is told sooner than whether the index tracks them.
        self.decided(bytes, text, entry).is_some_and(|rule| !rule.brings_back) && !self.tracks(path)
    }

    /// The rule that decides about a path.
    fn decided(&self, path: &[u8], text: &[u8], entry: Entry) -> Option<&Rule> {
        let mut end = path.len();
        loop {
            let slash = path[..end].iter().rposition(|byte| *byte == b'/');
            let (folder, below) = slash.map_or((&path[..0], 0), |slash| (&path[..slash], slash + 1));
            let found = self.folders.get(folder).and_then(|rules| last_match(rules, &text[below..], entry));
            if found.is_some() {
                return found;
            }
            let Some(slash) = slash else { break };
            end = slash;
        }
        self.shared.iter().rev().find_map(|rules| last_match(rules, text, entry))
    }

    /// Whether the index tracked a path.
    pub(crate) fn tracks(&self, path: &RepoPath) -> bool {
        self.written.tracked.contains(path)
    }

    /// Whether the index tracked something below a folder.
    pub(crate) fn tracks_below(&self, folder: &RepoPath) -> bool {
        any_below(&self.written.tracked, folder)
    }
}

/// What a path to be judged is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder,
    /// Anything else, a link to a folder too.
    Leaf,
}

fn last_match<'r>(rules: &'r [Rule], text: &[u8], entry: Entry) -> Option<&'r Rule> {
    rules.iter().rev().find(|rule| (entry == Entry::Folder || !rule.folders_only) && rule.matches(text))
}

impl Rule {
    fn matches(&self, text: &[u8]) -> bool {
        let text = if self.name_only { text.rsplit(|byte| *byte == b'/').next().unwrap_or(text) } else { text };
        let (literal, rest) = self.pattern.split_at(self.literal);
        // git compares the literal start first and matches the rest as a pattern of its own.
        text.strip_prefix(literal)
            .is_some_and(|text| if rest.is_empty() { text.is_empty() } else { wildmatch::matches(rest, text) })
    }
}

/// Reads an ignore file: one rule a line, gitignore(5).
fn parse(file: &[u8], fold_case: bool) -> Vec<Rule> {
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    file.split(|byte| *byte == b'\n').filter_map(|line| parse_line(line, fold_case)).collect()
}

fn parse_line(line: &[u8], fold_case: bool) -> Option<Rule> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") {
        return None;
    }
    let line = without_trailing_spaces(line);
    let (brings_back, line) = line.strip_prefix(b"!").map_or((false, line), |line| (true, line));
    let (folders_only, line) = line.strip_suffix(b"/").map_or((false, line), |line| (true, line));
    let name_only = !line.contains(&b'/');
    let line = line.strip_prefix(b"/").unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    let pattern = if fold_case { line.to_ascii_lowercase() } else { line.to_vec() };
    let literal = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    Some(Rule { pattern, literal, brings_back, folders_only, name_only })
}

/// Drops spaces at the end, except those after a backslash.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let (mut end, mut place) = (0, 0);
    while place < line.len() {
        match line[place] {
            b' ' => place += 1,
            b'\\' => {
                place += 2;
                end = place.min(line.len());
            }
            _ => {
                place += 1;
                end = place;
            }
        }
    }
    &line[..end]
}

/// Whether names that differ in case alone are one, and the user's own ignore file: `core.excludesFile`, else the one
/// in the XDG folder.
fn settings(git: &Git) -> Result<(bool, Option<PathBuf>), TreeError> {
    // Mostly neither is set, which one process can tell; each has a type of its own, which git knows how to read.
    let is_set = git.ask(&["config", "--get-regexp", "^core\\.(ignorecase|excludesfile)$"])?.is_some();
    let ask = |args: &[&str]| if is_set { git.ask(args) } else { Ok(None) };
    let fold_case = ask(&["config", "--type=bool", "core.ignoreCase"])?.is_some_and(|on| on == b"true\n");
    if let Some(configured) = ask(&["config", "--type=path", "core.excludesFile"])? {
        return Ok((fold_case, Some(git::path(&configured))));
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    Ok((fold_case, folder.or_else(home).map(|folder| folder.join("git/ignore"))))
}

fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>, TreeError> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(source) if is_absent(&source) => Ok(None),
        Err(source) => Err(TreeError::io("read the ignore file", file, source)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}
