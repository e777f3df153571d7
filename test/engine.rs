//! The contract of every engine adapter: recorded streams in, the right facts out.
//!
//! `cases/` are small inputs with the right outcome; `fixture/ENGINE/` are whole recordings of the CLIs
//! (claude 2.1.332, pi 1.6.0 and 0.73.1; cursor's are made after its documentation), decoded to one snapshot
//! an engine.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its input has failed")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out the facts that it is about")]

#[path = "engine/cases.rs"]
mod cases;
#[path = "engine/hostile.rs"]
mod hostile;
#[path = "engine/recorded.rs"]
mod recorded;
#[path = "engine/stream.rs"]
mod stream;
#[path = "engine/turns.rs"]
mod turns;
