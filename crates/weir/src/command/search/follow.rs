//! `weir search --follow`: stored records, then new ones as they arrive, without gaps or
//! duplicates.
//!
//! The live tail is connected first, so that no record that arrives from then on is missed. Then
//! the command waits until the store shows every record that was in flight to it at that moment.
//! Only then does it search. So every record is found by the search, by the tail, or by both;
//! duplicates are recognized by stream and position, which both report, and printed once.

use std::time::Duration;

use anyhow::Result;
use weir_api::{LedgerDocument, LogDetails, StoreDocument};

use super::rows::Printer;
use super::{Search, counted};
use crate::command::tail::{PrintedSearch, Tail};
use crate::exit::Exit;
use crate::term::{Style, note_painted};

/// Rows per second of the live part: the maximum of the API, so that none is left out.
const MAX_RATE: u32 = 100_000;

/// Pause between two checks of what the store shows.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of checks after which the store is considered to be falling behind.
const POLLS_MAX: u32 = 150;

/// Name of the store among the outputs.
const STORE: &str = "store";

impl Search<'_> {
    /// Prints until the reader closes the pipe.
    pub(super) fn follow(mut self) -> Result<Exit> {
        let mut tail =
            Tail::connect(self.client.clone(), &self.request.query, MAX_RATE, self.color)?;
        if !self.wait_for_store()? {
            let title = self.notes.paint.paint(Style::Warn, "the store is falling behind");
            note_painted(&format!("{title}: the most recent records may be missing"));
        }
        // No end: records that arrived after the tail was connected may have any time.
        self.request.to = Some("now+36500d".to_owned());
        let mut entries = Vec::new();
        let mut printer = Printer::new(self.args, &self.request.query, self.paint());
        self.pages(|page, units| {
            entries.extend(page);
            printer.units.add(units);
            Ok(true)
        })?;
        entries.reverse();
        let is_read = printer.print(&entries)?;
        let rows = counted(entries.len() as u64, "row");
        self.notes.end(&format!("{rows}; now following"));
        if !is_read {
            return Ok(Exit::Ok);
        }
        let known = entries.iter().filter_map(|entry| entry.weir.as_ref());
        let key = |weir: &LogDetails| (weir.stream.clone(), weir.position.clone());
        tail.printed = Some(PrintedSearch { known: known.map(key).collect(), printer });
        tail.run()
    }

    /// Waits until the store shows all records routed to it so far. Returns false on timeout.
    fn wait_for_store(&self) -> Result<bool> {
        let Some((routed, _)) = self.store_counts()? else { return Ok(true) };
        for _ in 0..POLLS_MAX {
            match self.store_counts()? {
                Some((_, shown)) if shown < routed => pause(),
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Records routed to the store, and how many of them it shows or has discarded.
    fn store_counts(&self) -> Result<Option<(u64, u64)>> {
        // Whoever may read only some applications does not see it, and does not wait.
        let ledger: LedgerDocument = self.client.get("/weir/v1/ledger")?;
        if ledger.of_applications {
            return Ok(None);
        }
        // Read after the ledger, so that a record that moves to a segment between the two reads is
        // missed rather than counted twice.
        let store: StoreDocument = self.client.get("/weir/v1/store")?;
        let cursor = ledger.cursors.iter().find(|cursor| cursor.name == STORE);
        Ok(cursor.map(|cursor| {
            let book = &cursor.book;
            let given_up = book.discarded.values().sum::<u64>() + book.dead_lettered;
            (book.routed, book.delivered + given_up + store.head_rows)
        }))
    }
}

#[expect(clippy::disallowed_methods, reason = "the store does not report when it shows a record")]
fn pause() {
    std::thread::sleep(POLL_INTERVAL);
}
