//! What agents may write, through the real binary: lanes, fia's own files, blocks, work trees, commits.

#![expect(clippy::unwrap_used, reason = "what the tests set up themselves works, or the test fails")]

#[path = "guard/block.rs"]
mod block;
#[path = "guard/commit.rs"]
mod commit;
#[path = "guard/lab.rs"]
mod lab;
#[path = "guard/lane.rs"]
mod lane;
#[path = "guard/links.rs"]
mod links;
#[path = "guard/own_files.rs"]
mod own_files;
#[path = "guard/repository.rs"]
mod repository;
#[expect(dead_code, reason = "each test binary uses a part of what they share")]
mod support;
#[path = "guard/worktree.rs"]
mod worktree;
