//! Access control of the API: tokens, sessions, and what operators, readers and developers may do.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use weir_codec::add_to_loggregator_batch;
use weir_testkit::{Cloud, PATIENCE, Weir, binary, wait_for};

use crate::loggregator::{log, messages, python, said, send, source};
use crate::loggregator_egress::address;
use crate::scene::{Scene, metric};

const OPERATOR: &str = "operator-token-0123456789";
const READER: &str = "reader-token-0123456789abc";
const DEVELOPER: &str = "developer";
const OWN: &str = "0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11";
const OTHER: &str = "7b1d6c2e-9a0f-4c1b-8b7e-3d5f2a6c9e00";

/// A weir with access control, a store and a file of JSON lines.
struct World {
    scene: Scene,
    cloud: Cloud,
    weir: Weir,
    file: File,
}

/// The response to a request.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// Who sends a request.
#[derive(Clone, Copy)]
enum By<'a> {
    Nobody,
    Token(&'a str),
    Cookie(&'a str),
}

impl By<'_> {
    fn header(self) -> String {
        match self {
            Self::Nobody => String::new(),
            Self::Token(token) => format!("authorization: Bearer {token}\r\n"),
            Self::Cookie(cookie) => format!("cookie: {cookie}\r\n"),
        }
    }
}

impl World {
    fn new() -> Self {
        let (scene, cloud) = (Scene::new(), Cloud::start());
        cloud.add_token(DEVELOPER, "openid cloud_controller.read");
        cloud.allow(DEVELOPER, OWN);
        let file = File::create(scene.logs().join("app.log")).unwrap();
        let weir = start(&scene, &cloud);
        Self { scene, cloud, weir, file }
    }

    /// Writes records of both applications: the same number of each.
    fn write_records(&mut self, numbers: std::ops::Range<u32>) {
        let lines: String =
            numbers.flat_map(|n| [line(OWN, "own", n), line(OTHER, "other", n)]).collect();
        self.file.write_all(lines.as_bytes()).unwrap();
    }

    /// Waits until this many records can be found.
    fn wait_found(&self, records: u64) {
        let found = || (self.count(By::Token(OPERATOR), "*") == records).then_some(());
        assert!(wait_for(PATIENCE, found).is_some(), "{records} records: {}", self.weir.log());
    }

