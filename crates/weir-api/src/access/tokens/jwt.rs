//! Tokens with a signature: JSON Web Tokens (RFC 7519) as UAA issues them, signed with RS256
//! (RFC 7518, section 3.3).
//!
//! Invariants: RS256 is the only algorithm, regardless of the token's header; nothing in a token is
//! trusted before its signature is verified, except the ID of its key; keys that are too short are
//! never used.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde::Deserialize;

/// The algorithm of signatures.
const ALGORITHM: &str = "RS256";

/// Length of keys, in bits: shorter ones are not secure, longer ones cost too much time.
const KEY_BITS_MIN: usize = 2048;
const KEY_BITS_MAX: usize = 8192;

/// Suffix of the ids of UAA's refresh tokens, which are signed with the same keys.
const REFRESH_SUFFIX: &str = "-r";

/// Why a token is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JwtError {
    /// It is not a JSON Web Token.
    #[error("it is not a JSON Web Token")]
    Malformed,
    /// It is signed with another algorithm, or not signed.
    #[error("it is signed with {0:?} instead of RS256")]
    Algorithm(String),
    /// Its header has no key ID.
    #[error("it has no key ID")]
    NoKey,
    /// Its signature does not match the key.
    #[error("its signature is invalid")]
    Signature,
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet")]
    Early,
    /// It has another audience.
    #[error("it is for another audience")]
    Audience,
    /// It is a refresh token, which can only be used to obtain other tokens.
    #[error("it is a refresh token")]
    Refresh,
}

/// A key of UAA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// Modulus and exponent.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// Why it cannot be used.
    Unusable(String),
}

/// A key in the list of UAA, a JSON Web Key (RFC 7517).
#[derive(Debug, Deserialize)]
pub(super) struct Jwk {
    #[serde(default)]
    pub(super) kid: String,
    #[serde(default)]
    kty: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
}

/// A token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Jwt<'t> {
    /// The ID of its key, according to its header.
    pub(super) key_id: String,
    /// The signed text: header and payload.
    signed: &'t str,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct Header {
    #[serde(default)]
    alg: String,
    kid: Option<String>,
    /// Critical extensions, none of which is supported.
    crit: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    scope: Texts,
    #[serde(default)]
    aud: Texts,
    #[serde(default)]
    jti: String,
    /// Seconds since 1970.
    exp: Option<f64>,
    nbf: Option<f64>,
}

/// Texts: a list, or one text with spaces between them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Texts {
    Many(Vec<String>),
    One(String),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Texts {
    /// Whether it contains this text.
    pub(super) fn contain(&self, text: &str) -> bool {
        match self {
            Self::Many(texts) => texts.iter().any(|one| one == text),
            Self::One(texts) => texts.split(' ').any(|one| one == text),
        }
    }
}

impl Key {
    /// Why it cannot be used.
    pub(super) fn problem(&self) -> Option<&str> {
        match self {
            Self::Rsa { .. } => None,
            Self::Unusable(text) => Some(text),
        }
    }

    /// Reads a key of the list.
    pub(super) fn of(listed: &Jwk) -> Self {
        let Jwk { kid, kty, n, e } = listed;
        let unusable = |what: String| Self::Unusable(format!("the key {kid:?} of UAA {what}"));
        if kty != "RSA" {
            return unusable(format!("is of the type {kty:?}: only RSA is supported"));
        }
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let (Some(n), Some(e)) = (decoded(n), decoded(e)) else {
            return unusable("cannot be decoded".to_owned());
        };
        // A signed number may begin with zeros.
        let zeros = n.iter().take_while(|byte| **byte == 0).count();
        let n = n.get(zeros..).unwrap_or_default().to_vec();
        let bits = n.first().map_or(0, |first| 8 * n.len() - first.leading_zeros() as usize);
        if bits < KEY_BITS_MIN {
            return unusable(format!("has {bits} bits: at least {KEY_BITS_MIN} are required"));
        }
        if bits > KEY_BITS_MAX {
            return unusable(format!("has {bits} bits: at most {KEY_BITS_MAX} are supported"));
        }
        Self::Rsa { n, e }
    }
}

impl<'t> Jwt<'t> {
    /// Reads a token without verifying it.
    pub(super) fn parse(token: &'t str) -> Result<Self, JwtError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed)?;
        let decoded = |text| URL_SAFE_NO_PAD.decode(text).map_err(|_| JwtError::Malformed);
        let header: Header =
            serde_json::from_slice(&decoded(header)?).map_err(|_| JwtError::Malformed)?;
        if header.alg != ALGORITHM {
            return Err(JwtError::Algorithm(header.alg));
        }
        if header.crit.is_some() {
            return Err(JwtError::Malformed);
        }
        let key_id = header.kid.ok_or(JwtError::NoKey)?;
        Ok(Self { key_id, signed, claims: decoded(claims)?, signature: decoded(signature)? })
    }

