//! fia killed, starved and damaged at every moment, and gone on with each time.
//!
//! A workflow of plan, build, red test, fix with a rotation, green test, review and commit runs on the scripted
//! engine. It is killed by SIGKILL before and after appends, renames and spawns (`src/fault.rs` counts them in
//! builds with debug assertions) and at random moments, then resumed until it ends; what must hold is in
//! `crash/verdict.rs`. Then the same with no room on the disk, and with files cut short.

#[cfg(debug_assertions)]
#[path = "crash/cut.rs"]
mod cut;
#[path = "crash/damage.rs"]
mod damage;
#[cfg(debug_assertions)]
#[path = "crash/kill.rs"]
mod kill;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "support/program.rs"]
mod program;
#[path = "crash/scene.rs"]
mod scene;
#[path = "crash/verdict.rs"]
mod verdict;
