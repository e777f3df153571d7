//! fia runs multi-phase agent builds through coding-agent CLIs, economically and safely.
//!
//! ```text
//! config  ->  plan  ->  run loop  ->  engine  ->  stream  ->  events  ->  store  ->  views
//! as written  resolved  decides       agent CLI   lines       facts       the log    screen, JSON
//! ```
//!
//! Use goes down the list only: `cli`, then `run`, then the edges (`engine`, `process`, `store`, `tree`,
//! `gateway`, `view`), then the pure core (`simulate`, `state`, `session`, `channel`, `prune`, `economy`,
//! `envelope`, `plan`), then what the user wrote (`config`, `workflow`), then `event` and `ids`.

pub mod channel;
pub mod economy;
pub mod engine;
pub mod event;
pub mod ids;
pub mod plan;
pub mod process;
pub mod prune;
pub mod session;
pub mod simulate;
