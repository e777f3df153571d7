//! What to write where a value has the wrong shape: the same content in the right one.

use super::table::{Field, Shape};
use super::yaml::{Kind, Node};

/// In place of a mapping of `fields` at `at`.
pub(crate) fn mapping(fields: &[Field], node: &Node, at: &str) -> String {
    let required: Vec<&Field> = fields.iter().filter(|field| field.required).collect();
    // A step is mostly an agent's.
    let usual = || fields.iter().find(|field| field.key == "agent").or(fields.first());
    let keys = if required.is_empty() { usual().into_iter().collect() } else { required };
    // An address may hold a secret, and is not repeated.
    let is_open = fields.iter().all(|field| !matches!(field.shape, Shape::WebAddress));
    let entries = keys.iter().enumerate().map(|(index, field)| {
        let is_meant = index == 0 && is_open && (field.required || field.key == "agent");
        match text(node).filter(|_| is_meant) {
            Some(text) => format!("{}: {}", field.key, quoted(text)),
            None => format!("{}: …", field.key),
        }
    });
    let body = entries.collect::<Vec<_>>().join(", ");
    let body = if body.is_empty() { "{}".to_owned() } else { format!("{{ {body} }}") };
    format!("a mapping expected: write `{}`", entry(at, &body))
}

/// In place of a list at `at`; of mappings when they have `fields`.
pub(crate) fn list(fields: Option<&[Field]>, node: &Node, at: &str) -> String {
    let Some(text) = text(node) else { return "a list expected: `[…]`, or one `- …` a line".to_owned() };
    let items: Vec<String> = match fields.map(|fields| fields.iter().find(|field| field.required)) {
        None => text.split(',').map(|item| quoted(item.trim())).collect(),
        Some(Some(first))
            if fields.is_some_and(|all| all.iter().all(|one| !matches!(one.shape, Shape::WebAddress))) =>
        {
            vec![format!("{{ {}: {} }}", first.key, quoted(text))]
        }
        Some(_) => return "a list expected: one `- …` a line".to_owned(),
    };
    format!("a list expected: write `{}`", entry(at, &format!("[{}]", items.join(", "))))
}

/// In place of a single value at `at`.
pub(crate) fn single(node: &Node, at: &str) -> String {
    match &node.kind {
        Kind::List(entries) => match entries.as_slice() {
            [only] if text(only).is_some() => {
                format!("a single value expected: write `{}`", entry(at, &quoted(text(only).unwrap_or_default())))
            }
            _ => "a single value expected, not a list".to_owned(),
        },
        Kind::Map(_) => "a single value expected, not a mapping".to_owned(),
        Kind::Scalar { .. } => "a single value expected".to_owned(),
    }
}

/// `key: body`; the body alone in a list.
fn entry(at: &str, body: &str) -> String {
    let key = at.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    if key.is_empty() || key.chars().all(|letter| letter.is_ascii_digit()) {
        body.to_owned()
    } else {
        format!("{key}: {body}")
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar { text, .. } if !text.trim().is_empty() => Some(text.trim()),
        Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => None,
    }
}

/// Text in quotes as JSON has it, which YAML takes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
