//! The formats of stack traces, language by language.
//!
//! Invariants: a line that is not part of a stack trace is recognized by a look at its colons and
//! its ends; nothing here allocates. Starting lines are examined as stored in the file: they
//! contain nothing that docker escapes, except for a carriage return at the end.

use memchr::{memchr_iter, memmem};
use weir_model::RecordFlags;

use super::{MultilinePreset, State};

const JAVA: u8 = 1;
const PYTHON: u8 = 1 << 1;
const GO: u8 = 1 << 2;
const NODE: u8 = 1 << 3;
const DOTNET: u8 = 1 << 4;
const RUBY: u8 = 1 << 5;
const PHP: u8 = 1 << 6;

/// Languages that write `SomeException: text` and frames that begin with `at`.
const FRAMES: u8 = JAVA | NODE | DOTNET;

/// After the line that names the exception, or a frame.
const IN_FRAMES: State = State(2);
/// After `/app/a.js:3`, before the source line.
const NODE_SOURCE: State = State(3);
/// After the source line, before the carets under it.
const NODE_CARET: State = State(4);
/// After the carets, before the error.
const NODE_ERROR: State = State(5);
/// Like `IN_FRAMES`, in a report that may end with the version of Node.js.
const NODE_FRAMES: State = State(6);
/// After the empty line before that version.
const NODE_VERSION: State = State(7);
/// In the properties of an error, `{` to `}`.
const NODE_PROPERTIES: State = State(8);
/// After `Traceback`, or a frame.
const PYTHON_FRAMES: State = State(9);
/// After the line that names the exception.
const PYTHON_ERROR: State = State(10);
/// After an empty line that follows it, or after the line that explains the next one.
const PYTHON_CHAIN: State = State(11);
/// In a group of exceptions, which is indented completely.
const PYTHON_GROUP: State = State(12);
/// After `panic:`, before the first goroutine.
const GO_PANIC: State = State(13);
/// In the stack of a goroutine.
const GO_STACK: State = State(14);
/// After the line that names the error, or a frame.
const RUBY_FRAMES: State = State(15);
/// After `RuntimeError (text):`, before the first frame.
const RUBY_RAILS: State = State(16);
/// Anywhere in a report of PHP.
const PHP_TRACE: State = State(17);

const TRACEBACK: &[u8] = b"Traceback (most recent call last):";

/// The languages whose stack traces are joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Presets(u8);

impl Presets {
    pub(super) fn of(preset: MultilinePreset) -> Self {
        Self(match preset {
            MultilinePreset::Auto => u8::MAX,
            MultilinePreset::Java => JAVA,
            MultilinePreset::Python => PYTHON,
            MultilinePreset::Go => GO,
            MultilinePreset::Node => NODE,
            MultilinePreset::Dotnet => DOTNET,
            MultilinePreset::Ruby => RUBY,
            MultilinePreset::Php => PHP,
        })
    }

    #[inline]
    fn has(self, languages: u8) -> bool {
        self.0 & languages != 0
    }

    /// Returns the state after a line that starts a stack trace.
    #[inline]
    pub(super) fn start(self, body: &[u8], flags: RecordFlags) -> State {
        let is_escaped = flags.contains(RecordFlags::JSON_ESCAPED);
        let end: &[u8] = if is_escaped { b"\\r" } else { b"\r" };
        let line = body.strip_suffix(end).unwrap_or(body);
        let by_ends = match (line.first(), line.last()) {
            (Some(first), Some(last)) => self.start_by_ends(line, *first, *last),
            _ => return State::NONE,
        };
        if by_ends != State::NONE {
            return by_ends;
        }
        // A separate frame has at most a colon before its line number.
        memchr_iter(b':', line)
            .map(|at| line.split_at_checked(at).unwrap_or_default())
            .map(|(before, after)| self.start_at_colon(before, after))
            .find(|state| *state != State::NONE)
            .unwrap_or_default()
    }

    #[inline]
    fn start_by_ends(self, line: &[u8], first: u8, last: u8) -> State {
        match last {
            b':' if self.has(PYTHON | RUBY) && line.ends_with(TRACEBACK) => {
                let is_group =
                    line.ends_with(b"+ Exception Group Traceback (most recent call last):");
                return if is_group { PYTHON_GROUP } else { PYTHON_FRAMES };
            }
            b':' if self.has(RUBY) && line.ends_with(b"):") && is_rails_error(line) => {
                return RUBY_RAILS;
            }
            b':' if self.has(GO) && is_goroutine(line) => return GO_STACK,
            b':' if self.has(PHP) && line.ends_with(b"PHP Stack trace:") => return PHP_TRACE,
            b')' if self.has(RUBY) && is_ruby_frame(line) => return RUBY_FRAMES,
            b')' if self.has(PHP) && is_laravel_error(line) => return PHP_TRACE,
            b'0'..=b'9' if self.has(NODE) && is_source_location(line) => return NODE_SOURCE,
            b'n' | b'r' | b'e' if self.has(FRAMES) && names_exception(line) => return IN_FRAMES,
            _ => {}
        }
        match first {
            b'p' if self.has(GO) && line.starts_with(b"panic: ") => GO_PANIC,
            b'f' if self.has(GO) && line.starts_with(b"fatal error: ") => GO_PANIC,
            b'E' if self.has(FRAMES) && line.starts_with(b"Exception in thread ") => IN_FRAMES,
            _ => State::NONE,
        }
    }

