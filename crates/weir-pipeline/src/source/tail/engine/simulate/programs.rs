//! Programs that write logs, those that rotate them, and what each line of them became.
//!
//! Invariants: every line has the same length and names its content and number; a *content* is what
//! one file holds from its creation or truncation on, so a line is identified for good.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use weir_host::Clock;
use weir_testkit::history::Trace;
use weir_testkit::{FakeClock, FakeTree, FakeWriter};

use super::process::GRACE;

/// Number of programs at most.
pub(super) const PROGRAMS_MAX: usize = 4;

/// Length of a line with its line feed.
pub(super) const LINE_BYTES: u64 = 24;

/// Directory of the logs, and one that nobody follows.
pub(super) const LOGS: &str = "/logs";
const SUB: &str = "/logs/sub";
const AWAY: &str = "/away";

/// What one file holds from its creation or truncation on.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// Where it was created.
    pub(super) path: String,
    pub(super) lines: u64,
    /// The source had the chance to see it under a name that it follows.
    pub(super) is_known: bool,
    /// A process ended when its file had no name in the directory any more: what was written to it
    /// and reached no destination cannot be known.
    pub(super) is_forgotten: bool,
    /// It was truncated away: if that was before the source looked at its size, nothing of it was
    /// ever seen.
    pub(super) is_cut: bool,
    /// When it was last written to.
    written_at: Duration,
}

/// Content and number of a line.
pub(super) type Line = (usize, u64);

/// Returns a line.
fn line(content: usize, number: u64) -> String {
    let text = format!("{content:05} {number:06} {}", content as u64 ^ number);
    format!("{text:<23.23}\n")
}

/// Returns content and number of a line.
pub(super) fn parse(body: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() == 23)?;
    let mut words = text.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Returns content and number of the last line; `None` if the bytes do not end with a line.
fn last_line(bytes: &[u8]) -> Option<Line> {
    let (_, line) = bytes.split_last_chunk::<{ LINE_BYTES as usize }>()?;
    parse(line.strip_suffix(b"\n")?)
}

#[derive(Debug, Default)]
struct Program {
    /// The open file, its content, and whether it ends within a line.
    open: Option<(FakeWriter, usize)>,
    half: Option<String>,
}

/// What programs may do; chosen by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Write,
    /// The newest generations are renamed, the oldest is removed; the program continues to write
    /// to its file until it opens the log again.
    Rotate,
    Reopen,
    CopyAndTruncate,
    Truncate,
    Remove,
    /// The log moves to another name in the directory, or to another directory.
    MoveAway,
    Link,
    RenameDir,
    RemoveDir,
    /// A file appears and is removed at once.
    Flash,
}

/// How logs are rotated in a history, and what else happens to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// By renames only, and the oldest generation is kept.
    Gentle,
    /// By copying and truncating. A copy without its log looks like a generation that was missed,
    /// so logs are not removed.
    Copying,
    /// By renames; logs are removed, moved and truncated too.
    Rough,
}

impl Action {
    fn any(rng: &mut Rng, habit: Habit) -> Self {
        let at = match habit {
            Habit::Gentle => rng.u8(..60),
            Habit::Copying => rng.u8(..66),
            Habit::Rough => rng.u8(..76),
        };
        match at {
            0..40 => Self::Write,
            40..50 if habit == Habit::Copying => Self::CopyAndTruncate,
            40..50 => Self::Rotate,
            50..60 => Self::Reopen,
            60..62 => Self::Truncate,
            62..64 => Self::Link,
            64..66 => Self::Flash,
            66..70 => Self::Remove,
            70..73 => Self::MoveAway,
            73 | 74 => Self::RenameDir,
            _ => Self::RemoveDir,
        }
    }
}

/// All programs, and what they have done.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct Programs {
    tree: FakeTree,
    clock: FakeClock,
    trace: Trace,
    all: Vec<Program>,
    pub(super) contents: Vec<Content>,
    habit: Habit,
    /// A source is running.
    pub(super) is_followed: bool,
    /// The directory below the logs was created while it was running: what happens in it before it
    /// is watched cannot be known.
    has_new_dir: bool,
    /// Something shrank, lost its name, or left the directory.
    pub(super) has_cut: bool,
    pub(super) has_removed: bool,
    names: u32,
    /// Actions that are left to do between two calls of the source.
    pub(super) race: Option<(Rng, u32)>,
}

impl Programs {
    pub(super) fn new(
        tree: FakeTree,
        clock: FakeClock,
        trace: Trace,
        (count, habit): (usize, Habit),
    ) -> Self {
        tree.make_dir(LOGS);
        tree.make_dir(SUB);
        tree.make_dir(AWAY);
        Self {
            tree,
            clock,
            trace,
            all: (0..count).map(|_| Program::default()).collect(),
            contents: Vec::new(),
            habit,
            is_followed: false,
            has_new_dir: false,
            has_cut: false,
            has_removed: false,
            names: 0,
            race: None,
        }
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.trace.note(line);
    }

