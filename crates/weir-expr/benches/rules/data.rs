//! Realistic records and rules: both consist of the same words, so that what a rule searches for is
//! rare but its parts are everywhere.

/// A small random number generator; the same seed gives the same run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    pub(crate) fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            list.swap(index, self.below(index + 1));
        }
    }
}

const VERBS: [&str; 24] = [
    "received",
    "processed",
    "rejected",
    "accepted",
    "failed",
    "started",
    "stopped",
    "retried",
    "opened",
    "closed",
    "allocated",
    "released",
    "expired",
    "committed",
    "aborted",
    "scheduled",
    "authenticated",
    "resolved",
    "flushed",
    "synchronized",
    "replicated",
    "throttled",
    "evicted",
    "connected",
];
const NOUNS: [&str; 32] = [
    "request",
    "connection",
    "session",
    "transaction",
    "user",
    "message",
    "queue",
    "worker",
    "buffer",
    "cache",
    "partition",
    "replica",
    "checkpoint",
    "payment",
    "order",
    "invoice",
    "certificate",
    "token",
    "socket",
    "thread",
    "container",
    "volume",
    "snapshot",
    "segment",
    "index",
    "document",
    "upload",
    "download",
    "migration",
    "schema",
    "listener",
    "upstream",
];
const REASONS: [&str; 16] = [
    "timeout",
    "permission denied",
    "no such file",
    "out of memory",
    "connection refused",
    "broken pipe",
    "invalid argument",
    "quota exceeded",
    "not found",
    "already exists",
    "temporarily unavailable",
    "too many requests",
    "bad gateway",
    "checksum mismatch",
    "protocol error",
    "connection reset by peer",
];
const LEVELS: [&str; 6] = ["INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"];
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// Length of a record's message in bytes.
pub(crate) const MESSAGE_BYTES: usize = 200;

/// Returns a message of 200 bytes.
pub(crate) fn message(random: &mut Random) -> String {
    let mut text = match random.below(4) {
        0 => access(random),
        1 => java(random),
        2 => logfmt(random),
        _ => daemon(random),
    };
    while text.len() < MESSAGE_BYTES {
        let (noun, value) = (random.pick(&NOUNS), random.below(100_000));
        text.extend([" ", noun, "_id=", &value.to_string()]);
    }
    text.truncate(MESSAGE_BYTES);
    text
}

