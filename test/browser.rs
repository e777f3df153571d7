//! Pages, reports and pictures in a real browser: headless Chromium, driven by its `DevTools` protocol over two pipes.
//!
//! Needs chromium, so the tests are not run unless asked for: `cargo test --test browser -- --ignored`. What the
//! browser drew is left in `target/screens`, to be looked at.

#![expect(clippy::needless_raw_string_hashes, reason = "one way to quote for all texts")]
#![expect(clippy::cast_possible_truncation, reason = "a letter of 64 fits")]

/// The parts that these tests use.
#[expect(dead_code, reason = "other tests use the rest")]
mod support {
    pub(crate) mod chromium;
    pub(crate) mod program;
    pub(crate) mod rehearsed;
    pub(crate) mod test_env;
}

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use support::chromium::{Browser, Scheme};
use support::program::Running;
use support::rehearsed::{fia, newest_run, wait_for, wait_for_log};
use support::test_env::TestEnv;

/// What a page must show as text and never obey.
const HOSTILE: &str = "<script>alert(1)</script> \"><img src=x onerror=alert(1)> \u{1b}[31m \u{202e}";

const CONFIG: &str = r#"
defaults: { coding_agent: scripted, model: rehearsal }
agents:
  - { name: builder, session_rotation_context: 60000 }
engines: { scripted: { script: rehearsal.yaml } }
workflows:
  asks:
    description: build, ask, build on
    steps:
      - { name: build, agent: builder, output: build }
      - { name: ok, approve: { wait: never } }
      - { name: polish, agent: builder, output: build }
"#;

/// The builder fills its session in `build`, so that it is given a fresh one before `polish`.
const REHEARSAL: &str = r#"
growth: 24
window: 200000
phases:
  build:
    - do:
        - { say: "HOSTILE" }
        - { run: "seq 2600 # HOSTILE" }
        - { write: { "<img src=x onerror=alert(1)>": "HOSTILE" } }
      answer: { status: success, summary: "HOSTILE", changed_files: ["<img src=x onerror=alert(1)>"] }
  polish:
    - do: [{ read: "README" }]
      answer: { status: success, summary: "done" }
"#;

fn stage(env: &TestEnv) {
    env.write("fia.config.yaml", CONFIG);
    // As a YAML text in double quotes has it.
    let hostile = HOSTILE.replace('"', "\\\"").replace('\u{1b}', "\\e").replace('\u{202e}', "\\u202e");
    env.write("rehearsal.yaml", &REHEARSAL.replace("HOSTILE", &hostile));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "--message", "the stage"]);
}

/// A running `fia view`.
struct View {
    child: Child,
    address: String,
}

