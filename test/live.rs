//! Tests with the real claude and pi, which answer from a provider on loopback: no account, no network.
//!
//! Plain `cargo test` names them as not run. To run them:
//!
//! ```sh
//! sh test/engines.sh
//! cargo test --test live -- --ignored
//! ```

#![expect(clippy::print_stdout, reason = "measured figures are told")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out the facts that it is about")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "live/claude.rs"]
mod claude;
#[path = "live/gateway.rs"]
mod gateway;
#[path = "live/pi.rs"]
mod pi;
#[path = "live/price.rs"]
mod price;
#[path = "live/recovery.rs"]
mod recovery;
#[path = "live/runs.rs"]
mod runs;
#[expect(dead_code, reason = "other tests use the rest")]
mod support;
#[path = "live/warm.rs"]
mod warm;
