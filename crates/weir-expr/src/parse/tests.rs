//! Tests of the parser: what is parsed as what, what is rejected and how, and that parsing undoes
//! printing.

use super::parse;

/// Asserts the canonical text of the parsed expression.
#[track_caller]
fn reads(text: &str, canonical: &str) {
    let expr = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(expr.to_string(), canonical, "{text}");
    let again = parse(canonical).unwrap_or_else(|error| panic!("{canonical}: {error}"));
    assert_eq!(again, expr, "{text} printed as {canonical}");
}

#[track_caller]
fn refuses(text: &str, marked: &str, message: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(&text[error.span.start..error.span.end], marked, "{error}");
    assert!(error.to_string().contains(message), "{text}: {error}");
}

#[test]
fn operators_bind_as_documented() {
    reads("a OR b AND c", "a OR (b AND c)");
    reads("a b OR c", "(a AND b) OR c");
    reads("a OR b c", "a OR (b AND c)");
    reads("(a OR b) c", "(a OR b) AND c");
    reads("NOT a b", "-a AND b");
    reads("-a OR -b", "-a OR -b");
    reads("NOT NOT a", "--a");
    reads("-(a b)", "-(a AND b)");
    reads("a && b || c", "(a AND b) OR c");
    reads("a and b or c", "a AND and AND b AND or AND c");
    reads("a (b (c d))", "a AND (b AND (c AND d))");
}

#[test]
fn text_is_split_into_words() {
    reads("Error", "error");
    reads("\"Connection  refused!\"", "\"connection refused\"");
    reads("foo-bar", "\"foo bar\"");
    reads("web*", "web*");
    reads("*web", "*web");
    reads("foo_ba?", "foo_ba?");
    reads("\"web*\"", "web");
    reads("message:Error", "error");
    reads("...", "\"\"");
    reads("*", "*");
    reads("", "*");
    reads("  \t\n", "*");
    reads("*:*", "*");
    reads("*:\"a b\"", "*:\"a b\"");
    reads("*:word", "*:word");
    reads("hello\\ world", "\"hello world\"");
    reads("“a b”", "\"a b\"");
}

#[test]
fn keys_and_values_are_read() {
    reads("service:web", "service:web");
    reads("env:(prod OR test)", "env:prod OR env:test");
    reads("@a:(x -y)", "@a:x AND -@a:y");
    reads("tags:x", "tags:x");
    reads("@http.method:GET", "@http.method:GET");
    reads("@a:\"x y\"", "@a:\"x y\"");
    reads("@a:x\\ y", "@a:\"x y\"");
    reads("@a:x\\:y", "@a:\"x:y\"");
    reads("@a:h?llo", "@a:h?llo");
    reads("@a:\"h?llo\"", "@a:\"h?llo\"");
    reads("@a:h\\?llo", "@a:\"h?llo\"");
    reads("@a:*", "@a:*");
    reads("_exists_:@a", "@a:*");
    reads("_missing_:service", "-service:*");
    reads("@ip:(\"\" OR \"\")", "@ip:\"\" OR @ip:\"\"");
    reads("@path:/api/v1", "@path:\"/api/v1\"");
    reads("@path:/api/v1/*", "@path:\\/api/v1/*");
    reads("@a:-5", "@a:-5");
    reads("@a:\"5\"", "@a:\"5\"");
    reads("@my\\ key:x", "@my\\ key:x");
    reads("\\-x:y", "\\-x:y");
    reads("message:*", "message:*");
    reads("CIDR(@ip, 10.1.0.0/8 , fd00::/8)", "CIDR(@ip,10.0.0.0/8,fd00::/8)");
    reads("CIDR(host,10.0.0.1)", "CIDR(host,10.0.0.1/32)");
}

#[test]
fn ranges_and_comparisons_are_read() {
    reads("@n:>100", "@n:>100");
    reads("@n:(>=1 <=5)", "@n:>=1 AND @n:<=5");
    reads("@n:[400 TO 499]", "@n:[400 TO 499]");
    reads("@n:{1 TO 2}", "@n:{1 TO 2}");
    reads("@n:[1 TO 5}", "@n:[1 TO 5}");
    reads("@n:[10 TO *]", "@n:>=10");
    reads("@n:[* TO *]", "@n:*");
    reads("@d:>300ms", "@d:>300ms");
    reads("@d:[100ms TO 250ms]", "@d:[100ms TO 250ms]");
    reads("@d:[0 TO 1s]", "@d:[0 TO 1s]");
    reads("@d:<1.5MiB", "@d:<1.5MiB");
    reads("@n:[-5 TO -1]", "@n:[-5 TO -1]");
    reads("status:>=warn", "status:>=warn");
    reads("@t:>\"2026-01-01T00:00:00Z\"", "@t:>\"2026-01-01T00:00:00Z\"");
}

