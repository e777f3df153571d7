//! What the integration tests share.

pub(crate) mod engines;
pub(crate) mod program;
pub(crate) mod test_env;