    #[inline]
    fn start_at_colon(self, before: &[u8], after: &[u8]) -> State {
        match before.last() {
            Some(b'n' | b'r' | b'e') if self.has(FRAMES) && names_exception(before) => IN_FRAMES,
            Some(b'r') if self.has(PHP) && before.ends_with(b"Fatal error") => {
                let is_uncaught = after.get(1..).unwrap_or_default().trim_ascii_start();
                if is_uncaught.starts_with(b"Uncaught ") { PHP_TRACE } else { State::NONE }
            }
            Some(b']') if self.has(NODE) && names_node_code(before) => IN_FRAMES,
            Some(b'p') if self.has(GO) && before.ends_with(b"http") => {
                if after.starts_with(b": panic serving ") { GO_PANIC } else { State::NONE }
            }
            _ => State::NONE,
        }
    }

    /// Returns the state after a line that continues a stack trace.
    pub(super) fn follow(self, state: State, line: &[u8]) -> State {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = line.trim_ascii_start();
        let is_indented = text.len() < line.len();
        match state {
            IN_FRAMES | NODE_FRAMES => self.after_frame(state, text, is_indented),
            NODE_SOURCE => NODE_CARET,
            NODE_CARET if text.is_empty() || text.iter().all(|b| *b == b'^') => NODE_ERROR,
            NODE_ERROR if text.is_empty() => NODE_ERROR,
            NODE_ERROR => opened(text, NODE_FRAMES),
            NODE_VERSION if text.starts_with(b"Node.js v") => NODE_FRAMES,
            NODE_PROPERTIES if line == b"}" => NODE_FRAMES,
            NODE_PROPERTIES if is_indented && !text.is_empty() => NODE_PROPERTIES,
            PYTHON_FRAMES => after_python_frame(text, is_indented),
            PYTHON_ERROR if line.is_empty() => PYTHON_CHAIN,
            PYTHON_CHAIN => after_python_error(line),
            PYTHON_GROUP if is_indented && !text.is_empty() => PYTHON_GROUP,
            GO_PANIC if is_before_goroutine(line) => GO_PANIC,
            GO_PANIC | GO_STACK if is_goroutine(line) || line == b"runtime stack:" => GO_STACK,
            GO_STACK if line.is_empty() || line.starts_with(b"\t") || is_go_frame(line) => GO_STACK,
            RUBY_RAILS if text.is_empty() => RUBY_RAILS,
            RUBY_RAILS | RUBY_FRAMES if is_after_ruby_error(text, is_indented) => RUBY_FRAMES,
            PHP_TRACE if is_in_php_trace(line) => PHP_TRACE,
            _ => State::NONE,
        }
    }

    fn after_frame(self, state: State, text: &[u8], is_indented: bool) -> State {
        let is_part = match text.first() {
            Some(b'a') => is_indented && text.starts_with(b"at "),
            Some(b'C') => text.starts_with(b"Caused by:"),
            Some(b'S') => text.starts_with(b"Suppressed:"),
            Some(b'W') => text.starts_with(b"Wrapped by:"),
            Some(b'n') => text.starts_with(b"nested exception is"),
            Some(b'.') => is_frames_in_common(text),
            Some(b'-') => text.starts_with(b"---> ") || text.starts_with(b"--- End of "),
            None => return if state == NODE_FRAMES { NODE_VERSION } else { State::NONE },
            _ => false,
        };
        match is_part {
            true if self.has(NODE) => opened(text, state),
            true => state,
            false => State::NONE,
        }
    }
}

/// An error of Node.js whose line ends with a brace continues with its properties.
fn opened(text: &[u8], otherwise: State) -> State {
    if text.ends_with(b" {") { NODE_PROPERTIES } else { otherwise }
}

/// Returns true if it ends with the name of an exception class.
#[inline]
fn names_exception(text: &[u8]) -> bool {
    [&b"Exception"[..], b"Error", b"Throwable"].iter().any(|word| text.ends_with(word))
}

/// `TypeError [ERR_INVALID_ARG_TYPE]`.
fn names_node_code(text: &[u8]) -> bool {
    let open = memchr::memrchr(b'[', text).and_then(|at| text.split_at_checked(at));
    open.is_some_and(|(name, _)| name.strip_suffix(b" ").is_some_and(names_exception))
}

/// `... 23 more`, `... 12 common frames omitted`.
fn is_frames_in_common(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"... ") else { return false };
    let after = rest.trim_ascii_start();
    let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
    let tail = after.get(digits..).unwrap_or_default();
    digits > 0 && (tail.starts_with(b" more") || tail.starts_with(b" common frames omitted"))
}

