//! Messages for the owner of an application about its drains: that one cannot be used, does not
//! accept records, or has lost some.
//!
//! Invariants: the queue of messages is limited, and what it discards is counted; a message is not
//! repeated too often; there are no messages about drains for more than one application, which are
//! the operators' concern; the loss of such messages alone is not reported, since the report could
//! be lost in turn.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use weir_model::DiscardReason;

use super::core::Failure;
use super::limits::{MESSAGES_MAX, REPEAT_FAILURE_AFTER, REPEAT_LOSS_AFTER, TELL_FAILURE_AFTER};
use super::plan::Selector;
use super::provider::RejectedBinding;
use super::registry::Definition;
use super::{book::DrainBook, limits::REPEAT_REJECTION_AFTER};

/// A message for the log of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainMessage {
    /// Id of the application.
    pub app: String,
    /// The text, without credentials.
    pub text: String,
}

/// What was reported about a drain.
#[derive(Debug, Default)]
struct Reported {
    /// Number of lost records that were reported.
    lost: u64,
    /// When a loss was last reported.
    lost_at: Option<Duration>,
    failure_at: Option<Duration>,
    /// Messages for its application since a loss was reported: these may be the lost records.
    own: u64,
}

/// Writes messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    told: HashMap<u64, Reported>,
    rejected: HashMap<RejectedBinding, Duration>,
    /// Messages that have yet to be logged.
    waiting: VecDeque<DrainMessage>,
    /// Messages discarded since the last [`Self::take`] because the queue was full.
    discarded: u64,
}

impl Messages {
    /// Notes what a drain had lost in earlier runs, which was reported then.
    pub(super) fn begin(&mut self, drain: &Definition, book: &DrainBook) {
        let lost = lost_by(book);
        if lost > 0 && matches!(drain.selector, Selector::App(_)) {
            self.told.entry(drain.id).or_default().lost = lost;
        }
    }

    /// Queues messages about the state of a drain, if they are due.
    pub(super) fn note(
        &mut self,
        drain: &Definition,
        book: &DrainBook,
        failure: Option<&Failure>,
        now: Duration,
    ) {
        let Selector::App(app) = &drain.selector else { return };
        let lost = lost_by(book);
        if lost == 0 && failure.is_none() {
            return;
        }
        let told = self.told.entry(drain.id).or_default();
        let is_due = |last: Option<Duration>, after| last.is_none_or(|last| now >= last + after);
        let mut texts = Vec::new();
        let url = &drain.binding.url;
        // The number can decrease when records that were counted as lost are found again.
        let missed = lost.saturating_sub(told.lost);
        if missed > told.own && is_due(told.lost_at, REPEAT_LOSS_AFTER) {
            texts.push(format!(
                "{missed} messages lost for application {app} in user provided syslog drain with url \
                 {url}"
            ));
            (told.lost, told.lost_at, told.own) = (lost, Some(now), 0);
        }
        if let Some(failure) = failure
            && now >= failure.since + TELL_FAILURE_AFTER
            && is_due(told.failure_at, REPEAT_FAILURE_AFTER)
        {
            texts.push(format!("Failed to send to {url}: {}", failure.error));
            told.failure_at = Some(now);
        }
        told.own += texts.len() as u64;
        for text in texts {
            self.push(app.clone(), text);
        }
    }

    /// Queues messages about the bindings of a list that cannot be used, if they are due.
    pub(super) fn note_rejected(&mut self, rejected: &[RejectedBinding], now: Duration) {
        self.rejected.retain(|known, _| rejected.contains(known));
        for one in rejected {
            let Some(app) = one.app.clone() else { continue };
            let last = self.rejected.get(one);
            if last.is_none_or(|last| now >= *last + REPEAT_REJECTION_AFTER) {
                self.rejected.insert(one.clone(), now);
                self.push(app, one.text.clone());
            }
        }
    }

    /// Forgets the messages about a drain that was removed.
    pub(super) fn forget(&mut self, drain: u64) {
        self.told.remove(&drain);
    }

