use super::*;
use crate::engine::{example_launch, shown};
use pretty_assertions::assert_eq;

#[test]
fn a_turn_forces_and_resumes() {
    let mut launch = example_launch();
    assert_eq!(
        shown(&Cursor.launch(&launch).unwrap()),
        "cursor-agent -p --output-format stream-json --force --model sonnet"
    );
    launch.program = Some("agent".to_owned());
    launch.model = String::new();
    launch.session = SessionChoice::Resume("C".into());
    assert_eq!(shown(&Cursor.launch(&launch).unwrap()), "agent -p --output-format stream-json --force --resume C");
}

#[test]
fn residents_gateways_and_turn_limits_are_refused() {
    for launch in [
        Launch { process: ProcessKind::Resident, ..example_launch() },
        Launch { base_url: Some("http://127.0.0.1:1".to_owned()), ..example_launch() },
        Launch { max_turns: Some(5), ..example_launch() },
    ] {
        let error = Cursor.launch(&launch).unwrap_err();
        assert_eq!(error.engine, EngineName::Cursor);
        assert!(!error.hint.is_empty());
    }
}
