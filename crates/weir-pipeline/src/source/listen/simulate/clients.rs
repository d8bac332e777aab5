//! The listening sources: lanes, quotas and parsed messages of the product, with senders that are
//! simulated.
//!
//! Invariant: what a sender knows (taken, acknowledged) comes from the calls of the product alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_host::{Disk, Zone};
use weir_model::{BatchBuilder, Full, SourceBook};

use super::super::lanes::{AcknowledgedLanes, GatheredLanes, LaneContext, Refusal};
use super::super::limiter::{Incoming, Limiter, SharedQuota};
use super::super::quota::{KeyFields, KeyName};
use crate::config::{QuotaField, QuotaSettings};
use crate::source::syslog::{Received, SyslogIntake};
use crate::stats::{LimitedCounts, SourceStats};

/// Number of clients that wait for acknowledgements, each with a connection of its own.
pub(super) const CLIENTS: usize = 3;

/// Records per second of a host, and those that it may send at once.
const RATE: f64 = 200.0;
const BURST: Duration = Duration::from_millis(100);

/// A record: the host that sends it, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    /// It is acknowledged.
    pub(super) is_acknowledged: bool,
    pub(super) host: u8,
    pub(super) number: u64,
}

impl Line {
    fn text(self) -> String {
        let Self { is_acknowledged, host, number } = self;
        let kind = u8::from(is_acknowledged);
        format!("<13>Oct 11 22:14:15 h{host} app: line {kind} {host} {number}")
    }

    /// Returns the record with this body; `None` for those that weir itself writes.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let body = std::str::from_utf8(body).expect("text");
        if body.starts_with("weir: ") {
            return None;
        }
        let mut parts = body.strip_prefix("line ").expect("a line").split(' ');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (kind, host, number) = (number(), number(), number());
        let host = u8::try_from(host.expect("a host")).expect("a small number");
        let is_acknowledged = kind.expect("a kind") == 1;
        Some(Self { is_acknowledged, host, number: number.expect("a number") })
    }
}

/// A parsed record, and whether it was added to a batch.
struct Watched<P> {
    parsed: P,
    is_pushed: bool,
}

impl<P: Incoming> Incoming for Watched<P> {
    fn lane_hash(&self) -> u64 {
        self.parsed.lane_hash()
    }

    fn quota_key(&self) -> u64 {
        self.parsed.quota_key()
    }

    fn quota_name(&self) -> KeyName {
        self.parsed.quota_name()
    }

    fn len(&self) -> usize {
        self.parsed.len()
    }

    fn push(
        &mut self,
        batch: &mut BatchBuilder,
        end_offset: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        self.parsed.push(batch, end_offset, book)?;
        self.is_pushed = true;
        Ok(())
    }
}

/// Returns the quota of each host.
pub(super) fn quota(discards: bool) -> QuotaSettings {
    QuotaSettings {
        by: vec![QuotaField::Host],
        records_per_second: Some(RATE),
        bytes_per_second: None,
        burst: BURST,
        discards,
    }
}

/// State of either source.
struct Common {
    context: LaneContext,
    limiter: Option<Rc<Limiter>>,
    intake: SyslogIntake,
}

impl Common {
    fn new(context: LaneContext, settings: Option<&QuotaSettings>) -> Self {
        let limiter = settings.map(|settings| {
            let shared = SharedQuota::new(settings);
            Limiter::new(settings, shared, &context)
        });
        let fields = KeyFields::new(&[QuotaField::Host]);
        Self { context, limiter, intake: SyslogIntake::new(Zone::UTC, fields) }
    }

    fn received<'l>(&self, text: &'l str) -> Received<'l> {
        Received {
            line: text.as_bytes(),
            is_truncated: false,
            skipped_bytes: 0,
            peer: None,
            observed_ns: self.context.clock.unix_ns(),
        }
    }
}

/// Returns the counts of keys above their quota, by host.
fn limited(stats: &SourceStats, limiter: Option<&Rc<Limiter>>) -> BTreeMap<u8, LimitedCounts> {
    let Some(limiter) = limiter else { return BTreeMap::new() };
    limiter.publish();
    let report = stats.listener.rate_limit.report().expect("it was published");
    assert_eq!(report.others, LimitedCounts::default(), "every key has a name");
    let host = |name: &str| name.strip_prefix("host=h").expect("a host").parse().expect("a number");
    report.keys.iter().map(|key| (host(&key.name), key.counts)).collect()
}

/// Polls a future once.
pub(super) fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The source whose senders get no acknowledgement.
pub(super) struct Unacknowledged {
    common: Common,
    pub(super) lanes: Rc<GatheredLanes>,
}

impl Unacknowledged {
    pub(super) fn open(
        context: LaneContext,
        settings: Option<&QuotaSettings>,
        disk: &dyn Disk,
    ) -> Self {
        let file = Path::new("/data/received").join(&context.name);
        let lanes = GatheredLanes::open(context.clone(), disk, &file);
        Self { common: Common::new(context, settings), lanes }
    }

