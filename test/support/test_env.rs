//! A place to test in: a home and a git repository of their own, and an environment with nothing of the caller's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A home, a work tree and a folder for temporary files. All go when it is dropped.
pub(crate) struct TestEnv {
    folder: TempDir,
}

impl TestEnv {
    /// An empty home, and a repository with one commit.
    pub(crate) fn new() -> Self {
        let env = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        for folder in [env.home(), env.work(), env.path("tmp")] {
            std::fs::create_dir(folder).expect("a folder in an empty one");
        }
        env.write("README", "a repository for tests\n");
        env.git(&["init", "--quiet", "--initial-branch", "main"]);
        env.git(&["config", "user.name", "Test"]);
        env.git(&["config", "user.email", "test@example.invalid"]);
        env.git(&["add", "."]);
        env.git(&["commit", "--quiet", "--message", "start"]);
        env
    }

    /// The home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The work tree, which is where commands run.
    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// A command in the work tree. Of the caller's environment it has `PATH` alone.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TMPDIR", self.path("tmp"))
            .env("LANG", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.work());
        command
    }

    /// Runs git in the work tree and gives what it prints.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.command("git").args(args).output().expect("git starts");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("git prints UTF-8")
    }

    /// Writes a file of the work tree.
    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.work().join(path), text);
    }

    /// Writes a file of the home.
    pub(crate) fn write_home(&self, path: &str, text: &str) {
        write(&self.home().join(path), text);
    }

    /// Writes a program of the work tree, or at an absolute path, and gives its place.
    ///
    /// A process of its own does it: what another test starts in that moment would inherit the open file, and a program
    /// that is open for writing cannot be run.
    pub(crate) fn write_program(&self, path: impl AsRef<Path>, text: &str) -> PathBuf {
        let place = self.work().join(path);
        std::fs::create_dir_all(place.parent().expect("a path in a folder")).expect("a folder");
        let script = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let mut command = self.command("sh");
        let written = command.args(["-c", script, "sh"]).arg(&place).arg(text).status().expect("sh starts");
        assert!(written.success(), "{}", place.display());
        place
    }

    /// Reads a file of the work tree.
    pub(crate) fn read(&self, path: &str) -> String {
        let path = self.work().join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a path in a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}
