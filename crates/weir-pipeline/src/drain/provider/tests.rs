//! Answers of the originals, and of servers that answer anything.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;

/// A server with a body for each path; others are not found.
struct Server {
    address: SocketAddr,
    answers: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Server {
    fn start(answers: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = answers.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned()));
        let answers = Arc::new(Mutex::new(answers.collect::<BTreeMap<_, _>>()));
        let known = Arc::clone(&answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(&stream, &known.lock().unwrap());
            }
        });
        Self { address, answers }
    }

    fn set(&self, path: &str, body: &str) {
        self.answers.lock().unwrap().insert(path.to_owned(), body.to_owned());
    }

    fn provider(&self, kind: ProviderKind) -> Provider {
        Provider::new(&ProviderSettings {
            kind,
            endpoint: Endpoint::url(&format!("http://{}", self.address)).unwrap(),
            tls: TlsSettings::default(),
            interval: INTERVAL_DEFAULT,
            drains_per_app_max: 2,
        })
        .unwrap()
    }
}

fn answer(stream: &TcpStream, known: &BTreeMap<String, String>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned));
    let _rest = lines.take_while(|line| !line.is_empty()).count();
    let found = path.and_then(|path| known.get(&path));
    let (status, body) = found.map_or((404, ""), |body| (200, body.as_str()));
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut stream = stream;
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

