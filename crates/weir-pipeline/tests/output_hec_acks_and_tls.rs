//! The output `splunk_hec`: indexer acknowledgement, and TLS.

mod harness;

use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::{DEADLINE, Rig, to_collector};
use weir_pipeline::config::Compression;
use weir_pipeline::output::SplunkHec;
use weir_pipeline::stats::get;
use weir_testkit::{Acks, Collector, CollectorConfig, Pki, ServerCertificate};

fn acknowledging(acks: Acks) -> Collector {
    Collector::with(CollectorConfig { acks, ..CollectorConfig::default() })
}

fn fill(rig: &mut Rig) {
    for stream in 1..=3 {
        rig.append_numbered(stream, 1000, 100);
    }
}

fn patient(hec: &mut SplunkHec) {
    hec.indexer_ack = true;
    hec.ack_timeout = DEADLINE;
    hec.requests.batch_bytes = 16 * 1024;
}

#[test]
fn records_count_as_delivered_only_when_the_indexer_acknowledged_them() {
    let collector = acknowledging(Acks::Never);
    let mut rig = to_collector(&collector, patient);
    fill(&mut rig);
    assert!(collector.wait(DEADLINE, |tally| tally.unique() == 3000), "all is stored");
    assert_eq!((rig.book().book.delivered, rig.book().in_flight), (0, 3000));
    rig.stop(Duration::ZERO);
    assert_eq!(rig.finish().0.in_flight, 3000);
}

#[test]
fn late_acknowledgements_settle_everything_without_duplicates() {
    let collector = acknowledging(Acks::AtPoll(2));
    // The poll interval is a twentieth of this.
    let mut rig = to_collector(&collector, |hec| {
        patient(hec);
        hec.ack_timeout = Duration::from_secs(4);
    });
    fill(&mut rig);
    rig.drain();
    let (book, _dir) = rig.finish();
    assert_eq!((book.book.delivered, book.book.resent), (3000, 0));
    let tally = collector.tally();
    assert_eq!((tally.unique(), tally.duplicates()), (3000, 0));
    assert!(tally.streams.values().all(|stream| stream.disordered == 0));
}

#[test]
fn batches_that_the_indexer_lost_are_sent_again() {
    let collector = acknowledging(Acks::FirstLost(2));
    let mut rig = to_collector(&collector, |hec| {
        patient(hec);
        hec.ack_timeout = Duration::from_millis(300);
    });
    fill(&mut rig);
    rig.drain();
    assert!(rig.errors("ack_timeout") >= 1);
    let (book, _dir) = rig.finish();
    assert_eq!(book.book.delivered, 3000);
    assert!(book.book.resent > 0);
    assert_eq!(collector.tally().unique(), 3000);
}

#[test]
fn acknowledgements_lost_in_a_restart_of_the_collector_are_not_waited_for_for_ever() {
    let mut collector = acknowledging(Acks::Never);
    let mut rig = to_collector(&collector, |hec| {
        patient(hec);
        hec.ack_timeout = Duration::from_millis(500);
    });
    rig.append_numbered(1, 100, 100);
    assert!(collector.wait(DEADLINE, |tally| tally.unique() == 100));
    let address = collector.address();
    collector.pause();
    drop(collector);
    let reborn = Collector::with(CollectorConfig {
        listen: address,
        acks: Acks::AtPoll(1),
        ..CollectorConfig::default()
    });
    rig.drain();
    let (book, _dir) = rig.finish();
    assert_eq!(book.book.delivered, 100);
    assert_eq!(reborn.tally().unique(), 100);
}

#[test]
fn a_token_without_acknowledgement_is_reported_and_delivers() {
    let collector = acknowledging(Acks::Off);
    let mut rig = to_collector(&collector, patient);
    fill(&mut rig);
    rig.drain();
    assert!(rig.errors("no_ack_id") > 0);
    assert!(rig.last_error().contains("answered without an ackId"), "{}", rig.last_error());
    assert!(rig.stats.no_ack_ids.load(Ordering::Relaxed), "health reports it");
    assert_eq!(rig.finish().0.book.delivered, 3000);
    assert_eq!(collector.tally().duplicates(), 0);
}

#[test]
fn a_missing_acknowledgement_is_no_problem_any_more_once_there_are_some() {
    let mut collector = acknowledging(Acks::Off);
    let mut rig = to_collector(&collector, patient);
    rig.append_numbered(1, 100, 100);
    rig.drain();
    assert!(rig.stats.no_ack_ids.load(Ordering::Relaxed));
    let address = collector.address();
    collector.pause();
    drop(collector);
    let acks = Acks::AtPoll(1);
    let config = CollectorConfig { listen: address, acks, ..CollectorConfig::default() };
    let _collector = Collector::with(config);
    rig.append_numbered(2, 100, 100);
    rig.drain();
    assert!(!rig.stats.no_ack_ids.load(Ordering::Relaxed));
    assert_eq!(rig.finish().0.book.delivered, 200);
}

