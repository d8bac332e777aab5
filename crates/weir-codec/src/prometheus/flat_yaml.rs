//! The subset of YAML that files of scrape targets use: a map of strings, and maps of strings
//! within it, in block or flow style, with comments and quotes.
//!
//! Invariants: anything outside this subset is either [`FlatYaml::Other`], which the caller ignores
//! for keys that it does not know, or an error, and is never misread; hostile text is an error,
//! never a panic.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlatYaml {
    /// A scalar, as text.
    Text(String),
    /// A map of scalars.
    Map(Vec<(String, String)>),
    /// Nothing: `null`, `~`, or no value.
    Null,
    /// A list, a deeper map or a multi-line string.
    Other,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FlatYamlError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl FlatYaml {
    /// Reads a file, as its keys with their values in order.
    ///
    /// # Errors
    /// If it is not a map, or a quoted key or value is not terminated.
    pub fn parse(text: &str) -> Result<Vec<(String, Self)>, FlatYamlError> {
        let mut entries: Vec<(String, Self)> = Vec::new();
        let mut inner_indent = None;
        for (number, line) in text.lines().enumerate() {
            let error = |problem| FlatYamlError { line: number + 1, problem };
            let line = without_comment(line).trim_end();
            let trimmed = line.trim_start_matches(' ');
            let indent = line.len() - trimmed.len();
            if trimmed.is_empty() || matches!(line, "---" | "...") {
                continue;
            }
            if trimmed.starts_with('\t') {
                return Err(error("indented with a tab"));
            }
            if indent == 0 && !trimmed.starts_with("- ") && trimmed != "-" {
                let (key, value) = entry(trimmed).map_err(error)?;
                entries.push((key, Self::of(value).map_err(error)?));
                inner_indent = None;
                continue;
            }
            let Some((_, outer)) = entries.last_mut() else {
                return Err(error("expected a key"));
            };
            let is_first = inner_indent.is_none();
            let is_level = *inner_indent.get_or_insert(indent) == indent;
            let inner = if is_level { entry(trimmed).and_then(inner_text) } else { Ok(None) };
            match (inner, &mut *outer) {
                (Ok(Some((key, text))), Self::Map(map)) => map.push((key, text)),
                (Ok(Some(pair)), Self::Null) if is_first => *outer = Self::Map(vec![pair]),
                // A list, or a block of text.
                (Ok(_) | Err(_), _) => *outer = Self::Other,
            }
        }
        Ok(entries)
    }

    fn of(value: &str) -> Result<Self, &'static str> {
        if let Some(inside) = value.strip_prefix('{') {
            return flow_map(inside);
        }
        if value.starts_with(['[', '|', '>', '&', '*', '!']) {
            return Ok(Self::Other);
        }
        Ok(scalar(value)?.map_or(Self::Null, Self::Text))
    }
}

/// The string of an entry in a block; `None` if the value is not a string.
fn inner_text((key, value): (String, &str)) -> Result<Option<(String, String)>, &'static str> {
    if value.starts_with(['{', '[', '|', '>', '&', '*', '!']) {
        return Ok(None);
    }
    Ok(Some((key, scalar(value)?.unwrap_or_default())))
}

/// Removes a comment, which starts outside quotes and after a blank.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, b' ');
    for (at, byte) in line.bytes().enumerate() {
        match (quote, byte) {
            (None, b'#') if matches!(before, b' ' | b'\t') => {
                return line.get(..at).unwrap_or(line);
            }
            (None, b'"' | b'\'') if matches!(before, b' ' | b'{' | b',' | b':' | b'\t') => {
                quote = Some(byte);
            }
            (Some(open), close) if open == close && before != b'\\' => quote = None,
            (_, _) => {}
        }
        before = byte;
    }
    line
}

/// Splits `key: value`.
fn entry(line: &str) -> Result<(String, &str), &'static str> {
    const NO_KEY: &str = "expected key: value";
    let (key, rest) = if line.starts_with(['"', '\'']) {
        let (key, rest) = quoted(line)?;
        (key, rest.trim_start().strip_prefix(':').ok_or(NO_KEY)?)
    } else if let Some((key, rest)) = line.split_once(": ") {
        (key.trim_end().to_owned(), rest)
    } else {
        (line.strip_suffix(':').ok_or(NO_KEY)?.to_owned(), "")
    };
    if key.is_empty() || !(rest.is_empty() || rest.starts_with(' ') || !rest.starts_with(':')) {
        return Err(NO_KEY);
    }
    Ok((key, rest.trim()))
}

