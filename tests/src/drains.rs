//! Drains: logs of an application arrive at the destinations of its owner, however these behave.
//!
//! Needs Python with the package `grpcio`, given in `WEIR_PYTHON`; `cargo xtask test` provides it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use serde_json::{Value, json};
use weir_codec::add_to_loggregator_batch;
use weir_testkit::{Books, HttpSender, PATIENCE, Weir};

use crate::disk::{JOURNAL, SmallDisk};
use crate::loggregator::{log, messages, python, said, send, source};
use crate::loggregator_egress::{Reader, settled};
use crate::scene::{OUTPUT, Scene, apply, wait};
use crate::sources::{Sender, connections};
use crate::syslog::{file, records};

/// The behavior of a syslog server.
#[derive(Default)]
struct Conduct {
    /// Bytes are not read.
    hangs: AtomicBool,
}

/// A server of syslog over TCP, with octet counting.
struct Server {
    port: u16,
    conduct: Arc<Conduct>,
    /// The messages of each connection, in the order in which the connections were opened: their
    /// threads may be late.
    received: Arc<Mutex<Vec<Vec<String>>>>,
    /// The bound socket, until connections are accepted.
    refusing: Option<OwnedFd>,
}

impl Server {
    fn start() -> Self {
        let mut server = Self::refusing();
        server.accept();
        server
    }

    /// Refuses connections: the port is bound, but not listened on. A server that accepts and then
    /// closes them would receive what was sent meanwhile.
    fn refusing() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        let (conduct, received) = (Arc::default(), Arc::default());
        Self { port: address.port(), conduct, received, refusing: Some(socket) }
    }

    /// Accepts connections from now on.
    fn accept(&mut self) {
        let socket = self.refusing.take().expect("connections were refused so far");
        listen(&socket, 128).unwrap();
        let listener = TcpListener::from(socket);
        let (by, into) = (Arc::clone(&self.conduct), Arc::clone(&self.received));
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                into.lock().unwrap().push(Vec::new());
                let (by, into) = (Arc::clone(&by), Arc::clone(&into));
                std::thread::spawn(move || {
                    serve(stream, &by, |message| {
                        into.lock().unwrap()[number].push(message);
                    });
                });
            }
        });
    }

    fn url(&self, parameters: &str) -> String {
        format!("syslog://127.0.0.1:{}{parameters}", self.port)
    }

    fn messages(&self) -> Vec<String> {
        self.received.lock().unwrap().concat()
    }

    /// Returns the numbers of the logs, in order, and checks that they are of this application.
    fn numbers(&self, app: &str) -> Vec<u64> {
        let number = |message: &String| {
            assert!(message.contains(&format!(" {app} ")), "{message}");
            message.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
        };
        self.messages().iter().map(number).collect()
    }
}

fn serve(mut stream: TcpStream, conduct: &Conduct, take: impl Fn(String)) {
    let mut bytes = Vec::new();
    let mut block = [0; 8 * 1024];
    loop {
        if conduct.hangs.load(Ordering::Relaxed) {
            std::thread::park_timeout(std::time::Duration::from_millis(5));
            continue;
        }
        match stream.read(&mut block) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&block[..count]),
        }
        let mut at = 0;
        while let Some(space) = bytes[at..].iter().position(|byte| *byte == b' ') {
            let length = std::str::from_utf8(&bytes[at..at + space]).unwrap();
            let length: usize = length.parse().unwrap();
            let start = at + space + 1;
            if bytes.len() < start + length {
                break;
            }
            let message = String::from_utf8(bytes[start..start + length].to_vec()).unwrap();
            take(message);
            at = start + length;
        }
        bytes.drain(..at);
    }
}

