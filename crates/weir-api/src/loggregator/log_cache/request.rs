//! Requests over HTTP, parsed from the path and the parameters of a URL.
//!
//! Invariants: as in the original, parameters have the names of the fields of a message, in both
//! spellings; unknown ones are ignored; one that occurs more often than its field has values, or
//! cannot be decoded, is an error.

use weir_codec::{LogCacheKind, LogCacheRead, PromqlInstant, PromqlRange};

use super::super::query::{pairs, path_decoded};

/// An invalid parameter: the text of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidParameter(pub(super) String);

/// The parameters of a URL, in order.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(query: &str) -> Result<Self, InvalidParameter> {
        pairs(query).collect::<Result<_, _>>().map(Self).map_err(InvalidParameter)
    }

    /// Returns the value of a field, by its name in each spelling.
    fn one(&self, names: &[&str]) -> Result<Option<&str>, InvalidParameter> {
        let mut last = None;
        for name in names {
            let values: Vec<&str> = self.all(&[name]).collect();
            if values.len() > 1 {
                let values = values.join(", ");
                let text = format!("too many values for field \"{}\": {values}", names[0]);
                return Err(InvalidParameter(text));
            }
            last = values.first().copied().or(last);
        }
        Ok(last)
    }

    /// The same for text, which is empty if it is missing.
    fn text(&self, names: &[&str]) -> Result<String, InvalidParameter> {
        Ok(self.one(names)?.unwrap_or_default().to_owned())
    }

    /// Returns the values of a field with several.
    fn all(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(|(name, _)| names.contains(&name.as_str()));
        named.map(|(_, value)| value.as_str())
    }
}

/// Reads a query at one time.
pub(super) fn instant(query: &str) -> Result<PromqlInstant, InvalidParameter> {
    let parameters = Parameters::of(query)?;
    Ok(PromqlInstant { query: parameters.text(&["query"])?, time: parameters.text(&["time"])? })
}

/// Reads a query at several times.
pub(super) fn range(query: &str) -> Result<PromqlRange, InvalidParameter> {
    let parameters = Parameters::of(query)?;
    Ok(PromqlRange {
        query: parameters.text(&["query"])?,
        start: parameters.text(&["start"])?,
        end: parameters.text(&["end"])?,
        step: parameters.text(&["step"])?,
    })
}

/// Reads a request for envelopes of a source, which is a part of the path.
pub(super) fn read(source_id: &str, query: &str) -> Result<LogCacheRead, InvalidParameter> {
    let parameters = Parameters::of(query)?;
    let number = |names: &[&str]| match parameters.one(names)? {
        Some(value) => number(names[0], value),
        None => Ok(0),
    };
    let mut read = LogCacheRead {
        source_id: path_decoded(source_id),
        start_ns: number(&["start_time", "startTime"])?,
        end_ns: number(&["end_time", "endTime"])?,
        limit: number(&["limit"])?,
        is_descending: match parameters.one(&["descending"])? {
            Some(value) => truth("descending", value)?,
            None => false,
        },
        name_filter: parameters.text(&["name_filter", "nameFilter"])?,
        kinds: Vec::new(),
    };
    for value in parameters.all(&["envelope_types", "envelopeTypes"]) {
        let kind = LogCacheKind::from_text(value).ok_or_else(|| {
            let what = format!("\"{value}\" is not a valid value");
            InvalidParameter(format!("parsing list \"envelope_types\": {what}"))
        })?;
        read.kinds.push(Some(kind));
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
            (
                "envelope_types=LOGS",
                "parsing list \"envelope_types\": \"LOGS\" is not a valid value",
            ),
            ("limit=1&limit=2", "too many values for field \"limit\": 1, 2"),
            ("startTime=1&startTime=1", "too many values for field \"start_time\": 1, 1"),
            ("limit=%zz", "invalid URL escape \"%zz\""),
            ("limit=1;descending=1", "invalid semicolon separator in query"),
        ] {
            let error = read("app", query).unwrap_err();
            assert!(error.0.contains(what), "{error:?}");
        }
        assert_eq!(read("app", "start_time=1&startTime=2").unwrap().start_ns, 2);
        let range = range("query=up&start=1&end=2&step=15s&time=9").unwrap();
        assert_eq!([range.start, range.end, range.step], ["1", "2", "15s"]);
        assert_eq!(instant("query=up").unwrap().time, "");
        assert!(instant("query=up&query=down").is_err());
    }
}
