//! The body of an HTTP/1.1 response, chunked or with a length (RFC 9112, sections 6 and 7).
//!
//! Invariant: reading ends successfully only at the end of the body; a connection that ends before
//! that is an error.

use std::io::{self, BufRead, Read};

use super::Headers;

/// Maximum length of a chunk-size line or a trailer.
const LINE_BYTES_MAX: u64 = 256;

/// Maximum total length of trailers.
const TRAILERS_BYTES_MAX: usize = 4096;

/// Reads a body.
#[derive(Debug)]
pub(crate) struct Chunked<R> {
    reader: R,
    /// Bytes left of the current chunk, or of the whole body.
    left: u64,
    has_chunks: bool,
    is_over: bool,
    trailers: Headers,
}

impl<R: BufRead> Chunked<R> {
    /// `content_length` as in the header; without it the body is chunked.
    pub(crate) fn new(reader: R, content_length: Option<&str>) -> Self {
        let len = content_length.and_then(|len| len.parse().ok());
        let (left, has_chunks, is_over) = (len.unwrap_or(0), len.is_none(), len == Some(0));
        Self { reader, left, has_chunks, is_over, trailers: Headers(String::new()) }
    }

    /// The trailers, once the body has been read to its end.
    pub(crate) fn trailers(&self) -> &Headers {
        &self.trailers
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
        if line.ends_with('\n') { Ok(line) } else { Err(cut()) }
    }

    /// Starts the next chunk.
    fn begin(&mut self) -> io::Result<()> {
        let line = self.line()?;
        let size = line.split(';').next().unwrap_or_default().trim();
        self.left = u64::from_str_radix(size, 16).map_err(|_| cut())?;
        if self.left == 0 {
            self.is_over = true;
            // Trailers, and the empty line after them.
            loop {
                let line = self.line()?;
                if line.trim_end().is_empty() {
                    break;
                }
                if self.trailers.0.len() + line.len() > TRAILERS_BYTES_MAX {
                    return Err(cut());
                }
                self.trailers.0.push_str(&line);
            }
        }
        Ok(())
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the response was cut off: it is incomplete")
}

impl<R: BufRead> Read for Chunked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.begin()?;
        }
        if self.is_over || buffer.is_empty() {
            return Ok(0);
        }
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.reader.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(cut());
        }
        self.left -= read as u64;
        if self.left == 0 {
            if self.has_chunks {
                self.line()?;
            } else {
                self.is_over = true;
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, len: Option<&str>) -> io::Result<String> {
        let mut body = String::new();
        Chunked::new(text.as_bytes(), len).read_to_string(&mut body).map(|_| body)
    }

    #[test]
    fn truncated_bodies_are_errors() {
        let text = "4\r\nabcd\r\nA;x=y\r\n0123456789\r\n0\r\na: b\r\n\r\n";
        assert_eq!(all(text, None).unwrap(), "abcd0123456789");
        for end in 0..text.len() {
            assert!(all(&text[..end], None).is_err(), "{end}");
        }
        let mut body = Chunked::new(text.as_bytes(), None);
        body.read_to_string(&mut String::new()).unwrap();
        assert_eq!((body.trailers().get("A"), body.trailers().get("x")), (Some("b"), None));
        assert_eq!(all("abcdef", Some("4")).unwrap(), "abcd");
        assert_eq!(all("", Some("0")).unwrap(), "");
        assert!(all("abc", Some("4")).is_err());
    }
}