/// Requests a path of the API.
pub(crate) fn api(weir: &Weir, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut sender = HttpSender::new(weir.api().expect("the API listens"));
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = sender.exchange(request.as_bytes()).unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

pub(crate) fn drains(weir: &Weir) -> Vec<Value> {
    let (status, document) = api(weir, "GET", "/weir/v1/drains", &json!({}));
    assert_eq!(status, 200, "{document}");
    assert_eq!(document["balanced"], true, "{document:#}");
    document["drains"].as_array().unwrap().clone()
}

/// Sends that many logs of an application, numbered from there.
fn logs(scene: &Scene, weir: &Weir, app: &str, first: u64, count: u64) {
    let path = messages(scene, &format!("{app}-{first}"), &batches_from(app, first, count));
    assert!(said(send(&python(), weir, "BatchSender", &path, &[])).starts_with("OK"));
}

fn batches_from(app: &str, first: u64, count: u64) -> Vec<Vec<u8>> {
    batches_with(app, first, count, "number")
}

/// The same with this text before the numbers.
pub(crate) fn batches_with(app: &str, first: u64, count: u64, text: &str) -> Vec<Vec<u8>> {
    let all: Vec<u64> = (first..first + count).collect();
    let batch = |numbers: &[u64]| {
        let mut batch = Vec::new();
        for number in numbers {
            add_to_loggregator_batch(&log(app, format!("{text} {number}").as_bytes()), &mut batch);
        }
        batch
    };
    all.chunks(100).map(batch).collect()
}

pub(crate) fn all_of(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn drains_and_their_settings_change_under_load_and_nothing_else_restarts() {
    let scene = Scene::new();
    let (first, second) = (Server::start(), Server::start());
    let source = crate::syslog::source("tcp", "listen = \"127.0.0.1:0\"");
    let drain = |server: &Server| format!("[[drain]]\nurl = \"{}\"\n", server.url(""));
    let config = |keys: &str, drains: &[&Server]| {
        let drains: String = drains.iter().map(|server| drain(server)).collect();
        format!("{source}{}[drains]\n{keys}\n{drains}", file(&scene))
    };
    let mut weir = scene.start(&config("", &[&first]));
    let line = |number| format!("<13>1 - h app - - - number {number}\n").into_bytes();
    let sender = Sender::start(weir.source_address("tcp"), line);
    for round in 1..5 {
        apply(&weir, &config("metadata = false", &[&first, &second]));
        apply(&weir, &config(&format!("retry_for = \"{round}h\""), &[&first]));
        apply(&weir, &config("denied_networks = [\"192.0.2.0/24\"]", &[&first]));
        apply(&weir, &config(&format!("window = \"{}MiB\"", 32 + round), &[&first]));
    }
    assert_eq!(connections(&weir, "tcp"), 1);
    let sent = sender.stop();
    let books = weir.wait_books("everything is settled", PATIENCE, |books| {
        books.delivered(OUTPUT) == sent && books.in_flight("drains") == 0
    });
    books.assert_balanced();
    assert_eq!(books.routed("drains"), sent, "{books}");
    wait(&weir, "all have arrived", || first.messages().len() as u64 >= sent);
    assert_eq!(first.numbers("app"), all_of(sent), "each once, in order");
    assert!(!second.messages().is_empty());
    assert_eq!(drains(&weir).len(), 1);
    let log = weir.log();
    assert!(log.contains("drains changed") && !log.contains("restarting"), "{log}");
    weir.stop();
}

#[test]
fn logs_of_an_application_arrive_only_at_its_drains() {
    let scene = Scene::new();
    let (first, second, other, all) =
        (Server::start(), Server::start(), Server::start(), Server::start());
    let drain = |app: &str, server: &Server| {
        let url = server.url("?drain-data=logs");
        format!("[[drain]]\napp = \"{app}\"\nurl = \"{url}\"\nhostname = \"org.space.{app}\"\n")
    };
    let config = format!(
        "{}{}{}{}[[drain]]\nurl = \"{}\"\n",
        source(""),
        drain("app-1", &first),
        drain("app-1", &second),
        drain("app-2", &other),
        all.url("?disable-metadata=true"),
    );
    let mut weir = scene.start(&config);
    for app in ["app-1", "app-2", "app-3"] {
        logs(&scene, &weir, app, 0, 300);
    }
    wait(&weir, "all have arrived", || {
        [&first, &second, &other].iter().all(|server| server.messages().len() >= 300)
            && all.messages().len() >= 900
    });
    for (server, app) in [(&first, "app-1"), (&second, "app-1"), (&other, "app-2")] {
        assert_eq!(server.numbers(app), all_of(300));
    }
    assert_eq!(all.messages().len(), 900);
    let message = &first.messages()[0];
    assert!(message.starts_with("<14>1 "), "{message}");
    assert!(message.contains(" org.space.app-1 app-1 [") && message.contains("[tags@47450 "));
    assert!(all.messages().iter().all(|message| !message.contains("tags@47450")));
    let books =
        weir.wait_books("everything is settled", PATIENCE, |books| books.in_flight("drains") == 0);
    books.assert_balanced();
    assert_eq!((books.routed("drains"), books.delivered("drains")), (900, 900));
    assert_eq!(drains(&weir).len(), 4);
    weir.stop();
}

#[test]
fn a_drain_that_hangs_lags_on_disk_alone_and_catches_up_in_order_after_kills() {
    let scene = Scene::new();
    let (good, mut bad) = (Server::start(), Server::refusing());
    let config = format!(
        "{}[drains]\nmessages = false\n\
         [[drain]]\napp = \"good\"\nurl = \"{}\"\n[[drain]]\napp = \"bad\"\nurl = \"{}\"\n",
        source(""),
        good.url(""),
        bad.url(""),
    );
    let mut weir = scene.start(&config);
    let mut sent = 0;
    for _ in 0..3 {
        for app in ["good", "bad"] {
            logs(&scene, &weir, app, sent, 500);
        }
        sent += 500;
        wait(&weir, "the good one has all", || {
            good.numbers("good").into_iter().collect::<BTreeSet<_>>().len() as u64 == sent
        });
        wait(&weir, "the bad one lags", || {
            let books = weir.books();
            books.routed("drains/lagging") > 0 && books.in_flight("drains") == 0
        });
        weir.kill();
        weir = scene.start(&config);
    }
    bad.accept();
    wait(&weir, "the bad one has all", || {
        bad.numbers("bad").into_iter().collect::<BTreeSet<_>>().len() as u64 == sent
    });
    assert_eq!(bad.numbers("bad"), all_of(sent), "in order, and each once");
    let books = weir.wait_books("everything is settled", PATIENCE, |books| {
        books.in_flight("drains/lagging") == 0
    });
    books.assert_balanced();
    assert_eq!(lost_by_drains(&books), 0);
    let has_all = |weir: &Weir, app: &str| {
        let book = &book_of(weir, app);
        book["routed"] == sent && book["delivered"] == sent && book["waiting"] == 0
    };
    for app in ["good", "bad"] {
        wait(&weir, "its book has each record once over all kills", || has_all(&weir, app));
    }
    weir.stop();
    weir = scene.start(&config);
    for app in ["good", "bad"] {
        assert!(has_all(&weir, app), "{app}: {}", book_of(&weir, app));
    }
    assert_eq!(book_of(&weir, "bad")["moved"], sent);
    weir.books().assert_balanced();
    weir.stop();
}

/// The book of the drain of an application.
pub(crate) fn book_of(weir: &Weir, app: &str) -> Value {
    let (all, selects) = (drains(weir), format!("app {app}"));
    all.iter().find(|drain| drain["selects"] == selects).expect("it is listed")["book"].clone()
}

#[test]
fn a_full_disk_takes_from_the_drain_that_fills_it_and_holds_up_no_other() {
    let scene = Scene::new();
    let disk = SmallDisk::mount(scene.dir().join("data"), "16m");
    let (good, mut bad) = (Server::start(), Server::refusing());
    let config = format!(
        "{JOURNAL}{}[drains]\nmessages = false\n\
         [[drain]]\napp = \"good\"\nurl = \"{}\"\n[[drain]]\napp = \"bad\"\nurl = \"{}\"\n",
        source(""),
        good.url(""),
        bad.url(""),
    );
    let mut weir = scene.start(&config);
    let count = 40_000;
    let path = messages(&scene, "bad", &batches_with("bad", 0, count, &"x".repeat(1000)));
    assert!(said(send(&python(), &weir, "BatchSender", &path, &[])).starts_with("OK"));
    // More than fits.
    wait(&weir, "some are lost", || lost_by_drains(&weir.books()) > 0);
    logs(&scene, &weir, "good", 0, 1000);
    wait(&weir, "the good one has all", || good.messages().len() == 1000);
    assert_eq!(good.numbers("good"), all_of(1000));
    weir.books().assert_balanced();
    bad.accept();
    let books = weir.wait_books("everything is settled", PATIENCE, |books| {
        books.in_flight("drains") + books.in_flight("drains/lagging") == 0
    });
    books.assert_balanced();
    // The book of the drain is exact; that of its stream also counts records which were delivered
    // while they were moved there.
    let book = || book_of(&weir, "bad");
    wait(&weir, "its book is published", || book()["waiting"] == 0);
    let of = |value: &Value| value.as_u64().unwrap_or(0);
    let (delivered, lost) = (of(&book()["delivered"]), of(&book()["discarded"]["buffer_full"]));
    assert_eq!(delivered + lost, count);
    assert!(lost <= lost_by_drains(&books) && delivered > 0, "{delivered} delivered");
    wait(&weir, "the bad one has the others", || bad.messages().len() as u64 == delivered);
    let numbers = bad.numbers("bad");
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order, and each once");
    logs(&scene, &weir, "bad", count, 100);
    wait(&weir, "it goes on", || bad.numbers("bad").last() == Some(&(count + 99)));
    weir.stop();
    drop(disk);
}

fn lost_by_drains(books: &Books) -> u64 {
    books.discarded("drains") + books.discarded("drains/lagging")
}

#[test]
fn drains_are_added_paused_resumed_and_removed_and_kept_over_restarts() {
    let scene = Scene::new();
    let server = Server::start();
    let config = source("") + "[drains]\ndenied_networks = [\"10.0.0.0/8\"]\n";
    let mut weir = scene.start(&config);
    let drain = json!({ "app": "app", "url": server.url("/?token=hidden") });
    let (status, added) = api(&weir, "POST", "/weir/v1/drains", &drain);
    assert_eq!(status, 200, "{added}");
    let id = added["id"].as_str().unwrap().to_owned();
    assert_eq!(api(&weir, "POST", "/weir/v1/drains", &drain).0, 409);
    let bad = json!({ "app": "app", "url": "ftp://example.com" });
    assert_eq!(api(&weir, "POST", "/weir/v1/drains", &bad).0, 400);
    let path = |what: &str| format!("/weir/v1/drains/{id}/{what}");
    let (_, tested) = api(&weir, "POST", &path("test"), &json!({}));
    assert_eq!(tested["error"], Value::Null, "{tested}");
    logs(&scene, &weir, "app", 0, 100);
    wait(&weir, "all are accepted", || drains(&weir)[0]["book"]["delivered"] == 100);
    assert_eq!(api(&weir, "POST", &path("pause"), &json!({})).0, 200);
    logs(&scene, &weir, "app", 100, 100);
    wait(&weir, "they wait on disk", || weir.books().routed("drains/lagging") == 100);
    let (_, status) = api(&weir, "GET", "/weir/v1/status", &Value::Null);
    for output in status["outputs"].as_array().unwrap() {
        assert_eq!(output["book"]["type"], "drains", "{output}");
    }
    let lag = |weir: &Weir| drains(weir)[0]["lag_seconds"].clone();
    wait(&weir, "it lags", || lag(&weir).as_f64().is_some_and(|seconds| seconds > 0.0));
    weir.stop();
    weir = scene.start(&config);
    let known = drains(&weir);
    assert_eq!((known.len(), &known[0]["state"]), (1, &json!("paused")), "{known:?}");
    assert!(!known[0].to_string().contains("hidden"), "{known:?}");
    assert_eq!(known[0]["lag_seconds"], Value::Null, "none of its records was read yet");
    let book = &known[0]["book"];
    let counts = ["routed", "delivered", "waiting", "recovered"].map(|count| book[count].as_u64());
    assert_eq!(counts, [200, 100, 100, 100].map(Some), "{book}");
    assert_eq!(server.messages().len(), 100);
    assert_eq!(api(&weir, "POST", &path("resume"), &json!({})).0, 200);
    wait(&weir, "all have arrived", || server.messages().len() == 200);
    assert_eq!(server.numbers("app"), all_of(200));
    wait(&weir, "it has caught up", || lag(&weir).as_f64() == Some(0.0));
    let denied = json!({ "app": "app", "url": "syslog://10.1.2.3:514" });
    let (_, added) = api(&weir, "POST", "/weir/v1/drains", &denied);
    let path = format!("/weir/v1/drains/{}", added["id"].as_str().unwrap());
    let (_, tested) = api(&weir, "POST", &format!("{path}/test"), &json!({}));
    assert!(tested["error"].as_str().unwrap().contains("not allowed"), "{tested}");
    logs(&scene, &weir, "app", 200, 10);
    wait(&weir, "it fails", || drains(&weir).iter().any(|drain| drain["state"] == "failing"));
    assert_eq!(api(&weir, "DELETE", &path, &json!({})).0, 200);
    assert_eq!(api(&weir, "DELETE", &path, &json!({})).0, 404);
    let books = weir.wait_books("everything is settled", PATIENCE, |books| {
        books.in_flight("drains") == 0 && books.in_flight("drains/lagging") == 0
    });
    books.assert_balanced();
    assert_eq!(server.messages().len(), 210);
    let kept = std::fs::read_to_string(weir.data_dir().join("drains.json")).unwrap();
    assert!(kept.contains("token=hidden"), "the file is for weir only: {kept}");
    weir.stop();
}

/// Serves a binding cache with these bindings, until it is broken. Returns its port.
fn binding_cache(bindings: &Value, is_broken: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (bindings, broken) = (bindings.to_string(), Arc::clone(is_broken));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let body = if head.starts_with("GET /v2/bindings ") { &*bindings } else { "[]" };
            let status = if broken.load(Ordering::Relaxed) { "500 Oh" } else { "200 OK" };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

fn binding(app: &str, url: &str) -> Value {
    let apps = json!([{ "hostname": "org.space.app", "app_id": app }]);
    json!({ "url": url, "credentials": [{ "apps": apps }] })
}

#[test]
fn a_binding_cache_names_drains_and_a_start_does_not_need_it() {
    let scene = Scene::new();
    let server = Server::start();
    let is_broken = Arc::default();
    let port = binding_cache(&json!([binding("app", &server.url(""))]), &is_broken);
    let config = format!(
        "{}[drains.binding_cache]\nurl = \"http://127.0.0.1:{port}\"\ninterval = \"1s\"\n",
        source("")
    );
    let mut weir = scene.start(&config);
    wait(&weir, "the drain is known", || drains(&weir).len() == 1);
    logs(&scene, &weir, "app", 0, 100);
    wait(&weir, "all have arrived", || server.messages().len() == 100);
    is_broken.store(true, Ordering::Relaxed);
    weir.stop();
    weir = scene.start(&config);
    logs(&scene, &weir, "app", 100, 100);
    wait(&weir, "all have arrived", || server.messages().len() == 200);
    assert_eq!(server.numbers("app"), all_of(200));
    wait(&weir, "the list is a problem", || weir.health().to_string().contains("drains_list"));
    weir.wait_books("everything is settled", PATIENCE, |books| books.in_flight("drains") == 0)
        .assert_balanced();
    weir.stop();
}

#[test]
fn owners_of_applications_are_told_about_their_drains() {
    let scene = Scene::new();
    let refusing = Server::refusing();
    let url = refusing.url("?token=hidden");
    let bindings = json!([binding("app-1", &url), binding("app-2", "ftp://user:hidden@host/")]);
    let port = binding_cache(&bindings, &Arc::default());
    let config = format!(
        "{}{}[drains.binding_cache]\nurl = \"http://127.0.0.1:{port}\"\ninterval = \"1s\"\n",
        source(""),
        file(&scene)
    );
    let mut weir = scene.start(&config);
    logs(&scene, &weir, "app-1", 0, 100);
    let books = weir.wait_books("both are told", PATIENCE, |books| {
        books.delivered(OUTPUT) == 102 && books.in_flight("drains") == 0
    });
    books.assert_balanced();
    let is_message = |record: &Value| record["resource"]["tags"] == json!(["source_type:LGR"]);
    let mut told: Vec<_> = records(&scene.dir().join("out.log"))
        .into_iter()
        .filter(is_message)
        .map(|record| {
            assert_eq!(record["severity_text"], "ERROR", "{record:#}");
            (record["resource"]["service.name"].to_string(), record["body"].to_string())
        })
        .collect();
    told.sort();
    assert!(told[0].0.contains("app-1") && told[0].1.contains("Failed to send to syslog://"));
    assert!(told[1].0.contains("app-2") && told[1].1.contains("Invalid Scheme ftp"), "{told:?}");
    assert!(!format!("{told:?}").contains("hidden"), "{told:?}");
    assert_eq!(books.source("drain_messages")["book"]["records"], 2);
    weir.stop();
}

#[test]
fn a_configured_source_takes_the_place_of_the_usual_one_for_messages() {
    let scene = Scene::new();
    let refusing = Server::refusing();
    let config = format!(
        "{}{}[source.feedback]\ntype = \"drain_messages\"\n[[drain]]\napp = \"app\"\n\
         url = \"{}\"\n",
        source(""),
        file(&scene),
        refusing.url("")
    );
    let mut weir = scene.start(&config);
    logs(&scene, &weir, "app", 0, 10);
    let books =
        weir.wait_books("its owner is told", PATIENCE, |books| books.delivered(OUTPUT) == 11);
    books.assert_balanced();
    assert_eq!(books.records(), 11, "there is no second source for them: {books}");
    weir.stop();
}

#[test]
fn records_moved_to_the_stream_of_a_drain_are_not_read_twice() {
    let scene = Scene::new();
    let refusing = Server::refusing();
    let config = format!(
        "{}[loggregator.egress]\nlisten = \"127.0.0.1:0\"\n[drains]\nmessages = false\n\
         [[drain]]\napp = \"app\"\nurl = \"{}\"\n",
        source(""),
        refusing.url("")
    );
    let mut weir = scene.start(&config);
    let everything = json!({ "selectors": [["", "log"]] });
    let _reader = Reader::open(&weir, "BatchedReceiver", &everything, 1000);
    for first in [0, 200] {
        logs(&scene, &weir, "app", first, 200);
        wait(&weir, "they are moved", || weir.books().routed("drains/lagging") == first + 200);
    }
    let readers = settled(&weir, "egress", 400);
    assert_eq!(readers["delivered"], 400, "{readers}");
    weir.books().assert_balanced();
    weir.stop();
}
