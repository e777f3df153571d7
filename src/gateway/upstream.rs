//! The provider behind a session.

use std::fmt;

use reqwest::Url;
use reqwest::redirect::Policy;

use super::GatewayError;

/// Where claude's requests go when nothing else is configured.
pub const ANTHROPIC: &str = "https://api.anthropic.com";

/// The base URL of a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream(Url);

/// A base URL that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the base URL of the provider is {0}")]
pub struct UpstreamError(&'static str);

impl Upstream {
    /// Reads a base URL; a path in it stays in front of every request's.
    ///
    /// # Errors
    ///
    /// When it is no URL of http or https. The text itself is not repeated: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        let url = Url::parse(text).map_err(|_| UpstreamError("no URL"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(UpstreamError("not one of http or https"));
        }
        Ok(Self(url))
    }

    /// The URL of a request.
    pub(super) fn join(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }

    /// A client for it that changes nothing on its own: no redirects, no decoding, no time limits.
    pub(super) fn client(&self) -> Result<reqwest::Client, GatewayError> {
        client_for(&self.0).map_err(GatewayError::Tls)
    }
}

/// A client that does as it is told: no redirects, no decoding, no second tries, no time limits.
///
/// # Errors
///
/// When no certificates can be had.
pub fn client_for(url: &Url) -> Result<reqwest::Client, reqwest::Error> {
    // The whole program has one provider of cryptography; who came first is the same one.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().redirect(Policy::none()).retry(reqwest::retry::never());
    // A proxy of the environment leads out of this machine.
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

impl fmt::Display for Upstream {
    /// Scheme, host and port alone: the rest may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        self.0.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_base_url_stays_in_front() {
        let join = |base, path, query| Upstream::parse(base).unwrap().join(path, query).to_string();
        assert_eq!(
            join(ANTHROPIC, "/v1/messages", Some("beta=true")),
            "https://api.anthropic.com/v1/messages?beta=true"
        );
        assert_eq!(join("http://localhost:1/llm/", "/v1/models", None), "http://localhost:1/llm/v1/models");
        assert_eq!(join("https://example.invalid", "/a%2Fb%20c", None), "https://example.invalid/a%2Fb%20c");
    }

    #[test]
    fn what_is_shown_of_it_holds_no_secret() {
        let upstream = Upstream::parse("https://user:secret@example.invalid:8443/key/secret?key=secret").unwrap();
        assert_eq!(format!("{upstream} {upstream:?}"), "https://example.invalid:8443 https://example.invalid:8443");
        for text in ["", "api.anthropic.com", "ftp://example.invalid/secret", "file:///secret"] {
            assert!(!Upstream::parse(text).unwrap_err().to_string().contains("secret"));
        }
    }

    #[test]
    fn loopback_is_asked_without_a_proxy() {
        let is_loopback = |base| super::is_loopback(&Upstream::parse(base).unwrap().0);
        assert!(["http://127.0.0.1:1", "http://[::1]:1", "http://localhost"].into_iter().all(is_loopback));
        assert!(!is_loopback("https://example.invalid"));
    }
}
