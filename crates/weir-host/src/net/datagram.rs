//! Datagram sockets: UDP, many datagrams per system call, and Unix datagram sockets.
//!
//! Invariants: a datagram is received whole, with the address of its sender; datagrams that the
//! kernel drops because they are not read fast enough are counted exactly, by the kernel itself.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use tokio::io::Interest;

/// Datagrams received per system call: enough that the call costs little per datagram.
const DATAGRAMS_MAX: usize = 64;

/// Maximum size of a datagram: that of UDP over IPv4. Unix datagrams can be larger; the rest of
/// such a datagram is lost, and [`Datagram::is_truncated`].
pub const DATAGRAM_BYTES_MAX: usize = 64 * 1024;

/// A bound datagram socket.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: Socket,
    /// Number of the socket in the kernel's tables.
    inode: u64,
}

#[derive(Debug)]
enum Socket {
    Udp(tokio::net::UdpSocket),
    Unix(tokio::net::UnixDatagram),
}

/// A bound datagram socket that is not registered with an event loop yet.
#[derive(Debug)]
pub enum BoundDatagrams {
    /// UDP.
    Udp(std::net::UdpSocket),
    /// A Unix socket.
    Unix(UnixDatagram),
}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The sender; `None` for Unix sockets.
    pub peer: Option<IpAddr>,
    /// It was longer than [`DATAGRAM_BYTES_MAX`].
    pub is_truncated: bool,
}

/// Binds `count` UDP sockets to one address, each with a receive buffer of this many bytes. Returns
/// also the address, with the port selected for port 0, and the size of the buffers that the kernel
/// granted: without the privilege to exceed it, at most `net.core.rmem_max`.
pub fn bind_udp(
    address: SocketAddr,
    buffer_bytes: usize,
    count: usize,
) -> io::Result<(Vec<BoundDatagrams>, SocketAddr, usize)> {
    let (sockets, address) = super::bind::bind_udp_many(address, count)?;
    let mut granted_bytes = usize::MAX;
    for socket in &sockets {
        granted_bytes = granted_bytes.min(set_receive_buffer(socket, buffer_bytes)?);
    }
    Ok((sockets.into_iter().map(BoundDatagrams::Udp).collect(), address, granted_bytes))
}

/// The kernel doubles the requested size for its bookkeeping, and reports the doubled one.
fn set_receive_buffer(socket: &std::net::UdpSocket, bytes: usize) -> io::Result<usize> {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)? / 2)
}

/// Binds a Unix datagram socket, replacing one without a listener.
pub fn bind_unix_datagrams(path: &Path, mode: u32) -> io::Result<BoundDatagrams> {
    let open = |path: &Path| UnixDatagram::bind(path);
    let connect = |path: &Path| UnixDatagram::unbound()?.connect(path);
    let socket = super::unix::bind(path, mode, open, connect)?;
    socket.set_nonblocking(true)?;
    Ok(BoundDatagrams::Unix(socket))
}

impl DatagramSocket {
    /// Registers a socket with the event loop of the current thread.
    pub fn register(bound: BoundDatagrams) -> io::Result<Self> {
        let (socket, inode) = match bound {
            BoundDatagrams::Udp(socket) => {
                let inode = rustix::fs::fstat(&socket)?.st_ino;
                (Socket::Udp(tokio::net::UdpSocket::from_std(socket)?), inode)
            }
            BoundDatagrams::Unix(socket) => {
                let inode = rustix::fs::fstat(&socket)?.st_ino;
                (Socket::Unix(tokio::net::UnixDatagram::from_std(socket)?), inode)
            }
        };
        Ok(Self { socket, inode })
    }

    /// Waits until there is a datagram.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Udp(socket) => socket.readable().await,
            Socket::Unix(socket) => socket.readable().await,
        }
    }

    /// Receives available datagrams, at most as many as `buffers` can hold; possibly none.
    pub fn receive(&self, buffers: &mut DatagramBuffers) -> io::Result<()> {
        buffers.received.clear();
        let received = match &self.socket {
            Socket::Udp(socket) => {
                socket.try_io(Interest::READABLE, || buffers.receive_many(socket.as_raw_fd()))
            }
            Socket::Unix(socket) => buffers.receive_from(socket),
        };
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Returns how many datagrams the kernel has dropped in total because the receive buffer was
    /// full. Senders to Unix sockets wait instead.
    pub fn kernel_drops(&self) -> u64 {
        if matches!(self.socket, Socket::Unix(_)) {
            return 0;
        }
        let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"];
        let mut tables = tables.iter().filter_map(|path| std::fs::read_to_string(path).ok());
        tables.find_map(|table| drops_in(&table, self.inode)).unwrap_or_default()
    }
}

