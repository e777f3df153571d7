//! Tests with the real claude and pi, which answer from a provider on loopback: no account, no network.
//!
//! Plain `cargo test` names them as not run. To run them:
//!
//! ```sh
//! sh test/engines.sh
//! cargo test --test live -- --ignored
//! ```

#[path = "live/claude.rs"]
mod claude;
#[path = "live/gateway.rs"]
mod gateway;
#[path = "live/pi.rs"]
mod pi;
#[path = "live/runs.rs"]
mod runs;
mod support;
#[path = "live/warm.rs"]
mod warm;