impl View {
    fn start(env: &TestEnv) -> Self {
        let mut command = fia(env, &["view"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("fia starts");
        let mut address = String::new();
        let out = child.stdout.take().expect("stdout is piped");
        BufReader::new(out).read_line(&mut address).expect("an address");
        Self { child, address: address.trim().to_owned() }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Where pictures are left.
fn picture(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in target").to_owned();
    std::fs::create_dir_all(target.join("screens")).expect("a folder in target");
    target.join("screens").join(name)
}

/// Nothing that was written by others became an element, ran or asked for something.
fn assert_tame(browser: &mut Browser) {
    let foreign = browser.eval("document.querySelectorAll('img[onerror], script:not([src]), img[src=x]').length");
    assert_eq!(foreign, 0);
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

#[test]
#[ignore = "needs chromium"]
fn a_live_run_is_found_opened_and_seen_to_rotate() {
    let env = TestEnv::new();
    stage(&env);
    let going = Running::start(&mut fia(&env, &["run", "asks", HOSTILE]), "");
    let run = wait_for_log(&env.work(), "\"waiting\"");
    let id = run.file_name().expect("a run has a name").to_string_lossy().into_owned();
    let view = View::start(&env);
    let mut browser = Browser::open(&env);

    browser.go(&view.address);
    browser.wait("document.querySelector('#runs')?.innerText.includes('⏸ waiting')");
    assert!(browser.text("#runs").contains("<script>alert(1)</script> \"><img src=x onerror=alert(1)> ␛[31m ⟨202e⟩"));
    assert_tame(&mut browser);

    browser.eval("document.querySelector('#runs a').click()");
    browser.wait("document.querySelector('#phases')?.innerText.includes('02_ok')");
    assert!(!browser.text("#phases").contains('↻'));
    browser.eval("window.sameDocument = true");
    assert!(fia(&env, &["approve", &id]).status().expect("fia starts").success());
    browser.wait("document.querySelector('#phases').innerText.includes('↻ fresh session')");
    browser.wait("document.querySelector('#state').innerText.includes('✓ goal met')");
    assert_eq!(browser.eval("window.sameDocument"), true, "the page was not loaded again");
    assert!(going.finish().status.success());
    browser.wait("[...document.images].every((image) => image.complete && image.naturalWidth > 0)");
    assert_tame(&mut browser);
    for (scheme, name) in [(Scheme::Light, "view-light.png"), (Scheme::Dark, "view-dark.png")] {
        browser.scheme(scheme);
        assert_eq!(browser.screenshot(&picture(name)), (1200, 900));
    }

    browser.go(&format!("{}run/{id}/events", view.address));
    browser.eval("document.querySelector('[name=type]').value = 'log'");
    browser.eval("document.querySelector('[name=name]').value = 'session_rotation'");
    browser.eval("document.querySelector('form button').click()");
    browser
        .wait("location.search.includes('session_rotation') && document.querySelectorAll('.events tr').length === 2");
    assert!(browser.text(".events").contains("reseed"));
    assert_tame(&mut browser);

    browser.go(&format!("{}run/{id}/file/builder/01_build.1.transcript.jsonl", view.address));
    assert!(browser.text("pre").contains("<script>alert(1)</script>"));
    assert_tame(&mut browser);

    browser.without_scripts();
    browser.go(&format!("{}run/{id}", view.address));
    assert!(browser.html().contains("↻ fresh session"));
}

#[test]
#[ignore = "needs chromium"]
fn the_report_and_the_picture_are_drawn_within_their_bounds_in_light_and_dark() {
    let env = TestEnv::new();
    support::rehearsed::stage(&env);
    support::rehearsed::ran(&env, "demo", HOSTILE);
    let (svg, html) = (env.work().join("context.svg"), env.work().join("report.html"));
    let args = ["report", "--svg", "context.svg", "--html", "report.html"];
    assert!(fia(&env, &args).stdout(Stdio::null()).status().expect("fia starts").success());
    assert!(newest_run(&env.work()).is_some());
    let mut browser = Browser::open(&env);

    browser.go(&format!("file://{}", svg.display()));
    let outside = browser.eval(
        "(() => { const box = document.documentElement.getBoundingClientRect(); \
         return [...document.querySelectorAll('text')].filter((text) => { const it = text.getBoundingClientRect(); \
         return it.left < box.left - 1 || it.right > box.right + 1 || it.top < box.top - 1 || it.bottom > box.bottom + 1; \
         }).map((text) => text.textContent); })()",
    );
    assert_eq!(outside, serde_json::json!([]), "labels outside of the picture");
    assert!(browser.eval("document.querySelectorAll('text').length").as_u64() > Some(5));
    assert_tame(&mut browser);
    for (scheme, name) in [(Scheme::Light, "context-light.png"), (Scheme::Dark, "context-dark.png")] {
        browser.scheme(scheme);
        assert_eq!(browser.screenshot(&picture(name)), (1200, 900));
    }

    browser.go(&format!("file://{}", html.display()));
    assert!(browser.text("body").contains("<script>alert(1)</script> \"><img src=x onerror=alert(1)> ␛[31m ⟨202e⟩"));
    let wider = browser.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth");
    assert_eq!(wider, false, "the page is wider than the window");
    assert_tame(&mut browser);
    for (scheme, name) in [(Scheme::Light, "report-light.png"), (Scheme::Dark, "report-dark.png")] {
        browser.scheme(scheme);
        assert_eq!(browser.screenshot(&picture(name)), (1200, 900));
    }
    wait_for("pictures", || picture("report-dark.png").exists().then_some(()));
}