    /// The number of records that match.
    fn count(&self, by: By<'_>, query: &str) -> u64 {
        let body = json!({ "filter": { "query": query, "from": "now-1d", "to": "now+1d" },
                           "compute": [{ "aggregation": "count" }] });
        let reply = self.post("/api/v2/logs/analytics/aggregate", by, &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["data"]["buckets"][0]["computes"]["c0"].as_u64().unwrap_or(0)
    }

    fn get(&self, path: &str, by: By<'_>) -> Reply {
        ask(&self.weir, "GET", path, &by.header(), "")
    }

    fn post(&self, path: &str, by: By<'_>, body: &Value) -> Reply {
        ask(&self.weir, "POST", path, &by.header(), &body.to_string())
    }

    /// Signs in; returns the cookie.
    fn sign_in(&self, token: &str) -> String {
        let reply = self.post("/weir/v1/session", By::Nobody, &json!({ "token": token }));
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Stops weir after all records that it has read are stored.
    fn finish(mut self, records: u64) {
        let books = self.weir.wait_books("everything is read", PATIENCE, |books| {
            books.records() == records && books.files_balance()
        });
        books.assert_balanced();
        let log = self.weir.log();
        assert!(!log.contains(OPERATOR) && !log.contains(READER), "{log}");
        self.weir.stop();
    }
}

fn start(scene: &Scene, cloud: &Cloud) -> Weir {
    let file = |name: &str, text: &str| {
        let path = scene.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = format!(
        "{}[store]\nenabled = true\n[drains]\n[api.access]\ntokens = {{ file = \"{}\" }}\n\
         read_tokens = {{ file = \"{}\" }}\nuaa = \"{url}\"\ncloud_controller = \"{url}\"\n\
         uaa_client = \"weir\"\nuaa_secret = {{ file = \"{}\" }}\n",
        scene.source("json"),
        file("tokens", &format!("{OPERATOR},another-token-0123456789")),
        file("read_tokens", READER),
        file("secret", "cloud-secret"),
        url = cloud.url(),
    );
    Weir::start_with_token(scene.dir(), &config, OPERATOR)
}

fn line(service: &str, name: &str, n: u32) -> String {
    let record = json!({ "service": service, "message": format!("{name} request {n}"), "n": n,
                         "name": name, (format!("only_{name}")): n });
    format!("{record}\n")
}

/// Sends a request and reads the whole response.
fn ask(weir: &Weir, method: &str, path: &str, headers: &str, body: &str) -> Reply {
    let mut tcp = TcpStream::connect(weir.api().unwrap()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = weir.api().unwrap();
    let sent = format!(
        "{method} {path} HTTP/1.0\r\nhost: {host}\r\n{headers}content-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // A request that is too long is answered before all of it was sent.
    let _sent = tcp.write_all(sent.as_bytes());
    let mut answer = Vec::new();
    let _reset = tcp.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// All operations of the API: method and path.
fn operations() -> Vec<(String, String)> {
    let document = Command::new(binary()).args(["config", "openapi"]).output().unwrap();
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let path = path.replace("{id}", "1").replace("{name}", "x");
        let methods = methods.as_object().unwrap().keys();
        methods.map(move |method| (method.to_uppercase(), path.clone()))
    });
    all.collect()
}

#[test]
fn every_route_requires_what_it_says() {
    let world = World::new();
    let is_public = |method: &str, path: &str| {
        path.starts_with("/health") || (path == "/weir/v1/session" && method != "GET")
    };
    let of_developers = [
        "/api/v2/logs/events",
        "/api/v2/logs/events/search",
        "/api/v2/logs/analytics/aggregate",
        "/weir/v1/fields",
        "/weir/v1/values",
        "/weir/v1/facets",
        "/weir/v1/context",
        "/weir/v1/path",
        "/weir/v1/patterns",
        "/weir/v1/export",
        "/weir/v1/drains",
        "/weir/v1/ledger",
        "/weir/v1/tail",
        "/weir/v1/session",
        "/weir/v1/openapi.json",
    ];
    let operations = operations();
    assert!(operations.len() > 35, "{operations:?}");
    for (method, path) in &operations {
        let status = |by: By<'_>| {
            // The response of a live tail has no end; a wrong parameter is refused after the gate.
            let path = if path == "/weir/v1/tail" { "/weir/v1/tail?max_rate=0" } else { path };
            // Neither has that of this path, which has no parameters.
            let is_endless = path == "/weir/v1/topology/stream" && !matches!(by, By::Nobody);
            let method = if is_endless { "HEAD" } else { method };
            ask(&world.weir, method, path, &by.header(), "{}")
        };
        if is_public(method, path) {
            assert_ne!(status(By::Nobody).status, 403, "{method} {path}");
            continue;
        }
        let refused = status(By::Nobody);
        assert_eq!(refused.status, 401, "{method} {path}: {refused:?}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"weir\""), "{path}");
        let problem = refused.json();
        let problem = problem.get("weir").unwrap_or(&problem);
        assert_eq!(problem["status"], 401, "{method} {path}: {refused:?}");
        let is_change = method != "GET" && !path.starts_with("/api/v2/");
        let by_reader = status(By::Token(READER)).status;
        assert_eq!(by_reader == 403, is_change, "{method} {path}: {by_reader}");
        let by_developer = status(By::Token(DEVELOPER)).status;
        let is_of_developers = of_developers.contains(&path.as_str()) && !is_change;
        assert_eq!(by_developer == 403, !is_of_developers, "{method} {path}: {by_developer}");
        let by_operator = status(By::Token(OPERATOR)).status;
        assert!(![0, 401, 403].contains(&by_operator), "{method} {path}: {by_operator}");
    }
    for path in ["/", "/live", "/pipeline", "/drains", "/reliability", "/capacity"] {
        let page = ask(&world.weir, "GET", path, "accept: text/html\r\n", "");
        assert_eq!(page.status, 200, "the page itself contains no data: {page:?}");
    }
    let root = world.get("/", By::Nobody);
    assert!(root.status == 200 && root.json()["version"].is_null(), "{root:?}");
    assert!(world.get("/health", By::Nobody).json()["reasons"].as_array().unwrap().is_empty());
    let refused = "weir_api_refused_requests_total{reason=\"no_token\"}";
    assert!(metric(&world.weir, refused) as usize >= operations.len() - 6);
    world.finish(0);
}

#[test]
fn readers_read_everything_and_operators_also_change_it() {
    let mut world = World::new();
    world.write_records(0..50);
    world.wait_found(100);
    let cookie = world.sign_in(OPERATOR);
    let deletion = json!({ "query": "@n:7", "dry_run": true });
    let path = "/weir/v1/store/deletions";
    for by in [By::Token(OPERATOR), By::Token("another-token-0123456789"), By::Cookie(&cookie)] {
        let counted = world.post(path, by, &deletion);
        assert_eq!((counted.status, &counted.json()["records"]), (200, &json!(2)), "{counted:?}");
    }
    let of_reader = world.sign_in(READER);
    for by in [By::Token(READER), By::Cookie(&of_reader)] {
        assert_eq!(world.count(by, "*"), 100);
        let refused = world.post(path, by, &json!({ "query": "@n:7" }));
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.body.contains("only be used to read"), "{refused:?}");
    }
    let deleted = world.post(path, By::Token(OPERATOR), &json!({ "query": "@n:7" }));
    assert_eq!(deleted.status, 200, "{deleted:?}");
    world.wait_found(98);
    let datadog = format!("dd-api-key: x\r\ndd-application-key: {READER}\r\n");
    assert_eq!(ask(&world.weir, "GET", "/api/v2/logs/events", &datadog, "").status, 200);
    world.finish(100);
}

#[test]
fn a_session_ends_when_its_user_signs_out_or_weir_restarts() {
    let mut world = World::new();
    let role = |world: &World, by: By<'_>| {
        let reply = world.get("/weir/v1/session", by);
        (reply.status, reply.json()["role"].as_str().map(str::to_owned))
    };
    let is = |name: &str| (200, Some(name.to_owned()));
    for (token, name) in [(OPERATOR, "operator"), (READER, "reader"), (DEVELOPER, "developer")] {
        let cookie = world.sign_in(token);
        assert_eq!(role(&world, By::Token(token)), is(name));
        assert_eq!(role(&world, By::Cookie(&cookie)), is(name));
        assert_eq!(role(&world, By::Cookie(&format!("a=b; {cookie}; c=d"))), is(name));
        let foreign = format!("origin: http://evil.example\r\n{}", By::Cookie(&cookie).header());
        let refused = ask(&world.weir, "GET", "/weir/v1/session", &foreign, "");
        assert_eq!(refused.status, 403, "{refused:?}");
        let header = By::Cookie(&cookie).header();
        let mut tail = tail(&world, By::Cookie(&cookie), "*");
        let mut topology = follow(&world, By::Cookie(&cookie), "/weir/v1/topology/stream");
        let first = if name == "developer" { "403" } else { "event: snapshot" };
        rows_until(&mut topology, first);
        let ended = ask(&world.weir, "DELETE", "/weir/v1/session", &header, "");
        assert!(ended.header("set-cookie").unwrap().ends_with("Max-Age=0"), "{ended:?}");
        assert_eq!(role(&world, By::Cookie(&cookie)).0, 401);
        tail.read_to_end(&mut Vec::new()).expect("the tail ends with the session");
        topology.read_to_end(&mut Vec::new()).expect("so does this stream");
    }
    let secure = ask(
        &world.weir,
        "POST",
        "/weir/v1/session",
        "x-forwarded-proto: https\r\n",
        &json!({ "token": READER, "path": "/logs/" }).to_string(),
    );
    let cookie = secure.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/logs/; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    let cookie = world.sign_in(OPERATOR);
    let id = cookie.split_once('=').unwrap().1.to_owned();
    assert_eq!(metric(&world.weir, "weir_api_sessions"), 2);
    world.weir.stop();
    world.weir = start(&world.scene, &world.cloud);
    let renamed = format!("weir_session_{}={id}", world.weir.api().unwrap().port());
    assert_eq!(role(&world, By::Cookie(&renamed)).0, 401, "sessions end with the process");
    // The session of another instance, which runs at the same time.
    let another = World::new();
    let id = another.sign_in(OPERATOR).split_once('=').unwrap().1.to_owned();
    let foreign = format!("weir_session_{}={id}", world.weir.api().unwrap().port());
    assert_eq!(role(&world, By::Cookie(&foreign)).0, 401);
    another.finish(0);
    world.finish(0);
}

