// SPDX-License-Identifier: MIT
//! The part of coffer.h that the crate uses, declared as it is there.

use core::ffi::{c_char, c_int, c_void};

/// `struct coffer_stats`: bytes, unless said. Read without stopping other threads, so that figures taken while others
/// allocate may differ by what those do meanwhile. coffer.h describes each at length.
#[cfg(feature = "stats")]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Blocks that the program holds.
    pub live: usize,
    /// Spans and large blocks that heaps hold, live or not.
    pub held: usize,
    /// What may be backed by physical memory.
    pub resident: usize,
    /// The part of it that belongs to no span and no large block.
    pub free_resident: usize,
    /// Arenas made writable, metadata not counted.
    pub committed: usize,
    /// Address space.
    pub reserved: usize,
    /// Metadata made writable.
    pub metadata: usize,
    /// Live blocks over 64 KiB.
    pub large: usize,
    /// Heaps that threads use now: a count.
    pub heaps: usize,
    /// Heap records ever made: a count.
    pub heaps_ever: usize,
    /// Spans in use: a count.
    pub spans: usize,
    /// Chunks ever committed: a count.
    pub chunks: usize,
    /// Calls to the kernel for memory: a count.
    pub system_calls: usize,
    /// What [`crate::limit`] gives.
    pub limit: usize,
    /// What `held + free_resident + metadata` cannot pass, whatever the threads do.
    pub bound: usize,
    /// Page tables of the whole process; 0 if the kernel does not count them.
    pub page_tables: usize,
    /// The part of `held` in spans with blocks of any size.
    pub mixed_held: usize,
    /// The part of `live` that lies in them.
    pub mixed_live: usize,
    /// The part of `resident` that is theirs.
    pub mixed_resident: usize,
}

extern "C" {
    pub fn coffer_malloc(size: usize) -> *mut c_void;
    pub fn coffer_free(block: *mut c_void);
    pub fn coffer_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn coffer_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn coffer_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn coffer_malloc_usable_size(block: *mut c_void) -> usize;
    pub fn coffer_malloc_trim(pad: usize) -> c_int;
    #[cfg(feature = "stats")]
    pub fn coffer_stats(stats: *mut Stats, size: usize) -> c_int;
    pub fn coffer_set_limit(bytes: usize) -> c_int;
    pub fn coffer_get_limit() -> usize;
    #[cfg(feature = "profile")]
    pub fn coffer_profile_start(mean_bytes: usize);
    #[cfg(feature = "profile")]
    pub fn coffer_profile_stop();
    #[cfg(feature = "profile")]
    pub fn coffer_profile_dump(path: *const c_char) -> c_int;
    pub fn coffer_version() -> *const c_char;
}
