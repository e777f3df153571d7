//! Spans and how OTLP spells them in JSON (opentelemetry-proto 1.x, JSON protobuf encoding).

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::MOMENTS;
use crate::ids::RunId;

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u32 = 1;

/// A span's id: the first eight bytes of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanId(u64);

impl SpanId {
    /// The id of a part of a run, the same at every export.
    pub(super) fn of(run: &RunId, part: &str) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&Sha256::digest(format!("{run} {part}"))[..8]);
        Self(u64::from_be_bytes(first))
    }

    fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The id of a run's trace: the first sixteen bytes of a digest.
fn trace_id(run: &RunId) -> String {
    let mut first = [0; 16];
    first.copy_from_slice(&Sha256::digest(run.as_str())[..16]);
    format!("{:032x}", u128::from_be_bytes(first))
}

/// A named value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attribute {
    key: &'static str,
    value: Value,
}

/// Makes an attribute of a text, a number or a yes and no.
pub(super) fn attribute(key: &'static str, value: impl Into<Scalar>) -> Attribute {
    let value = match value.into() {
        Scalar::Text(text) => json!({ "stringValue": text }),
        Scalar::Whole(number) => json!({ "intValue": i64::try_from(number).unwrap_or(i64::MAX).to_string() }),
        Scalar::Float(number) => json!({ "doubleValue": number }),
        Scalar::Bool(yes) => json!({ "boolValue": yes }),
    };
    Attribute { key, value }
}

/// What an attribute can be.
pub(super) enum Scalar {
    Text(String),
    Whole(u64),
    Float(f64),
    Bool(bool),
}

impl From<&str> for Scalar {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Scalar {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Scalar {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Scalar {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

/// An event of a span.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) at: DateTime<Utc>,
    pub(super) name: String,
    pub(super) attributes: Vec<Attribute>,
}

/// How a span ended.
#[derive(Debug, Clone)]
pub(super) enum Status {
    Unset,
    Ok,
    Error(String),
}

/// A span under construction.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) id: SpanId,
    parent: Option<SpanId>,
    name: String,
    start: DateTime<Utc>,
    end: DateTime<Utc>,
    attributes: Vec<Attribute>,
    moments: Vec<Moment>,
    dropped: u64,
    status: Status,
}

impl Span {
    /// A span that begins.
    pub(super) fn new(id: SpanId, parent: Option<SpanId>, name: String, start: DateTime<Utc>) -> Self {
        let (attributes, moments) = (Vec::new(), Vec::new());
        Self { id, parent, name, start, end: start, attributes, moments, dropped: 0, status: Status::Unset }
    }

    /// Sets an attribute, once a key.
    pub(super) fn set(&mut self, attribute: Attribute) {
        self.attributes.retain(|known| known.key != attribute.key);
        self.attributes.push(attribute);
    }

    /// Sets several.
    pub(super) fn extend(&mut self, attributes: impl IntoIterator<Item = Attribute>) {
        for attribute in attributes {
            self.set(attribute);
        }
    }

    /// Adds an event while there is room.
    pub(super) fn moment(&mut self, moment: Moment) {
        if self.moments.len() < MOMENTS {
            self.moments.push(moment);
        } else {
            self.dropped += 1;
        }
    }

    /// Ends the span, never before its start.
    pub(super) fn end(&mut self, at: DateTime<Utc>, status: Status) {
        self.end = at.max(self.start);
        self.status = status;
    }

    fn json(&self, trace: &str) -> Value {
        let moments: Vec<Value> = self
            .moments
            .iter()
            .map(|moment| {
                json!({
                    "timeUnixNano": nanos(moment.at),
                    "name": moment.name,
                    "attributes": attributes(&moment.attributes),
                })
            })
            .collect();
        let status = match &self.status {
            Status::Unset => json!({}),
            Status::Ok => json!({ "code": 1 }),
            Status::Error(message) => json!({ "code": 2, "message": message }),
        };
        json!({
            "traceId": trace,
            "spanId": self.id.hex(),
            "parentSpanId": self.parent.map(SpanId::hex).unwrap_or_default(),
            "name": self.name,
            "kind": INTERNAL,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end),
            "attributes": attributes(&self.attributes),
            "events": moments,
            "droppedEventsCount": self.dropped,
            "status": status,
        })
    }
}

fn attributes(attributes: &[Attribute]) -> Vec<Value> {
    attributes.iter().map(|attribute| json!({ "key": attribute.key, "value": attribute.value })).collect()
}

/// Nanoseconds since 1970, as text; 0 outside of what OTLP can say.
fn nanos(at: DateTime<Utc>) -> String {
    at.timestamp_nanos_opt().unwrap_or(0).max(0).to_string()
}

/// The body of a request: `ExportTraceServiceRequest`.
pub(super) fn request(run: &RunId, version: &str, spans: &[Span]) -> Value {
    let trace = trace_id(run);
    let spans: Vec<Value> = spans.iter().map(|span| span.json(&trace)).collect();
    let resource = [attribute("service.name", "fia"), attribute("service.version", version)];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(&resource) },
            "scopeSpans": [{ "scope": { "name": "fia", "version": version }, "spans": spans }],
        }],
    })
}
