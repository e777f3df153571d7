//! git's own wildcard language, as ignore files use it.
//!
//! Written after gitignore(5) and held against `git check-ignore` (git 2.47) by a property test: braces are
//! literal, which globbing crates read as alternatives.

/// Whether `text` matches `pattern`. `*`, `?` and sets stop at `/`; `**` between slashes crosses them.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    from(pattern, 0, text)
}

/// Matches `pattern[at..]`; what lies before decides whether `**` stands at the start of a segment.
fn from(pattern: &[u8], mut at: usize, mut text: &[u8]) -> bool {
    while let Some(&letter) = pattern.get(at) {
        if letter == b'*' {
            return star(pattern, at, text);
        }
        let Some((&first, rest)) = text.split_first() else { return false };
        match letter {
            b'?' if first != b'/' => at += 1,
            b'[' if first != b'/' => match set(pattern, at, first) {
                Some(after) => at = after,
                None => return false,
            },
            b'\\' if pattern.get(at + 1) == Some(&first) => at += 2,
            b'?' | b'[' | b'\\' => return false,
            _ if letter == first => at += 1,
            _ => return false,
        }
        text = rest;
    }
    text.is_empty()
}

/// Matches a run of stars at `at` and what follows it.
fn star(pattern: &[u8], at: usize, text: &[u8]) -> bool {
    let after = at + pattern[at..].iter().take_while(|letter| **letter == b'*').count();
    let rest = &pattern[after..];
    let starts_segment = at == 0 || pattern[at - 1] == b'/';
    let ends_segment = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
    let crosses = after - at > 1 && starts_segment && ends_segment;
    if crosses && rest.first() == Some(&b'/') && from(pattern, after + 1, text) {
        return true;
    }
    for eaten in 0..=text.len() {
        if from(pattern, after, &text[eaten..]) {
            return true;
        }
        if !crosses && text.get(eaten) == Some(&b'/') {
            return false;
        }
    }
    false
}

/// Matches one letter against the set that opens at `at`; the place after the set, or `None`.
fn set(pattern: &[u8], at: usize, letter: u8) -> Option<usize> {
    let mut place = at + 1;
    let negated = matches!(pattern.get(place), Some(b'!' | b'^'));
    place += usize::from(negated);
    let (mut found, mut previous, mut first) = (false, None, true);
    loop {
        let mut current = *pattern.get(place)?;
        if current == b']' && !first {
            return (found != negated).then_some(place + 1);
        }
        first = false;
        let mut low = None;
        if current == b'[' && pattern.get(place + 1) == Some(&b':') {
            let end = place + 2 + pattern[place + 2..].iter().position(|byte| *byte == b']')?;
            if let Some(name) = pattern[place + 2..end].strip_suffix(b":") {
                found |= class(name, letter)?;
                (place, previous) = (end + 1, None);
                continue;
            }
        } else if current == b'\\' {
            place += 1;
            current = *pattern.get(place)?;
        } else if current == b'-' && pattern.get(place + 1).is_some_and(|next| *next != b']') {
            low = previous;
            if low.is_some() {
                place += 1 + usize::from(pattern[place + 1] == b'\\');
                current = *pattern.get(place)?;
            }
        }
        found |= (low.unwrap_or(current)..=current).contains(&letter);
        previous = if low.is_some() { None } else { Some(current) };
        place += 1;
    }
}

/// Whether a letter is of a named class; `None` for a class that does not exist, which matches nothing.
fn class(name: &[u8], letter: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => letter.is_ascii_alphanumeric(),
        b"alpha" => letter.is_ascii_alphabetic(),
        b"blank" => matches!(letter, b' ' | b'\t'),
        b"cntrl" => letter.is_ascii_control(),
        b"digit" => letter.is_ascii_digit(),
        b"graph" => letter.is_ascii_graphic(),
        b"lower" => letter.is_ascii_lowercase(),
        b"print" => letter == b' ' || letter.is_ascii_graphic(),
        b"punct" => letter.is_ascii_punctuation(),
        b"space" => letter.is_ascii_whitespace() || letter == 0x0b,
        b"upper" => letter.is_ascii_uppercase(),
        b"xdigit" => letter.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stay_in_a_segment_unless_two_stand_between_slashes() {
        for (pattern, text, expected) in [
            ("*.rs", "main.rs", true),
            ("*.rs", "src/main.rs", false),
            ("src/*/x", "src/a/x", true),
            ("src/*/x", "src/a/b/x", false),
            ("**/x", "x", true),
            ("**/x", "a/b/x", true),
            ("a/**/x", "a/x", true),
            ("a/**/x", "a/b/c/x", true),
            ("a/**", "a/b/c", true),
            ("a**/x", "a/b/x", false),
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn sets_know_ranges_classes_and_negation() {
        for (pattern, text, expected) in [
            ("[a-c]", "b", true),
            ("[!a-c]", "b", false),
            ("[^a-c]", "d", true),
            ("[]x]", "]", true),
            ("[[:digit:]_]", "7", true),
            ("[[:digit:]_]", "_", true),
            ("[[:nonsense:]]", "n", false),
            ("[a", "a", false),
            ("[\\]]", "]", true),
            ("a[/]b", "a/b", false),
            ("\\*", "*", true),
            ("a\\", "a\\", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
