//! Prints how long the reading commands take on a log of 1,000,000 records beside `tail` and `grep`, and beside
//! themselves on one of 10,000, in one run.
//!
//! `cargo bench --bench views`; `cargo bench --bench views -- 100000` for another size. Memory is the peak that Linux
//! counts for the process; elsewhere it is not shown.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const RUN: &str = "20261130-120000-aaaa";
const SMALL: u64 = 10_000;
const LARGE: u64 = 1_000_000;
const PHASES: u64 = 100;

/// Times are the least of so many tries: what the machine's other work adds is not ours.
const TRIES: usize = 7;

fn main() -> Outcome<()> {
    let large = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(LARGE);
    let mut out = std::io::stdout();
    let folder = tempfile::tempdir()?;
    for (name, records) in [("small", SMALL), ("large", large)] {
        let top = folder.path().join(name);
        fs::create_dir_all(top.join(".fia/runs").join(RUN))?;
        run(Command::new("git").args(["init", "--quiet", "."]).current_dir(&top))?;
        write_log(&top.join(".fia/runs").join(RUN), records)?;
    }
    let (small, large_top) = (folder.path().join("small"), folder.path().join("large"));
    let log = large_top.join(".fia/runs").join(RUN).join("events.jsonl");
    writeln!(out, "{large} records, {} MB", fs::metadata(&log)?.len() / 1_000_000)?;
    let log = log.display().to_string();

    let tail = best(Command::new("tail").args(["-n", "20", &log]))?;
    line(&mut out, "events -n 20 / tail -n 20", best(&mut fia(&large_top, &["events", "-n", "20"]))?, tail)?;
    for (kind, args) in [("session", vec![]), ("phase_end", vec!["--json"]), ("session", vec!["-n", "20"])] {
        let grep = best(Command::new("grep").args(["-c", &format!("\"type\":\"{kind}\""), &log]))?;
        let args = [vec!["events", "--type", kind], args].concat();
        line(&mut out, &format!("{} / grep -c", args.join(" ")), best(&mut fia(&large_top, &args))?, grep)?;
    }
    for command in ["runs", "show", "phases", "agents", "models"] {
        let (here, there) = (best(&mut fia(&large_top, &[command]))?, best(&mut fia(&small, &[command]))?);
        line(&mut out, &format!("{command}, large log / small"), here, there)?;
    }
    let per_record = large / SMALL;
    let (here, there) = (peak(&mut fia(&large_top, &["report"]))?, peak(&mut fia(&small, &["report"]))?);
    let ratio = here.0.as_secs_f64() / there.0.as_secs_f64();
    writeln!(
        out,
        "report, large log / small: {:?} / {:?} = {ratio:.1} for {per_record} times the records",
        here.0, there.0
    )?;
    if let (Some(here), Some(there)) = (here.1, there.1) {
        writeln!(out, "report, peak memory: {here} kB / {there} kB = {}%", here * 100 / there)?;
    }
    Ok(())
}

