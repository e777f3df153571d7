//! Files of fia's own, opened for writing so that nothing which lies in their place leads elsewhere.
//!
//! Agents work beside the data directory, and a repository may bring one along. A link there must not make fia
//! write to a file of somebody else's, and a pipe must not make it wait. The data directory itself may be reached
//! by a link of the user's: its path is resolved before anything below it is named.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Folders that are looked at from a file upwards: `runs/ID/agents/NAME` in the data directory is the longest way down.
const FOLDERS: usize = 5;

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is {what}, and fia writes to none", path.display())]
pub(crate) struct InTheWay {
    path: PathBuf,
    what: &'static str,
}

impl InTheWay {
    /// The obstacle that an error is about, if it is about one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// What the reader can do about it.
    pub(crate) fn hint(&self) -> String {
        format!("look where `{0}` came from and remove it (`rm {0}`), then try again", self.path.display())
    }
}

/// Makes sure that a folder, where it is there, and those above it in the data directory are no links.
///
/// # Errors
///
/// With an [`InTheWay`] when one is.
pub(crate) fn folders(folder: &Path) -> io::Result<()> {
    match folder.ancestors().take(FOLDERS).find(|folder| folder.is_symlink()) {
        Some(link) => Err(in_the_way(link, "a link")),
        None => Ok(()),
    }
}

/// Removes whatever has a name: a file, a link, or a folder with all that is in it.
///
/// # Errors
///
/// When nothing has it, or it cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Opens a file as `options` say: a plain one, or a new one where they ask for it, in a folder that is no link.
///
/// # Errors
///
/// With an [`InTheWay`] when something else is in its place, and when the file cannot be opened.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    folders(path.parent().unwrap_or(Path::new("")))?;
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => return Err(in_the_way(path, "a link")),
        Ok(meta) if !meta.is_file() => return Err(in_the_way(path, "no plain file")),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    // Once more in the call itself: the look above is for the words of the error.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(in_the_way(path, "no plain file")) }
}

fn in_the_way(path: &Path, what: &'static str) -> io::Error {
    io::Error::other(InTheWay { path: path.to_owned(), what })
}

/// A path with the links in the part of it that is there resolved.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| {
        let inside = path.strip_prefix(above).ok()?;
        above.canonicalize().ok().map(|above| above.join(inside))
    });
    there.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::os::unix::fs::symlink;

    /// Opens for appending and says what was wrong.
    fn refusal(path: &Path) -> Option<String> {
        open(OpenOptions::new().append(true).create(true), path).err().map(|error| error.to_string())
    }

    #[test]
    fn a_link_a_folder_and_a_pipe_are_refused_by_name_and_a_plain_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "of somebody else").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("new"), at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, what) in
            [("link", "a link"), ("dangling", "a link"), ("folder", "no plain file"), ("socket", "no plain file")]
        {
            let words = format!("`{}` is {what}, and fia writes to none", at(name).display());
            assert_eq!(refusal(&at(name)), Some(words));
        }
        assert_eq!((refusal(&at("victim")), refusal(&at("plain"))), (None, None));
        assert_eq!((fs::read_to_string(at("victim")).unwrap(), at("new").exists()), ("of somebody else".into(), false));
    }

    #[test]
    fn a_folder_that_is_a_link_is_refused_as_far_up_as_a_run_goes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("elsewhere/r/agents/builder")).unwrap();
        fs::create_dir(at("data")).unwrap();
        symlink(at("elsewhere"), at("data/runs")).unwrap();
        let words = Some(format!("`{}` is a link, and fia writes to none", at("data/runs").display()));
        assert_eq!(refusal(&at("data/runs/r/agents/builder/file")), words);
        assert!(!at("elsewhere/r/agents/builder/file").exists());
    }

    #[test]
    fn the_part_of_a_path_that_is_there_is_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir(top.join("disk")).unwrap();
        symlink(top.join("disk"), top.join("link")).unwrap();
        assert_eq!(resolved(&top.join("link/new/data")), top.join("disk/new/data"));
    }
}
