//! Paths of the work tree and what became of them.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::visible::steers;

/// A path relative to the top of the work tree, `/` between segments, of any bytes.
///
/// In JSON it is a string; one that is not UTF-8 is `{"hex": "…"}`, so that no name is ever changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoPath(Vec<u8>);

impl RepoPath {
    /// Wraps the bytes of a relative path.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path below `top`.
    pub fn below(&self, top: &Path) -> PathBuf {
        top.join(OsStr::from_bytes(&self.0))
    }

    /// As the operating system's text, still relative.
    pub fn to_os_string(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }
}

impl fmt::Display for RepoPath {
    /// For people: what is not UTF-8 and control characters are shown as `\xNN`, what hides or turns text by its
    /// number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                if steers(letter) && !letter.is_control() {
                    write!(f, "⟨{:04x}⟩", u32::from(letter))?;
                } else if letter.is_control() {
                    write!(f, "\\x{:02x}", u32::from(letter))?;
                } else {
                    write!(f, "{letter}")?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl From<&str> for RepoPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Hex { hex: hex(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self(text.into_bytes())),
            Written::Bytes(Hex { hex }) => {
                unhex(&hex).map(Self).ok_or_else(|| D::Error::custom("odd hexadecimal path"))
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Hex {
    hex: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Hex),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// What a path of a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A symbolic link; its content is the target.
    Symlink,
    /// Something that cannot be read as bytes (socket, fifo, device): only its presence is known.
    Special,
}

/// What a path holds: kind, permission bits and the id of its bytes as a git blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Content {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits; 0 for a symbolic link, which has none of its own.
    pub mode: u32,
    /// Object id in hexadecimal; empty for a special file.
    pub id: String,
}

/// One path that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathChange {
    /// The path.
    pub path: RepoPath,
    /// Before; null means that it was not there.
    pub before: Option<Content>,
    /// After; null means that it is gone.
    pub after: Option<Content>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_bytes_survives_json() {
        for bytes in [&b"src/main.rs"[..], b"caf\xc3\xa9", b"bad\xff\x00name", b"{\"hex\":\"00\"}"] {
            let path = RepoPath::new(bytes);
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RepoPath>(&json).unwrap(), path, "{json}");
        }
    }

    #[test]
    fn a_path_is_shown_without_control_characters() {
        assert_eq!(RepoPath::new(&b"a\nb\xff"[..]).to_string(), "a\\x0ab\\xff");
        assert_eq!(RepoPath::from("\u{202e}b").to_string(), "⟨202e⟩b");
    }
}