/// Starts a live tail.
fn tail(world: &World, by: By<'_>, query: &str) -> BufReader<TcpStream> {
    let mut tail = follow(world, by, &format!("/weir/v1/tail?query={query}"));
    rows_until(&mut tail, ": live tail");
    tail
}

/// Requests a stream of events.
fn follow(world: &World, by: By<'_>, path: &str) -> BufReader<TcpStream> {
    let address = world.weir.api().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n{}\r\n", by.header()).unwrap();
    BufReader::new(stream)
}

/// Reads the rows of a live tail until this text occurs.
fn rows_until(tail: &mut impl std::io::BufRead, text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    loop {
        let mut line = String::new();
        assert!(tail.read_line(&mut line).unwrap() > 0, "the tail ends: {rows:?}");
        if let Some(row) = line.strip_prefix("data: ").filter(|row| row.contains("\"body\"")) {
            rows.push(row.to_owned());
        }
        if line.contains(text) {
            return rows;
        }
    }
}

#[test]
fn developers_see_only_their_applications() {
    let mut world = World::new();
    let by = By::Token(DEVELOPER);
    let mut tail = tail(&world, by, &format!("service:{OTHER}%20OR%20service:{OWN}"));
    world.write_records(0..50);
    world.wait_found(100);
    let rows = rows_until(&mut tail, "own request 49");
    assert_eq!(rows.len(), 50, "{rows:?}");
    assert!(rows.iter().all(|row| !row.contains("other request")), "{rows:?}");
    for (query, records) in [
        ("*", 50),
        ("@n:7", 1),
        (&*format!("service:{OTHER}"), 0),
        (&format!("* OR service:{OTHER}"), 50),
        (&format!("-service:{OWN}"), 0),
        ("\"other request\"", 0),
    ] {
        assert_eq!(world.count(by, query), records, "{query}");
    }
    let range = "from=now-1d&to=now%2B1d";
    let own = |path: &str, separator: &str| {
        let reply = world.get(&format!("{path}{separator}{range}"), by);
        assert_eq!(reply.status, 200, "{reply:?}");
        let everything = world.get(&format!("{path}{separator}{range}"), By::Token(OPERATOR));
        assert!(everything.body.contains("other"), "{path}: {everything:?}");
        assert!(reply.body.contains("own"), "{path}: {reply:?}");
        assert!(!reply.body.contains("other") && !reply.body.contains(OTHER), "{path}: {reply:?}");
    };
    own("/weir/v1/fields?limit=1000", "&");
    own("/weir/v1/values?field=@name", "&");
    own("/weir/v1/values?field=@name&calculated_fields=%7B%22service%22%3A%22%40n%22%7D", "&");
    own("/weir/v1/facets?limit=100", "&");
    own("/weir/v1/patterns", "?");
    own("/weir/v1/export", "?");
    let range = "filter[from]=now-1d&filter[to]=now%2B1d&page[limit]=1000";
    let path = format!("/api/v2/logs/events?{range}");
    let (found, all) = (world.get(&path, by), world.get(&path, By::Token(OPERATOR)));
    assert_eq!(found.json()["data"].as_array().unwrap().len(), 50, "{found:?}");
    let all = all.json();
    // How much was read depends on the records of others.
    assert!(all["meta"]["weir"]["rows"].as_u64() >= Some(100), "{}", all["meta"]);
    let read = &found.json()["meta"]["weir"];
    for key in ["parts", "rows", "pages", "pages_pruned", "bytes"] {
        assert_eq!(read[key], 0, "{key}: {read}");
    }
    let is_other = |record: &&Value| record["attributes"]["service"] == OTHER;
    let other = all["data"].as_array().unwrap().iter().find(is_other).unwrap();
    let context = format!("/weir/v1/context?id={}", other["id"].as_str().unwrap());
    assert_eq!(world.get(&context, By::Token(OPERATOR)).status, 200);
    // While the store catches up, it does not know whether the record exists.
    let found_out = || Some(world.get(&context, by).status).filter(|status| *status != 503);
    assert_eq!(wait_for(PATIENCE, found_out), Some(404), "it must not be shown");
    let way = format!("/weir/v1/path?id={}", other["id"].as_str().unwrap());
    assert_eq!(world.get(&way, by).status, 404, "nor where it went");
    let own = found.json()["data"][7]["id"].as_str().unwrap().to_owned();
    let context = world.get(&format!("/weir/v1/context?id={own}"), by);
    assert!(context.status == 200 && !context.body.contains("other"), "{context:?}");
    let hops = |by| world.get(&format!("/weir/v1/path?id={own}"), by).json()["hops"].clone();
    assert_eq!(hops(by).as_array().map(Vec::len), Some(2), "{}: no outputs", hops(by));
    assert!(hops(By::Token(OPERATOR)).as_array().map(Vec::len) > Some(2));
    let cookie = world.sign_in(DEVELOPER);
    assert_eq!(world.count(By::Cookie(&cookie), "*"), 50);
    world.finish(100);
}

