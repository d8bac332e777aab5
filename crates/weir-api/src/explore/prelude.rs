//! What every query handler imports.

pub(super) use std::sync::Arc;

pub(super) use axum::Extension;
pub(super) use axum::extract::rejection::QueryRejection;
pub(super) use axum::extract::{Query, State};
pub(super) use axum::http::{HeaderMap, StatusCode};
pub(super) use axum::response::Response;
pub(super) use serde::{Deserialize, Serialize};
pub(super) use utoipa::{IntoParams, ToSchema};
pub(super) use weir_store::query::LogStore;

pub(super) use super::meta::Meta;
pub(super) use super::metrics::QueryKind;
pub(super) use super::query::{QuerySpec, bounded, parameters};
pub(super) use super::{Answer, Coverage};
pub(super) use crate::access::Requester;
pub(super) use crate::problem::Problem;
pub(super) use crate::state::ApiState;