    /// Called before each call of the source: perhaps a program acts.
    pub(super) fn race(&mut self) {
        let Some((mut rng, left)) = self.race.take() else { return };
        if rng.u8(..4) == 0 {
            self.act(&mut rng);
            self.race = left.checked_sub(1).map(|left| (rng, left));
        } else {
            self.race = Some((rng, left));
        }
    }

    /// Some program does something.
    pub(super) fn act(&mut self, rng: &mut Rng) {
        let program = rng.usize(..self.all.len());
        let action = Action::any(rng, self.habit);
        let path = path_of(program);
        match action {
            Action::Write => self.write(program, rng),
            Action::Rotate => self.rotate(&path),
            Action::Reopen => self.reopen(program),
            Action::CopyAndTruncate => self.copy_and_truncate(program),
            Action::Truncate => self.truncate(program),
            Action::Remove => self.remove(&path),
            Action::MoveAway => self.move_away(&path, rng),
            Action::Link => {
                let name = self.new_name(&format!("{LOGS}/link"));
                if self.tree.link(&path, &name) {
                    self.note(|| format!("  {path} is also {name}"));
                }
            }
            Action::RenameDir => {
                let name = self.new_name(SUB);
                if self.tree.rename(SUB, &name) {
                    self.note(|| format!("  {SUB} becomes {name}"));
                    self.has_removed = true;
                }
            }
            Action::RemoveDir => self.remove_dir(),
            Action::Flash => self.flash(rng),
        }
    }

    fn new_name(&mut self, base: &str) -> String {
        self.names += 1;
        format!("{base}-{}", self.names)
    }

    fn new_content(&mut self, path: &str) -> usize {
        let is_known = self.is_followed && !(self.has_new_dir && path.starts_with(SUB));
        let path = path.to_owned();
        let content = Content {
            path,
            lines: 0,
            is_known,
            is_forgotten: false,
            is_cut: false,
            written_at: Duration::ZERO,
        };
        self.contents.push(content);
        self.contents.len() - 1
    }

    /// Opens the log; creates it if it is not there.
    fn reopen(&mut self, program: usize) {
        let path = path_of(program);
        self.complete(program);
        if self.tree.make_dir(SUB) {
            self.has_new_dir = true;
            // Files found there that were not reported may balance reported ones that are gone.
            let of_dir = |content: &&mut Content| content.path.starts_with(SUB);
            self.contents.iter_mut().filter(of_dir).for_each(|content| content.is_known = false);
        }
        let existing = self.tree.content(&path);
        let last = existing.as_deref().and_then(last_line);
        let content = match (&existing, last, &self.all[program].open) {
            (Some(_), Some((content, _)), _) => content,
            // An empty file: the one that is open, or unknown here.
            (Some(_), None, Some((_, content))) if self.contents[*content].lines == 0 => *content,
            (Some(_), None, _) | (None, ..) => self.new_content(&path),
        };
        let writer = self.tree.append_to(&path);
        self.note(|| format!("  {path} is opened: content {content}"));
        self.all[program].open = writer.map(|writer| (writer, content));
    }

    fn write(&mut self, program: usize, rng: &mut Rng) {
        if self.all[program].open.is_none() {
            self.reopen(program);
        }
        self.complete(program);
        if let Some((_, content)) = self.all[program].open {
            self.note_late_write(content);
        }
        let Some((writer, content)) = &self.all[program].open else { return };
        let (content, count) = (*content, rng.u64(1..8));
        let first = self.contents[content].lines;
        let text: String = (first..first + count).map(|number| line(content, number)).collect();
        self.contents[content].lines += count;
        // A rotated file that ends within a line is taken to be complete after the grace period.
        let is_log = contents_now(&self.tree).contains(&content);
        let is_split = rng.u8(..4) == 0 && is_log;
        let split = if is_split { text.len() - rng.usize(1..24) } else { text.len() };
        writer.append(&text.as_bytes()[..split]);
        if split < text.len() {
            self.all[program].half = Some(text[split..].to_owned());
        }
        self.note(|| format!("  {count} lines of content {content}, {split} bytes"));
    }

    /// A rotated file is closed after the grace period. What is written to it after it was removed
    /// then cannot be known.
    fn note_late_write(&mut self, content: usize) {
        let now = self.clock.monotonic();
        let is_late = now > self.contents[content].written_at + GRACE;
        let is_named = || contents_of(self.tree.files_below(LOGS)).contains(&content);
        if is_late && self.contents[content].lines > 0 && !is_named() {
            self.contents[content].is_forgotten = true;
        }
        self.contents[content].written_at = now;
    }

    /// Writes the rest of a line.
    fn complete(&mut self, program: usize) {
        let program = &mut self.all[program];
        if let (Some(half), Some((writer, _))) = (program.half.take(), &program.open) {
            writer.append(half.as_bytes());
        }
    }

