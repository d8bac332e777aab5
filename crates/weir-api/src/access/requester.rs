//! Permissions of routes, and who has sent a request.
//!
//! Invariant: a developer never has a permission other than those for records of its applications;
//! an expression that restricts a developer to no applications matches nothing.

use std::sync::Arc;

use axum::http::StatusCode;
use weir_expr::{Expr, ExprKind, Field, Literal, Reserved, Test};
use weir_store::query::Access;

use super::limits::RECHECK_INTERVAL;
use super::sign_ins::SessionEnd;
use crate::problem::Problem;

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Nothing: health, files of the page, and signing in.
    Public,
    /// A valid token.
    SignedIn,
    /// To read records: everything, or those of some applications. The handler restricts what it
    /// reads to [`Requester::access`].
    Records,
    /// To read everything.
    Everything,
    /// To change what weir keeps for the page, or to make it connect to a destination.
    Change,
    /// To change what cannot be undone, or sends records elsewhere. Without access control only
    /// clients on this machine may; for others this is the title of the problem.
    Operate(&'static str),
}

/// The role of the sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Without access control: any client.
    Anyone {
        /// It is on this machine.
        is_local: bool,
    },
    /// May read and change everything.
    Operator,
    /// May read everything.
    Reader,
    /// May read the records of its applications.
    Developer,
}

/// The sender of a request, and what it may see.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    pub(super) role: Role,
    pub(super) access: Access,
    /// The applications whose records it may see; `None`: all.
    pub(super) applications: Option<Arc<[String]>>,
    /// Its token is from UAA, so it may expire or be revoked.
    pub(super) is_of_uaa: bool,
    /// The end of its session; `None` if it has sent a token.
    pub(super) session: Option<SessionEnd>,
}

impl Requester {
    /// May see everything.
    pub(super) fn with_everything(
        role: Role,
        is_of_uaa: bool,
        session: Option<SessionEnd>,
    ) -> Self {
        Self { role, access: Access::all(), applications: None, is_of_uaa, session }
    }

    /// May see the records of these applications.
    pub(super) fn with_applications(
        role: Role,
        applications: Arc<[String]>,
        session: Option<SessionEnd>,
    ) -> Self {
        let access = access_to(&applications);
        Self { role, access, applications: Some(applications), is_of_uaa: true, session }
    }

    /// The records that it may see, for every query.
    pub(crate) fn access(&self) -> Access {
        self.access.clone()
    }

    /// This expression, restricted to the records that it may see.
    pub(crate) fn restricted(&self, query: Expr) -> Expr {
        match self.access.restriction() {
            Some(only) => Expr::new(ExprKind::And(vec![query, only.clone()])),
            None => query,
        }
    }

    /// Whether it may see everything.
    pub(crate) fn sees_everything(&self) -> bool {
        self.applications.is_none()
    }

    /// Whether it may see what belongs to this application.
    pub(crate) fn may_see(&self, app: &str) -> bool {
        self.applications.as_ref().is_none_or(|own| own.iter().any(|own| own == app))
    }

    /// Whether it may see what belongs to these applications together; `None`: to all of them.
    pub(crate) fn may_see_all_of(&self, apps: Option<&[String]>) -> bool {
        match apps {
            None => self.sees_everything(),
            Some(apps) => apps.iter().all(|app| self.may_see(app)),
        }
    }

    /// Whether access must be checked again after a while.
    pub(super) fn may_lose_access(&self) -> bool {
        self.is_of_uaa || self.session.is_some()
    }

    /// Returns when a stream must end, so that access is checked again when its client reconnects:
    /// after [`RECHECK_INTERVAL`] if it may be lost, and as soon as the session has ended.
    pub(crate) fn must_reconnect(&self) -> impl Future<Output = ()> + Send + 'static {
        let (may_lose_access, session) = (self.may_lose_access(), self.session.clone());
        async move {
            match session {
                Some(session) => {
                    let _over = tokio::time::timeout(RECHECK_INTERVAL, session.ended()).await;
                }
                None if may_lose_access => tokio::time::sleep(RECHECK_INTERVAL).await,
                None => std::future::pending().await,
            }
        }
    }
}

impl Role {
    /// The name in documents.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anyone { .. } => "anyone",
            Self::Operator => "operator",
            Self::Reader => "reader",
            Self::Developer => "developer",
        }
    }

    /// Fails with a problem if the role does not have a permission.
    pub(super) fn require(self, permission: Permission) -> Result<(), Problem> {
        let only_operators = "the token may only be used to read, not to change anything";
        let title = match (self, permission) {
            (Self::Operator | Self::Anyone { is_local: true }, _)
            | (_, Permission::Public | Permission::SignedIn | Permission::Records)
            | (Self::Reader, Permission::Everything)
            | (Self::Anyone { .. }, Permission::Everything | Permission::Change) => return Ok(()),
            (Self::Anyone { is_local: false }, Permission::Operate(title)) => title,
            (Self::Reader, Permission::Change | Permission::Operate(_)) => only_operators,
            (
                Self::Developer,
                Permission::Everything | Permission::Change | Permission::Operate(_),
            ) => "the token may only be used to read the records of the applications of its owner",
        };
        Err(Problem::new(StatusCode::FORBIDDEN, title))
    }
}

/// Access to the records of these applications. The service of a record is its application
/// (Loggregator's source id), and a resource's service takes precedence over one that a record
/// names itself.
pub(super) fn access_to(applications: &[String]) -> Access {
    let service = Field::Reserved(Reserved::Service);
    let is_of =
        |id: &String| Expr::term(service.clone(), Test::Equals(Literal::quoted(id.as_str())));
    let mut terms: Vec<Expr> = applications.iter().map(is_of).collect();
    Access::only(match terms.len() {
        0 => Expr::all().negated(),
        1 => terms.remove(0),
        _ => Expr::new(ExprKind::Or(terms)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_permissions_of_their_name() {
        const OPERATE: Permission = Permission::Operate("only from here");
        let all = [
            Permission::SignedIn,
            Permission::Records,
            Permission::Everything,
            Permission::Change,
            OPERATE,
        ];
        for (role, allowed) in [
            (Role::Operator, 5),
            (Role::Anyone { is_local: true }, 5),
            (Role::Anyone { is_local: false }, 4),
            (Role::Reader, 3),
            (Role::Developer, 2),
        ] {
            let found = all.map(|permission| role.require(permission).is_ok());
            let wanted: [bool; 5] = std::array::from_fn(|index| index < allowed);
            assert_eq!(found, wanted, "{role:?}");
        }
    }

    #[test]
    fn developers_see_their_applications_alone() {
        let shown = |ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            access_to(&ids).restriction().unwrap().to_string()
        };
        assert_eq!(shown(&["a"]), "service:a");
        assert_eq!(shown(&["a", "b"]), "service:a OR service:b");
        assert!(access_to(&[]).restriction().unwrap().is_never());
    }
}
