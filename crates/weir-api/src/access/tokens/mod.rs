//! Access control: tokens from UAA, and the Cloud Controller's decision whether their owner may
//! read the logs of an application.
//!
//! The owner of a configured token, or of one with a scope of [`READ_SCOPES`], may read everything.
//! Everyone else may read the sources that the Cloud Controller allows: one by one for readers of
//! Loggregator, all that it lists ([`applications`]) for the API.
//!
//! UAA checks each token, or weir verifies its signature with UAA's [`keys`].
//!
//! Invariants: without a positive decision nothing can be read; a positive decision is cached for
//! [`CACHE_TIME`], a negative one is not cached; a signature is verified for each request, so a
//! token is valid until it expires and no longer; tokens are kept as hashes and never appear in
//! messages.

pub(crate) mod applications;
mod grants;
mod jwt;
mod keys;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use weir_codec::{form_decoded, percent_encoded};
use weir_host::{Clock, Secret};
use weir_pipeline::config::{Endpoint, TlsSettings};
use weir_pipeline::platform::{PlatformClient, PlatformRequest};

use super::cookies::cookie;
use applications::{APPLICATIONS_MAX, ApplicationLists, LISTING_BYTES_MAX};
use grants::Grants;
use jwt::Texts;
use keys::Keys;

/// How long a positive decision is cached, as in the original's log-cache proxy.
const CACHE_TIME: Duration = Duration::from_mins(1);

/// Maximum length of a response: a token with thousands of scopes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Maximum length of a token: several times that of one with hundreds of scopes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of sources in a request, if each must be checked.
const SOURCES_MAX: usize = 100;

/// Maximum number of cached decisions: a thousand readers of sixty applications each, in 5 MiB.
const GRANTS_MAX: usize = 65_536;

/// Scopes that may read everything.
const READ_SCOPES: [&str; 2] = ["doppler.firehose", "logs.admin"];

/// Scope of the administrators of the platform.
const ADMIN_SCOPE: &str = "cloud_controller.admin";

/// Settings of access control.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessSettings {
    /// Tokens that may read everything, separated by commas.
    pub tokens: Option<Secret>,
    /// UAA, with the client that may check tokens there.
    pub uaa: Option<UaaSettings>,
    /// The Cloud Controller.
    pub cloud_controller: Option<Endpoint>,
    /// TLS settings of both.
    pub tls: TlsSettings,
}

/// How tokens are verified.
#[derive(Debug, Clone, PartialEq)]
pub struct UaaSettings {
    /// Its address.
    pub endpoint: Endpoint,
    /// The client that checks tokens; `None`: signatures are verified instead.
    pub client: Option<UaaClient>,
    /// The audience that tokens must have; `None`: any.
    pub audience: Option<String>,
}

/// A client of UAA.
#[derive(Debug, Clone, PartialEq)]
pub struct UaaClient {
    /// Its name.
    pub name: String,
    /// Its secret.
    pub secret: Secret,
}

/// The owner of a valid token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It is one of the configured tokens.
    Configured,
    /// A user or client of UAA.
    OfUaa(Rights),
}

/// What the scopes of a token say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Its owner may read everything.
    pub(crate) reads_everything: bool,
    /// Its owner administers the platform.
    pub(crate) administers: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// There is no token, or it is not valid.
    #[error("the token is missing or not valid")]
    Unknown,
    /// Its owner may not read this.
    #[error("the owner of the token may not read this")]
    Forbidden,
    /// Access could not be checked.
    #[error("{0}")]
    Unavailable(String),
}

/// Verifies tokens, and decides what their owners may read.
#[derive(Debug)]
pub(crate) struct Tokens {
    configured: TokenHashes,
    uaa: Option<Uaa>,
    cloud_controller: Option<PlatformClient>,
    applications: Option<ApplicationLists>,
    /// Verified tokens with the rights of their owners.
    owners: Grants<Rights>,
    /// Sources that the owners of tokens may read.
    grants: Grants<()>,
    clock: Arc<dyn Clock>,
}

/// What UAA is used for.
#[derive(Debug)]
enum Uaa {
    /// It checks each token.
    CheckTokens { uaa: PlatformClient, client: UaaClient, audience: Option<String> },
    /// It provides the keys for verifying signatures.
    Keys(Keys),
}

/// UAA's response about a token.
#[derive(Debug, Deserialize)]
struct CheckedToken {
    #[serde(default)]
    scope: Texts,
    #[serde(default)]
    aud: Texts,
}

