//! UAA's keys, with which the signatures of tokens are verified.
//!
//! Invariants: UAA is asked for its keys when a token names one that is not known, or was not signed
//! with the one that is, and once they are old, but at most every [`REFRESH_PAUSE`], by one request
//! at a time; while UAA does not answer, the keys that are known stay valid; a key that UAA no longer
//! lists is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Mutex, MutexGuard};
use weir_host::Clock;
use weir_pipeline::ask::{Ask, AskClient};

use super::Denied;
use super::jwt::{Jwt, JwtError, Key, ListedKey, Texts};

/// How often UAA is asked at most, as by the original: anyone can send a token with another key.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

/// When UAA is asked again without need: a key that was withdrawn is believed for this long.
const KEYS_AGE_MAX: Duration = Duration::from_mins(10);

/// Keys that are kept: UAA has one in use, and those before it.
const KEYS_MAX: usize = 100;

/// UAA's keys.
#[derive(Debug)]
pub(super) struct Keys {
    uaa: AskClient,
    audience: Option<String>,
    clock: Arc<dyn Clock>,
    known: RwLock<Arc<Known>>,
    /// Held by whoever asks.
    asked: Mutex<Asked>,
}

/// What UAA has answered.
#[derive(Debug, Default)]
struct Known {
    keys: HashMap<String, Key>,
    /// When that was; `None`: never.
    since: Option<Duration>,
}

/// The last question.
#[derive(Debug, Default)]
struct Asked {
    at: Option<Duration>,
    /// Why there was no answer.
    error: Option<String>,
}

/// The answer of UAA.
#[derive(Debug, Deserialize)]
struct Listed {
    keys: Vec<ListedKey>,
}

/// Why a token is not believed with the keys that are known.
enum Unverified {
    /// There may be another key.
    Key(Denied),
    /// Whatever the keys are.
    Always(JwtError),
}

impl Keys {
    /// Without an audience, tokens for all of them are believed.
    pub(super) fn new(uaa: AskClient, audience: Option<String>, clock: Arc<dyn Clock>) -> Self {
        Self { uaa, audience, clock, known: RwLock::default(), asked: Mutex::default() }
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
        let refreshed = self.refresh(self.asked.lock().await, &known).await;
        match (self.verify(&jwt, &self.known()), refreshed) {
            (Ok(scopes), _) => Ok(scopes),
            (Err(Unverified::Always(error)), _) => Err(refused(&error)),
            // A token that was not signed with its key is none, whatever UAA would say.
            (Err(Unverified::Key(_)), Err(error)) if !known.keys.contains_key(&jwt.key_id) => {
                Err(Denied::Unavailable(error))
            }
            (Err(Unverified::Key(denied)), Ok(())) => Err(denied),
            (Err(Unverified::Key(_)), Err(_)) => Err(missing),
        }
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn verify(&self, jwt: &Jwt<'_>, known: &Known) -> Result<Texts, Unverified> {
        let (n, e) = match known.keys.get(&jwt.key_id) {
            Some(Key::Rsa { n, e }) => (n, e),
            Some(Key::Unusable(text)) => {
                return Err(Unverified::Key(Denied::Unavailable(text.clone())));
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

    /// Asks again once the keys are old; only one request waits for that.
    async fn renew_if_old(&self) {
        let known = self.known();
        let is_old = |since| self.clock.monotonic().saturating_sub(since) >= KEYS_AGE_MAX;
        if known.since.is_some_and(is_old)
            && let Ok(asked) = self.asked.try_lock()
        {
            // The keys that are known stay valid; what was wrong is remembered.
            let _refreshed = self.refresh(asked, &known).await;
        }
    }

    /// Asks UAA for its keys, unless it was asked since `known` was, or a moment ago.
    async fn refresh(&self, mut asked: MutexGuard<'_, Asked>, known: &Known) -> Result<(), String> {
        if self.known().since != known.since {
            return Ok(());
        }
        let now = self.clock.monotonic();
        if asked.at.is_some_and(|at| now.saturating_sub(at) < REFRESH_PAUSE) {
            return asked.error.clone().map_or(Ok(()), Err);
        }
        asked.at = Some(now);
        let listed = self.ask().await;
        asked.error = listed.as_ref().err().cloned();
        let keys = listed?;
        for (id, key) in &keys {
            if let Key::Unusable(text) = key
                && known.keys.get(id) != Some(key)
            {
                tracing::warn!("{text}; its tokens are refused");
            }
        }
        let known = Arc::new(Known { keys, since: Some(now) });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    async fn ask(&self) -> Result<HashMap<String, Key>, String> {
        let answer = self.uaa.ask(&Ask::Get { path: "/token_keys", token: None }).await?;
        if answer.status != 200 {
            return Err(format!("UAA answers with status {} instead of its keys", answer.status));
        }
        let listed: Listed = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("UAA answers with {error} instead of its keys"))?;
        let listed = listed.keys.iter().take(KEYS_MAX);
        Ok(listed.map(|listed| (listed.kid.clone(), Key::of(listed))).collect())
    }
}

fn refused(error: &JwtError) -> Denied {
    tracing::debug!(%error, "a token is refused");
    Denied::Unknown
}
