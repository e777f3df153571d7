//! Reading an engine's stream: time beside a floor that does the same physical work, and peak memory.
//!
//! One program plays all parts: started with `emit` it is the engine, printing events as claude does;
//! otherwise it runs `fia run` on itself and a floor that reads the same engine, copies its lines to a
//! file, parses each with `serde_json` into the fields that count, and appends a record a model call.
//! All figures come from this run; ratios are what to quote.

#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().position(|arg| arg == "emit") {
        Some(at) => {
            let number = |offset: usize| args.get(at + offset).and_then(|arg| arg.parse().ok()).unwrap_or(0);
            let line_bytes = usize::try_from(number(2)).unwrap_or(0);
            emit(number(1), line_bytes).expect("standard output takes the stream");
        }
        None => compare(),
    }
}

/// Prints `events` events of about 630 bytes, one line of `line_bytes`, and a good end.
fn emit(events: u64, line_bytes: usize) -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let session = "11111111-1111-4111-8111-111111111111";
    writeln!(out, r#"{{"type":"system","subtype":"init","session_id":"{session}","model":"m","tools":[]}}"#)?;
    let filler = "x".repeat(380);
    for number in 0..events / 2 {
        let tokens = 1000 + number;
        writeln!(
            out,
            r#"{{"type":"assistant","message":{{"id":"msg_{number}","type":"message","role":"assistant","model":"m","content":[{{"type":"tool_use","id":"toolu_{number}","name":"Bash","input":{{"command":"{filler}"}}}}],"usage":{{"input_tokens":3,"cache_creation_input_tokens":97,"cache_read_input_tokens":{tokens},"output_tokens":1}}}},"parent_tool_use_id":null,"session_id":"{session}"}}"#
        )?;
        writeln!(
            out,
            r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_{number}","type":"tool_result","content":"{filler}"}}]}},"parent_tool_use_id":null,"session_id":"{session}"}}"#
        )?;
    }
    if line_bytes > 0 {
        out.write_all(br#"{"type":"user","message":{"role":"user","content":""#)?;
        let chunk = vec![b'y'; 1 << 16];
        for _ in 0..line_bytes / chunk.len() {
            out.write_all(&chunk)?;
        }
        out.write_all(b"\"}}\n")?;
    }
    let report = "```json\n{\"status\": \"success\"}\n```";
    let end =
        json!({"type": "result", "subtype": "success", "is_error": false, "session_id": session, "result": report});
    writeln!(out, "{end}")?;
    out.flush()
}

/// What one reading cost.
struct Cost {
    time: Duration,
    /// Highest resident memory seen, in KiB.
    peak: u64,
}

fn compare() {
    println!("{:<34} {:>9} {:>9} {:>7} {:>10}", "stream", "fia", "floor", "ratio", "fia peak");
    let mut peaks = Vec::new();
    for (events, line_bytes, told) in [
        (10_000, 0, "10,000 events, 6 MB"),
        (1_000_000, 0, "1,000,000 events, 630 MB"),
        (0, 50_000_000, "one line of 50 MB"),
        (0, 200_000_000, "one line of 200 MB"),
    ] {
        let fia = fia(events, line_bytes);
        let floor = floor(events, line_bytes);
        let ratio = fia.time.as_secs_f64() / floor.as_secs_f64();
        println!(
            "{told:<34} {:>8.2}s {:>8.2}s {ratio:>6.2}x {:>8.1} MiB",
            fia.time.as_secs_f64(),
            floor.as_secs_f64(),
            mib(fia.peak)
        );
        peaks.push(fia.peak);
    }
    println!("growth of the peak from 10,000 to 1,000,000 events: {:.1} MiB", mib(peaks[1]) - mib(peaks[0]));
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// A repository whose claude is this program.
fn stage(folder: &Path, events: u64, line_bytes: usize) -> PathBuf {
    let top = folder.join("work");
    fs::create_dir_all(&top).expect("a scratch directory");
    let program = std::env::current_exe().expect("the path of this program");
    let config = json!({
        "defaults": {"coding_agent": "claude", "model": "m"},
        "engines": {"claude": {"program": program, "args": ["emit", events.to_string(), line_bytes.to_string()]}},
        "stop": {"token_budget": 0, "phase_token_budget": 0},
    });
    fs::write(top.join("fia.config.yaml"), config.to_string()).expect("a scratch file");
    let made = Command::new("git").args(["init", "-q"]).current_dir(&top).status().expect("git starts");
    assert!(made.success());
    top
}

fn fia(events: u64, line_bytes: usize) -> Cost {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let top = stage(folder.path(), events, line_bytes);
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fia"))
        .args(["run", "prompt", "read it", "-q"])
        .current_dir(&top)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("fia starts");
    let mut peak = 0;
    let status = loop {
        peak = peak.max(high_water(child.id()));
        match child.try_wait().expect("fia can be waited for") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success(), "fia ended with {status}");
    Cost { time: started.elapsed(), peak }
}

/// The highest resident memory of a process so far, in KiB (proc(5)).
fn high_water(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Tokens {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

/// Reads the same engine with nothing but the physical work.
fn floor(events: u64, line_bytes: usize) -> Duration {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe().expect("the path of this program"))
        .args(["emit", &events.to_string(), &line_bytes.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts");
    let mut lines = BufReader::with_capacity(1 << 16, child.stdout.take().expect("a pipe"));
    let mut transcript =
        BufWriter::with_capacity(1 << 16, File::create(folder.path().join("transcript")).expect("a file"));
    let mut log = File::create(folder.path().join("log")).expect("a file");
    let (mut line, mut record) = (Vec::new(), Vec::new());
    while lines.read_until(b'\n', &mut line).expect("the pipe is read") > 0 {
        transcript.write_all(&line).expect("the file takes it");
        let parsed: Option<Line<'_>> = serde_json::from_slice(&line).ok();
        let usage = parsed.filter(|line| line.kind == "assistant").and_then(|line| line.message?.usage);
        if let Some(usage) = usage {
            let context = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens;
            for kind in ["context", "tool_call"] {
                record.clear();
                writeln!(
                    record,
                    r#"{{"seq":1,"ts":"2026-11-30T12:00:00.000Z","run":"r","phase":"01_prompt","type":"{kind}","name":"builder","payload":{{"context_tokens":{context},"window":null,"usage":{{"input":3,"output":1,"cache_read":1,"cache_write":97}}}}}}"#
                )
                .expect("memory takes it");
                log.write_all(&record).expect("the file takes it");
            }
        }
        line.clear();
    }
    transcript.flush().expect("the file takes it");
    log.sync_data().expect("the file is synced");
    assert!(child.wait().expect("this program can be waited for").success());
    started.elapsed()
}
