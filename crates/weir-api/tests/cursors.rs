//! Dropping cursors while that cannot be saved, and while weir stops.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use weir_api::{Api, ApiSettings};
use weir_host::{Clock, RealClock};
use weir_journal::{CursorSpec, Journal, WhenFull};
use weir_pipeline::rule::{RuleSwitch, Rules};
use weir_pipeline::view::PipelineView;
use weir_testkit::{CallKind, Fault, FaultKind, FaultyDisk, journal_config};

/// Asks for a cursor to be dropped; returns the answer.
fn drop_cursor(api: &Api, name: &str) -> String {
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!(
        "DELETE /weir/v1/cursors/{name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asserts that an answer is a problem with this text, after which another attempt makes sense.
#[track_caller]
fn assert_unavailable(answer: &str, text: &str) {
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("problem+json") && answer.contains(text), "{answer}");
}

#[test]
fn a_cursor_is_not_dropped_for_good_while_the_disk_fails_or_weir_stops() {
    let settings = ApiSettings::at(SocketAddr::from(([127, 0, 0, 1], 0)));
    let api = Api::bind(&settings, "1.2.3").unwrap();
    assert_unavailable(&drop_cursor(&api, "first"), "weir is starting");
    let disk = FaultyDisk::new();
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let config = journal_config("/data/journal");
    let journal = Journal::open(config, Arc::new(disk.clone()), clock.clone()).unwrap();
    for name in ["first", "second"] {
        let cursor = journal.cursor(CursorSpec {
            name: name.to_owned(),
            when_full: WhenFull::Block,
            buffer_bytes_max: 1 << 20,
            window_bytes: 1 << 20,
        });
        journal.detach(cursor.unwrap().index());
    }
    journal.flush();
    let rules = Arc::new(RuleSwitch::new(Rules::to_all(1, []), 0));
    let view = PipelineView::new(journal.clone(), Vec::new(), Vec::new(), rules, clock);
    api.set_pipeline(Arc::new(view), None);
    disk.inject(Fault::new(FaultKind::Io).on(CallKind::SyncData).forever());
    let answer = drop_cursor(&api, "first");
    assert_unavailable(&answer, "was dropped, but this could not be saved");
    disk.faults().clear();
    journal.close();
    assert_unavailable(&drop_cursor(&api, "second"), "weir is stopping");
    assert!(journal.has_cursor("second") && !journal.has_cursor("first"));
    assert!(journal.ledger().cursors.iter().all(|cursor| cursor.unaccounted() == 0));
    api.shutdown();
    journal.shutdown();
}
