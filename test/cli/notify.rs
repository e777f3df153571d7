//! Webhooks of `notify`, and completions.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::support::program::Running;
use crate::support::project::Project;

/// A receiver on loopback: every body that was posted to it, answered with `status`.
fn receiver(status: &'static str) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook/secret-path", listener.local_addr().unwrap());
    let (bodies, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let body = loop {
                let mut chunk = [0_u8; 4096];
                let read = stream.read(&mut chunk).unwrap();
                request.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .lines()
                    .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                if body.len() >= length.unwrap().parse().unwrap() {
                    break body.to_owned();
                }
            };
            stream
                .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes())
                .unwrap();
            if bodies.send(serde_json::from_str(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, received)
}

fn notifying(address: &str) -> Project {
    let notify = format!(
        "notify: {{ enabled: true, events: [run_end, approval], targets: [{{ kind: webhook, url: \"{address}\" }}] }}\n\
         workflows: {{ ask: {{ steps: [{{ name: look, approve: {{}} }}] }} }}\n"
    );
    Project::new().with(&notify)
}

#[test]
fn a_webhook_is_told_of_what_the_configuration_names_and_of_nothing_else() {
    let (address, received) = receiver("200 OK");
    let project = notifying(&address);
    let finished = project.fia(&["run", "ask", "go on?"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let told: Vec<Value> = (0..2).map(|_| received.recv_timeout(Duration::from_secs(30)).unwrap()).collect();
    let events: Vec<_> = told.iter().map(|message| message["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["approval", "run_end"]);
    assert_eq!(told[1]["outcome"], "stopped_by_request");
    let run = project.runs().remove(0);
    assert_eq!(told[0]["run"], run.as_str());
    assert!(told[0]["text"].as_str().unwrap().ends_with(&format!("fia approve {run}")), "{told:?}");
    assert!(received.try_recv().is_err());
}

#[test]
fn a_gate_is_told_when_it_blocks_and_not_when_a_correction_passes_it() {
    let (address, received) = receiver("200 OK");
    let claims = |file: &str| format!("{{ answer: {{ status: success, summary: x, changed_files: [{file}] }} }}");
    let (wrong, right) = (claims("nowhere"), "{ answer: { status: success, summary: x, changed_files: [] } }");
    let project = Project::new()
        .with(&format!(
            "notify: {{ enabled: true, events: [gate_block, run_end], targets: [{{ kind: webhook, url: \"{address}\" }}] }}\n\
             agents: [{{ name: builder, writes: [src/] }}]\n\
             workflows:\n  gated:\n    steps:\n      - {{ name: first, agent: builder, output: build, gates: [diff_matches_claims] }}\n\
             \x20     - {{ name: lane, agent: builder, output: build }}\n\
             \x20     - {{ name: last, agent: builder, output: build, gates: [diff_matches_claims] }}\n"
        ))
        .script(&format!(
            "phases:\n  first: [{wrong}, {right}]\n  lane: [{{ do: [{{ write: {{ other: x }} }}] }}]\n  lane@2: [{{}}]\n  last: [{wrong}, {wrong}]\n"
        ))
        .committed();
    let finished = project.fia(&["run", "gated", "x", "-q"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let log = project.log();
    assert_eq!(log.story(&["gate_fail", "permission_retry"]).len(), 4, "{finished}");
    let told: Vec<Value> = (0..2).map(|_| received.recv_timeout(Duration::from_secs(30)).unwrap()).collect();
    let events: Vec<_> = told.iter().map(|message| (&message["event"], &message["phase"])).collect();
    let (block, end) = (Value::from("gate_block"), Value::from("run_end"));
    assert_eq!(events, [(&block, &Value::from("03_last")), (&end, &Value::Null)]);
    assert!(told[0]["text"].as_str().unwrap().contains("diff_matches_claims"), "{told:?}");
    assert!(received.try_recv().is_err());
}

#[test]
fn a_webhook_that_fails_never_fails_a_run_and_its_address_is_not_shown() {
    let (address, _received) = receiver("500 Internal Server Error");
    let project = notifying(&address);
    let finished = project.fia(&["run", "prompt", "do it"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(finished.stderr.contains("a webhook of `notify` was not told: it answered 500"), "{finished}");
    assert!(!finished.stderr.contains("secret-path"), "{finished}");
    // Bound and not listening: nobody else gets the port.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = taken.local_addr().unwrap();
    let finished = notifying(&format!("http://{nobody}/hook/secret-path")).fia(&["run", "prompt", "do it"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(finished.stderr.contains("a webhook of `notify` was not told: "), "{finished}");
    assert!(!finished.stderr.contains("secret-path"), "{finished}");
}

/// A receiver that takes a request and never answers it: its address, and a word once it has come.
fn silent() -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (came, coming) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0]).unwrap();
        came.send(()).unwrap();
        // Until the other end is gone.
        let _rest = stream.read_to_end(&mut Vec::new());
    });
    (address, coming)
}

#[test]
fn r10_7_a_signal_ends_the_waiting_for_those_who_are_told_of_the_end() {
    let told = |mut command: Command, coming: &mpsc::Receiver<()>| {
        let running = Running::start(&mut command, "");
        coming.recv_timeout(Duration::from_secs(60)).unwrap();
        running.signal(Signal::INT);
        let finished = running.finish();
        assert_eq!(finished.end(), "exit 0", "{finished}");
        assert!(finished.stderr.contains("goal met") && !finished.stderr.contains("warning: "), "{finished}");
    };
    let (address, coming) = silent();
    let project = notifying(&address);
    told(project.command(&["run", "prompt", "do it"]), &coming);
    let (address, coming) = silent();
    let project = Project::new();
    let mut command = project.command(&["run", "prompt", "do it"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", address);
    told(command, &coming);
}

#[test]
fn completions_know_the_commands() {
    let finished = Project::new().fia(&["completions", "bash"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(finished.stdout.contains("verdict") && finished.stdout.contains("--dry-run"), "{finished}");
}
