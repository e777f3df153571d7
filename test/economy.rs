//! The cases of channel delivery and context pruning, run against the product's own functions.

#[path = "economy/watermark.rs"]
mod watermark;
