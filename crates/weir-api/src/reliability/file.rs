//! The file with the readings, so that they survive a restart: a line of JSON for each.
//!
//! Invariants: a reading is appended; the file is replaced as a whole when most of it is no longer
//! needed, when a line of it is damaged, and after an error. A file that cannot be read, or is of a
//! later release, is reported and not changed. Losing the end of it loses no counts, since each
//! reading has those of the books.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_host::{Disk, OpenMode};

use super::history::{
    COMPONENTS_MAX, Component, ComponentKind, Counts, History, READINGS_MAX, Reading,
};
use super::rates::{AtRate, Rates};

/// Name of the file in the data directory.
pub(super) const FILE: &str = "reliability.jsonl";
const SCHEMA: &str = "weir.reliability.v1";

/// Lines in addition to twice the readings before the file is replaced: an hour of them.
const LINES_SPARE: usize = 60;
/// Maximum size of a component in a line: a name, five numbers, and a few rates.
const COMPONENT_BYTES_MAX: usize = 512;
/// Maximum size of the file. More is not read.
const FILE_BYTES_MAX: u64 =
    ((2 * READINGS_MAX + LINES_SPARE) * COMPONENTS_MAX * COMPONENT_BYTES_MAX) as u64;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    schema: String,
}

/// A reading: counts are received, delivered, lost, discarded, and in how many intervals something
/// was lost.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    time_unix_ns: i64,
    running_ns: u64,
    /// With the empty name, all together; earlier files do not have them.
    sources: ByName<[u64; 5]>,
    outputs: ByName<[u64; 5]>,
    /// The rates of the minutes that were left out before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_rates: Option<ByName<Vec<RateInLine>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_rates: Option<ByName<Vec<RateInLine>>>,
}

type ByName<Value> = BTreeMap<String, Value>;

/// The number of a range of rates, for how many nanoseconds, and what was received, delivered and
/// lost.
type RateInLine = (u8, u64, u64, u64, u64);

/// The file, and how much of it is known to be intact.
#[derive(Debug)]
pub(super) struct HistoryFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Its length and number of lines; `None`: it must be replaced.
    whole: Option<(u64, usize)>,
}

impl HistoryFile {
    /// Opens the file in a directory, and reads it.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<(Self, History)> {
        let path = dir.join(FILE);
        let bytes = match weir_host::read_file(&*disk, &path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Self { disk, path, whole: None }, History::default()));
            }
            other => other?,
        };
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let header = lines.next().unwrap_or_default();
        let mut is_whole = match serde_json::from_slice::<Header>(header) {
            Ok(Header { schema }) if schema != SCHEMA => {
                return Err(io::Error::other(format!("unknown schema {schema:?}")));
            }
            found => found.is_ok() && is_line(header),
        };
        let (mut history, mut count) = (History::default(), 1);
        for line in lines {
            match serde_json::from_slice::<Line>(line) {
                Ok(read) if is_line(line) => history.add(read.into()),
                _ => is_whole = false,
            }
            count += 1;
        }
        let whole = is_whole.then_some((bytes.len() as u64, count));
        Ok((Self { disk, path, whole }, history))
    }

    /// Writes the last reading, or all of them.
    ///
    /// # Errors
    /// If the disk fails; then all are written next time.
    pub(super) fn write(&mut self, history: &History) -> io::Result<()> {
        let lines_max = 2 * history.readings().len() + LINES_SPARE;
        if let Some((len, lines)) = self.whole.take().filter(|(_, lines)| *lines < lines_max) {
            let line = history.last().map(line_of).unwrap_or_default();
            let file = self.disk.open(&self.path, OpenMode::ReadWrite)?;
            // Not flushed: a power failure loses no counts, only the times at which records are
            // counted.
            file.write_all_at(&mut [IoSlice::new(&line)], len)?;
            self.whole = Some((len + line.len() as u64, lines + 1));
            return Ok(());
        }
        let mut all = serde_json::to_vec(&Header { schema: SCHEMA.to_owned() })?;
        all.push(b'\n');
        history.readings().for_each(|reading| all.extend(line_of(reading)));
        weir_host::replace_file(&*self.disk, &self.path, &all)?;
        self.whole = Some((all.len() as u64, history.readings().len() + 1));
        Ok(())
    }
}

fn is_line(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n")
}

fn line_of(reading: &Reading) -> Vec<u8> {
    let of = |kind: ComponentKind| {
        let numbers = |c: &Counts| [c.received, c.delivered, c.lost, c.discarded, c.lossy];
        by_name(&reading.counts, kind, numbers)
    };
    let rates = |kind: ComponentKind| {
        let numbers =
            |rate: &AtRate| (rate.range, rate.running_ns, rate.received, rate.delivered, rate.lost);
        let rates = reading.rates.as_deref()?;
        Some(by_name(rates, kind, |rates: &Rates| rates.iter().map(numbers).collect()))
    };
    let line = Line {
        time_unix_ns: reading.time_ns,
        running_ns: reading.running_ns,
        sources: of(ComponentKind::Source),
        outputs: of(ComponentKind::Output),
        source_rates: rates(ComponentKind::Source),
        output_rates: rates(ComponentKind::Output),
    };
    // Maps of texts to numbers can always be written.
    let mut line = serde_json::to_vec(&line).unwrap_or_default();
    line.push(b'\n');
    line
}

fn by_name<Value, Written>(
    values: &[(Arc<Component>, Value)],
    kind: ComponentKind,
    write: impl Fn(&Value) -> Written,
) -> ByName<Written> {
    let of_kind = values.iter().filter(|(component, _)| component.kind == kind);
    of_kind.map(|(component, value)| (component.name.clone(), write(value))).collect()
}

