//! Connections that a handler can reset.
//!
//! HTTP servers end a connection politely. A provider that dies in the middle of an answer does not: its client sees a
//! reset. So each connection carries a [`Line`], through which the code that answers can break it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// A listening socket whose connections have a [`Line`].
pub(super) struct Loopback(pub(super) TcpListener);

impl Listener for Loopback {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // An event leaves when it is written, not when a packet is full.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot switch off delay: {error}");
        }
        let line = Line(Arc::new(Notify::new()));
        let broken = Box::pin(Arc::clone(&line.0).notified_owned());
        (Connection { stream, line, broken }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// What a handler can do to the connection that its request came through.
#[derive(Debug, Clone)]
pub(super) struct Line(Arc<Notify>);

impl Line {
    /// Resets the connection: the client sees an error, not an end. What was written before still arrives.
    pub(super) fn reset(&self) {
        self.0.notify_one();
    }
}

impl Connected<IncomingStream<'_, Loopback>> for Line {
    fn connect_info(stream: IncomingStream<'_, Loopback>) -> Self {
        stream.io().line.clone()
    }
}

/// A connection that fails to read once it was reset, upon which the server drops it.
pub(super) struct Connection {
    stream: TcpStream,
    line: Line,
    broken: Pin<Box<OwnedNotified>>,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.broken.as_mut().poll(cx).is_ready() {
            // A socket that is closed without lingering sends a reset.
            self.stream.set_zero_linger()?;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
