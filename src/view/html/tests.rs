use super::*;
use crate::event::{CheckRun, Content, FileKind, GateVerdict, PhaseStatus, TreeChanged};
use crate::ids::EngineName;
use crate::view::story::{self, Story};

fn page(story: &Story, prompts: Vec<Prompt>) -> String {
    let mut fold = PageFold::default();
    story.records.iter().for_each(|record| fold.push(record));
    let mut out = Vec::new();
    fold.write(&mut out, prompts, |_| None).unwrap();
    String::from_utf8(out).unwrap()
}

fn content() -> Content {
    Content { kind: FileKind::File, mode: 0o644, id: "ab".to_owned() }
}

fn changed(path: &str, before: Option<Content>, after: Option<Content>) -> Event {
    let changes = vec![PathChange { path: RepoPath::from(path), before, after }];
    Event::TreeChanged(TreeChanged { leg: 1, changes })
}

#[test]
fn a_page_has_summary_picture_phases_checks_changes_prompts_and_events() {
    let story = story::built()
        .event(changed("src/health.rs", None, Some(content())))
        .event(changed("src/main.rs", Some(content()), Some(content())))
        .event(changed("old.rs", Some(content()), None));
    let prompt =
        Prompt { file: "agents/builder/02_build.1.1.user.md".to_owned(), text: "Build it.\nAll of it.".to_owned() };
    let page = page(&story, vec![prompt]);
    for part in [
        "<h1>fia 20261130-142210-k3fa</h1>",
        "plan_build_test: “add a /health endpoint”",
        "· no outcome yet",
        "<svg xmlns",
        "<td>02_build</td><td class=\"good\">success</td><td>builder</td><td>pi gpt-5.6</td>",
        "<td>03_test_1</td><td>test</td><td class=\"bad\">✗ failed</td><td>context_handoff/03_test_1.log</td>",
        "<tr><td>added</td><td><code>src/health.rs</code></td></tr>",
        "<tr><td>modified</td><td><code>src/main.rs</code></td></tr>",
        "<tr><td>deleted</td><td><code>old.rs</code></td></tr>",
        "<pre>Build it.\nAll of it.</pre>",
        "<td>builder edit src/health.rs in 20ms</td>",
        "of all tokens.",
    ] {
        assert!(page.contains(part), "{part} is missing from {page}");
    }
}

#[test]
fn a_page_loads_and_runs_nothing() {
    let page = page(&story::fixed(), Vec::new());
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"));
    for part in ["<script", "<link", "<img", "src=", "href=", "@import", "url(", "<iframe"] {
        assert!(!page.contains(part), "{part} in {page}");
    }
}

#[test]
fn whatever_agents_files_and_people_wrote_stays_text() {
    let evil = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>'\u{1b}[31m\u{202e}</pre></svg></title>";
    let roster = vec![("\"><script>alert(2)</script>", EngineName::Claude, "<script>m</script>")];
    let story = Story::with_agents(evil, evil, roster)
        .phase(&format!("01_{evil}"), "\"><script>alert(2)</script>")
        .turn(None)
        .session(evil)
        .reads([5_000])
        .tool(evil, evil)
        .turn_ends(None)
        .event(Event::GateFail(GateVerdict { gate: evil.to_owned(), attempt: 1, violations: vec![evil.to_owned()] }))
        .event(Event::Check(CheckRun {
            check: evil.into(),
            passed: false,
            exit: None,
            timed_out_minutes: None,
            log: evil.to_owned(),
            elapsed_ms: 1,
        }))
        .event(changed(evil, None, Some(content())))
        .ends(PhaseStatus::Failed)
        .run_ends(Outcome::Failed, evil);
    let page = page(&story, vec![Prompt { file: evil.to_owned(), text: evil.to_owned() }]);
    for part in ["<script", "<img", "onerror=alert(1)>", "\u{1b}", "\u{202e}", "'></svg>"] {
        assert!(!page.contains(part), "{part:?} in {page}");
    }
    assert_eq!(page.matches("</svg>").count(), 1);
    assert_eq!(page.matches("</pre>").count(), page.matches("<pre").count());
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "it is still there to be read");
}

#[test]
fn a_long_run_shows_its_last_events_and_says_so() {
    let story = Story::begins("build", "x").phase("01_build", "builder").turn(None).reads((0..3_000).map(|n| n + 9));
    let page = page(&story, Vec::new());
    assert!(page.contains("<summary>the last 2000 of 3003</summary>"));
    assert!(page.len() < 600_000, "{}", page.len());
}

#[test]
fn a_long_prompt_is_cut_between_characters() {
    let text = format!("{}é", "x".repeat(PROMPT_BYTES - 1));
    let page = page(&story::built(), vec![Prompt { file: "p.md".to_owned(), text }]);
    assert!(page.contains("x\n… [2 more bytes in p.md]</pre>"));
}
