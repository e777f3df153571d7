//! What people type by mistake: what fia makes of it, and what it says instead of guessing.

use pretty_assertions::assert_eq;

use crate::support::project::Project;

#[test]
fn an_option_between_words_of_a_text_is_refused() {
    let project = Project::new();
    let refused: [(&[&str], &str); 4] = [
        (&["run", "build", "add", "a", "--json", "flag"], "`--json` stands between words of the prompt"),
        (&["run", "build", "fix", "the", "-q", "flag", "--use", "scripted"], "`--quiet` stands between"),
        (&["message", "use", "--from", "me", "port", "8080"], "`--from` stands between words of the text"),
        (&["ask", "@builder", "why", "--run", "x", "this"], "`--run` stands between words of the text"),
    ];
    for (args, told) in refused {
        let finished = project.fia(args);
        assert_eq!(finished.end(), "exit 2", "{finished}");
        assert!(finished.stderr.contains(told) && finished.stderr.contains("in quotes"), "{finished}");
    }
    assert!(project.runs().is_empty());
}

#[test]
fn options_before_and_behind_the_words_of_a_prompt_are_options() {
    let project = Project::new();
    let asked: [&[&str]; 4] = [
        &["run", "-q", "build", "--json", "add", "a", "flag"],
        &["run", "build", "add", "a", "flag", "-q", "--json"],
        &["run", "build", "--json", "add a --json flag"],
        &["run", "-q", "--json", "build", "add", "--", "a", "--json", "flag"],
    ];
    for args in asked {
        assert_eq!(project.fia(args).end(), "exit 0");
    }
    let listed = project.json(&["runs", "--json"]);
    let prompts: Vec<&str> =
        listed["runs"].as_array().unwrap().iter().filter_map(|run| run["prompt"].as_str()).collect();
    assert_eq!(prompts.iter().filter(|prompt| **prompt == "add a flag").count(), 2, "{prompts:?}");
    assert_eq!(prompts.iter().filter(|prompt| **prompt == "add a --json flag").count(), 2, "{prompts:?}");
}

#[test]
fn words_of_other_tools_and_names_of_workflows_lead_to_the_command() {
    let project = Project::new().with("workflows: { mine: { steps: [{ agent: scout }] } }\n");
    for (word, meant) in [
        ("status", "tip: `fia show` does that"),
        ("list", "tip: `fia runs` does that"),
        ("log", "tip: `fia events` does that"),
        ("logs", "tip: `fia events` does that"),
        ("start", "tip: `fia run WORKFLOW \"what to do\"` does that"),
        ("build_test", "tip: `fia run build_test \"what to do\"` does that"),
        ("mine", "tip: `fia run mine \"what to do\"` does that"),
        ("shwo", "tip: a similar subcommand exists: 'show'"),
    ] {
        let finished = project.fia(&[word]);
        assert_eq!(finished.end(), "exit 2", "{finished}");
        assert!(finished.stderr.contains(meant), "{word}: {finished}");
        assert_eq!(finished.stderr.matches("tip: ").count(), 1, "{finished}");
    }
}

#[test]
fn a_name_that_is_nearly_an_agents_is_told_and_the_message_is_sent() {
    let project = Project::new();
    project.run("build");
    let sent =
        project.fia(&["message", "--run", &project.runs()[0], "@bulder use port 8080, not @Override or me@x.yz"]);
    assert_eq!(sent.end(), "exit 0", "{sent}");
    assert!(
        sent.stderr.starts_with("warning: no agent of this run is called `bulder`; did you mean `builder`?\n"),
        "{sent}"
    );
    assert_eq!(sent.stderr.matches("warning").count(), 1, "{sent}");
    assert!(project.fia(&["channel"]).stdout.contains("@bulder use port 8080"));
}
