//! Binding server sockets, one or several to the same address.
//!
//! The kernel distributes connections, and datagrams by their sender, over the sockets of one
//! address (`SO_REUSEPORT`), so that several threads can receive without sharing anything.
//!
//! Invariant: an address in use by another process is an error, even with several sockets: an
//! exclusive one is bound first. Only a process of the same user that binds in the same way at the
//! same moment is not detected.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

/// Length of the kernel's queue of connections to accept, limited by `net.core.somaxconn`. A client
/// that finds it full is delayed by its kernel for a second.
const BACKLOG: i32 = 4096;

/// Binds a non-blocking server socket with a long accept queue. Also returns the address, with the
/// port selected for port 0.
pub fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpListener::bind(address)?;
    // The standard library sets 128; a second call changes it.
    rustix::net::listen(&socket, BACKLOG)?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// Binds `count` sockets as [`listen`] does, over which the kernel distributes connections.
pub fn listen_many(
    address: SocketAddr,
    count: usize,
) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let (exclusive, address) = listen(address)?;
    if count <= 1 {
        return Ok((vec![exclusive], address));
    }
    drop(exclusive);
    let bind = || {
        let socket = TcpListener::from(bind_shared(address, SocketType::STREAM)?);
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    let sockets = (0..count).map(|_| bind()).collect::<io::Result<_>>()?;
    Ok((sockets, address))
}

/// Binds `count` non-blocking UDP sockets, over which the kernel distributes senders. Also returns
/// the address, with the port selected for port 0.
pub(super) fn bind_udp_many(
    address: SocketAddr,
    count: usize,
) -> io::Result<(Vec<UdpSocket>, SocketAddr)> {
    let exclusive = UdpSocket::bind(address)?;
    let address = exclusive.local_addr()?;
    if count <= 1 {
        exclusive.set_nonblocking(true)?;
        return Ok((vec![exclusive], address));
    }
    drop(exclusive);
    let bind = || bind_shared(address, SocketType::DGRAM).map(UdpSocket::from);
    Ok(((0..count).map(|_| bind()).collect::<io::Result<_>>()?, address))
}

/// Binds a non-blocking socket of an address that has others.
fn bind_shared(address: SocketAddr, socket_type: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, socket_type, flags, None)?;
    if socket_type == SocketType::STREAM {
        // As the standard library does: connections of an earlier process may still be closing.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_sockets_share_an_otherwise_unused_address() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (tcp, address) = listen_many(any, 3).unwrap();
        assert!(tcp.iter().all(|socket| socket.local_addr().unwrap() == address));
        assert_eq!(listen_many(address, 2).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let (udp, address) = bind_udp_many(any, 3).unwrap();
        assert!(udp.iter().all(|socket| socket.local_addr().unwrap() == address));
        assert_eq!(bind_udp_many(address, 2).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
