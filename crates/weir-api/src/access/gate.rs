//! The gate: identifies who has sent a request, and lets it pass or refuses it.
//!
//! A request is authorized by `Authorization: Bearer TOKEN`, by the header in which Datadog's
//! clients send the key of their user, or by the cookie of a session.
//!
//! Invariants: a request that is refused does not reach its handler; tokens are compared as hashes,
//! to their ends, and appear in no message; an invalid token is answered after a pause, in which
//! its connection may be replaced by a new one; local requests need a token like all others, since
//! a proxy on the machine makes every request local.

use std::io;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use weir_host::{Clock, ConnectionSlot, Secret};
use weir_store::query::Access;

use super::failures::{FailureReason, Failures};
use super::limits::FAILURE_PAUSE;
use super::requester::{Permission, Requester, Role, access_to};
use super::session::cookie_id;
use super::sign_ins::SignIns;
use super::tokens::applications::APPLICATIONS_MAX;
use super::tokens::{AccessSettings, Denied, Owner, Rights, TokenHashes, Tokens, may_be_token};
use crate::guard::Sender;
use crate::problem::Problem;
use crate::response::problem_for_path;

/// Where Datadog's clients send the key of their user.
const DATADOG_KEY: HeaderName = HeaderName::from_static("dd-application-key");

/// Settings of access control of the API.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiAccess {
    /// Tokens of operators, and the servers that verify tokens.
    pub tokens: AccessSettings,
    /// Tokens that may read everything, separated by commas.
    pub read_tokens: Option<Secret>,
}

/// Access control of the API.
#[derive(Debug)]
pub(crate) struct Gate {
    /// `None`: there is none.
    checks: Option<Checks>,
    failures: Failures,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Checks {
    tokens: Tokens,
    readers: TokenHashes,
    sign_ins: SignIns,
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    reason: FailureReason,
    problem: Problem,
}

/// What authorizes a request.
enum Credentials {
    Token(String),
    Session(String),
}

impl Refusal {
    fn new(reason: FailureReason, code: StatusCode, title: &str) -> Self {
        Self { reason, problem: Problem::new(code, title) }
    }

    /// The token is not valid.
    pub(super) fn invalid() -> Self {
        let title = "the token is not valid";
        Self::new(FailureReason::Invalid, StatusCode::UNAUTHORIZED, title)
    }

    fn without_token() -> Self {
        let title = "a token is required: send Authorization: Bearer TOKEN, or sign in";
        Self::new(FailureReason::NoToken, StatusCode::UNAUTHORIZED, title)
    }

    fn without_session() -> Self {
        let title = "the session has ended: sign in again";
        Self::new(FailureReason::NoSession, StatusCode::UNAUTHORIZED, title)
    }

    fn forbidden(problem: Problem) -> Self {
        Self { reason: FailureReason::Forbidden, problem }
    }

    fn of(denied: Denied) -> Self {
        match denied {
            Denied::Unknown => Self::invalid(),
            Denied::Forbidden => {
                let title = "the owner of the token may not read any records";
                Self::forbidden(Problem::new(StatusCode::FORBIDDEN, title))
            }
            Denied::Unavailable(reason) => {
                tracing::warn!(reason, "access to the API could not be checked");
                let title = "access could not be checked: see weir's log";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, title).retry_after(5);
                Self { reason: FailureReason::Unavailable, problem }
            }
        }
    }
}

impl Gate {
    /// Reads the certificate files of the settings; without settings there is no access control.
    pub(crate) fn new(settings: Option<&ApiAccess>, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let checks = settings.map(|settings| {
            Ok::<_, io::Error>(Checks {
                tokens: Tokens::new(&settings.tokens, clock.clone())?,
                readers: TokenHashes::new(settings.read_tokens.as_ref()),
                sign_ins: SignIns::default(),
            })
        });
        Ok(Self { checks: checks.transpose()?, failures: Failures::default(), clock })
    }

    /// Whether requests need a token.
    pub(crate) fn is_closed(&self) -> bool {
        self.checks.is_some()
    }

