//! Keys of a stand-in for UAA, and the tokens that are signed with them: valid ones, and forged
//! ones.
//!
//! Invariant: the keys are public, and only used in tests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use serde_json::{Value, json};

/// A key of 2048 bits.
#[derive(Debug)]
pub struct TokenKey {
    id: String,
    pair: RsaKeyPair,
}

impl TokenKey {
    /// Returns the first key, with this id.
    pub fn first(id: &str) -> Self {
        Self::new(id, include_bytes!("token_keys/first.pk8"))
    }

    /// Returns another key, with this id.
    pub fn second(id: &str) -> Self {
        Self::new(id, include_bytes!("token_keys/second.pk8"))
    }

    fn new(id: &str, pkcs8: &[u8]) -> Self {
        let pair = RsaKeyPair::from_pkcs8(pkcs8).expect("it is a key");
        Self { id: id.to_owned(), pair }
    }

    /// Returns the key as UAA lists it: a JSON Web Key.
    pub fn listed(&self) -> Value {
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(self.pair.public());
        let [n, e] = [public.n, public.e].map(|number| URL_SAFE_NO_PAD.encode(number));
        json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id, "n": n, "e": e })
    }

    /// Returns a token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.with_header(&json!({ "alg": "RS256", "typ": "JWT", "kid": self.id }), claims)
    }

    /// Returns a token with any header, signed with the key.
    pub fn with_header(&self, header: &Value, claims: &Value) -> String {
        let text = both(header, claims);
        let mut signature = vec![0; self.pair.public().modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .expect("it can sign");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns a token with the algorithm `none`.
    pub fn unsigned(&self, claims: &Value) -> String {
        format!("{}.", both(&json!({ "alg": "none", "kid": self.id }), claims))
    }

    /// Returns a token signed with HMAC, with the public key as the secret.
    pub fn with_public_key_as_secret(&self, claims: &Value) -> String {
        let text = both(&json!({ "alg": "HS256", "kid": self.id }), claims);
        let secret = hmac::Key::new(hmac::HMAC_SHA256, self.pair.public().as_ref());
        let signature = hmac::sign(&secret, text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// The parts of a token that are signed.
fn both(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}
