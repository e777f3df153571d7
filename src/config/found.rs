//! Checks that a repository suggests by its manifests, for names that the config leaves open.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// A check and the manifest that suggests it.
pub(crate) type Found = (&'static str, String, &'static str);

/// The checks `test` and `lint` of the first manifest at `top` that suggests each.
pub(crate) fn checks(top: &Path) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let manifests = [cargo(top), node(top), python(top), go(top)];
    for check in manifests.into_iter().flatten() {
        if !found.iter().any(|(name, ..)| *name == check.0) {
            found.push(check);
        }
    }
    found
}

fn cargo(top: &Path) -> Vec<Found> {
    if !top.join("Cargo.toml").is_file() {
        return Vec::new();
    }
    let lint = "cargo clippy --all-targets -- -D warnings";
    vec![("test", "cargo test".to_owned(), "Cargo.toml"), ("lint", lint.to_owned(), "Cargo.toml")]
}

fn node(top: &Path) -> Vec<Found> {
    let manifest = fs::read(top.join("package.json")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let manifest: Value = manifest.unwrap_or_default();
    let runner = match () {
        () if top.join("pnpm-lock.yaml").is_file() => "pnpm",
        () if top.join("yarn.lock").is_file() => "yarn",
        () => "npm",
    };
    ["test", "lint"]
        .into_iter()
        .filter(|name| {
            let script = manifest.pointer(&format!("/scripts/{name}")).and_then(Value::as_str);
            // `npm init` writes a test that only says that there is none.
            script.is_some_and(|script| !script.contains("no test specified"))
        })
        .map(|name| (name, format!("{runner} run {name}"), "package.json"))
        .collect()
}

fn python(top: &Path) -> Vec<Found> {
    let Ok(manifest) = fs::read_to_string(top.join("pyproject.toml")) else { return Vec::new() };
    let mut found = vec![("test", "python -m pytest".to_owned(), "pyproject.toml")];
    if manifest.lines().any(|line| line.trim_start().starts_with("[tool.ruff")) {
        found.push(("lint", "ruff check .".to_owned(), "pyproject.toml"));
    }
    found
}

fn go(top: &Path) -> Vec<Found> {
    if !top.join("go.mod").is_file() {
        return Vec::new();
    }
    vec![("test", "go test ./...".to_owned(), "go.mod"), ("lint", "go vet ./...".to_owned(), "go.mod")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let top = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(top.path().join(name), text).unwrap();
        }
        checks(top.path()).into_iter().map(|(name, run, file)| format!("{name}: {run} ({file})")).collect()
    }

    #[test]
    fn manifests_suggest_a_test_and_a_lint() {
        assert_eq!(
            found(&[("Cargo.toml", "")]),
            ["test: cargo test (Cargo.toml)", "lint: cargo clippy --all-targets -- -D warnings (Cargo.toml)"]
        );
        assert_eq!(
            found(&[("package.json", r#"{"scripts": {"test": "jest"}}"#), ("yarn.lock", "")]),
            ["test: yarn run test (package.json)"]
        );
        assert_eq!(found(&[("pyproject.toml", "[tool.ruff.lint]\n")]).len(), 2);
        assert_eq!(found(&[("go.mod", "module x\n")]).len(), 2);
    }

    #[test]
    fn the_first_manifest_that_suggests_a_check_stands() {
        let both = [("package.json", r#"{"scripts": {"lint": "eslint"}}"#), ("go.mod", "")];
        assert_eq!(found(&both), ["lint: npm run lint (package.json)", "test: go test ./... (go.mod)"]);
    }

    #[test]
    fn nothing_is_suggested_by_nothing_or_by_placeholders() {
        assert!(found(&[]).is_empty());
        assert!(found(&[("package.json", "{")]).is_empty());
        let placeholder = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert!(found(&[("package.json", placeholder)]).is_empty());
    }
}
