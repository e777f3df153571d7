//! Shapes and labels of a picture, and how they are written as SVG.

use std::fmt::{self, Write as _};

use super::labels::{FONT_SIZE, Label};
use crate::view::markup::escape;

/// A picture under construction: shapes as SVG, labels as boxes.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    width: f64,
    /// Grows with what is drawn.
    pub(super) height: f64,
    shapes: String,
    pub(super) labels: Vec<Label>,
}

/// Colours by class. Okabe and Ito 2008, without black and yellow, which vanish on one of the two grounds.
const STYLE: &str = "\
.ground{fill:#fff}.ink{fill:#1d1f23}.soft{fill:#5c636d}.grid{stroke:#e2e5e9}.border{stroke:#b9c0c9}\
.ceiling{stroke:#5c636d;stroke-dasharray:7 5}.drop{stroke-dasharray:2 3;stroke-width:1}\
.course{fill:none;stroke-width:2;stroke-linejoin:round}.dotted{stroke-dasharray:1.5 3;stroke-linecap:round}\
.a0{stroke:#0072b2}.a1{stroke:#d55e00}.a2{stroke:#009e73}.a3{stroke:#cc79a7}.a4{stroke:#56b4e9}.a5{stroke:#e69f00}\
.rotation{fill:#1d1f23}.break{stroke:#1d1f23;stroke-width:1.5}\
.read{fill:#56b4e9}.write{fill:#e69f00}.input{fill:#d55e00}.output{fill:#009e73}\
@media(prefers-color-scheme:dark){.ground{fill:#15171b}.ink{fill:#e8eaed}.soft{fill:#a2a9b3}.grid{stroke:#2b2f36}\
.border{stroke:#4a515b}.ceiling{stroke:#a2a9b3}.a0{stroke:#3b9bd9}.rotation{fill:#e8eaed}.break{stroke:#e8eaed}}";

impl Scene {
    /// An empty picture of this width.
    pub(super) fn new(width: f64) -> Self {
        Self { width, height: 0.0, shapes: String::new(), labels: Vec::new() }
    }

    /// A straight line.
    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!(r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#));
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _infallible = write!(data, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        // A single reading is a dot, which only a round cap shows.
        if points.len() == 1 {
            data.push_str("h0.1");
        }
        self.add(format_args!(r#"<path class="{class}" stroke-linecap="round" d="{data}"/>"#));
    }

    /// A box with a tooltip.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, tip: &str) {
        let tip = escape(tip);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"><title>{tip}</title></rect>"#
        ));
    }

    /// A triangle that points down at a rotation.
    pub(super) fn triangle(&mut self, (x, y): (f64, f64), tip: &str) {
        let tip = escape(tip);
        self.add(format_args!(r#"<path class="rotation" d="M{x:.1} {y:.1}l-5 -9h10z"><title>{tip}</title></path>"#));
    }

    /// A cross at a cache break.
    pub(super) fn cross(&mut self, (x, y): (f64, f64), tip: &str) {
        let tip = escape(tip);
        self.add(format_args!(
            r#"<path class="break" d="M{:.1} {:.1}l8 8m0 -8l-8 8"><title>{tip}</title></path>"#,
            x - 4.0,
            y - 4.0
        ));
    }

    /// A strip that shows a tooltip and nothing else.
    pub(super) fn hint(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) {
        let tip = escape(tip);
        self.add(format_args!(
            r#"<rect fill="transparent" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"><title>{tip}</title></rect>"#
        ));
    }

    fn add(&mut self, shape: fmt::Arguments<'_>) {
        let _infallible = writeln!(self.shapes, "{shape}");
    }

    /// The whole document.
    pub(super) fn document(&self, title: &str) -> String {
        let Self { width, height, shapes, labels } = self;
        let title = escape(title);
        let mut texts = String::new();
        for label in labels {
            let Label { text, x, y, width, class, .. } = label;
            let (base, text) = (y + FONT_SIZE - 1.0, escape(text));
            let _infallible = writeln!(
                texts,
                r#"<text class="{class}" x="{x:.1}" y="{base:.1}" textLength="{width:.1}" lengthAdjust="spacingAndGlyphs">{text}</text>"#
            );
        }
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="{FONT_SIZE}">
<title>{title}</title>
<style>{STYLE}</style>
<rect class="ground" width="100%" height="100%"/>
{shapes}{texts}</svg>
"#
        )
    }
}
