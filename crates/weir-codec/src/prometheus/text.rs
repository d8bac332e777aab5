//! Parses lines of the text format into samples.
//!
//! Invariants: a response that [`PrometheusText::check`] has accepted is read again without an
//! error; a sample refers to the response, and only label values with escapes are copied.

use std::borrow::Cow;
use std::collections::HashMap;

use super::limits::{FAMILIES_MAX, LABELS_MAX, LINE_BYTES_MAX};
use super::number::shortest;

/// Why a response to a scrape is not in the text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PrometheusError {
    /// Number of the line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// What a sample measures, which decides the envelope that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrometheusKind {
    /// A current value, with its unit in the label `unit`.
    Gauge,
    /// The sum, or another part of a histogram or summary, as a current value.
    Part,
    /// A cumulative total.
    Counter,
    /// The cumulative number of observations up to the boundary in the label `le`.
    Bucket,
    /// The value at the quantile in the label `quantile`.
    Quantile,
}

/// Name and value of a label.
type Label<'b> = (&'b str, Cow<'b, str>);

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrometheusSample<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its labels, each name once. Boundaries and quantiles are in the shortest form.
    pub labels: &'s [(&'s str, Cow<'s, str>)],
    /// Its value.
    pub value: f64,
    /// What it measures.
    pub kind: PrometheusKind,
}

/// Type of a metric family. Every type whose samples are current values is a gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Gauge,
    Counter,
    Histogram,
    Summary,
}

/// A response to a scrape.
#[derive(Debug)]
pub struct PrometheusText<'b> {
    rest: &'b str,
    line: u64,
    families: HashMap<&'b str, Family>,
    labels: Vec<Label<'b>>,
    has_ended: bool,
}

/// A line with a sample, without its labels.
struct Sample<'b> {
    name: &'b str,
    value: f64,
    kind: PrometheusKind,
}

impl<'b> PrometheusText<'b> {
    /// Checks a whole response.
    ///
    /// # Errors
    /// If any line is not in the text format, or the response ends within a line.
    pub fn check(body: &'b [u8]) -> Result<Self, PrometheusError> {
        let rest = simdutf8::basic::from_utf8(body)
            .map_err(|_| PrometheusError { line: 0, problem: "the response is not UTF-8" })?;
        let mut text =
            Self { rest, line: 0, families: HashMap::new(), labels: Vec::new(), has_ended: false };
        while text.sample()?.is_some() {}
        // Types are read again with the samples, so that both passes know the same ones.
        Ok(Self { rest, line: 0, has_ended: false, families: HashMap::new(), ..text })
    }

