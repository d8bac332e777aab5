//! TLS and HTTP/2 of the API: commands, foreign clients, renewed certificates.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::json;
use weir_testkit::{PATIENCE, Pki, Weir, binary, wait_for};

use crate::scene::{Scene, metric};

/// A weir whose API uses TLS, with a store and a file of JSON lines.
struct World {
    scene: Scene,
    pki: Pki,
    weir: Weir,
    file: File,
    written: u64,
}

impl World {
    fn new() -> Self {
        let (scene, pki) = (Scene::new(), Pki::new());
        let file = File::create(scene.logs().join("app.log")).unwrap();
        renew(&scene, &pki);
        std::fs::write(scene.dir().join("ca.pem"), pki.ca_pem()).unwrap();
        let config = scene.source("json") + "[store]\nenabled = true\n" + &tls(&scene);
        let weir = Weir::start_with_tls(scene.dir(), &config, &certificate(&scene));
        Self { scene, pki, weir, file, written: 0 }
    }

    /// Writes records and waits until the store has received them.
    fn write_records(&mut self, count: u64) {
        for number in self.written..self.written + count {
            let record = json!({ "service": "web", "message": format!("request {number}") });
            writeln!(self.file, "{record}").unwrap();
        }
        self.written += count;
        self.weir
            .wait_books("all are read", PATIENCE, |books| books.routed("store") == self.written);
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.weir.api().unwrap().port())
    }

    /// Runs a command of weir's command line.
    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.scene.dir()).env_remove("WEIR_API");
        command.output().unwrap()
    }

    /// A configuration by which commands find this weir, with this certificate.
    fn client_config(&self, certificate: &Path) -> String {
        let path = self.scene.dir().join("client.toml");
        let text = format!(
            "[api]\nlisten = \"{}\"\ntls = {{ cert_file = \"{}\", key_file = \"/nonexistent\" }}\n",
            self.weir.api().unwrap(),
            certificate.display()
        );
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn stop(mut self) {
        self.weir.books().assert_balanced();
        self.weir.stop();
    }
}

fn certificate(scene: &Scene) -> PathBuf {
    scene.dir().join("cert.pem")
}

/// Writes a new certificate and its key.
fn renew(scene: &Scene, pki: &Pki) {
    let (certificate_pem, key) = pki.server_pem();
    std::fs::write(certificate(scene), certificate_pem).unwrap();
    std::fs::write(scene.dir().join("key.pem"), key).unwrap();
}