/// Starts an output over TLS to a collector with such a certificate.
fn over_tls(kind: ServerCertificate, trust: bool) -> (Rig, Collector) {
    let pki = Pki::new();
    let tls = Some(pki.server(kind));
    let collector = Collector::with(CollectorConfig { tls, ..CollectorConfig::default() });
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    let trusted = if trust { pki.ca_pem() } else { Pki::new().ca_pem() };
    std::fs::write(&ca_file, trusted).unwrap();
    let mut hec = harness::hec(&collector.url());
    hec.requests.compression = Compression::Gzip;
    hec.requests.tls.ca_file = Some(ca_file);
    let kind = weir_pipeline::config::OutputKind::SplunkHec(Box::new(hec));
    let disk = std::sync::Arc::new(weir_host::RealDisk);
    (Rig::start_in(dir, disk, kind), collector)
}

#[test]
fn records_arrive_over_tls() {
    let (mut rig, collector) = over_tls(ServerCertificate::Good, true);
    fill(&mut rig);
    rig.drain();
    assert_eq!(get(&rig.stats.retries), 0, "{}", rig.last_error());
    assert_eq!(rig.finish().0.book.delivered, 3000);
    assert_eq!(collector.tally().unique(), 3000);
}

#[test]
fn a_certificate_that_is_not_to_be_trusted_is_named_and_nothing_is_lost() {
    let cases = [
        (ServerCertificate::Expired, true, "certificate_expired", "has expired"),
        (ServerCertificate::NotYetValid, true, "certificate_not_yet_valid", "not valid yet"),
        (ServerCertificate::WrongName, true, "certificate_wrong_name", "elsewhere.example"),
        (ServerCertificate::Good, false, "certificate_unknown_authority", "ca_file"),
    ];
    for (certificate, trust, kind, words) in cases {
        let (mut rig, collector) = over_tls(certificate, trust);
        fill(&mut rig);
        rig.wait("attempts", |rig| rig.errors(kind) >= 2);
        assert!(rig.last_error().contains(words), "{}", rig.last_error());
        rig.stop(Duration::ZERO);
        let (book, _dir) = rig.finish();
        assert_eq!((book.in_flight, book.book.resent), (3000, 0));
        assert_eq!(collector.tally().events, 0);
    }
}

#[test]
fn a_certificate_that_is_renewed_ends_the_outage_without_a_restart() {
    let (mut rig, collector) = over_tls(ServerCertificate::Good, false);
    fill(&mut rig);
    rig.wait("attempts", |rig| rig.errors("certificate_unknown_authority") >= 1);
    let address = collector.address();
    drop(collector);
    // The operator installs the authority of the collector's new certificate.
    let pki = Pki::new();
    std::fs::write(rig.dir.path().join("ca.pem"), pki.ca_pem()).unwrap();
    let tls = Some(pki.server(ServerCertificate::Good));
    let listen = address;
    let collector = Collector::with(CollectorConfig { listen, tls, ..CollectorConfig::default() });
    rig.drain();
    assert_eq!(rig.finish().0.book.delivered, 3000);
    assert_eq!(collector.tally().duplicates(), 0);
}

#[test]
fn mistakes_in_the_settings_are_named_before_anything_starts() {
    let collector = Collector::start();
    let problem = |change: &dyn Fn(&mut SplunkHec)| {
        let mut hec = harness::hec(&collector.url());
        change(&mut hec);
        let dir = tempfile::tempdir().unwrap();
        let disk = std::sync::Arc::new(weir_host::RealDisk);
        let kind = weir_pipeline::config::OutputKind::SplunkHec(Box::new(hec));
        let rig = Rig::prepare(dir, disk, kind);
        let cursor = rig.cursor();
        let spawned = weir_pipeline::output::spawn(
            rig.plan.clone(),
            cursor,
            rig.context(),
            rig.stats.clone(),
        );
        spawned.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(problem(&|hec| hec.endpoint = "splunk:8088".to_owned()).contains("http://"));
    let token = "two\nlines".to_owned();
    assert!(problem(&|hec| hec.token = weir_host::Secret::new(token.clone())).contains("token"));
    let missing = problem(&|hec| {
        hec.endpoint = "https://localhost:1".to_owned();
        hec.requests.tls.ca_file = Some("/nowhere/ca.pem".into());
    });
    assert!(missing.contains("tls.ca_file /nowhere/ca.pem"), "{missing}");
}
