//! The gateway beside a direct connection: how fast an answer streams through it, and what it adds to a chunk.
//!
//! ```sh
//! cargo bench --bench gateway
//! ```
//!
//! Server, gateway and client each have a thread and a runtime of their own; all ways are measured by turns in one
//! run. Ratios are what counts, as absolute figures belong to the machine. The third way is the floor of any proxy: a
//! relay that copies bytes from one socket to the other and looks at none. A last row has the server send no faster
//! than a fast network does, 100 MiB a second, which is still a thousand times what a provider streams.

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
/// Bytes of an answer that is sent at the speed of a network, and the chunks of that in a second.
const NETWORK_BYTES: usize = 32 * 1024 * 1024;
const NETWORK_CHUNKS_A_SECOND: u32 = 1600;
/// Chunks of a paced answer, and the pause between them.
const PACED_CHUNKS: usize = 400;
const PACE: Duration = Duration::from_millis(2);

fn main() -> std::io::Result<()> {
    let (server, start) = (serve(), Instant::now());
    let ways = [format!("http://{server}"), format!("http://{}", relay(server)), gateway(server)];
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let [mut flooded, mut network, mut delay] = [(); 3].map(|()| [(); 3].map(|()| Vec::new()));
    for _ in 0..ROUNDS {
        for (at, base) in ways.iter().enumerate() {
            flooded[at].push(runtime.block_on(speed(&client, base, "flood")));
            network[at].push(runtime.block_on(speed(&client, base, "network")));
            delay[at].extend(runtime.block_on(paced(&client, base)));
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [flooded, network] = [flooded, network].map(|mut ways| ways.each_mut().map(median));
    let middle = delay.each_mut().map(median);
    let late = delay.each_ref().map(|sorted| sorted[sorted.len() * 99 / 100]);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<26}{:>9}{:>9}{:>9}", "", "direct", "relay", "gateway")?;
    for (what, [direct, relay, gateway]) in [("as fast as it goes", flooded), ("at 100 MiB/s", network)] {
        let mib = |speed: f64| speed / 1024.0 / 1024.0;
        let ways = [direct, relay, gateway].map(|speed| format!("{:9.0}", mib(speed))).concat();
        let (of_direct, of_relay) = (gateway / direct, gateway / relay);
        writeln!(
            out,
            "{:<26}{ways}   {of_direct:.2}x of direct, {of_relay:.2}x of the relay",
            what.to_owned() + ", MiB/s"
        )?;
    }
    for (what, [direct, relay, gateway]) in [("chunk, median, ms", middle), ("chunk, 99 of 100, ms", late)] {
        writeln!(out, "{what:<26}{direct:9.3}{relay:9.3}{gateway:9.3}   {:+.3} over direct", gateway - direct)?;
    }
    writeln!(
        out,
        "({ROUNDS} answers each of {} MiB, {} MiB and {PACED_CHUNKS} chunks {PACE:?} apart, {:.0?} in all)",
        FLOOD_BYTES >> 20,
        NETWORK_BYTES >> 20,
        start.elapsed()
    )?;
    Ok(())
}

/// A relay that copies bytes.
fn relay(server: SocketAddr) -> String {
    on_thread(move |ready| async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        ready.send(listener.local_addr().expect("an address").to_string()).expect("somebody waits");
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(server).await.expect("the server listens");
                near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("a socket");
                // Whoever ends first ends both.
                let _closed =
                    tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, FLOOD_CHUNK, FLOOD_CHUNK).await;
            });
        }
    })
}

/// Bytes a second of a large answer.
async fn speed(client: &reqwest::Client, base: &str, what: &'static str) -> f64 {
    let mut answer = post(client, base, what).await;
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
    let is = |kind: &str| request.headers().get("x-bench").is_some_and(|what| what == kind);
    let (paced, network) = (is("paced"), is("network"));
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
        let bytes = if network { NETWORK_BYTES } else { FLOOD_BYTES };
        let begun = tokio::time::Instant::now();
        for sent in 0..u32::try_from(bytes / chunk.len()).expect("few chunks") {
            if network {
                tokio::time::sleep_until(begun + sent * Duration::from_secs(1) / NETWORK_CHUNKS_A_SECOND).await;
            }
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
