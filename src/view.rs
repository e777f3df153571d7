//! Views: readers of records that render.
//!
//! Every view is a fold. It is pushed the records of a run once, in order, keeps a state whose size depends on
//! the number of phases and agents but never on the length of the log, and writes to an `io::Write`. No view
//! knows how a run works, opens a file, reads a clock or decides about colour: the time, the width and the
//! [`Paint`](paint::Paint) come from the caller. [`web`] alone does, as nobody but a browser calls it.
//!
//! All text of agents, tools and file names passes [`text`] before it reaches a terminal and is escaped again for
//! SVG and HTML. What is not known is shown as `–` and is null in JSON, never 0.

pub mod dollars;
pub mod ending;
pub mod events;
pub mod frame;
pub mod html;
pub mod human;
pub mod json;
pub mod lines;
pub mod live;
pub mod markup;
pub mod numbers;
pub mod otlp;
pub mod paint;
pub mod plot;
pub mod projection;
pub mod report;
pub mod rows;
pub mod savings;
pub mod screen;
pub mod spark;
pub mod spend;
#[cfg(test)]
mod story;
pub mod subject;
pub mod table;
pub mod tables;
pub mod text;
pub mod trace;
pub mod web;
pub mod words;

#[cfg(test)]
mod tests;
