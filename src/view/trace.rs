//! The course of an agent's live context, in a bounded number of points however many requests there were.

use serde::{Deserialize, Serialize};

/// A series that halves its resolution whenever it is full; a point is the largest reading of its stretch.
///
/// Borders between sessions are never lost: where one begins, a point of its own begins, beyond the limit if need be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    points: Vec<Point>,
    /// Readings that one point stands for.
    stride: u64,
    limit: usize,
    border: bool,
}

/// Some readings in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// When the last of them was, in milliseconds of the run's active time.
    pub at_ms: u64,
    /// The largest of them, in tokens.
    pub tokens: u64,
    /// How many they are.
    pub readings: u64,
    /// Whether a fresh session began with the first of them.
    pub fresh: bool,
}

impl Trace {
    /// A trace for one line of text.
    pub fn small() -> Self {
        Self::with_limit(48)
    }

    /// A trace for a picture.
    pub fn large() -> Self {
        Self::with_limit(1024)
    }

    fn with_limit(limit: usize) -> Self {
        Self { points: Vec::new(), stride: 1, limit, border: false }
    }

    /// Adds a reading.
    pub fn push(&mut self, at_ms: u64, tokens: u64) {
        let reading = Point { at_ms, tokens, readings: 1, fresh: std::mem::take(&mut self.border) };
        match self.points.last_mut() {
            Some(last) if !reading.fresh && last.readings < self.stride => last.absorb(&reading),
            Some(_) | None => {
                self.points.push(reading);
                if self.is_full() {
                    self.halve();
                }
            }
        }
    }

    /// Whether there are too many points, those that begin a session not counted: these stay anyway.
    fn is_full(&self) -> bool {
        self.points.len() > self.limit && self.points.iter().filter(|point| !point.fresh).count() > self.limit
    }

    /// Marks that the next reading is of another session.
    pub fn border(&mut self) {
        self.border = !self.points.is_empty();
    }

    /// The points, oldest first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    fn halve(&mut self) {
        self.stride *= 2;
        let mut halved: Vec<Point> = Vec::with_capacity(self.limit);
        for point in &self.points {
            match halved.last_mut() {
                Some(last) if !point.fresh && last.readings + point.readings <= self.stride => last.absorb(point),
                Some(_) | None => halved.push(*point),
            }
        }
        self.points = halved;
    }
}

impl Point {
    fn absorb(&mut self, later: &Self) {
        self.at_ms = later.at_ms;
        self.tokens = self.tokens.max(later.tokens);
        self.readings += later.readings;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_course_is_kept_as_it_is() {
        let mut trace = Trace::small();
        trace.push(1, 10);
        trace.push(2, 20);
        trace.border();
        trace.push(3, 5);
        let points: Vec<_> = trace.points().iter().map(|p| (p.at_ms, p.tokens, p.fresh)).collect();
        assert_eq!(points, [(1, 10, false), (2, 20, false), (3, 5, true)]);
    }

    #[test]
    fn a_million_readings_stay_a_few_points_with_their_peak() {
        let mut trace = Trace::small();
        for reading in 0..1_000_000u64 {
            trace.push(reading, if reading == 654_321 { 999_999 } else { reading % 1000 });
        }
        assert!(trace.points().len() <= 48);
        assert_eq!(trace.points().iter().map(|p| p.tokens).max(), Some(999_999));
        assert_eq!(trace.points().iter().map(|p| p.readings).sum::<u64>(), 1_000_000);
    }

    #[test]
    fn more_sessions_than_points_cost_no_detail() {
        let mut trace = Trace::small();
        for reading in 0..10_000u64 {
            if reading % 20 == 0 {
                trace.border();
            }
            trace.push(reading, reading % 20);
        }
        assert_eq!(trace.points().iter().filter(|point| point.fresh).count(), 499);
        assert!(trace.points().len() <= 48 + 499);
        assert_eq!(trace.points().iter().map(|point| point.readings).sum::<u64>(), 10_000);
    }

    proptest! {
        #[test]
        fn every_border_survives(borders in proptest::collection::vec(any::<bool>(), 1..2000)) {
            let mut trace = Trace::small();
            let mut count = 0;
            for (at, border) in (0u64..).zip(&borders) {
                if *border && at > 0 && at % 50 == 0 {
                    trace.border();
                    count += 1;
                }
                trace.push(at, at);
            }
            prop_assert_eq!(trace.points().iter().filter(|p| p.fresh).count(), count);
            prop_assert!(trace.points().len() <= 48 + count);
        }
    }
}