/// Finds a socket in the kernel's table: the tenth column is the inode, the last the drops.
fn drops_in(table: &str, inode: u64) -> Option<u64> {
    let mut sockets = table.lines().skip(1).map(str::split_ascii_whitespace);
    let socket =
        sockets.find(|columns| columns.clone().nth(9).and_then(|n| n.parse().ok()) == Some(inode));
    socket?.last()?.parse().ok()
}

/// Memory for the datagrams of one system call, reused.
#[derive(Debug)]
pub struct DatagramBuffers {
    /// [`DATAGRAMS_MAX`] buffers of [`DATAGRAM_BYTES_MAX`]; pages that no datagram reaches are
    /// never touched.
    bytes: Vec<u8>,
    received: Vec<Received>,
    headers: MultiHeaders<SockaddrStorage>,
}

#[derive(Debug, Clone, Copy)]
struct Received {
    len: usize,
    peer: Option<IpAddr>,
    is_truncated: bool,
}

impl Default for DatagramBuffers {
    fn default() -> Self {
        Self {
            bytes: vec![0; DATAGRAMS_MAX * DATAGRAM_BYTES_MAX],
            received: Vec::with_capacity(DATAGRAMS_MAX),
            headers: MultiHeaders::preallocate(DATAGRAMS_MAX, None),
        }
    }
}

impl DatagramBuffers {
    /// Returns the number of datagrams received last.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Returns whether no datagram was received.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Returns a received datagram, by its index.
    pub fn get(&self, index: usize) -> Option<Datagram<'_>> {
        let received = self.received.get(index)?;
        let start = index * DATAGRAM_BYTES_MAX;
        let bytes = self.bytes.get(start..start + received.len)?;
        Some(Datagram { bytes, peer: received.peer, is_truncated: received.is_truncated })
    }

    fn receive_many(&mut self, socket: i32) -> io::Result<()> {
        let chunks = self.bytes.chunks_mut(DATAGRAM_BYTES_MAX);
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            chunks.map(|chunk| [IoSliceMut::new(chunk)]).collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        let results = recvmmsg(socket, &mut self.headers, slices.iter_mut(), flags, None)?;
        self.received.extend(results.map(|result| Received {
            len: result.bytes,
            peer: result.address.and_then(address_of),
            is_truncated: result.flags.contains(MsgFlags::MSG_TRUNC),
        }));
        Ok(())
    }

    fn receive_from(&mut self, socket: &tokio::net::UnixDatagram) -> io::Result<()> {
        for chunk in self.bytes.chunks_mut(DATAGRAM_BYTES_MAX) {
            match socket.try_recv(chunk) {
                Ok(len) => {
                    let is_truncated = len == DATAGRAM_BYTES_MAX;
                    self.received.push(Received { len, peer: None, is_truncated });
                }
                // Datagrams received so far count.
                Err(_) if !self.received.is_empty() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the address without its port; IPv4 even if it arrived at an IPv6 socket.
fn address_of(address: SockaddrStorage) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::V4(address.as_sockaddr_in()?.ip()));
    let v6 = || Some(IpAddr::V6(address.as_sockaddr_in6()?.ip()).to_canonical());
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_arrive_whole_with_their_sender_and_drops_are_counted() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (mut bound, address, _) = bind_udp(any, 1 << 16, 1).unwrap();
        let socket = DatagramSocket::register(bound.remove(0)).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sent = 0_u64;
        while socket.kernel_drops() < 10 {
            for _ in 0..100 {
                sender.send_to(&[b'x'; 500], address).unwrap();
            }
            sent += 100;
        }
        let mut buffers = DatagramBuffers::default();
        let mut received = 0;
        loop {
            socket.readable().await.unwrap();
            socket.receive(&mut buffers).unwrap();
            if buffers.is_empty() {
                break;
            }
            for index in 0..buffers.len() {
                let datagram = buffers.get(index).unwrap();
                assert_eq!(datagram.bytes, [b'x'; 500]);
                assert_eq!(datagram.peer, Some(IpAddr::from([127, 0, 0, 1])));
                assert!(!datagram.is_truncated);
                received += 1;
            }
            if received + socket.kernel_drops() == sent {
                break;
            }
        }
        assert_eq!(received + socket.kernel_drops(), sent);
    }

    #[test]
    fn the_kernels_table_is_read_by_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             63: 0100007F:0202 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 12\n";
        assert_eq!((drops_in(table, 4711), drops_in(table, 1)), (Some(12), None));
    }
}