    /// The number of requests refused for each reason, and of sessions; `None` without access
    /// control.
    pub(crate) fn metrics(&self) -> Option<(impl Iterator<Item = (&'static str, u64)>, usize)> {
        let sessions = self.checks.as_ref()?.sign_ins.count(self.clock.monotonic());
        let count = |reason: FailureReason| (reason.name(), self.failures.get(reason));
        Some((FailureReason::ALL.into_iter().map(count), sessions))
    }

    /// Lets a request pass with its [`Requester`] if its sender has the permission.
    pub(super) async fn pass(
        &self,
        permission: Permission,
        request: Request,
        next: Next,
    ) -> Response {
        if !self.is_closed() {
            // Whoever it is: a client that has sent a whole head takes precedence.
            request.extensions().get().map(ConnectionSlot::admit);
        }
        if permission == Permission::Public {
            return next.run(request).await;
        }
        let (mut head, body) = request.into_parts();
        match self.requester(permission, &head).await {
            Ok(requester) => {
                // A client with a token takes precedence over others.
                head.extensions.get().map(ConnectionSlot::admit);
                head.extensions.insert(requester);
                next.run(Request::from_parts(head, body)).await
            }
            Err(refusal) => {
                // The body is not read while its sender waits.
                drop(body);
                let problem = self.refused(refusal, &head.extensions).await;
                let mut response = problem_for_path(&head.uri, problem);
                challenge(&mut response);
                response
            }
        }
    }

    /// Counts and reports a refusal, and waits if the sender may be guessing.
    pub(super) async fn refused(&self, refusal: Refusal, extensions: &Extensions) -> Problem {
        self.failures.count(refusal.reason);
        if refusal.reason == FailureReason::Invalid {
            self.failures.report(sender(extensions).0, self.clock.monotonic());
            let slot = extensions.get::<ConnectionSlot>();
            let _may_be_replaced = slot.map(ConnectionSlot::receiving);
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
        refusal.problem
    }

    /// The sender of a request, if it has the permission.
    async fn requester(&self, permission: Permission, head: &Parts) -> Result<Requester, Refusal> {
        let Some(checks) = &self.checks else {
            let role = Role::Anyone { is_local: sender(&head.extensions).is_local() };
            role.require(permission).map_err(Refusal::forbidden)?;
            return Ok(Requester { role, access: Access::all(), is_of_uaa: false });
        };
        let (token, session) = match credentials(&head.headers)? {
            Credentials::Token(token) => (token, None),
            Credentials::Session(id) => {
                let token = checks.sign_ins.token(&id, self.clock.monotonic());
                (token.ok_or_else(Refusal::without_session)?, Some(id))
            }
        };
        let (role, is_of_uaa) = match (checks.role(&token).await, session) {
            (Ok(role), _) => role,
            (Err(Denied::Unknown), Some(id)) => {
                // The token has expired or was revoked.
                checks.sign_ins.end(&id);
                return Err(Refusal::without_session());
            }
            (Err(denied), _) => return Err(Refusal::of(denied)),
        };
        role.require(permission).map_err(Refusal::forbidden)?;
        let access = match (role, permission) {
            (Role::Developer, Permission::Records) => checks.access(&token).await?,
            // What it may see is not needed, and the Cloud Controller is not asked for it.
            (Role::Developer, _) => access_to(&[]),
            (Role::Operator | Role::Reader | Role::Anyone { .. }, _) => Access::all(),
        };
        Ok(Requester { role, access, is_of_uaa })
    }

    /// Begins a session: the id for its cookie, and the role. `None` without access control.
    pub(super) async fn sign_in(
        &self,
        token: &str,
        path: &str,
    ) -> Option<Result<(String, Role), Refusal>> {
        let checks = self.checks.as_ref()?;
        if !may_be_token(token) {
            return Some(Err(Refusal::invalid()));
        }
        let role = match checks.role(token).await {
            Ok((role, _)) => role,
            Err(denied) => return Some(Err(Refusal::of(denied))),
        };
        let begun = checks.sign_ins.begin(token, path, self.clock.monotonic());
        Some(begun.map(|id| (id, role)).map_err(|_| {
            Refusal::of(Denied::Unavailable("the system has no random numbers".to_owned()))
        }))
    }

    /// Ends a session; returns the path of its cookie.
    pub(super) fn sign_out(&self, id: &str) -> Option<String> {
        self.checks.as_ref()?.sign_ins.end(id)
    }
}

impl Checks {
    /// The role of the owner of a token, and whether it is a token of UAA.
    async fn role(&self, token: &str) -> Result<(Role, bool), Denied> {
        if self.readers.has(token) {
            return Ok((Role::Reader, false));
        }
        Ok(match self.tokens.owner(token).await? {
            Owner::Configured => (Role::Operator, false),
            Owner::OfUaa(Rights { administers: true, .. }) => (Role::Operator, true),
            Owner::OfUaa(Rights { reads_everything: true, .. }) => (Role::Reader, true),
            Owner::OfUaa(_) => (Role::Developer, true),
        })
    }

    /// What a developer may see.
    async fn access(&self, token: &str) -> Result<Access, Refusal> {
        let applications = self.tokens.applications(token).await.map_err(Refusal::of)?;
        applications.map(|applications| access_to(&applications)).ok_or_else(|| {
            let title = format!(
                "the owner of the token may see more than {APPLICATIONS_MAX} applications and \
                 service instances, which is too many to search; a scope that may read \
                 everything is required"
            );
            Refusal::forbidden(Problem::new(StatusCode::FORBIDDEN, title))
        })
    }
}

/// Adds how to authorize a request (RFC 6750), which a response with this status must say.
pub(super) fn challenge(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer realm=\"weir\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
}

fn sender(extensions: &Extensions) -> Sender {
    extensions.get().copied().unwrap_or_default()
}

/// The token of a request, or the id of its session. A token takes precedence.
fn credentials(headers: &HeaderMap) -> Result<Credentials, Refusal> {
    let valid = |token: &str| {
        let token = Some(token).filter(|token| may_be_token(token));
        token.map(|token| Credentials::Token(token.to_owned())).ok_or_else(Refusal::invalid)
    };
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) =
            value.to_str().unwrap_or_default().split_once(' ').unwrap_or_default();
        return if scheme.eq_ignore_ascii_case("bearer") {
            valid(token.trim())
        } else {
            Err(Refusal::invalid())
        };
    }
    if let Some(value) = headers.get(DATADOG_KEY) {
        return valid(value.to_str().unwrap_or_default());
    }
    cookie_id(headers).map(Credentials::Session).ok_or_else(Refusal::without_token)
}
