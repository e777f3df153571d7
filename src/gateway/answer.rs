//! An answer on its way to the client, a copy of which is read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use http_body::{Frame, SizeHint};

use super::session::Session;
use super::usage::{Form, Reader};
use crate::prune::conversation::Ticket;

/// The body of an answer. Dropped, it ends the request to the provider.
pub(super) struct Passing {
    body: reqwest::Body,
    copy: Option<Copy>,
}

/// The reader of a copy, and whom it tells.
pub(super) struct Copy {
    reader: Reader,
    session: Arc<Session>,
    ticket: Ticket,
}

impl Copy {
    /// Reads the answer with these headers.
    pub(super) fn new(headers: &HeaderMap, session: Arc<Session>, ticket: Ticket) -> Self {
        Self { reader: Reader::new(form(headers)), session, ticket }
    }
}

fn form(headers: &HeaderMap) -> Form {
    let is = |name, value: &str| {
        headers.get(name).and_then(|found| found.to_str().ok()).is_some_and(|found| found.starts_with(value))
    };
    if headers.contains_key(header::CONTENT_ENCODING) && !is(header::CONTENT_ENCODING, "identity") {
        // It was not asked for, so it is not worth a decoder.
        Form::Opaque
    } else if is(header::CONTENT_TYPE, "text/event-stream") {
        Form::Events
    } else {
        Form::Object
    }
}

impl Passing {
    pub(super) fn new(body: reqwest::Body, copy: Option<Copy>) -> Self {
        Self { body, copy }
    }

    /// Tells of a success once, when the answer is whole.
    fn settle(&mut self, at_end: bool) {
        let is_whole = |copy: &mut Copy| copy.reader.is_whole() || (at_end && copy.reader.end());
        if let Some(copy) = self.copy.take_if(is_whole) {
            copy.session.succeeded(copy.ticket, copy.reader.tokens());
        }
    }
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &polled {
            Some(Ok(frame)) => {
                if let (Some(copy), Some(chunk)) = (&mut self.copy, frame.data_ref()) {
                    copy.reader.push(chunk);
                }
                // A body of known length is not asked again for its end.
                let at_end = self.body.is_end_stream();
                self.settle(at_end);
            }
            None => self.settle(true),
            Some(Err(_)) => self.copy = None,
        }
        Poll::Ready(polled.map(|frame| frame.map_err(reqwest::Error::without_url)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
