//! Patterns of `writes`, `protected_files` and benign paths (SPEC 11.3).
//!
//! Anchored at the top of the work tree: `dir/` is everything below a folder, `*` any text inside a segment,
//! `**` any number of folders, and every other character stands for itself, brackets and braces too.

use thiserror::Error;

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
    /// Written with a slash at its end: everything below.
    folder: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// `**`
    AnyFolders,
    /// Literal pieces with any text between them.
    Pieces(Vec<Vec<u8>>),
}

/// Why a text is no pattern: it could never match, or not what its writer means.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{pattern}` is no pattern: {reason}")]
pub struct PatternError {
    /// As written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// For an empty one, one that begins with `/`, and one with an empty, `.` or `..` segment.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let error = |reason| Err(PatternError { pattern: text.to_owned(), reason });
        let body = text.strip_suffix('/').unwrap_or(text);
        if body.is_empty() {
            return error("it is empty");
        }
        if body.starts_with('/') {
            return error("it is relative to the top of the work tree, without `/` in front");
        }
        if body.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return error("a segment is empty, `.` or `..`");
        }
        let segments = body.split('/').map(|segment| match segment {
            "**" => Segment::AnyFolders,
            _ => Segment::Pieces(segment.split('*').map(|piece| piece.as_bytes().to_vec()).collect()),
        });
        Ok(Self { segments: segments.collect(), folder: text.ends_with('/') })
    }

    /// Reads several.
    ///
    /// # Errors
    ///
    /// For the first that is none.
    pub fn parse_all<T: AsRef<str>>(texts: &[T]) -> Result<Vec<Self>, PatternError> {
        texts.iter().map(|text| Self::parse(text.as_ref())).collect()
    }

    /// The pattern that covers one path, whatever characters it has.
    pub(crate) fn literal(path: &str) -> Self {
        let segments = path.split('/').map(|segment| Segment::Pieces(vec![segment.as_bytes().to_vec()]));
        Self { segments: segments.collect(), folder: false }
    }

    /// Whether it covers a path.
    pub fn matches(&self, path: &[u8]) -> bool {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        covers(&self.segments, &names, self.folder)
    }

    /// Whether it leads to a folder by naming every segment of it, not by `**`, and covers something below.
    pub(crate) fn names_folder(&self, folder: &[u8]) -> bool {
        let names: Vec<&[u8]> = folder.split(|byte| *byte == b'/').collect();
        let (leading, left) = self.segments.split_at(names.len().min(self.segments.len()));
        leading.len() == names.len()
            && leading.iter().zip(&names).all(|(segment, name)| segment.matches_name(name))
            && (self.folder || !left.is_empty())
    }

    /// Whether something below a folder can be covered.
    pub(crate) fn reaches_below(&self, folder: &[u8]) -> bool {
        let names: Vec<&[u8]> = folder.split(|byte| *byte == b'/').collect();
        reaches(&self.segments, &names, self.folder)
    }
}

impl Segment {
    fn matches_name(&self, name: &[u8]) -> bool {
        match self {
            Self::AnyFolders => false,
            Self::Pieces(pieces) => pieces_match(pieces, name),
        }
    }
}

fn pieces_match(pieces: &[Vec<u8>], name: &[u8]) -> bool {
    let [first, middle @ .., last] = pieces else {
        return pieces.first().is_some_and(|only| only == name);
    };
    let Some(mut rest) = name.strip_prefix(first.as_slice()).and_then(|rest| rest.strip_suffix(last.as_slice())) else {
        return false;
    };
    // The leftmost place of each piece leaves the most room for the next.
    middle.iter().filter(|piece| !piece.is_empty()).all(|piece| {
        let place = rest.windows(piece.len()).position(|window| window == piece.as_slice());
        place.is_some_and(|place| {
            rest = &rest[place + piece.len()..];
            true
        })
    })
}

fn covers(segments: &[Segment], names: &[&[u8]], folder: bool) -> bool {
    match segments {
        [] => {
            if folder {
                !names.is_empty()
            } else {
                names.is_empty()
            }
        }
        // At the end it stands for everything below, not for the folder itself.
        [Segment::AnyFolders] => !names.is_empty(),
        [Segment::AnyFolders, rest @ ..] => (0..=names.len()).any(|skipped| covers(rest, &names[skipped..], folder)),
        [segment, rest @ ..] => {
            names.split_first().is_some_and(|(name, names)| segment.matches_name(name) && covers(rest, names, folder))
        }
    }
}

fn reaches(segments: &[Segment], names: &[&[u8]], folder: bool) -> bool {
    match (segments, names) {
        ([], _) => folder,
        ([Segment::AnyFolders, ..], _) | (_, []) => true,
        ([segment, rest @ ..], [name, names @ ..]) => segment.matches_name(name) && reaches(rest, names, folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(path.as_bytes())
    }

    #[test]
    fn r11_3_patterns_are_anchored_and_end_at_segments() {
        for (pattern, path, expected) in [
            ("src/", "src/main.rs", true),
            ("src/", "src/a/b.rs", true),
            ("src/", "src", false),
            ("src/", "src-old/a.rs", false),
            ("src/", "lib/src/a.rs", false),
            ("src", "src", true),
            ("src", "src/a", false),
            ("Cargo.toml", "Cargo.toml", true),
            ("Cargo.toml", "a/Cargo.toml", false),
            ("packages/*/src/", "packages/web/src/a.ts", true),
            ("packages/*/src/", "packages/web/test/a.ts", false),
            ("packages/*/src/", "packages/web/deep/src/a.ts", false),
            ("*.md", "README.md", true),
            ("*.md", "docs/a.md", false),
            ("**/*.md", "README.md", true),
            ("**/*.md", "docs/deep/a.md", true),
            ("src/**", "src", false),
            ("src/**", "src/a/b", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("**", "any/thing", true),
            (".env*", ".env.local", true),
            (".env*", "a/.env", false),
            ("a*b*c", "a1b2c", true),
            ("a*bb*b", "abbb", true),
            ("a*bb*bb", "abbb", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(covers(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn r11_3_every_other_character_is_literal() {
        assert!(covers("pages/[id].tsx", "pages/[id].tsx"));
        assert!(!covers("pages/[id].tsx", "pages/i.tsx"));
        assert!(!covers("a?c", "abc"));
        assert!(!covers("{a,b}", "a"));
        assert!(!covers("!src/", "src/a"));
        assert!(covers("a\\b", "a\\b"));
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        for text in ["", "/", "/src/", "a//b", "./a", "a/../b", "//"] {
            assert!(Pattern::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn r11_2_two_stars_do_not_lead_into_a_folder() {
        let names = |pattern: &str, folder: &str| Pattern::parse(pattern).unwrap().names_folder(folder.as_bytes());
        assert!(names("build/keep.txt", "build"));
        assert!(names("build/", "build"));
        assert!(names("build/**", "build"));
        assert!(names("*/keep.txt", "build"));
        assert!(!names("**/keep.txt", "build"));
        assert!(!names("build", "build"));
        let reaches = |pattern: &str, folder: &str| Pattern::parse(pattern).unwrap().reaches_below(folder.as_bytes());
        assert!(reaches("build/a/b", "build/a"));
        assert!(!reaches("build/a/b", "build/c"));
        assert!(!reaches("build/a", "build/a"));
        assert!(reaches("build/**", "build/a/b"));
    }
}
