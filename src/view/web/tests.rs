use std::fs;

use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::event::Record;
use crate::store::{DataDir, RunDir, StoreError};
use crate::view::projection::Projection;
use crate::view::story::{self, Story};
use crate::view::tables::Life;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const RUN: &str = "20261130-142210-k3fa";

#[expect(clippy::unnecessary_wraps, reason = "the signature that is asked for")]
fn alive(_: &DataDir, _: &RunDir) -> Result<Life, StoreError> {
    Ok(Life::Alive)
}

#[expect(clippy::unnecessary_wraps, reason = "the signature that is asked for")]
fn gone(_: &DataDir, _: &RunDir) -> Result<Life, StoreError> {
    Ok(Life::Gone)
}

fn from_run_file(dir: &RunDir, _: Life) -> Result<Option<Projection>, StoreError> {
    crate::store::atomic::load_json(&dir.run_file())
}

/// A server over the runs of one repository.
struct Site {
    folder: tempfile::TempDir,
    data: DataDir,
    port: u16,
}

/// An answer, its head in lower case.
struct Answer {
    head: String,
    body: String,
}

impl Answer {
    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

impl Site {
    async fn of(story: &Story, life: fn(&DataDir, &RunDir) -> Result<Life, StoreError>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path().join(".fia"));
        let dir = data.create_run(&RUN.into()).unwrap().unwrap();
        let mut state = Projection::default();
        story.records.iter().for_each(|record| state.push(record));
        fs::write(dir.run_file(), serde_json::to_vec(&state).unwrap()).unwrap();
        let sources = Sources { data: data.clone(), life, projection: from_run_file };
        let server = Server::listen(0, TOKEN.to_owned(), sources).await.unwrap();
        let port = server.shared.port;
        assert_eq!(server.address(), format!("http://127.0.0.1:{port}/{TOKEN}/"));
        tokio::spawn(server.serve());
        let site = Self { folder, data, port };
        site.log(&story.records);
        site
    }

    fn dir(&self) -> RunDir {
        self.data.run(&RUN.into())
    }