/// `/app/server.js:12`, `node:internal/modules/cjs/loader:1147`.
fn is_source_location(line: &[u8]) -> bool {
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let Some(path) = line.get(..line.len() - digits).and_then(|l| l.strip_suffix(b":")) else {
        return false;
    };
    let is_rooted = path.starts_with(b"/")
        || path.starts_with(b"file://")
        || matches!(path, [drive, b':', b'\\', ..] if drive.is_ascii_alphabetic());
    let is_script = [&b".js"[..], b".mjs", b".cjs", b".ts"].iter().any(|ext| path.ends_with(ext));
    path.starts_with(b"node:") || (is_rooted && is_script)
}

fn after_python_frame(text: &[u8], is_indented: bool) -> State {
    if is_indented && !text.is_empty() {
        return PYTHON_FRAMES;
    }
    // Ruby has the same first line; its last line is not a bare name.
    let name = memchr::memchr(b':', text).map_or(text, |at| text.get(..at).unwrap_or_default());
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_') || *b >= 0x80;
    let is_name = !name.is_empty() && name.iter().all(is_part);
    if is_name || is_ruby_frame(text) { PYTHON_ERROR } else { State::NONE }
}

fn after_python_error(line: &[u8]) -> State {
    let is_link = line.starts_with(b"During handling of the above exception, another")
        || line.starts_with(b"The above exception was the direct cause of");
    if is_link || line.is_empty() {
        PYTHON_CHAIN
    } else if line == TRACEBACK {
        PYTHON_FRAMES
    } else {
        State::NONE
    }
}

/// `goroutine 1 [running]:`, `goroutine 7 [IO wait, 2 minutes]:`.
fn is_goroutine(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"goroutine ") else { return false };
    rest.first().is_some_and(u8::is_ascii_digit) && line.ends_with(b"]:")
}

fn is_before_goroutine(line: &[u8]) -> bool {
    line.is_empty()
        || line.starts_with(b"\t")
        || line.starts_with(b"[signal ")
        || line.starts_with(b"panic: ")
}

/// `main.(*T).run(0xc000012345, ...)`, `created by main.main in goroutine 1`.
fn is_go_frame(line: &[u8]) -> bool {
    if line.starts_with(b"created by ") || line == b"...additional frames elided..." {
        return true;
    }
    let Some((name, _)) = memchr::memchr(b'(', line).and_then(|at| line.split_at_checked(at))
    else {
        return false;
    };
    let is_qualified = name == b"panic" || name.contains(&b'.');
    is_qualified && line.ends_with(b")") && !name.contains(&b' ')
}

/// Returns true if the line contains ``/app/a.rb:10:in `b'``.
fn is_ruby_frame(line: &[u8]) -> bool {
    let Some(at) = memmem::find(line, b".rb:") else { return false };
    let rest = line.get(at + 4..).unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let tail = rest.get(digits..).unwrap_or_default();
    digits > 0 && (tail.starts_with(b":in `") || tail.starts_with(b":in '"))
}

/// `ZeroDivisionError (divided by 0):`.
fn is_rails_error(line: &[u8]) -> bool {
    let name = line.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_'));
    let (name, rest) = line.split_at_checked(name.count()).unwrap_or_default();
    name.first().is_some_and(u8::is_ascii_uppercase) && rest.starts_with(b" (")
}

fn is_after_ruby_error(text: &[u8], is_indented: bool) -> bool {
    let is_from = is_indented && (text.starts_with(b"from ") || text.starts_with(b"... "));
    // The line that names an error starts the next trace.
    is_from || (!text.ends_with(b")") && is_ruby_frame(text))
}

/// `... {"exception":"[object] (RuntimeException(code: 0): boom at /app/a.php:3)`.
fn is_laravel_error(line: &[u8]) -> bool {
    let Some(rest) = line.strip_suffix(b")") else { return false };
    let digits = rest.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let path = rest.get(..rest.len() - digits).unwrap_or_default();
    digits > 0 && path.ends_with(b".php:") && memmem::find(path, b"[object] (").is_some()
}

fn is_in_php_trace(line: &[u8]) -> bool {
    let is_number = |rest: &[u8], end: u8| {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && rest.get(digits) == Some(&end)
    };
    match line.first() {
        None => true,
        Some(b'#') => is_number(line.get(1..).unwrap_or_default(), b' '),
        Some(b'S') => line == b"Stack trace:",
        Some(b' ') => line.starts_with(b"  thrown in "),
        Some(b'N') => line.starts_with(b"Next "),
        Some(b'"') => line.starts_with(b"\"}"),
        Some(b'[') if line == b"[stacktrace]" => true,
        Some(b'[') if line.starts_with(b"[previous exception] ") => true,
        // Written to a log: `PHP   1. {main}() /app/a.php:0`, `PHP Stack trace:`.
        _ => memmem::find(line, b"PHP ").is_some_and(|at| {
            let rest = line.get(at + 4..).unwrap_or_default().trim_ascii_start();
            rest == b"Stack trace:" || is_number(rest, b'.')
        }),
    }
}
