//! What works where there is no repository.

use pretty_assertions::assert_eq;

use crate::support::program;
use crate::support::project::Project;

#[test]
fn what_asks_for_no_run_works_outside_of_a_repository() {
    let project = Project::new();
    let outside = |args: &[&str]| program::run(project.command(args).current_dir(project.env().home()));
    let listed = outside(&["workflows"]);
    assert!(listed.status.success() && listed.stdout.contains("\nplan_build_test "), "{listed}");
    assert!(outside(&["workflows", "quick"]).stdout.contains("steps:"));
    let examined = outside(&["doctor"]);
    assert_eq!(examined.end(), "exit 0", "{examined}");
    assert!(examined.stdout.contains("   repository – (none here)\n"), "{examined}");
    let examined = outside(&["doctor", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&examined.stdout).unwrap()["repository"].as_str(), None);
    let checked = outside(&["config", "check"]);
    let warned = "warning: built-in agents[0].coding_agent: claude is not installed, so no agent can work\n\
                  built-in configuration: ok\n";
    assert_eq!((checked.end().as_str(), checked.stdout.as_str()), ("exit 0", warned));
    assert!(outside(&["config", "show"]).stdout.contains("stop.attempt_cap = 3"));
    // A configuration of the user's holds there, too.
    project.env().write_home("fia.config.yaml", "workflows: { mine: { steps: [{ agent: scout }] } }\n");
    assert!(outside(&["workflows"]).stdout.contains("\nmine "));
    let refused = outside(&["run", "build", "x"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(refused.stderr.contains("is not in a git repository"), "{refused}");
}
