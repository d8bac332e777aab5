//! The limit of a router on this machine: the same bytes read from one connection and written to
//! three, by one thread that does nothing else.
//!
//! Invariant: only the CPU time of that thread counts, which includes what the kernel does for it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::load::{APPLICATIONS, Load};
use crate::clock;

/// Nozzles, each of which gets everything.
const NOZZLES: usize = 2;
/// Messages that are sent.
const MESSAGES: u64 = 50_000;

/// Returns how many envelopes of this load a thread can read and write to two nozzles and a reader
/// of their application, per CPU-second.
pub(super) fn envelopes_per_cpu_second(load: Load) -> Result<f64> {
    let message = load.message();
    let (mut sender, receiver) = pair()?;
    let count = NOZZLES + APPLICATIONS as usize;
    let pairs: Vec<_> = (0..count).map(|_| pair()).collect::<Result<_>>()?;
    let (writers, readers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let len = message.len();
    thread::scope(|scope| {
        for mut reader in readers {
            scope.spawn(move || {
                let mut space = vec![0; 1 << 18];
                while reader.read(&mut space).is_ok_and(|read| read > 0) {}
            });
        }
        let relay = scope.spawn(move || relay_all(receiver, writers, len));
        for _ in 0..MESSAGES {
            sender.write_all(&message)?;
        }
        drop(sender);
        let cpu = relay.join().map_err(|_| anyhow::anyhow!("the relay panicked"))??;
        Ok((MESSAGES * load.batch) as f64 / cpu.as_secs_f64())
    })
}

fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

/// Writes each message to the nozzles, and to the readers of applications in turn. Returns the CPU
/// time of the thread.
fn relay_all(mut from: TcpStream, mut to: Vec<TcpStream>, len: usize) -> Result<Duration> {
    let start = clock::thread_cpu();
    let mut message = vec![0; len];
    for number in 0..MESSAGES {
        from.read_exact(&mut message)?;
        let (nozzles, followers) = to.split_at_mut(NOZZLES);
        let follower = number as usize % followers.len();
        for to in nozzles.iter_mut().chain(&mut followers[follower..=follower]) {
            to.write_all(&message)?;
        }
    }
    Ok(clock::thread_cpu().saturating_sub(start))
}
