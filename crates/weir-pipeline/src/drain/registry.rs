//! The set of all drains: those of the configuration, manually added ones, and those listed by each
//! provider. The last two are saved in a file, so that a start does not depend on a provider.
//!
//! Invariants: a drain is identified by its id, whatever its origin; a drain with several origins
//! exists once. The file is replaced atomically, and readable only by its owner, since it contains
//! credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_host::{Disk, Secret};
use weir_model::hash64;

use super::binding::{Binding, BindingError, DrainCredentials, describe};
use super::plan::{DrainSpec, Selector};

/// A drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Identifies it, also after a restart.
    pub id: u64,
    /// Whose records it receives.
    pub selector: Selector,
    /// Destination of the records.
    pub binding: Arc<Binding>,
    /// Its origin: `config`, `added`, or a provider.
    pub origin: &'static str,
}

/// A drain in the file, and in requests to add one.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StoredDrain {
    /// Id of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Id of the space, for a drain of all applications of a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Id of the organization, for a drain of all applications of an organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The URL, with its parameters.
    pub url: String,
    /// Host name in the messages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Certificate of the client, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// Its key, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Authorities to trust in addition, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// Why a drain cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// It selects more than one of an application, a space and an organization.
    #[error("set at most one of app, space and organization")]
    Ambiguous,
    /// Its URL cannot be used.
    #[error("{0}")]
    Url(String),
    /// Its binding cannot be used.
    #[error(transparent)]
    Binding(#[from] BindingError),
}

impl StoredDrain {
    /// Checks it.
    pub fn define(&self, origin: &'static str) -> Result<Definition, DefinitionError> {
        let selector = match (&self.app, &self.space, &self.organization) {
            (Some(app), None, None) => Selector::App(app.clone()),
            (None, Some(space), None) => Selector::Space(space.clone()),
            (None, None, Some(organization)) => Selector::Organization(organization.clone()),
            (None, None, None) => Selector::All,
            _ => return Err(DefinitionError::Ambiguous),
        };
        let secret = |text: &Option<String>| text.clone().map(Secret::new);
        let credentials = DrainCredentials {
            cert: secret(&self.cert),
            key: secret(&self.key),
            ca: secret(&self.ca),
        };
        let hostname = self.hostname.clone();
        let binding = Binding::new(self.app.clone(), hostname, &self.url, credentials);
        let binding = binding.map_err(|error| match error {
            BindingError::Url(error) => DefinitionError::Url(describe(&self.url, &error)),
            error => error.into(),
        })?;
        Ok(Definition::new(selector, binding, origin))
    }
}

impl Definition {
    /// Creates a drain for the records that a selector matches.
    pub fn new(selector: Selector, binding: Binding, origin: &'static str) -> Self {
        let id = match &selector {
            Selector::App(_) | Selector::All => binding.id(),
            Selector::Space(id) => binding.id() ^ hash64(format!("space {id}").as_bytes()),
            Selector::Organization(id) => {
                binding.id() ^ hash64(format!("organization {id}").as_bytes())
            }
        };
        Self { id, selector, binding: Arc::new(binding), origin }
    }

    /// Creates a drain that a provider lists.
    pub(super) fn of_provider(binding: Binding, origin: &'static str) -> Self {
        let selector = binding.app.clone().map_or(Selector::All, Selector::App);
        Self::new(selector, binding, origin)
    }

    pub(super) fn spec(&self) -> DrainSpec {
        let (id, selector) = (self.id, self.selector.clone());
        DrainSpec { id, selector, kinds: self.binding.url.data.kinds() }
    }

    fn store(&self) -> StoredDrain {
        let (mut app, mut space, mut organization) = (None, None, None);
        match &self.selector {
            Selector::App(id) => app = Some(id.clone()),
            Selector::Space(id) => space = Some(id.clone()),
            Selector::Organization(id) => organization = Some(id.clone()),
            Selector::All => {}
        }
        let text = |secret: &Option<Secret>| secret.as_ref().map(|s| s.expose().to_owned());
        let DrainCredentials { cert, key, ca } = &self.binding.credentials;
        StoredDrain {
            app,
            space,
            organization,
            url: self.binding.url.written().to_owned(),
            hostname: self.binding.hostname.clone(),
            cert: text(cert),
            key: text(key),
            ca: text(ca),
        }
    }
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    version: u32,
    lists: BTreeMap<String, Vec<StoredDrain>>,
    paused: BTreeSet<u64>,
}

