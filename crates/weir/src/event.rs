//! Parses server-sent events (WHATWG HTML, section 9.2).
//!
//! Invariant: lines are bounded; the iterator ends when the response ends, for whatever reason.

use std::io::{BufRead, Read as _};

/// Maximum length of a line: a record and its attributes, with every byte escaped.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

/// The events of a response.
pub(crate) struct Events<R>(R);

impl<R: BufRead> Events<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self(reader)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.0.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\n")?;
        Some(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line()?;
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut event.name),
                "id" => event.id = Some(value.to_owned()),
                "data" if event.data.is_empty() => value.clone_into(&mut event.data),
                "data" => event.data = format!("{}\n{value}", event.data),
                "" if line.is_empty() && !event.data.is_empty() => return Some(event),
                // Comments, and fields of later releases.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_comments_are_not() {
        let text = ": hello\n\nid: a-1\nevent: row\ndata: {\"b\":1}\n\nevent: stat\r\ndata:x\r\ndata: y\r\n\r\ndata: cut";
        let events: Vec<Event> = Events::new(text.as_bytes()).collect();
        let event = |name: &str, id: Option<&str>, data: &str| Event {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            data: data.to_owned(),
        };
        let want = [event("row", Some("a-1"), "{\"b\":1}"), event("stat", None, "x\ny")];
        assert_eq!(events, want);
    }
}