    /// Returns the next sample.
    pub fn next_sample(&mut self) -> Option<PrometheusSample<'_>> {
        let Sample { name, value, kind } = self.sample().ok().flatten()?;
        Some(PrometheusSample { name, labels: &self.labels, value, kind })
    }

    fn error(&self, problem: &'static str) -> PrometheusError {
        PrometheusError { line: self.line, problem }
    }

    /// Reads up to and including the next sample, and leaves its labels in `labels`.
    fn sample(&mut self) -> Result<Option<Sample<'b>>, PrometheusError> {
        while !self.rest.is_empty() {
            self.line += 1;
            let (line, rest) = self
                .rest
                .split_once('\n')
                .ok_or(self.error("the response ends within this line"))?;
            self.rest = rest;
            if line.len() > LINE_BYTES_MAX {
                return Err(self.error("too long"));
            }
            let line = line.trim_matches(BLANKS);
            if let Some(comment) = line.strip_prefix('#') {
                self.comment(comment).map_err(|problem| self.error(problem))?;
            } else if !line.is_empty() {
                if self.has_ended {
                    return Err(self.error("unexpected data after # EOF"));
                }
                return self.read(line).map(Some).map_err(|problem| self.error(problem));
            }
        }
        Ok(None)
    }

    fn comment(&mut self, comment: &'b str) -> Result<(), &'static str> {
        let mut words = comment.split(BLANKS).filter(|word| !word.is_empty());
        match words.next() {
            Some("TYPE") => {
                let name = words.next().ok_or("TYPE without a metric name")?;
                let family = family(words.next().ok_or("TYPE without a type")?)?;
                if words.next().is_some() {
                    return Err("unexpected data after a type");
                }
                if self.families.insert(name, family).is_some_and(|known| known != family) {
                    return Err("a metric family has two types");
                }
                if self.families.len() > FAMILIES_MAX {
                    return Err("too many metric families");
                }
            }
            Some("EOF") if words.next().is_none() => self.has_ended = true,
            // HELP, UNIT and comments.
            Some(_) | None => {}
        }
        Ok(())
    }

    fn read(&mut self, line: &'b str) -> Result<Sample<'b>, &'static str> {
        let (name, rest) = split_name(line, true).ok_or("expected a metric name")?;
        self.labels.clear();
        let rest = rest.trim_start_matches(BLANKS);
        let rest = match rest.strip_prefix('{') {
            Some(labels) => self.read_labels(labels)?,
            None => rest,
        };
        let rest = rest.trim_start_matches(BLANKS);
        let (value, rest) = rest.split_once(BLANKS).unwrap_or((rest, ""));
        let value = value.parse().map_err(|_| "the value is not a number")?;
        // An exemplar is about a single event, and not part of the metric.
        let (time, exemplar) = match rest.split_once('#') {
            Some((time, exemplar)) => (time, Some(exemplar)),
            None => (rest, None),
        };
        let time = time.trim_matches(BLANKS);
        if !time.is_empty() && time.parse::<f64>().is_err() {
            return Err("the timestamp is not a number");
        }
        if exemplar.is_some_and(|text| !text.trim_start_matches(BLANKS).starts_with('{')) {
            return Err("the exemplar has no labels");
        }
        let kind = self.kind(name)?;
        Ok(Sample { name, value, kind })
    }

    /// Reads labels up to the closing brace; returns what follows it.
    fn read_labels(&mut self, mut rest: &'b str) -> Result<&'b str, &'static str> {
        loop {
            rest = rest.trim_start_matches(BLANKS);
            if let Some(rest) = rest.strip_prefix('}') {
                return Ok(rest);
            }
            let (name, after) = split_name(rest, false).ok_or("expected a label name")?;
            let after = after.trim_start_matches(BLANKS);
            let after = after.strip_prefix('=').ok_or("expected = after a label name")?;
            let after = after.trim_start_matches(BLANKS);
            let quoted = after.strip_prefix('"').ok_or("a label value is not quoted")?;
            let (value, after) = unquote(quoted)?;
            if self.labels.iter().any(|(known, _)| *known == name) || name == "__name__" {
                return Err("duplicate label");
            }
            if self.labels.len() == LABELS_MAX {
                return Err("too many labels");
            }
            self.labels.push((name, value));
            rest = after.trim_start_matches(BLANKS);
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest.starts_with('}') => {}
                None => return Err("expected , or } after a label"),
            }
        }
    }

    /// Returns what the sample whose labels were just read measures.
    fn kind(&mut self, name: &str) -> Result<PrometheusKind, &'static str> {
        let of = |suffix: &str| self.families.get(name.strip_suffix(suffix)?).copied();
        let (label, kind, problem) = match self.families.get(name) {
            Some(Family::Counter) => return Ok(PrometheusKind::Counter),
            Some(Family::Gauge) => return Ok(PrometheusKind::Gauge),
            Some(Family::Histogram) => return Ok(PrometheusKind::Part),
            Some(Family::Summary) if !self.has_label("quantile") => {
                return Ok(PrometheusKind::Part);
            }
            Some(Family::Summary) => {
                ("quantile", PrometheusKind::Quantile, "a quantile is not a number")
            }
            None if of("_bucket") == Some(Family::Histogram) => {
                ("le", PrometheusKind::Bucket, "a bucket has no valid boundary")
            }
            None if of("_total") == Some(Family::Counter) => return Ok(PrometheusKind::Counter),
            None => {
                let is_combined = |family| matches!(family, Family::Histogram | Family::Summary);
                return Ok(if of("_count").is_some_and(is_combined) {
                    PrometheusKind::Counter
                } else if of("_sum").is_some_and(is_combined) {
                    PrometheusKind::Part
                } else {
                    PrometheusKind::Gauge
                });
            }
        };
        let value = self.labels.iter_mut().find(|(name, _)| *name == label);
        let (_, text) = value.ok_or(problem)?;
        let number: f64 = text.parse().map_err(|_| problem)?;
        let shortest = shortest(number);
        if **text != *shortest {
            *text = Cow::Owned(shortest);
        }
        Ok(kind)
    }

    fn has_label(&self, name: &str) -> bool {
        self.labels.iter().any(|(label, _)| *label == name)
    }
}