impl Tokens {
    /// Reads the certificate files.
    pub(crate) fn new(settings: &AccessSettings, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let client_with = |endpoint: &Endpoint, bytes_max| {
            PlatformClient::new(endpoint, settings.tls.files(), bytes_max).map_err(io::Error::other)
        };
        let client = |endpoint: &Endpoint| client_with(endpoint, ANSWER_BYTES_MAX);
        let listing = |endpoint: &Endpoint| {
            Ok::<_, io::Error>(ApplicationLists::new(client_with(endpoint, LISTING_BYTES_MAX)?))
        };
        let uaa = settings.uaa.as_ref().map(|settings| {
            let UaaSettings { endpoint, client: own, audience } = settings;
            let (uaa, audience) = (client(endpoint)?, audience.clone());
            Ok::<_, io::Error>(match own.clone() {
                Some(client) => Uaa::CheckTokens { uaa, client, audience },
                None => Uaa::Keys(Keys::new(uaa, audience, clock.clone())),
            })
        });
        Ok(Self {
            configured: TokenHashes::new(settings.tokens.as_ref()),
            uaa: uaa.transpose()?,
            cloud_controller: settings.cloud_controller.as_ref().map(client).transpose()?,
            applications: settings.cloud_controller.as_ref().map(listing).transpose()?,
            owners: Grants::new(CACHE_TIME, GRANTS_MAX),
            grants: Grants::new(CACHE_TIME, GRANTS_MAX),
            clock,
        })
    }

    /// Checks whether the sender of a request may read all of these sources; no sources stand for
    /// everything.
    pub(crate) async fn check(&self, headers: &HeaderMap, sources: &[&str]) -> Result<(), Denied> {
        let token = token(headers).ok_or(Denied::Unknown)?;
        match self.owner(&token).await? {
            Owner::Configured | Owner::OfUaa(Rights { reads_everything: true, .. }) => Ok(()),
            Owner::OfUaa(_) => self.allows(&token, sources).await,
        }
    }

    /// Returns the sources that the sender of a request may read; `None`: everything.
    pub(crate) async fn readable(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<[String]>>, Denied> {
        let token = token(headers).ok_or(Denied::Unknown)?;
        if let Owner::Configured | Owner::OfUaa(Rights { reads_everything: true, .. }) =
            self.owner(&token).await?
        {
            return Ok(None);
        }
        let all = self.applications(&token).await?;
        let too_many = || {
            let text = format!("the owner of the token may read more than {APPLICATIONS_MAX}");
            Denied::Unavailable(text + " applications")
        };
        all.map(Some).ok_or_else(too_many)
    }

    /// Which keys of UAA cannot be used, and why.
    pub(crate) fn key_problem(&self) -> Option<String> {
        match self.uaa.as_ref()? {
            Uaa::Keys(keys) => keys.problem(),
            Uaa::CheckTokens { .. } => None,
        }
    }

    /// Verifies a token and identifies its owner.
    pub(crate) async fn owner(&self, token: &str) -> Result<Owner, Denied> {
        if self.configured.has(token) {
            return Ok(Owner::Configured);
        }
        match &self.uaa {
            None => Err(Denied::Unknown),
            Some(Uaa::Keys(keys)) => Ok(Owner::OfUaa(Rights::with(&keys.scopes(token).await?))),
            Some(Uaa::CheckTokens { uaa, client, audience }) => {
                let now = self.clock.monotonic();
                let own = hash(&[token.as_bytes()]);
                if let Some(rights) = self.owners.get(&own, now) {
                    return Ok(Owner::OfUaa(rights));
                }
                let checked = ask_about(uaa, client, token).await?;
                if audience.as_ref().is_some_and(|audience| !checked.aud.contain(audience)) {
                    return Err(Denied::Unknown);
                }
                let rights = Rights::with(&checked.scope);
                self.owners.add(own, rights, now);
                Ok(Owner::OfUaa(rights))
            }
        }
    }

    /// Returns the ids of all applications and service instances that the owner of a token may see;
    /// `None` if there are too many ([`APPLICATIONS_MAX`](applications::APPLICATIONS_MAX)).
    pub(crate) async fn applications(&self, token: &str) -> Result<Option<Arc<[String]>>, Denied> {
        let lists = self.applications.as_ref().ok_or(Denied::Forbidden)?;
        lists.of(token, self.clock.monotonic()).await
    }

    /// Checks whether the owner of a token may read these sources.
    async fn allows(&self, token: &str, sources: &[&str]) -> Result<(), Denied> {
        let are_named = !sources.is_empty() && sources.len() <= SOURCES_MAX;
        let Some(client) = self.cloud_controller.as_ref().filter(|_| are_named) else {
            return Err(Denied::Forbidden);
        };
        for source in sources {
            if !is_guid(source) {
                return Err(Denied::Forbidden);
            }
            let now = self.clock.monotonic();
            let grant = hash(&[token.as_bytes(), b" ", source.as_bytes()]);
            if self.grants.get(&grant, now).is_some() {
                continue;
            }
            self.ask_for(client, token, source).await?;
            self.grants.add(grant, (), now);
        }
        Ok(())
    }

    /// Checks with the Cloud Controller, as an application, then as a service instance.
    async fn ask_for(
        &self,
        client: &PlatformClient,
        token: &str,
        source: &str,
    ) -> Result<(), Denied> {
        for path in ["/internal/v4/log_access/", "/v3/service_instances/"] {
            let path = format!("{path}{source}");
            let request = PlatformRequest::Get { path: &path, token: Some(token) };
            match client.send(&request).await.map_err(Denied::Unavailable)?.status {
                200 => return Ok(()),
                401 | 403 | 404 => {}
                status => {
                    let text = format!("the Cloud Controller returned status {status}");
                    return Err(Denied::Unavailable(text));
                }
            }
        }
        Err(Denied::Forbidden)
    }
}

impl Rights {
    /// The rights of the owner of a token with these scopes.
    fn with(scopes: &Texts) -> Self {
        Self {
            reads_everything: READ_SCOPES.iter().any(|scope| scopes.contain(scope)),
            administers: scopes.contain(ADMIN_SCOPE),
        }
    }
}

/// Configured tokens, as hashes.
#[derive(Debug)]
pub(crate) struct TokenHashes(Vec<[u8; 32]>);

impl TokenHashes {
    /// The tokens of a list, separated by commas.
    pub(crate) fn new(tokens: Option<&Secret>) -> Self {
        let tokens = tokens.and_then(Secret::list).unwrap_or_default();
        Self(tokens.into_iter().map(|token| hash(&[token.as_bytes()])).collect())
    }

