//! Conversations that engines keep: what is sent to one, and which processes stay alive for them.

pub mod lease;
pub mod pool;
