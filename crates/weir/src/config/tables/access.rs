//! Keys of access control by tokens: of the API, and of the services for Loggregator's readers.

use super::super::choices::{Choice as _, TokenCheck};
use super::super::destination::TLS as CLIENT_TLS;
use super::{Field, FieldDefault, ValueType, field};
use FieldDefault::{Unset, Value};

const UAA_VERIFY: Field = field(
    "uaa_verify",
    ValueType::Choice(TokenCheck::WORDS),
    Value("\"check_token\""),
    "How to verify tokens from UAA.",
);

const UAA_CLIENT: Field = field(
    "uaa_client",
    ValueType::Text,
    Unset("required with `uaa`, unless `uaa_verify` is `keys`"),
    "Name of a UAA client with the authority `uaa.resource`.",
);

const UAA_SECRET: Field = field(
    "uaa_secret",
    ValueType::Secret,
    Unset("required with `uaa`, unless `uaa_verify` is `keys`"),
    "Secret of `uaa_client`.",
);

const UAA_AUDIENCE: Field = field(
    "uaa_audience",
    ValueType::Text,
    Unset("any audience"),
    "Audience (`aud`) that tokens from UAA must have, such as `doppler`; others are rejected.",
);

const TLS: Field = field(
    "tls",
    ValueType::Table(CLIENT_TLS),
    Unset("the system's CA certificates"),
    "TLS settings for UAA and the Cloud Controller.",
);

/// `[api.access]`.
pub(super) const API: &[Field] = &[
    field(
        "tokens",
        ValueType::Secret,
        Unset("no such tokens"),
        "Comma-separated list of tokens of operators, who may read and change everything.",
    ),
    field(
        "read_tokens",
        ValueType::Secret,
        Unset("no such tokens"),
        "Comma-separated list of tokens that may read everything and change nothing.",
    ),
    field(
        "uaa",
        ValueType::Url,
        Unset("only `tokens` and `read_tokens`"),
        "URL of the UAA whose tokens are accepted. With the scope `cloud_controller.admin` they may \
         read and change everything, with `doppler.firehose` or `logs.admin` read everything, and \
         without any of them read the records of the applications of their owner.",
    ),
    UAA_VERIFY,
    UAA_CLIENT,
    UAA_SECRET,
    UAA_AUDIENCE,
    field(
        "cloud_controller",
        ValueType::Url,
        Unset("developers may not read anything"),
        "URL of the Cloud Controller, which lists the applications and service instances of the \
         owner of a token. A list is cached for a minute.",
    ),
    TLS,
];

/// `[loggregator.access]`.
pub(super) const READERS: &[Field] = &[
    field(
        "tokens",
        ValueType::Secret,
        Unset("only tokens from UAA"),
        "Comma-separated list of tokens that may read everything, in addition to those from UAA.",
    ),
    field(
        "uaa",
        ValueType::Url,
        Unset("only `tokens`"),
        "URL of the UAA that issues the tokens of clients. Tokens with the scope `doppler.firehose` \
         or `logs.admin` may read everything.",
    ),
    UAA_VERIFY,
    UAA_CLIENT,
    UAA_SECRET,
    UAA_AUDIENCE,
    field(
        "cloud_controller",
        ValueType::Url,
        Unset("only operators may read"),
        "URL of the Cloud Controller, which decides whether the owner of a token may read the logs \
         of an application. A positive answer is cached for a minute.",
    ),
    TLS,
];
