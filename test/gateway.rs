//! The gateway between clients and the loopback provider: what passes, what shrinks, what is refused.

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
