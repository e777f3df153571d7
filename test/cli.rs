//! The real program: what people type, what it prints, what it leaves on disk.
//!
//! Every test runs `fia` in a repository of its own, on the scripted engine, without a network or an account.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "what could not be checked here is said")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out the facts that it is about")]

#[cfg(target_os = "linux")]
#[path = "cli/asking.rs"]
mod asking;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/broken_config.rs"]
mod broken_config;
#[path = "cli/channel.rs"]
mod channel;
#[path = "cli/checks.rs"]
mod checks;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/events.rs"]
mod events;
#[path = "cli/first_steps.rs"]
mod first_steps;
#[path = "cli/init.rs"]
mod init;
#[path = "cli/interrupted.rs"]
mod interrupted;
#[path = "cli/man.rs"]
mod man;
#[path = "cli/masking.rs"]
mod masking;
#[cfg(target_os = "linux")]
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/newest.rs"]
mod newest;
#[path = "cli/notify.rs"]
mod notify;
#[path = "cli/orphans.rs"]
mod orphans;
#[path = "cli/outside.rs"]
mod outside;
#[path = "cli/private.rs"]
mod private;
#[path = "cli/process_cases.rs"]
mod process_cases;
#[path = "cli/queries.rs"]
mod queries;
#[path = "cli/replay.rs"]
mod replay;
#[path = "cli/report.rs"]
mod report;
#[path = "cli/resume.rs"]
mod resume;
#[path = "cli/rotation.rs"]
mod rotation;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/session_lock.rs"]
mod session_lock;
#[path = "cli/simulate.rs"]
mod simulate;
#[path = "cli/stop.rs"]
mod stop;
#[path = "support/scripted.rs"]
mod support;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/undo.rs"]
mod undo;
#[path = "cli/verdict.rs"]
mod verdict;
#[path = "cli/warm.rs"]
mod warm;
#[path = "cli/workflows.rs"]
mod workflows;
