//! Which names in which directories are logs, and which group they belong to: the globs of a `file`
//! source and the fixed layouts of containers, as one closed set of rules per directory.
//!
//! Invariant: these are pure decisions on names; nothing here accesses a file.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};

use super::rotation::{Generation, is_compressed_or_temporary, split_infix, split_suffix};
use crate::config::{ContainersSource, FileSource};

/// Why a source could not start.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A glob does not parse.
    #[error("invalid glob {pattern:?}: {reason}")]
    Glob {
        /// As configured.
        pattern: String,
        /// Why it is invalid.
        reason: String,
    },
}

/// The role of a directory in a source. A directory may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Its entries are matched by component `at` of a glob.
    Glob {
        /// Index of the glob.
        pattern: usize,
        /// Index of the component.
        at: usize,
    },
    /// Holds docker's container directories.
    DockerRoot,
    /// Is the directory of one docker container.
    DockerContainer,
    /// Holds pod directories.
    PodRoot,
    /// Is the directory of one pod.
    Pod,
    /// Is the directory of one container of a pod.
    PodContainer,
    /// Holds links to logs of containers.
    Links,
    /// Holds the target of a link; names in it mean nothing by themselves.
    Target,
    /// An ancestor of a directory that does not exist yet.
    Ancestor,
}

/// What a name says about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// Files with the same group continue each other.
    pub group: String,
    /// First ordering key within a group (restarts of a pod's container).
    pub restart: u64,
    /// Second ordering key.
    pub generation: Generation,
    /// False: a rotated sibling of a wanted file, which the configuration does not name itself.
    pub wanted: bool,
}

#[derive(Debug)]
enum GlobPart {
    Name(GlobMatcher),
    AnyDepth,
}

#[derive(Debug)]
struct Pattern {
    root: PathBuf,
    parts: Vec<GlobPart>,
}

/// The rules of one source.
#[derive(Debug)]
pub(in crate::source) struct Layout {
    patterns: Vec<Pattern>,
    exclude: GlobSet,
    containers: Option<ContainersSource>,
    exclude_containers: GlobSet,
}

fn glob(pattern: &str) -> Result<Glob, LayoutError> {
    GlobBuilder::new(pattern).literal_separator(true).build().map_err(|e| LayoutError::Glob {
        pattern: pattern.to_owned(),
        reason: e.kind().to_string(),
    })
}

fn glob_set(patterns: &[String]) -> Result<GlobSet, LayoutError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(glob(pattern)?);
    }
    set.build().map_err(|e| LayoutError::Glob {
        pattern: patterns.join(", "),
        reason: e.kind().to_string(),
    })
}

fn is_literal(part: &str) -> bool {
    !part.contains(['*', '?', '[', '{', '\\'])
}

fn parse(pattern: &str, current_dir: &Path) -> Result<Pattern, LayoutError> {
    // The whole pattern is checked first, for a better error message.
    glob(pattern)?;
    let full = current_dir.join(pattern);
    let names: Vec<String> = full
        .components()
        .filter(|c| !matches!(c, Component::RootDir | Component::CurDir))
        .map(|c| c.as_os_str().to_string_lossy().into_owned())
        .collect();
    let literal = names.iter().take_while(|n| is_literal(n)).count().min(names.len().max(1) - 1);
    let mut root = PathBuf::from("/");
    root.extend(&names[..literal]);
    let parts = names[literal..]
        .iter()
        .map(|name| match name.as_str() {
            "**" => Ok(GlobPart::AnyDepth),
            name => Ok(GlobPart::Name(glob(name)?.compile_matcher())),
        })
        .collect::<Result<_, LayoutError>>()?;
    Ok(Pattern { root, parts })
}

impl Layout {
    /// Creates the rules of a `file` source; relative globs start at `current_dir`.
    pub(super) fn files(source: &FileSource, current_dir: &Path) -> Result<Self, LayoutError> {
        let patterns =
            source.include.iter().map(|p| parse(p, current_dir)).collect::<Result<_, _>>()?;
        Ok(Self {
            patterns,
            exclude: glob_set(&source.exclude)?,
            containers: None,
            exclude_containers: GlobSet::empty(),
        })
    }

    /// Creates the rules of a `containers` source.
    pub(super) fn containers(source: &ContainersSource) -> Result<Self, LayoutError> {
        Ok(Self {
            patterns: Vec::new(),
            exclude: GlobSet::empty(),
            exclude_containers: glob_set(&source.exclude_containers)?,
            containers: Some(source.clone()),
        })
    }

