//! The format of a line in a file, as written by docker, the container runtime interface and plain
//! programs.

use std::io::Write as _;

use super::LineFormat;

/// Length at which docker and containerd split long lines, bytes.
pub const PARTIAL_BYTES: usize = 16 * 1024;

/// An output stream of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Std {
    Out,
    Err,
}

impl Std {
    fn text(self) -> &'static str {
        match self {
            Self::Out => "stdout",
            Self::Err => "stderr",
        }
    }
}

/// Appends one complete line, with its line end.
pub(crate) fn whole(format: LineFormat, std: Std, body: &[u8], unix_ns: i64, out: &mut Vec<u8>) {
    match format {
        LineFormat::Raw => {
            out.extend_from_slice(body);
            out.push(b'\n');
        }
        LineFormat::Json => json(body, unix_ns, out),
        LineFormat::Docker => docker(std, body, true, unix_ns, out),
        LineFormat::Cri => cri(std, body, true, unix_ns, out),
    }
}

/// Appends one part of a line that docker or the container runtime had to split.
pub(crate) fn part(
    format: LineFormat,
    std: Std,
    body: &[u8],
    last: bool,
    unix_ns: i64,
    out: &mut Vec<u8>,
) {
    match format {
        LineFormat::Docker => docker(std, body, last, unix_ns, out),
        LineFormat::Cri => cri(std, body, last, unix_ns, out),
        LineFormat::Raw | LineFormat::Json => whole(format, std, body, unix_ns, out),
    }
}

/// Returns the length of the first part of a body: at most [`PARTIAL_BYTES`]. docker encodes each
/// part separately and would damage a character that it splits; here it is kept intact, so that the
/// received text can be compared.
pub(crate) fn part_len(format: LineFormat, body: &[u8]) -> usize {
    let mut len = body.len().min(PARTIAL_BYTES);
    if format == LineFormat::Docker && len < body.len() {
        while len > 1 && body[len] & 0xc0 == 0x80 {
            len -= 1;
        }
    }
    len
}

fn docker(std: Std, body: &[u8], last: bool, unix_ns: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"log\":\"");
    escape(body, out);
    out.extend_from_slice(if last { b"\\n\",\"stream\":\"" } else { b"\",\"stream\":\"" });
    out.extend_from_slice(std.text().as_bytes());
    out.extend_from_slice(b"\",\"time\":\"");
    timestamp(unix_ns, out);
    out.extend_from_slice(b"\"}\n");
}

fn cri(std: Std, body: &[u8], last: bool, unix_ns: i64, out: &mut Vec<u8>) {
    timestamp(unix_ns, out);
    out.push(b' ');
    out.extend_from_slice(std.text().as_bytes());
    out.extend_from_slice(if last { b" F " } else { b" P " });
    out.extend_from_slice(body);
    out.push(b'\n');
}

fn json(body: &[u8], unix_ns: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    timestamp(unix_ns, out);
    out.extend_from_slice(b"\",\"level\":\"info\",\"message\":\"");
    escape(body, out);
    out.extend_from_slice(b"\"}\n");
}

/// Escapes like Go's encoder (docker's): also `<`, `>`, `&`, U+2028 and U+2029; each invalid byte
/// becomes `\ufffd`.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        escape_text(chunk.valid(), out);
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
}

fn escape_text(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, byte) in bytes.iter().enumerate() {
        // U+2028 and U+2029 are E2 80 A8 and E2 80 A9.
        let separator = *byte == 0xe2 && matches!(bytes[at..], [_, 0x80, 0xa8 | 0xa9, ..]);
        if !separator && !matches!(byte, 0..=0x1f | b'"' | b'\\' | b'<' | b'>' | b'&') {
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        done = at + if separator { 3 } else { 1 };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let code = if separator {
                    0x2000 | u32::from(bytes[at + 2] & 0x3f)
                } else {
                    u32::from(*byte)
                };
                // Writing to a vector cannot fail.
                let _infallible = write!(out, "\\u{code:04x}");
            }
        }
    }
    out.extend_from_slice(&bytes[done..]);
}

/// Appends RFC 3339 with nine decimals, UTC.
fn timestamp(unix_ns: i64, out: &mut Vec<u8>) {
    let (seconds, nanos) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = weir_codec::civil_from_days(days);
    let _infallible = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{nanos:09}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
}

/// Returns `YYYYMMDD-HHMMSS`, the suffix that kubelet gives to a rotated file.
pub(crate) fn kubelet_suffix(unix_seconds: i64) -> String {
    let (days, second) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    let (year, month, day) = weir_codec::civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: i64 = 1_795_288_556_638_545_000;

    fn encoded(format: LineFormat, body: &[u8]) -> String {
        let mut out = Vec::new();
        whole(format, Std::Out, body, NS, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn docker_lines_are_escaped_as_docker_does() {
        assert_eq!(
            encoded(LineFormat::Docker, b"a<b>&\x01\xff \"q\" \\ \xe2\x80\xa8 end"),
            "{\"log\":\"a\\u003cb\\u003e\\u0026\\u0001\\ufffd \\\"q\\\" \\\\ \\u2028 end\\n\",\
             \"stream\":\"stdout\",\"time\":\"2026-11-21T19:15:56.638545000Z\"}\n"
        );
    }

    #[test]
    fn cri_lines_carry_the_bytes_as_they_are() {
        assert_eq!(
            encoded(LineFormat::Cri, b"a \"b\""),
            "2026-11-21T19:15:56.638545000Z stdout F a \"b\"\n"
        );
    }

    #[test]
    fn dates_are_right_at_the_edges() {
        assert_eq!(kubelet_suffix(0), "19700101-000000");
        assert_eq!(kubelet_suffix(951_782_400), "20000229-000000");
        assert_eq!(kubelet_suffix(4_107_542_399), "21000228-235959");
        assert_eq!(kubelet_suffix(4_107_542_400), "21000301-000000");
    }

    #[test]
    fn docker_parts_never_cut_a_character() {
        let body = "é".repeat(PARTIAL_BYTES);
        let body = &body.as_bytes()[1..];
        let len = part_len(LineFormat::Docker, body);
        assert_eq!(len, PARTIAL_BYTES - 1);
        assert_eq!(part_len(LineFormat::Cri, body), PARTIAL_BYTES);
    }
}
