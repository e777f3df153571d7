//! Files that fia wrote and will use again, put back when somebody else changed them (SPEC 11.3).

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::atomic::{self, Durability};
use super::{StoreError, create_dir};

/// What stands in such files, whole: they are few, and small beside a model's answer.
#[derive(Debug, Default)]
pub struct Kept {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Kept {
    /// Remembers what fia has written to a file, in place of what it wrote there before.
    pub fn learn(&mut self, path: PathBuf, content: Vec<u8>) {
        self.files.insert(path, content);
    }

    /// Remembers a file as it is now; nothing when it is not there.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be read.
    pub fn learn_as_it_is(&mut self, path: PathBuf) -> Result<(), StoreError> {
        match fs::read(&path) {
            Ok(content) => self.learn(path, content),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        }
        Ok(())
    }

    /// Forgets files that will not be used again.
    pub fn forget(&mut self, is_over: impl Fn(&Path) -> bool) {
        self.files.retain(|path, _| !is_over(path));
    }

    /// Puts back what differs, and says which files did.
    ///
    /// # Errors
    ///
    /// When one cannot be written.
    pub fn put_back(&self) -> Result<Vec<&Path>, StoreError> {
        let mut changed = Vec::new();
        for (path, content) in &self.files {
            let kind = fs::symlink_metadata(path).map(|meta| meta.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_file) && fs::read(path).is_ok_and(|now| now == *content) {
                continue;
            }
            if kind.is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(path).map_err(StoreError::io("remove", path))?;
            }
            create_dir(path.parent().unwrap_or(Path::new(".")))?;
            atomic::replace(path, content, Durability::Unsynced)?;
            changed.push(path.as_path());
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::os::unix::fs::symlink;

    #[test]
    fn r11_3_files_that_were_changed_removed_or_replaced_are_put_back_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Kept::default();
        let paths = ["a/same", "a/edited", "a/gone", "b/removed", "link", "folder"].map(|name| dir.path().join(name));
        for path in &paths {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "as written").unwrap();
            kept.learn(path.clone(), b"as written".to_vec());
        }
        assert_eq!(kept.put_back().unwrap(), [] as [&Path; 0]);
        let [_, edited, gone, _, link, folder] = &paths;
        fs::write(edited, "otherwise").unwrap();
        for path in [gone, link, folder] {
            fs::remove_file(path).unwrap();
        }
        fs::remove_dir_all(dir.path().join("b")).unwrap();
        symlink(&paths[0], link).unwrap();
        fs::create_dir(folder).unwrap();
        let mut changed: Vec<&Path> = paths[1..].iter().map(PathBuf::as_path).collect();
        changed.sort();
        assert_eq!(kept.put_back().unwrap(), changed);
        assert!(paths.iter().all(|path| fs::read(path).unwrap() == b"as written"));
        assert!(!fs::symlink_metadata(link).unwrap().is_symlink());
        kept.forget(|path| path == edited);
        fs::write(edited, "otherwise").unwrap();
        assert_eq!(kept.put_back().unwrap(), [] as [&Path; 0]);
    }
}
