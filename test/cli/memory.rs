//! An engine may say as much as it likes: what fia holds of it is bounded (issue of the engines).

use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;

use crate::support::project::Project;

/// An engine that says `$1` pairs of events and one line of `$2` bytes, and writes down the most memory that fia held.
const ENGINE: &str = r#"#!/bin/sh
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s","model":"m","tools":[]}'
awk -v pairs="$1" 'BEGIN {
    while (length(filler) < 380) filler = filler "x"
    for (n = 0; n < pairs; n++) {
        printf "{\"type\":\"assistant\",\"message\":{\"id\":\"m%d\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t%d\",\"name\":\"Bash\",\"input\":{\"command\":\"%s\"}}],\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":97,\"cache_read_input_tokens\":%d,\"output_tokens\":1}},\"session_id\":\"s\"}\n", n, n, filler, 1000 + n
        printf "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"t%d\",\"type\":\"tool_result\",\"content\":\"%s\"}]},\"session_id\":\"s\"}\n", n, filler
    }
}'
if [ "$2" -gt 0 ]; then
    printf '{"type":"user","message":{"role":"user","content":"'
    head -c "$2" /dev/zero | tr '\0' y
    echo '"}}'
fi
grep VmHWM "/proc/$PPID/status" > "$HOME/memory"
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"{\"status\": \"success\"}"}'
"#;

/// The most memory in KiB that fia held, and the tool calls in the log.
fn held(pairs: usize, line_bytes: usize) -> (u64, usize) {
    let project = Project::new();
    let program = project.env().home().join("engine");
    project.env().write_home("engine", ENGINE);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let project = project.config(&format!(
        "defaults: {{ coding_agent: claude, model: m }}\n\
         engines: {{ claude: {{ program: \"{}\", args: [\"{pairs}\", \"{line_bytes}\"] }} }}\n\
         stop: {{ token_budget: 0, phase_token_budget: 0 }}\n",
        program.display()
    ));
    let finished = project.fia(&["run", "prompt", "read it", "-q"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let memory = std::fs::read_to_string(project.env().home().join("memory")).unwrap();
    let log = std::fs::read_to_string(project.run_dir().join("events.jsonl")).unwrap();
    let calls = log.lines().filter(|line| line.contains("\"type\":\"tool_call\"")).count();
    (memory.split_whitespace().nth(1).unwrap().parse().unwrap(), calls)
}

#[test]
fn the_memory_of_fia_grows_neither_with_the_events_of_a_stream_nor_with_the_length_of_a_line() {
    let (few, calls) = held(1_000, 0);
    assert_eq!(calls, 1_000);
    let (many, calls) = held(30_000, 0);
    assert_eq!(calls, 30_000);
    assert!(many < few + 2048, "{few} KiB after 2,000 events, {many} KiB after 60,000");
    let (long, _) = held(1, 20_000_000);
    let (longer, _) = held(1, 200_000_000);
    assert!(longer < long + 2048, "{long} KiB for a line of 20 MB, {longer} KiB for one of 200 MB");
    assert!(longer < few + 10 * 1024, "{few} KiB without a long line, {longer} KiB with one");
}
