//! Parses server-sent events (WHATWG HTML, section 9.2).
//!
//! Invariant: lines are bounded; the iterator ends when the response ends, and returns an error
//! first if the response was cut off.

use std::io::{self, BufRead, Read as _};

use weir_host::units::approx_size;

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

    /// The next line; `None` at the end of the response, which may be within a line.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a line that is too long, and the errors of the reader.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let len = self.0.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\n") else {
            if len as u64 == LINE_BYTES_MAX {
                let size = approx_size(LINE_BYTES_MAX);
                let text = format!("a line of the response is longer than {size}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            return Ok(None);
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(String::from_utf8_lossy(line).into_owned()))
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = io::Result<Event>;

    fn next(&mut self) -> Option<io::Result<Event>> {
        let mut event = Event::default();
        loop {
            let line = match self.line() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error)),
            };
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut event.name),
                "id" => event.id = Some(value.to_owned()),
                "data" if event.data.is_empty() => value.clone_into(&mut event.data),
                "data" => event.data = format!("{}\n{value}", event.data),
                "" if line.is_empty() && !event.data.is_empty() => {
                    return Some(Ok(event));
                }
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
        let events: Vec<Event> = Events::new(text.as_bytes()).map(Result::unwrap).collect();
        let event = |name: &str, id: Option<&str>, data: &str| Event {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            data: data.to_owned(),
        };
        let want = [event("row", Some("a-1"), "{\"b\":1}"), event("stat", None, "x\ny")];
        assert_eq!(events, want);
    }

    /// A connection that was reset.
    struct Broken;

    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }

    #[test]
    fn failed_response_is_not_an_ended_one() {
        let long = "x".repeat(LINE_BYTES_MAX as usize);
        let mut events = Events::new(long.as_bytes());
        assert_eq!(events.next().unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut events = Events::new(io::BufReader::new(Broken));
        assert_eq!(events.next().unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
