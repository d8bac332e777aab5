//! Injected access to the outside world: clock, disk, files of other programs, wake-ups, network,
//! secrets, values with units, and time zones.
//!
//! Invariants: this crate is a leaf (it depends on no other weir crate); nothing else in weir asks
//! the operating system for the time or opens a data file, so that tests can substitute a fake.
#![forbid(unsafe_code)]

pub mod clock;
pub mod compress;
pub mod decompress;
pub mod disk;
pub mod file_tree;
pub mod gzip;
pub mod named_file;
pub mod net;
pub mod process;
pub mod record_file;
pub mod secret;
pub mod terminal;
pub mod units;
pub mod wake;
pub mod zone;

pub use clock::{Clock, RealClock};
pub use compress::{CompressError, Compression, Compressor};
pub use decompress::{ContentCoding, DecompressError};
pub use disk::{
    Disk, DiskFile, DiskSpace, OpenMode, RealDisk, check_free_space, is_disk_full, read_file,
    replace_file,
};
pub use file_tree::{FileTree, RealFileTree, TreeFile, TreeWatch};
pub use gzip::{Gzip, GzipError};
pub use named_file::{PEM_FILE_BYTES_MAX, read_named_file};
pub use net::{
    Acceptor, AddressFilter, AddressShare, AddressShares, BlockingTls, BoundDatagrams, ClientTls,
    ClientTlsConfig, ConnectError, ConnectionSlot, ConnectionSlots, Connector, ConnectorSettings,
    DATAGRAM_BYTES_MAX, Datagram, DatagramBuffers, DatagramSocket, Handshakes, Receiving,
    ServerProtocol, ServerTlsFiles, ServerTrust, Stream, TlsConnection, TlsFiles, TlsOptions,
    TlsPem, Working, bind_udp, bind_unix_datagrams, listen, listen_many, listen_unix,
};
pub use process::ProcessMetrics;
pub use secret::{Secret, SecretError};
pub use wake::WakeFd;
pub use zone::{Calendar, Zone, ZoneError};
