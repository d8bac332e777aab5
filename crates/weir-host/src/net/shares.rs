//! Counts the connections of each address.
//!
//! Invariant: an address is stored only while it has a connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

type Counts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The connections of a server, counted by address. Clones share the counts.
#[derive(Debug, Clone)]
pub struct AddressShares {
    max: usize,
    counts: Counts,
}

/// Counts a connection of an address while it is open.
#[derive(Debug)]
pub struct AddressShare {
    address: IpAddr,
    counts: Counts,
}

impl AddressShares {
    /// Allows each address `max` connections at once.
    pub fn new(max: usize) -> Self {
        Self { max, counts: Arc::default() }
    }

    /// Counts a connection; `None` if the address has too many.
    pub fn take(&self, address: IpAddr) -> Option<AddressShare> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(AddressShare { address, counts: self.counts.clone() })
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
