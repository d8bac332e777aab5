//! Ten thousand hostile inputs each for streams, datagrams and RELP: nothing panics, memory is
//! limited, and good messages before and after are kept as far as the protocol allows.

mod hostile;

use hostile::{After, Numbers};
use weir_codec::{
    RelpServer, RelpStep, SyslogDecoder, SyslogFraming, SyslogFramingKind, SyslogOrigin,
    SyslogStep, is_json_object, syslog_datagram,
};
use weir_model::{BatchBuilder, Position, SourceBook};

const INPUTS: u64 = 10_000;
const MESSAGE_BYTES_MAX: usize = 200;
const NOW_NS: i64 = 1_795_288_351_000_000_000;
const GOOD: &[u8] = b"<34>Nov 21 19:12:31 host su[42]: good";

/// Makes records of messages, and checks each.
struct Records {
    decoder: SyslogDecoder,
    batch: BatchBuilder,
    book: SourceBook,
    good: usize,
}

impl Records {
    fn new() -> Self {
        Self {
            decoder: SyslogDecoder::new(),
            batch: BatchBuilder::new(Position::default()),
            book: SourceBook::default(),
            good: 0,
        }
    }

    /// Starts the next input, without records.
    fn clear(&mut self) {
        self.batch.reset(Position::default());
        self.book = SourceBook::default();
        self.good = 0;
    }

    fn push(&mut self, message: &[u8], is_truncated: bool) {
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        let parsed = self.decoder.parse(message, NOW_NS);
        let origin = SyslogOrigin { observed_ns: NOW_NS, is_truncated, ..SyslogOrigin::default() };
        let (batch, book) = (&mut self.batch, &mut self.book);
        self.decoder.push(batch, &parsed, &origin, book).expect("an input fits in a batch");
        assert_eq!(book.unaccounted_lines(), 0);
        assert_eq!(book.records, batch.record_count() as u64);
        let record = batch.record(batch.record_count() - 1);
        assert_eq!(record.original(), syslog_datagram(message, usize::MAX).0);
        assert!(record.original().ends_with(record.body));
        assert!(record.attributes.is_empty() || is_json_object(record.attributes));
        if message == GOOD {
            assert_eq!((record.body, record.process_id()), (b"good".as_slice(), b"42".as_slice()));
            self.good += 1;
        }
    }
}

/// The buffer of a connection: it takes a stream in pieces, and no more than there is room for.
struct Buffer<'a> {
    rest: &'a [u8],
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Buffer<'_> {
    /// Returns false at the end of the stream.
    fn fill(&mut self, numbers: &mut Numbers) -> bool {
        let room = self.bytes_max - self.bytes.len();
        assert!(room > 0, "no progress with a full buffer");
        let count = (1 + numbers.below(2 * MESSAGE_BYTES_MAX)).min(room).min(self.rest.len());
        let (piece, rest) = self.rest.split_at(count);
        self.bytes.extend_from_slice(piece);
        self.rest = rest;
        count > 0
    }
}

/// Returns true if the session ended with an error.
fn read_stream(stream: &[u8], numbers: &mut Numbers, records: &mut Records) -> bool {
    let mut framing = SyslogFraming::new(SyslogFramingKind::Detect, MESSAGE_BYTES_MAX);
    let bytes_max = framing.buffer_bytes();
    let mut buffer = Buffer { rest: stream, bytes: Vec::new(), bytes_max };
    while buffer.fill(numbers) {
        loop {
            let consumed = match framing.next(&buffer.bytes) {
                SyslogStep::Message { span, consumed, is_truncated } => {
                    records.push(&buffer.bytes[span], is_truncated);
                    consumed
                }
                SyslogStep::Skipped { consumed } => consumed,
                SyslogStep::NeedMore { consumed } => {
                    buffer.bytes.drain(..consumed);
                    break;
                }
                SyslogStep::Failed(_) => return true,
            };
            assert!(consumed > 0);
            buffer.bytes.drain(..consumed);
        }
    }
    false
}

