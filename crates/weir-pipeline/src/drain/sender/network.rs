//! Settings common to the connections of all drains: denied addresses, and trusted authorities.
//!
//! Invariant: an address is denied in all its forms: as IPv4 or IPv6, with a NAT64 prefix, or as an
//! unspecified address, which means this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use weir_expr::Network;
use weir_host::{AddressFilter, ClientTls, ConnectError, Handshakes};

use super::limits::MORE_CONNECTIONS_MAX;

/// Prefix of IPv6 addresses that gateways translate to IPv4 (RFC 6052).
const TRANSLATED: u128 = 0x0064_ff9b << 96;

/// Addresses to which drains may not connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeniedAddresses(Vec<Denied>);

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    Block(Network),
    Range(Ipv6Addr, Ipv6Addr),
}

/// Settings of [`DrainNetwork`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainNetworkSettings {
    /// Addresses to which drains may not connect.
    pub denied: DeniedAddresses,
    /// PEM file of authorities to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
    /// Maximum number of requests that an `https` drain has in flight; with more than one, only
    /// the order of each application instance is kept.
    pub https_in_flight_max: usize,
}

impl Default for DrainNetworkSettings {
    fn default() -> Self {
        Self {
            denied: DeniedAddresses::default(),
            ca_file: None,
            insecure_skip_verify: false,
            https_in_flight_max: 1,
        }
    }
}

/// Settings common to the connections of all drains.
#[derive(Debug, Clone)]
pub struct DrainNetwork {
    pub(super) denied: Arc<DeniedAddresses>,
    pub(super) tls: Arc<ClientTls>,
    pub(super) https_in_flight_max: usize,
    /// For connections beyond one for each drain.
    pub(super) more_connections: Arc<Semaphore>,
    /// A server of many drains that comes back would have the others wait for all its handshakes.
    pub(super) handshakes: Arc<Handshakes>,
}

impl DrainNetwork {
    /// Reads the authorities.
    pub fn new(settings: &DrainNetworkSettings) -> Result<Self, ConnectError> {
        let tls = ClientTls::new(settings.ca_file.as_deref(), settings.insecure_skip_verify)?;
        Ok(Self {
            denied: Arc::new(settings.denied.clone()),
            tls: Arc::new(tls),
            https_in_flight_max: settings.https_in_flight_max.max(1),
            more_connections: Arc::new(Semaphore::new(MORE_CONNECTIONS_MAX)),
            handshakes: Arc::default(),
        })
    }
}

impl DeniedAddresses {
    /// Parses blocks (`10.0.0.0/8`), single addresses, and ranges with both ends in them
    /// (`10.0.0.5-10.0.0.9`). Returns the first invalid text as error.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, &'t str> {
        texts
            .into_iter()
            .map(|text| Denied::parse(text.trim()).ok_or(text))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns whether connections to the address are denied.
    pub fn contains(&self, address: IpAddr) -> bool {
        let others = equivalents(address);
        let all = std::iter::once(address).chain(others.into_iter().flatten());
        let mut all = all.map(wide);
        all.any(|address| self.0.iter().any(|denied| denied.contains(address)))
    }
}

impl AddressFilter for DeniedAddresses {
    fn allows(&self, address: IpAddr) -> bool {
        !self.contains(address)
    }
}

impl Denied {
    fn parse(text: &str) -> Option<Self> {
        let Some((first, last)) = text.split_once('-') else {
            return Network::parse(text).map(Self::Block);
        };
        let (first, last): (IpAddr, IpAddr) =
            (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let (first, last) = (wide(first), wide(last));
        let is_range = first.to_ipv4_mapped().is_some() == last.to_ipv4_mapped().is_some();
        (is_range && first <= last).then_some(Self::Range(first, last))
    }

    fn contains(self, address: Ipv6Addr) -> bool {
        match self {
            Self::Block(block) => block.contains_address(address.into()),
            Self::Range(first, last) => (first..=last).contains(&address),
        }
    }
}

/// Returns an address as IPv6, the common form for comparison.
fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Returns other addresses that reach the same host.
fn equivalents(address: IpAddr) -> [Option<IpAddr>; 2] {
    let v6 = wide(address);
    // Connecting to the unspecified address connects to this machine.
    let is_any = v6.is_unspecified() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_unspecified());
    if is_any {
        return [Some(Ipv4Addr::LOCALHOST.into()), Some(Ipv6Addr::LOCALHOST.into())];
    }
    let is_translated = v6.to_bits() >> 32 == TRANSLATED >> 32;
    let v4 = is_translated.then(|| Ipv4Addr::from_bits(v6.to_bits() as u32));
    [v4.map(IpAddr::from), None]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_denied_in_every_form() {
        let texts =
            ["127.0.0.0/8", "10.0.0.5-10.0.0.9", "fd00::/8", "::1", "2001:db8::5 - 2001:db8::7"];
        let denied = DeniedAddresses::parse(texts).unwrap();
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.255.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("64:ff9b::127.0.0.1", true),
            ("64:ff9b::8.8.8.8", false),
            ("0.0.0.0", true),
            ("::ffff:0.0.0.0", true),
            ("::", true),
            ("::1", true),
            ("::2", false),
            ("10.0.0.4", false),
            ("10.0.0.5", true),
            ("::ffff:10.0.0.9", true),
            ("10.0.0.10", false),
            ("fd12::1", true),
            ("2001:db8::5", true),
            ("2001:db8::7", true),
            ("2001:db8::8", false),
            ("8.8.8.8", false),
        ] {
            assert_eq!(denied.contains(address.parse().unwrap()), expected, "{address}");
        }
        assert!(!DeniedAddresses::default().contains("127.0.0.1".parse().unwrap()));
        for wrong in ["10.0.0.9-10.0.0.5", "10.0.0.0/33", "10.0.0.1-::5", "", "a-b", "10.0.0.1-"] {
            assert_eq!(DeniedAddresses::parse(["10.0.0.1", wrong]), Err(wrong));
        }
    }
}