#[test]
fn a_list_of_applications_is_complete_or_not_used() {
    let mut world = World::new();
    world.write_records(0..5);
    world.wait_found(10);
    let scopes = "openid";
    for token in ["nothing", "many", "too-many", "admin", "auditor"] {
        let more = match token {
            "admin" => " cloud_controller.admin",
            "auditor" => " logs.admin",
            _ => "",
        };
        world.cloud.add_token(token, &format!("{scopes}{more}"));
    }
    let id = |n: usize| format!("{n:08x}-2be4-4b3e-a4d8-4a4e1c0f8b11");
    for n in 0..4 {
        world.cloud.allow("many", &id(n));
    }
    for own in [OWN, OTHER] {
        world.cloud.allow("many", own);
    }
    for n in 0..20 {
        world.cloud.allow("too-many", &id(n));
    }
    assert_eq!(world.count(By::Token("nothing"), "*"), 0);
    assert_eq!(world.count(By::Token("many"), "*"), 10, "of three pages");
    assert_eq!(world.count(By::Token("admin"), "*"), 10);
    assert_eq!(world.count(By::Token("auditor"), "*"), 10);
    let refused = world.get("/api/v2/logs/events", By::Token("too-many"));
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("more than 1000 applications"), "{refused:?}");
    world.cloud.add_token("late", scopes);
    world.cloud.fail(true);
    let unavailable = world.get("/api/v2/logs/events", By::Token("late"));
    assert_eq!(unavailable.status, 503, "{unavailable:?}");
    assert_eq!(world.count(By::Token(OPERATOR), "*"), 10, "UAA is not needed");
    assert_eq!(world.count(By::Token("nothing"), "*"), 0, "cached for a minute");
    world.finish(10);
}

