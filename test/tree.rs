//! The guard over real repositories: cases, rollbacks, commits, work trees, undo.

#![expect(clippy::unwrap_used, reason = "what the tests set up themselves works, or the test fails")]

#[path = "tree/cases.rs"]
mod cases;
#[path = "tree/commit.rs"]
mod commit;
#[path = "tree/git_state.rs"]
mod git_state;
#[path = "tree/ignore.rs"]
mod ignore;
#[path = "tree/random.rs"]
mod random;
#[path = "tree/repository.rs"]
mod repository;
#[path = "tree/rollback.rs"]
mod rollback;
#[path = "tree/scratch.rs"]
mod scratch;
#[path = "tree/undo.rs"]
mod undo;
