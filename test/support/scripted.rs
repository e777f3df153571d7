//! What the tests on the scripted engine share.

pub(crate) mod program;
pub(crate) mod project;
pub(crate) mod test_env;