fn shown(list: &BindingList) -> Vec<String> {
    list.bindings.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_binding_cache_lists_drains_of_applications_and_of_everything() {
    let app = |id: &str| format!(r#"{{"hostname":"o.s.{id}","app_id":"{id}"}}"#);
    let bindings = format!(
        r#"[{{"url":"syslog://one?drain-data=all","credentials":[{{"cert":"","key":"","ca":"","apps":[{},{}]}}]}},
        {{"url":"https://u:hidden@two/p","credentials":[{{"apps":[{},{{"app_id":""}}]}},{{"ca":"hidden","apps":[{}]}}]}},
        {{"url":"gopher://h?hidden","credentials":[{{"apps":[{}]}}]}},{{"url":"syslog://x","credentials":null}}]"#,
        app("a"),
        app("b"),
        app("a"),
        app("c"),
        app("b")
    );
    let aggregate = r#"[{"url":"syslog-tls://all","credentials":[{"cert":"","key":"","ca":"","apps":null}]},{"url":""}]"#;
    let server = Server::start(&[("/v2/bindings", &bindings), ("/v2/aggregate", aggregate)]);
    let provider = server.provider(ProviderKind::BindingCache);
    let list = provider.fetch().await.unwrap();
    let expected = [
        "all applications to syslog-tls://all",
        "a to https://two/p",
        "a to syslog://one",
        "b to syslog://one",
    ];
    assert_eq!(shown(&list), expected);
    assert_eq!(list.bindings[1].hostname, "o.s.a");
    let rejected: Vec<_> =
        list.rejected.iter().map(|one| (one.app.as_deref(), one.text.as_str())).collect();
    let expected = [
        (None, "A syslog drain names no application"),
        (Some("c"), "failed to load root CA for https://two/p"),
        (Some("b"), "Invalid Scheme gopher for syslog drain url gopher://h"),
        (None, "A syslog drain has no credentials, which list its applications"),
    ];
    assert_eq!(rejected, expected);
    assert!(!format!("{list:?}").contains("hidden"));
}

#[tokio::test]
async fn a_cloud_controller_is_asked_for_page_after_page() {
    let path = |version: &str, id: u64| {
        format!("/internal/{version}/syslog_drain_urls?batch_size=1000&next_id={id}")
    };
    let server = Server::start(&[
        (
            &path("v5", 0),
            r#"{"results":[{"url":"syslog://1","credentials":[{"apps":[{"app_id":"a"}]}]}],"next_id":7}"#,
        ),
        (
            &path("v5", 7),
            r#"{"results":[{"url":"syslog://3","credentials":[{"apps":[{"app_id":"a"}]}]},{"url":"syslog://2","credentials":[{"apps":[{"app_id":"a"}]}]}],"next_id":0}"#,
        ),
        (
            &path("v4", 0),
            r#"{"results":{"a":{"drains":["syslog://1","https://2"],"hostname":"o.s.a"}},"next_id":1}"#,
        ),
        (&path("v4", 1), r#"{"results":{},"next_id":null}"#),
    ]);
    let list = server.provider(ProviderKind::CloudController).fetch().await.unwrap();
    assert_eq!(shown(&list), ["a to syslog://1", "a to syslog://2"]);
    let text = "The application has more than 2 syslog drains, of which syslog://3 is not used";
    assert_eq!(
        list.rejected,
        [RejectedBinding { app: Some("a".to_owned()), text: text.to_owned() }]
    );
    let list = server.provider(ProviderKind::CloudControllerV4).fetch().await.unwrap();
    assert_eq!(shown(&list), ["a to https://2", "a to syslog://1"]);
    assert_eq!(list.bindings[0].hostname, "o.s.a");

    server.set(&path("v5", 7), r#"{"results":[],"next_id":7}"#);
    let error = server.provider(ProviderKind::CloudController).fetch().await.unwrap_err();
    assert!(error.to_string().contains("has more than 1000 pages"), "{error}");
}

#[tokio::test]
async fn an_error_on_any_page_leaves_the_last_list_in_use() {
    let first = "/internal/v5/syslog_drain_urls?batch_size=1000&next_id=0";
    let second = "/internal/v5/syslog_drain_urls?batch_size=1000&next_id=1";
    let one = r#"{"results":[{"url":"syslog://1","credentials":[{"apps":[{"app_id":"a"}]}]}],"next_id":1}"#;
    let server = Server::start(&[(first, one), (second, r#"{"results":[],"next_id":0}"#)]);
    let provider = server.provider(ProviderKind::CloudController);
    let mut state = ProviderState::default();
    state.update(provider.fetch().await, Duration::ZERO);
    assert_eq!(shown(state.list.as_ref().unwrap()), ["a to syslog://1"]);
    for (wrong, expected) in [
        ("{\"results\":[{\"url\":7,\"hidden\":1}]}", "is not a list of drains: line 1, column 20"),
        ("[]", "is not a list of drains: line 1, column 2"),
        ("{\"next_id\":0}", "is not a list of drains: line 1, column 13"),
        ("", "is not a list of drains: line 1, column 0"),
    ] {
        server.set(second, wrong);
        state.update(provider.fetch().await, Duration::ZERO);
        let error = state.last_error.as_ref().unwrap().to_string();
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(shown(state.list.as_ref().unwrap()), ["a to syslog://1"]);
    }
    server.answers.lock().unwrap().remove(second);
    state.update(provider.fetch().await, Duration::ZERO);
    assert!(state.last_error.as_ref().unwrap().to_string().ends_with("next_id=1 with status 404"));
    assert_eq!((state.refreshes, state.errors), (6, 5));
}

#[tokio::test]
async fn a_provider_is_polled_until_all_receivers_are_gone() {
    let server = Server::start(&[("/v2/bindings", "[]")]);
    let mut provider = server.provider(ProviderKind::BindingCache);
    provider.interval = Duration::from_millis(1);
    let (states, mut state) = watch::channel(ProviderState::default());
    let running = tokio::spawn(provider.run(states));
    state.wait_for(|state| state.refreshes > 2).await.unwrap();
    drop(state);
    running.await.unwrap();
}

proptest! {
    #[test]
    fn hostile_answers_are_errors_or_lists(body in "[\\[\\]{}\":,a-z0-9]{0,60}") {
        let mut list = ListBuilder::default();
        let body = body.as_bytes();
        let _results = (
            list.add_bindings(body),
            list.add_aggregate(body),
            list.add_page(body),
            list.add_page_v4(body),
        );
        prop_assert!(list.build(5).bindings.is_empty());
    }
}
