//! Sessions of the page: a random id in a cookie stands for a token.
//!
//! Invariants: ids cannot be guessed, and are kept as hashes; the token of a session is verified
//! for each request, so a session has no rights that its token has lost; sessions end when they are
//! not used, when they are old, and with the process; their number is limited, in total and for
//! each token.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::error::Unspecified;
use tokio::sync::watch;
use weir_host::Secret;

use super::limits::{SESSION_AGE_MAX, SESSION_IDLE_MAX, SESSIONS_MAX, SESSIONS_PER_TOKEN_MAX};
use super::random;
use super::tokens::hash;

/// Length of an id, bytes: it cannot be guessed.
const ID_BYTES: usize = 32;

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct SignIns(Mutex<HashMap<[u8; 32], SignIn>>);

/// A session.
#[derive(Debug)]
struct SignIn {
    token: Secret,
    /// Path of its cookie.
    path: String,
    since: Duration,
    used: Duration,
    /// Dropped with the session, which ends streams that it has opened.
    alive: watch::Sender<()>,
}

/// Tells when a session has ended.
#[derive(Debug, Clone)]
pub(crate) struct SessionEnd(watch::Receiver<()>);

impl SessionEnd {
    /// Returns when the session has ended.
    pub(crate) async fn ended(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl SignIn {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) >= SESSION_IDLE_MAX
            || now.saturating_sub(self.since) >= SESSION_AGE_MAX
    }
}

impl SignIns {
    /// Begins a session with this token; returns its id. If there are too many, one of the token
    /// that has most of them ends: the one that was not used for the longest time.
    pub(super) fn begin(
        &self,
        token: &str,
        path: &str,
        now: Duration,
    ) -> Result<String, Unspecified> {
        let id = URL_SAFE_NO_PAD.encode(random::<ID_BYTES>()?);
        let (token, path) = (Secret::new(token.to_owned()), path.to_owned());
        let mut all = self.lock();
        all.retain(|_, session| !session.is_over(now));
        let of_token = all.values().filter(|session| session.token == token).count();
        let from = match () {
            () if of_token >= SESSIONS_PER_TOKEN_MAX => Some(token.clone()),
            () if all.len() >= SESSIONS_MAX => most_frequent(&all),
            () => None,
        };
        let candidates = all.iter().filter(|(_, one)| from.as_ref() == Some(&one.token));
        let oldest = candidates.min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
        oldest.and_then(|key| all.remove(&key));
        let alive = watch::Sender::new(());
        all.insert(key(&id), SignIn { token, path, since: now, used: now, alive });
        Ok(id)
    }

    /// The token of a session, which is used now, and when the session ends.
    pub(super) fn token(&self, id: &str, now: Duration) -> Option<(String, SessionEnd)> {
        let mut all = self.lock();
        let key = key(id);
        let session = all.get_mut(&key)?;
        if session.is_over(now) {
            all.remove(&key);
            return None;
        }
        session.used = now;
        let end = SessionEnd(session.alive.subscribe());
        Some((session.token.expose().to_owned(), end))
    }

    /// Ends a session; returns the path of its cookie.
    pub(super) fn end(&self, id: &str) -> Option<String> {
        self.lock().remove(&key(id)).map(|session| session.path)
    }

    /// The number of sessions.
    pub(super) fn count(&self, now: Duration) -> usize {
        self.lock().values().filter(|session| !session.is_over(now)).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], SignIn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token with the most sessions.
fn most_frequent(all: &HashMap<[u8; 32], SignIn>) -> Option<Secret> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for session in all.values() {
        *counts.entry(session.token.expose()).or_default() += 1;
    }
    let (token, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some(Secret::new(token.to_owned()))
}

fn key(id: &str) -> [u8; 32] {
    hash(&[id.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn token(all: &SignIns, id: &str, now: Duration) -> Option<String> {
        all.token(id, now).map(|(token, _)| token)
    }

    #[test]
    fn a_session_ends_when_it_is_not_used() {
        let all = SignIns::default();
        let id = all.begin("token", "/", Duration::ZERO).unwrap();
        assert_eq!(id.len(), 43);
        assert_eq!(token(&all, &id, 11 * HOUR).as_deref(), Some("token"));
        assert_eq!(token(&all, &id, 22 * HOUR).as_deref(), Some("token"));
        assert_eq!(token(&all, &id, 34 * HOUR), None);
        assert_eq!(token(&all, &id, 22 * HOUR), None, "it was removed");
    }

    #[test]
    fn a_session_ends_when_it_is_old() {
        let all = SignIns::default();
        let id = all.begin("token", "/", Duration::ZERO).unwrap();
        let used = (1..168).map(|hour| all.token(&id, hour * HOUR));
        assert!(used.into_iter().all(|token| token.is_some()));
        assert_eq!(token(&all, &id, 168 * HOUR), None);
    }

    #[test]
    fn an_ended_session_has_no_token() {
        let all = SignIns::default();
        let (first, second) = (all.begin("a", "/x/", HOUR), all.begin("a", "/", HOUR));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(all.end(&first).as_deref(), Some("/x/"));
        assert_eq!(all.end(&first), None);
        assert_eq!(token(&all, &first, HOUR), None);
        assert_eq!(token(&all, &second, HOUR).as_deref(), Some("a"));
        assert_eq!(token(&all, "", HOUR), None);
    }

    #[tokio::test]
    async fn the_end_of_a_session_is_told() {
        let all = SignIns::default();
        let id = all.begin("token", "/", Duration::ZERO).unwrap();
        let (_, end) = all.token(&id, HOUR).unwrap();
        assert!(end.0.has_changed().is_ok());
        all.end(&id);
        end.ended().await;
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let all = SignIns::default();
        let first = all.begin("other", "/", Duration::ZERO).unwrap();
        let at = |n: usize| Duration::from_millis(n as u64);
        let ids: Vec<String> = (0..SESSIONS_PER_TOKEN_MAX + 5)
            .map(|n| all.begin("token", "/", at(n)).unwrap())
            .collect();
        let live = |id: &String| all.token(id, HOUR).is_some();
        assert!(live(&first), "others keep their sessions");
        assert_eq!(ids.iter().filter(|id| live(id)).count(), SESSIONS_PER_TOKEN_MAX);
        assert!(!live(&ids[4]) && live(&ids[5]), "the oldest have ended");
        for n in 0..2 * SESSIONS_MAX {
            all.begin(&format!("token {}", n % 15), "/", 2 * HOUR).unwrap();
        }
        assert_eq!(all.count(2 * HOUR), SESSIONS_MAX);
        assert!(live(&first), "those with many sessions lose them");
        assert_eq!(all.count(14 * HOUR), 0);
    }
}