    /// No line stays incomplete for long.
    pub(super) fn complete_all(&mut self) {
        (0..self.all.len()).for_each(|program| self.complete(program));
    }

    fn rotate(&mut self, path: &str) {
        if self.tree.content(path).is_none() {
            return;
        }
        let name = |n: u32| format!("{path}.{n}");
        if self.habit == Habit::Gentle {
            // Every generation is kept.
            let last = (1..1000).find(|n| self.tree.content(&name(*n)).is_none()).unwrap_or(1);
            for n in (1..last).rev() {
                self.tree.rename(&name(n), &name(n + 1));
            }
        } else {
            self.has_removed |= self.tree.remove(&name(2));
            self.tree.rename(&name(1), &name(2));
        }
        self.tree.rename(path, &name(1));
        self.note(|| format!("  {path} is rotated"));
    }

    fn copy_and_truncate(&mut self, program: usize) {
        let path = path_of(program);
        self.complete_all();
        let Some(bytes) = self.tree.content(&path) else { return };
        // Ages of files tell copies from generations; a log is not copied as soon as it is there.
        self.clock.advance(Duration::from_millis(5));
        let copy = format!("{path}.1");
        self.tree.remove(&copy);
        if let Some(writer) = self.tree.append_to(&copy) {
            writer.append(&bytes);
        }
        self.note(|| format!("  {path} is copied"));
        self.truncate(program);
        self.has_removed = true;
    }

    /// The program that has the file open, if any, continues in a new content.
    fn truncate(&mut self, program: usize) {
        let path = path_of(program);
        self.complete_all();
        let Some(bytes) = self.tree.content(&path) else { return };
        let Some(writer) = self.tree.append_to(&path) else { return };
        writer.truncate(0);
        self.has_cut = true;
        let content = self.new_content(&path);
        self.note(|| format!("  {path} is truncated: content {content} follows"));
        let last = last_line(&bytes);
        if let Some((before, _)) = last {
            self.contents[before].is_cut = true;
        }
        for program in &mut self.all {
            let Some((_, open)) = &mut program.open else { continue };
            if last.is_some_and(|(before, _)| before == *open) {
                *open = content;
            }
        }
    }

    fn remove(&mut self, path: &str) {
        if self.tree.remove(path) {
            self.note(|| format!("  {path} is removed"));
            self.has_removed = true;
        }
    }

    fn move_away(&mut self, path: &str, rng: &mut Rng) {
        let base = if rng.bool() { format!("{LOGS}/old") } else { format!("{AWAY}/old") };
        let name = self.new_name(&base);
        if self.tree.rename(path, &name) {
            self.note(|| format!("  {path} is moved to {name}"));
            self.has_removed = true;
        }
    }

    fn remove_dir(&mut self) {
        for (path, _) in self.tree.files_below(SUB) {
            self.remove(&path.to_string_lossy());
        }
        if self.tree.remove(SUB) {
            self.note(|| format!("  {SUB} is removed"));
        }
    }

    fn flash(&mut self, rng: &mut Rng) {
        let path = self.new_name(&format!("{LOGS}/flash")) + ".log";
        let content = self.new_content(&path);
        let lines = rng.u64(1..4);
        self.contents[content].lines = lines;
        if let Some(writer) = self.tree.append_to(&path) {
            (0..lines).for_each(|number| writer.append(line(content, number).as_bytes()));
        }
        self.remove(&path);
    }

    /// A source has started: what has a name that it follows is known to it.
    pub(super) fn start(&mut self) {
        self.is_followed = true;
        self.has_new_dir = false;
        for content in contents_now(&self.tree) {
            self.contents[content].is_known = true;
        }
    }

    /// The source ends.
    pub(super) fn end(&mut self) {
        self.is_followed = false;
        self.complete_all();
        // What is moved elsewhere is not followed by a later run either.
        let named = contents_of(self.tree.files_below(LOGS));
        for (index, content) in self.contents.iter_mut().enumerate() {
            content.is_forgotten |= named.binary_search(&index).is_err();
        }
    }
}

/// Returns the log of a program.
fn path_of(program: usize) -> String {
    let dir = if program % 2 == 1 { SUB } else { LOGS };
    format!("{dir}/p{program}.log")
}

/// Returns the contents of the files that have a name which is followed.
pub(super) fn contents_now(tree: &FakeTree) -> Vec<usize> {
    let is_wanted = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    contents_of(tree.files_below(LOGS).into_iter().filter(|(path, _)| is_wanted(path)))
}

/// Returns the contents of files, in ascending order.
fn contents_of(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Vec<usize> {
    let files = files.into_iter();
    let mut contents: Vec<usize> =
        files.filter_map(|(_, bytes)| Some(parse(bytes.get(..23)?)?.0)).collect();
    contents.sort_unstable();
    contents.dedup();
    contents
}