    /// Returns true if the source collects logs of containers.
    pub(super) fn is_of_containers(&self) -> bool {
        self.containers.is_some()
    }

    /// Returns the directories to start in.
    pub(super) fn roots(&self) -> Vec<(PathBuf, Rule)> {
        let globs = self
            .patterns
            .iter()
            .enumerate()
            .map(|(pattern, p)| (p.root.clone(), Rule::Glob { pattern, at: 0 }));
        let mut roots: Vec<_> = globs.collect();
        if let Some(c) = &self.containers {
            roots.extend(c.docker_roots.iter().map(|d| (d.clone(), Rule::DockerRoot)));
            roots.extend(c.pod_roots.iter().map(|d| (d.clone(), Rule::PodRoot)));
            roots.extend(c.link_roots.iter().map(|d| (d.clone(), Rule::Links)));
        }
        roots
    }

    /// Returns true if the configuration excludes this container.
    pub(super) fn excludes_container(&self, name: &str) -> bool {
        self.exclude_containers.is_match(name)
    }

    /// Returns a rule that `rule` implies for the same directory: `**` also matches no directory.
    pub(super) fn implied(&self, rule: Rule) -> Option<Rule> {
        let Rule::Glob { pattern, at } = rule else { return None };
        let part = self.patterns.get(pattern)?.parts.get(at)?;
        matches!(part, GlobPart::AnyDepth).then_some(Rule::Glob { pattern, at: at + 1 })
    }

    /// Returns true if files in a directory of this kind may be followed.
    pub(super) fn holds_files(&self, rule: Rule) -> bool {
        match rule {
            Rule::Glob { pattern, at } => self.patterns.get(pattern).is_some_and(|p| {
                at + 1 == p.parts.len() || matches!(p.parts.get(at), Some(GlobPart::AnyDepth))
            }),
            Rule::DockerContainer | Rule::PodContainer | Rule::Links | Rule::Target => true,
            Rule::DockerRoot | Rule::PodRoot | Rule::Pod | Rule::Ancestor => false,
        }
    }

    /// Returns the rule for the directory of a link's target.
    pub(super) fn rule_of_target(&self, target: &Path) -> Rule {
        if self.containers.is_some() { rule_of_target(target) } else { Rule::Target }
    }

    /// Returns the rule for a subdirectory, given the rule of its directory.
    pub(super) fn descend(&self, rule: Rule, name: &OsStr, is_link: bool) -> Option<Rule> {
        match rule {
            Rule::Glob { pattern, at } => {
                let parts = &self.patterns.get(pattern)?.parts;
                match parts.get(at)? {
                    // Links below `**` could form a loop.
                    GlobPart::AnyDepth => (!is_link).then_some(rule),
                    GlobPart::Name(glob) => (at + 1 < parts.len() && glob.is_match(name))
                        .then_some(Rule::Glob { pattern, at: at + 1 }),
                }
            }
            Rule::DockerRoot => Some(Rule::DockerContainer),
            Rule::PodRoot => Some(Rule::Pod),
            Rule::Pod => Some(Rule::PodContainer),
            Rule::DockerContainer
            | Rule::PodContainer
            | Rule::Links
            | Rule::Target
            | Rule::Ancestor => None,
        }
    }

    /// Classifies a file by its name. `shown` is the directory as configured, `real` the same
    /// without links.
    pub(super) fn classify(
        &self,
        rule: Rule,
        shown: &Path,
        real: &Path,
        name: &OsStr,
    ) -> Option<Class> {
        let text = name.to_str()?;
        if is_compressed_or_temporary(text) {
            return None;
        }
        match rule {
            Rule::Glob { pattern, at } => self.classify_glob(pattern, at, shown, real, text),
            Rule::DockerContainer => classify_docker(real, text),
            Rule::PodContainer => classify_pod(real, text),
            Rule::Links => has_ending(text, ".log").then(|| single(&real.join(text))),
            Rule::DockerRoot | Rule::PodRoot | Rule::Pod | Rule::Target | Rule::Ancestor => None,
        }
    }

