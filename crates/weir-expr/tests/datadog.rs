//! Queries as in the documentation of Datadog's search, each with a record that matches and one
//! that does not: users coming from Datadog get the same results.

use weir_expr::{Compiled, SampleRecord, naive, parse};

/// Query, a record that matches, a record that does not match.
const QUERIES: [(&str, &str, &str); 29] = [
    (
        "authentication AND failure",
        r#"{"message": "Authentication: failure"}"#,
        r#"{"message": "authentication"}"#,
    ),
    ("authentication OR password", r#"{"message": "no password"}"#, r#"{"message": "passwords"}"#),
    (
        "authentication AND -password",
        r#"{"message": "authentication"}"#,
        r#"{"message": "authentication password"}"#,
    ),
    (
        "*:hello",
        r#"{"message": "", "attributes": {"a": "hello"}}"#,
        r#"{"message": "x", "attributes": {"hello": "a"}}"#,
    ),
    ("hello", r#"{"message": "hello"}"#, r#"{"message": "x", "attributes": {"a": "hello"}}"#),
    ("*:hello*", r#"{"attributes": {"a": "hello_world"}}"#, r#"{"attributes": {"a": "ahello"}}"#),
    ("*:\"hello world\"", r#"{"message": "hello world"}"#, r#"{"message": "hello, my world"}"#),
    ("hello world", r#"{"message": "hello beautiful world"}"#, r#"{"message": "hello"}"#),
    (
        "@url:www.datadoghq.com",
        r#"{"attributes": {"url": "www.datadoghq.com"}}"#,
        r#"{"attributes": {"url": "www.datadoghq.com/x"}}"#,
    ),
    (
        r"@my_attribute:hello\:world",
        r#"{"attributes": {"my_attribute": "hello:world"}}"#,
        r#"{"attributes": {"my_attribute": "hello world"}}"#,
    ),
    (
        "@my_attribute:\"hello:world\"",
        r#"{"attributes": {"my_attribute": "hello:world"}}"#,
        r#"{"attributes": {"my_attribute": "Hello:world"}}"#,
    ),
    (
        "@my_attribute:hello?world",
        r#"{"attributes": {"my_attribute": "hello world"}}"#,
        r#"{"attributes": {"my_attribute": "helloworld"}}"#,
    ),
    (
        "@http.url_details.path:\"/api/v1/test\"",
        r#"{"attributes": {"http": {"url_details": {"path": "/api/v1/test"}}}}"#,
        r#"{"attributes": {"http": {"url_details": {"path": "/api/v1/test/2"}}}}"#,
    ),
    (
        r"@http.url:/api\-v1/*",
        r#"{"attributes": {"http": {"url": "/api-v1/x"}}}"#,
        r#"{"attributes": {"http": {"url": "/api-v2/x"}}}"#,
    ),
    (
        r"@http.status_code:[200 TO 299] @http.url_details.path:/api\-v1/*",
        r#"{"attributes": {"http": {"status_code": 204, "url_details": {"path": "/api-v1/x"}}}}"#,
        r#"{"attributes": {"http": {"status_code": 300, "url_details": {"path": "/api-v1/x"}}}}"#,
    ),
    (
        "-@http.status_code:*",
        r#"{"message": "x"}"#,
        r#"{"attributes": {"http": {"status_code": 1}}}"#,
    ),
    (
        "CIDR(@network.client.ip,13.0.0.0/8)",
        r#"{"attributes": {"network": {"client": {"ip": "13.1.2.3"}}}}"#,
        r#"{"attributes": {"network": {"client": {"ip": "14.1.2.3"}}}}"#,
    ),
    (
        "CIDR(@network.ip.list,13.0.0.0/8, 15.0.0.0/8)",
        r#"{"attributes": {"network": {"ip": {"list": ["1.1.1.1", "15.0.0.1"]}}}}"#,
        r#"{"attributes": {"network": {"ip": {"list": ["1.1.1.1", "16.0.0.1"]}}}}"#,
    ),
    (
        "source:pan.firewall evt.name:reject CIDR(@network.client.ip, 13.0.0.0/8)",
        r#"{"source": "pan.firewall", "tags": ["evt.name:reject"],
            "attributes": {"network": {"client": {"ip": "13.1.2.3"}}}}"#,
        r#"{"source": "pan.firewall", "attributes": {"network": {"client": {"ip": "13.1.2.3"}}}}"#,
    ),
    (
        "source:vpc NOT(CIDR(@network.client.ip, 13.0.0.0/8)) \
         CIDR(@network.destination.ip, 15.0.0.0/8)",
        r#"{"source": "vpc", "attributes": {"network": {"client": {"ip": "10.0.0.1"},
            "destination": {"ip": "15.0.0.1"}}}}"#,
        r#"{"source": "vpc", "attributes": {"network": {"client": {"ip": "13.0.0.1"},
            "destination": {"ip": "15.0.0.1"}}}}"#,
    ),
    ("service:web*", r#"{"service": "web-store"}"#, r#"{"service": "my-web"}"#),
    ("web*", r#"{"message": "the webstore"}"#, r#"{"message": "cobweb"}"#),
    ("*web", r#"{"message": "a cobweb here"}"#, r#"{"message": "webstore"}"#),
    ("service:*mongo", r#"{"service": "eu-mongo"}"#, r#"{"service": "mongo-eu"}"#),
    ("*NETWORK*", r#"{"message": "subNETWORKs"}"#, r#"{"attributes": {"a": "NETWORK"}}"#),
    (
        "@http.response_time:>100",
        r#"{"attributes": {"http": {"response_time": 100.5}}}"#,
        r#"{"attributes": {"http": {"response_time": 100}}}"#,
    ),
    (
        "(env:prod AND -version:beta)",
        r#"{"tags": ["env:prod", "version:1"]}"#,
        r#"{"tags": ["env:prod", "version:beta"]}"#,
    ),
    ("env:(prod OR test)", r#"{"tags": ["env:test"]}"#, r#"{"tags": ["env:dev"]}"#),
    (
        "@Event.EventData.Data.Name:ObjectServer",
        r#"{"attributes": {"Event": {"EventData": {"Data": [{"Name": "x"}, {"Name": "ObjectServer"}]}}}}"#,
        r#"{"attributes": {"Event": {"EventData": {"Data": [{"Value": "ObjectServer"}]}}}}"#,
    ),
];

#[test]
fn queries_of_the_datadog_documentation_match_as_documented() {
    for (query, found, other) in QUERIES {
        let expr = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut compiled = Compiled::new(&expr).unwrap();
        for (text, want) in [(found, true), (other, false)] {
            let record = SampleRecord::from_json(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(naive::matches(&expr, &record), want, "{query} on {text}");
            assert_eq!(compiled.matches(&record), want, "{query} compiled, on {text}");
        }
    }
}