/// Sorted by component.
fn by_component<Written, Value>(
    sources: ByName<Written>,
    outputs: ByName<Written>,
    read: impl Fn(Written) -> Value,
) -> Vec<(Arc<Component>, Value)> {
    let of = |kind, (name, written)| (Arc::new(Component { kind, name }), read(written));
    let sources = sources.into_iter().map(|entry| of(ComponentKind::Source, entry));
    let outputs = outputs.into_iter().map(|entry| of(ComponentKind::Output, entry));
    sources.chain(outputs).take(COMPONENTS_MAX).collect()
}

impl From<Line> for Reading {
    fn from(line: Line) -> Self {
        let read = |[received, delivered, lost, discarded, lossy]: [u64; 5]| Counts {
            received,
            delivered,
            lost,
            discarded,
            lossy,
        };
        let mut sources = line.sources;
        if !sources.contains_key("") {
            let mut total = [0_u64; 5];
            for counts in sources.values() {
                total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            sources.insert(String::new(), total);
        }
        let rates = |of: Vec<RateInLine>| {
            let mut rates = Rates::default();
            for (range, running_ns, received, delivered, lost) in of {
                rates.add(&AtRate { range, running_ns, received, delivered, lost });
            }
            rates
        };
        let rates = match (line.source_rates, line.output_rates) {
            (Some(sources), Some(outputs)) => Some(by_component(sources, outputs, rates).into()),
            _ => None,
        };
        let counts = by_component(sources, line.outputs, read);
        Self { time_ns: line.time_unix_ns, running_ns: line.running_ns, counts, rates, left_out: 0 }
    }
}

#[cfg(test)]
mod tests {
    use weir_host::RealDisk;

    use super::*;

    fn reading(minute: i64, received: u64) -> Reading {
        let component = |kind, name: &str| Arc::new(Component { kind, name: name.to_owned() });
        let counts = Counts { received, delivered: received, ..Counts::default() };
        Reading {
            time_ns: minute * 60_000_000_000,
            running_ns: minute.cast_unsigned() * 60_000_000_000,
            counts: vec![
                (component(ComponentKind::Source, ""), counts),
                (component(ComponentKind::Source, "app \"x\""), counts),
                (component(ComponentKind::Output, "hec"), counts),
            ],
            rates: None,
            left_out: 0,
        }
    }

    fn open(dir: &Path) -> (HistoryFile, History) {
        HistoryFile::open(Arc::new(RealDisk), dir).unwrap()
    }

    fn written(dir: &Path, minutes: std::ops::Range<i64>) {
        let (mut file, mut history) = open(dir);
        for minute in minutes {
            history.add(reading(minute, minute.cast_unsigned()));
            file.write(&history).unwrap();
        }
    }

    fn kept(dir: &Path) -> Vec<Reading> {
        open(dir).1.readings().cloned().collect()
    }

    #[test]
    fn readings_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kept(dir.path()), []);
        written(dir.path(), 1..4);
        written(dir.path(), 4..6);
        let wanted: Vec<Reading> =
            (1..6).map(|minute| reading(minute, minute.cast_unsigned())).collect();
        assert_eq!(kept(dir.path()), wanted);
    }

    #[test]
    fn rates_of_hours_survive_a_file_that_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), 0..30 * 60);
        let before = kept(dir.path());
        assert!(before.iter().any(|reading| reading.rates.is_some()));
        let (mut file, history) = open(dir.path());
        file.whole = None;
        file.write(&history).unwrap();
        assert_eq!(kept(dir.path()), before);
    }

    #[test]
    fn a_file_without_rates_and_totals_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let lines = [
            r#"{"schema":"weir.reliability.v1"}"#,
            r#"{"time_unix_ns":1,"running_ns":1,"sources":{"a":[1,1,0,0,0],"b":[2,2,0,0,0]},"#,
        ];
        let text = format!("{}\n{}\"outputs\":{{}}}}\n", lines[0], lines[1]);
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let readings = kept(dir.path());
        let total = &readings[0].counts[0];
        assert_eq!((&*total.0, total.1.received), (&Component::ALL_SOURCES, 3));
        assert_eq!(readings[0].rates, None);
    }

    #[test]
    fn what_is_damaged_is_left_out_and_the_rest_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), 1..4);
        let path = dir.path().join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        // Cut at any byte: what is whole is there, and the next reading can be read again.
        for len in 0..bytes.len() {
            std::fs::write(&path, &bytes[..len]).unwrap();
            let whole =
                String::from_utf8_lossy(&bytes[..len]).matches('\n').count().saturating_sub(1);
            assert_eq!(kept(dir.path()).len(), whole, "{len}");
            written(dir.path(), 9..10);
            assert_eq!(kept(dir.path()).len(), whole + 1, "{len}");
        }
        let garbage = [&bytes[..], b"{\"time_unix_ns\":\n\xff\n"].concat();
        std::fs::write(&path, &garbage).unwrap();
        assert_eq!(kept(dir.path()).len(), 3);
    }

    #[test]
    fn a_file_of_a_later_release_is_reported_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let later = b"{\"schema\":\"weir.reliability.v9\"}\n";
        std::fs::write(&path, later).unwrap();
        let error = HistoryFile::open(Arc::new(RealDisk), dir.path()).unwrap_err();
        assert!(error.to_string().contains("weir.reliability.v9"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), later);
    }

    #[test]
    fn the_file_does_not_grow_beyond_the_readings_that_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        // Three days.
        written(dir.path(), 0..3 * 24 * 60);
        let lines = std::fs::read_to_string(dir.path().join(FILE)).unwrap().lines().count();
        let readings = kept(dir.path()).len();
        assert!(readings < 26 * 60 && lines <= 2 * readings + LINES_SPARE, "{lines} {readings}");
    }
}
