//! Deterministic checks of an envelope against the tree. A gate that is not built in is a check by its name.

use std::collections::BTreeSet;

use serde_json::Value;

/// Names of the built-in gates.
pub const BUILT_IN: [&str; 4] = ["artifacts_exist", "files_non_empty", "diff_matches_claims", "verdict_consistent"];

/// Bytes of the violations of one gate that are named, as many as an envelope may hold; the rest is counted. A
/// generator that wrote ten thousand files must not fill a prompt and a record with them.
const MAX_VIOLATION_BYTES: usize = super::MAX_ENVELOPE_BYTES;

/// What the gates need to know of the tree, looked up by the caller.
pub trait TreeFacts {
    /// Size in bytes of the file at a path from the top of the work tree; `None` when there is none.
    fn size(&self, path: &str) -> Option<u64>;
    /// Paths that this phase changed.
    fn changed_by_phase(&self) -> BTreeSet<String>;
    /// Paths that the run changed so far, this phase included.
    fn changed_by_run(&self) -> BTreeSet<String>;
}

/// Applies a built-in gate; an empty list means that it passes. `None` when no built-in gate has this name.
pub fn apply(gate: &str, envelope: &Value, tree: &dyn TreeFacts) -> Option<Vec<String>> {
    let violations = match gate {
        "artifacts_exist" => artifacts_exist(envelope, tree),
        "files_non_empty" => files_non_empty(envelope, tree),
        "diff_matches_claims" => diff_matches_claims(envelope, tree),
        "verdict_consistent" => verdict_consistent(envelope),
        _ => return None,
    };
    Some(capped(violations))
}

fn capped(mut violations: Vec<String>) -> Vec<String> {
    let mut room = MAX_VIOLATION_BYTES;
    let fits = |violation: &&String| {
        let left = room.checked_sub(violation.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let named = violations.iter().take_while(fits).count();
    if named < violations.len() {
        let more = violations.len() - named;
        violations.truncate(named);
        violations.push(format!("(+{more} more)"));
    }
    violations
}

fn paths<'a>(envelope: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let listed = envelope.get(field).and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).map(|path| path.strip_prefix("./").unwrap_or(path))
}

fn artifacts_exist(envelope: &Value, tree: &dyn TreeFacts) -> Vec<String> {
    let document = envelope.get("document_path").and_then(Value::as_str);
    paths(envelope, "artifacts")
        .chain(document)
        .filter(|path| tree.size(path).is_none())
        .map(|path| format!("`{path}` is reported as an artifact and does not exist"))
        .collect()
}

fn files_non_empty(envelope: &Value, tree: &dyn TreeFacts) -> Vec<String> {
    paths(envelope, "artifacts")
        .chain(paths(envelope, "changed_files"))
        .chain(envelope.get("document_path").and_then(Value::as_str))
        .filter(|path| tree.size(path) == Some(0))
        .map(|path| format!("`{path}` is empty"))
        .collect()
}

/// Claims may cover what earlier phases of the run changed: one session lists all of its work.
fn diff_matches_claims(envelope: &Value, tree: &dyn TreeFacts) -> Vec<String> {
    let claimed: BTreeSet<String> = paths(envelope, "changed_files").map(str::to_owned).collect();
    let by_run = tree.changed_by_run();
    let mut violations: Vec<String> =
        claimed.difference(&by_run).map(|path| format!("`{path}` is reported as changed and is unchanged")).collect();
    let unclaimed = tree.changed_by_phase();
    violations.extend(
        unclaimed.difference(&claimed).map(|path| format!("`{path}` was changed and is missing in `changed_files`")),
    );
    violations
}

fn verdict_consistent(envelope: &Value) -> Vec<String> {
    let count = |field: &str| envelope.get(field).and_then(Value::as_array).map_or(0, Vec::len);
    let unmet = envelope.get("findings").and_then(Value::as_array).map_or(0, |findings| {
        findings.iter().filter(|finding| finding.get("met").and_then(Value::as_bool) == Some(false)).count()
    });
    let mut violations = Vec::new();
    match envelope.get("approved").and_then(Value::as_bool) {
        Some(true) => {
            if count("blocking") > 0 {
                violations.push("`approved` is true and `blocking` is not empty".to_owned());
            }
            if unmet > 0 {
                violations.push(format!("`approved` is true and {unmet} requirements are not met"));
            }
            if envelope.get("status").and_then(Value::as_str) == Some("fail") {
                violations.push("`approved` is true and `status` is fail".to_owned());
            }
        }
        Some(false) if count("blocking") == 0 && unmet == 0 => {
            violations.push("`approved` is false and neither `blocking` nor an unmet finding says why".to_owned());
        }
        Some(false) | None => {}
    }
    match envelope.get("passed").and_then(Value::as_bool) {
        Some(true) if count("failures") > 0 => {
            violations.push("`passed` is true and `failures` is not empty".to_owned());
        }
        Some(false) if count("failures") == 0 => {
            violations.push("`passed` is false and `failures` names nothing".to_owned());
        }
        Some(_) | None => {}
    }
    violations
}
