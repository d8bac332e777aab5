//! The applications and service instances that the owner of a token may see, as the Cloud
//! Controller lists them (its API v3: `GET /v3/apps`, `GET /v3/service_instances`).
//!
//! Invariants: a list is complete or it is not used; it is cached for [`CACHE_TIME`], and requested
//! once however many requests wait for it; lists and their number are limited.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::OnceCell;
use weir_pipeline::platform::{PlatformClient, PlatformRequest};

use super::grants::Grants;
use super::{CACHE_TIME, Denied, hash, is_guid};

/// Maximum number of applications of one developer: each is a term of every query.
pub(crate) const APPLICATIONS_MAX: usize = 1000;

/// Number of applications per page: each takes 2 to 4 KB. The Cloud Controller allows 5000.
const PAGE_SIZE: usize = 250;

/// Maximum number of pages of each list: one more than fits shows that there are too many.
const PAGES_MAX: usize = APPLICATIONS_MAX / PAGE_SIZE + 1;

/// Maximum length of a page: applications with long annotations.
pub(super) const LISTING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of cached lists: together they take at most 32 MiB.
const LISTS_MAX: usize = 256;

/// The lists, in the Cloud Controller's API.
const PATHS: [&str; 2] = ["/v3/apps", "/v3/service_instances"];

type List = Option<Arc<[String]>>;

/// Lists of applications, by token.
#[derive(Debug)]
pub(super) struct ApplicationLists {
    cloud_controller: PlatformClient,
    cached: Grants<Arc<OnceCell<List>>>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
struct Page {
    pagination: Pagination,
    resources: Vec<Resource>,
}

#[derive(Debug, Deserialize)]
struct Pagination {
    /// Link to the next page.
    next: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    guid: String,
}

impl ApplicationLists {
    pub(super) fn new(cloud_controller: PlatformClient) -> Self {
        Self { cloud_controller, cached: Grants::new(CACHE_TIME, LISTS_MAX) }
    }

    /// Returns the ids that the owner of a token may see; `None` if there are too many.
    pub(super) async fn of(&self, token: &str, now: Duration) -> Result<List, Denied> {
        let list = self.cached.get_or_add(hash(&[token.as_bytes()]), now, Arc::default);
        // A failure is not kept: the next request tries again.
        list.get_or_try_init(|| self.request(token)).await.cloned()
    }

    async fn request(&self, token: &str) -> Result<List, Denied> {
        let mut all = Vec::new();
        for path in PATHS {
            let mut number = 1;
            loop {
                let path = format!("{path}?page={number}&per_page={PAGE_SIZE}");
                let page = self.page(&path, token).await?;
                all.extend(page.resources.into_iter().map(|resource| resource.guid));
                if page.pagination.next.is_none() {
                    break;
                }
                number += 1;
                if number > PAGES_MAX {
                    return Ok(None);
                }
            }
        }
        if all.len() > APPLICATIONS_MAX {
            return Ok(None);
        }
        all.retain(|id| is_guid(id));
        Ok(Some(all.into()))
    }

    async fn page(&self, path: &str, token: &str) -> Result<Page, Denied> {
        let request = PlatformRequest::Get { path, token: Some(token) };
        let answer = self.cloud_controller.send(&request).await.map_err(Denied::Unavailable)?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body).map_err(|error| {
                let text = format!("the Cloud Controller returned an invalid list: {error}");
                Denied::Unavailable(text)
            }),
            401 => Err(Denied::Unknown),
            403 => Err(Denied::Forbidden),
            status => {
                let text = format!("the Cloud Controller returned status {status}");
                Err(Denied::Unavailable(text))
            }
        }
    }
}
