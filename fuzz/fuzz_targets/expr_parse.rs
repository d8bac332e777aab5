//! The expression parser: it never panics, the positions of terms and errors lie within the text,
//! and a printed expression parses to the same expression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_expr::parse;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(expr) => {
            let printed = expr.to_string();
            let again = parse(&printed);
            assert_eq!(again.as_ref(), Ok(&expr), "printed as {printed}");
            expr.for_each_term(&mut |_, span| {
                assert!(text.get(span.start..span.end).is_some());
            });
            let normal = expr.normalized();
            assert_eq!(normal.normalized(), normal);
        }
        Err(error) => {
            assert!(text.get(error.span.start..error.span.end).is_some());
            assert!(!error.to_string().is_empty());
        }
    }
});
