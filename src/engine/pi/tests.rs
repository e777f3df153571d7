use super::*;
use crate::engine::{SessionChoice, example_launch, shown};
use pretty_assertions::assert_eq;

#[test]
fn a_turn_names_the_session_file_fresh_or_not() {
    let mut launch = example_launch();
    launch.model = "openai-codex/gpt-5.6/x".to_owned();
    launch.extensions = vec!["prune.ts".to_owned()];
    let line = "PI_SKIP_VERSION_CHECK=1 PI_TELEMETRY=0 pi -p --mode json \
                --session /repo/.fia/runs/R/agents/builder/pi_session.jsonl --provider openai-codex --model gpt-5.6/x \
                --thinking high --tools read,grep,find,ls,bash,edit,write -e prune.ts \
                --append-system-prompt /repo/.fia/runs/R/agents/builder/system.md";
    assert_eq!(shown(&Pi.launch(&launch).unwrap()), line);
    launch.session = SessionChoice::Resume("S".into());
    assert_eq!(shown(&Pi.launch(&launch).unwrap()), line);
}

#[test]
fn a_resident_without_model_or_tools_leaves_the_choice_to_pi() {
    let mut launch = example_launch();
    launch.model = String::new();
    launch.level = None;
    launch.tools = Vec::new();
    launch.system = String::new();
    launch.process = ProcessKind::Resident;
    assert_eq!(
        shown(&Pi.launch(&launch).unwrap()),
        "PI_SKIP_VERSION_CHECK=1 PI_TELEMETRY=0 pi --mode rpc \
         --session /repo/.fia/runs/R/agents/builder/pi_session.jsonl --no-tools"
    );
    launch.model = "gpt".to_owned();
    assert!(shown(&Pi.launch(&launch).unwrap()).contains("--model gpt --no-tools"));
}

#[test]
fn what_pi_cannot_do_is_refused_with_what_to_change() {
    let gateway = Launch { base_url: Some("http://127.0.0.1:1".to_owned()), ..example_launch() };
    assert_eq!(
        Pi.launch(&gateway).unwrap_err(),
        EngineError {
            engine: EngineName::Pi,
            problem: "no flag or variable points it at another provider".to_owned(),
            hint: "run this agent without the gateway".to_owned(),
        }
    );
    assert!(Pi.launch(&Launch { max_turns: Some(5), ..example_launch() }).is_err());
}

#[test]
fn a_resident_prompt_asks_for_the_state_first() {
    assert_eq!(
        String::from_utf8(Pi.prompt("go\non", ProcessKind::Resident)).unwrap(),
        "{\"id\":\"fia-state\",\"type\":\"get_state\"}\n\
         {\"id\":\"fia-prompt\",\"type\":\"prompt\",\"message\":\"go\\non\"}\n"
    );
    assert_eq!(Pi.prompt("go\non", ProcessKind::OneShot), b"go\non");
}