#[test]
fn regexps_are_distinguished_from_paths() {
    reads("/time(d )?out/", "/time(d )?out/");
    reads("/a b/ c", "/a b/ AND c");
    reads("/x/i", "/x/i");
    reads("@url:/^\\/api\\/v\\d+/", "@url:/^\\/api\\/v\\d+/");
    reads("(/x/)", "/x/");
    reads("/var/log/messages", "\"var log messages\"");
    reads("@path:\"/api/\"", "@path:\"/api/\"");
    reads("message:/x/", "/x/");
    reads("*:/x/", "*:/x/");
}

#[test]
fn errors_mark_and_explain_the_problem() {
    refuses("a )", ")", "unmatched closing");
    refuses("(a", "(", "not closed");
    refuses("()", "()", "empty parentheses");
    refuses("a OR", "", "end of expression; expected a term");
    refuses("OR a", "OR", "missing term before OR");
    refuses("a AND OR b", "OR", "missing term before OR");
    refuses("!a", "!", "did you mean: -a");
    refuses("\"abc", "\"", "did you mean: \"abc\"");
    refuses("@a:", "@a:", "missing value after the colon");
    refuses("service: web", "service:", "did you mean: service:* web");
    refuses("@t:2026-01-01T00:00:00Z x", ":", "did you mean: @t:\"2026-01-01T00:00:00Z\" x");
    refuses("@url:http://x", ":", "did you mean: @url:\"http://x\"");
    refuses("@f:main(x)", "(", "must be quoted");
    refuses(">5", ">", "needs a key");
    refuses("[1 TO 2]", "[", "needs a key");
    refuses("@n:[1 to 5]", "t", "did you mean: @n:[1 TO 5]");
    refuses("@n:[1 TO 5", "[1 TO 5", "did you mean: @n:[1 TO 5]");
    refuses("(@n:[1 to 5 b", "t", "did you mean: (@n:[1 TO 5] b)");
    refuses("@n:>", "", "missing value to compare");
    refuses("@d:[-1e400 TO 1e400]", "-1e400", "too large");
    refuses("@d:<1e308h", "1e308h", "too large");
    refuses("@n:>5*", "5*", "wildcard cannot be used");
    refuses("@n:[1ms TO 5kB]", "[1ms TO 5kB]", "different units");
    refuses("CIDR(@ip,10.0.0/8)", "10.0.0/8", "not an address block");
    refuses("cidr(@ip,10.0.0.0/8)", "cidr", "did you mean: CIDR(@ip");
    refuses("CIDR(@ip)", "CIDR(@ip)", "without an address block");
    refuses("_exits_:@a", "_exits_", "_exists_ or _missing_");
    refuses("#calc:5", "#", "calculated fields");
    refuses("@a*:x", "@a*", "cannot have wildcards");
    refuses("message:>5", ">5", "has no order");
    refuses("a=b:c", "=", "cannot be used in a key");
    refuses("/a(b/", "(", "unclosed group");
    refuses("@x:/(?=y)/", "(?=", "look-around is not supported");
    refuses("/(a)\\1/", "\\1", "back-references are not supported");
    let unclosed = "did you mean: service:( \"@dur:>\")";
    refuses("service:( @dur:>", ":", unclosed);
    refuses("(a ((b \\d)", "(", "did you mean: (a ((b \\d)))");
    refuses("/a\\d/b/", "/a\\d/b/", "did you mean: /a\\d\\/b/");
    refuses("-", "-", "nothing to negate");
    refuses("a - b", "-", "nothing to negate");
    refuses("a\\", "\\", "escapes nothing");
    refuses(&"(".repeat(1000), "(", "nested more than");
    refuses(&"-".repeat(1000), "-", "nested more than");
}

#[test]
fn error_shows_the_location() {
    let error = parse("service:web @n:[1 to 5]").unwrap_err();
    assert_eq!(
        error.to_string(),
        "TO is missing in this range; expected [low TO high]\n  \
         service:web @n:[1 to 5]\n                    ^\n  \
         did you mean: service:web @n:[1 TO 5]"
    );
}

#[test]
fn field_names_are_parsed_as_before_a_colon() {
    use super::parse_field;
    use crate::ast::{Field, Reserved};
    assert_eq!(parse_field("service"), Ok(Field::Reserved(Reserved::Service)));
    assert_eq!(parse_field(" @http.status_code "), Ok(Field::Attribute("http.status_code".into())));
    assert_eq!(parse_field("env"), Ok(Field::Tag("env".into())));
    for wrong in ["", "a b", "@", "a:b", "a*", "a OR b", "a)"] {
        assert!(parse_field(wrong).is_err(), "{wrong}");
    }
}
