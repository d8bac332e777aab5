//! Blocks of IP addresses, as used in `CIDR(...)`.
//!
//! Addresses are compared as IPv6; an IPv4 address equals its IPv4-mapped form (`::ffff:10.0.0.1`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block: an address and a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The first address of the block.
    address: u128,
    /// The prefix length, out of 128.
    bits: u8,
}

impl Network {
    /// Parses `10.0.0.0/8`, `fd00::/8`, or a single address. Bits after the prefix are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (width, missing) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let prefix = match prefix {
            Some(digits) if !digits.starts_with('+') => digits.parse::<u8>().ok()?,
            Some(_) => return None,
            None => width,
        };
        if prefix > width {
            return None;
        }
        let bits = prefix + missing;
        Some(Self { address: wide(address) & mask(bits), bits })
    }

    /// Returns whether the text is an address in the block.
    pub fn contains(self, address: &[u8]) -> bool {
        std::str::from_utf8(address)
            .ok()
            .and_then(|text| text.parse().ok())
            .is_some_and(|address: IpAddr| self.contains_address(address))
    }

    /// Returns whether the address is in the block.
    pub fn contains_address(self, address: IpAddr) -> bool {
        (wide(address) ^ self.address) & mask(self.bits) == 0
    }

    /// Returns whether an allow list contains the address; an empty list allows all.
    pub fn allow(networks: &[Self], address: IpAddr) -> bool {
        networks.is_empty() || networks.iter().any(|network| network.contains_address(address))
    }
}

fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

/// Prints the block in its usual notation.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = Ipv6Addr::from_bits(self.address);
        match v6.to_ipv4_mapped() {
            Some(v4) if self.bits >= 96 => write_v4(f, v4, self.bits - 96),
            _ => write!(f, "{v6}/{}", self.bits),
        }
    }
}

fn write_v4(f: &mut fmt::Formatter<'_>, address: Ipv4Addr, bits: u8) -> fmt::Result {
    write!(f, "{address}/{bits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_match_their_network_blocks() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "255.1.1.1", true),
            ("0.0.0.0/0", "fd00::1", false),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "10.0.0.1", true),
            ("10.0.0.0/8", "10.0.0.1:80", false),
            ("10.0.0.0/8", "", false),
        ];
        for (block, address, want) in cases {
            let network = Network::parse(block).unwrap();
            assert_eq!(network.contains(address.as_bytes()), want, "{block} {address}");
            assert_eq!(Network::parse(&network.to_string()), Some(network));
        }
        for text in ["10.0.0.0/33", "fd00::/129", "10.0.0", "", "/8", "10.0.0.0/", "10.0.0.0/+8"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