#[test]
fn hostile_tokens_are_refused() {
    let world = World::new();
    let sign_in =
        |token: &str| world.post("/weir/v1/session", By::Nobody, &json!({ "token": token })).status;
    let long = "x".repeat(1_000_000);
    for token in ["", "\n", "a\nb", "\u{0}", "ä", "a b", &format!("{OPERATOR}\nx"), &long] {
        assert_eq!(sign_in(token), 401, "{token:.40}");
    }
    assert_eq!(sign_in(&"x".repeat(2_000_000)), 413);
    assert_eq!(world.get("/metrics", By::Token(&long)).status, 431);
    let folded = format!("authorization: Bearer {OPERATOR}x\r\n {OPERATOR}\r\n");
    assert_ne!(ask(&world.weir, "GET", "/metrics", &folded, "").status, 200);
    for value in ["Bearer", "Bearer ", "Basic b3BlcmF0b3I6", OPERATOR, "Bearer operator-token"] {
        let header = format!("authorization: {value}\r\n");
        let refused = ask(&world.weir, "GET", "/metrics", &header, "");
        assert_eq!(refused.status, 401, "{value}: {refused:?}");
    }
    for path in ["x", "/;Domain=example.org", "/\r\nset-cookie: a=b"] {
        let body = json!({ "token": OPERATOR, "path": path });
        assert_eq!(world.post("/weir/v1/session", By::Nobody, &body).status, 400, "{path}");
    }
    let log = world.weir.wait_log("has refused an invalid token");
    assert!(!log.contains("operator-token"), "{log}");
    world.finish(0);
}

