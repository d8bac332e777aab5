//! The set of all drains: those of the configuration, manually added ones, and those listed by each
//! provider. The last two are saved in a file, so that a start does not depend on a provider.
//!
//! Invariants: a drain is identified by its id, whatever its origin; a drain with several origins
//! exists once. The file is replaced atomically, and readable only by its owner, since it contains
//! credentials. Its first line is a checksum of the others. A file that cannot be used is never
//! overwritten: weir does not start with one that it cannot read or that is of another release, a
//! damaged one is moved aside, and drains in it that this release cannot use stay in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_host::{Disk, OpenMode, Secret};
use weir_model::hash64;

use super::binding::{Binding, BindingError, DrainCredentials, describe};
use super::limits::{ASIDE_MAX, FILE_BYTES_MAX};
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

/// A drain as it is written in the file.
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
    lists: BTreeMap<String, Vec<Entry>>,
    paused: BTreeSet<u64>,
}

/// A drain in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Known(StoredDrain),
    /// It has another form.
    Unknown(serde_json::Value),
}

impl Entry {
    /// Checks it. The error says which drain it is, without credentials.
    fn define(&self, origin: &'static str) -> Result<Definition, String> {
        match self {
            Self::Known(drain) => drain.define(origin).map_err(|error| {
                let ids = [&drain.app, &drain.space, &drain.organization];
                let id = ids.into_iter().flatten().next().map_or("all", String::as_str);
                format!("the drain of {id}: {error}")
            }),
            Self::Unknown(_) => Err("a drain is not in the format of this release".to_owned()),
        }
    }
}

/// Why weir does not start with the existing file. It was left untouched.
#[derive(Debug, thiserror::Error)]
pub enum DrainsFileError {
    /// It is of another release.
    #[error(
        "{} has version {version}, which this release does not support; it was left untouched",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// It cannot be read.
    #[error("cannot read {}: {error}; it was left untouched", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
    /// It is damaged, and cannot be moved aside.
    #[error(
        "{} is damaged, and cannot be moved aside: {error}; it was left untouched",
        path.display()
    )]
    NotMoved {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
}

/// What a start found to be wrong with the file.
#[derive(Debug, Default)]
pub(super) struct FileProblems {
    /// Where the file is, if it was damaged.
    pub(super) damaged: Option<PathBuf>,
    /// Why each of the drains in it that cannot be used cannot.
    pub(super) unusable: Vec<String>,
}

/// Name of the file in the data directory.
pub(super) const FILE: &str = "drains.json";

const VERSION: u32 = 2;
/// Files of this version have no checksum.
const VERSION_UNCHECKED: u64 = 1;

/// The beginning and the end of the line with the checksum, eight hexadecimal digits.
const CHECKSUM_LINE: (&[u8], &[u8]) = (b"{\n  \"checksum\": \"", b"\",\n");

/// What a file is found to be.
enum Content {
    Intact(Stored),
    /// It is of another release.
    Version(u64),
    /// It is damaged, in this line.
    Damaged(usize),
}

/// Returns the checksum that a file states, and what it covers.
fn checked(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.strip_prefix(CHECKSUM_LINE.0)?.split_first_chunk::<8>()?;
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest.strip_prefix(CHECKSUM_LINE.1)?))
}

fn parse(bytes: &[u8]) -> Content {
    let checked = checked(bytes);
    if checked.is_some_and(|(checksum, covered)| crc32c::crc32c(covered) != checksum) {
        return Content::Damaged(1);
    }
    let document = match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(document) => document,
        // The error of the parser may quote the content.
        Err(error) => return Content::Damaged(error.line()),
    };
    match document["version"].as_u64() {
        Some(version) if version == u64::from(VERSION) && checked.is_none() => Content::Damaged(1),
        Some(version) if version != u64::from(VERSION) && version != VERSION_UNCHECKED => {
            Content::Version(version)
        }
        _ => match serde_json::from_value(document) {
            Ok(stored) => Content::Intact(stored),
            Err(error) => Content::Damaged(error.line()),
        },
    }
}

/// Returns the content of the file, with its checksum.
fn print(stored: &Stored) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec_pretty(stored)?;
    let covered = text.strip_prefix(b"{\n").unwrap_or(&text);
    let digits = format!("{:08x}", crc32c::crc32c(covered));
    Ok([CHECKSUM_LINE.0, digits.as_bytes(), CHECKSUM_LINE.1, covered].concat())
}

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
    /// Drains in the file that this release cannot use, by origin. They stay in the file.
    unusable: BTreeMap<&'static str, Vec<Entry>>,
    /// Drains that a user has paused, including those that are not listed now.
    pub(super) paused: BTreeSet<u64>,
    pub(super) problems: FileProblems,
}

