//! A checked file: its values as JSON, and where each of them stands.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::Walk;
use super::findings::Findings;
use super::pointer::shown;
use super::problem::Problem;
use super::table::Field;
use super::yaml::{self, Mark};

/// A file that the tables allow. Knobs that degraded are left out of its values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Document {
    /// The file as shown.
    pub(crate) file: String,
    /// The file as it was.
    pub(crate) text: String,
    pub(crate) value: Value,
    pub(crate) marks: BTreeMap<String, Mark>,
}

impl Document {
    /// Reads `text` by a table. What it could not use is in the findings and not in the values.
    pub(crate) fn read(file: &str, text: String, table: &'static [Field]) -> (Self, Findings) {
        let mut document =
            Self { file: file.to_owned(), text, value: Value::Object(serde_json::Map::new()), ..Self::default() };
        match yaml::parse(&document.text) {
            Err(flaws) => {
                let problems = flaws.into_iter().map(|flaw| document.syntax(&flaw)).collect();
                (document, Findings { problems, ..Findings::default() })
            }
            Ok(None) => (document, Findings::default()),
            Ok(Some(root)) => {
                let mut walk = Walk::new(file);
                document.value = walk.root(table, &root);
                document.marks = walk.marks;
                (document, walk.findings)
            }
        }
    }

    fn syntax(&self, flaw: &yaml::Flaw) -> Problem {
        let line = self.text.lines().nth(flaw.mark.line - 1).unwrap_or_default();
        let line = line.trim_start_matches('\u{feff}').trim_end();
        let number = flaw.mark.line.to_string();
        let caret = " ".repeat(flaw.mark.column - 1);
        let shown = line.replace('\t', " ");
        let excerpt = format!("{number} | {shown}\n{:width$} | {caret}^", "", width = number.len());
        Problem { mark: Some(flaw.mark), excerpt: Some(excerpt), ..Problem::with(&self.file, flaw.message.clone()) }
    }

    /// A problem with what stands at `pointer`, or with the nearest thing around it that has a place.
    pub(crate) fn problem(&self, pointer: &str, message: impl Into<String>) -> Problem {
        Problem { mark: self.mark(pointer), key: shown(pointer), ..Problem::with(&self.file, message) }
    }

    /// Where the value at `pointer` stands, or the nearest one around it.
    pub(crate) fn mark(&self, pointer: &str) -> Option<Mark> {
        let mut around = pointer;
        loop {
            if let Some(mark) = self.marks.get(around) {
                return Some(*mark);
            }
            around = &around[..around.rfind('/')?];
        }
    }
}