    /// Receives records until the journal has no room. Returns whether each that was received was
    /// taken; the others were discarded for their quota.
    pub(super) fn receive(&mut self, lines: &[Line]) -> Vec<bool> {
        let Self { common, lanes } = self;
        let limiter = common.limiter.clone();
        let mut round = limiter.as_ref().map(|limiter| limiter.round()).unwrap_or_default();
        let mut received = Vec::new();
        for line in lines {
            let text = line.text();
            let message = common.received(&text);
            let mut watched = Watched { parsed: common.intake.parse(message), is_pushed: false };
            let pushed = if let Some(limiter) = &limiter {
                limiter.push(lanes, &mut watched, &mut round)
            } else {
                let lane = GatheredLanes::lane_of(watched.lane_hash());
                lanes.push(lane, |batch, end, book| watched.push(batch, end, book))
            };
            if pushed.is_err() {
                break;
            }
            received.push(watched.is_pushed);
        }
        round.count(lanes);
        lanes.mark_received();
        received
    }

    /// Writes notices about keys above their quota.
    pub(super) fn report(&self) {
        if let Some(limiter) = &self.common.limiter {
            let reporting = std::pin::pin!(limiter.run_gathered(&self.lanes));
            let _never_ends = poll(reporting);
        }
    }

    /// Counts of hosts above their quota.
    pub(super) fn limited(&self) -> BTreeMap<u8, LimitedCounts> {
        limited(&self.common.context.stats, self.common.limiter.as_ref())
    }

    /// Number of records that weir itself has written.
    pub(super) fn notices(&self) -> u64 {
        let _current = self.limited();
        let report = self.common.context.stats.listener.rate_limit.report();
        report.map_or(0, |report| report.notices)
    }

    /// Appends what was gathered. Returns false if the journal has no room for it.
    pub(super) fn finish(&self) -> bool {
        if let Some(limiter) = &self.common.limiter {
            limiter.finish_gathered(&self.lanes);
        }
        self.is_drained()
    }

    /// Appends what was gathered, if the journal has room.
    pub(super) fn is_drained(&self) -> bool {
        poll(std::pin::pin!(self.lanes.drain())).is_some()
    }
}

/// The answer to a request: whether each record was taken, or discarded for its quota.
type Answer = Result<Vec<bool>, Refusal>;

/// A request that is being handled.
struct Request {
    future: Pin<Box<dyn Future<Output = Answer>>>,
    lines: Vec<Line>,
}

/// The source whose clients wait for acknowledgements.
pub(super) struct Acknowledged {
    common: Rc<RefCell<Common>>,
    lanes: Rc<AcknowledgedLanes>,
    requests: [Option<Request>; CLIENTS],
}

/// A request that was answered.
pub(super) struct Answered {
    pub(super) client: usize,
    pub(super) lines: Vec<Line>,
    pub(super) answer: Answer,
}

impl Acknowledged {
    pub(super) fn open(context: LaneContext, settings: Option<&QuotaSettings>) -> Self {
        let lanes = AcknowledgedLanes::open(context.clone());
        let common = Rc::new(RefCell::new(Common::new(context, settings)));
        Self { common, lanes, requests: Default::default() }
    }

    pub(super) fn is_waiting(&self, client: usize) -> bool {
        self.requests[client].is_some()
    }

    /// A client sends these records.
    pub(super) fn request(&mut self, client: usize, lines: Vec<Line>) {
        let (common, lanes) = (Rc::clone(&self.common), Rc::clone(&self.lanes));
        let future = Box::pin(handle(common, lanes, client, lines.clone()));
        self.requests[client] = Some(Request { future, lines });
    }

    /// Continues with all requests; returns those that were answered.
    pub(super) fn go_on(&mut self) -> Vec<Answered> {
        let mut answered = Vec::new();
        for (client, slot) in self.requests.iter_mut().enumerate() {
            let Some(request) = slot else { continue };
            if let Some(answer) = poll(request.future.as_mut()) {
                let lines = std::mem::take(&mut request.lines);
                *slot = None;
                answered.push(Answered { client, lines, answer });
            }
        }
        answered
    }

    /// The journal has room again.
    pub(super) fn wake(&self) {
        self.lanes.wake();
    }

    /// Counts of hosts above their quota.
    pub(super) fn limited(&self) -> BTreeMap<u8, LimitedCounts> {
        let common = self.common.borrow();
        limited(&common.context.stats, common.limiter.as_ref())
    }
}

/// Handles a request as a listener does.
async fn handle(
    common: Rc<RefCell<Common>>,
    lanes: Rc<AcknowledgedLanes>,
    client: usize,
    lines: Vec<Line>,
) -> Answer {
    let turn = lanes.enter(client).await?;
    let mut taken = Vec::new();
    let prepared = {
        let common = &mut *common.borrow_mut();
        let texts: Vec<String> = lines.iter().map(|line| line.text()).collect();
        let mut claim = common.limiter.as_ref().map(Limiter::claim);
        for text in &texts {
            let message = common.received(text);
            let parsed = common.intake.parse(message);
            let is_discarded = claim.as_mut().is_some_and(|claim| {
                claim.take(parsed.quota_key(), parsed.len(), || parsed.quota_name())
            });
            taken.push(!is_discarded);
        }
        let push = &mut |index: usize, batch: &mut _, end, book: &mut _| {
            let message = common.received(&texts[index]);
            let mut parsed = common.intake.parse(message);
            if taken[index] {
                parsed.push(batch, end, book)
            } else {
                parsed.discard(book);
                Ok(())
            }
        };
        lanes.prepare(&turn, texts.len(), push)?.with_claim(claim)
    };
    lanes.append(turn, prepared).await?;
    Ok(taken)
}
