//! The course of a live context in one line of text: `▁▂▃▄▅▆▇█↻▁▂▂▃`.

use super::trace::{Point, Trace};

/// Draws a trace into at most so many columns, scaled so that `full` tokens fill a cell; a session border is `↻`.
///
/// Nothing when there are no readings.
pub fn sparkline(trace: &Trace, full: u64, columns: usize) -> String {
    let points = trace.points();
    let borders = points.iter().filter(|point| point.fresh).count();
    let cells = columns.saturating_sub(borders);
    if points.is_empty() || cells == 0 {
        return String::new();
    }
    let mut drawn = String::new();
    // Neighbours share a cell, its height the largest of them; never over a border.
    let share = points.len().div_ceil(cells);
    for session in points.chunk_by(|_, next| !next.fresh) {
        if session[0].fresh {
            drawn.push('↻');
        }
        drawn.extend(session.chunks(share).map(|cell| height(cell, full)));
    }
    drawn
}

fn height(points: &[Point], full: u64) -> char {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let tokens = points.iter().map(|point| point.tokens).max().unwrap_or(0);
    let step = u128::from(tokens.min(full)) * 8 / u128::from(full.max(1));
    HEIGHTS[usize::try_from(step).unwrap_or(0).min(7)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(readings: &[u64]) -> Trace {
        let mut trace = Trace::small();
        for &tokens in readings {
            trace.push(0, tokens);
        }
        trace
    }

    #[test]
    fn a_course_rises_and_starts_over_after_a_rotation() {
        let mut course = trace(&[10, 30, 50, 70, 90, 110, 130, 160]);
        course.border();
        for tokens in [10, 25, 30, 45] {
            course.push(0, tokens);
        }
        assert_eq!(sparkline(&course, 160, 20), "▁▂▃▄▅▆▇█↻▁▂▂▃");
    }

    #[test]
    fn a_long_course_is_narrowed_and_keeps_its_peaks() {
        let mut readings = vec![10; 40];
        readings[17] = 160;
        assert_eq!(sparkline(&trace(&readings), 160, 8), "▁▁▁█▁▁▁▁");
    }

    #[test]
    fn nothing_read_is_nothing_drawn() {
        assert_eq!(sparkline(&Trace::small(), 100, 10), "");
        assert_eq!(sparkline(&trace(&[1]), 0, 10), "▁");
    }
}
