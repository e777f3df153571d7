//! The directory of runs.