fn tls(scene: &Scene) -> String {
    let key = scene.dir().join("key.pem");
    format!(
        "[api.tls]\ncert_file = \"{}\"\nkey_file = \"{}\"\n",
        certificate(scene).display(),
        key.display()
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts nghttp, a client of HTTP/2, which sends all requests over one connection. Its output is a
/// file, which contains everything received so far.
fn nghttp(out: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new("stdbuf");
    command.args(["-o0", "nghttp", "--no-verify-peer"]).args(arguments);
    command.stdin(Stdio::null()).stdout(File::create(out).unwrap()).stderr(Stdio::null());
    command.spawn().expect("nghttp is installed")
}

/// The status that nghttp receives.
fn status(world: &World, arguments: &[&str]) -> u16 {
    let out = world.scene.dir().join("nghttp");
    let ended = nghttp(&out, &[&["-nv", "--timeout=60"], arguments].concat()).wait().unwrap();
    let text = std::fs::read_to_string(out).unwrap();
    let status = text.lines().find_map(|line| line.split_once(":status: "));
    let status = status.and_then(|(_, status)| status.trim_end_matches("\u{1b}[0m").parse().ok());
    status.unwrap_or_else(|| panic!("{ended}: {text}"))
}

#[test]
fn commands_verify_the_certificate_of_the_api() {
    let mut world = World::new();
    world.write_records(500);
    let (url, config) = (world.url("localhost"), world.client_config(&certificate(&world.scene)));
    let ways: [&[&str]; 3] = [
        &["--api", &url, "--ca-file", "ca.pem"],
        &["--api", &world.url("127.0.0.1"), "--ca-file", "ca.pem"],
        &["-c", &config],
    ];
    for way in ways {
        let search = [&["search", "-o", "json", "--limit", "1000"], way].concat();
        let are_found = wait_for(PATIENCE, || {
            let found = world.command(&search);
            let count = text(&found.stdout).matches("\"message\"").count();
            (found.status.success() && count == 500).then_some(())
        });
        assert!(are_found.is_some(), "{way:?}");
        for command in [
            &["ledger"][..],
            &["search", "service:web", "--limit", "7"],
            &["store", "export", "service:web"],
        ] {
            let arguments = [command, way].concat();
            let output = world.command(&arguments);
            assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        }
    }
    let other = world.scene.dir().join("other.pem");
    std::fs::write(&other, Pki::new().server_pem().0).unwrap();
    let other = world.client_config(&other);
    let plain = world.weir.api().unwrap().to_string();
    let refused: [(&[&str], &str); 3] = [
        (&["--api", &url], "unknown authority: pass the authority's certificate with --ca-file"),
        (&["-c", &other], "is not that of the configuration"),
        (&["--api", &plain], "this port requires TLS: use https://"),
    ];
    for (way, message) in refused {
        let output = world.command(&[&["ledger"], way].concat());
        assert!(!output.status.success() && output.stdout.is_empty(), "{way:?}");
        assert!(text(&output.stderr).contains(message), "{way:?}: {}", text(&output.stderr));
    }
    let failed = metric(&world.weir, "weir_api_tls_failed_handshakes_total");
    assert!(failed >= 3, "{failed}");
    world.stop();
}

#[test]
fn self_signed_certificates_are_accepted_if_they_are_passed() {
    let scene = Scene::new();
    let path = certificate(&scene);
    let (certificate_pem, key) = Pki::self_signed_pem();
    std::fs::write(&path, certificate_pem).unwrap();
    std::fs::write(scene.dir().join("key.pem"), key).unwrap();
    let config = scene.source("raw") + "[output.none]\ntype = \"blackhole\"\n" + &tls(&scene);
    let mut weir = Weir::start_with_tls(scene.dir(), &config, &path);
    let port = weir.api().unwrap().port();
    let path = path.display().to_string();
    for (host, ca, message) in [
        ("localhost", Some(&path), ""),
        ("127.0.0.1", Some(&path), "is valid for DnsName(\"localhost\")"),
        ("localhost", None, "if it is self-signed, pass it with --ca-file"),
    ] {
        let url = format!("https://{host}:{port}");
        let mut command = Command::new(binary());
        command.args(["ledger", "--api", &url]);
        if let Some(ca) = ca {
            command.args(["--ca-file", ca]);
        }
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.success(), message.is_empty(), "{url} {ca:?}: {said}");
        assert!(said.contains(message), "{url} {ca:?}: {said}");
    }
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_weir_without_tls_is_not_taken_for_one_with_it() {
    let scene = Scene::new();
    let config = scene.source("raw") + "[output.none]\ntype = \"blackhole\"\n";
    let mut weir = scene.start(&config);
    let url = format!("https://{}", weir.api().unwrap());
    let output = Command::new(binary()).args(["ledger", "--api", &url]).output().unwrap();
    let message = text(&output.stderr);
    assert!(message.contains("does the peer speak TLS on this port?"), "{message}");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn checks_of_requests_apply_to_http_2() {
    let mut world = World::new();
    world.write_records(1);
    let body = world.scene.dir().join("body.json").display().to_string();
    std::fs::write(&body, "{}").unwrap();
    let (health, search) =
        (world.url("localhost") + "/health", world.url("localhost") + "/api/v2/logs/events/search");
    let json = "-Hcontent-type: application/json";
    for (want, arguments) in [
        (200, &[health.as_str()][..]),
        (421, &["-H:authority: evil.example", &health]),
        (421, &["-H:authority: evil.example", "-Hhost: localhost", &health]),
        (200, &["-d", &body, json, &search]),
        (415, &["-d", &body, "-Hcontent-type: text/plain", &search]),
        (403, &["-d", &body, json, "-Horigin: https://evil.example", &search]),
    ] {
        assert_eq!(status(&world, arguments), want, "{arguments:?}");
    }
    world.stop();
}

#[test]
fn live_tails_share_a_connection() {
    const TAILS: usize = 20;
    let mut world = World::new();
    let url = world.url("localhost");
    let urls: Vec<String> =
        (1..=TAILS).map(|rate| format!("{url}/weir/v1/tail?max_rate={}", rate * 1000)).collect();
    let arguments: Vec<&str> = urls.iter().map(String::as_str).collect();
    let out = world.scene.dir().join("tails");
    let mut tails = nghttp(&out, &arguments);
    let count = |text: &str| {
        let received = std::fs::read(&out).unwrap_or_default();
        String::from_utf8_lossy(&received).matches(text).count()
    };
    // A tail is counted once it is admitted, and begins once it has joined.
    let have_begun = || (count(": live tail") == TAILS).then_some(());
    assert!(wait_for(PATIENCE, have_begun).is_some(), "{}", world.weir.metrics());
    assert_eq!(metric(&world.weir, "weir_live_tails "), TAILS as u64);
    world.write_records(50);
    let all = wait_for(PATIENCE, || (count("request ") == TAILS * 50).then_some(()));
    assert!(all.is_some(), "{}", std::fs::read_to_string(&out).unwrap_or_default());
    tails.kill().unwrap();
    tails.wait().unwrap();
    let are_gone =
        wait_for(PATIENCE, || (metric(&world.weir, "weir_live_tails ") == 0).then_some(()));
    assert!(are_gone.is_some(), "{}", world.weir.metrics());
    world.stop();
}

#[test]
fn renewed_certificates_are_used_and_unusable_ones_reported() {
    let mut world = World::new();
    let has_problem = |weir: &Weir| weir.health().to_string().contains("api_certificates");
    let old = world.scene.dir().join("old.pem");
    std::fs::copy(certificate(&world.scene), &old).unwrap();
    renew(&world.scene, &world.pki);
    world.weir.set_certificate(&certificate(&world.scene)).unwrap();
    assert!(!has_problem(&world.weir));
    let by_old = world.command(&["ledger", "-c", &world.client_config(&old)]);
    assert!(!by_old.status.success());

    std::fs::write(world.scene.dir().join("key.pem"), "no key").unwrap();
    let is_reported = wait_for(PATIENCE, || has_problem(&world.weir).then_some(()));
    assert!(is_reported.is_some(), "{}", world.weir.log());
    world.write_records(10);
    renew(&world.scene, &world.pki);
    world.weir.set_certificate(&certificate(&world.scene)).unwrap();
    let is_well = wait_for(PATIENCE, || (!has_problem(&world.weir)).then_some(()));
    assert!(is_well.is_some(), "{}", world.weir.health());
    world.stop();
}