/// Maximum size of the file: 10,000 drains with certificates are a tenth of it.
const FILE_BYTES_MAX: u64 = 1 << 30;

const VERSION: u32 = 1;
/// Name of the file in the data directory.
const FILE: &str = "drains.json";

/// Names of the origins of drains.
pub(super) const CONFIG: &str = "config";
pub(super) const ADDED: &str = "added";
pub(super) const BINDING_CACHE: &str = "binding_cache";
pub(super) const CLOUD_CONTROLLER: &str = "cloud_controller";

/// All drains.
#[derive(Debug)]
pub(super) struct Registry {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// By origin.
    lists: BTreeMap<&'static str, Vec<Definition>>,
    pub(super) paused: BTreeSet<u64>,
}

/// The effect of a changed list on the set of drains.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: Vec<Definition>,
    pub(super) removed: Vec<u64>,
}

impl Registry {
    /// Reads the drains of these providers that an earlier run has saved.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, providers: &[&'static str]) -> Self {
        let path = dir.join(FILE);
        let mut registry = Self { path, disk, lists: BTreeMap::new(), paused: BTreeSet::new() };
        let stored = match registry.read() {
            Ok(stored) => stored,
            Err(error) => {
                tracing::error!(%error, file = FILE, "cannot read the saved list of drains");
                return registry;
            }
        };
        registry.paused = stored.paused;
        for name in [ADDED].iter().chain(providers) {
            let drains = stored.lists.get(*name).map(Vec::as_slice).unwrap_or_default();
            let known = drains.iter().filter_map(|drain| drain.define(name).ok()).collect();
            registry.lists.insert(name, known);
        }
        registry
    }

    fn read(&self) -> io::Result<Stored> {
        let bytes = match weir_host::read_file(&*self.disk, &self.path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::default()),
            other => other?,
        };
        let stored: Stored = serde_json::from_slice(&bytes)?;
        if stored.version != VERSION {
            return Err(io::Error::other(format!(
                "version {} is not supported by this release",
                stored.version
            )));
        }
        Ok(stored)
    }

    /// Saves the drains that did not come from the configuration.
    pub(super) fn write(&self) -> io::Result<()> {
        let lists = self.lists.iter().filter(|(name, _)| **name != CONFIG);
        let lists = lists
            .map(|(name, drains)| {
                ((*name).to_owned(), drains.iter().map(Definition::store).collect())
            })
            .collect();
        let stored = Stored { version: VERSION, lists, paused: self.paused.clone() };
        let bytes = serde_json::to_vec_pretty(&stored)?;
        weir_host::replace_file(&*self.disk, &self.path, &bytes)
    }

    /// Returns all drains, each once.
    pub(super) fn all(&self) -> BTreeMap<u64, &Definition> {
        let mut all = BTreeMap::new();
        for drain in self.lists.values().flatten() {
            all.entry(drain.id).or_insert(drain);
        }
        all
    }

    /// Replaces the drains of one origin.
    pub(super) fn replace(&mut self, origin: &'static str, drains: Vec<Definition>) -> Difference {
        let before: BTreeSet<u64> = self.all().into_keys().collect();
        self.lists.insert(origin, drains);
        let after = self.all();
        let added = after.iter().filter(|(id, _)| !before.contains(id));
        Difference {
            added: added.map(|(_, drain)| (*drain).clone()).collect(),
            removed: before.iter().copied().filter(|id| !after.contains_key(id)).collect(),
        }
    }

    /// Returns the drains of one origin.
    pub(super) fn of(&self, origin: &'static str) -> Vec<Definition> {
        self.lists.get(origin).cloned().unwrap_or_default()
    }
}
