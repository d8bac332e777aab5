//! logfmt to attributes.

use super::{Attributes, Scalar, Stated};
use crate::{Format, structured};
use weir_model::unescape_json;

/// Adds every pair of a line; a key without a value is true. Words between pairs are skipped, but
/// there must be at least one pair.
pub(super) fn read(line: &[u8], attributes: &mut Attributes) -> Option<Stated> {
    let mut rest = line.trim_ascii_start();
    let mut pairs = 0;
    while let Some((key, value, after)) = structured::next_pair(rest) {
        let quoted = rest.get(key.len() + 1) == Some(&b'"');
        match value {
            Some(value) => {
                pairs += 1;
                if quoted {
                    attributes.add(key, Scalar::Text(&unescape_json(value)));
                } else {
                    attributes.add(key, Scalar::of_word(value));
                }
            }
            None => attributes.add(key, Scalar::Bool(true)),
        }
        rest = after.trim_ascii_start();
    }
    (pairs > 0).then(|| structured::look(Format::Logfmt, line).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_typed_attributes() {
        let mut attributes = Attributes::new();
        let line = br#"level=warn msg="slow \"query\"" took=12.5 rows=3 cached id=007 empty="#;
        let stated = attributes.read_logfmt(line).unwrap();
        assert_eq!(stated.severity, weir_model::Severity::WARN);
        let found: Vec<_> = attributes.iter().collect();
        let want: [(&[u8], Scalar<'_>); 7] = [
            (b"level", Scalar::Text(b"warn")),
            (b"msg", Scalar::Text(br#"slow "query""#)),
            (b"took", Scalar::Float(12.5)),
            (b"rows", Scalar::Int(3)),
            (b"cached", Scalar::Bool(true)),
            (b"id", Scalar::Text(b"007")),
            (b"empty", Scalar::Text(b"")),
        ];
        assert_eq!(found, want);
    }
}
