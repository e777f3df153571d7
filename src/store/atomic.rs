//! Files that are replaced whole: temporary file in the same directory, rename.
//!
//! Whoever reads sees the old content or the new one, also after a crash at any moment.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::solid;

/// Whether new content must survive a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced before the rename: for files that are read back.
    Synced,
    /// Left to the system: for projections, which the log can make anew.
    Unsynced,
}

/// Replaces the content of a file, or creates it.
///
/// # Errors
///
/// When the temporary file cannot be written or renamed; the old content stays then.
pub fn replace(path: &Path, content: &[u8], durability: Durability) -> Result<(), StoreError> {
    let wrap = |source| StoreError::Io { action: "replace", path: path.to_owned(), source };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(wrap(io::ErrorKind::InvalidInput.into()));
    };
    solid::folders(dir).map_err(wrap)?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    // Made with mode 0600, and removed again if anything below fails.
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(".tmp").tempfile_in(dir).map_err(wrap)?;
    file.write_all(content).map_err(wrap)?;
    if durability == Durability::Synced {
        file.as_file().sync_data().map_err(wrap)?;
    }
    crate::fault::point("rename: before");
    file.persist(path).map_err(|error| wrap(error.error))?;
    crate::fault::point("rename: after");
    Ok(())
}

/// Replaces the content of a file by a value as indented JSON.
///
/// # Errors
///
/// As [`replace`], and when the value has no JSON form.
pub fn replace_json(path: &Path, value: &impl Serialize, durability: Durability) -> Result<(), StoreError> {
    replace(path, &json(path, value)?, durability)
}

/// The content that [`replace_json`] writes.
///
/// # Errors
///
/// When the value has no JSON form.
pub fn json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let damaged = |source| StoreError::Damaged { path: path.to_owned(), source };
    let mut content = serde_json::to_vec_pretty(value).map_err(damaged)?;
    content.push(b'\n');
    Ok(content)
}

/// Reads such a file; `None` when it is not there.
///
/// # Errors
///
/// When it cannot be read or holds something else.
pub fn load_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("read", path)(error)),
    };
    let value = serde_json::from_slice(&content);
    value.map(Some).map_err(|source| StoreError::Damaged { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn r5_2_content_is_replaced_whole_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        assert_eq!(load_json::<BTreeMap<String, u32>>(&path).unwrap(), None);
        for (durability, number) in [(Durability::Unsynced, 1), (Durability::Synced, 2)] {
            let value = BTreeMap::from([("a".to_owned(), number)]);
            replace_json(&path, &value, durability).unwrap();
            assert_eq!(load_json(&path).unwrap(), Some(value));
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"a\": 2\n}\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_rename_that_fails_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        fs::create_dir(&path).unwrap();
        let error = replace(&path, b"x", Durability::Unsynced).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot replace `{}`", path.display()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_projection_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        fs::write(&path, "{\"a\":").unwrap();
        let error = load_json::<BTreeMap<String, u32>>(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` is damaged", path.display()));
    }
}