/// Sends requests with wrong tokens over one connection.
fn guess(weir: &Weir, requests: usize, connection: usize) {
    let mut tcp = TcpStream::connect(weir.api().unwrap()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(tcp.try_clone().unwrap());
    for request in 0..requests {
        let token = format!("guess-{connection}-{request}");
        let head = format!("host: localhost\r\nauthorization: Bearer {token}\r\n");
        write!(tcp, "GET /weir/v1/session HTTP/1.1\r\n{head}\r\n").unwrap();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 401"), "{line}");
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
    }
}

#[test]
fn ten_thousand_guesses_cost_no_memory() {
    const CONNECTIONS: usize = 250;
    let world = World::new();
    let before = world.weir.memory_max_bytes();
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let weir = &world.weir;
            scope.spawn(move || guess(weir, 10_000 / CONNECTIONS, connection));
        }
        // Valid tokens are still accepted at once.
        assert_eq!(world.get("/weir/v1/session", By::Token(OPERATOR)).status, 200);
    });
    let invalid = metric(&world.weir, "weir_api_refused_requests_total{reason=\"invalid_token\"}");
    assert_eq!(invalid, 10_000);
    assert_eq!(metric(&world.weir, "weir_api_sessions"), 0);
    let more = world.weir.memory_max_bytes() - before;
    assert!(more < 64 << 20, "{more} bytes");
    let messages = world.weir.log().matches("has refused an invalid token").count();
    assert!((1..100).contains(&messages), "{messages}");
    world.finish(0);
}

#[test]
fn commands_send_a_token() {
    let mut world = World::new();
    world.write_records(0..5);
    world.wait_found(10);
    let api = world.weir.api().unwrap().to_string();
    let run = |words: &[&str], token: &str, more: &[&str]| -> Output {
        let mut command = Command::new(binary());
        command.args(words).args(["--api", &api]).args(more);
        command.env("WEIR_TOKEN", token).output().unwrap()
    };
    for words in [&["ledger"][..], &["rules"], &["drains", "list"], &["store", "info"]] {
        let refused = run(words, "", &[]);
        let notes = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && notes.contains("set WEIR_TOKEN"), "{notes}");
        let shown = run(words, READER, &[]);
        assert!(shown.status.success(), "{words:?}: {shown:?}");
    }
    for (token, code, text) in [
        ("", 1, "requires a valid token: set WEIR_TOKEN"),
        (READER, 1, "may only be used to read"),
        (OPERATOR, 4, "there is no cursor \"gone\"; existing cursors: "),
        (OPERATOR, 1, "output \"store\" is configured: remove it from the configuration first"),
    ] {
        let name = if code == 1 { "store" } else { "gone" };
        let refused = run(&["cursor", "drop", name], token, &[]);
        let notes = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{notes}");
        assert!(notes.contains(text), "{notes}");
    }
    let token_file = world.scene.dir().join("token");
    std::fs::write(&token_file, format!("{DEVELOPER}\n")).unwrap();
    let token_file = token_file.display().to_string();
    let found =
        run(&["search"], OPERATOR, &["--token-file", &token_file, "-o", "raw", "-n", "100"]);
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(text.lines().filter(|line| line.starts_with("own")).count(), 5, "{found:?}");
    assert!(!text.contains("other"), "the file takes precedence: {text}");
    let mut following = Command::new(binary())
        .args(["search", "--follow", "-o", "raw", "--token-file", &token_file, "--api", &api])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let stored: Vec<String> = lines.by_ref().take(5).collect();
    world.write_records(5..6);
    let live = lines.next();
    following.kill().unwrap();
    following.wait().unwrap();
    assert!(stored.iter().all(|line| line.starts_with("own")), "{stored:?}");
    assert_eq!(live.as_deref(), Some("own request 5"), "without the books, it does not wait");
    let own = run(&["ledger"], "", &["--token-file", &token_file]);
    assert!(own.status.success(), "{own:?}");
    let text = String::from_utf8_lossy(&own.stdout).into_owned();
    assert!(text.starts_with("The books balance.") && text.lines().count() == 1, "{text}");
    for words in [&["cursor", "list"][..], &["rules"]] {
        let refused = run(words, "", &["--token-file", &token_file]);
        let notes = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(notes.contains("may only be used"), "{notes}");
    }
    world.finish(12);
}

