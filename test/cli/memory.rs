//! An engine may say as much as it likes: what fia holds of it is bounded (issue of the engines).

use fia::event::LeaseKind;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::program::{self, Finished};
use crate::support::project::Project;

/// Runs a workflow with one heap for all threads: how many there are is by chance, and each holds memory of its own.
fn run(project: &Project, workflow: &str) -> Finished {
    let mut command = project.command(&["run", workflow, "read it", "-q"]);
    program::run(command.env("MALLOC_ARENA_MAX", "1"))
}

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
    let program = project.env().write_program(project.env().home().join("engine"), ENGINE);
    let project = project.config(&format!(
        "defaults: {{ coding_agent: claude, model: m }}\n\
         engines: {{ claude: {{ program: \"{}\", args: [\"{pairs}\", \"{line_bytes}\"] }} }}\n\
         stop: {{ token_budget: 0, phase_token_budget: 0 }}\n",
        program.display()
    ));
    let finished = run(&project, "prompt");
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

/// Phases that one process serves.
const PHASES: usize = 40;

/// Tool results of a turn, and the bytes of each.
const RESULTS: usize = 10;
const RESULT_BYTES: usize = 100_000;

/// Speaks as claude does with `--input-format stream-json`: the same turn for every line that it is told.
const RESIDENT: &str = "#!/bin/sh
while read -r line; do cat \"$HOME/turn.jsonl\"; done
";

/// A turn with a megabyte of tool results.
fn turn() -> String {
    let usage = json!({"input_tokens": 3, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 90, "output_tokens": 5});
    let message = |content: Value| json!({"id": "m", "model": "sonnet", "role": "assistant", "content": [content], "usage": usage});
    let mut lines = vec![json!({"type": "system", "subtype": "init", "session_id": "s", "model": "sonnet"})];
    for call in 0..RESULTS {
        let id = format!("t{call}");
        let told = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make"}});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "x".repeat(RESULT_BYTES)});
        lines.push(json!({"type": "assistant", "message": message(told), "session_id": "s"}));
        lines.push(json!({"type": "user", "message": {"role": "user", "content": [result]}, "session_id": "s"}));
    }
    let report = format!("```json\n{}\n```", json!({"status": "success", "summary": "done"}));
    let text = message(json!({"type": "text", "text": report}));
    lines.push(json!({"type": "assistant", "message": text, "session_id": "s"}));
    lines.push(json!({"type": "result", "subtype": "success", "is_error": false, "result": report, "session_id": "s"}));
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn r7_1_the_memory_of_fia_does_not_grow_with_what_a_resident_says() {
    let project = Project::new();
    let program = project.env().write_program(project.env().home().join("resident"), RESIDENT);
    project.env().write_home("turn.jsonl", &turn());
    let steps =
        |n: usize| format!("      - {{ name: p{n}, agent: builder }}\n      - {{ name: m{n}, check: [memory] }}\n");
    let project = project.config(&format!(
        "defaults: {{ coding_agent: claude, model: sonnet, session: resident, session_rotation_context: 0 }}\n\
         engines: {{ claude: {{ program: {program:?} }} }}\n\
         checks: {{ memory: {{ run: \"grep VmRSS /proc/$PPID/status >> $HOME/memory\" }} }}\n\
         workflows:\n  long:\n    steps:\n{}",
        (0..PHASES).map(steps).collect::<String>()
    ));
    let finished = run(&project, "long");
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let log = project.log();
    let leases: Vec<LeaseKind> = log.starts().iter().map(|(_, start)| start.lease).collect();
    assert_eq!((leases[0], leases[1..].iter().all(|lease| *lease == LeaseKind::Warm)), (LeaseKind::Cold, true));
    let memory = std::fs::read_to_string(project.env().home().join("memory")).unwrap();
    let kib = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    let samples: Vec<u64> = memory.lines().map(kib).collect();
    assert_eq!(samples.len(), PHASES);
    // Thirty megabytes went through between the two.
    let (early, late) = (samples[PHASES / 4 - 1], samples[PHASES - 1]);
    assert!(late < early + 2048, "{samples:?}");
}
