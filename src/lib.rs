//! fia runs multi-phase agent builds through coding-agent CLIs, economically and safely.
//!
//! ```text
//! config  ->  plan  ->  run loop  ->  engine  ->  stream  ->  events  ->  store  ->  views
//! as written  resolved  decides       agent CLI   lines       facts       the log    screen, JSON
//! ```
//!
//! Use goes down the list only: `cli`, then `run`, then the edges (`engine`, `process`, `store`, `tree`,
//! `gateway`, `provider`, `rehearsal`, `view`), then the pure core (`simulate`, `state`, `session`, `channel`,
//! `prune`, `economy`, `envelope`, `plan`), then what the user wrote (`config`, `workflow`), then `event` and
//! `ids`, then what all share (`host`, `lines`, `fault`, `mask`, `visible`, `solid`).

pub mod channel;
pub mod cli;
pub mod config;
pub mod economy;
pub mod engine;
pub mod envelope;
pub mod event;
mod fault;
pub mod gateway;
pub mod host;
pub mod ids;
pub mod lines;
pub mod mask;
pub mod plan;
pub mod process;
pub mod provider;
pub mod prune;
pub mod rehearsal;
pub mod run;
pub mod session;
pub mod simulate;
mod solid;
pub mod state;
pub mod store;
pub mod tree;
pub mod view;
pub mod visible;
pub mod workflow;