#[test]
fn hostile_streams_do_no_harm() {
    let mut records = Records::new();
    for seed in 0..INPUTS {
        let numbers = &mut Numbers::new(seed);
        let (bytes, after) = hostile::stream(numbers, MESSAGE_BYTES_MAX);
        let counted = format!("{} ", GOOD.len());
        let stream =
            [GOOD, b"\n", &bytes, b"\n", counted.as_bytes(), GOOD, b"\n", GOOD, b"\n"].concat();
        records.clear();
        let is_failed = read_stream(&stream, numbers, &mut records);
        match after {
            After::Found => assert_eq!((is_failed, records.good), (false, 3), "seed {seed}"),
            After::Failed => assert_eq!((is_failed, records.good), (true, 1), "seed {seed}"),
            After::Unknown => assert!(records.good >= 1, "seed {seed}"),
        }
    }
}

#[test]
fn hostile_datagrams_do_no_harm() {
    let mut records = Records::new();
    for seed in 0..INPUTS {
        let numbers = &mut Numbers::new(seed);
        let hostile = match numbers.below(3) {
            0 => hostile::stream(numbers, MESSAGE_BYTES_MAX).0,
            1 => hostile::relp(numbers, MESSAGE_BYTES_MAX).0,
            _ => hostile::message(numbers, 2 * MESSAGE_BYTES_MAX),
        };
        records.clear();
        for datagram in [GOOD, &hostile, GOOD] {
            let (message, skipped) = syslog_datagram(datagram, MESSAGE_BYTES_MAX);
            records.push(message, skipped > 0);
        }
        assert_eq!((records.good, records.book.records), (2, 3), "seed {seed}");
    }
}

/// Returns true if the session ended with an error.
fn serve(stream: &[u8], numbers: &mut Numbers, records: &mut Records) -> bool {
    let mut server = RelpServer::new(MESSAGE_BYTES_MAX);
    let bytes_max = server.buffer_bytes();
    let mut buffer = Buffer { rest: stream, bytes: Vec::new(), bytes_max };
    let mut replies = Vec::new();
    while buffer.fill(numbers) {
        loop {
            let consumed = match server.next(&buffer.bytes, &mut replies) {
                RelpStep::Message { transaction, span, consumed, is_truncated } => {
                    records.push(&buffer.bytes[span], is_truncated);
                    server.acknowledge(transaction, &mut replies);
                    consumed
                }
                RelpStep::Opened { consumed }
                | RelpStep::Skipped { consumed }
                | RelpStep::Closed { consumed } => consumed,
                RelpStep::NeedMore { consumed } => {
                    buffer.bytes.drain(..consumed);
                    break;
                }
                RelpStep::Full { .. } => panic!("everything is acknowledged"),
                RelpStep::Failed(_) => return true,
            };
            assert!(consumed > 0);
            buffer.bytes.drain(..consumed);
        }
        assert!(replies.len() < 2 * stream.len() + 1000, "replies are limited by the input");
    }
    false
}

#[test]
fn hostile_sessions_of_relp_do_no_harm() {
    let mut records = Records::new();
    let offer = "relp_version=0\ncommands=syslog";
    let open = format!("1 open {} {offer}\n", offer.len());
    let good = |number| {
        let head = format!("{number} syslog {} ", GOOD.len());
        [head.as_bytes(), GOOD, b"\n"].concat()
    };
    for seed in 0..INPUTS {
        let numbers = &mut Numbers::new(seed);
        let (bytes, after) = hostile::relp(numbers, MESSAGE_BYTES_MAX);
        let stream = [open.as_bytes(), &good(2), &bytes, &good(3), &good(4)].concat();
        records.clear();
        let is_failed = serve(&stream, numbers, &mut records);
        match after {
            After::Found => assert_eq!((is_failed, records.good), (false, 3), "seed {seed}"),
            After::Failed => assert_eq!((is_failed, records.good), (true, 1), "seed {seed}"),
            After::Unknown => assert!(records.good >= 1, "seed {seed}"),
        }
    }
}