/// A log as a long run leaves it: phases of one agent, each with many requests and tool calls.
fn write_log(dir: &Path, records: u64) -> Outcome<()> {
    let mut log = BufWriter::new(File::create(dir.join("events.jsonl"))?);
    let mut seq = 0;
    let mut add = |phase: &str, kind: &str, name: &str, payload: &str| {
        seq += 1;
        let (second, ms) = (seq / 1_000, seq % 1_000);
        let ts = format!("2026-11-30T{:02}:{:02}:{:02}.{ms:03}Z", 12 + second / 3_600, second / 60 % 60, second % 60);
        let phase = if phase.is_empty() { String::new() } else { format!("\"phase\":\"{phase}\",") };
        writeln!(
            log,
            r#"{{"seq":{seq},"ts":"{ts}","run":"{RUN}",{phase}"type":"{kind}","name":"{name}","payload":{payload}}}"#
        )
    };
    add(
        "",
        "run_start",
        "long",
        r#"{"format":1,"fia_version":"0.1.0","prompt":"p","plan_digest":"d","resumed":false,"plan":null,"stop":{},"base":null,"branch":"main","worktree":false,"host":"desk"}"#,
    )?;
    let requests = records.saturating_sub(2 + 5 * PHASES) / PHASES / 2;
    for number in 1..=PHASES {
        let phase = format!("{number:02}_build_{number}");
        add(
            &phase,
            "phase_start",
            &format!("build_{number}"),
            &format!(
                r#"{{"order":{{"step":"build_{number}","index":0,"round":1,"phase":"{phase}","work":{{"kind":"commit"}}}},"kind":"agent","agent":"builder","description":"builder works","attempt":1,"host":"desk"}}"#
            ),
        )?;
        add(
            &phase,
            "agent_start",
            "builder",
            r#"{"agent":"builder","leg":1,"turn":1,"engine":"claude","model":"claude-sonnet-5","session_id":null,"lease":"cold","system_sha256":"0","host":"desk","boot_id":"b","pid":1,"process_started":1}"#,
        )?;
        add(
            &phase,
            "session",
            "builder",
            &format!(
                r#"{{"agent":"builder","engine":"claude","model":"claude-sonnet-5","session_id":"s-{number}","new":true}}"#
            ),
        )?;
        for request in 0..requests {
            let read = 20_000 + request * 7;
            add(
                &phase,
                "context",
                "builder",
                &format!(
                    r#"{{"agent":"builder","context_tokens":{},"window":200000,"usage":{{"input":12,"output":340,"cache_read":{read},"cache_write":900}}}}"#,
                    read + 912
                ),
            )?;
            add(
                &phase,
                "tool_call",
                "src/health.rs",
                r#"{"agent":"builder","tool":"edit","ok":true,"elapsed_ms":12}"#,
            )?;
        }
        add(
            &phase,
            "agent_end",
            "builder",
            r#"{"agent":"builder","leg":1,"turn":1,"engine":"claude","model":"claude-sonnet-5","ended":"completed","usage":{"input":12000,"output":340000,"cache_read":20000000,"cache_write":900000},"cost_usd":1.5,"requests":4,"context_tokens":90000,"cache_hit_ratio":0.9,"rewrite_factor":1.0,"elapsed_ms":1000}"#,
        )?;
        add(&phase, "phase_end", &format!("build_{number}"), r#"{"status":"success","elapsed_ms":9000}"#)?;
    }
    add(
        "",
        "run_end",
        "goal_met",
        r#"{"outcome":"goal_met","reason":"","tokens":{"input":0,"output":0,"cache_read":0,"cache_write":0},"cost_usd":150.0,"phases":100,"replayed":0,"elapsed_ms":900000,"tree_sha256":null}"#,
    )?;
    log.flush()?;
    drop(log);
    // What a run leaves beside its log, made by the fold that makes it there.
    let mut state = fia::view::projection::Projection::default();
    let mut reader = fia::store::LogReader::open(&dir.join("events.jsonl"), fia::store::Tail::Final)?;
    while let Some(entry) = reader.next()? {
        let fia::store::Entry::Record { line, .. } = entry else { return Err("a damaged line".into()) };
        state.push(&line.decode()?);
    }
    assert_eq!(state.phases.len() as u64, PHASES);
    serde_json::to_writer(File::create(dir.join("run.json"))?, &state)?;
    Ok(())
}

fn fia(top: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fia"));
    command.args(args).current_dir(top);
    command
}

/// How long a command takes, its output written to a file: `grep` ends at the first match when it goes to /dev/null.
fn run(command: &mut Command) -> Outcome<Duration> {
    let output = tempfile::tempfile()?;
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(output).status()?;
    let took = started.elapsed();
    if status.success() { Ok(took) } else { Err(format!("{command:?}: {status}").into()) }
}

fn best(command: &mut Command) -> Outcome<Duration> {
    let mut least = run(command)?;
    for _ in 1..TRIES {
        least = least.min(run(command)?);
    }
    Ok(least)
}

/// How long a command takes, and the most memory that it held, in kB.
fn peak(command: &mut Command) -> Outcome<(Duration, Option<u64>)> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let mut most: Option<u64> = None;
    let status = loop {
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let high = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(high);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_micros(200));
    };
    if status.success() { Ok((started.elapsed(), most)) } else { Err(format!("{command:?}: {status}").into()) }
}

fn line(out: &mut impl Write, what: &str, here: Duration, there: Duration) -> std::io::Result<()> {
    let ratio = here.as_secs_f64() / there.as_secs_f64();
    writeln!(out, "{what}: {here:.1?} / {there:.1?} = {ratio:.1}")
}
