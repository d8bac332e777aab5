//! Properties of the language: parsing undoes printing, normalizing preserves the meaning, and no
//! text causes a panic in the parser.

use proptest::prelude::*;
use weir_expr::{
    Bound, Expr, ExprKind, Field, Glob, Literal, Network, Phrase, Piece, Range, Regexp, Reserved,
    SampleRecord, Test, naive, parse,
};

/// Texts composed of what has a meaning for the parser.
fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "web",
        "AND",
        "OR",
        "NOT",
        "TO",
        " ",
        " ",
        "-",
        "(",
        ")",
        "\"",
        "“",
        "”",
        ":",
        "@a",
        "@a.b:",
        "service:",
        "env:",
        "tags:",
        "*:",
        "message:",
        "[",
        "]",
        "{",
        "}",
        ">",
        "<",
        "=",
        "1",
        "-5",
        "300ms",
        "2kB",
        "*",
        "?",
        "\\",
        "/",
        "/x+/",
        "i",
        "_exists_:",
        "_missing_:",
        "CIDR(",
        ",",
        "10.0.0.0/8",
        "&&",
        "||",
        "!",
        "#",
        "é",
        "\n",
        "\u{a0}",
    ]);
    prop_oneof![
        4 => prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9 *?/:\"\\\\()_.-]{0,8}", "\\PC{0,6}", Just("AND".to_owned())]
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        prop::sample::select(Reserved::ALL.to_vec()).prop_map(Field::Reserved),
        Just(Field::Tags),
        any_text().prop_filter("a key", |k| !k.is_empty()).prop_map(Field::Attribute),
        any_text()
            .prop_filter("a tag", |k| {
                !["", "@", "*", "message", "tags"].contains(&&**k)
                    && Reserved::from_name(k).is_none()
            })
            .prop_map(Field::Tag),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any_text().prop_map(Literal::quoted),
        prop::sample::select(vec!["0", "-1", "2.5", "300ms", "1e3", "2KiB"])
            .prop_map(Literal::plain),
    ]
}

fn bound() -> impl Strategy<Value = Bound> {
    let number = prop::sample::select(vec!["0", "-1", "2.5", "1e3"]).prop_map(Literal::plain);
    let literal = prop_oneof![any_text().prop_map(Literal::quoted), number];
    (literal, any::<bool>()).prop_map(|(literal, included)| {
        if included { Bound::Included(literal) } else { Bound::Excluded(literal) }
    })
}

fn range() -> impl Strategy<Value = Range> {
    prop_oneof![
        (bound(), bound()).prop_map(|(low, high)| Range { low, high }),
        bound().prop_map(|low| Range { low, high: Bound::Unbounded }),
        bound().prop_map(|high| Range { low: Bound::Unbounded, high }),
    ]
}

fn glob() -> impl Strategy<Value = Glob> {
    let piece = prop_oneof![Just(Piece::Any), Just(Piece::One), any_text().prop_map(Piece::Text)];
    prop::collection::vec(piece, 1..4)
        .prop_map(Glob::new)
        .prop_filter("wildcards", |glob| glob.as_text().is_none() && !glob.is_any())
}

fn regexp() -> impl Strategy<Value = Regexp> {
    let pattern =
        prop::sample::select(vec!["a", "a/b", "\\d+ /", "[/]x", "(a|b)*", "\\\\", " ", "a\\.b\"c"]);
    (pattern, any::<bool>()).prop_map(|(pattern, case_insensitive)| Regexp {
        pattern: pattern.to_owned(),
        case_insensitive,
    })
}

fn phrase() -> impl Strategy<Value = Phrase> {
    let word = prop_oneof![
        "[a-z0-9é]{1,4}".prop_map(|text| Glob::new([Piece::Text(text)])),
        "[a-z0-9]{1,4}".prop_map(|text| Glob::new([Piece::Text(text), Piece::Any])),
        Just(Glob::new([Piece::One])),
        Just(Glob::new([Piece::Any])),
    ];
    prop::collection::vec(word, 0..3).prop_map(|words| Phrase { words })
}

fn term() -> impl Strategy<Value = Expr> {
    let networks = prop::sample::select(vec!["10.0.0.0/8", "fd00::/8", "::ffff:1.2.3.4"]);
    let test = prop_oneof![
        Just(Test::Exists),
        literal().prop_map(Test::Equals),
        glob().prop_map(Test::Glob),
        range().prop_map(Test::Range),
        regexp().prop_map(Test::Regexp),
        networks.prop_map(|block| Test::Cidr(vec![Network::parse(block).unwrap()])),
    ];
    prop_oneof![
        (field(), test).prop_map(|(field, test)| Expr::term(field, test)),
        phrase().prop_map(|phrase| Expr::term(Field::Message, Test::Words(phrase))),
        phrase().prop_map(|phrase| Expr::term(Field::Any, Test::Words(phrase))),
        regexp().prop_map(|regexp| Expr::term(Field::Message, Test::Regexp(regexp))),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    term().prop_recursive(3, 12, 4, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(Expr::negated),
            parts.clone().prop_map(|parts| Expr::new(ExprKind::And(parts))),
            parts.prop_map(|parts| Expr::new(ExprKind::Or(parts))),
        ]
    })
}

/// Small expressions and records with few distinct values, so that much matches.
fn small_text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", " ", "-a", "OR ", "(a b) ", "* "]),
        1..8,
    )
    .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parser_never_panics_and_output_parses_again(text in text()) {
        match parse(&text) {
            Ok(expr) => {
                let printed = expr.to_string();
                prop_assert_eq!(parse(&printed), Ok(expr.clone()), "{:?} as {:?}", text, printed);
                expr.for_each_term(&mut |_, span| {
                    assert!(text.get(span.start..span.end).is_some_and(|part| !part.is_empty()));
                });
            }
            Err(error) => {
                prop_assert!(text.get(error.span.start..error.span.end).is_some());
                prop_assert!(!error.to_string().is_empty());
                if let Some(suggestion) = error.suggestion {
                    prop_assert!(parse(&suggestion).is_ok(), "{:?} for {:?}", suggestion, text);
                }
            }
        }
    }

    #[test]
    fn every_expression_round_trips_through_text(expr in expr()) {
        let printed = expr.to_string();
        prop_assert_eq!(parse(&printed), Ok(expr.clone()), "{}", printed);
    }

    #[test]
    fn normalizing_preserves_meaning_and_is_idempotent(
        text in small_text(), message in "[ab ]{0,4}",
    ) {
        if let Ok(expr) = parse(&text) {
            let normal = expr.normalized();
            let record = SampleRecord::with_message(message);
            prop_assert_eq!(
                naive::matches(&expr, &record), naive::matches(&normal, &record), "{}", normal
            );
            prop_assert_eq!(&normal.normalized(), &normal, "{}", normal);
        }
    }
}
