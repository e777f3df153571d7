//! The documents: every command line and every block of YAML or JSON in them works, and every table that mirrors code
//! says what the code says.
//!
//! The word behind a fence says what becomes of a block:
//!
//! | fence | what the test does |
//! | --- | --- |
//! | `sh` | runs its `fia` lines in a scratch repository, on the scripted engine; each must succeed, or end as `# exit N` behind it says |
//! | `sh script` | runs it as a whole in the same place, by a shell that ends at the first failure |
//! | `sh parse` | has its `fia` lines parsed, since they want a run in a certain state |
//! | `sh skip: WHY` | leaves it out |
//! | `yaml` | checks it as a configuration; `files: A, B` are there beside it |
//! | `yaml file: NAME`, `sh file: NAME` | puts it into the scratch repository and commits it, for what follows; a configuration or a script is checked too |
//! | `yaml script` | reads it as a script of the scripted engine |
//! | `yaml plain` | reads it as YAML |
//! | `json` | parses it |

#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out the facts that it is about")]
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the files of the documents end in small letters"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cookbook/blocks.rs"]
mod blocks;
#[path = "cookbook/tables.rs"]
mod tables;

#[expect(dead_code, reason = "these tests need a part of what those of the program need")]
#[path = "support/scripted.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

/// A document of the project.
struct Document {
    path: PathBuf,
    text: String,
}

/// The documents, README first.
fn documents() -> Vec<Document> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recipes = fs::read_dir(top.join("cookbook")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = recipes.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.sort();
    let all = [top.join("README.md"), top.join("DOCS.md")].into_iter().chain(paths);
    all.map(|path| Document { text: fs::read_to_string(&path).unwrap(), path }).collect()
}
