//! `fia init`: a configuration to begin with, in whatever is there already.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use pretty_assertions::assert_eq;

use crate::support::program::{self, Finished};
use crate::support::test_env::TestEnv;

/// The prompts that it writes.
const PROMPTS: [&str; 6] = ["planner", "builder", "scout", "tester", "reviewer", "documenter"];

/// Runs `fia init` where none of the engines is installed but those that are named.
fn init(env: &TestEnv, engines: &[&str]) -> Finished {
    program::run(command(env, engines).args(["init"]))
}

/// fia with a `PATH` of its own: git, and these engines.
fn command(env: &TestEnv, engines: &[&str]) -> std::process::Command {
    let programs = env.home().join("bin");
    let _is_there = fs::create_dir(&programs);
    let git =
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).map(|dir| dir.join("git")).find(|git| git.exists());
    let _is_there = std::os::unix::fs::symlink(git.unwrap(), programs.join("git"));
    for engine in engines {
        let _is_there = std::os::unix::fs::symlink("/bin/true", programs.join(engine));
    }
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    command.env("PATH", programs);
    command
}

/// What git sees as new or changed.
fn changed(env: &TestEnv) -> Vec<String> {
    let status = env.git(&["status", "--porcelain", "--untracked-files=all"]);
    status.lines().map(|line| line[3..].to_owned()).collect()
}

