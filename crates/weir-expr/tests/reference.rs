//! The reference page is correct: every line of its examples is evaluated, by the naive evaluator
//! and as a compiled rule, and its lists are those of the code.

use weir_expr::{Compiled, Reserved, SampleRecord, naive, parse};

const PAGE: &str = include_str!("../../../docs/reference/expressions.md");

/// Returns the lines of all example blocks.
fn examples() -> Vec<(&'static str, &'static str, bool)> {
    let blocks = PAGE.split("```expr\n").skip(1);
    let lines = blocks.flat_map(|rest| rest.split("```").next().unwrap().lines());
    lines.map(example).collect()
}

fn example(line: &'static str) -> (&'static str, &'static str, bool) {
    let (rest, verdict) = line.rsplit_once(" | ").expect(line);
    let (query, record) = rest.split_once(" | {").expect(line);
    let record = &rest[rest.len() - record.len() - 1..];
    assert!(matches!(verdict, "yes" | "no"), "{line}");
    (query, record, verdict == "yes")
}

#[test]
fn every_example_of_the_reference_page_holds() {
    let examples = examples();
    assert!(examples.len() > 150, "only {} examples were found", examples.len());
    for (query, record, want) in examples {
        let expr = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let record = SampleRecord::from_json(record).unwrap_or_else(|e| panic!("{record}: {e}"));
        let mut compiled = Compiled::new(&expr).unwrap();
        for record in [&record, &record.escaped()] {
            assert_eq!(naive::matches(&expr, record), want, "{query} on {record:?}");
            assert_eq!(compiled.matches(record), want, "{query} compiled, on {record:?}");
        }
        let normal = expr.normalized();
        assert_eq!(naive::matches(&normal, &record), want, "{query} normalized to {normal}");
        assert_eq!(parse(&expr.to_string()).as_ref(), Ok(&expr), "{query} printed as {expr}");
    }
}

#[test]
fn reference_page_lists_every_reserved_key() {
    for key in Reserved::ALL {
        assert!(PAGE.contains(&format!("`{}`", key.name())), "{}", key.name());
    }
}
