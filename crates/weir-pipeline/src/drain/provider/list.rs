//! Parses the responses of providers into bindings.
//!
//! Invariants: a binding that cannot be used is rejected with a text for the log of its
//! application, and does not affect others; a list does not contain the same binding twice.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use weir_host::Secret;

use crate::drain::binding::{Binding, DrainCredentials};

/// Maximum number of bindings of a list: ten times the largest number planned for.
const BINDINGS_MAX: usize = 100_000;

/// All bindings of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BindingList {
    /// Valid bindings, in the order of applications and URLs.
    pub bindings: Vec<Binding>,
    /// Rejected bindings.
    pub rejected: Vec<RejectedBinding>,
}

/// A binding that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RejectedBinding {
    /// The application, if there is one.
    pub app: Option<String>,
    /// The reason, for the log of the application, without credentials.
    pub text: String,
}

/// Why a response cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It is not in the expected form. The response may contain keys, and is not shown.
    #[error("is not a list of drains: line {line}, column {column}")]
    Json {
        /// Line of the response.
        line: usize,
        /// Column in that line.
        column: usize,
    },
    /// It has too many bindings.
    #[error("has more than {BINDINGS_MAX} bindings")]
    TooMany,
}

/// A page of the Cloud Controller. A page without results is an error, since it would remove all
/// drains.
#[derive(Deserialize)]
struct Page<R> {
    #[serde(alias = "Results")]
    results: R,
    #[serde(default)]
    next_id: Option<u64>,
}

/// A URL and its applications.
#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    url: String,
    #[serde(default)]
    credentials: Option<Vec<Credentials>>,
}

#[derive(Deserialize)]
struct Credentials {
    #[serde(default)]
    cert: Option<String>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    ca: Option<String>,
    #[serde(default)]
    apps: Option<Vec<App>>,
}

#[derive(Deserialize)]
struct App {
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    app_id: Option<String>,
}

/// An application of an older Cloud Controller.
#[derive(Deserialize)]
struct AppDrains {
    #[serde(default)]
    drains: Option<Vec<String>>,
    #[serde(default)]
    hostname: Option<String>,
}

/// Gathers the bindings of all pages.
#[derive(Debug, Default)]
pub(super) struct ListBuilder {
    /// Valid bindings by application, sorted by URL and id.
    apps: BTreeMap<Option<String>, BTreeMap<(String, u64), Binding>>,
    rejected: Vec<RejectedBinding>,
    seen: usize,
}

impl ListBuilder {
    /// Adds the response of a binding cache.
    pub(super) fn add_bindings(&mut self, body: &[u8]) -> Result<(), PageError> {
        let entries: Vec<Entry> = parsed(body)?;
        entries.into_iter().try_for_each(|entry| self.add_entry(entry))
    }

    /// Adds the drains of a binding cache for everything.
    pub(super) fn add_aggregate(&mut self, body: &[u8]) -> Result<(), PageError> {
        let entries: Option<Vec<Entry>> = parsed(body)?;
        for entry in entries.unwrap_or_default() {
            if entry.url.is_empty() {
                continue;
            }
            let first = entry.credentials.unwrap_or_default().into_iter().next();
            let credentials = first.map(|first| secrets(&first)).unwrap_or_default();
            self.add(None, String::new(), &entry.url, credentials)?;
        }
        Ok(())
    }

    /// Adds a page of the Cloud Controller. Returns the number of the next one, or 0.
    pub(super) fn add_page(&mut self, body: &[u8]) -> Result<u64, PageError> {
        let page: Page<Vec<Entry>> = parsed(body)?;
        for entry in page.results {
            self.add_entry(entry)?;
        }
        Ok(page.next_id.unwrap_or_default())
    }

    /// Adds a page of an older Cloud Controller. Returns the number of the next one, or 0.
    pub(super) fn add_page_v4(&mut self, body: &[u8]) -> Result<u64, PageError> {
        let page: Page<BTreeMap<String, AppDrains>> = parsed(body)?;
        for (app, AppDrains { drains, hostname }) in page.results {
            let hostname = hostname.unwrap_or_default();
            for url in drains.unwrap_or_default() {
                self.add(Some(app.clone()), hostname.clone(), &url, DrainCredentials::default())?;
            }
        }
        Ok(page.next_id.unwrap_or_default())
    }

    fn add_entry(&mut self, entry: Entry) -> Result<(), PageError> {
        let all = entry.credentials.unwrap_or_default();
        if all.is_empty() {
            let text = "A syslog drain has no credentials, which list its applications".to_owned();
            self.reject(None, text)?;
        }
        for one in all {
            let credentials = secrets(&one);
            for App { hostname, app_id } in one.apps.unwrap_or_default() {
                // Without an application it would be a drain for everything.
                let Some(app) = app_id.filter(|app| !app.is_empty()) else {
                    self.reject(None, "A syslog drain names no application".to_owned())?;
                    continue;
                };
                let hostname = hostname.unwrap_or_default();
                self.add(Some(app), hostname, &entry.url, credentials.clone())?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        app: Option<String>,
        hostname: String,
        url: &str,
        credentials: DrainCredentials,
    ) -> Result<(), PageError> {
        match Binding::new(app.clone(), hostname, url, credentials) {
            Ok(binding) => {
                self.count()?;
                let key = (url.to_owned(), binding.id());
                self.apps.entry(app).or_default().insert(key, binding);
                Ok(())
            }
            Err(error) => self.reject(app, error.to_string()),
        }
    }

    fn reject(&mut self, app: Option<String>, text: String) -> Result<(), PageError> {
        self.count()?;
        self.rejected.push(RejectedBinding { app, text });
        Ok(())
    }

    fn count(&mut self) -> Result<(), PageError> {
        self.seen += 1;
        if self.seen > BINDINGS_MAX { Err(PageError::TooMany) } else { Ok(()) }
    }

    /// Returns everything that was added. If an application has too many drains, the first ones in
    /// the order of their URLs are used, as in the original.
    pub(super) fn build(self, drains_per_app_max: usize) -> BindingList {
        let mut list = BindingList { bindings: Vec::new(), rejected: self.rejected };
        for (app, bindings) in self.apps {
            let max = if app.is_some() { drains_per_app_max } else { usize::MAX };
            for (index, binding) in bindings.into_values().enumerate() {
                if index < max {
                    list.bindings.push(binding);
                    continue;
                }
                let text = format!(
                    "The application has more than {max} syslog drains, of which {} is not used",
                    binding.url
                );
                list.rejected.push(RejectedBinding { app: app.clone(), text });
            }
        }
        let mut known = HashSet::new();
        list.rejected.retain(|one| known.insert((one.app.clone(), one.text.clone())));
        list
    }
}

fn secrets(credentials: &Credentials) -> DrainCredentials {
    let secret =
        |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Secret::new);
    DrainCredentials {
        cert: secret(&credentials.cert),
        key: secret(&credentials.key),
        ca: secret(&credentials.ca),
    }
}

fn parsed<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, PageError> {
    serde_json::from_slice(body)
        .map_err(|error| PageError::Json { line: error.line(), column: error.column() })
}
