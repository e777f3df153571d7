//! YAML as a tree that remembers where everything stands.
//!
//! A reader that goes straight into Rust types stops at the first mistake and forgets tags and quotes,
//! yet a config must name all its mistakes at once, and a tagged entry of `writes` must not count as
//! text. So the parser's events become [`Node`]s here, and checks walk them. Of YAML 1.2 the tree refuses
//! what a config has no use for: several documents, keys that are no text, a key given twice, and
//! more than [`MAX_NODES`] nodes (aliases included, so that a few lines cannot unfold into gigabytes).

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span};
use serde::{Deserialize, Serialize};

/// Nodes that one file may have, aliases unfolded: far more than a hand writes, far less than memory.
const MAX_NODES: usize = 100_000;

/// Where something begins in a file; line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Mark {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    fn of(marker: &Marker) -> Self {
        Self { line: marker.line().max(1), column: marker.col() + 1 }
    }
}

/// A value of a file and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    /// Whether a tag (`!name`) stands before it.
    pub(crate) tagged: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// A scalar as written, less its quotes.
    Scalar {
        text: String,
        /// Written without quotes, so that it may be a number, a boolean or null.
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) mark: Mark,
}

/// Something in a file that is no YAML, or YAML that a config may not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) mark: Mark,
    pub(crate) message: String,
}

impl Flaw {
    fn new(mark: Mark, message: impl Into<String>) -> Self {
        Self { mark, message: message.into() }
    }
}

/// Reads one document; a file without content is `None`.
///
/// # Errors
///
/// All keys that are given twice, or the first place that is not YAML.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, Vec<Flaw>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = granit_parser::options! { emit_comments: false };
    let events = Parser::new_from_str_with_options(text, options);
    let mut tree = Tree { events, anchors: HashMap::new(), nodes: 0, flaws: Vec::new() };
    match tree.document() {
        Ok(root) if tree.flaws.is_empty() => Ok(root),
        Ok(_) => Err(tree.flaws),
        Err(flaw) => {
            tree.flaws.push(flaw);
            Err(tree.flaws)
        }
    }
}

struct Tree<'input> {
    events: Parser<'input, granit_parser::StrInput<'input>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    flaws: Vec<Flaw>,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the parser may grow events, and none of them is a value")]
impl<'input> Tree<'input> {
    fn next(&mut self) -> Result<(Event<'input>, Span), Flaw> {
        match self.events.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(explain(&error)),
            None => Err(Flaw::new(Mark::START, "the file ends too early")),
        }
    }

    fn document(&mut self) -> Result<Option<Node>, Flaw> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(Flaw::new(Mark::of(&span.start), "a second document; a config is one"));
                }
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                content => root = Some(self.node(content, &span)?),
            }
        }
    }

    fn node(&mut self, event: Event<'input>, span: &Span) -> Result<Node, Flaw> {
        let mark = Mark::of(&span.start);
        self.count(1, mark)?;
        let (anchor, tagged, kind) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                (anchor, tag.is_some(), Kind::Scalar { text: text.into_owned(), plain })
            }
            Event::SequenceStart(_, anchor, tag) => (anchor, tag.is_some(), self.list()?),
            Event::MappingStart(_, anchor, tag) => (anchor, tag.is_some(), self.map()?),
            Event::Alias(id) => {
                let Some(target) = self.anchors.get(&id).cloned() else {
                    return Err(Flaw::new(mark, "an alias inside of what it stands for"));
                };
                self.count(size(&target), mark)?;
                return Ok(target);
            }
            unexpected => return Err(Flaw::new(mark, format!("a value expected, not {unexpected:?}"))),
        };
        let node = Node { mark, tagged, kind };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self) -> Result<Kind, Flaw> {
        let mut entries = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Kind::List(entries)),
                (event, span) => entries.push(self.node(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Kind, Flaw> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Kind::Map(entries));
            }
            let key = self.node(event, &span)?;
            let Kind::Scalar { text, .. } = key.kind else {
                return Err(Flaw::new(key.mark, "a key must be text"));
            };
            if let Some((first, _)) = entries.iter().find(|(known, _)| known.text == text) {
                let message = format!("key `{text}` is given twice; the first one is in line {}", first.mark.line);
                self.flaws.push(Flaw::new(key.mark, message));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, &span)?;
            entries.push((Key { text, mark: key.mark }, value));
        }
    }

    fn count(&mut self, more: usize, mark: Mark) -> Result<(), Flaw> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(Flaw::new(mark, format!("more than {MAX_NODES} values, aliases unfolded")));
        }
        Ok(())
    }
}

fn size(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 1,
        Kind::List(entries) => 1 + entries.iter().map(size).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|(_, value)| 1 + size(value)).sum::<usize>(),
    }
}

/// Adds to the parser's words what people do about the usual mistakes.
fn explain(error: &ScanError) -> Flaw {
    let kind = error.kind();
    let advice = if matches!(kind, ErrorKind::UnknownAnchor | ErrorKind::MissingAnchorOrAliasName) {
        "; a text that begins with `*` or `&` needs quotes: \"**/*.md\""
    } else if matches!(kind, ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation)
    {
        "; indent with spaces"
    } else if matches!(kind, ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape) {
        "; a backslash in double quotes begins an escape, so put paths in single quotes"
    } else {
        ""
    };
    Flaw::new(Mark::of(error.marker()), format!("{}{advice}", error.info()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(text: &str) -> (usize, usize, String) {
        let flaws = parse(text).unwrap_err();
        assert_eq!(flaws.len(), 1, "{flaws:?}");
        (flaws[0].mark.line, flaws[0].mark.column, flaws[0].message.clone())
    }

    #[test]
    fn marks_count_characters_from_one_and_a_byte_order_mark_is_no_character() {
        let root = parse("\u{feff}äö: [x, !t y]\r\n").unwrap().unwrap();
        let Kind::Map(entries) = root.kind else { panic!("no map") };
        let Kind::List(list) = &entries[0].1.kind else { panic!("no list") };
        assert_eq!(entries[0].0.mark, Mark { line: 1, column: 1 });
        assert_eq!(list[0].mark, Mark { line: 1, column: 6 });
        assert_eq!((list[0].tagged, list[1].tagged), (false, true));
    }

    #[test]
    fn an_empty_file_and_one_of_comments_have_no_root() {
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse("# nothing\n").unwrap(), None);
    }

    #[test]
    fn every_key_that_is_given_twice_is_named() {
        let flaws = parse("a: 1\nb: 2\na: 3\nb: 4\n").unwrap_err();
        let lines: Vec<_> = flaws.iter().map(|flaw| flaw.mark.line).collect();
        assert_eq!(lines, [3, 4]);
    }

    #[test]
    fn aliases_cannot_unfold_without_a_limit() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            text.extend([format!("a{level}: &a{level} [{before}]\n")]);
        }
        assert!(flaw(&text).2.contains("aliases unfolded"));
        assert!(flaw("a: &a [*a]\n").2.contains("alias"), "an anchor is no part of itself");
    }

    #[test]
    fn usual_mistakes_come_with_advice() {
        let star = flaw("a:\n  - **/*.md\n");
        assert_eq!((star.0, star.1), (2, 5));
        assert!(star.2.contains("quotes"), "{}", star.2);
        assert!(flaw("a:\n\t- b\n").2.contains("spaces"));
        assert!(flaw("a: \"C:\\Users\"\n").2.contains("single quotes"));
        assert_eq!(flaw("a: 1\n---\nb: 2\n").0, 2);
    }
}