    /// Whether this is one of them. All are compared to their ends, so that the time tells nothing.
    pub(crate) fn has(&self, token: &str) -> bool {
        let own = hash(&[token.as_bytes()]);
        let difference = |known: &[u8; 32]| {
            known.iter().zip(&own).fold(0, |different, (a, b)| different | (a ^ b))
        };
        self.0.iter().filter(|known| difference(known) == 0).count() > 0
    }
}

/// Checks a token with UAA.
async fn ask_about(
    uaa: &PlatformClient,
    client: &UaaClient,
    token: &str,
) -> Result<CheckedToken, Denied> {
    let request = PlatformRequest::Form {
        path: "/check_token",
        user: &client.name,
        password: client.secret.expose(),
        form: format!("token={}", percent_encoded(token)),
    };
    let answer = uaa.send(&request).await.map_err(Denied::Unavailable)?;
    match answer.status {
        200 => {}
        400 => return Err(Denied::Unknown),
        // Any other 401 concerns the client of weir.
        401 if answer.says("invalid_token") => return Err(Denied::Unknown),
        status => {
            return Err(Denied::Unavailable(format!("UAA returned status {status}")));
        }
    }
    serde_json::from_slice(&answer.body)
        .map_err(|error| Denied::Unavailable(format!("UAA returned an invalid response: {error}")))
}

/// Returns the token of a request: in its header, or in a cookie, as browsers send it.
fn token(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_cookie = || cookie(headers, "authorization");
    // The value of a cookie is form-encoded.
    let decoded = |text: &str| String::from_utf8_lossy(&form_decoded(text)).into_owned();
    let text = header.map(str::to_owned).or_else(|| in_cookie().map(decoded))?;
    let text = text.trim().trim_matches('"');
    // A token without the word `bearer` is accepted, but not the word without a token.
    let (kind, token) = text.split_once(' ').unwrap_or(("bearer", text));
    let is_valid = kind.eq_ignore_ascii_case("bearer")
        && !token.eq_ignore_ascii_case("bearer")
        && may_be_token(token);
    is_valid.then(|| token.to_owned())
}

/// Whether a text has the form of a token. Anything else could be part of a header.
pub(crate) fn may_be_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= TOKEN_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let bytes = parts.concat();
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, &bytes).as_ref());
    hash
}

/// Whether it is the identifier of an application. Anything else would be part of a path.
fn is_guid(text: &str) -> bool {
    let lens = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    lens.iter().all(|len| {
        parts.next().is_some_and(|part| {
            part.len() == *len && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use hyper::header::{COOKIE, HeaderValue};

    use super::*;

    #[test]
    fn tokens_are_in_a_header_or_a_cookie() {
        let of = |name, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            token(&headers)
        };
        assert_eq!(of(AUTHORIZATION, "bearer a.b").as_deref(), Some("a.b"));
        assert_eq!(of(AUTHORIZATION, "Bearer a.b").as_deref(), Some("a.b"));
        assert_eq!(of(AUTHORIZATION, "a.b").as_deref(), Some("a.b"));
        assert_eq!(of(COOKIE, "x=y; authorization=bearer+a.b").as_deref(), Some("a.b"));
        assert_eq!(of(COOKIE, "authorization=bearer%20a.b").as_deref(), Some("a.b"));
        assert_eq!(of(COOKIE, "authorization=\"bearer a.b\"").as_deref(), Some("a.b"));
        assert_eq!(of(AUTHORIZATION, "Basic YTpi"), None);
        assert_eq!(of(AUTHORIZATION, "bearer "), None);
        assert_eq!(of(AUTHORIZATION, "bearer a b"), None);
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn only_identifiers_are_part_of_a_path() {
        assert!(is_guid("0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11"));
        for wrong in [
            "",
            "a",
            "0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b1/",
            "../../../../x",
            "0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11-1",
        ] {
            assert!(!is_guid(wrong), "{wrong}");
        }
    }
}
