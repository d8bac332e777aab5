//! Sources that produce envelopes themselves at intervals, instead of receiving them or following
//! files: their thread, and the path of an envelope to the journal.
//!
//! Invariants: an emitted envelope becomes one record as soon as the journal has room; until then
//! the task that emitted it waits.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::LocalSet;
use weir_host::{Disk, WakeFd};

use super::Production;
use super::listen::{CpuTime, GatheredLanes, Incoming as _, KeyFields, LaneContext, Wakes};
use super::loggregator::{LoggregatorIntake, LoggregatorVersion};

/// Number of envelopes after which a task yields, and the number of received records is written.
pub(super) const ENVELOPES_PER_TURN: i64 = 256;

/// The thread of such a source.
pub(super) struct Producer {
    pub(super) context: LaneContext,
    pub(super) disk: Arc<dyn Disk>,
    /// File for the number of envelopes that were emitted.
    pub(super) received_file: PathBuf,
    pub(super) wake: WakeFd,
    pub(super) stop: Arc<AtomicBool>,
    /// Default tags of envelopes.
    pub(super) tags: Vec<(String, String)>,
    pub(super) production: Production,
}

/// Takes envelopes.
pub(super) struct Emitter {
    pub(super) context: LaneContext,
    lanes: Rc<GatheredLanes>,
    intake: RefCell<LoggregatorIntake>,
    cpu_time: CpuTime,
}

impl Producer {
    /// Opens the streams, calls `opened`, and works until told to stop.
    pub(super) fn run(self, opened: impl FnOnce()) {
        let name = self.context.name.clone();
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => LocalSet::new().block_on(&runtime, async {
                if let Err(error) = self.work(opened).await {
                    tracing::error!(source = name, %error, "source failed");
                }
            }),
            Err(error) => tracing::error!(source = name, %error, "cannot start event loop"),
        }
    }

    async fn work(self, opened: impl FnOnce()) -> io::Result<()> {
        let Self { context, disk, received_file, wake, stop, tags, production } = self;
        context.journal.register_source(&context.name);
        context.journal.on_room(wake.clone());
        let lanes = GatheredLanes::open(context.clone(), &*disk, &received_file);
        let emitter = Rc::new(Emitter {
            intake: RefCell::new(LoggregatorIntake::new(&tags, KeyFields::default())),
            lanes: lanes.clone(),
            cpu_time: CpuTime::default(),
            context,
        });
        opened();
        let wakes = Wakes::new(&wake)?;
        let stopped = async {
            while !stop.load(Ordering::Acquire) {
                wakes.next().await?;
                lanes.wake();
            }
            io::Result::Ok(())
        };
        tokio::select! {
            stopped = stopped => stopped?,
            () = production.run(&emitter) => {}
            () = lanes.flush_in_time() => {}
        }
        if !wakes.finish(|| lanes.wake(), lanes.drain()).await {
            let source = emitter.context.name.as_str();
            tracing::warn!(source, "the journal has no room for the last records");
        }
        emitter.cpu_time.publish_now(&emitter.context.stats);
        Ok(())
    }
}

impl Emitter {
    /// Appends an envelope as a record; waits while the journal has no room.
    pub(super) async fn emit(&self, envelope: &[u8], observed_ns: i64) {
        while !self.try_emit(envelope, observed_ns) {
            self.turn();
            self.lanes.room().await;
        }
    }

    /// Appends an envelope as a record. Returns false if the journal has no room.
    pub(super) fn try_emit(&self, envelope: &[u8], observed_ns: i64) -> bool {
        let mut intake = self.intake.borrow_mut();
        let mut parsed = intake.parse(LoggregatorVersion::V2, envelope, None, observed_ns);
        let lane = GatheredLanes::lane_of(parsed.lane_hash());
        self.lanes.push(lane, |batch, end, book| parsed.push(batch, end, book)).is_ok()
    }

    /// Writes the number of emitted records to the file. Must be called after each part of the
    /// work.
    pub(super) fn turn(&self) {
        self.lanes.mark_received();
        self.cpu_time.publish(&*self.context.clock, &self.context.stats);
    }
}
