//! Reports that wait for a process, as inotify queues them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};

use weir_host::file_tree::{Interest, NameChange, WatchEvent};

/// A report that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Written(i32, OsString),
    FileWritten(i32),
    Touched(i32, OsString, NameChange),
    Gone(i32),
    Overflow,
}

impl Report {
    pub(super) fn as_event(&self) -> WatchEvent<'_> {
        match self {
            Self::Written(wd, name) => WatchEvent::Written(*wd, name),
            Self::FileWritten(wd) => WatchEvent::FileWritten(*wd),
            Self::Touched(wd, name, change) => WatchEvent::Touched(*wd, name, *change),
            Self::Gone(wd) => WatchEvent::Gone(*wd),
            Self::Overflow => WatchEvent::Overflow,
        }
    }
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Dir(Interest),
    /// The next write to a file.
    File,
}

/// The watches and reports of one process.
#[derive(Debug, Default)]
pub(super) struct Queue {
    watches: BTreeMap<i32, (u64, What)>,
    last_wd: i32,
    reports: VecDeque<Report>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    pub(super) fn take(&mut self) -> Vec<Report> {
        self.reports.drain(..).collect()
    }

    /// Watches a directory; returns the number that it has already, if it is watched.
    pub(super) fn watch_dir(&mut self, inode: u64, interest: Interest) -> i32 {
        let watched = self.watches.iter_mut().find(|(_, (of, _))| *of == inode);
        if let Some((wd, (_, what))) = watched {
            if let What::Dir(before) = what {
                *before = (*before).max(interest);
            }
            return *wd;
        }
        self.add(inode, What::Dir(interest))
    }

    pub(super) fn watch_file(&mut self, inode: u64) -> i32 {
        self.add(inode, What::File)
    }

    fn add(&mut self, inode: u64, what: What) -> i32 {
        self.last_wd += 1;
        self.watches.insert(self.last_wd, (inode, what));
        self.last_wd
    }

    /// Returns the number of a watched directory, if its writes are (or need not be) reported.
    fn dir(&self, inode: u64, is_write: bool) -> Option<i32> {
        let is_it = |what: What| match what {
            What::Dir(interest) => !is_write || interest == Interest::Writes,
            What::File => false,
        };
        self.watches.iter().find(|(_, (of, what))| *of == inode && is_it(*what)).map(|(wd, _)| *wd)
    }

    fn push(&mut self, report: Report, reports_max: usize) {
        // As the kernel does: an equal report that still waits is the same one.
        if self.reports.back() == Some(&report) {
            return;
        }
        if self.reports.len() >= reports_max {
            if self.reports.back() != Some(&Report::Overflow) {
                self.reports.push_back(Report::Overflow);
            }
            return;
        }
        self.reports.push_back(report);
    }

    pub(super) fn note_name(
        &mut self,
        dir: u64,
        name: &OsStr,
        change: NameChange,
        reports_max: usize,
    ) {
        if let Some(wd) = self.dir(dir, false) {
            self.push(Report::Touched(wd, name.to_owned(), change), reports_max);
        }
    }

    pub(super) fn note_write(&mut self, dir: u64, name: &OsStr, inode: u64, reports_max: usize) {
        if let Some(wd) = self.dir(dir, true) {
            self.push(Report::Written(wd, name.to_owned()), reports_max);
        }
        let file = self.watches.iter().find(|(_, (of, what))| *of == inode && *what == What::File);
        if let Some(wd) = file.map(|(wd, _)| *wd) {
            self.push(Report::FileWritten(wd), reports_max);
            self.remove(wd, reports_max);
        }
    }

    /// The directory was moved; it is still watched.
    pub(super) fn note_moved(&mut self, dir: u64, reports_max: usize) {
        if let Some(wd) = self.dir(dir, false) {
            self.push(Report::Gone(wd), reports_max);
        }
    }

    /// The file or directory is gone, and its watch with it.
    pub(super) fn note_gone(&mut self, inode: u64, reports_max: usize) {
        let watched = self.watches.iter().find(|(_, (of, _))| *of == inode).map(|(wd, _)| *wd);
        if let Some(wd) = watched {
            self.remove(wd, reports_max);
        }
    }

    pub(super) fn remove(&mut self, wd: i32, reports_max: usize) {
        if self.watches.remove(&wd).is_some() {
            self.push(Report::Gone(wd), reports_max);
        }
    }
}
