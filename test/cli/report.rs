//! `fia report` and `fia models`: figures, pictures, pages, and spans for a collector.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::program::run;
use crate::support::project::Project;

/// How long what was sent may take to be read.
const PATIENCE: Duration = Duration::from_secs(60);

/// The builder fills its session, so that it is given a fresh one before `polish`.
const ROTATING: &str = "
agents: [{ name: builder, session_rotation_context: 60000 }]
models: { rehearsal: { prices: { input: 3, output: 15, cache_read: 0.3, write_5m: 3.75, write_1h: 6 }, as_of: 2026-11-01 } }
workflows:
  twice:
    steps:
      - { name: build, agent: builder, output: build }
      - { name: polish, agent: builder, output: build }
";

const SCRIPT: &str = "
growth: 24
window: 200000
phases:
  build: [{ do: [{ run: \"seq 2600\" }, { read: README }] }]
  polish: [{ do: [{ read: README }, { read: README }] }]
";

fn rotated() -> Project {
    let project = Project::new().with(ROTATING).script(SCRIPT);
    assert_eq!(project.fia(&["run", "twice", "-q", "<b>do</b>", "it"]).end(), "exit 0");
    project
}

#[test]
fn r12_1_a_report_adds_up_and_says_what_a_rotation_saved() {
    let project = rotated();
    let report = project.json(&["report", "--json"]);
    let phases = report["phases"].as_array().unwrap();
    assert_eq!(phases.iter().map(|phase| &phase["phase"]).collect::<Vec<_>>(), ["01_build", "02_polish"]);
    for kind in ["input", "output", "cache_read", "cache_write"] {
        let of = |spend: &Value| spend["tokens"][kind].as_u64().unwrap();
        let sum: u64 = phases.iter().map(|phase| of(&phase["spend"])).sum();
        assert_eq!(sum, of(&report["run"]["spend"]), "{kind}");
    }
    assert_eq!(report["run"]["rotations"], 1);
    let rotation = &report["rotations"][0];
    let figure = |name: &str| f64::from(i32::try_from(rotation[name].as_i64().unwrap()).unwrap());
    let (reads, writes) = (figure("reads_saved"), figure("written_again"));
    assert!((figure("saved_tokens") - (reads - writes)).abs() < 0.5, "{rotation}");
    let dollars = (reads * 0.3 - writes * 3.75) / 1e6;
    assert!((rotation["saved_usd"].as_f64().unwrap() - dollars).abs() < 1e-9, "{rotation} {dollars}");
    let text = project.fia(&["report"]).stdout;
    assert!(text.contains("Rotating before 02 polish saved about"), "{text}");
}

#[test]
fn r12_1_a_picture_and_a_page_are_written_beside_the_report() {
    let project = rotated();
    let finished = project.fia(&["report", "--svg", "context.svg", "--html", "report.html"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let (svg, html) = (project.env().read("context.svg"), project.env().read("report.html"));
    assert!(svg.starts_with("<svg") && svg.contains("ceiling 60k"), "{svg}");
    assert!(html.contains("&lt;b&gt;do&lt;/b&gt; it") && !html.contains("<b>do"), "{html}");
    assert!(html.contains("agents/builder/02_polish.1.1.user.md"), "{html}");
    let elsewhere = project.fia(&["report", "--svg", "no/such/folder.svg"]);
    assert_eq!(elsewhere.end(), "exit 3");
    assert!(elsewhere.stderr.starts_with("error: cannot write `no/such/folder.svg`"), "{elsewhere}");
}

#[test]
fn models_are_listed_over_all_runs() {
    let project = rotated();
    assert_eq!(project.fia(&["run", "twice", "-q", "again"]).end(), "exit 0");
    let models = project.json(&["models", "--json"]);
    let row = &models["models"][0];
    assert_eq!((&row["engine"], &row["model"], &row["runs"]), (&json!("scripted"), &json!("rehearsal"), &json!(2)));
    assert_eq!(models["models"].as_array().unwrap().len(), 1);
}

/// A collector that answers every request and hands on what it got: the head, and the body.
fn collector(status: &'static str) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap();
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                break;
            }
        }
    });
    (address, received)
}

/// The spans of a request as `name < name of parent`, in order.
fn spans(request: &Value) -> Vec<String> {
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let parent = |span: &Value| {
        let of = spans.iter().find(|other| other["spanId"] == span["parentSpanId"]);
        of.map_or_else(String::new, |parent| format!(" < {}", parent["name"].as_str().unwrap()))
    };
    spans.iter().map(|span| format!("{}{}", span["name"].as_str().unwrap(), parent(span))).collect()
}

#[test]
fn a_run_that_ended_and_a_report_send_the_same_spans() {
    let project = Project::new().with(ROTATING).script(SCRIPT);
    let (address, received) = collector("200 OK");
    let named = |args: &[&str]| {
        let mut command = project.command(args);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address).env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b");
        let finished = run(&mut command);
        assert_eq!(finished.end(), "exit 0", "{finished}");
        received.recv_timeout(PATIENCE).expect("spans, as nothing says that they were not sent")
    };
    let (head, request) = named(&["run", "twice", "-q", "do", "it"]);
    assert!(head.starts_with("post /v1/traces http/1.1\r\n") && head.contains("api-key: a b\r\n"), "{head}");
    assert_eq!(
        spans(&request),
        [
            "execute_tool bash < invoke_agent builder",
            "execute_tool read < invoke_agent builder",
            "invoke_agent builder < phase build",
            "phase build < invoke_workflow twice",
            "execute_tool read < invoke_agent builder",
            "execute_tool read < invoke_agent builder",
            "invoke_agent builder < phase polish",
            "phase polish < invoke_workflow twice",
            "invoke_workflow twice",
        ]
    );
    let events = request["resourceSpans"][0]["scopeSpans"][0]["spans"][7]["events"].as_array().unwrap();
    assert_eq!(events[0]["name"], "fia.session_rotation");
    assert_eq!(named(&["report", "--otlp"]).1, request);
}

#[test]
fn a_collector_that_refuses_changes_no_outcome() {
    let project = Project::new().with(ROTATING).script(SCRIPT);
    let (address, _received) = collector("503 Service Unavailable");
    let told = run(project.command(&["run", "twice", "-q", "p"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", &address));
    assert_eq!(told.end(), "exit 0", "{told}");
    assert!(told.stderr.contains("warning: spans were not sent: the collector answered 503"), "{told}");
    let asked = project.fia(&["report", "--otlp"]);
    assert_eq!(asked.end(), "exit 2");
    assert!(asked.stderr.starts_with("error: OTEL_EXPORTER_OTLP_ENDPOINT is not set\n"), "{asked}");
}
