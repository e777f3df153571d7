//! fia runs multi-phase agent builds through coding-agent CLIs, economically and safely.
//!
//! ```text
//! as written  resolved  decides       agent CLI   lines       facts       the log    screen, JSON
//! ```
//!
//! `gateway`, `view`), then the pure core (`simulate`, `state`, `session`, `channel`, `prune`, `economy`,
//! `envelope`, `plan`), then what the user wrote (`config`, `workflow`), then `event` and `ids`, then what

pub mod engine;
pub mod envelope;
pub mod event;
mod fault;
pub mod host;
pub mod ids;
pub mod lines;
pub mod plan;
pub mod process;
pub mod rehearsal;
pub mod session;
pub mod state;
pub mod tree;
