//! Access control: tokens of UAA and of weir, and the responses of the Cloud Controller.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use weir_testkit::{Cloud, PATIENCE, TokenKey, Weir};

use crate::loggregator_egress::address;
use crate::scene::Scene;

const OWN: &str = "0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11";
const OTHER: &str = "7b1d6c2e-9a0f-4c1b-8b7e-3d5f2a6c9e00";
/// Headers of a request for a WebSocket.
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const NOT_FOUND: &str = "{\"message\":\"resource not found\",\"error\":\"not_found\"}\n\n";

/// Returns a gateway that asks this cloud.
fn config(scene: &Scene, cloud: &Cloud) -> String {
    let file = |name: &str, text: &str| {
        let path = scene.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    format!(
        "[source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:0\"\n\
         [output.none]\ntype = \"blackhole\"\n\
         [loggregator.gateway]\nlisten = \"127.0.0.1:0\"\n\
         [loggregator.access]\nuaa = \"{url}\"\ncloud_controller = \"{url}\"\n\
         uaa_client = \"weir\"\nuaa_secret = {{ file = \"{}\" }}\ntokens = {{ file = \"{}\" }}\n",
        file("secret", "cloud-secret"),
        file("tokens", "first-token-of-operators,second-token-of-operators"),
        url = cloud.url(),
    )
}

/// Sends a request with a token. Returns the response, without the events that would follow.
fn get(weir: &Weir, query: &str, authorization: &str) -> String {
    let mut tcp = TcpStream::connect(address(weir, "gateway")).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(tcp, "GET /v2/read?{query} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n").unwrap();
    let (mut answer, mut space) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        let is_stream = text.starts_with("HTTP/1.1 200 ") && text.contains("\r\n\r\n");
        if is_stream || text.ends_with("}\n\n") {
            return text;
        }
        let count = tcp.read(&mut space).expect("an answer arrives");
        assert!(count > 0, "the connection ends: {text}");
        answer.extend_from_slice(&space[..count]);
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: bearer {token}\r\n")
}

#[test]
fn operators_read_everything_and_others_what_the_cloud_controller_allows() {
    let scene = Scene::new();
    let cloud = Cloud::start();
    cloud.add_token("operator", "openid doppler.firehose");
    cloud.add_token("admin", "logs.admin");
    cloud.add_token("developer", "openid cloud_controller.read");
    cloud.allow("developer", OWN);
    let mut weir = scene.start(&config(&scene, &cloud));
    let is_open = |query: &str, authorization: &str| {
        let text = get(&weir, query, authorization);
        assert!(text.starts_with("HTTP/1.1 200 ") || text.ends_with(NOT_FOUND), "{text}");
        text.starts_with("HTTP/1.1 200 ")
    };
    let (own, other) = (format!("log&source_id={OWN}"), format!("log&source_id={OTHER}"));
    for query in ["log", &own, &other, "log&source_id=doppler"] {
        for token in ["operator", "admin", "first-token-of-operators", "second-token-of-operators"]
        {
            assert!(is_open(query, &bearer(token)), "{query} {token}");
        }
        for authorization in
            ["", &bearer("unknown"), &bearer("first-token-of-operators,second-token-of-operators")]
        {
            assert!(!is_open(query, authorization), "{query} {authorization}");
        }
        assert_eq!(is_open(query, &bearer("developer")), query == own, "{query}");
    }
    assert!(is_open(&own, "Cookie: a=b; authorization=bearer developer\r\n"));
    assert!(is_open(&own, "authorization: BEARER developer\r\n"));
    assert!(!is_open(&format!("{own}&source_id={OTHER}"), &bearer("developer")));
    assert!(!is_open("log&source_id=../../v3/info", &bearer("developer")));
    // The token comes before everything else, as in the original.
    assert!(get(&weir, "", "").ends_with(NOT_FOUND));
    assert!(get(&weir, "", &bearer("operator")).contains("empty_query"));
    let log = weir.log();
    assert!(!log.contains("developer") && !log.contains("cloud-secret"), "{log}");
    weir.stop();
}

/// Requests a path of a service with a token; returns the status.
fn status(weir: &Weir, service: &str, path: &str, authorization: &str) -> u16 {
    let websocket = if path.starts_with("/api") { "" } else { UPGRADE };
    status_with(weir, service, path, &format!("Host: localhost\r\n{websocket}{authorization}"))
}

/// The same with these headers.
fn status_with(weir: &Weir, service: &str, path: &str, headers: &str) -> u16 {
    let mut tcp = TcpStream::connect(address(weir, service)).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(tcp, "GET {path} HTTP/1.1\r\n{headers}\r\n").unwrap();
    let mut line = [0; 12];
    tcp.read_exact(&mut line).unwrap();
    String::from_utf8_lossy(&line[9..]).parse().unwrap()
}

#[test]
fn the_traffic_controller_and_the_log_cache_ask_for_tokens_in_their_own_way() {
    let scene = Scene::new();
    let cloud = Cloud::start();
    cloud.add_token("operator", "doppler.firehose");
    cloud.add_token("developer", "openid");
    cloud.allow("developer", OWN);
    let services = "[loggregator.traffic_controller]\nlisten = \"127.0.0.1:0\"\n\
                    [loggregator.log_cache]\nlisten = \"127.0.0.1:0\"\n[store]\nenabled = true\n";
    let mut weir = scene.start(&(config(&scene, &cloud) + services));
    let (operator, developer) = (&*bearer("operator"), &*bearer("developer"));
    let controller = |path: &str, token: &str| status(&weir, "traffic_controller", path, token);
    let app = |app: &str, what: &str| format!("/apps/{app}/{what}");
    for (path, of_operator, of_developer, of_nobody) in [
        ("/firehose/a".to_owned(), 101, 401, 401),
        (app(OWN, "stream"), 101, 101, 401),
        (app(OTHER, "stream"), 101, 404, 401),
        (app(OWN, "containermetrics"), 200, 200, 401),
        (app(OTHER, "containermetrics"), 200, 404, 401),
        (app(OWN, "recentlogs"), 200, 200, 401),
        (app(OTHER, "recentlogs"), 200, 404, 401),
    ] {
        let found = [operator, developer, ""].map(|token| controller(&path, token));
        assert_eq!(found, [of_operator, of_developer, of_nobody], "{path}");
    }
    let cache = |path: &str, token: &str| status(&weir, "log_cache", path, token);
    let read = |app: &str| format!("/api/v1/read/{app}");
    let query = |app: &str| format!("/api/v1/query?query=cpu%7Bsource_id%3D%22{app}%22%7D");
    for (path, of_operator, of_developer, of_nobody) in [
        ("/api/v1/info".to_owned(), 200, 200, 200),
        ("/api/v1/meta".to_owned(), 200, 200, 404),
        (read(OWN), 200, 200, 404),
        (read(OTHER), 200, 404, 404),
        (read("doppler"), 200, 404, 404),
        (query(OWN), 200, 200, 404),
        (query(OTHER), 200, 404, 404),
    ] {
        let found = [operator, developer, ""].map(|token| cache(&path, token));
        assert_eq!(found, [of_operator, of_developer, of_nobody], "{path}");
    }
    weir.stop();
}

/// Claims of a token that is valid for an hour.
fn claims(scope: &str) -> Value {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    json!({ "scope": [scope], "aud": ["doppler"], "exp": now + 3600 })
}

#[test]
fn signatures_of_tokens_are_verified_with_the_keys_of_uaa() {
    let scene = Scene::new();
    let cloud = Cloud::start();
    let first = TokenKey::first("key-1");
    // The key "old" in the list has 1024 bits.
    let short =
        json!({ "kty": "RSA", "kid": "old", "e": "AQAB", "n": format!("{}A", "_".repeat(170)) });
    cloud.list_keys(&[first.listed(), short]);
    let text = config(&scene, &cloud);
    let lines = text.lines().filter(|line| !line.starts_with("uaa_"));
    let keys = "uaa_verify = \"keys\"\nuaa_audience = \"doppler\"\n";
    let config = lines.collect::<Vec<_>>().join("\n") + "\n" + keys;
    let mut weir = scene.start(&config);
    let answer = |query: &str, token: &str| get(&weir, query, &bearer(token));
    let is_open = |query: &str, token: &str| answer(query, token).starts_with("HTTP/1.1 200 ");
    let (own, other) = (format!("log&source_id={OWN}"), format!("log&source_id={OTHER}"));
    let operator = first.token(&claims("doppler.firehose"));
    let developer = first.token(&claims("openid"));
    cloud.allow(&developer, OWN);
    for _ in 0..3 {
        assert!(is_open("log", &operator) && is_open(&own, &developer));
        assert!(!is_open(&other, &developer) && !is_open("log", &developer));
    }
    // One for the keys, one for the allowed application, and in each round two for what is not
    // allowed.
    assert_eq!(cloud.requests(), 1 + 1 + 3 * 2);
    let changed = |name: &str, value: Value| {
        let mut claims = claims("doppler.firehose");
        claims[name] = value;
        first.token(&claims)
    };
    for token in [
        changed("exp", 1_000_000_000.into()),
        changed("aud", json!(["cloud_controller"])),
        changed("jti", "c1-r".into()),
        first.unsigned(&claims("doppler.firehose")),
        first.with_public_key_as_secret(&claims("doppler.firehose")),
        TokenKey::second("key-1").token(&claims("doppler.firehose")),
        TokenKey::second("key-3").token(&claims("doppler.firehose")),
        "opaque".to_owned(),
    ] {
        assert!(answer("log", &token).ends_with(NOT_FOUND), "{token}");
    }
    let old = TokenKey::first("old").token(&claims("doppler.firehose"));
    assert!(answer("log", &old).ends_with(NOT_FOUND), "its key is too short");
    weir.wait_log("has 1024 bits: at least 2048 are required");
    let problem = || {
        let health = weir.health();
        let mut reasons = health["reasons"].as_array().unwrap().iter();
        reasons.find(|reason| reason["reason"] == "reader_token_keys").cloned()
    };
    let reported = weir_testkit::wait_for(PATIENCE, problem).expect("health names the key");
    let text = reported["text"].as_str().unwrap();
    assert!(text.contains("\"old\" of UAA has 1024 bits"), "{text}");
    // A new key is requested, at most every five seconds; then the previous one is gone.
    let second = TokenKey::second("key-2");
    cloud.list_keys(&[second.listed()]);
    let new = second.token(&claims("logs.admin"));
    let found = weir_testkit::wait_for(PATIENCE, || is_open("log", &new).then_some(()));
    assert!(found.is_some() && !is_open("log", &operator));
    let is_well = || problem().is_none().then_some(());
    assert!(weir_testkit::wait_for(PATIENCE, is_well).is_some(), "the key is gone");
    let log = weir.log();
    assert!(!log.contains(&new) && !log.contains(&operator), "{log}");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn without_a_response_only_cached_permissions_apply() {
    let scene = Scene::new();
    let cloud = Cloud::start();
    cloud.add_token("developer", "openid");
    cloud.allow("developer", OWN);
    let mut weir = scene.start(&config(&scene, &cloud));
    let own = format!("log&source_id={OWN}");
    for _ in 0..5 {
        assert!(get(&weir, &own, &bearer("developer")).starts_with("HTTP/1.1 200 "));
    }
    // One for the token and one for the application: positive answers are remembered.
    assert_eq!(cloud.requests(), 2);
    cloud.fail(true);
    assert!(get(&weir, &own, &bearer("developer")).starts_with("HTTP/1.1 200 "));
    let unknown = get(&weir, &own, &bearer("someone"));
    assert!(unknown.starts_with("HTTP/1.1 503 ") && unknown.contains("streaming_unavailable"));
    let other = format!("log&source_id={OTHER}");
    assert!(get(&weir, &other, &bearer("developer")).starts_with("HTTP/1.1 503 "));
    weir.wait_log("access could not be checked");
    cloud.fail(false);
    assert!(get(&weir, &own, &bearer("someone")).ends_with(NOT_FOUND));
    weir.stop();
}

#[test]
fn pages_of_other_sites_cannot_read_what_needs_no_token() {
    let scene = Scene::new();
    let config = "[source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:0\"\n\
                  [output.none]\ntype = \"blackhole\"\n[store]\nenabled = true\n\
                  [loggregator.gateway]\nlisten = \"127.0.0.1:0\"\n\
                  [loggregator.traffic_controller]\nlisten = \"127.0.0.1:0\"\n\
                  [loggregator.log_cache]\nlisten = \"127.0.0.1:0\"\n";
    let mut weir = scene.start(config);
    let all = [
        ("traffic_controller", "/firehose/page", 101),
        ("traffic_controller", &*format!("/apps/{OWN}/stream"), 101),
        ("gateway", "/v2/read?log", 200),
        ("log_cache", "/api/v1/meta", 200),
        ("gateway", "/api/v1/meta", 200),
    ];
    let mut rejected = 0;
    for (service, path, good) in all {
        let status =
            |headers: &str| status_with(&weir, service, path, &format!("{headers}{UPGRADE}"));
        for headers in [
            "Host: localhost\r\n",
            "Host: 127.0.0.1:1\r\n",
            "Host: localhost\r\nOrigin: http://localhost\r\n",
            "Host: 127.0.0.1:8081\r\nOrigin: http://127.0.0.1:8081\r\n",
            // As Go's clients send it, wherever the service is.
            "Host: 127.0.0.1:8081\r\nOrigin: http://localhost\r\n",
        ] {
            assert_eq!(status(headers), good, "{service} {path} {headers}");
        }
        for (headers, code) in [
            ("Host: evil.example\r\n", 421),
            ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 421),
            ("Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n", 403),
            ("Host: 127.0.0.1\r\nOrigin: null\r\n", 403),
            ("Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: websocket\r\n", 403),
        ] {
            assert_eq!(status(headers), code, "{service} {path} {headers}");
            rejected += 1;
        }
    }
    let refused = crate::scene::metric(&weir, "weir_reader_refused_requests_total");
    assert!(refused > 0 && refused <= rejected, "{refused} of the first service");
    weir.books().assert_balanced();
    weir.stop();

    // A page has no token, so requests with one are allowed, and clients use any name of the
    // service.
    let mut weir = scene.start(&self::config(&scene, &Cloud::start()));
    let headers = "Host: log-stream.system.example\r\nOrigin: http://else.example\r\n";
    assert_eq!(status_with(&weir, "gateway", "/v2/read?log", headers), 404, "as without a token");
    let token = bearer("first-token-of-operators");
    assert_eq!(status_with(&weir, "gateway", "/v2/read?log", &format!("{headers}{token}")), 200);
    weir.stop();
}