fn time(random: &mut Random) -> String {
    let (h, m, s, ms) = (random.below(24), random.below(60), random.below(60), random.below(1000));
    format!("2026-03-14T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

fn access(random: &mut Random) -> String {
    let (a, b) = (random.below(256), random.below(256));
    let (method, noun, id) = (random.pick(&METHODS), random.pick(&NOUNS), random.below(10_000));
    let status = [200, 200, 200, 301, 404, 500][random.below(6)];
    let (bytes, ms) = (random.below(50_000), random.below(2_000));
    format!(
        "10.0.{a}.{b} - - [14/Mar/2026:10:11:12 +0000] \"{method} /api/v1/{noun}s/{id} HTTP/1.1\" \
         {status} {bytes} \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\" took {ms}ms"
    )
}

fn java(random: &mut Random) -> String {
    let (time, level) = (time(random), random.pick(&LEVELS));
    let (noun, verb, other) = (random.pick(&NOUNS), random.pick(&VERBS), random.pick(&NOUNS));
    let (thread, id) = (random.below(64), random.below(100_000));
    let reason = random.pick(&REASONS);
    format!(
        "{time} {level} [http-nio-8080-exec-{thread}] com.example.shop.{noun}.Service - {verb} \
         {other} {id} for {noun}: {reason}"
    )
}

fn logfmt(random: &mut Random) -> String {
    let (time, level) = (time(random), random.pick(&LEVELS).to_lowercase());
    let (noun, verb, user) = (random.pick(&NOUNS), random.pick(&VERBS), random.below(5_000));
    let ms = random.below(3_000);
    format!(
        "time={time} level={level} msg=\"{noun} {verb}\" user=u{user} duration={ms}ms \
         component={noun}-manager caller=server/{noun}.go:{}",
        random.below(900)
    )
}

fn daemon(random: &mut Random) -> String {
    let (pid, port) = (random.below(32_768), random.below(65_536));
    let (noun, verb, reason) = (random.pick(&NOUNS), random.pick(&VERBS), random.pick(&REASONS));
    format!(
        "Mar 14 10:11:12 host-{} {noun}d[{pid}]: {verb} {noun} from 192.168.1.{} port {port}: \
         {reason}",
        random.below(40),
        random.below(256)
    )
}

/// Returns a service, one of 200; few of them are busy.
pub(crate) fn service(random: &mut Random) -> String {
    let spread = random.below(200);
    format!("svc-{}", spread * random.below(200) / 200)
}

/// Returns a sentence that hardly any record contains, of words that many contain.
fn rare(random: &mut Random) -> String {
    let (verb, noun, other) = (random.pick(&VERBS), random.pick(&NOUNS), random.pick(&NOUNS));
    match random.below(4) {
        0 => format!(r"{noun} {other} {verb} after \d+ attempts"),
        1 => format!(r"E{}: {noun} \S+ {verb}", 1000 + random.below(9000)),
        2 => format!(r"{verb} {noun} of {other} [0-9a-f]+"),
        _ => format!(r"unexpected {noun} in {other} state (\w+)"),
    }
}

/// Returns a pattern that hardly any record matches, of text that many contain.
fn common(random: &mut Random) -> String {
    let (verb, noun, reason) = (random.pick(&VERBS), random.pick(&NOUNS), random.pick(&REASONS));
    match random.below(5) {
        0 => format!(r"level=error.*{noun}_id=9999\d"),
        1 => format!(r"took [3-9]\d{{3}}ms.*{noun}"),
        2 => format!(r"HTTP/1\.1. 5\d\d .*{noun}s"),
        3 => format!(r"_id=\d+ .*{verb} by {noun}"),
        _ => format!(r"port \d+: {reason} \({noun}\)"),
    }
}

/// Returns a pattern without a required literal.
fn without_literal(random: &mut Random) -> String {
    let n = random.below(90) + 10;
    match random.below(5) {
        0 => format!(r"\b{n}\d{{4}}[a-f]{{3}}\b"),
        1 => format!(r"^\S+ \S+ [A-Z]{{2}}{n} "),
        2 => format!(r"[45]\d\d \d{{6}}{n}"),
        3 => format!(r"(?:\d{{1,3}}\.){{3}}{n}:\d+"),
        _ => format!(r"[A-Z]{{4}}-{n}\d*"),
    }
}

/// Returns `rules-simple`: nine in ten are a regexp with a rare literal, the rest match by service;
/// the busiest is the last.
pub(crate) fn simple(count: usize) -> Vec<String> {
    let mut random = Random::new(7);
    let mut rules: Vec<String> = (0..count)
        .map(|index| match index % 10 {
            9 => format!("service:svc-{}", index / 10 % 200),
            _ => format!("/{}/", rare(&mut random)),
        })
        .collect();
    rules.reverse();
    rules
}

/// Returns `rules-real`: of a hundred rules, thirty ignore case, ten have no literal, ten have a
/// literal that many records contain, and twenty test fields; one in ten matches something.
pub(crate) fn real(count: usize) -> Vec<String> {
    let mut random = Random::new(11);
    (0..count)
        .map(|index| match index % 20 {
            0..=5 => format!("/{}/i", rare(&mut random)),
            6 | 7 => format!("/{}/", without_literal(&mut random)),
            8 | 9 => format!("/{}/", common(&mut random).replace('/', "\\/")),
            10..=13 => on_field(index, &mut random),
            14 | 15 => format!("\"{} {}\"", random.pick(&NOUNS), random.pick(&VERBS)),
            _ => format!("/{}/", rare(&mut random)),
        })
        .collect()
}

fn on_field(index: usize, random: &mut Random) -> String {
    let service = random.below(200);
    match index % 4 {
        0 => format!("service:svc-{service}"),
        1 => format!("service:svc-{service} /{}/", rare(random)),
        2 => format!("status:error service:(svc-{service} OR svc-{})", random.below(200)),
        _ => format!("env:prod -service:svc-{service} \"{} lost\"", random.pick(&NOUNS)),
    }
}
