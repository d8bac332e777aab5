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

use super::failures::{FailureReason, Failures};
use super::limits::FAILURE_PAUSE;
use super::requester::{Permission, Requester, Role};
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

    /// Which keys of tokens cannot be used, and why.
    pub(crate) fn key_problem(&self) -> Option<String> {
        self.checks.as_ref()?.tokens.key_problem()
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
            return Ok(Requester::with_everything(role, false, None));
        };
        let (token, session) = match credentials(&head.headers)? {
            Credentials::Token(token) => (token, None),
            Credentials::Session(id) => {
                let session = checks.sign_ins.token(&id, self.clock.monotonic());
                let (token, end) = session.ok_or_else(Refusal::without_session)?;
                (token, Some((id, end)))
            }
        };
        let (role, is_of_uaa) = match (checks.role(&token).await, &session) {
            (Ok(role), _) => role,
            (Err(Denied::Unknown), Some((id, _))) => {
                // The token has expired or was revoked.
                checks.sign_ins.end(id);
                return Err(Refusal::without_session());
            }
            (Err(denied), _) => return Err(Refusal::of(denied)),
        };
        role.require(permission).map_err(Refusal::forbidden)?;
        let session = session.map(|(_, end)| end);
        let applications = match (role, permission) {
            (Role::Developer, Permission::Records) => checks.applications(&token).await?,
            // What it may see is not needed, and the Cloud Controller is not asked for it.
            (Role::Developer, _) => Arc::default(),
            (Role::Operator | Role::Reader | Role::Anyone { .. }, _) => {
                return Ok(Requester::with_everything(role, is_of_uaa, session));
            }
        };
        Ok(Requester::with_applications(role, applications, session))
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
            Refusal::of(Denied::Unavailable("the system cannot provide random numbers".to_owned()))
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

    /// The applications whose records a developer may see.
    async fn applications(&self, token: &str) -> Result<Arc<[String]>, Refusal> {
        let applications = self.tokens.applications(token).await.map_err(Refusal::of)?;
        applications.ok_or_else(|| {
            let title = format!(
                "the owner of the token may see more than {APPLICATIONS_MAX} applications and \
                 service instances, which is too many to search; a scope that may read \
                 everything is required"
            );
            Refusal::forbidden(Problem::new(StatusCode::FORBIDDEN, title))
        })
    }
}

/// Adds the header that says how to authorize a request, which a response with this status must
/// have (RFC 6750).
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use weir_pipeline::config::{Endpoint, TlsSettings};
    use weir_testkit::{Cloud, FakeClock};

    use super::super::requester::access_to;
    use super::super::tokens::{UaaClient, UaaSettings};
    use super::*;

    const OWN: &str = "0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11";
    const MINUTE: Duration = Duration::from_mins(1);

    fn gate(cloud: &Cloud, clock: &FakeClock) -> Gate {
        let secret = |text: &str| Secret::new(text.to_owned());
        let endpoint = Endpoint::url(&cloud.url()).unwrap();
        let client = UaaClient { name: "weir".to_owned(), secret: secret("cloud-secret") };
        let uaa = UaaSettings { endpoint: endpoint.clone(), client: Some(client), audience: None };
        let tokens = AccessSettings {
            tokens: None,
            uaa: Some(uaa),
            cloud_controller: Some(endpoint),
            tls: TlsSettings::default(),
        };
        let settings = ApiAccess { tokens, read_tokens: Some(secret("reader")) };
        Gate::new(Some(&settings), Arc::new(clock.clone())).unwrap()
    }

    async fn asked(gate: &Gate, name: &str, value: &str) -> Result<Requester, FailureReason> {
        let request = Request::builder().header(name, value).body(Body::empty()).unwrap();
        let (head, _) = request.into_parts();
        let requester = gate.requester(Permission::Records, &head).await;
        requester.map_err(|refusal| refusal.reason)
    }

    #[tokio::test]
    async fn a_session_ends_with_its_token() {
        let (cloud, clock) = (Cloud::start(), FakeClock::at(0));
        cloud.add_token("developer", "openid");
        cloud.allow("developer", OWN);
        let gate = gate(&cloud, &clock);
        let (id, role) = gate.sign_in("developer", "/").await.unwrap().unwrap();
        assert_eq!(role, Role::Developer);
        let cookie = format!("weir_session={id}");
        let requester = asked(&gate, "cookie", &cookie).await.unwrap();
        assert_eq!(requester.access(), access_to(&[OWN.to_owned()]));
        assert!(requester.may_lose_access());
        cloud.remove_token("developer");
        assert!(asked(&gate, "cookie", &cookie).await.is_ok(), "it was verified a moment ago");
        clock.advance(MINUTE);
        assert_eq!(asked(&gate, "cookie", &cookie).await.unwrap_err(), FailureReason::NoSession);
        assert_eq!(gate.metrics().unwrap().1, 0, "it was removed");
        cloud.add_token("developer", "openid");
        assert_eq!(asked(&gate, "cookie", &cookie).await.unwrap_err(), FailureReason::NoSession);
    }

    #[tokio::test]
    async fn applications_are_listed_once_a_minute_for_all_requests() {
        let (cloud, clock) = (Cloud::start(), FakeClock::at(0));
        cloud.add_token("developer", "openid");
        cloud.allow("developer", OWN);
        let gate = gate(&cloud, &clock);
        let ask = || asked(&gate, "authorization", "Bearer developer");
        // Verifies the token, which the following requests then share.
        ask().await.unwrap();
        let before = cloud.requests();
        clock.advance(MINUTE);
        let (a, b, c) = tokio::join!(ask(), ask(), ask());
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        // Each of them may have verified the token; the two lists were requested once.
        assert!(cloud.requests() - before <= 3 + 2, "{}", cloud.requests() - before);
        cloud.allow("developer", "7b1d6c2e-9a0f-4c1b-8b7e-3d5f2a6c9e00");
        let before = cloud.requests();
        assert_eq!(ask().await.unwrap().access(), access_to(&[OWN.to_owned()]));
        assert_eq!(cloud.requests(), before, "cached");
        clock.advance(MINUTE);
        cloud.fail(true);
        assert_eq!(ask().await.unwrap_err(), FailureReason::Unavailable);
        cloud.fail(false);
        let access = ask().await.unwrap().access();
        assert!(access != access_to(&[OWN.to_owned()]), "a failure is not kept: {access:?}");
    }

    #[tokio::test]
    async fn a_token_takes_precedence_over_a_session() {
        let (cloud, clock) = (Cloud::start(), FakeClock::at(0));
        let gate = gate(&cloud, &clock);
        let (id, _) = gate.sign_in("reader", "/").await.unwrap().unwrap();
        let headers = |authorization: &str| {
            let cookie = format!("weir_session={id}");
            let request = Request::builder().header("cookie", cookie);
            let request = request.header("authorization", authorization);
            request.body(Body::empty()).unwrap().into_parts().0
        };
        let wrong = gate.requester(Permission::Records, &headers("Bearer wrong")).await;
        assert_eq!(wrong.unwrap_err().reason, FailureReason::Invalid);
        let right = gate.requester(Permission::Everything, &headers("bearer reader")).await;
        assert_eq!(right.unwrap().role, Role::Reader);
        let change = gate.requester(Permission::Change, &headers("bearer reader")).await;
        assert_eq!(change.unwrap_err().reason, FailureReason::Forbidden);
        let taken: Vec<u64> = gate.metrics().unwrap().0.map(|(_, count)| count).collect();
        assert_eq!(taken, [0; 5], "they are counted with the response");
    }
}