/// Reads a scalar; `None` if it is null.
fn scalar(value: &str) -> Result<Option<String>, &'static str> {
    if value.starts_with(['"', '\'']) {
        let (text, rest) = quoted(value)?;
        if !rest.trim().is_empty() {
            return Err("unexpected data after a quoted string");
        }
        return Ok(Some(text));
    }
    Ok(match value {
        "" | "~" | "null" | "Null" | "NULL" => None,
        plain => Some(plain.to_owned()),
    })
}

/// Reads a quoted string; also returns the text after it.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    const OPEN: &str = "unterminated quoted string";
    let mut chars = text.chars();
    let quote = chars.next().ok_or(OPEN)?;
    let mut value = String::new();
    loop {
        match chars.next().ok_or(OPEN)? {
            '\'' if quote == '\'' && chars.as_str().starts_with('\'') => {
                value.push('\'');
                chars.next();
            }
            '\\' if quote == '"' => value.push(match chars.next().ok_or(OPEN)? {
                'n' => '\n',
                't' => '\t',
                escaped @ ('"' | '\\' | '/' | ' ') => escaped,
                _ => return Err("unknown escape in a quoted string"),
            }),
            end if end == quote => return Ok((value, chars.as_str())),
            other => value.push(other),
        }
    }
}

/// Reads a map in braces, after the opening brace.
fn flow_map(mut rest: &str) -> Result<FlatYaml, &'static str> {
    const OPEN: &str = "unterminated map";
    let mut map = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return if after.trim().is_empty() {
                Ok(FlatYaml::Map(map))
            } else {
                Err("unexpected data after a map")
            };
        }
        let key;
        (key, rest) = flow_text(rest, &[':'])?;
        rest = rest.trim_start().strip_prefix(':').ok_or(OPEN)?.trim_start();
        if rest.starts_with(['{', '[']) {
            return Ok(FlatYaml::Other);
        }
        let value;
        (value, rest) = flow_text(rest, &[',', '}'])?;
        map.push((key, value));
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err(OPEN),
        }
    }
}

/// Reads a string of a map in braces, up to one of these characters.
fn flow_text<'t>(text: &'t str, ends: &[char]) -> Result<(String, &'t str), &'static str> {
    if text.starts_with(['"', '\'']) {
        return quoted(text);
    }
    let at = text.find(ends).ok_or("unterminated map")?;
    let (plain, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    Ok((plain.trim().to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> FlatYaml {
        FlatYaml::Map(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn a_file_of_a_target_is_read() {
        let file = "---\n# A target.\nport: 6061 # on localhost\nsource_id: \"my-job\"\n\
                    instance_id: 'it''s'\nscheme: https\npath:\nheaders:\n  \"Authorization\": \"a #b\"\n\
                    \n  X-Other: c:d\nlabels: {bosh_job: cell, \"a,b\": 'c}', empty: }\n\
                    list:\n- 1\n- two\nmore:\n  deep:\n    deeper: 1\nblock: |\n  text\nend: null\n";
        let entries = FlatYaml::parse(file).unwrap();
        let of = |key: &str| entries.iter().find(|(name, _)| name == key).unwrap().1.clone();
        let text = |text: &str| FlatYaml::Text(text.to_owned());
        assert_eq!(of("port"), text("6061"));
        assert_eq!(of("source_id"), text("my-job"));
        assert_eq!(of("instance_id"), text("it's"));
        assert_eq!(of("path"), FlatYaml::Null);
        assert_eq!(of("headers"), texts(&[("Authorization", "a #b"), ("X-Other", "c:d")]));
        assert_eq!(of("labels"), texts(&[("bosh_job", "cell"), ("a,b", "c}"), ("empty", "")]));
        for key in ["list", "more", "block"] {
            assert_eq!(of(key), FlatYaml::Other, "{key}");
        }
        assert_eq!(of("end"), FlatYaml::Null);
    }

    #[test]
    fn anything_outside_the_subset_is_an_error() {
        for (file, line) in [
            ("port 6061\n", 1),
            ("\n- a\n", 2),
            ("a: \"b\n", 1),
            ("a: \"b\" c\n", 1),
            ("a: {b: c\n", 1),
            ("a: {b: c} d\n", 1),
            ("a:\n\tb: c\n", 2),
            ("a: \"\\x\"\n", 1),
            ("  a: b\n", 1),
        ] {
            assert_eq!(FlatYaml::parse(file).unwrap_err().line, line, "{file}");
        }
        assert_eq!(FlatYaml::parse("").unwrap(), []);
    }
}
