//! Hostile input for ports that receive syslog or RELP, generated from a seed: the same number
//! gives the same bytes on every machine.

/// A generator of numbers (`SplitMix64`).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_of<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn bytes(&mut self, max: usize) -> Vec<u8> {
        (0..self.below(max + 1)).map(|_| self.next() as u8).collect()
    }

    fn digits(&mut self, count: usize) -> String {
        (0..count)
            .map(|i| {
                char::from(
                    b'0' + (self.below(10 - usize::from(i == 0)) + usize::from(i == 0)) as u8,
                )
            })
            .collect()
    }
}

/// What can be expected after hostile bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// What follows is found again.
    Found,
    /// The session ends.
    Failed,
    /// What follows can be taken for a part of it.
    Unknown,
}

/// The beginnings of other protocols.
const OTHERS: [&[u8]; 5] = [
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\x5f\x5e\x5d\x00\x20\xc0\x2b\xc0\x2f\x00\xff",
    b"GET /metrics HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
    b"\xff\xf4\xff\xfd\x06EHLO example\r\nMAIL FROM:<a@example>\r\n",
];

/// Numbers around the limits of lengths and of their types.
const LENGTHS: [&str; 11] = [
    "0",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1844674407370955161",
    "12345678901234567890",
    "99999999999999999999",
    "00000000000000000001",
];

/// Messages, in parts that are combined and damaged.
const PARTS: [&str; 24] = [
    "<34>",
    "<192>",
    "<999>",
    "<-1>",
    "<>",
    "<13",
    "1 ",
    "2 ",
    "-",
    " ",
    "  ",
    "Oct 11 22:14:15 ",
    "Feb 30 25:61:61 ",
    "2026-11-21T19:12:31.335106+00:00 ",
    "9999-99-99T99:99:99Z ",
    "host ",
    "app[42]: ",
    "[id a=\"b\"]",
    "[id a=\"\\",
    "[[[]]]",
    "\"\\\"]",
    "%ASA-6-1: ",
    "*Mar  1 ",
    "\u{feff}",
];

/// Returns a message that no program would send; without newlines and NUL bytes, and not beginning
/// with a digit.
pub(crate) fn message(numbers: &mut Numbers, max: usize) -> Vec<u8> {
    let mut out = b"x".to_vec();
    if numbers.below(4) > 0 {
        out.clear();
        out.extend_from_slice(numbers.one_of(&["<", "<34>", "\u{feff}", "["]).as_bytes());
    }
    while out.len() < max && numbers.below(8) > 0 {
        match numbers.below(4) {
            0 => out.extend(numbers.bytes(16)),
            1 => out.extend(vec![b"[]\"\\ :-<"[numbers.below(8)]; numbers.below(40)]),
            _ => out.extend_from_slice(numbers.one_of(&PARTS).as_bytes()),
        }
    }
    out.iter_mut().filter(|b| matches!(**b, b'\n' | b'\r' | 0)).for_each(|b| *b = b'.');
    out.truncate(max);
    out
}

/// Returns hostile bytes for a stream of messages of at most `max` bytes.
pub(crate) fn stream(numbers: &mut Numbers, max: usize) -> (Vec<u8>, After) {
    match numbers.below(9) {
        // An invalid length.
        0 => {
            let length = match numbers.below(3) {
                0 => numbers.one_of(&LENGTHS[1..10]).to_owned(),
                1 => numbers.digits(20),
                _ => numbers.digits(8),
            };
            (format!("{length} ").into_bytes(), After::Failed)
        }
        1 => ([b"0".repeat(numbers.below(30) + 1), b" <13>x\n".to_vec()].concat(), After::Found),
        // A message that is longer than the limit, in both framings.
        2 => {
            let long = vec![b'a' + numbers.below(26) as u8; max + 1 + numbers.below(3 * max)];
            let head =
                if numbers.below(2) == 0 { format!("{} ", long.len()) } else { String::new() };
            let end: &[u8] = if head.is_empty() { b"\r\n" } else { b"" };
            ([head.as_bytes(), &long, end].concat(), After::Found)
        }
        // A length that is greater or less than that of the message.
        3 => {
            let message = message(numbers, max);
            let len = numbers.below(2 * max) + 1;
            ([format!("{len} ").as_bytes(), &message].concat(), After::Unknown)
        }
        4 => ([message(numbers, max), b"\n".to_vec()].concat(), After::Found),
        5 => {
            let message = message(numbers, max);
            ([format!("{} ", message.len()).as_bytes(), &message].concat(), After::Found)
        }
        6 => ([numbers.one_of(&OTHERS), b"\n".as_slice()].concat(), After::Found),
        7 => (numbers.bytes(3 * max), After::Unknown),
        _ => {
            let blanks = (0..numbers.below(50)).map(|_| b"\n\r\0"[numbers.below(3)]);
            (blanks.collect(), After::Found)
        }
    }
}

/// Returns hostile bytes for an open session of RELP with messages of at most `max` bytes.
pub(crate) fn relp(numbers: &mut Numbers, max: usize) -> (Vec<u8>, After) {
    let number = 10 + numbers.below(1000);
    match numbers.below(9) {
        0 => {
            let length = numbers.one_of(&LENGTHS[1..]);
            (format!("{number} syslog {length} x\n").into_bytes(), After::Failed)
        }
        1 => {
            let length = numbers.one_of(&LENGTHS[1..]);
            (format!("{length} syslog 1 x\n").into_bytes(), After::Failed)
        }
        2 => {
            let long = vec![b'a'; max + 1 + numbers.below(3 * max)];
            let head = format!("{number} syslog {} ", long.len());
            ([head.as_bytes(), &long, b"\n"].concat(), After::Found)
        }
        3 => {
            let message = message(numbers, max);
            let len = numbers.below(2 * max) + 1;
            ([format!("{number} syslog {len} ").as_bytes(), &message].concat(), After::Unknown)
        }
        4 => {
            let message = message(numbers, max);
            let head = format!("{number} syslog {} ", message.len());
            ([head.as_bytes(), &message, b"\n"].concat(), After::Found)
        }
        5 => (numbers.one_of(&OTHERS).to_vec(), After::Failed),
        6 => (numbers.bytes(3 * max), After::Unknown),
        7 => {
            let command = numbers.one_of(&["rsp", "open", "eventlog", "starttls", "SYSLOG"]);
            (format!("{number} {command} 0\n").into_bytes(), After::Found)
        }
        _ => (
            format!("{number} close {} x\n", 5000 + numbers.below(5000)).into_bytes(),
            After::Failed,
        ),
    }
}