const BLANKS: [char; 3] = [' ', '\t', '\r'];

fn family(name: &str) -> Result<Family, &'static str> {
    match name {
        "counter" => Ok(Family::Counter),
        "histogram" => Ok(Family::Histogram),
        "summary" => Ok(Family::Summary),
        "gauge" | "untyped" | "unknown" | "info" | "stateset" | "gaugehistogram" => {
            Ok(Family::Gauge)
        }
        _ => Err("unknown metric type"),
    }
}

/// Splits the name at the start of a text from the rest; only metric names have colons.
fn split_name(text: &str, has_colons: bool) -> Option<(&str, &str)> {
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || has_colons && *byte == b':';
    let bytes = text.as_bytes();
    let len = bytes.iter().take_while(|byte| is_part(byte)).count();
    if len == 0 || bytes.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    text.split_at_checked(len)
}

/// Reads a label value up to its closing quote; also returns the text after that.
fn unquote(quoted: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    const OPEN: &str = "unterminated label value";
    let at = memchr::memchr2(b'"', b'\\', quoted.as_bytes()).ok_or(OPEN)?;
    let (plain, mut rest) = quoted.split_at_checked(at).ok_or(OPEN)?;
    if let Some(rest) = rest.strip_prefix('"') {
        return Ok((Cow::Borrowed(plain), rest));
    }
    let mut value = plain.to_owned();
    loop {
        if let Some(after) = rest.strip_prefix('"') {
            return Ok((Cow::Owned(value), after));
        }
        let mut chars = rest.strip_prefix('\\').ok_or(OPEN)?.chars();
        value.push(match chars.next() {
            Some('n') => '\n',
            Some(escaped @ ('"' | '\\')) => escaped,
            Some(_) | None => return Err("unknown escape in a label value"),
        });
        rest = chars.as_str();
        let at = memchr::memchr2(b'"', b'\\', rest.as_bytes()).ok_or(OPEN)?;
        let (plain, after) = rest.split_at_checked(at).ok_or(OPEN)?;
        value.push_str(plain);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of an answer, as text.
    fn samples(body: &str) -> Vec<String> {
        let mut text = PrometheusText::check(body.as_bytes()).unwrap();
        let mut found = Vec::new();
        while let Some(sample) = text.next_sample() {
            let labels = sample.labels.iter().map(|(name, value)| format!("{name}={value}"));
            let labels = labels.collect::<Vec<_>>().join(",");
            found.push(format!("{:?} {} {labels} {}", sample.kind, sample.name, sample.value));
        }
        found
    }

    fn problem(body: &str) -> String {
        PrometheusText::check(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_type_of_family_is_read() {
        let body = "# HELP http_requests_total Requests.\n\
                    # TYPE http_requests_total counter\n\
                    http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
                    http_requests_total { code = \"400\" , } 3\n\
                    \n\
                    # A remark.\n\
                    untyped 12.47\n\
                    # TYPE temp gauge\n\
                    temp{unit=\"C\"} -Inf\n\
                    # TYPE d histogram\n\
                    d_bucket{le=\"0.050\"} 24054\n\
                    d_bucket{le=\"1000000\"} 24055\n\
                    d_bucket{le=\"+Inf\"} 144320\n\
                    d_sum 53423\n\
                    d_count 144320\n\
                    # TYPE rpc summary\n\
                    rpc{quantile=\"0.50\"} NaN\n\
                    rpc_sum 1.7560473e+07\n\
                    rpc_count 2693\n";
        let expected = [
            "Counter http_requests_total method=post,code=200 1027",
            "Counter http_requests_total code=400 3",
            "Gauge untyped  12.47",
            "Gauge temp unit=C -inf",
            "Bucket d_bucket le=0.05 24054",
            "Bucket d_bucket le=1e+06 24055",
            "Bucket d_bucket le=+Inf 144320",
            "Part d_sum  53423",
            "Counter d_count  144320",
            "Quantile rpc quantile=0.5 NaN",
            "Part rpc_sum  17560473",
            "Counter rpc_count  2693",
        ];
        assert_eq!(samples(body), expected);
    }

    #[test]
    fn open_metrics_additions_are_read() {
        let body = "# TYPE hits counter\n# UNIT hits requests\n# HELP hits \n\
                    hits_total{a=\"b\"} 17 1520879607.789 # {trace_id=\"a#b\"} 0.67 1520879606\n\
                    hits_created 1520430000.123\n\
                    # TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n\n";
        let expected = [
            "Counter hits_total a=b 17",
            "Gauge hits_created  1520430000.123",
            "Gauge build_info version=1 1",
        ];
        assert_eq!(samples(body), expected);
        assert_eq!(problem("a 1\n# EOF\nb 2\n"), "line 3: unexpected data after # EOF");
    }

    #[test]
    fn escapes_in_labels_are_resolved() {
        let body = r#"a{path="C:\\DIR\\",error="\"x\"\n,}",e="ü\\"} 1"#.to_owned() + "\n";
        assert_eq!(samples(&body), ["Gauge a path=C:\\DIR\\,error=\"x\"\n,},e=ü\\ 1"]);
        assert_eq!(samples("a{b=\"\"} 1\r\n\ta\t2 \n"), ["Gauge a b= 1", "Gauge a  2"]);
    }

    #[test]
    fn repeated_help_and_types_are_accepted_if_they_agree() {
        let twice = "# HELP a x\n# HELP a y\n# TYPE a counter\na 1\n# TYPE a counter\na 2\n";
        assert_eq!(samples(twice), ["Counter a  1", "Counter a  2"]);
        let differs = "# TYPE a counter\n# TYPE a gauge\n";
        assert_eq!(problem(differs), "line 2: a metric family has two types");
    }

    #[test]
    fn a_damaged_response_yields_nothing() {
        for (body, expected) in [
            ("a 1\nb 2", "line 2: the response ends within this line"),
            ("a 1\nb\n", "line 2: the value is not a number"),
            ("1a 1\n", "line 1: expected a metric name"),
            ("<html>\n", "line 1: expected a metric name"),
            ("a{b=\"c\"\n", "line 1: expected , or } after a label"),
            ("a{b=\"c} 1\n", "line 1: unterminated label value"),
            ("a{b=\"\\x\"} 1\n", "line 1: unknown escape in a label value"),
            ("a{b} 1\n", "line 1: expected = after a label name"),
            ("a{b=c} 1\n", "line 1: a label value is not quoted"),
            ("a{=\"c\"} 1\n", "line 1: expected a label name"),
            ("a{b=\"1\",b=\"2\"} 1\n", "line 1: duplicate label"),
            ("a 1 x\n", "line 1: the timestamp is not a number"),
            ("a 1 # x\n", "line 1: the exemplar has no labels"),
            ("# TYPE a thing\n", "line 1: unknown metric type"),
            ("# TYPE a\n", "line 1: TYPE without a type"),
            ("# TYPE a histogram\na_bucket 1\n", "line 2: a bucket has no valid boundary"),
            (
                "# TYPE a histogram\na_bucket{le=\"x\"} 1\n",
                "line 2: a bucket has no valid boundary",
            ),
        ] {
            assert_eq!(problem(body), expected, "{body}");
        }
        assert!(PrometheusText::check(b"a{b=\"\xff\"} 1\n").is_err());
        let long = format!("a{{b=\"{}\"}} 1\n", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(problem(&long), "line 1: too long");
        let labels: Vec<String> = (0..=LABELS_MAX).map(|n| format!("l{n}=\"\"")).collect();
        let labels = labels.join(",");
        assert_eq!(problem(&format!("a{{{labels}}} 1\n")), "line 1: too many labels");
    }
}
