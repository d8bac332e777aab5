//! Listening Unix sockets in the file system.
//!
//! Invariants: a socket with a listener is never replaced, one that a killed process left behind
//! is; only sockets are ever removed.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Binds a non-blocking Unix stream socket, replacing one without a listener.
pub fn listen_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let open = |path: &Path| UnixListener::bind(path);
    let connect = |path: &Path| UnixStream::connect(path).map(drop);
    let socket = bind(path, mode, open, connect)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Binds with `open`; `connect` checks whether an existing socket has a listener.
pub(super) fn bind<T>(
    path: &Path,
    mode: u32,
    open: impl Fn(&Path) -> io::Result<T>,
    connect: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<T> {
    let opened = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
            let is_abandoned =
                || connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            if !(is_socket && is_abandoned()) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            open(path)
        }
        other => other,
    }?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.sock");
        let first = listen_unix(&path, 0o600).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen_unix(&path, 0o666).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let second = listen_unix(&path, 0o666).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o666);
        drop(second);
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        listen_unix(&file, 0o600).unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
    }
}
