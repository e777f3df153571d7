//! The gateway between clients and the loopback provider: what passes, what shrinks, what is refused.

#![expect(clippy::unnecessary_to_owned, clippy::format_collect, clippy::unnecessary_wraps, reason = "short in a test")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "gateway/passing.rs"]
mod passing;
#[path = "gateway/pi.rs"]
mod pi;
#[path = "gateway/pruning.rs"]
mod pruning;
#[path = "gateway/refusals.rs"]
mod refusals;
#[path = "gateway/scene.rs"]
mod scene;
