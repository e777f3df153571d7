//! The walk over a file with its table: what is there becomes JSON, what may not be there a problem.
//!
//! All problems are collected. A value that is wrong is left out and the walk goes on behind it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::findings::{Degraded, Findings};
use super::pointer::{below, shown};
use super::problem::{Problem, Warning, did_you_mean};
use super::scalar::Scalar;
use super::shape;
use super::table::{Field, NOT_SERVED, Shape};
use super::value::{self, Reading};
use super::yaml::{Key, Kind, Mark, Node};

/// A walk over one file.
pub(crate) struct Walk<'a> {
    file: &'a str,
    pub(crate) marks: BTreeMap<String, Mark>,
    pub(crate) findings: Findings,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file, marks: BTreeMap::new(), findings: Findings::default() }
    }

    /// Walks a whole file, whose root is a mapping of `fields`.
    pub(crate) fn root(&mut self, fields: &'static [Field], root: &Node) -> Value {
        self.section(fields, Spelling::Snake, root, "").unwrap_or_else(|| json!({}))
    }

    /// The value of `node` as `shape` has it; `None` when it is left out.
    fn value(&mut self, shape: &'static Shape, node: &Node, at: &str) -> Option<Value> {
        self.marks.insert(at.to_owned(), node.mark);
        if node.tagged {
            return self.wrong(at, "a tag has no meaning here");
        }
        match shape {
            Shape::Section(fields) => self.section(fields, Spelling::Snake, node, at),
            Shape::CamelSection(fields) => self.section(fields, Spelling::Either, node, at),
            Shape::Map(inner) => self.map(inner, Names::Any, node, at),
            Shape::Named(inner) => self.map(inner, Names::Plain, node, at),
            Shape::ByEngine(inner) => self.map(inner, Names::Engines, node, at),
            Shape::List(_) if is_nothing(node) => Some(json!([])),
            Shape::List(inner) => self.list(inner, node, at),
            Shape::Patterns => self.patterns(node, at),
            Shape::Texts => self.list(&Shape::Text, node, at),
            Shape::Choices(words) => self.words(words, node, at),
            Shape::OneOrMore => self.one_or_more(node, at),
            Shape::Text
            | Shape::DataDir
            | Shape::Name
            | Shape::StepName
            | Shape::Choice(_)
            | Shape::Engine
            | Shape::Switch
            | Shape::Knob(_)
            | Shape::Whole
            | Shape::Amount
            | Shape::Clamped(_)
            | Shape::Ttl
            | Shape::Wait
            | Shape::WebAddress
            | Shape::Variable => self.scalar(shape, node, at),
        }
    }

    fn section(&mut self, fields: &'static [Field], spelling: Spelling, node: &Node, at: &str) -> Option<Value> {
        let entries = self.entries(node, at, || shape::mapping(fields, node, at))?;
        let mut values = Map::new();
        for (key, value) in entries {
            let name = spelling.of(&key.text);
            let Some(field) = fields.iter().find(|field| field.key == name) else {
                if NOT_SERVED.contains(&key.text.as_str()) {
                    let inner = below(at, &key.text);
                    self.marks.insert(inner.clone(), value.mark);
                    self.findings.not_served.push(inner);
                    continue;
                }
                let near = did_you_mean(&key.text, fields.iter().map(|field| field.key));
                self.problem(at, Some(key.mark), format!("unknown key `{}`{near}", key.text));
                continue;
            };
            let inner = below(at, field.key);
            if self.marks.contains_key(&inner) {
                self.problem(
                    &inner,
                    Some(key.mark),
                    format!("`{}` is another spelling of a key given before", key.text),
                );
                continue;
            }
            if let Some(value) = self.value(&field.shape, value, &inner) {
                values.insert(field.key.to_owned(), value);
            }
        }
        for field in fields.iter().filter(|field| field.required) {
            if !self.marks.contains_key(&below(at, field.key)) {
                self.wrong::<()>(at, format!("`{}` is missing", field.key));
            }
        }
        Some(Value::Object(values))
    }

    fn map(&mut self, inner: &'static Shape, names: Names, node: &Node, at: &str) -> Option<Value> {
        let mut values = Map::new();
        for (key, value) in self.entries(node, at, || "a mapping expected: `name: …`".to_owned())? {
            let name = match names.of(&key.text) {
                Ok(name) => name,
                Err(message) => {
                    self.problem(at, Some(key.mark), message);
                    continue;
                }
            };
            let child = below(at, &name);
            if let Some(value) = self.value(inner, value, &child) {
                values.insert(name, value);
            }
        }
        Some(Value::Object(values))
    }

    fn entries<'n>(&mut self, node: &'n Node, at: &str, wrong: impl FnOnce() -> String) -> Option<&'n [(Key, Node)]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            Kind::Scalar { .. } if is_nothing(node) => Some(&[]),
            Kind::Scalar { .. } | Kind::List(_) => self.wrong(at, wrong()),
        }
    }

    fn list(&mut self, inner: &'static Shape, node: &Node, at: &str) -> Option<Value> {
        let Kind::List(entries) = &node.kind else {
            let fields = if let Shape::Section(fields) = inner { Some(*fields) } else { None };
            return self.wrong(at, shape::list(fields, node, at));
        };
        let mut values = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            // A wrong entry is still counted, so that the others keep their pointers.
            values.push(self.value(inner, entry, &format!("{at}/{index}")).unwrap_or(Value::Null));
        }
        Some(Value::Array(values))
    }

    fn words(&mut self, words: &'static [&'static str], node: &Node, at: &str) -> Option<Value> {
        let value = self.list(&Shape::Text, node, at)?;
        for (index, word) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(word) = word.as_str().filter(|word| !words.contains(word)) {
                self.wrong::<()>(&format!("{at}/{index}"), value::unknown_word(word, words));
            }
        }
        Some(value)
    }

    fn one_or_more(&mut self, node: &Node, at: &str) -> Option<Value> {
        match &node.kind {
            Kind::Scalar { .. } => Some(json!([self.scalar(&Shape::Text, node, at)?])),
            Kind::List(entries) if entries.is_empty() => self.wrong(at, "an empty list; name at least one"),
            Kind::List(_) | Kind::Map(_) => self.list(&Shape::Text, node, at),
        }
    }

    /// Permissions never widen by accident: what is not clearly a pattern is an error.
    fn patterns(&mut self, node: &Node, at: &str) -> Option<Value> {
        let Kind::List(entries) = &node.kind else {
            // Nothing after the colon is no pattern either.
            let nothing = "a list of patterns expected; `[]` is none of them".to_owned();
            return self.wrong(at, if is_nothing(node) { nothing } else { shape::list(None, node, at) });
        };
        let mut patterns = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let at = format!("{at}/{index}");
            self.marks.insert(at.clone(), entry.mark);
            let text = match &entry.kind {
                Kind::Scalar { .. } if is_nothing(entry) => "",
                Kind::Scalar { text, .. } => text.as_str(),
                Kind::List(_) | Kind::Map(_) => {
                    self.wrong::<()>(&at, "a pattern expected");
                    continue;
                }
            };
            match (entry.tagged, value::pattern_flaw(text)) {
                (true, _) => self.wrong::<()>(&at, "a tag has no meaning here; quote a pattern that begins with `!`"),
                (false, Some(message)) => self.wrong(&at, message),
                (false, None) => {
                    patterns.push(Value::from(text));
                    None
                }
            };
        }
        Some(Value::Array(patterns))
    }

    fn scalar(&mut self, shape: &'static Shape, node: &Node, at: &str) -> Option<Value> {
        let Kind::Scalar { text, plain } = &node.kind else {
            return self.wrong(at, shape::single(node, at));
        };
        match value::read(shape, Scalar::read(text, *plain), text) {
            Reading::Taken(value) => Some(value),
            Reading::Adjusted(value, message) => {
                self.warn(at, message);
                Some(value)
            }
            Reading::Ignored(message) => {
                self.warn(at, message);
                None
            }
            Reading::Degraded(knob) => {
                let (unit, default) = (knob.unit, knob.default);
                let written = if is_nothing(node) { String::new() } else { text.clone() };
                self.findings.degraded.push(Degraded { at: at.to_owned(), written, unit, default });
                None
            }
            Reading::Wrong(message) => self.wrong(at, message),
        }
    }

    fn problem(&mut self, at: &str, mark: Option<Mark>, message: impl Into<String>) {
        let problem = Problem { mark, key: shown(at), ..Problem::with(self.file, message) };
        self.findings.problems.push(problem);
    }

    fn wrong<T>(&mut self, at: &str, message: impl Into<String>) -> Option<T> {
        let mark = self.marks.get(at).copied();
        self.problem(at, mark, message);
        None
    }

    fn warn(&mut self, at: &str, message: impl Into<String>) {
        let mark = self.marks.get(at).copied();
        let problem = Problem { mark, key: shown(at), ..Problem::with(self.file, message) };
        self.findings.warnings.push(Warning(problem));
    }
}

/// Whether nothing stands there, or null.
fn is_nothing(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, plain } if Scalar::read(text, *plain) == Scalar::Null)
}

/// How the keys of a section may be spelt.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    Snake,
    /// `soft_trim` or `softTrim`.
    Either,
}

impl Spelling {
    /// The key in the table's spelling.
    fn of(self, key: &str) -> String {
        match self {
            Self::Either if !key.contains('_') => {
                key.chars().fold(String::with_capacity(key.len() + 4), |mut snake, letter| {
                    if letter.is_ascii_uppercase() {
                        snake.push('_');
                    }
                    snake.push(letter.to_ascii_lowercase());
                    snake
                })
            }
            Self::Either | Self::Snake => key.to_owned(),
        }
    }
}

/// What the keys of a mapping may be.
#[derive(Debug, Clone, Copy)]
enum Names {
    Any,
    /// Names that are part of file names.
    Plain,
    Engines,
}

impl Names {
    fn of(self, key: &str) -> Result<String, String> {
        match self {
            Self::Any if key.is_empty() => Err("an empty key".to_owned()),
            Self::Any => Ok(key.to_owned()),
            Self::Plain => value::plain_name(key).map(|()| key.to_owned()),
            Self::Engines => value::engine(key).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests;