#[test]
fn a_repository_is_given_a_configuration_fitted_to_it_that_changes_nothing_by_itself() {
    let env = TestEnv::new();
    env.write("Cargo.toml", "[package]\nname = 'x'\n");
    let show = ["config", "show", "--json"];
    let shown = |env: &TestEnv| -> serde_json::Value {
        let finished = program::run(command(env, &["claude", "pi"]).args(show));
        let mut shown: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
        for agent in shown["config"]["agents"].as_array_mut().unwrap() {
            agent.as_object_mut().unwrap().remove("prompt_engineering");
        }
        shown["config"].take()
    };
    let before = shown(&env);
    let finished = init(&env, &["claude", "pi"]);
    insta::assert_snapshot!(finished.to_string(), @r#"
    exit 0
    -- stdout
    -- stderr
    wrote prompts/planner/system.md
    wrote prompts/builder/system.md
    wrote prompts/scout/system.md
    wrote prompts/tester/system.md
    wrote prompts/reviewer/system.md
    wrote prompts/documenter/system.md
    wrote fia.config.yaml
    checks: test = cargo test (Cargo.toml), lint = cargo clippy --all-targets -- -D warnings (Cargo.toml)
    engines: claude, pi
    next:  fia doctor    fia run build_test --dry-run "what to do"
    "#);
    assert_eq!(shown(&env), before);
    insta::assert_snapshot!(env.read("fia.config.yaml"), @r##"
    # How fia works in this repository. Everything here may be deleted: what is left out keeps its default.
    # `fia config check` finds mistakes, `fia config show` prints every value in force with its origin, and
    # `fia config schema` prints a JSON Schema for editors.

    defaults:
      coding_agent: claude                 # claude | pi | cursor | scripted; found here: claude, pi
      # model: NAME                        # as the engine calls it; left out, the engine chooses
      # effort: high                       # claude: low | medium | high | xhigh | max; for pi see `thinking`
      # session_rotation_context: 180000   # tokens of live context at which an agent gets a fresh session
      # protected_files: ["fia.config.yaml", ".env*"] # what no agent may write

    agents:
      - name: planner
        prompt_engineering: { system: prompts/planner/system.md }
        writes: []                         # read-only
        tools: [read, grep, bash, write]
      - name: builder
        prompt_engineering: { system: prompts/builder/system.md }
        # writes: ["src/", "test/"]        # left out: anywhere not protected
        # fallbacks: [{ coding_agent: pi }] # who takes over when its engine dies
      - name: scout
        prompt_engineering: { system: prompts/scout/system.md }
        writes: []                         # read-only
        tools: [read, grep, bash, write]
      - name: tester
        prompt_engineering: { system: prompts/tester/system.md }
        # writes: ["src/", "test/"]        # left out: anywhere not protected
      - name: reviewer
        prompt_engineering: { system: prompts/reviewer/system.md }
        writes: []                         # read-only
        tools: [read, grep, bash]
      - name: documenter
        prompt_engineering: { system: prompts/documenter/system.md }
        writes: ["docs/", "**/*.md"]       # and nowhere else

    checks:                                # commands that judge the tree
      test: { run: "cargo test", timeout_minutes: 10 } # found in Cargo.toml
      lint: { run: "cargo clippy --all-targets -- -D warnings", timeout_minutes: 10 } # found in Cargo.toml

    # stop:                                # limits at which a run stops by itself; 0 switches one off
    #   attempt_cap: 3                     # fixes of a repair; 0 = none
    #   no_progress_window: 2              # fixes in a row that may change nothing
    #   budget_minutes: 0                  # minutes of a run, resumes included
    #   breadth_ceiling: 0                 # paths that a run may change
    #   token_budget: 30000000             # tokens of a run, cache reads included
    #   phase_token_budget: 8000000        # tokens of one phase
    #   cost_budget_usd: 0                 # dollars of a run
    #   phase_timeout_minutes: 50          # minutes of one try at a phase
    #   idle_timeout_minutes: 10           # minutes without a line from the engine
    #   limit_wait_minutes: 360            # minutes to wait for a plan limit's reset

    # `fia workflows` lists the workflows that ship, and `fia workflows NAME` prints one to copy from.
    # workflows:                           # your own, or others in place of those that ship
    #   careful:
    #     description: build, test, review, commit
    #     steps:
    #       - { name: build, agent: builder, output: build, gates: [diff_matches_claims] }
    #       - { name: tests, repair: { check: [test], fix: builder } }
    #       - { name: review, agent: reviewer, output: review, when: "tests.passed" }
    #       - { name: save, commit: {}, when: "review.envelope.approved" }
    "##);
    let prompt = env.read("prompts/builder/system.md");
    let section = "\nThis repository
- Read first: `README`.
- Its checks, which the run makes by itself after you: test is `cargo test`, lint is \
                   `cargo clippy --all-targets -- -D warnings`.

Your report\n";
    assert!(prompt.contains(section), "{prompt}");
    let check = program::run(command(&env, &["claude", "pi", "cargo"]).args(["config", "check"]));
    let told = format!("{}: ok\n", env.work().join("fia.config.yaml").canonicalize().unwrap().display());
    assert_eq!((check.end().as_str(), check.stdout), ("exit 0", told));
}

#[test]
fn a_repository_without_manifest_engine_or_commit_is_given_one_too_and_told_what_is_missing() {
    let env = TestEnv::new();
    fs::remove_dir_all(env.work().join(".git")).unwrap();
    env.git(&["init", "--quiet"]);
    insta::assert_snapshot!(init(&env, &[]).stderr, @r#"
    wrote prompts/planner/system.md
    wrote prompts/builder/system.md
    wrote prompts/scout/system.md
    wrote prompts/tester/system.md
    wrote prompts/reviewer/system.md
    wrote prompts/documenter/system.md
    wrote fia.config.yaml
    checks: none found; name the command of your tests under `checks:` in fia.config.yaml
    engines: none found; npm install -g @anthropic-ai/claude-code, then `claude auth login`; or rehearse with --use scripted
    next:  fia doctor    fia run build --dry-run "what to do"
    "#);
    // What it names is accepted.
    let finished = program::run(command(&env, &[]).args(["run", "build", "--dry-run", "what to do"]));
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let rehearsed = program::run(command(&env, &[]).args(["run", "build", "--use", "scripted", "-q", "what to do"]));
    assert_eq!(rehearsed.end(), "exit 0", "{rehearsed}");
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let env = TestEnv::new();
    env.write("prompts/builder/system.md", "Mine.\n");
    let finished = init(&env, &["claude"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(finished.stderr.contains("kept prompts/builder/system.md, which was there\n"), "{finished}");
    assert_eq!(env.read("prompts/builder/system.md"), "Mine.\n");
    let (config, all) = (env.read("fia.config.yaml"), changed(&env));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "--message", "fia"]);
    let again = init(&env, &["claude"]);
    insta::assert_snapshot!(again.to_string(), @r#"
    exit 2
    -- stdout
    -- stderr
    error: `fia.config.yaml` is there, and `fia init` overwrites nothing

    hint: `fia config check` looks at it, `fia config show` prints what is in force
    "#);
    assert_eq!((env.read("fia.config.yaml"), changed(&env)), (config, Vec::new()));
    assert_eq!(all.len(), 1 + PROMPTS.len());
}

#[test]
fn a_link_that_leads_nowhere_is_something_that_is_there() {
    let env = TestEnv::new();
    let elsewhere = env.home().join("elsewhere.yaml");
    std::os::unix::fs::symlink(&elsewhere, env.work().join("fia.config.yaml")).unwrap();
    assert_eq!(init(&env, &[]).end(), "exit 2");
    assert!(!elsewhere.exists());
    assert_eq!(changed(&env), ["fia.config.yaml"]);
}

#[test]
fn a_folder_that_cannot_be_made_is_named_and_no_configuration_is_left() {
    let env = TestEnv::new();
    env.write("prompts", "a plain file\n");
    let finished = init(&env, &[]);
    assert_eq!(finished.end(), "exit 3", "{finished}");
    assert!(finished.stderr.starts_with("error: cannot write `prompts/planner/system.md`\ncaused by: "), "{finished}");
    assert_eq!(changed(&env), ["prompts"]);
}

#[test]
fn it_is_written_at_the_top_and_only_inside_of_a_repository() {
    let env = TestEnv::new();
    env.write("deep/er/file", "");
    let finished = program::run(command(&env, &[]).args(["init"]).current_dir(env.work().join("deep/er")));
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(env.work().join("fia.config.yaml").is_file() && !env.work().join("deep/er/fia.config.yaml").exists());

    let outside = program::run(command(&env, &[]).args(["init"]).current_dir(env.home()));
    assert_eq!(outside.end(), "exit 2", "{outside}");
    assert!(outside.stderr.contains("\nhint: run `git init` here"), "{outside}");
    assert!(!env.home().join("fia.config.yaml").exists());
}

/// The configuration of a wider system, with prompts and a script of its own.
fn imp(env: &TestEnv, config: &str) {
    env.write("imp/fia.config.yaml", config);
    env.write("imp/prompts/builder.md", "You build what the owner asks for.\n");
    env.write("imp/play.yaml", "phases: { build: [{ do: [{ write: { made.txt: 'x' } }], answer: { status: success, changed_files: [made.txt] } }] }\n");
}

#[test]
fn a_configuration_of_the_folder_imp_is_taken_over_and_holds_the_same() {
    let env = Rc::new(TestEnv::new());
    let config = "# ours
qa: { port: 4000 }
defaults: { coding_agent: scripted, session_rotation_context: 7000 }
agents:
  - name: builder   # the only one
    prompt_engineering: { system: prompts/builder.md }
engines: { scripted: { script: \"play.yaml\" } }
";
    imp(&env, config);
    let shown = || -> serde_json::Value {
        let finished = program::run(command(&env, &[]).args(["config", "show", "--json"]));
        serde_json::from_str(&finished.stdout).unwrap()
    };
    let before = shown();
    let finished = init(&env, &[]);
    insta::assert_snapshot!(finished.to_string(), @r#"
    exit 0
    -- stdout
    -- stderr
    wrote fia.config.yaml
    imp/fia.config.yaml is no longer read; the files that it names stay where they are
    next:  fia doctor    fia run build --dry-run "what to do"
    "#);
    let moved = config.replace("prompts/builder.md", "imp/prompts/builder.md").replace("\"play", "\"imp/play");
    assert_eq!(env.read("fia.config.yaml"), format!("# Taken over from imp/fia.config.yaml by `fia init`.\n{moved}"));
    assert_eq!(env.read("imp/fia.config.yaml"), config);
    let mut after = shown();
    assert_eq!(after["origins"]["/defaults/session_rotation_context"], "fia.config.yaml:4:63");
    let prompt = "/agents/0/prompt_engineering/system";
    assert_eq!(after["config"].pointer(prompt).unwrap(), "imp/prompts/builder.md");
    *after["config"].pointer_mut(prompt).unwrap() = "prompts/builder.md".into();
    assert_eq!(after["config"], before["config"]);

    let ran = program::run(command(&env, &[]).args(["run", "build", "-q", "do", "it"]));
    assert_eq!(ran.end(), "exit 0", "{ran}");
    assert_eq!(env.read("made.txt"), "x");
    assert!(!Path::new(&env.work()).join("prompts").exists());
}

#[test]
fn a_configuration_with_mistakes_is_not_taken_over() {
    let env = TestEnv::new();
    imp(&env, "defaults: { coding_agnt: scripted }\n");
    let finished = init(&env, &[]);
    assert_eq!(finished.end(), "exit 2", "{finished}");
    assert!(finished.stderr.contains("in imp/fia.config.yaml\n  1:13 "), "{finished}");
    assert!(finished.stderr.contains("did you mean `coding_agent`?"), "{finished}");
    assert!(!env.work().join("fia.config.yaml").exists());
}
