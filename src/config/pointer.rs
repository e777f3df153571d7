//! Where a value stands: by JSON pointer (`/agents/1/writes`), and as people are shown it (`agents[1].writes`).

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