    fn glob_matches(&self, pattern: usize, at: usize, shown: &Path, name: &str) -> bool {
        let Some(pattern) = self.patterns.get(pattern) else { return false };
        let is_last = at + 1 == pattern.parts.len();
        let matches = match pattern.parts.get(at) {
            Some(GlobPart::Name(glob)) => is_last && glob.is_match(name),
            Some(GlobPart::AnyDepth) => is_last,
            None => false,
        };
        matches && !self.exclude.is_match(name) && !self.exclude.is_match(shown.join(name))
    }

    fn classify_glob(
        &self,
        pattern: usize,
        at: usize,
        shown: &Path,
        real: &Path,
        name: &str,
    ) -> Option<Class> {
        let wanted = self.glob_matches(pattern, at, shown, name);
        let suffixed = split_suffix(name).map(|(base, g)| (base.to_owned(), g));
        // If the glob itself matches `web-1.log`, it is the log of another worker, not an older one
        // of `web.log`: many such files must not wait for each other.
        let is_generation = |g: &Generation| !wanted || matches!(g, Generation::Dated(_));
        let base = suffixed
            .into_iter()
            .chain(split_infix(name).filter(|(_, generation)| is_generation(generation)))
            .find(|(base, _)| self.glob_matches(pattern, at, shown, base));
        let (base, generation) = match base {
            Some(found) => found,
            None if wanted => (name.to_owned(), Generation::Active),
            None => return None,
        };
        let group = format!("file:{}", real.join(base).display());
        Some(Class { group, restart: 0, generation, wanted })
    }
}

/// Endings are compared case-sensitively, as programs write them.
fn has_ending(name: &str, ending: &str) -> bool {
    name.strip_suffix(ending).is_some_and(|stem| !stem.is_empty())
}

/// Returns the class of a file that is a group of its own.
pub(super) fn single(path: &Path) -> Class {
    Class {
        group: format!("file:{}", path.display()),
        restart: 0,
        generation: Generation::Active,
        wanted: true,
    }
}

/// Returns the role of the directory of a container log, from the path of the log.
fn rule_of_target(target: &Path) -> Rule {
    let name = target.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let dir = target.parent().unwrap_or(target);
    if classify_docker(dir, name).is_some() {
        Rule::DockerContainer
    } else if pod_of(dir).is_some() && classify_pod(dir, name).is_some() {
        Rule::PodContainer
    } else {
        Rule::Target
    }
}

fn classify_docker(dir: &Path, name: &str) -> Option<Class> {
    let generation = if name.ends_with("-json.log") {
        Generation::Active
    } else {
        split_suffix(name).filter(|(base, _)| base.ends_with("-json.log"))?.1
    };
    let group = format!("docker:{}", dir.display());
    Some(Class { group, restart: 0, generation, wanted: true })
}

fn classify_pod(dir: &Path, name: &str) -> Option<Class> {
    let (restart, rest) = name.split_once(".log")?;
    let restart = restart.parse().ok()?;
    let generation = match rest {
        "" => Generation::Active,
        _ => split_suffix(name).filter(|(base, _)| has_ending(base, ".log"))?.1,
    };
    let group = format!("pod:{}", dir.display());
    Some(Class { group, restart, generation, wanted: true })
}

