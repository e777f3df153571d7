//! x
mod check;
mod document;
mod problem;
mod scalar;
mod table;
mod value;
mod yaml;
