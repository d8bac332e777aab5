//! Which drains receive the records of a resource.
//!
//! Invariant: the cache is cleared when a drain is added or removed.

use std::collections::HashMap;
use std::rc::Rc;

use weir_model::{Kinds, Resource, hash64};

use super::limits::RESOURCES_MAX;
use super::plan::Selector;

/// Attribute of a resource with the name of its application.
const SERVICE: &str = "service.name";
const SPACE: &str = "space_id:";
const ORGANIZATION: &str = "organization_id:";

/// A drain that receives the records of a resource that are of these kinds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    pub(super) drain: u64,
    pub(super) kinds: Kinds,
}

/// The cached drains of a resource.
#[derive(Debug)]
struct CachedMatches {
    resource: Box<[u8]>,
    matches: Rc<[Match]>,
}

/// All drains, by selector.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    apps: HashMap<String, Vec<Match>>,
    spaces: HashMap<String, Vec<Match>>,
    organizations: HashMap<String, Vec<Match>>,
    all: Vec<Match>,
    /// By the hash of a resource.
    known: HashMap<u64, CachedMatches>,
}

impl Matcher {
    fn place(&mut self, selector: &Selector) -> &mut Vec<Match> {
        match selector {
            Selector::App(id) => self.apps.entry(id.clone()).or_default(),
            Selector::Space(id) => self.spaces.entry(id.clone()).or_default(),
            Selector::Organization(id) => self.organizations.entry(id.clone()).or_default(),
            Selector::All => &mut self.all,
        }
    }

    pub(super) fn add(&mut self, drain: u64, selector: &Selector, kinds: Kinds) {
        self.known.clear();
        self.place(selector).push(Match { drain, kinds });
    }

    pub(super) fn remove(&mut self, drain: u64, selector: &Selector) {
        self.known.clear();
        let place = self.place(selector);
        place.retain(|known| known.drain != drain);
        if !place.is_empty() {
            return;
        }
        match selector {
            Selector::App(id) => drop(self.apps.remove(id)),
            Selector::Space(id) => drop(self.spaces.remove(id)),
            Selector::Organization(id) => drop(self.organizations.remove(id)),
            Selector::All => {}
        }
    }

    /// Returns the drains of a resource in its encoded form.
    pub(super) fn of(&mut self, encoded: &[u8]) -> Rc<[Match]> {
        let hash = hash64(encoded);
        if let Some(known) = self.known.get(&hash).filter(|known| *known.resource == *encoded) {
            return known.matches.clone();
        }
        let matches: Rc<[Match]> = self.find(encoded).into();
        if self.known.len() >= RESOURCES_MAX {
            self.known.clear();
        }
        let known = CachedMatches { resource: encoded.into(), matches: matches.clone() };
        self.known.insert(hash, known);
        matches
    }

    fn find(&self, encoded: &[u8]) -> Vec<Match> {
        let resource = Resource::decode(encoded);
        let mut found = self.all.clone();
        let by = |place: &HashMap<String, Vec<Match>>, id: Option<&str>| {
            id.and_then(|id| place.get(id)).cloned().unwrap_or_default()
        };
        found.extend(by(&self.apps, resource.text(SERVICE)));
        let tag = |name| resource.tags().find_map(|tag| tag.strip_prefix(name));
        found.extend(by(&self.spaces, tag(SPACE)));
        found.extend(by(&self.organizations, tag(ORGANIZATION)));
        found
    }
}
