//! Stops, deaths and recovery of live runs on the scripted engine: one test a rule of SPEC 10, in both directions.
//!
//! Runs are driven through the library, with a clock that the test owns: time is paused whenever a run waits, so
//! that no test sleeps.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out the facts that it is about")]

#[path = "support/test_env.rs"]
mod test_env;

#[path = "recovery/story.rs"]
mod story;

#[path = "recovery/budget.rs"]
mod budget;
#[path = "recovery/relay.rs"]
mod relay;
#[path = "recovery/stop.rs"]
mod stop;
#[path = "recovery/time.rs"]
mod time;
#[path = "recovery/wait.rs"]
mod wait;
