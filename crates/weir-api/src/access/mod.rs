//! Who may do what over the API.
//!
//! Each route is registered with the [`Permission`] that it needs ([`routes`]); the [`gate`]
//! identifies who has sent a request, by a token ([`tokens`]) or by the cookie of a session
//! ([`sign_ins`]), and lets it pass or refuses it before the handler sees it. What a developer may
//! see is an expression in the [`Requester`] that handlers add to every query.
//!
//! Without access control (`[api.access]`) any client that reaches the port may read everything,
//! and what cannot be undone is accepted only from this machine.

mod cookies;
mod failures;
mod gate;
mod limits;
mod requester;
mod routes;
pub(crate) mod session;
mod sign_ins;
pub(crate) mod tokens;

use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

pub use gate::ApiAccess;
pub(crate) use gate::Gate;
pub(crate) use requester::{Permission, Requester};
pub(crate) use routes::{Routes, needs};

/// Bytes that cannot be guessed.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES], Unspecified> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes)
}
