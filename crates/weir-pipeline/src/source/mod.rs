//! Sources: what takes records in.
mod tail;
