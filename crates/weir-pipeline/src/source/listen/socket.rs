//! Binding the sockets of a source, whatever their type: one for each of its threads.
//!
//! Invariant: a Unix socket is removed when its source ends, unless another process has replaced
//! it.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use weir_host::{BoundDatagrams, DatagramSocket, bind_udp, bind_unix_datagrams, listen_many};

use super::ListenError;
use crate::config::ListenEndpoint;

/// Idle time after which the kernel sends keep-alive probes, so that the connection of a sender
/// that vanished is freed within a few minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);

/// A bound socket.
#[derive(Debug)]
pub(super) struct Socket {
    bound: Bound,
    /// Removes the name of a Unix socket.
    name: Option<SocketName>,
}

#[derive(Debug)]
enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
    Datagrams(BoundDatagrams),
}

/// A socket that accepts connections, registered with the event loop.
pub(super) enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An accepted connection.
pub(super) enum Accepted {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl Socket {
    /// Binds `count` of them; there is only one in the file system. Also returns their address or
    /// path, for messages.
    pub(super) fn bind(
        endpoint: &ListenEndpoint,
        count: usize,
    ) -> Result<(Vec<Self>, String), ListenError> {
        let unnamed = |bound| Self { bound, name: None };
        match endpoint {
            ListenEndpoint::Tcp(address) => {
                let bound = listen_many(*address, count);
                let (sockets, address) =
                    bound.map_err(|error| ListenError::Port { address: *address, error })?;
                let sockets = sockets.into_iter().map(Bound::Tcp).map(unnamed);
                Ok((sockets.collect(), address.to_string()))
            }
            ListenEndpoint::Udp { address, buffer_bytes } => {
                let bound = bind_udp(*address, *buffer_bytes, count);
                let (sockets, address, granted) =
                    bound.map_err(|error| ListenError::Port { address: *address, error })?;
                if granted < *buffer_bytes {
                    tracing::warn!(
                        %address,
                        granted_bytes = granted,
                        wanted_bytes = buffer_bytes,
                        "the kernel limits the receive buffer: raise net.core.rmem_max"
                    );
                }
                let sockets = sockets.into_iter().map(Bound::Datagrams).map(unnamed);
                Ok((sockets.collect(), address.to_string()))
            }
            ListenEndpoint::UnixStream { path, mode } => {
                Self::unix(path, weir_host::listen_unix(path, *mode).map(Bound::Unix))
            }
            ListenEndpoint::UnixDatagram { path, mode } => {
                Self::unix(path, bind_unix_datagrams(path, *mode).map(Bound::Datagrams))
            }
        }
    }

    fn unix(path: &Path, bound: io::Result<Bound>) -> Result<(Vec<Self>, String), ListenError> {
        let bound = bound.map_err(|error| ListenError::Path { path: path.to_owned(), error })?;
        let name = fs::symlink_metadata(path)
            .ok()
            .map(|metadata| SocketName { path: path.to_owned(), inode: metadata.ino() });
        Ok((vec![Self { bound, name }], path.display().to_string()))
    }

    /// Registers a socket that accepts connections with the event loop.
    pub(super) fn accepting(self) -> io::Result<(Accepting, Option<SocketName>)> {
        let accepting = match self.bound {
            Bound::Tcp(socket) => Accepting::Tcp(TcpListener::from_std(socket)?),
            Bound::Unix(socket) => Accepting::Unix(UnixListener::from_std(socket)?),
            Bound::Datagrams(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok((accepting, self.name))
    }

    /// Registers a socket that receives datagrams with the event loop.
    pub(super) fn datagrams(self) -> io::Result<(DatagramSocket, Option<SocketName>)> {
        match self.bound {
            Bound::Datagrams(socket) => Ok((DatagramSocket::register(socket)?, self.name)),
            Bound::Tcp(_) | Bound::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Accepting {
    /// Accepts the next connection.
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                prepare(&stream)?;
                Ok(Accepted::Tcp(stream, address_of(peer)))
            }
            Self::Unix(socket) => Ok(Accepted::Unix(socket.accept().await?.0)),
        }
    }
}

impl Accepted {
    /// The address of the sender; `None` for Unix sockets.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(_, peer) => Some(*peer),
            Self::Unix(_) => None,
        }
    }
}

/// IPv4 also where it arrived at an IPv6 socket.
fn address_of(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    Ok(())
}

/// The name of a Unix socket.
#[derive(Debug)]
pub(super) struct SocketName {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketName {
    fn drop(&mut self) {
        let is_own = |metadata: &fs::Metadata| metadata.ino() == self.inode;
        if fs::symlink_metadata(&self.path).as_ref().is_ok_and(is_own) {
            // It only leaves a name that the next start replaces.
            let _removed = fs::remove_file(&self.path);
        }
    }
}
