//! Datadog's own client against the intake.
//!
//! Needs Python with the package `datadog-api-client`, given in `WEIR_PYTHON`; `cargo xtask test`
//! installs it.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::{Value, json};
use weir_testkit::{Collector, CollectorConfig, PATIENCE, Pki, Weir};

use crate::intake::{JSON, PATH, config, sender};
use crate::scene::{OUTPUT, Scene};

/// Submits logs with every compression that the client supports.
const CLIENT: &str = r#"
import sys
from datadog_api_client import ApiClient, Configuration
from datadog_api_client.v2.api.logs_api import LogsApi
from datadog_api_client.v2.model.content_encoding import ContentEncoding
from datadog_api_client.v2.model.http_log import HTTPLog
from datadog_api_client.v2.model.http_log_item import HTTPLogItem

protocol, address, key, authorities = sys.argv[1:]
configuration = Configuration()
configuration.api_key["apiKeyAuth"] = key
configuration.ssl_ca_cert = authorities or None
configuration.server_operation_index["submit_log"] = 1
configuration.server_operation_variables["submit_log"] = {"protocol": protocol, "name": address}
with ApiClient(configuration) as client:
    api = LogsApi(client)
    for encoding in (ContentEncoding.IDENTITY, ContentEncoding.GZIP, ContentEncoding.DEFLATE):
        items = [
            HTTPLogItem(
                message=f"{encoding} {number} ünï",
                ddsource="nginx",
                ddtags="env:staging,version:5.1",
                hostname="i-012345678",
                service="payment",
                status="warn",
                attempt=number,
            )
            for number in range(300)
        ]
        answer = api.submit_log(HTTPLog(items), content_encoding=encoding, ddtags="team:a")
        print(encoding, answer)
"#;

/// Runs the official Python client with these arguments; returns whether it succeeded, and its
/// output.
fn official_client(python: &OsStr, arguments: &[&str]) -> (bool, String) {
    let out = Command::new(python).args(["-c", CLIENT]).args(arguments).output();
    let out = out.expect("python runs");
    (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn the_official_client_submits() {
    let Some(python) = std::env::var_os("WEIR_PYTHON") else { return };
    let scene = Scene::new();
    let collector =
        Collector::with(CollectorConfig { keep_records: true, ..CollectorConfig::default() });
    let keys = "api_keys = { env = \"HEC_TOKEN\" }\n";
    let mut weir = scene.start(&config(&collector, keys, ""));
    let address = weir.source_address("intake").to_string();
    let (is_ok, said) = official_client(&python, &["http", &address, "token", ""]);
    assert!(is_ok, "{said}\n{}", weir.log());
    let books = weir.wait_books("all arrived", PATIENCE, |b| b.delivered(OUTPUT) == 900);
    books.assert_balanced();
    let record = collector.records().into_iter().find(|r| r.text == "gzip 7 ünï".as_bytes());
    let record = record.expect("the record of that number");
    let body: String = serde_json::from_slice(&record.event).expect("it is text");
    let event: Value = serde_json::from_str(&body).expect("it is JSON");
    assert_eq!(
        (&event["attempt"], &event["service"]),
        (&json!(7), &json!("payment")),
        "{record:?}"
    );
    let (is_ok, said) = official_client(&python, &["http", &address, "wrong", ""]);
    assert!(!is_ok && said.contains("403"), "{said}");
    weir.stop();
}

#[test]
fn the_official_client_submits_over_tls_with_certificates_that_change() {
    let Some(python) = std::env::var_os("WEIR_PYTHON") else { return };
    let scene = Scene::new();
    let collector = Collector::start();
    let file = |name: &str| scene.dir().join(name).display().to_string();
    let (cert, key, authorities) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
    let issue = |pki: &Pki| {
        let (certificate, private) = pki.server_pem();
        std::fs::write(&cert, certificate).expect("a file can be written");
        std::fs::write(&key, private).expect("a file can be written");
        std::fs::write(&authorities, pki.ca_pem()).expect("a file can be written");
    };
    issue(&Pki::new());
    let tls = format!("tls = {{ cert_file = {cert:?}, key_file = {key:?} }}\n");
    let mut weir = scene.start(&config(&collector, &tls, ""));
    let address = weir.source_address("intake").to_string();
    let submits = |weir: &Weir| {
        let (is_ok, said) = official_client(&python, &["https", &address, "any", &authorities]);
        assert!(is_ok, "{said}\n{}", weir.log());
    };
    submits(&weir);
    issue(&Pki::new());
    submits(&weir);
    std::fs::write(&key, "no key").expect("a file can be written");
    submits(&weir);
    let health = weir.health().to_string();
    assert!(health.contains("certificates") && health.contains("key.pem"), "{health}");
    let mut plain = sender(&weir);
    assert!(plain.post(PATH, &[JSON], b"[{\"message\":\"x\"}]").is_err(), "not without TLS");
    weir.wait_books("all arrived", PATIENCE, |b| b.delivered(OUTPUT) == 2700).assert_balanced();
    weir.stop();
}
