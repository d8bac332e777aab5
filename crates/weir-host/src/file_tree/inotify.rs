//! Reports of the kernel: inotify on directories, and on a file only if it has no name any more.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::{Errno, Interest, NameChange, TreeFile, TreeWatch, WatchEvent};
use crate::WakeFd;

/// Maximum number of events processed at a time, so that an event storm cannot stop reading.
const EVENTS_PER_DRAIN_MAX: usize = 32 * 1024;

/// Bytes of events read in one system call.
const READ_BYTES: usize = 16 * 1024;

/// This many events fit in one read, however long their names are (`struct inotify_event`, a name
/// of 255 bytes and a NUL).
const EVENTS_PER_READ_MIN: usize = READ_BYTES / (16 + 256);

/// An inotify instance, or none if the system refused one.
#[derive(Debug)]
pub struct Inotify(Option<OwnedFd>);

impl Inotify {
    /// Creates an instance. If that fails, the error says why, and the watcher refuses every
    /// directory.
    pub fn new() -> (Self, Option<Errno>) {
        match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
            Ok(fd) => (Self(Some(fd)), None),
            Err(e) => (Self(None), Some(e)),
        }
    }

    /// Creates a watcher that refuses every directory, as when the system's limits are exhausted.
    pub fn refusing() -> Self {
        Self(None)
    }
}

impl TreeWatch for Inotify {
    fn add_dir(&self, dir: &Path, interest: Interest) -> Result<i32, Errno> {
        let fd = self.0.as_ref().ok_or(Errno::MFILE)?;
        let names = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::MASK_ADD;
        let flags = match interest {
            Interest::Names => names,
            Interest::Writes => names | WatchFlags::MODIFY,
        };
        inotify::add_watch(fd, dir, flags)
    }

    fn add_file(&self, file: &dyn TreeFile) -> Result<i32, Errno> {
        let fd = self.0.as_ref().ok_or(Errno::MFILE)?;
        inotify::add_watch(fd, file.own_path(), WatchFlags::MODIFY | WatchFlags::ONESHOT)
    }

    fn remove(&self, wd: i32) {
        if let Some(fd) = &self.0 {
            let _gone_already = inotify::remove_watch(fd, wd);
        }
    }

    fn drain(&self, tell: &mut dyn FnMut(WatchEvent<'_>)) -> bool {
        let Some(fd) = &self.0 else { return true };
        let mut buf = [MaybeUninit::uninit(); READ_BYTES];
        let mut reader = Reader::new(fd, &mut buf);
        for taken in 1..=EVENTS_PER_DRAIN_MAX {
            match reader.next() {
                Ok(event) => translate(&event, tell),
                Err(Errno::INTR) => continue,
                Err(_nothing_more) => return true,
            }
            // The kernel returned all it had: there would have been space for one more.
            if taken < EVENTS_PER_READ_MIN && reader.is_buffer_empty() {
                return true;
            }
        }
        false
    }

    fn wait(&self, wake: &WakeFd, for_events: bool, timeout: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let wake = PollFd::new(wake, PollFlags::IN);
        let events = self.0.as_ref().filter(|_| for_events);
        let events = events.map(|fd| PollFd::new(fd, PollFlags::IN));
        let count = 1 + usize::from(events.is_some());
        let mut fds = [wake.clone(), events.unwrap_or(wake)];
        // An interruption by a signal is treated as a wake-up.
        let polled = poll(&mut fds[..count], Some(&timeout));
        polled.is_err() || !fds[0].revents().is_empty()
    }
}

fn translate(event: &inotify::Event<'_>, tell: &mut dyn FnMut(WatchEvent<'_>)) {
    let flags = event.events();
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return tell(WatchEvent::Overflow);
    }
    if flags.intersects(
        ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT,
    ) {
        return tell(WatchEvent::Gone(event.wd()));
    }
    let is_write = flags.contains(ReadFlags::MODIFY);
    let Some(name) = event.file_name().map(|n| OsStr::from_bytes(n.to_bytes())) else {
        if is_write {
            tell(WatchEvent::FileWritten(event.wd()));
        }
        return;
    };
    if is_write {
        return tell(WatchEvent::Written(event.wd(), name));
    }
    let change = if flags.contains(ReadFlags::ISDIR) {
        NameChange::Unknown
    } else if flags.contains(ReadFlags::CREATE) {
        NameChange::Created
    } else if flags.contains(ReadFlags::DELETE) {
        NameChange::Removed
    } else if flags.contains(ReadFlags::MOVED_TO) {
        NameChange::MovedTo(event.cookie())
    } else if flags.contains(ReadFlags::MOVED_FROM) {
        NameChange::MovedFrom(event.cookie())
    } else {
        NameChange::Unknown
    };
    tell(WatchEvent::Touched(event.wd(), name, change));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_names_and_the_end_of_a_directory_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let (watcher, refused) = Inotify::new();
        assert_eq!(refused, None);
        let sub = dir.path().join("sub");
        std::fs::create_dir(&sub).unwrap();
        let wd = watcher.add_dir(&sub, Interest::Writes).unwrap();
        std::fs::write(sub.join("a.log"), "x").unwrap();
        std::fs::remove_dir_all(&sub).unwrap();
        watcher.wait(&WakeFd::new().unwrap(), true, Duration::from_secs(5));
        let (mut written, mut touched, mut gone) = (0, 0, 0);
        assert!(watcher.drain(&mut |event| match event {
            WatchEvent::Written(w, name) => written += usize::from(w == wd && name == "a.log"),
            WatchEvent::Touched(w, name, _) => touched += usize::from(w == wd && name == "a.log"),
            WatchEvent::Gone(w) => gone += usize::from(w == wd),
            WatchEvent::FileWritten(_) => panic!("no file is watched"),
            WatchEvent::Overflow => panic!("no overflow here"),
        }));
        assert!(written >= 1 && touched >= 2 && gone >= 1, "{written} {touched} {gone}");
    }

    #[test]
    fn a_watcher_without_inotify_refuses_every_directory() {
        let none = Inotify::refusing();
        assert_eq!(none.add_dir(Path::new("/"), Interest::Names), Err(Errno::MFILE));
        assert!(none.drain(&mut |_| panic!("nothing to tell")));
    }
}
