use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing has to come before it counts as silence.
const SILENCE: Duration = Duration::from_millis(50);

fn provider(scenario: Value, options: Options) -> Provider {
    Provider::spawn_thread(Scenario::from_value(scenario).unwrap(), options).unwrap()
}

fn answering(response: &Value) -> Provider {
    provider(json!({ "exhausted": response }), Options::default())
}

/// A bare connection: what arrives, byte for byte.
struct Client(TcpStream);

impl Client {
    fn new(provider: &Provider) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, provider.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> &mut Self {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        self.0.write_all(head.as_bytes()).unwrap();
        self.0.write_all(body).unwrap();
        self
    }

    fn post(&mut self, body: &Value) -> &mut Self {
        self.send("POST", "/v1/messages?beta=true", body.to_string().as_bytes())
    }

    /// Reads until what has come ends with `end`.
    fn until(&mut self, end: &str) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            bytes.push(byte[0]);
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Reads one answer that has a length.
    fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Answer { status: head[9..12].parse().unwrap(), head, body: String::from_utf8(body).unwrap() }
    }

    /// Reads until the connection ends: what came, and the error if the end was not a polite one.
    fn end(&mut self) -> (String, Option<ErrorKind>) {
        let mut bytes = Vec::new();
        let error = self.0.read_to_end(&mut bytes).err().map(|error| error.kind());
        (String::from_utf8(bytes).unwrap(), error)
    }

    /// Whether no byte comes for a while.
    fn is_silent(&mut self) -> bool {
        self.0.set_read_timeout(Some(SILENCE)).unwrap();
        let kind = self.0.read(&mut [0]).map_err(|error| error.kind());
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(kind, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn question(stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "max_tokens": 10, "system": "be brief",
           "messages": [{"role": "user", "content": [
               {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}]})
}

/// The names of the events in a streamed body.
fn events(body: &str) -> Vec<&str> {
    body.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

fn answers(provider: &Provider) -> Vec<String> {
    provider.requests().into_iter().map(|request| request.answer).collect()
}

/// Waits for the log to say how the one request was answered.
fn wait_for_answer(provider: &Provider, answer: &str) {
    provider.wait_until(PATIENCE, |requests| requests.iter().any(|request| request.answer == answer)).unwrap();
}

#[test]
fn a_plain_request_is_answered_by_one_message_with_its_usage() {
    let provider = answering(&json!({"text": "hi"}));
    let answer = Client::new(&provider).post(&question(false)).answer();
    assert!(answer.head.contains("\r\nrequest-id: req_loop0001\r\n"), "{}", answer.head);
    let prompt = r#"{"type":"text","text":"be brief"}user:{"type":"text","text":"hello"}"#;
    let usage = json!({"input_tokens": 0, "cache_creation_input_tokens": prompt.len() / 4, "cache_read_input_tokens": 0,
                       "cache_creation": {"ephemeral_5m_input_tokens": prompt.len() / 4, "ephemeral_1h_input_tokens": 0},
                       "output_tokens": 7});
    assert_eq!(
        (answer.status, answer.json()),
        (
            200,
            json!({"id": "msg_loop0001", "type": "message", "role": "assistant", "model": "m",
                   "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "stop_sequence": null,
                   "usage": usage})
        )
    );

    let requests = provider.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.n, &*request.answer, request.context_tokens()), (1, "200 json end_turn", Some(17)));
    let system = request::sha256(br#""be brief""#);
    let expected = LoggedPrompt {
        conversation: request.prompt.as_ref().unwrap().conversation.clone(),
        model: Some("m".to_owned()),
        stream: false,
        max_tokens: json!(10),
        thinking: Value::Null,
        system_sha256: system,
        system_bytes: r#""be brief""#.len(),
        system_blocks: 1,
        tools_sha256: request::sha256(b"null"),
        tools_bytes: 4,
        tools_count: 0,
        messages: 1,
        prompt_bytes: prompt.len(),
        common_prefix_bytes: 0,
        prefix_of_previous: None,
        previous_bytes: None,
        diverges_at: None,
        any_prefix_bytes: 0,
        usage: usage.as_object().unwrap().clone(),
        picked: "exhausted".to_owned(),
        message_id: Some("msg_loop0001".to_owned()),
    };
    assert_eq!(request.prompt, Some(expected));
}

#[test]
fn a_streamed_answer_comes_event_by_event_and_ends_politely() {
    let provider = answering(&json!({"text": "hello", "chunk": 3}));
    let mut client = Client::new(&provider);
    let body = client.post(&question(true)).until("0\r\n\r\n");
    let delta = "content_block_delta";
    assert_eq!(
        events(&body),
        [
            "message_start",
            "ping",
            "content_block_start",
            delta,
            delta,
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    // The connection goes on.
    assert_eq!(client.send("GET", "/v1/models", b"").answer().status, 200);
    assert_eq!(answers(&provider), ["200 sse end_turn", "probe"]);
}

#[test]
fn tokens_are_counted_models_listed_probes_and_sinks_answered() {
    let provider = provider(json!({"growth": 2.0}), Options::default());
    let mut client = Client::new(&provider);
    let count = client.send("POST", "/v1/messages/count_tokens", question(false).to_string().as_bytes()).answer();
    assert_eq!(count.json(), json!({"input_tokens": 34}));
    let models = client.send("GET", "/v1/models?limit=1", b"").answer().json();
    assert_eq!(models["data"][0]["id"], "claude-sonnet-4-5");
    assert_eq!(client.send("GET", "/", b"").answer().body, "{}");
    assert_eq!(client.send("POST", "/api/event", b"[]").answer().body, "{}");
    assert_eq!(answers(&provider), ["count_tokens 34", "probe", "probe", "sink"]);
}

#[test]
fn an_error_has_its_status_type_and_headers() {
    let provider = answering(&json!({"error": 429, "headers": {"retry-after": 1, "x-a": "b"}, "message": "later"}));
    let answer = Client::new(&provider).post(&question(true)).answer();
    assert!(answer.head.contains("\r\nretry-after: 1\r\nx-a: b\r\n"), "{}", answer.head);
    let body = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "later"},
                      "request_id": "req_loop0001"});
    assert_eq!((answer.status, answer.json()), (429, body));
    assert_eq!(answers(&provider), ["429"]);
}

#[test]
fn an_error_in_a_stream_follows_its_first_events_and_a_plain_request_gets_it_as_status() {
    let provider = answering(&json!({"error": 529, "in_stream": true}));
    let mut client = Client::new(&provider);
    let body = client.post(&question(true)).until("0\r\n\r\n");
    assert_eq!(events(&body), ["message_start", "ping", "error"]);
    assert_eq!(client.post(&question(false)).answer().status, 529);
    assert_eq!(answers(&provider), ["error 529 in stream", "529"]);
}

#[test]
fn a_cut_resets_the_connection_after_the_events_it_lets_through() {
    for cut in [0, 1, 3] {
        let provider = answering(&json!({"cut": cut, "text": "torn"}));
        let (body, error) = Client::new(&provider).post(&question(true)).end();
        assert_eq!((events(&body).len(), error), (cut, Some(ErrorKind::ConnectionReset)), "{body}");
        assert_eq!(answers(&provider), [format!("cut after {cut} events")]);
    }
}

#[test]
fn a_cut_of_a_plain_request_resets_without_a_byte() {
    let provider = answering(&json!({"cut": 3}));
    let end = Client::new(&provider).post(&question(false)).end();
    assert_eq!(end, (String::new(), Some(ErrorKind::ConnectionReset)));
    assert_eq!(answers(&provider), ["cut without a byte"]);
}

#[test]
fn a_silence_before_the_answer_ends_when_the_client_goes() {
    let provider = answering(&json!({"hang": 3600}));
    let mut client = Client::new(&provider);
    assert!(client.post(&question(true)).is_silent());
    let begun = provider.requests();
    assert_eq!((begun[0].phase, &*begun[0].answer), (Some(Phase::Begin), "hang before headers"));
    drop(client);
    wait_for_answer(&provider, "hang before headers: client closed");
    let ended: Vec<_> = provider.requests().into_iter().map(|request| (request.n, request.phase)).collect();
    assert_eq!(ended, [(1, None)]);
    assert!(provider.wait_until(Duration::ZERO, |requests| requests.len() == 2).is_err());
}

#[test]
fn a_silence_in_mid_stream_ends_when_the_client_goes() {
    let provider = answering(&json!({"hang": 3600, "when": "after", "events": 2}));
    let mut client = Client::new(&provider);
    let body = client.post(&question(true)).until("event: ping\ndata: {\"type\":\"ping\"}\n\n\r\n");
    assert_eq!(events(&body), ["message_start", "ping"]);
    assert!(client.is_silent());
    drop(client);
    wait_for_answer(&provider, "hang mid-stream: client closed");
}

#[test]
fn a_silence_that_is_over_ends_in_a_reset() {
    for (response, body_events, answer) in [
        (json!({"hang": 0}), 0, "hang before headers: time over"),
        (json!({"hang": 0, "when": "after", "events": 3}), 3, "hang mid-stream: time over"),
    ] {
        let provider = answering(&response);
        let (body, error) = Client::new(&provider).post(&question(true)).end();
        assert_eq!((events(&body).len(), error), (body_events, Some(ErrorKind::ConnectionReset)));
        assert_eq!(answers(&provider), [answer]);
    }
}

#[test]
fn delays_hold_an_answer_back_and_draw_it_out() {
    let provider = answering(&json!({"text": "slow", "delay_ms": 40, "chunk_delay_ms": 10}));
    let start = Instant::now();
    let mut client = Client::new(&provider);
    client.post(&question(true)).until("\r\n\r\n");
    assert!(start.elapsed() >= Duration::from_millis(40));
    client.until("0\r\n\r\n");
    // A pause after each of the seven events but the last.
    assert!(start.elapsed() >= Duration::from_millis(40 + 6 * 10));
}

#[test]
fn a_provider_that_is_dropped_leaves_no_connection_and_no_listener() {
    let provider = answering(&json!({"hang": 3600}));
    let port = provider.port();
    let mut client = Client::new(&provider);
    client.post(&question(true));
    provider.wait_until(PATIENCE, |requests| !requests.is_empty()).unwrap();
    drop(provider);
    assert_eq!(client.end().0, "");
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn garbage_is_neither_json_nor_events() {
    let provider = answering(&json!({"garbage": true}));
    let answer = Client::new(&provider).post(&question(true)).answer();
    assert_eq!((answer.status, &*answer.body), (200, "<html><body>not an API</body></html>"));
}

#[test]
fn a_body_that_is_no_json_is_refused() {
    let provider = answering(&json!({}));
    let answer = Client::new(&provider).send("POST", "/v1/messages", b"{\"a\": \xff").answer();
    assert_eq!((answer.status, &answer.json()["error"]["message"]), (400, &json!("the body is not JSON")));
    assert_eq!(answers(&provider), ["400 the body is not JSON"]);
}

#[test]
fn bodies_of_some_megabytes_are_read() {
    let provider = answering(&json!({"text": "read"}));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(3_000_000)}]});
    assert_eq!(Client::new(&provider).post(&body).answer().status, 200);
    assert_eq!(provider.requests()[0].raw_bytes, body.to_string().len());
}