#[test]
fn developers_see_the_drains_of_their_applications() {
    let mut world = World::new();
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("syslog://{}", collector.local_addr().unwrap());
    for drain in [
        json!({ "app": OWN, "url": url }),
        json!({ "app": OTHER, "url": url }),
        json!({ "space": "a-space", "url": url }),
        json!({ "url": url }),
    ] {
        let added = ask(
            &world.weir,
            "POST",
            "/weir/v1/drains",
            &By::Token(OPERATOR).header(),
            &drain.to_string(),
        );
        assert_eq!(added.status, 200, "{added:?}");
    }
    world.write_records(0..10);
    let list = |token: &str| {
        let document = world.get("/weir/v1/drains", By::Token(token)).json();
        assert_eq!(document["balanced"], true, "{document}");
        let drains = document["drains"].as_array().unwrap().clone();
        drains.iter().map(|drain| drain["selects"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is_listed = || (list(OPERATOR).len() == 4).then_some(());
    assert!(wait_for(PATIENCE, is_listed).is_some(), "{:?}", list(OPERATOR));
    assert_eq!(list(READER).len(), 4);
    assert_eq!(list(DEVELOPER), [format!("app {OWN}")]);
    for (method, path) in [("POST", "/weir/v1/drains"), ("DELETE", "/weir/v1/drains/1")] {
        let refused = ask(&world.weir, method, path, &By::Token(DEVELOPER).header(), "{}");
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    world.weir.books().assert_balanced();
    world.weir.stop();
}

/// A weir with a limit for each application, drains, and readers with the same cloud.
fn with_envelopes(scene: &Scene, cloud: &Cloud, collector: &str) -> Weir {
    let file = |name: &str, text: &str| {
        let path = scene.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let uaa = format!(
        "uaa = \"{url}\"\ncloud_controller = \"{url}\"\nuaa_client = \"weir\"\n\
         uaa_secret = {{ file = \"{}\" }}\n",
        file("secret", "cloud-secret"),
        url = cloud.url(),
    );
    let drains: String = [OWN, OTHER]
        .map(|app| format!("[[drain]]\napp = \"{app}\"\nurl = \"{collector}\"\n"))
        .concat();
    let config = format!(
        "{}[source.cf.rate_limit]\nby = [\"service\"]\nrecords_per_second = 1\nburst = \"5s\"\n\
         when_limited = \"discard\"\n\
         [drains]\nmessages = false\n{drains}[[drain]]\nurl = \"{collector}\"\n\
         [loggregator.gateway]\nlisten = \"127.0.0.1:0\"\n[loggregator.access]\n{uaa}\
         [api.access]\ntokens = {{ file = \"{}\" }}\n{uaa}",
        source(""),
        file("tokens", OPERATOR),
    );
    Weir::start_with_token(scene.dir(), &config, OPERATOR)
}

/// Opens a stream of the gateway, which stays open.
fn read_envelopes(weir: &Weir, query: &str, token: &str) -> TcpStream {
    let mut tcp = TcpStream::connect(address(weir, "gateway")).unwrap();
    let head = By::Token(token).header();
    write!(tcp, "GET /v2/read?{query} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n").unwrap();
    let mut line = [0; 12];
    tcp.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 200");
    tcp
}

#[test]
fn the_ledger_of_a_developer_has_their_applications_and_tells_nothing_of_others() {
    let (scene, cloud) = (Scene::new(), Cloud::start());
    cloud.add_token(DEVELOPER, "openid cloud_controller.read");
    cloud.add_token("firehose", "doppler.firehose");
    cloud.allow(DEVELOPER, OWN);
    // Connections that are not accepted yet take what is sent.
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("syslog://{}", collector.local_addr().unwrap());
    let mut weir = with_envelopes(&scene, &cloud, &url);
    let (own, other) = (format!("source_id={OWN}"), format!("source_id={OTHER}"));
    let _open = [
        (format!("log&{own}"), DEVELOPER),
        (format!("log&{own}&counter"), "firehose"),
        (format!("log&{other}"), "firehose"),
        (format!("log&{own}&{other}"), "firehose"),
        ("log".to_owned(), "firehose"),
    ]
    .map(|(query, token)| read_envelopes(&weir, &query, token));
    let send_logs = |app: &str, name: &str, count: usize| {
        let mut batch = Vec::new();
        for _ in 0..count {
            add_to_loggregator_batch(&log(app, b"a line"), &mut batch);
        }
        let path = messages(&scene, name, &[batch]);
        assert!(said(send(&python(), &weir, "BatchSender", &path, &[])).starts_with("OK"));
    };
    let ledger = |token: &str| {
        let reply = ask(&weir, "GET", "/weir/v1/ledger", &By::Token(token).header(), "");
        assert_eq!(reply.status, 200, "{reply:?}");
        let mut ledger = reply.json();
        ledger.as_object_mut().unwrap().remove("time");
        ledger
    };
    send_logs(OWN, "first", 50);
    let is_complete = || {
        let (operators, ledger) = (ledger(OPERATOR), ledger(DEVELOPER));
        let (gateway, limited) = (&ledger["readers"][0], &ledger["rate_limits"][0]);
        // Weir reports in the log of the application that the limit is exceeded, and that it is
        // over.
        let notices = operators["sources"][0]["rate_limit"]["notices"].as_u64()?;
        let accepted = 50 - limited["discarded_records"].as_u64()? + notices;
        let book = &ledger["drains"][0]["book"];
        let is_delivered = book["delivered"] == accepted && gateway["delivered"] == 2 * accepted;
        (is_delivered && notices >= 2 && limited["over"] == false).then_some(ledger)
    };
    let of_developer = wait_for(PATIENCE, is_complete);
    let of_developer = of_developer.unwrap_or_else(|| panic!("{:#}", ledger(DEVELOPER)));
    let counts = |name: &str| of_developer[name].as_array().unwrap().len();
    assert_eq!(
        ["sources", "cursors", "readers", "drains", "rate_limits"].map(counts),
        [0, 0, 1, 1, 1]
    );
    assert_eq!(of_developer["of_applications"], true);
    assert_eq!(of_developer["balanced"], true);
    assert!(of_developer.get("journal").is_none(), "{of_developer:#}");
    let gateway = &of_developer["readers"][0];
    assert_eq!(
        (&gateway["readers"], gateway["connected"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    assert_eq!(of_developer["rate_limits"][0]["key"], format!("service={OWN}"));
    send_logs(OTHER, "second", 500);
    let has_other = || {
        let ledger = ledger(OPERATOR);
        let book = &ledger["sources"][0]["book"];
        (book["lines"].as_u64() >= Some(550) && ledger.to_string().contains(OTHER)).then_some(())
    };
    assert!(wait_for(PATIENCE, has_other).is_some(), "{:#}", ledger(OPERATOR));
    weir.wait_books("all is settled", PATIENCE, |books| books.in_flight("drains") == 0)
        .assert_balanced();
    assert_eq!(ledger(DEVELOPER), of_developer, "it has not changed");
    weir.stop();
}
