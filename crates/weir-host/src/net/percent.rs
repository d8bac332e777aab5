//! Text as part of a URL (RFC 3986, section 2.1).

use std::fmt::Write as _;

/// The text with every byte escaped that may mean something in the query of a URL.
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _written = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_part_of_a_url() {
        assert_eq!(percent_encoded("a:\"b c\" é&+"), "a%3A%22b%20c%22%20%C3%A9%26%2B");
    }
}