#[test]
fn a_conversation_reads_its_cache_until_that_is_cold() {
    let clock = Clock::default();
    let options = Options { clock: clock.clone(), cache_life: CacheLife::Marked, ..Options::default() };
    let provider = provider(json!({}), options);
    let mut client = Client::new(&provider);
    let mut usage = || {
        let usage = client.post(&question(false)).answer().json()["usage"].take();
        (usage["cache_creation_input_tokens"].clone(), usage["cache_read_input_tokens"].clone())
    };
    assert_eq!(usage(), (json!(17), json!(0)));
    clock.advance(Duration::from_secs(290));
    assert_eq!(usage(), (json!(0), json!(17)));
    clock.advance(Duration::from_secs(300));
    assert_eq!(usage(), (json!(17), json!(0)));
}

#[test]
fn another_scenario_is_played_from_its_beginning() {
    let provider = answering(&json!({"text": "first"}));
    let mut client = Client::new(&provider);
    let mut said = || client.post(&question(false)).answer().json()["content"][0]["text"].clone();
    assert_eq!(said(), "first");
    provider.set_scenario(Scenario::from_value(json!({"responses": [{"text": "second"}]})).unwrap());
    assert_eq!([said(), said()], ["second", "done"]);
    let prefix_of_previous = provider.requests()[1].prompt.as_ref().unwrap().prefix_of_previous;
    assert_eq!(prefix_of_previous, Some(true));
}

