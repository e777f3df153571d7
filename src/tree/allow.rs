//! Which of the changed paths an agent was allowed to change (SPEC 11.3).

use std::collections::BTreeSet;

use super::folder::{ancestors, any_below};
use super::pattern::{Pattern, PatternError};
use crate::event::{PathChange, RepoPath};

/// The rules for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// `None`: anywhere that is not protected.
    writes: Option<Vec<Pattern>>,
    protected: Vec<Pattern>,
    judge_files: Vec<RepoPath>,
    benign: Vec<Pattern>,
}

/// The changes of a leg, sorted out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// What the agent may change; it stays.
    pub allowed: Vec<PathChange>,
    /// What it may not; it is undone and named.
    pub violations: Vec<PathChange>,
    /// By-products; they are undone and nobody is blamed.
    pub benign: Vec<PathChange>,
}

impl Judged {
    /// All that has to be undone.
    pub fn to_undo(&self) -> Vec<PathChange> {
        self.violations.iter().chain(&self.benign).cloned().collect()
    }
}

impl Guard {
    /// Reads the rules: `writes` absent allows everything that is not protected, an empty list nothing.
    /// `judge_files` are exact paths: config, workflow, prompt and schema files in force.
    ///
    /// # Errors
    ///
    /// For a text that is no pattern.
    pub fn new(
        writes: Option<&[String]>,
        protected: &[String],
        judge_files: &[String],
        benign: &[String],
    ) -> Result<Self, PatternError> {
        Ok(Self {
            writes: writes.map(Pattern::parse_all).transpose()?,
            protected: Pattern::parse_all(protected)?,
            judge_files: judge_files.iter().map(|file| RepoPath::from(file.as_str())).collect(),
            benign: Pattern::parse_all(benign)?,
        })
    }

    /// Whether an agent may change a path; protected beats `writes`.
    pub fn allows(&self, path: &RepoPath) -> bool {
        let covers = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path.as_bytes()));
        self.writes.as_deref().is_none_or(covers) && !covers(&self.protected) && !self.judge_files.contains(path)
    }

    /// Sorts changes out. A by-product is one that would be a violation, save of a judge file.
    pub fn judge(&self, changes: &[PathChange]) -> Judged {
        let mut judged = Judged::default();
        for change in changes {
            let benign = || self.benign.iter().any(|pattern| pattern.matches(change.path.as_bytes()));
            let heap = if self.allows(&change.path) {
                &mut judged.allowed
            } else if !self.judge_files.contains(&change.path) && benign() {
                &mut judged.benign
            } else {
                &mut judged.violations
            };
            heap.push(change.clone());
        }
        judged.clear_the_way();
        judged
    }
}

impl Judged {
    /// A file that stands where a folder has to come back, or in a folder where a file has to, cannot stay.
    fn clear_the_way(&mut self) {
        let undone = self.violations.iter().chain(&self.benign);
        let wanted: BTreeSet<RepoPath> =
            undone.filter(|change| change.before.is_some()).map(|change| change.path.clone()).collect();
        let in_the_way = |change: &PathChange| {
            change.after.is_some()
                && (any_below(&wanted, &change.path) || ancestors(&change.path).any(|folder| wanted.contains(&folder)))
        };
        let (moved, allowed): (Vec<_>, _) = std::mem::take(&mut self.allowed).into_iter().partition(in_the_way);
        self.allowed = allowed;
        self.violations.extend(moved);
        self.violations.sort_by(|one, other| one.path.cmp(&other.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Content, FileKind};

    fn content() -> Content {
        Content { kind: FileKind::File, mode: 0o644, id: "aa".to_owned() }
    }

    fn created(path: &str) -> PathChange {
        PathChange { path: path.into(), before: None, after: Some(content()) }
    }

    fn deleted(path: &str) -> PathChange {
        PathChange { path: path.into(), before: Some(content()), after: None }
    }

    fn guard(writes: Option<&[&str]>, protected: &[&str], judge: &[&str], benign: &[&str]) -> Guard {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Guard::new(writes.map(owned).as_deref(), &owned(protected), &owned(judge), &owned(benign)).unwrap()
    }

    fn names(changes: &[PathChange]) -> Vec<String> {
        changes.iter().map(|change| change.path.to_string()).collect()
    }

    #[test]
    fn r11_3_absent_writes_allow_all_but_what_is_protected_and_empty_ones_nothing() {
        let changes = [created(".env"), created("fia.config.yaml"), created("src/a")];
        let judged = guard(None, &[".env*"], &["fia.config.yaml"], &[]).judge(&changes);
        assert_eq!(names(&judged.allowed), ["src/a"]);
        assert_eq!(names(&judged.violations), [".env", "fia.config.yaml"]);
        let judged = guard(Some(&[]), &[], &[], &[]).judge(&changes);
        assert_eq!(judged.violations, changes);
    }

    #[test]
    fn r11_3_protected_beats_writes_and_a_judge_file_is_never_a_by_product() {
        let changes = [created("src/fia.config.yaml"), created("src/secret/a"), created("x.log"), created("src/x.log")];
        let judged = guard(Some(&["src/"]), &["src/secret/"], &["src/fia.config.yaml"], &["**"]).judge(&changes);
        assert_eq!(names(&judged.violations), ["src/fia.config.yaml"]);
        assert_eq!(names(&judged.benign), ["src/secret/a", "x.log"]);
        assert_eq!(names(&judged.allowed), ["src/x.log"]);
    }

    #[test]
    fn what_stands_in_the_way_of_a_restore_is_undone_too() {
        let judged = guard(Some(&["lib", "docs/"]), &[], &[], &[]).judge(&[
            created("docs/a"),
            deleted("docs"),
            created("lib"),
            deleted("lib/x.rs"),
            created("docs-other"),
        ]);
        assert_eq!(names(&judged.allowed), [] as [String; 0]);
        assert_eq!(names(&judged.violations), ["docs", "docs-other", "docs/a", "lib", "lib/x.rs"]);
    }
}
