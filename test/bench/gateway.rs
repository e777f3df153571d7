//! The gateway beside a direct connection: how fast an answer streams through it, and what it adds to a chunk.
//!
//! ```sh
//! cargo bench --bench gateway
//! ```
//!
//! Server, gateway and client each have a thread and a runtime of their own; both ways are measured by turns in one
//! run. Ratios are what counts, as absolute figures belong to the machine.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header;
use chrono::Utc;
use fia::economy::prices::Rates;
use fia::gateway::{Gateway, SessionOptions, Upstream};
use fia::prune::conversation::PruneState;
use fia::prune::settings::{Mode, Settings};
use futures_core::Stream;
use tokio::sync::mpsc;

/// Bytes of an answer that is sent as fast as it goes.
const FLOOD_BYTES: usize = 256 * 1024 * 1024;
/// Bytes that the server writes at once then.
const FLOOD_CHUNK: usize = 64 * 1024;
/// Answers of either way.
const ROUNDS: usize = 7;
/// Chunks of a paced answer, and the pause between them.
const PACED_CHUNKS: usize = 400;
const PACE: Duration = Duration::from_millis(2);

fn main() -> std::io::Result<()> {
    let (server, start) = (serve(), Instant::now());
    let gateway = gateway(server);
    let direct = format!("http://{server}");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ways = [("direct", direct), ("gateway", gateway)];
    let mut throughput = [Vec::new(), Vec::new()];
    let mut delay = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, (_, base)) in ways.iter().enumerate() {
            throughput[at].push(runtime.block_on(flood(&client, base)));
            delay[at].extend(runtime.block_on(paced(&client, base)));
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [direct_speed, speed] = throughput.each_mut().map(median);
    let [direct_delay, gateway_delay] = delay.each_mut().map(median);
    let [direct_late, late] = delay.each_ref().map(|sorted| sorted[sorted.len() * 99 / 100]);
    let mib = |speed: f64| speed / 1024.0 / 1024.0;
    let mut out = std::io::stdout().lock();
    writeln!(out, "                        direct     gateway")?;
    writeln!(
        out,
        "throughput, MiB/s     {:8.0}    {:8.0}    {:.2}x",
        mib(direct_speed),
        mib(speed),
        speed / direct_speed
    )?;
    writeln!(
        out,
        "chunk, median, ms     {direct_delay:8.3}    {gateway_delay:8.3}    {:+.3}",
        gateway_delay - direct_delay
    )?;
    writeln!(out, "chunk, 99 of 100, ms  {direct_late:8.3}    {late:8.3}    {:+.3}", late - direct_late)?;
    writeln!(
        out,
        "({ROUNDS} answers each of {} MiB and of {PACED_CHUNKS} chunks {PACE:?} apart, {:.0?} in all)",
        FLOOD_BYTES >> 20,
        start.elapsed()
    )?;
    Ok(())
}

/// Bytes a second of an answer that is sent as fast as it goes.
async fn flood(client: &reqwest::Client, base: &str) -> f64 {
    let mut answer = post(client, base, "flood").await;
    let (start, mut bytes) = (Instant::now(), 0_u32);
    while let Some(chunk) = answer.chunk().await.expect("the answer is whole") {
        bytes += u32::try_from(chunk.len()).expect("a chunk is small");
    }
    f64::from(bytes) / start.elapsed().as_secs_f64()
}

/// Milliseconds that each chunk of a paced answer took from the server's write to the client's read.
async fn paced(client: &reqwest::Client, base: &str) -> Vec<f64> {
    let mut answer = post(client, base, "paced").await;
    let mut delays = Vec::new();
    while let Some(chunk) = answer.chunk().await.expect("the answer is whole") {
        let now = nanos();
        let text = std::str::from_utf8(&chunk).expect("text");
        let sent = text.rsplit_once("\"at\":").and_then(|(_, rest)| rest.split_once('}')?.0.parse::<u64>().ok());
        let late = now.saturating_sub(sent.expect("every chunk has its time"));
        delays.push(Duration::from_nanos(late).as_secs_f64() * 1000.0);
    }
    delays
}

async fn post(client: &reqwest::Client, base: &str, what: &'static str) -> reqwest::Response {
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    let request = client.post(format!("{base}/v1/messages")).header("x-bench", what).body(body);
    request.send().await.expect("an answer")
}

/// Nanoseconds by the one clock that server and client share.
fn nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_nanos()).expect("before 2554")
}

/// Runs something on a thread of its own and gives the address that it names.
fn on_thread<F: Future<Output = ()> + Send + 'static>(
    start: impl FnOnce(std::sync::mpsc::Sender<String>) -> F + Send + 'static,
) -> String {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(start(sender));
    });
    receiver.recv().expect("it starts")
}

fn serve() -> SocketAddr {
    let address = on_thread(|ready| async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        ready.send(listener.local_addr().expect("an address").to_string()).expect("somebody waits");
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| stream.set_nodelay(true).expect("a socket"));
        axum::serve(listener, Router::new().fallback(answer)).await.expect("it serves");
    });
    address.parse().expect("an address")
}

fn gateway(server: SocketAddr) -> String {
    on_thread(move |ready| async move {
        let gateway = Gateway::start_anywhere(Arc::new(Utc::now)).expect("a free port");
        let options = SessionOptions {
            agent: "bench".into(),
            settings: Some(Settings::of(Mode::CacheTtl)),
            window: Some(200_000),
            rates: Rates::STANDARD,
            expected: 15,
            upstream: Some(Upstream::parse(&format!("http://{server}")).expect("a URL")),
            state: PruneState::default(),
            save: Box::new(|_| Ok(())),
        };
        let session = gateway.session(options).expect("a session");
        ready.send(session.base_url().to_owned()).expect("somebody waits");
        std::future::pending::<()>().await;
    })
}

async fn answer(request: axum::extract::Request) -> axum::http::Response<Body> {
    let (sender, receiver) = mpsc::channel(4);
    let paced = request.headers().get("x-bench").is_some_and(|what| what == "paced");
    tokio::spawn(async move {
        if paced {
            for _ in 0..PACED_CHUNKS {
                tokio::time::sleep(PACE).await;
                let line = format!(
                    "data: {{\"type\":\"content_block_delta\",\"text\":\"{}\",\"at\":{}}}\n\n",
                    "x".repeat(80),
                    nanos()
                );
                if sender.send(Bytes::from(line)).await.is_err() {
                    return;
                }
            }
            return;
        }
        let line = format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{}\"}}}}\n\n",
            "word ".repeat(20)
        );
        let chunk = Bytes::from(line.repeat(FLOOD_CHUNK / line.len()));
        for _ in 0..FLOOD_BYTES / chunk.len() {
            if sender.send(chunk.clone()).await.is_err() {
                return;
            }
        }
    });
    let mut response = axum::http::Response::new(Body::from_stream(Chunks(receiver)));
    response.headers_mut().insert(header::CONTENT_TYPE, "text/event-stream".parse().expect("a header"));
    response
}

struct Chunks(mpsc::Receiver<Bytes>);

impl Stream for Chunks {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}