#[test]
fn requests_are_kept_as_lines_and_bodies_as_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let (log, dump) = (folder.path().join("requests.jsonl"), folder.path().join("bodies"));
    let options =
        Options { log: Some(log.clone()), dump_dir: Some(dump.clone()), bodies: Bodies::Keep, ..Options::default() };
    let provider = provider(json!({"exhausted": {"hang": 0}}), options);
    let body = b"{ \"model\" : \"m\" }";
    let end = Client::new(&provider).send("POST", "/v1/messages", body).end();
    assert_eq!(end, (String::new(), Some(ErrorKind::ConnectionReset)));
    assert_eq!(std::fs::read(dump.join("0001.json")).unwrap(), body);
    assert_eq!(provider.requests()[0].body.as_deref(), Some(&body[..]));

    let lines: Vec<Value> =
        std::fs::read_to_string(log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = lines.iter().map(|line| (&line["n"], &line["phase"], &line["answer"], &line["model"])).collect();
    let (one, model) = (json!(1), json!("m"));
    let (begun, ended) = (json!("hang before headers"), json!("hang before headers: time over"));
    assert_eq!(seen, [(&one, &json!("begin"), &begun, &model), (&one, &Value::Null, &ended, &model)]);
}

#[tokio::test]
async fn on_the_callers_runtime_it_answers_and_a_taken_port_is_named() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let provider = Provider::start(Scenario::default(), Options::default()).unwrap();
    let mut stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, provider.port())).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n{}"), "{answer}");

    let options = Options { port: provider.port(), ..Options::default() };
    let error = Provider::start(Scenario::default(), options).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on 127.0.0.1:{}", provider.port()));
}

