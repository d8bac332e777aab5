//! The faults that are injected: one at a time, chosen by the seed.

use std::time::{Duration, Instant};

use super::files::Fate;
use super::report::Fault;
use super::target::Target;
use super::{Torture, TortureError, damage, failed};

/// Relative frequency of each fault.
const WEIGHTS: [(Fault, u32); 15] = [
    (Fault::Kill, 6),
    (Fault::Stop, 3),
    (Fault::Rotate, 8),
    (Fault::CopyTruncate, 4),
    (Fault::DeleteRead, 3),
    (Fault::Delete, 4),
    (Fault::Hang, 3),
    (Fault::Refuse, 3),
    (Fault::ServerError, 4),
    (Fault::Drop, 2),
    (Fault::LoseAnswers, 2),
    (Fault::Slow, 3),
    (Fault::DamageSegments, 4),
    (Fault::DamagePositions, 1),
    (Fault::FullDisk, 1),
];

/// Maximum time to prove that a file was read.
const PROOF_TIME_MAX: Duration = Duration::from_secs(3);

/// Positions are flushed every 20 ms; after this time without anything new they have been.
const FLUSHED: Duration = Duration::from_millis(500);

/// Number of damaged journal files, moved aside by weir, that are kept.
const SET_ASIDE_MAX: usize = 100;

/// How long to wait for a journal to write segments.
const BACKLOG_TIME_MAX: Duration = Duration::from_secs(2);

