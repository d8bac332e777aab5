//! Sends numbered messages over TCP, UDP or RELP, at full speed or at a rate.

use std::io::{BufReader, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::PROGRAMS;
use crate::clock;

/// Length of a message, bytes.
pub(super) const MESSAGE_BYTES: usize = 200;
/// Connections of one run.
pub(super) const CONNECTIONS: u64 = 10;
/// Maximum number of unacknowledged messages of a connection.
const WINDOW: usize = 128;
/// Messages per write at full speed.
const CHUNK: u64 = 300;

/// What to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    count: u64,
    connections: u64,
    /// Messages per second, over all connections.
    rate: Option<u64>,
}

impl Load {
    pub(super) fn new(count: u64) -> Self {
        Self { count, connections: CONNECTIONS, rate: None }
    }

    pub(super) fn over(self, connections: u64) -> Self {
        Self { connections, ..self }
    }

    pub(super) fn paced(self, rate: u64) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// Sends everything over TCP, one message per line.
    pub(super) fn send_tcp(self, port: u16) -> Result<()> {
        self.on_each(|numbers, rate| {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            let mut text = Vec::new();
            clock::pace(numbers, rate, CHUNK, |chunk| {
                text.clear();
                for number in chunk {
                    message(number, &mut text);
                    text.push(b'\n');
                }
                stream.write_all(&text).context("the server does not take the messages")
            })
        })
    }

    /// Sends everything over UDP.
    pub(super) fn send_udp(self, port: u16) -> Result<()> {
        self.over(2).on_each(|numbers, rate| {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(("127.0.0.1", port))?;
            let mut text = Vec::new();
            clock::pace(numbers, rate, CHUNK, |chunk| {
                for number in chunk {
                    text.clear();
                    message(number, &mut text);
                    socket.send(&text)?;
                }
                Ok(())
            })
        })
    }

    /// Sends everything over RELP; returns the 99th percentile from sending a message to its
    /// acknowledgement.
    pub(super) fn send_relp(self, port: u16) -> Result<Duration> {
        let latencies = std::sync::Mutex::new(Vec::new());
        self.on_each(|numbers, _| {
            let own = relp(port, numbers)?;
            latencies.lock().map_err(|_| anyhow::anyhow!("a sender panicked"))?.extend(own);
            Ok(())
        })?;
        let mut all = latencies.into_inner().map_err(|_| anyhow::anyhow!("a sender panicked"))?;
        all.sort();
        all.get(all.len() * 99 / 100).copied().context("nothing was acknowledged")
    }

    /// Runs one thread per connection, with its share of the numbers and of the rate.
    fn on_each(
        self,
        send: impl Fn(std::ops::Range<u64>, Option<f64>) -> Result<()> + Sync,
    ) -> Result<()> {
        let Self { count, connections, rate } = self;
        let rate = rate.map(|rate| rate as f64 / connections as f64);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..connections)
                .map(|number| {
                    let first = count * number / connections;
                    let end = count * (number + 1) / connections;
                    let send = &send;
                    scope.spawn(move || send(first..end, rate))
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| anyhow::anyhow!("a sender panicked"))??;
            }
            Ok(())
        })
    }
}

/// Appends a message of [`MESSAGE_BYTES`].
pub(super) fn message(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let (host, program) = (number % 20, number as usize % PROGRAMS);
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "<13>Nov 24 10:{:02}:{:02} web{host:04} app{program}[{}]: request {number} from 192.0.2.{} \
         took {} ms, session opened for user{} ",
        number / 60_000 % 60,
        number / 1000 % 60,
        1000 + program,
        number % 250,
        number % 977,
        number % 4999,
    );
    while out.len() - start < MESSAGE_BYTES {
        out.push(b'a' + ((out.len() - start) % 26) as u8);
    }
}

/// Sends messages in windows, as librelp does; returns the time to each acknowledgement.
fn relp(port: u16, numbers: std::ops::Range<u64>) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::with_capacity(1 << 16, stream.try_clone()?);
    open_relp(&mut stream)?;
    answer(&mut answers)?;
    let mut sent_at = std::collections::VecDeque::with_capacity(WINDOW);
    let mut latencies = Vec::with_capacity((numbers.end - numbers.start) as usize);
    let (mut next, mut transaction) = (numbers.start, 1_u64);
    let mut frames = Vec::new();
    while next < numbers.end || !sent_at.is_empty() {
        frames.clear();
        let now = Instant::now();
        while sent_at.len() < WINDOW && next < numbers.end {
            transaction += 1;
            let _ = write!(frames, "{transaction} syslog {MESSAGE_BYTES} ");
            let start = frames.len();
            message(next, &mut frames);
            debug_assert_eq!(frames.len() - start, MESSAGE_BYTES);
            frames.push(b'\n');
            sent_at.push_back(now);
            next += 1;
        }
        stream.write_all(&frames)?;
        // Reads all answers that have arrived, and at least one.
        loop {
            answer(&mut answers)?;
            let sent = sent_at.pop_front().context("an answer that was not expected")?;
            latencies.push(sent.elapsed());
            if answers.buffer().is_empty() || sent_at.is_empty() {
                break;
            }
        }
    }
    Ok(latencies)
}

/// Opens a RELP session, as transaction 1.
pub(super) fn open_relp(stream: &mut impl std::io::Write) -> Result<()> {
    let offer = "relp_version=0\nrelp_software=bench\ncommands=syslog";
    Ok(writeln!(stream, "1 open {} {offer}", offer.len())?)
}

/// Reads an answer, which must accept.
pub(super) fn answer(answers: &mut impl std::io::BufRead) -> Result<()> {
    let mut head = Vec::new();
    for _ in 0..3 {
        answers.read_until(b' ', &mut head)?;
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let len = head.split(' ').nth(2).and_then(|len| len.parse().ok());
    let mut data = vec![0; len.with_context(|| format!("no answer: {head:?}"))?];
    answers.read_exact(&mut data)?;
    answers.read_exact(&mut [0])?;
    ensure!(data.starts_with(b"200"), "refused: {}", String::from_utf8_lossy(&data));
    Ok(())
}
