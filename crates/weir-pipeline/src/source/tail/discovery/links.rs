//! Symbolic links: a file is followed at its own location, in its own directory.
//!
//! Invariant: a change of the target is looked at through every link that leads to it.

use std::ffi::OsStr;
use std::path::Path;

use weir_host::file_tree::{FileStat, FileType};

use super::super::layout::{Rule, single};
use super::{DirId, Discovery, FileLocation, Report, Sighting};

impl Discovery {
    /// A name in this directory may be the target of a link elsewhere.
    pub(super) fn touch_links(&mut self, dir: DirId, name: &OsStr) {
        let links: Vec<FileLocation> = self.dirs[dir]
            .links
            .iter()
            .filter(|(target, _)| target == name)
            .map(|(_, location)| location.clone())
            .collect();
        for location in &links {
            if location.dir != dir && self.dirs[location.dir].alive {
                self.touch(location);
            }
        }
    }

    /// Handles a link: the file is followed at its own location, in its own directory.
    pub(super) fn examine_link(
        &mut self,
        dir: DirId,
        name: &OsStr,
        path: &Path,
        report: &mut Report,
    ) {
        let rules = &self.dirs[dir].rules;
        let descends = rules.iter().any(|r| self.layout.descend(*r, name, true).is_some());
        let class = self.class_of(dir, name).filter(|class| class.wanted);
        if class.is_none() && !descends {
            return;
        }
        let (real, stat) = match self.tree.canonicalize(path) {
            Ok(real) => match self.tree.stat(&real) {
                Ok(stat) => (real, stat),
                Err(_gone_meanwhile) => return,
            },
            Err(e) => return self.broken_link(path, &e),
        };
        match stat.kind {
            FileType::Directory => self.descend(dir, name, &real, true),
            FileType::RegularFile if class.is_some() => {
                let link = FileLocation { dir, name: name.into() };
                self.sight_target(&link, path, &real, stat, report);
            }
            _ => {}
        }
    }

    /// A target that does not exist (yet) is normal; a loop is logged, once.
    fn broken_link(&mut self, path: &Path, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::NotFound && self.logged.insert(path) {
            let text = format!("{}: {error}", path.display());
            tracing::warn!("cannot follow link {text}");
            self.stats.errors.count("link", &text);
        }
    }

    fn sight_target(
        &mut self,
        link: &FileLocation,
        shown: &Path,
        real: &Path,
        stat: FileStat,
        report: &mut Report,
    ) {
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return };
        if self.is_hidden(real) {
            return;
        }
        let rule = self.layout.rule_of_target(real);
        let Some(dir) = self.ensure_dir(parent, parent, &[rule]) else { return };
        if !self.dirs[dir].links.iter().any(|(n, location)| n == name && location == link) {
            self.dirs[dir].links.push((name.to_owned(), link.clone()));
        }
        let (class, shown) = match rule {
            Rule::Target => (single(real), shown),
            rule => match self.layout.classify(rule, parent, parent, name) {
                Some(class) => (class, real),
                None => return,
            },
        };
        let location = FileLocation { dir, name: name.into() };
        let shown = shown.to_owned();
        report.sightings.push(Sighting {
            location,
            stat,
            shown,
            is_copy: false,
            class: Some(class),
            expected: None,
        });
    }
}
