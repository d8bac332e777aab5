//! Routes that state what they need.
//!
//! Invariant: a route cannot be added without a [`Permission`]; if the gate is missing, requests
//! are answered with an error.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::routing::MethodRouter;
use axum::{Extension, Router};

use super::gate::Gate;
use super::requester::Permission;
use crate::compression::compress;
use crate::state::ApiState;

/// Handlers of some methods that need the same permission.
pub(crate) struct GuardedMethods(MethodRouter<Arc<ApiState>>);

/// Lets only requests with this permission reach the handlers.
pub(crate) fn needs(
    permission: Permission,
    methods: MethodRouter<Arc<ApiState>>,
) -> GuardedMethods {
    let check = move |Extension(gate): Extension<Arc<Gate>>, request: Request, next: Next| async move {
        gate.pass(permission, request, next).await
    };
    GuardedMethods(methods.route_layer(from_fn(check)))
}

/// Routes of the API.
#[derive(Debug, Default)]
pub(crate) struct Routes(Router<Arc<ApiState>>);

impl Routes {
    /// Adds a path with its methods.
    pub(crate) fn on<const N: usize>(self, path: &str, methods: [GuardedMethods; N]) -> Self {
        let all = methods.into_iter().map(|GuardedMethods(methods)| methods);
        Self(self.0.route(path, all.fold(MethodRouter::new(), MethodRouter::merge)))
    }

    /// Adds other routes.
    pub(crate) fn merge(self, others: Self) -> Self {
        Self(self.0.merge(others.0))
    }

    /// Compresses the responses of these routes for clients that accept it.
    pub(crate) fn compressed(self) -> Self {
        Self(self.0.layer(from_fn(compress)))
    }

    /// Limits the body of requests to these routes.
    pub(crate) fn with_body_max(self, bytes: usize) -> Self {
        Self(self.0.layer(DefaultBodyLimit::max(bytes)))
    }

    /// All routes, behind this gate.
    pub(crate) fn behind(self, gate: Arc<Gate>) -> Router<Arc<ApiState>> {
        self.0.layer(Extension(gate))
    }
}
