//! `type = "drain_messages"`: messages for the owner of an application about its drains, as logs of
//! the application, in the form of the original: source type `LGR`, instance 0.
//!
//! Invariant: they are records like any others, received, routed and counted; they wait in the
//! drains until there is room in the journal.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_codec::{LoggregatorEnvelope, LoggregatorMessage, encode_loggregator_envelope};

use super::loggregator_metrics::ViewSlot;
use super::produce::Emitter;
use crate::drain::DrainMessage;

/// `type = "drain_messages"`: messages about drains, as logs of the applications.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrainMessagesSource {
    /// Default tags: added to envelopes that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// Interval at which messages are taken: short enough for human readers.
const INTERVAL: Duration = Duration::from_secs(1);

/// Logs messages; never returns.
pub(super) async fn run(view: &ViewSlot, emitter: &Emitter) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(view) = view.get().and_then(Weak::upgrade) else { continue };
        let taken = view.drains().map(|drains| drains.take_messages());
        let (messages, discarded) = taken.unwrap_or_default();
        if discarded > 0 {
            let text = format!("{discarded} messages were discarded: the journal had no room");
            emitter.context.stats.errors.count_times(discarded, "messages_discarded", &text);
        }
        for message in messages {
            let now_ns = emitter.context.clock.unix_ns();
            emitter.emit(&envelope(&message, now_ns), now_ns).await;
        }
        emitter.turn();
    }
}

/// Returns the log envelope of a message.
fn envelope(message: &DrainMessage, timestamp_ns: i64) -> Vec<u8> {
    let envelope = LoggregatorEnvelope {
        timestamp_ns,
        source_id: message.app.as_bytes(),
        instance_id: b"0",
        message: LoggregatorMessage::Log { payload: message.text.as_bytes(), is_error: true },
        ..LoggregatorEnvelope::default()
    };
    let mut bytes = Vec::new();
    encode_loggregator_envelope(&envelope, &[("source_type", "LGR")], &mut bytes);
    bytes
}
