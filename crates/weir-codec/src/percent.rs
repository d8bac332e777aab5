//! Text as part of a URL (RFC 3986, section 2.1).

use std::fmt::Write as _;

/// Escapes every byte of a text that may have a special meaning in the query of a URL.
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

/// Decodes a name or value of a query: a plus becomes a space, an escape its byte, and an invalid
/// escape is kept as it is.
pub fn form_decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (byte, digit(0), digit(1)) {
            (b'+', ..) => out.push(b' '),
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_round_trips() {
        assert_eq!(form_decoded("env%3aprod%2Cteam:a+b%20c"), b"env:prod,team:a b c");
        assert_eq!(form_decoded("100%, %4 %zz%"), b"100%, %4 %zz%");
        let text = "a:\"b c\" é&+/~";
        assert_eq!(form_decoded(&percent_encoded(text)), text.as_bytes());
    }

    #[test]
    fn a_query_becomes_part_of_a_url() {
        assert_eq!(percent_encoded("a:\"b c\" é&+"), "a%3A%22b%20c%22%20%C3%A9%26%2B");
    }
}
