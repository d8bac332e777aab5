//! Names of parameters of the API as options of the command line.
//!
//! Invariant: an error about a parameter names the option that sets it.

use serde_json::Value;

/// The title of a problem, which begins with the name of its parameter if the problem is about one.
/// A parameter without an option keeps its name.
pub(super) fn with_option(title: &str, problem: &Value) -> String {
    let parameter = problem["parameter"].as_str().unwrap_or_default();
    let rest = title.strip_prefix(parameter).and_then(|rest| rest.strip_prefix(": "));
    match (option(parameter), rest) {
        (Some(option), Some(rest)) => format!("{option}: {rest}"),
        _ => title.to_owned(),
    }
}

/// The option that sets a parameter. The names of its array or object are part of a parameter, such
/// as `compute[0].interval`.
fn option(parameter: &str) -> Option<&'static str> {
    let last = parameter.rsplit('.').next().unwrap_or(parameter);
    let first = parameter.split(['[', '.']).next().unwrap_or(parameter);
    Some(match (first, last) {
        ("from", _) | ("filter", "from" | "filter[from]") => "--from",
        ("to", _) | ("filter", "to" | "filter[to]") => "--to",
        ("limit", _) | ("page", "limit" | "page[limit]") => "--limit",
        ("timeout", _) | ("weir", "timeout") => "--timeout",
        ("calculated_fields", _) | ("weir", "calculated_fields") => "--calculate",
        ("options", "timezone") => "--timezone",
        ("compute", "interval") => "--interval",
        ("compute", _) => "--compute",
        ("group_by", _) => "--group-by",
        ("sort", _) => "--order",
        ("columns", _) => "--columns",
        ("format", _) => "--format",
        ("max_rate", _) => "--max-rate",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_options() {
        for (parameter, want) in [
            ("filter.from", "--from: is wrong"),
            ("filter[to]", "--to: is wrong"),
            ("from", "--from: is wrong"),
            ("page.limit", "--limit: is wrong"),
            ("weir.timeout", "--timeout: is wrong"),
            ("compute[0].interval", "--interval: is wrong"),
            ("compute[1].aggregation", "--compute: is wrong"),
            ("group_by[0].facet", "--group-by: is wrong"),
            ("max_rate", "--max-rate: is wrong"),
            ("url", "url: is wrong"),
        ] {
            let title = format!("{parameter}: is wrong");
            assert_eq!(with_option(&title, &json!({ "parameter": parameter })), want);
        }
        let problem = json!({ "parameter": "from" });
        assert_eq!(with_option("from here on", &problem), "from here on");
        assert_eq!(with_option("no parameter", &json!({})), "no parameter");
    }
}