    /// Takes the queued messages, and the number of discarded ones.
    pub(super) fn take(&mut self) -> (Vec<DrainMessage>, u64) {
        (self.waiting.drain(..).collect(), std::mem::take(&mut self.discarded))
    }

    fn push(&mut self, app: String, text: String) {
        if self.waiting.len() >= MESSAGES_MAX {
            self.waiting.pop_front();
            self.discarded += 1;
        }
        self.waiting.push_back(DrainMessage { app, text });
    }
}

/// Number of records lost to the owner of a drain.
fn lost_by(book: &DrainBook) -> u64 {
    book.discarded_total() - book.discarded[DiscardReason::DrainRemoved as usize]
}

#[cfg(test)]
mod tests {
    use super::super::registry::StoredDrain;
    use super::*;

    fn drain(app: Option<&str>) -> Definition {
        let stored = StoredDrain {
            app: app.map(str::to_owned),
            space: None,
            organization: None,
            url: "syslog://user:hidden@host/?token=hidden".to_owned(),
            hostname: String::new(),
            cert: None,
            key: None,
            ca: None,
        };
        stored.define("config").unwrap()
    }

    #[test]
    fn losses_are_reported_with_pauses_and_not_if_only_reports_were_lost() {
        let drain = drain(Some("app"));
        let (mut messages, mut book) = (Messages::default(), DrainBook::default());
        let mut lost_at = |lost: u64, second: u64| {
            book.discarded[DiscardReason::BufferFull as usize] = lost;
            messages.note(&drain, &book, None, Duration::from_secs(second));
            let texts: Vec<String> = messages.waiting.drain(..).map(|one| one.text).collect();
            texts
        };
        assert!(lost_at(0, 1).is_empty());
        let told = "5 messages lost for application app in user provided syslog drain with url \
                    syslog://host/";
        assert_eq!(lost_at(5, 2), [told]);
        assert!(lost_at(9, 3).is_empty(), "a minute has not passed");
        assert_eq!(lost_at(9, 63)[0].split(' ').next(), Some("4"));
        assert!(lost_at(10, 200).is_empty(), "that was the message");
        assert_eq!(lost_at(11, 300)[0].split(' ').next(), Some("2"));
    }

    #[test]
    fn losses_of_earlier_runs_are_not_reported_again() {
        let drain = drain(Some("app"));
        let (mut messages, mut book) = (Messages::default(), DrainBook::default());
        book.discarded[DiscardReason::Expired as usize] = 7;
        messages.begin(&drain, &book);
        messages.note(&drain, &book, None, Duration::from_secs(1));
        assert!(messages.waiting.is_empty());
        book.discarded[DiscardReason::Expired as usize] = 8;
        messages.note(&drain, &book, None, Duration::from_secs(2));
        assert!(messages.waiting[0].text.starts_with("1 messages lost"));
    }

    #[test]
    fn drains_for_many_applications_and_old_news_are_not_told() {
        let mut messages = Messages::default();
        let mut book = DrainBook::default();
        book.discarded[DiscardReason::Expired as usize] = 3;
        messages.note(&drain(None), &book, None, Duration::from_secs(1));
        assert!(messages.waiting.is_empty());
        let app = || Some("app".to_owned());
        let rejected = [
            RejectedBinding { app: None, text: "names no application".to_owned() },
            RejectedBinding { app: app(), text: "Invalid Scheme".to_owned() },
        ];
        for (second, count) in [(1, 1), (16, 0), (3602, 1)] {
            messages.note_rejected(&rejected, Duration::from_secs(second));
            assert_eq!(messages.waiting.drain(..).count(), count, "{second}");
        }
        for number in 0..MESSAGES_MAX + 5 {
            messages.push("app".to_owned(), number.to_string());
        }
        let (waiting, discarded) = messages.take();
        assert_eq!((&*waiting[0].text, waiting.len(), discarded), ("5", MESSAGES_MAX, 5));
        assert_eq!(messages.take(), (Vec::new(), 0));
    }
}
