//! UAA's keys, with which the signatures of tokens are verified.
//!
//! Invariants: keys are fetched when a token names an unknown key or its signature does not match
//! the known one, and when they are old, but at most every [`REFRESH_PAUSE`], and by one request at
//! a time; while UAA is unavailable, the known keys stay valid; a key that UAA no longer lists is
//! removed. A token whose key cannot be used is not valid; health reports the key.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Mutex, MutexGuard};
use weir_host::Clock;
use weir_pipeline::platform::{PlatformClient, PlatformRequest};

use super::Denied;
use super::jwt::{Jwk, Jwt, JwtError, Key, Texts};

/// Minimum time between two fetches, as in the original: anyone can send a token with another key.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

/// Maximum age of the keys: a revoked key is trusted for this long.
const KEYS_AGE_MAX: Duration = Duration::from_mins(10);

/// Maximum number of keys: UAA has a current one and some previous ones.
const KEYS_MAX: usize = 100;

/// Number of unusable keys that health describes.
const UNUSABLE_REPORTED_MAX: usize = 3;

/// UAA's keys.
#[derive(Debug)]
pub(super) struct Keys {
    uaa: PlatformClient,
    audience: Option<String>,
    clock: Arc<dyn Clock>,
    known: RwLock<Arc<FetchedKeys>>,
    /// Held while keys are being fetched.
    last_fetch: Mutex<LastFetch>,
}

/// The keys that were fetched.
#[derive(Debug, Default)]
struct FetchedKeys {
    keys: HashMap<String, Key>,
    /// When they were fetched; `None`: never.
    since: Option<Duration>,
}

/// The last fetch.
#[derive(Debug, Default)]
struct LastFetch {
    at: Option<Duration>,
    /// Why it failed.
    error: Option<String>,
}

/// The response of UAA.
#[derive(Debug, Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

/// Why a token is rejected with the known keys.
enum Unverified {
    /// It could be valid with a newer key.
    Key(Denied),
    /// It is invalid with any key.
    Always(JwtError),
}

impl Keys {
    /// Without an audience, tokens for any audience are accepted.
    pub(super) fn new(
        uaa: PlatformClient,
        audience: Option<String>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { uaa, audience, clock, known: RwLock::default(), last_fetch: Mutex::default() }
    }

    /// Returns the scopes of a token.
    pub(super) async fn scopes(&self, token: &str) -> Result<Texts, Denied> {
        let jwt = Jwt::parse(token).map_err(|error| refused(&error))?;
        self.renew_if_old().await;
        let known = self.known();
        let missing = match self.verify(&jwt, &known) {
            Ok(scopes) => return Ok(scopes),
            Err(Unverified::Always(error)) => return Err(refused(&error)),
            Err(Unverified::Key(denied)) => denied,
        };
        let refreshed = self.refresh(self.last_fetch.lock().await, &known).await;
        match (self.verify(&jwt, &self.known()), refreshed) {
            (Ok(scopes), _) => Ok(scopes),
            (Err(Unverified::Always(error)), _) => Err(refused(&error)),
            // With a known key, the signature is invalid whether or not UAA is available.
            (Err(Unverified::Key(_)), Err(error)) if !known.keys.contains_key(&jwt.key_id) => {
                Err(Denied::Unavailable(error))
            }
            (Err(Unverified::Key(denied)), Ok(())) => Err(denied),
            (Err(Unverified::Key(_)), Err(_)) => Err(missing),
        }
    }

    /// Which keys cannot be used, and why.
    pub(super) fn problem(&self) -> Option<String> {
        let known = self.known();
        let mut unusable: Vec<&str> = known.keys.values().filter_map(Key::problem).collect();
        unusable.sort_unstable();
        let count = unusable.len();
        unusable.truncate(UNUSABLE_REPORTED_MAX);
        let more = match count - unusable.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let text = unusable.join("; ");
        (count > 0).then(|| format!("tokens with these keys are rejected: {text}{more}"))
    }

    fn known(&self) -> Arc<FetchedKeys> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn verify(&self, jwt: &Jwt<'_>, known: &FetchedKeys) -> Result<Texts, Unverified> {
        let (n, e) = match known.keys.get(&jwt.key_id) {
            Some(Key::Rsa { n, e }) => (n, e),
            Some(Key::Unusable(text)) => {
                tracing::debug!(text, "rejected a token");
                return Err(Unverified::Key(Denied::Unknown));
            }
            None => return Err(Unverified::Key(Denied::Unknown)),
        };
        jwt.verify((n, e), self.clock.unix_ns(), self.audience.as_deref()).map_err(|error| {
            match error {
                JwtError::Signature => Unverified::Key(refused(&error)),
                error => Unverified::Always(error),
            }
        })
    }

    /// Fetches the keys again when they are old; only one request waits for that.
    async fn renew_if_old(&self) {
        let known = self.known();
        let is_old = |since| self.clock.monotonic().saturating_sub(since) >= KEYS_AGE_MAX;
        if known.since.is_some_and(is_old)
            && let Ok(last_fetch) = self.last_fetch.try_lock()
        {
            // The known keys stay valid; the error is kept.
            let _refreshed = self.refresh(last_fetch, &known).await;
        }
    }

    /// Fetches UAA's keys, unless they were fetched after `known`, or a moment ago.
    async fn refresh(
        &self,
        mut last_fetch: MutexGuard<'_, LastFetch>,
        known: &FetchedKeys,
    ) -> Result<(), String> {
        if self.known().since != known.since {
            return Ok(());
        }
        let now = self.clock.monotonic();
        if last_fetch.at.is_some_and(|at| now.saturating_sub(at) < REFRESH_PAUSE) {
            return last_fetch.error.clone().map_or(Ok(()), Err);
        }
        last_fetch.at = Some(now);
        let listed = self.fetch().await;
        last_fetch.error = listed.as_ref().err().cloned();
        let keys = listed?;
        for (id, key) in &keys {
            if let Key::Unusable(text) = key
                && known.keys.get(id) != Some(key)
            {
                tracing::warn!("{text}; its tokens are rejected");
            }
        }
        let known = Arc::new(FetchedKeys { keys, since: Some(now) });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    async fn fetch(&self) -> Result<HashMap<String, Key>, String> {
        let answer =
            self.uaa.send(&PlatformRequest::Get { path: "/token_keys", token: None }).await?;
        if answer.status != 200 {
            return Err(format!("UAA returned status {} instead of its keys", answer.status));
        }
        let listed: JwkSet = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("UAA returned invalid keys: {error}"))?;
        let listed = listed.keys.iter().take(KEYS_MAX);
        Ok(listed.map(|listed| (listed.kid.clone(), Key::of(listed))).collect())
    }
}

fn refused(error: &JwtError) -> Denied {
    tracing::debug!(%error, "rejected a token");
    Denied::Unknown
}
