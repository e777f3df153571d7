//! The contract of every engine adapter: recorded streams in, the right facts out.
//!
//! `cases/` are small inputs with the right outcome; `fixture/ENGINE/` are whole recordings of the real CLIs
//! (claude 2.1.332, pi 1.6.0 and 0.73.1; cursor's are made after its documentation), decoded to one snapshot
//! an engine.

#[path = "engine/cases.rs"]
mod cases;
#[path = "engine/hostile.rs"]
mod hostile;
#[path = "engine/recorded.rs"]
mod recorded;
#[path = "engine/stream.rs"]
mod stream;