/// Returns namespace, pod, uid and container of a container's directory below a pod root.
pub(super) fn pod_of(dir: &Path) -> Option<[&str; 4]> {
    let container = dir.file_name()?.to_str()?;
    let pod_dir = dir.parent()?.file_name()?.to_str()?;
    let mut parts = pod_dir.rsplitn(3, '_');
    let (uid, pod, namespace) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = ![uid, pod, namespace, container].iter().any(|part| part.is_empty());
    whole.then_some([namespace, pod, uid, container])
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;
    use crate::config::Format;
    use crate::source::tail::test_settings;

    fn files(include: &[&str], exclude: &[&str]) -> Result<Layout, LayoutError> {
        let strings = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let tail = test_settings();
        let source = FileSource {
            include: strings(include),
            exclude: strings(exclude),
            format: Format::Auto,
            tail,
        };
        Layout::files(&source, Path::new("/home"))
    }

    /// Walks a path down from the root of the only glob; returns true if the file is wanted.
    fn wants(layout: &Layout, path: &str) -> bool {
        let (root, rule) = layout.roots().remove(0);
        let Ok(rest) = Path::new(path).strip_prefix(&root) else { return false };
        let names: Vec<&OsStr> = rest.iter().collect();
        let mut rules = vec![rule];
        let mut dir = root;
        for (i, name) in names.iter().enumerate() {
            let implied: Vec<Rule> = rules.iter().filter_map(|r| layout.implied(*r)).collect();
            rules.extend(implied);
            if i + 1 == names.len() {
                return rules
                    .iter()
                    .filter_map(|r| layout.classify(*r, &dir, &dir, name))
                    .any(|class| class.wanted);
            }
            rules = rules.iter().filter_map(|r| layout.descend(*r, name, false)).collect();
            dir.push(name);
        }
        false
    }

    #[test]
    fn globs_cross_directories_only_where_they_say_so() {
        let layout = files(&["/var/log/*/app-*.log"], &["*debug*"]).unwrap();
        assert_eq!(layout.roots()[0].0, Path::new("/var/log"));
        assert!(wants(&layout, "/var/log/x/app-1.log"));
        assert!(!wants(&layout, "/var/log/x/y/app-1.log"));
        assert!(!wants(&layout, "/var/log/app-1.log"));
        assert!(!wants(&layout, "/var/log/x/app-debug.log"));
        let layout = files(&["/var/log/**/*.log"], &["/var/log/private/**"]).unwrap();
        assert!(wants(&layout, "/var/log/a.log"));
        assert!(wants(&layout, "/var/log/x/y/z/a.log"));
        assert!(!wants(&layout, "/var/log/private/a.log"));
        assert!(!wants(&layout, "/var/log/a.log.gz"));
        assert!(wants(&files(&["logs/app.log"], &[]).unwrap(), "/home/logs/app.log"));
        assert!(wants(&files(&["/l/{a,b}.log"], &[]).unwrap(), "/l/b.log"));
    }

    #[test]
    fn a_bad_glob_is_named() {
        let error = files(&["/var/log/[a.log"], &[]).unwrap_err().to_string();
        assert!(error.contains("/var/log/[a.log"), "{error}");
    }

    #[test]
    fn rotated_siblings_belong_to_the_group_of_the_file_that_the_glob_names() {
        let layout = files(&["/l/app.log"], &[]).unwrap();
        let (dir, rule) = layout.roots().remove(0);
        let class = |name: &str| layout.classify(rule, &dir, &dir, OsStr::new(name));
        let active = class("app.log").unwrap();
        let older = class("app.log.2").unwrap();
        assert_eq!(active.group, older.group);
        assert!(active.wanted && !older.wanted);
        assert_eq!(older.generation, Generation::Numbered(Reverse(2)));
        assert_eq!(class("app-20260101.log").unwrap().group, active.group);
        assert_eq!(class("other.log.1"), None);
    }

    #[test]
    fn numbered_files_that_the_glob_names_are_logs_of_their_own() {
        let layout = files(&["/l/*.log"], &[]).unwrap();
        let (dir, rule) = layout.roots().remove(0);
        let class = |name: &str| layout.classify(rule, &dir, &dir, OsStr::new(name)).unwrap();
        assert_ne!(class("web-1.log").group, class("web-2.log").group);
        assert_eq!(class("web-1.log").generation, Generation::Active);
        assert_eq!(class("web-20260101.log").group, class("web.log").group);
        assert_eq!(class("web.log.1").group, class("web.log").group);
    }

    #[test]
    fn container_paths_are_understood() {
        let dir = Path::new("/var/log/pods/default_web-0_1234-uid/nginx");
        assert_eq!(pod_of(dir), Some(["default", "web-0", "1234-uid", "nginx"]));
        assert_eq!(pod_of(Path::new("/var/log/pods/odd/nginx")), None);
        assert_eq!(classify_pod(dir, "3.log").unwrap().restart, 3);
        let rotated = classify_pod(dir, "0.log.20260131-101500").unwrap();
        assert!(rotated.generation < Generation::Active);
        assert_eq!(classify_pod(dir, "x.log"), None);
        assert_eq!(
            classify_docker(dir, "ab-json.log.1").unwrap().group,
            classify_docker(dir, "ab-json.log").unwrap().group
        );
        assert_eq!(rule_of_target(&dir.join("0.log")), Rule::PodContainer);
        assert_eq!(rule_of_target(Path::new("/d/ab/ab-json.log")), Rule::DockerContainer);
        assert_eq!(rule_of_target(Path::new("/d/ab/x.log")), Rule::Target);
    }
}
