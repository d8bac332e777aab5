//! Recycled frame buffers: a busy source would otherwise fault in new pages for every batch.
//!
//! Invariant: a pooled buffer always has `FRAME_BYTES_MAX` initialized bytes, so that file blocks
//! are read directly into it. Small batches are copied to an exact allocation instead.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use crate::limits::{FRAME_BYTES_MAX, POOL_BYTES_MAX};

static POOL: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// Returns the size of the buffers in the pool, in bytes.
pub fn pooled_bytes() -> usize {
    lock().len() * FRAME_BYTES_MAX
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Box<[u8]>>> {
    POOL.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A frame buffer: either of full size and returned to the pool when dropped, or exact.
#[derive(Default)]
pub struct PooledBuf(Box<[u8]>);

/// Prints only its length: the content of logs must not appear in messages about a batch.
impl std::fmt::Debug for PooledBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl PooledBuf {
    /// Returns a buffer of `FRAME_BYTES_MAX` bytes with unspecified content.
    pub fn full_size() -> Self {
        Self(lock().pop().unwrap_or_else(|| vec![0; FRAME_BYTES_MAX].into_boxed_slice()))
    }

    /// Returns a buffer with exactly these bytes.
    pub fn exact(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Returns the memory used, in bytes.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<u8>> for PooledBuf {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into_boxed_slice())
    }
}

impl Deref for PooledBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for PooledBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        if self.0.len() != FRAME_BYTES_MAX {
            return;
        }
        let mut pool = lock();
        if (pool.len() + 1) * FRAME_BYTES_MAX <= POOL_BYTES_MAX {
            pool.push(std::mem::take(&mut self.0));
        }
    }
}
