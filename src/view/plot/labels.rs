//! Places for labels: none overlaps another, and what finds no place is left out.

use crate::view::text;

/// Size of the letters in pixels.
pub(super) const FONT_SIZE: f64 = 11.0;
/// Height of a label's box.
pub(super) const HEIGHT: f64 = 13.0;
/// Width of a column of text; the SVG stretches each label to exactly this, whatever the font.
const COLUMN: f64 = 6.6;
/// Free pixels between two labels.
const GAP: f64 = 4.0;

/// A label and the box that it fills, in pixels from the top left.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// What it says.
    pub text: String,
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Style class.
    pub class: &'static str,
}

impl Label {
    /// A label with its upper left corner at this point.
    pub(super) fn at(text: &str, x: f64, y: f64, class: &'static str) -> Self {
        let text = text::line(text).into_owned();
        Self { width: width(&text), height: HEIGHT, text, x, y, class }
    }

    /// The same with its upper right corner there.
    pub(super) fn ending_at(text: &str, right: f64, y: f64, class: &'static str) -> Self {
        let label = Self::at(text, right, y, class);
        Self { x: right - label.width, ..label }
    }

    /// The same with the middle of its upper edge there.
    pub(super) fn centred_at(text: &str, middle: f64, y: f64, class: &'static str) -> Self {
        let label = Self::at(text, middle, y, class);
        Self { x: middle - label.width / 2.0, ..label }
    }

    /// Whether two boxes touch.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }

    fn padded(&self) -> Self {
        Self { x: self.x - GAP, width: self.width + 2.0 * GAP, ..self.clone() }
    }
}

/// The width of a text in pixels.
pub(super) fn width(text: &str) -> f64 {
    f64::from(u32::try_from(text::width(text)).unwrap_or(u32::MAX)) * COLUMN
}

/// Puts the first candidate that is free and inside of `[left, right]` among the labels; says whether there was one.
pub(super) fn place(
    labels: &mut Vec<Label>,
    candidates: impl IntoIterator<Item = Label>,
    left: f64,
    right: f64,
) -> bool {
    let free = candidates.into_iter().find(|candidate| {
        let padded = candidate.padded();
        candidate.x >= left
            && candidate.x + candidate.width <= right
            && !labels.iter().any(|placed| placed.overlaps(&padded))
    });
    free.map(|label| labels.push(label)).is_some()
}

/// Moves heights apart until each has `HEIGHT` to itself, inside of `[top, bottom]`; keeps their order.
///
/// They must fit in all; what does not sticks out below.
pub(super) fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut placed = vec![0.0; wanted.len()];
    let mut lowest = bottom - HEIGHT * f64::from(u32::try_from(wanted.len()).unwrap_or(u32::MAX));
    let mut highest = top;
    for index in order {
        // Not below the room that those to come need, not above what is taken.
        placed[index] = wanted[index].min(lowest).max(highest);
        lowest += HEIGHT;
        highest = placed[index] + HEIGHT;
    }
    placed
}
