//! Counts events and their numbers (`app=<a> seq=<n>`): how many, how many distinct, and how many
//! out of order.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// What a collector has seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Requests answered.
    pub(crate) requests: u64,
    /// Size of their bodies as received, bytes.
    pub(crate) body_bytes: u64,
    /// Size of their bodies after decompression, bytes.
    pub(crate) plain_bytes: u64,
    /// Compressed requests whose events were not counted.
    pub(crate) unread_requests: u64,
    /// Number of events.
    pub(crate) events: u64,
    /// Counts by application.
    pub(crate) applications: Vec<Application>,
}

/// Events of one application.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Application {
    /// Distinct numbers.
    pub(crate) distinct: u64,
    /// Repeated numbers.
    pub(crate) repeated: u64,
    /// New numbers that arrived after a higher one.
    pub(crate) reordered: u64,
    /// Highest number plus one.
    pub(crate) end: u64,
    #[serde(skip)]
    seen: Vec<u64>,
}

impl Application {
    fn see(&mut self, seq: u64) {
        let word = (seq / 64) as usize;
        if word >= self.seen.len() {
            self.seen.resize((word + 1).next_power_of_two(), 0);
        }
        let bit = 1 << (seq % 64);
        if self.seen[word] & bit != 0 {
            self.repeated += 1;
            return;
        }
        self.seen[word] |= bit;
        self.distinct += 1;
        self.reordered += u64::from(seq < self.end);
        self.end = self.end.max(seq + 1);
    }
}

impl Counts {
    /// Counts the events of a body that contains whole events.
    pub(crate) fn scan(&mut self, body: &[u8]) {
        self.plain_bytes += body.len() as u64;
        self.see(body);
    }

    fn see(&mut self, bytes: &[u8]) {
        for at in memchr::memmem::find_iter(bytes, b" app=") {
            let Some((app, seq)) = numbers(&bytes[at + 5..]) else { continue };
            self.events += 1;
            if app >= self.applications.len() {
                self.applications.resize(app + 1, Application::default());
            }
            self.applications[app].see(seq);
        }
    }

    /// Returns the count of distinct numbers, over all applications.
    pub(crate) fn distinct(&self) -> u64 {
        self.applications.iter().map(|a| a.distinct).sum()
    }

    /// Returns the count of events out of order, over all applications.
    pub(crate) fn reordered(&self) -> u64 {
        self.applications.iter().map(|a| a.reordered).sum()
    }
}

/// Parses the numbers of "3 seq=17 ...".
fn numbers(text: &[u8]) -> Option<(usize, u64)> {
    let (app, rest) = number(text)?;
    let (seq, _) = number(rest.strip_prefix(b" seq=")?)?;
    Some((usize::try_from(app).ok()?, seq))
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|b| !b.is_ascii_digit())?;
    Some((std::str::from_utf8(&text[..end]).ok()?.parse().ok()?, &text[end..]))
}

/// Counts the content of a file of gzip members, using the system's gzip as an independent reader.
pub(crate) fn scan_gzip(path: &Path, counts: &mut Counts) -> Result<()> {
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(File::open(path)?)
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start gzip")?;
    let mut out = gzip.stdout.take().context("gzip has no output")?;
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        let read = out.read(&mut buffer[len..])?;
        if read == 0 {
            break;
        }
        counts.plain_bytes += read as u64;
        len += read;
        // An event may cross the end of a read: keep the end for the next round.
        let keep = memchr::memmem::rfind(&buffer[..len], b" app=").unwrap_or(0);
        counts.see(&buffer[..keep]);
        buffer.copy_within(keep..len, 0);
        len -= keep;
    }
    counts.see(&buffer[..len]);
    ensure!(gzip.wait()?.success(), "gzip found damaged data");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_doubled_and_reordered_events_are_told_apart() {
        let mut counts = Counts::default();
        counts.scan(b"x app=1 seq=0 y app=1 seq=2 z app=1 seq=1 app=1 seq=2 app=0 seq=7 ");
        assert_eq!((counts.events, counts.distinct(), counts.reordered()), (5, 4, 1));
        assert_eq!(counts.applications[1].repeated, 1);
        assert_eq!(counts.applications[0].end, 8);
    }
}
