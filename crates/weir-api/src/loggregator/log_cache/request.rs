//! Requests over HTTP: what the path and the parameters of a URL ask for.
//!
//! Invariant: as in the original, parameters have the names of the fields of a message, in both
//! spellings; unknown ones are ignored, and of those that may occur once, the last counts.

use weir_codec::{LogCacheKind, LogCacheRead, form_decoded};

use super::super::query::path_decoded;

/// What is wrong with a parameter: the text of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidParameter(pub(super) String);

/// Returns name and value of the parameters of a URL.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    let text = |text: &str| String::from_utf8_lossy(&form_decoded(text)).into_owned();
    query.split('&').filter(|part| !part.is_empty()).map(move |part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (text(name), text(value))
    })
}

/// Reads a request for envelopes of a source, which is a part of the path.
pub(super) fn read(source_id: &str, query: &str) -> Result<LogCacheRead, InvalidParameter> {
    let mut read = LogCacheRead { source_id: path_decoded(source_id), ..LogCacheRead::default() };
    for (name, value) in parameters(query) {
        match name.as_str() {
            "start_time" | "startTime" => read.start_ns = number(&name, &value)?,
            "end_time" | "endTime" => read.end_ns = number(&name, &value)?,
            "limit" => read.limit = number(&name, &value)?,
            "descending" => read.is_descending = truth(&name, &value)?,
            "name_filter" | "nameFilter" => read.name_filter = value,
            "envelope_types" | "envelopeTypes" => {
                let kind = LogCacheKind::from_text(&value);
                let invalid = || invalid(&name, &format!("\"{value}\" is not a valid value"));
                read.kinds.push(Some(kind.ok_or_else(invalid)?));
            }
            _ => {}
        }
    }
    Ok(read)
}

fn invalid(name: &str, what: &str) -> InvalidParameter {
    InvalidParameter(format!("parsing field \"{name}\": {what}"))
}

fn number(name: &str, value: &str) -> Result<i64, InvalidParameter> {
    value.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let what = match error.kind() {
            NegOverflow | PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        invalid(name, &format!("strconv.ParseInt: parsing \"{value}\": {what}"))
    })
}

fn truth(name: &str, value: &str) -> Result<bool, InvalidParameter> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => {
            let what = format!("strconv.ParseBool: parsing \"{value}\": invalid syntax");
            Err(invalid(name, &what))
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_model::RecordKind;

    use super::*;

    #[test]
    fn every_parameter_is_read() {
        let query = "start_time=-62135596800000000000&";
        let error = read("app", query).unwrap_err();
        assert!(error.0.ends_with("value out of range"), "{error:?}");
        let query = "start_time=-6795364578871345152&endTime=9&limit=7&descending=true&other=1\
                     &envelope_types=LOG&envelope_types=ANY&name_filter=%5Ecpu.%2B%24";
        let expected = LogCacheRead {
            source_id: "a b+c/d".to_owned(),
            start_ns: -6_795_364_578_871_345_152,
            end_ns: 9,
            limit: 7,
            kinds: vec![Some(LogCacheKind::Only(RecordKind::Log)), Some(LogCacheKind::Any)],
            is_descending: true,
            name_filter: "^cpu.+$".to_owned(),
        };
        assert_eq!(read("a%20b+c%2Fd", query), Ok(expected));
        for (query, what) in [
            ("limit=x", "parsing field \"limit\": strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("descending=yes", "strconv.ParseBool"),
            ("envelope_types=LOGS", "\"LOGS\" is not a valid value"),
        ] {
            let error = read("app", query).unwrap_err();
            assert!(error.0.contains(what), "{error:?}");
        }
    }
}
