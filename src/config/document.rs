//! A checked file: its values as JSON, and where each of them stands.
//!
//! Values are addressed by JSON pointer (`/agents/1/writes`); people are shown `agents[1].writes`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::Walk;
use super::problem::{Problem, Warning};
use super::table::{Field, Unit};
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

/// What reading a file brings besides its values.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
    /// Knobs that degraded, by pointer: the default that stands may come from another layer.
    pub(crate) degraded: Vec<Degraded>,
    /// Pointers of keys that are accepted and not acted on.
    pub(crate) not_served: Vec<String>,
}

/// A knob whose value could not be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Degraded {
    pub(crate) at: String,
    /// The value as written.
    pub(crate) written: String,
    pub(crate) unit: Unit,
    pub(crate) default: u64,
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

/// The pointer of `key` below `pointer`.
pub(crate) fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A pointer as people are shown it: `agents[1].writes`.
pub(crate) fn shown(pointer: &str) -> String {
    let mut text = String::new();
    for segment in pointer.split('/').skip(1) {
        if !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit()) {
            text.extend(["[", segment, "]"]);
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text += &segment.replace("~1", "/").replace("~0", "~");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_shown_as_people_write_paths() {
        assert_eq!(shown("/agents/1/writes"), "agents[1].writes");
        assert_eq!(shown(&below("/models", "openai/gpt~x")), "models.openai/gpt~x");
        assert_eq!(shown(""), "");
    }
}
