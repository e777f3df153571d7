//! Where a value stands: by JSON pointer (`/agents/1/writes`), and as people are shown it (`agents[1].writes`).

use std::borrow::Cow;

use serde_json::Value;

/// The pointer of `key` below `pointer`.
pub(crate) fn below(pointer: &str, key: &str) -> String {
    // Nearly all keys stand in a pointer as they are, and there are hundreds at each start.
    if key.contains(['~', '/']) {
        format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
    } else {
        [pointer, "/", key].concat()
    }
}

/// The keys and indexes of a pointer.
pub(crate) fn segments(pointer: &str) -> impl Iterator<Item = Cow<'_, str>> {
    pointer.split('/').skip(1).map(|segment| {
        if segment.contains('~') {
            Cow::Owned(segment.replace("~1", "/").replace("~0", "~"))
        } else {
            Cow::Borrowed(segment)
        }
    })
}

/// What stands at a pointer.
pub(crate) fn at<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    segments(pointer).try_fold(value, |value, key| match value {
        Value::Object(map) => map.get(&*key),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// A pointer as people are shown it: `agents[1].writes`.
pub(crate) fn shown(pointer: &str) -> String {
    let mut text = String::new();
    for segment in segments(pointer) {
        if !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit()) {
            text.extend(["[", &segment, "]"]);
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text += &segment;
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

    #[test]
    fn a_pointer_leads_to_what_it_was_made_for() {
        let value = serde_json::json!({ "a/b": [{ "c~1": 1 }], "d": { "": 2 } });
        let inside = below(&below(&below("", "a/b"), "0"), "c~1");
        for (pointer, wanted) in [(inside.as_str(), Some(1)), ("/d/", Some(2)), ("/a/b", None), ("/a~1b/1", None)] {
            assert_eq!(at(&value, pointer).and_then(Value::as_i64), wanted, "{pointer}");
            assert_eq!(at(&value, pointer), value.pointer(pointer), "{pointer}");
        }
    }
}
