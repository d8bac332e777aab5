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

/// Like [`percent_encoded`], as one segment of a path, whatever the text is.
pub fn path_segment(text: &str) -> String {
    percent_encoded(text).replace('/', "%2F")
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

/// Like [`form_decoded`], but an invalid escape, of at most three characters, is the error.
pub fn form_decoded_strictly(text: &str) -> Result<Vec<u8>, String> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let is_valid = |after: &[u8]| is_digit(after.first()) && is_digit(after.get(1));
    for (at, _) in text.match_indices('%') {
        if !is_valid(text.as_bytes().get(at + 1..).unwrap_or_default()) {
            return Err(text[at..].chars().take(3).collect());
        }
    }
    Ok(form_decoded(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_round_trips() {
        assert_eq!(path_segment("../a b\u{1b}"), "..%2Fa%20b%1B");
        assert_eq!(form_decoded("env%3aprod%2Cteam:a+b%20c"), b"env:prod,team:a b c");
        assert_eq!(form_decoded("100%, %4 %zz%"), b"100%, %4 %zz%");
        for (text, escape) in [("a%", "%"), ("%4", "%4"), ("%41%4é+", "%4é"), ("%zz9", "%zz")] {
            assert_eq!(form_decoded_strictly(text), Err(escape.to_owned()));
        }
        assert_eq!(form_decoded_strictly("%41+%c3%A9"), Ok("A é".into()));
        let text = "a:\"b c\" é&+/~";
        assert_eq!(form_decoded(&percent_encoded(text)), text.as_bytes());
    }

    #[test]
    fn a_query_becomes_part_of_a_url() {
        assert_eq!(percent_encoded("a:\"b c\" é&+"), "a%3A%22b%20c%22%20%C3%A9%26%2B");
    }
}