impl Torture<'_> {
    /// Injects one fault, and lets a moment pass.
    pub(super) fn step(&mut self) -> Result<(), TortureError> {
        // How many numbers a fault draws depends on the state of the machine; later faults must
        // depend on the seed alone.
        self.rng = self.order.fork();
        let fault = self.choose();
        if (self.progress)(fault.text()).is_break() {
            return Err(TortureError::Interrupted);
        }
        self.apply(fault)?;
        let oldest = self.writer.files().too_many();
        if let Some(content) = oldest {
            self.delete_known(content, false)?;
        }
        let moment = Duration::from_millis(self.rng.u64(20..400));
        self.pass(moment)
    }

    fn choose(&mut self) -> Fault {
        let total: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut at = self.rng.u32(..total);
        for (fault, weight) in WEIGHTS {
            if at < weight {
                let is_left_out = fault == Fault::DamagePositions && !self.hits_positions;
                return if is_left_out { Fault::Kill } else { fault };
            }
            at -= weight;
        }
        Fault::Kill
    }

    fn count(&mut self, fault: Fault, what: &str) {
        *self.faults.entry(fault).or_default() += 1;
        self.note(&format!("{}: {what}", fault.text()));
    }

    fn apply(&mut self, fault: Fault) -> Result<(), TortureError> {
        match fault {
            Fault::Kill => {
                self.count(fault, "");
                self.kill();
                self.start(false)
            }
            Fault::Stop => {
                self.count(fault, "");
                self.stop();
                self.start(false)
            }
            Fault::Rotate | Fault::CopyTruncate => self.rotate(fault),
            Fault::DeleteRead => self.delete_read(),
            Fault::Delete => self.delete(),
            Fault::Hang
            | Fault::Refuse
            | Fault::ServerError
            | Fault::Drop
            | Fault::LoseAnswers
            | Fault::Slow => {
                self.trouble(fault);
                Ok(())
            }
            Fault::DamageSegments => self.damage_segments(),
            Fault::DamagePositions => self.damage_positions(),
            Fault::FullDisk => self.fill_disk(),
        }
    }

    fn trouble(&mut self, fault: Fault) {
        let which = self.rng.usize(..self.targets.len());
        let time = Duration::from_millis(self.rng.u64(200..4000));
        self.count(fault, &format!("{} for {time:?}", self.targets[which].name));
        self.targets[which].trouble(fault, time);
    }

    fn rotate(&mut self, fault: Fault) -> Result<(), TortureError> {
        let mut files = self.writer.files();
        let stream = self.rng.usize(..files.count());
        let name = files.name(stream);
        let done = if fault == Fault::Rotate {
            files.rotate(stream)
        } else {
            files.cut(stream, Fate::Exposed)
        };
        drop(files);
        self.count(fault, name);
        done.map_err(failed("rotate a file"))
    }

    fn delete(&mut self) -> Result<(), TortureError> {
        let mut files = self.writer.files();
        let there = files.there();
        let Some(content) = self.rng.choice(there) else { return Ok(()) };
        let what = format!("{:?}", files.contents[content]);
        let done = files.delete(content, Fate::Exposed);
        drop(files);
        self.count(Fault::Delete, &what);
        done.map_err(failed("remove a file"))
    }

    fn delete_read(&mut self) -> Result<(), TortureError> {
        let there = self.writer.files().there();
        let Some(content) = self.rng.choice(there) else { return Ok(()) };
        let is_cut = self.rng.u8(..3) == 0;
        self.delete_known(content, is_cut)
    }

    /// Removes or truncates a file that weir has durably recorded as read to its end: some
    /// destination has all of it, and its positions are flushed.
    fn delete_known(&mut self, content: usize, is_cut: bool) -> Result<(), TortureError> {
        self.writer.hold(true);
        let is_known = self.prove(content);
        let is_known = is_known.inspect_err(|_| self.writer.hold(false))?;
        let (fate, fault) = if is_known {
            (Fate::Known, Fault::DeleteRead)
        } else {
            (Fate::Exposed, Fault::Delete)
        };
        let mut files = self.writer.files();
        let what = format!("{:?}", files.contents[content]);
        let stream = files.contents[content].stream;
        let done = if is_cut && files.current(stream) == content {
            files.cut(stream, fate)
        } else {
            files.delete(content, fate)
        };
        drop(files);
        self.writer.hold(false);
        self.count(fault, &what);
        done.map_err(failed("remove a file"))
    }

    /// Returns true if weir has durably recorded that it read this content; nothing is written
    /// meanwhile.
    fn prove(&mut self, content: usize) -> Result<bool, TortureError> {
        let begun = Instant::now();
        let (name, lines) = {
            let files = self.writer.files();
            let content = &files.contents[content];
            (files.name(content.stream), content.lines.clone())
        };
        // When nothing was in flight to a destination that has it, and as of which number of
        // flushes.
        let mut settled: Option<(Instant, u64)> = None;
        while begun.elapsed() < PROOF_TIME_MAX {
            self.books = None;
            self.pass(Duration::from_millis(20))?;
            let Some(books) = &self.books else { continue };
            let flushes = books.json()["journal"]["flushes"].as_u64().unwrap_or(0);
            if let Some((since, then)) = settled {
                if flushes >= then + 2 || since.elapsed() >= FLUSHED {
                    return Ok(books.json()["journal"]["disk_error"].is_null());
                }
                continue;
            }
            let has =
                |target: &Target| books.in_flight(target.name) == 0 && target.has(name, &lines);
            let is_settled = self.targets.iter().any(has);
            settled = is_settled.then(|| (Instant::now(), flushes));
        }
        Ok(false)
    }

    /// Lets a destination fall behind, so that the journal writes segments.
    fn fall_behind(&mut self) -> Result<(), TortureError> {
        let begun = Instant::now();
        let which = self.rng.usize(..self.targets.len());
        self.targets[which].trouble(Fault::ServerError, 2 * BACKLOG_TIME_MAX);
        while begun.elapsed() < BACKLOG_TIME_MAX {
            self.pass(Duration::from_millis(50))?;
            let bytes =
                self.books.as_ref().map(|books| books.json()["journal"]["disk_bytes"].as_u64());
            if bytes.flatten().is_some_and(|bytes| bytes > 2 << 20) {
                break;
            }
        }
        Ok(())
    }

    fn damage_segments(&mut self) -> Result<(), TortureError> {
        self.fall_behind()?;
        self.stop();
        let data = self.plan.dir.join("data");
        damage::forget_all_but(&data, "bad", SET_ASIDE_MAX)
            .map_err(failed("remove files that were moved aside"))?;
        let segments = damage::files(&data, "wseg").map_err(failed("list the journal"))?;
        let hits = self.rng.usize(1..=3).min(segments.len());
        for path in self.rng.choose_multiple(segments, hits) {
            let what =
                damage::damage(&path, &mut self.rng).map_err(failed("damage the journal"))?;
            self.is_damaged = true;
            self.count(Fault::DamageSegments, &what);
        }
        self.start(false)
    }

    fn damage_positions(&mut self) -> Result<(), TortureError> {
        self.stop();
        let logs = damage::files(&self.plan.dir.join("data"), "wcur")
            .map_err(failed("list the journal"))?;
        if let Some(path) = logs.last() {
            let what = damage::damage(path, &mut self.rng).map_err(failed("damage the journal"))?;
            self.is_forgotten = true;
            self.count(Fault::DamagePositions, &what);
        }
        self.start(false)
    }

    /// For a while the journal may not use the disk, and a destination accepts nothing.
    fn fill_disk(&mut self) -> Result<(), TortureError> {
        let time = Duration::from_millis(self.rng.u64(1000..3000));
        self.count(Fault::FullDisk, &format!("for {time:?}"));
        self.stop();
        self.start(true)?;
        let which = self.rng.usize(..self.targets.len());
        self.targets[which].trouble(Fault::ServerError, time);
        self.pass(time)?;
        if self.rng.bool() {
            self.kill();
        } else {
            self.stop();
        }
        self.start(false)
    }
}