    /// Adds records to the log.
    fn log(&self, records: &[Record]) {
        let mut lines = fs::read(self.dir().events()).unwrap_or_default();
        for record in records {
            record.write_line(&mut lines);
        }
        fs::write(self.dir().events(), lines).unwrap();
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn raw(&self, request: &str) -> Answer {
        let mut text = Vec::new();
        self.send(request).await.read_to_end(&mut text).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Answer { head: head.to_lowercase(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Answer {
        let port = self.port;
        self.raw(&format!("GET /{TOKEN}{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")).await
    }
}

#[tokio::test]
async fn only_who_names_this_machine_and_the_token_may_read() {
    let site = Site::of(&story::fixed(), gone).await;
    let port = site.port;
    let status = async |method: &str, token: &str, hosts: &[&str]| {
        let mut request = format!("{method} /{token}/ HTTP/1.1\r\nConnection: close\r\n");
        for host in hosts {
            request += &format!("Host: {host}\r\n");
        }
        let answer = site.raw(&(request + "\r\n")).await;
        assert!(
            answer.head.contains("content-security-policy: default-src 'none'; script-src 'self';"),
            "{}",
            answer.head
        );
        assert!(answer.head.contains("cache-control: no-store"), "{}", answer.head);
        answer.status().to_owned()
    };
    let here = format!("127.0.0.1:{port}");
    assert_eq!(status("GET", TOKEN, &[&here]).await, "200");
    assert_eq!(status("HEAD", TOKEN, &[&format!("localhost:{port}")]).await, "200");
    assert_eq!(status("POST", TOKEN, &[&here]).await, "405");
    for token in ["", "0123456789abcdef0123456789abcdee", "0123456789abcdef0123456789abcde", "style.css"] {
        assert_eq!(status("GET", token, &[&here]).await, "404");
    }
    for host in ["evil.example.invalid", "127.0.0.1", "127.0.0.1:1", "localhost.example.invalid"] {
        assert_eq!(status("GET", TOKEN, &[host]).await, "421");
    }
    assert_eq!(status("GET", TOKEN, &[&here, "evil.example.invalid"]).await, "421");
}

#[tokio::test]
async fn runs_and_a_run_are_pages_that_read_without_a_script() {
    let site = Site::of(&story::fixed(), gone).await;
    let runs = site.get("/").await;
    assert!(runs.body.contains(&format!("<a href=\"/{TOKEN}/run/{RUN}\">{RUN}</a>")), "{}", runs.body);
    assert!(runs.body.contains("✓ goal met"), "{}", runs.body);
    let run = site.get(&format!("/run/{RUN}")).await;
    for shown in ["↻ fresh session: 187k ≥ 180k", "<meter ", "04_fix_1", "plot.svg?", "all events", "goal met"] {
        assert!(run.body.contains(shown), "no {shown} in {}", run.body);
    }
    assert!(!run.body.contains("data-live"), "nothing more comes: {}", run.body);
    let plot = site.get(&format!("/run/{RUN}/plot.svg")).await;
    assert!(plot.head.contains("content-type: image/svg+xml"), "{}", plot.head);
    assert!(plot.body.contains("<svg"), "{}", plot.body);
    assert_eq!(site.get("/run/20261130-142210-none").await.status(), "404");
    assert_eq!(site.get("/run/..%2F..%2Frun").await.status(), "404");
}

#[tokio::test]
async fn events_are_filtered_and_come_by_page() {
    let site = Site::of(&story::fixed(), gone).await;
    let rotation = site.get(&format!("/run/{RUN}/events?type=log&name=session_rotation&phase=&agent=&since=")).await;
    assert_eq!(rotation.body.matches("<tr class=").count(), 1);
    assert!(rotation.body.contains("187k ≥ 180k"), "{}", rotation.body);
    assert!(site.get(&format!("/run/{RUN}/events?type=none")).await.body.contains("no such events"));

    let story = (0..500).fold(story::fixing(), |story, _| story.tool("edit", "src/health.rs"));
    let site = Site::of(&story, gone).await;
    let newest = site.get(&format!("/run/{RUN}/events?type=tool_call")).await;
    assert_eq!(newest.body.matches("<tr class=\"tool_call\">").count(), 200);
    let total = story.records.len() as u64;
    assert!(newest.body.contains(&format!("<td class=\"num\">{total}</td>")), "{}", newest.body);
    let older = total - 199;
    assert!(
        newest.body.contains(&format!("<a href=\"?type=tool_call&amp;before={older}\">older</a>")),
        "{}",
        newest.body
    );
    let page = site.get(&format!("/run/{RUN}/events?type=tool_call&before={older}")).await;
    assert_eq!(page.body.matches("<tr class=\"tool_call\">").count(), 200);
    assert!(page.body.contains("<a href=\"?type=tool_call\">newest</a>"), "{}", page.body);
}

#[tokio::test]
async fn files_come_by_page_and_nothing_else_is_read() {
    let site = Site::of(&story::fixed(), gone).await;
    let agents = site.dir().path().join("agents/builder");
    fs::create_dir_all(&agents).unwrap();
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(988));
    fs::write(agents.join("02_build.1.transcript.jsonl"), line.repeat(100)).unwrap();
    fs::write(agents.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", agents.join("x.stderr")).unwrap();
    let file = format!("/run/{RUN}/file/builder/02_build.1.transcript.jsonl");
    let first = site.get(&file).await;
    assert_eq!(first.body.matches("xxx&quot;}").count(), 65);
    assert!(first.body.contains("<a href=\"?from=65000\">next page</a>"), "{}", first.body);
    assert_eq!(site.get(&format!("{file}?from=65000")).await.body.matches("xxx&quot;}").count(), 35);
    for other in ["secret", "x.stderr", "..%2Fbuilder%2Fsecret", "%2e%2e/run.json"] {
        assert_eq!(site.get(&format!("/run/{RUN}/file/builder/{other}")).await.status(), "404", "{other}");
    }
    assert!(site.get(&format!("/run/{RUN}")).await.body.contains("1 files"));
}

#[tokio::test]
async fn what_agents_and_people_wrote_is_text_everywhere() {
    let hostile = "<script>alert(1)</script> \"><img src=x onerror=alert(1)> \u{1b}[31m \u{202e}";
    let story = Story::begins(hostile, hostile).phase("01_plan", "planner").tool(hostile, hostile);
    let site = Site::of(&story, alive).await;
    let agents = site.dir().path().join("agents/planner");
    fs::create_dir_all(&agents).unwrap();
    fs::write(agents.join("\"><img src=x>.user.md"), hostile).unwrap();
    let encoded = "%22%3E%3Cimg%20src%3Dx%3E.user.md";
    for path in [
        "/".to_owned(),
        format!("/run/{RUN}"),
        format!("/run/{RUN}/events"),
        format!("/run/{RUN}/events?type=%22%3E%3Cimg%20src%3Dx%3E&name=%3Cscript%3E"),
        format!("/run/{RUN}/plot.svg"),
        format!("/run/{RUN}/file/planner/{encoded}"),
    ] {
        let answer = site.get(&path).await;
        assert_eq!(answer.status(), "200", "{path}");
        for steering in ["<script>", "<img src=x", "\u{1b}", "\u{202e}"] {
            assert!(!answer.body.contains(steering), "{steering:?} in {path}:\n{}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_live_page_hears_that_its_log_has_grown() {
    let mut story = story::fixing();
    let late = story.records.split_off(94);
    let site = Site::of(&story, alive).await;
    let page = site.get(&format!("/run/{RUN}")).await;
    assert!(page.body.contains(&format!("<main data-live=\"/{TOKEN}/run/{RUN}/live\">")), "{}", page.body);
    assert!(!page.body.contains("↻ fresh session"), "{}", page.body);

    let port = site.port;
    let ask = format!("GET /{TOKEN}/run/{RUN}/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let mut stream = site.send(&ask).await;
    let mut heard = String::new();
    hear(&mut stream, &mut heard, ": here").await;
    assert!(heard.contains("text/event-stream"), "{heard}");
    site.log(&late);
    hear(&mut stream, &mut heard, "event: changed").await;
    let part = site.get(&format!("/run/{RUN}?part=1")).await;
    assert!(part.body.starts_with("<h1>") && part.body.contains("↻ fresh session"), "{}", part.body);
    drop(site.folder);
}

#[tokio::test]
async fn a_run_that_nobody_is_at_is_said_to_be_interrupted() {
    let site = Site::of(&story::fixing(), gone).await;
    let page = site.get(&format!("/run/{RUN}")).await;
    assert!(page.body.contains("· interrupted: no process is at it"), "{}", page.body);
    assert!(page.body.contains("last record"), "{}", page.body);
}

async fn hear(stream: &mut TcpStream, heard: &mut String, wanted: &str) {
    let mut bytes = [0; 4096];
    while !heard.contains(wanted) {
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the stream ended after {heard}");
        heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}
