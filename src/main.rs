//! The program `fia`.

fn main() {}
