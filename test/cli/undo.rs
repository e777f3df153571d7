//! `fia undo`.

use pretty_assertions::assert_eq;

use super::resume::judged;

#[test]
fn an_undo_is_shown_first_and_spares_later_edits() {
    let project = judged();
    project.run("judged");
    let preview = project.fia(&["undo"]);
    assert_eq!(preview.end(), "exit 0");
    assert!(preview.stdout.contains("  is removed  src/new\n"), "{preview}");
    assert!(preview.stdout.contains("--apply"), "{preview}");
    assert_eq!(project.env().read("src/new"), "made");
    project.env().write("src/new", "edited");
    assert!(project.fia(&["undo", "--apply"]).stdout.contains("  left alone  src/new\n"));
    assert_eq!(project.env().read("src/new"), "edited");
    project.env().write("src/new", "made");
    assert_eq!(project.fia(&["undo", "--apply"]).end(), "exit 0");
    assert!(!project.env().work().join("src").exists());
    let none = project.fia(&["undo", "--rescue", "1"]);
    assert!(none.end() == "exit 2" && none.stderr.contains("nothing was rolled back"), "{none}");
}