/// The effect of a changed list on the set of drains.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: Vec<Definition>,
    pub(super) removed: Vec<u64>,
}

impl Registry {
    /// Reads the drains of these providers that an earlier run has saved.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        providers: &[&'static str],
    ) -> Result<Self, DrainsFileError> {
        let mut registry = Self {
            path: dir.join(FILE),
            disk,
            lists: BTreeMap::new(),
            unusable: BTreeMap::new(),
            paused: BTreeSet::new(),
            problems: FileProblems::default(),
        };
        let mut stored = registry.read()?;
        registry.paused = stored.paused;
        for name in [ADDED].into_iter().chain(providers.iter().copied()) {
            for entry in stored.lists.remove(name).unwrap_or_default() {
                match entry.define(name) {
                    Ok(drain) => registry.lists.entry(name).or_default().push(drain),
                    Err(error) => {
                        tracing::error!(file = FILE, "a saved drain is not used: {error}");
                        registry.problems.unusable.push(error);
                        registry.unusable.entry(name).or_default().push(entry);
                    }
                }
            }
        }
        Ok(registry)
    }

    /// Reads the file. If it is damaged, it is moved aside, and the result is empty.
    fn read(&mut self) -> Result<Stored, DrainsFileError> {
        let path = || self.path.clone();
        let bytes = match weir_host::read_file(&*self.disk, &self.path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::default()),
            Err(error) => return Err(DrainsFileError::Unreadable { path: path(), error }),
            Ok(bytes) if bytes.len() as u64 == FILE_BYTES_MAX => {
                let error = io::Error::from(io::ErrorKind::FileTooLarge);
                return Err(DrainsFileError::Unreadable { path: path(), error });
            }
            Ok(bytes) => bytes,
        };
        match parse(&bytes) {
            Content::Intact(stored) => Ok(stored),
            Content::Version(version) => Err(DrainsFileError::Version { path: path(), version }),
            Content::Damaged(line) => {
                let aside = self
                    .set_aside()
                    .map_err(|error| DrainsFileError::NotMoved { path: path(), error })?;
                let (file, aside_text) = (FILE, aside.display());
                tracing::error!(file, line, "the file is damaged: moved aside to {aside_text}");
                self.problems.damaged = Some(aside);
                Ok(Stored::default())
            }
        }
    }

    /// Moves the file to a name that does not exist yet.
    fn set_aside(&self) -> io::Result<PathBuf> {
        let first = std::iter::once("json.damaged".to_owned());
        let names = first.chain((2..=ASIDE_MAX).map(|number| format!("json.damaged-{number}")));
        for extension in names {
            let aside = self.path.with_extension(extension);
            match self.disk.open(&aside, OpenMode::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.disk.rename(&self.path, &aside)?;
                    self.disk.sync_dir(self.path.parent().unwrap_or(Path::new("")))?;
                    return Ok(aside);
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Err(io::Error::other(format!("there are {ASIDE_MAX} damaged files already")))
    }

    /// Saves the drains that did not come from the configuration.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut lists: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for (name, drains) in self.lists.iter().filter(|(name, _)| **name != CONFIG) {
            let entries = drains.iter().map(|drain| Entry::Known(drain.store()));
            lists.insert((*name).to_owned(), entries.collect());
        }
        for (name, entries) in &self.unusable {
            lists.entry((*name).to_owned()).or_default().extend_from_slice(entries);
        }
        let stored = Stored { version: VERSION, lists, paused: self.paused.clone() };
        let bytes = print(&stored)?;
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

    /// Replaces the list of a provider. The saved drains of it that cannot be used are outdated.
    pub(super) fn replace_list(
        &mut self,
        provider: &'static str,
        drains: Vec<Definition>,
    ) -> Difference {
        self.unusable.remove(provider);
        self.replace(provider, drains)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_host::RealDisk;
    use weir_testkit::{CallKind, FailingDisk, Fault, FaultKind};

    use super::*;

    fn stored(app: &str, url: &str) -> Value {
        json!({ "app": app, "url": url })
    }

    fn document(added: &[Value]) -> Value {
        let listed = [stored("listed", "syslog://listed")];
        json!({
            "version": VERSION_UNCHECKED,
            "lists": { ADDED: added, BINDING_CACHE: listed },
            "paused": [7],
        })
    }

    fn open(dir: &Path) -> Result<Registry, DrainsFileError> {
        Registry::open(Arc::new(RealDisk), dir, &[BINDING_CACHE])
    }

    /// Returns the content of a file that weir has written, as `document` creates it.
    fn content(path: &Path) -> Value {
        let bytes = std::fs::read(path).unwrap();
        let (checksum, covered) = checked(&bytes).unwrap();
        assert_eq!(crc32c::crc32c(covered), checksum);
        let mut content: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(content["version"], VERSION);
        content["version"] = json!(VERSION_UNCHECKED);
        content.as_object_mut().unwrap().remove("checksum");
        content
    }

    #[test]
    fn drains_and_pauses_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(open(dir.path()).unwrap().all().is_empty());
        let whole = document(&[stored("app", "syslog://user:secret@host/?token=t")]);
        std::fs::write(&path, whole.to_string()).unwrap();
        let registry = open(dir.path()).unwrap();
        assert_eq!((registry.all().len(), registry.paused.len()), (2, 1));
        registry.write().unwrap();
        assert_eq!(content(&path), whole);
    }

    #[test]
    fn a_file_of_another_release_is_refused_and_left_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        for later in [json!({ "version": 99 }), json!({ "version": 3, "drains": [1] })] {
            std::fs::write(&path, later.to_string()).unwrap();
            let error = open(dir.path()).unwrap_err().to_string();
            let version = format!("drains.json has version {}", later["version"]);
            assert!(error.contains(&version), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), later.to_string());
        }
    }

    #[test]
    fn a_file_with_any_changed_byte_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::fs::write(&path, document(&[stored("app", "syslog://host")]).to_string()).unwrap();
        open(dir.path()).unwrap().write().unwrap();
        let intact = std::fs::read(&path).unwrap();
        for place in 0..intact.len() {
            let mut damaged = intact.clone();
            damaged[place] ^= 4;
            assert!(matches!(parse(&damaged), Content::Damaged(_)), "byte {place}");
            assert!(matches!(parse(&intact[..place]), Content::Damaged(_)), "{place} bytes");
        }
        assert!(matches!(parse(&intact), Content::Intact(_)));
        std::fs::write(&path, &intact).unwrap();
        assert_eq!(open(dir.path()).unwrap().all().len(), 2);
    }

    #[test]
    fn damaged_files_are_moved_aside_and_none_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let damaged = ["{\"version\": 1, \"lis", "[]", "{\"version\": 1, \"lists\": 3}"];
        for text in damaged {
            std::fs::write(&path, text).unwrap();
            let registry = open(dir.path()).unwrap();
            assert!(registry.all().is_empty() && registry.problems.damaged.is_some(), "{text}");
            registry.write().unwrap();
            assert!(open(dir.path()).unwrap().problems.damaged.is_none());
        }
        for (suffix, text) in ["", "-2", "-3"].into_iter().zip(damaged) {
            let aside = dir.path().join(format!("{FILE}.damaged{suffix}"));
            assert_eq!(std::fs::read_to_string(aside).unwrap(), text);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_or_moved_aside_is_refused_and_left_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        for (call, fault, text, expected) in [
            (CallKind::Read, FaultKind::Io, document(&[]).to_string(), "cannot read"),
            (CallKind::Open, FaultKind::Io, document(&[]).to_string(), "cannot read"),
            (CallKind::Rename, FaultKind::ReadOnly, "{".to_owned(), "cannot be moved aside"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let disk = FailingDisk::over(Arc::new(RealDisk));
            disk.faults().inject(Fault::new(fault).on(call).path(FILE));
            let error = Registry::open(Arc::new(disk), dir.path(), &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn saved_drains_that_cannot_be_used_are_reported_and_stay_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let unusable = [
            stored("old", "gopher://user:secret@host"),
            json!({ "app": "new", "url": "syslog://host", "priority": "secret" }),
        ];
        let whole = document(&[&[stored("app", "syslog://host")], &unusable[..]].concat());
        std::fs::write(&path, whole.to_string()).unwrap();
        let mut registry = open(dir.path()).unwrap();
        assert_eq!(registry.all().len(), 2);
        let reported = &registry.problems.unusable;
        assert!(reported.len() == 2 && reported[0].contains("old"), "{reported:?}");
        assert!(!format!("{reported:?}").contains("secret"), "{reported:?}");
        registry.replace(ADDED, Vec::new());
        registry.replace_list(BINDING_CACHE, Vec::new());
        registry.write().unwrap();
        assert_eq!(content(&path)["lists"], json!({ ADDED: unusable, BINDING_CACHE: [] }));
    }
}
