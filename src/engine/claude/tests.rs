use super::*;
use crate::engine::{SESSION_MARKERS, example_launch, shown};
use pretty_assertions::assert_eq;

const ENV: &str = "API_TIMEOUT_MS=300000 CLAUDE_CODE_ATTRIBUTION_HEADER=0 CLAUDE_CODE_DISABLE_AUTO_MEMORY=1 \
                   CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
                   CLAUDE_CODE_MAX_RETRIES=2 DISABLE_AUTOUPDATER=1 ";

#[test]
fn a_fresh_one_shot_turn_names_everything_but_the_prompt() {
    let spec = Claude.launch(&example_launch()).unwrap();
    let tools = "Read,Grep,Glob,Bash,Edit,Write";
    assert_eq!(
        shown(&spec),
        format!(
            "{ENV}claude -p --output-format stream-json --verbose --model sonnet --effort high \
             --permission-mode acceptEdits --tools {tools} --allowedTools {tools} \
             --append-system-prompt-file /repo/.fia/runs/R/agents/builder/system.md"
        )
    );
    assert_eq!(spec.cwd, std::path::Path::new("/repo"));
}

#[test]
fn a_resumed_resident_of_a_work_tree_elsewhere_gets_its_flags() {
    let mut launch = example_launch();
    launch.program = Some("node".to_owned());
    launch.args = vec!["cli.js".to_owned()];
    launch.cwd = "/repo/.fia/worktrees/R".into();
    launch.model = String::new();
    launch.level = None;
    launch.tools = vec!["read".to_owned(), "WebFetch".to_owned()];
    launch.permission_mode = Some("plan".to_owned());
    launch.system = String::new();
    launch.session = SessionChoice::Resume("S-1".into());
    launch.process = ProcessKind::Resident;
    launch.max_turns = Some(7);
    launch.base_url = Some("http://127.0.0.1:9/t".to_owned());
    launch.env = [("API_TIMEOUT_MS".to_owned(), Some("1".to_owned())), ("HOME".to_owned(), None)].into();
    let spec = Claude.launch(&launch).unwrap();
    assert_eq!(
        shown(&spec),
        format!(
            "ANTHROPIC_BASE_URL=http://127.0.0.1:9/t {}node cli.js -p --input-format stream-json --output-format stream-json \
             --verbose --permission-mode plan --tools Read,WebFetch --allowedTools Read,WebFetch \
             --add-dir /repo/.fia/runs/R --max-turns 7 --resume S-1",
            ENV.replace("300000", "1")
        )
    );
    assert_eq!(spec.env.get(std::ffi::OsStr::new("HOME")), Some(&None));
}

#[test]
fn an_agent_without_tools_has_none() {
    let launch = Launch { tools: Vec::new(), ..example_launch() };
    let spec = Claude.launch(&launch).unwrap();
    let at = spec.args.iter().position(|arg| arg == "--tools").unwrap();
    assert_eq!(spec.args[at + 1], "");
    assert!(!spec.args.iter().any(|arg| arg == "--allowedTools"));
}

#[test]
fn r10_8_session_markers_of_every_engine_are_removed() {
    let spec = Claude.launch(&example_launch()).unwrap();
    for marker in SESSION_MARKERS {
        assert_eq!(spec.env.get(std::ffi::OsStr::new(marker)), Some(&None), "{marker}");
    }
}

#[test]
fn prompts_are_bytes_or_one_line_of_json() {
    let text = "a \"b\"\nc";
    assert_eq!(Claude.prompt(text, ProcessKind::OneShot), text.as_bytes());
    assert_eq!(
        String::from_utf8(Claude.prompt(text, ProcessKind::Resident)).unwrap(),
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a \\\"b\\\"\\nc\"}]}}\n"
    );
    assert_eq!(
        String::from_utf8(Claude.interrupt().unwrap()).unwrap(),
        "{\"type\":\"control_request\",\"request_id\":\"fia-interrupt\",\"request\":{\"subtype\":\"interrupt\"}}\n"
    );
}
