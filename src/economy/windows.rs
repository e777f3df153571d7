//! Windows of models as data, dated, for what is said before a run; in a run the stream tells them.

use super::pattern::matches;

/// What fits into a model of claude's, in tokens, by name as configured: the first pattern that matches counts.
///
/// As claude 2.1.332 reported them on 2026-11-30 (`result.modelUsage.*.contextWindow`); aliases are what that version
/// took them for. A model that is not listed is unknown.
const OF_CLAUDE: &[(&str, u64)] = &[
    ("sonnet", 1_000_000),
    ("opus", 1_000_000),
    ("haiku", 1_000_000),
    ("fable", 1_000_000),
    ("claude-fable-5*", 1_000_000),
    ("claude-opus-5*", 1_000_000),
    ("claude-opus-4-8*", 1_000_000),
    ("claude-opus-4-7*", 1_000_000),
    ("claude-opus-4-6*", 200_000),
    ("claude-opus-4-5*", 200_000),
    ("claude-sonnet-5*", 1_000_000),
    ("claude-sonnet-4*", 200_000),
    ("claude-haiku-5-5*", 1_000_000),
    ("claude-haiku-4-5*", 200_000),
    ("claude-3-7-sonnet*", 200_000),
    ("claude-3-5-haiku*", 200_000),
];

/// The window of a model of claude's, in tokens; `None` is unknown.
pub fn of_claude(model: &str) -> Option<u64> {
    // A name may ask for a million tokens itself, whatever its model is otherwise.
    if model.ends_with("[1m]") {
        return Some(1_000_000);
    }
    OF_CLAUDE.iter().find(|(pattern, _)| matches(pattern, model)).map(|(_, window)| *window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_that_of_the_version_and_unknown_for_others() {
        for (model, window) in [
            ("sonnet", Some(1_000_000)),
            ("claude-sonnet-4-5-20250929", Some(200_000)),
            ("claude-sonnet-4-5[1m]", Some(1_000_000)),
            ("claude-opus-4-6", Some(200_000)),
            ("claude-opus-5-5", Some(1_000_000)),
            ("gpt-5.6", None),
            ("", None),
        ] {
            assert_eq!(of_claude(model), window, "{model}");
        }
    }
}