#[derive(clap::Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

fn args(arguments: &[&str]) -> Result<Args, String> {
    use clap::Parser as _;
    let program = Program::try_parse_from(std::iter::once(&"provider").chain(arguments));
    program.map(|program| program.args).map_err(|error| error.to_string())
}

#[test]
fn arguments_of_no_meaning_are_refused() {
    assert_eq!(args(&["--cache-life", "90"]).unwrap().cache_life, CacheLife::Lasting(Duration::from_secs(90)));
    assert_eq!(args(&["--cache-life", "marked"]).unwrap().cache_life, CacheLife::Marked);
    assert_eq!(args(&[]).unwrap().cache_life, CacheLife::Endless);
    assert!(args(&["--cache-life", "soon"]).unwrap_err().contains("neither whole seconds nor"));
    assert!(args(&["--growth=-1"]).unwrap_err().contains("not a number above 0"));
}

#[tokio::test]
async fn the_program_announces_its_port_and_reads_its_scenario_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, port) = (folder.path().join("s.json"), folder.path().join("port"));
    std::fs::write(&scenario, r#"{"exhausted": {"text": "one"}}"#).unwrap();
    let args = args(&["--scenario", scenario.to_str().unwrap(), "--port-file", port.to_str().unwrap()]).unwrap();
    let ask = move || {
        let start = Instant::now();
        let port = loop {
            if let Ok(text) = std::fs::read_to_string(&port) {
                break text.trim_end().parse().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "no port");
            std::thread::yield_now();
        };
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client(stream);
        let mut texts = Vec::new();
        for text in [r#"{"exhausted": {"text": "two"}}"#, "{", ""] {
            texts.push(client.post(&question(false)).answer().json());
            std::fs::write(&scenario, text).unwrap();
        }
        let text = |answer: &Value, pointer| answer.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let said = "/content/0/text";
        let refused = format!(
            "cannot read the scenario `{}`: EOF while parsing an object at line 1 column 1",
            scenario.display()
        );
        assert_eq!([text(&texts[0], said), text(&texts[1], said)], ["one", "two"]);
        assert_eq!(text(&texts[2], "/error/message"), refused);
    };
    tokio::select! {
        result = serve(args) => panic!("{result:?}"),
        result = tokio::task::spawn_blocking(ask) => result.unwrap(),
    }
}

#[tokio::test]
async fn a_scenario_that_is_not_there_is_named() {
    let error = serve(args(&["--scenario", "builtin:none"]).unwrap()).await.unwrap_err();
    assert!(error.to_string().starts_with("no scenario `builtin:none`, only plain, tools, 400,"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.json");
    let error = serve(args(&["--scenario", path.to_str().unwrap()]).unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read `{}`", path.display()));
}