    /// Verifies the token with modulus and exponent of its key, at this time (nanoseconds since
    /// 1970) and for this audience, if one is wanted. Returns its scopes.
    pub(super) fn verify(
        &self,
        (n, e): (&[u8], &[u8]),
        now_ns: i64,
        audience: Option<&str>,
    ) -> Result<Texts, JwtError> {
        RsaPublicKeyComponents { n, e }
            .verify(&RSA_PKCS1_2048_8192_SHA256, self.signed.as_bytes(), &self.signature)
            .map_err(|_| JwtError::Signature)?;
        let claims: Claims =
            serde_json::from_slice(&self.claims).map_err(|_| JwtError::Malformed)?;
        let now = now_ns as f64 / 1e9;
        if claims.exp.is_none_or(|exp| now >= exp) {
            return Err(JwtError::Expired);
        }
        if claims.nbf.is_some_and(|nbf| now < nbf) {
            return Err(JwtError::Early);
        }
        if claims.jti.ends_with(REFRESH_SUFFIX) {
            return Err(JwtError::Refresh);
        }
        if audience.is_some_and(|audience| !claims.aud.contain(audience)) {
            return Err(JwtError::Audience);
        }
        Ok(claims.scope)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_testkit::TokenKey;

    use super::*;

    const NOW_NS: i64 = 1_795_288_351_000_000_000;
    const NOW: i64 = 1_795_288_351;

    fn key(key: &TokenKey) -> Key {
        Key::of(&serde_json::from_value(key.listed()).unwrap())
    }

    fn verified(token: &str, audience: Option<&str>) -> Result<Texts, JwtError> {
        let Key::Rsa { n, e } = key(&TokenKey::first("key-1")) else { panic!("it is usable") };
        Jwt::parse(token)?.verify((&n, &e), NOW_NS, audience)
    }

    fn signed(claims: &Value) -> String {
        TokenKey::first("key-1").token(claims)
    }

    #[test]
    fn only_signed_tokens_that_are_currently_valid_are_accepted() {
        let scopes = Texts::Many(vec!["openid".to_owned()]);
        let claims = |changes: Value| {
            let mut claims = json!({ "scope": ["openid"], "aud": ["doppler"], "exp": NOW + 1 });
            for (name, value) in changes.as_object().unwrap() {
                claims[name] = value.clone();
            }
            signed(&claims)
        };
        let valid = claims(json!({}));
        assert_eq!(Jwt::parse(&valid).unwrap().key_id, "key-1");
        assert_eq!(verified(&valid, None), Ok(scopes.clone()));
        assert_eq!(verified(&valid, Some("doppler")), Ok(scopes.clone()));
        assert_eq!(
            verified(&claims(json!({ "nbf": NOW, "aud": "a doppler" })), Some("doppler")),
            { Ok(scopes) }
        );
        for (token, error) in [
            (claims(json!({ "exp": NOW })), JwtError::Expired),
            (signed(&json!({ "scope": ["openid"] })), JwtError::Expired),
            (claims(json!({ "nbf": NOW + 1 })), JwtError::Early),
            (claims(json!({ "aud": ["cloud_controller"] })), JwtError::Audience),
            (claims(json!({ "aud": null })), JwtError::Malformed),
            (claims(json!({ "jti": "5c1f-r" })), JwtError::Refresh),
            (claims(json!({ "scope": 5 })), JwtError::Malformed),
        ] {
            assert_eq!(verified(&token, Some("doppler")), Err(error), "{token}");
        }
        let another = TokenKey::second("key-1").token(&json!({ "exp": NOW + 1 }));
        assert_eq!(verified(&another, None), Err(JwtError::Signature));
    }

    #[test]
    fn tokens_that_were_changed_or_signed_differently_are_rejected() {
        let first = TokenKey::first("key-1");
        let claims = json!({ "scope": ["doppler.firehose"], "exp": NOW + 1 });
        let algorithm = |name: &str| Err(JwtError::Algorithm(name.to_owned()));
        assert_eq!(verified(&first.unsigned(&claims), None), algorithm("none"));
        assert_eq!(verified(&first.with_public_key_as_secret(&claims), None), algorithm("HS256"));
        let (header, with_claims) = (json!({ "alg": "RS256" }), signed(&claims));
        assert_eq!(verified(&first.with_header(&header, &claims), None), Err(JwtError::NoKey));
        let header = json!({ "alg": "RS256", "kid": "key-1", "crit": ["exp"] });
        assert_eq!(verified(&first.with_header(&header, &claims), None), Err(JwtError::Malformed));
        // A change of any byte invalidates the signature.
        for at in 0..with_claims.len() {
            let mut bytes = with_claims.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'Q' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(verified(&changed, None).is_err(), "{changed}");
        }
        for text in ["", ".", "..", "a.b.c", "opaque", &with_claims[..with_claims.len() / 2]] {
            assert!(verified(text, None).is_err(), "{text}");
        }
    }

    #[test]
    fn unusable_keys_report_the_reason() {
        let unusable = |listed: Value| match Key::of(&serde_json::from_value(listed).unwrap()) {
            Key::Unusable(text) => text,
            Key::Rsa { .. } => panic!("it can be used"),
        };
        // Twelve zeros are in front.
        let n = format!("AA{}A", "_".repeat(168));
        let short = json!({ "kid": "old", "kty": "RSA", "n": n, "e": "AQAB" });
        let text = "the key \"old\" of UAA has 1012 bits: at least 2048 are required";
        assert_eq!(unusable(short), text);
        let n = format!("{}A", "_".repeat(1366));
        let long = json!({ "kid": "long", "kty": "RSA", "n": n, "e": "AQAB" });
        assert!(unusable(long).ends_with("bits: at most 8192 are supported"));
        assert!(unusable(json!({ "kty": "EC" })).ends_with("\"EC\": only RSA is supported"));
        let damaged = json!({ "kty": "RSA", "n": "?", "e": "AQAB" });
        assert!(unusable(damaged).ends_with("cannot be decoded"));
        let mut listed = TokenKey::first("key-1").listed();
        let usual = Key::of(&serde_json::from_value(listed.clone()).unwrap());
        // A sign byte in front, as some releases of UAA write it.
        let n = URL_SAFE_NO_PAD.decode(listed["n"].as_str().unwrap()).unwrap();
        listed["n"] = URL_SAFE_NO_PAD.encode([&[0][..], &n].concat()).into();
        assert_eq!(Key::of(&serde_json::from_value(listed).unwrap()), usual);
    }
}
