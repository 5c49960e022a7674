// SPDX-License-Identifier: MIT
//! Coffer as a Rust program's global allocator:
//!
//! ```no_run
//! #[global_allocator]
//! static ALLOCATOR: coffer::Coffer = coffer::Coffer;
//! ```
//!
//! The crate compiles Coffer from its own sources, which takes a C++20 compiler, and links it into the program. Without
//! the feature `replace` the program's C libraries keep the C library's malloc; with it they are on Coffer too. Sizes
//! are in bytes; every function may be called from any thread, none from a signal handler. Options come from the
//! environment variable `COFFER_CONF`, as for every program.

#![no_std]
#![warn(missing_docs)]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_void, CStr};

mod sys;

/// The allocator. It has no state of its own: every value is the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coffer;

/// What every block of `coffer_malloc` is aligned to.
const ALIGNMENT: usize = 16;

// SAFETY: coffer.h promises for each function what GlobalAlloc asks: blocks that are not in use otherwise, of at least
// the size and with the alignment, NULL when there is no memory, and no unwinding.
unsafe impl GlobalAlloc for Coffer {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            sys::coffer_malloc(layout.size()).cast()
        } else {
            sys::coffer_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // Fresh pages of the kernel are zero already; coffer_calloc knows which are.
            return sys::coffer_calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        sys::coffer_free(block.cast());
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            return sys::coffer_realloc(block.cast(), size).cast();
        }
        // coffer_realloc keeps no alignment above 16, unless the block need not move.
        if size <= layout.size() && size > layout.size() / 2 {
            return block;
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}

#[cfg(feature = "stats")]
pub use sys::Stats;

/// The figures of the whole process: see [`Stats`]. Feature `stats`.
#[cfg(feature = "stats")]
pub fn stats() -> Stats {
    let mut stats = Stats::default();
    // SAFETY: it writes at most the size that it is told; a pointer to a value is not NULL, so it cannot fail.
    unsafe { sys::coffer_stats(&mut stats, core::mem::size_of::<Stats>()) };
    stats
}

/// Bytes that can be used of a block that this allocator gave; at least what was asked for.
///
/// # Safety
/// `block` is null, for which it is 0, or live.
pub unsafe fn usable_size(block: *const u8) -> usize {
    sys::coffer_malloc_usable_size(block as *mut c_void)
}

/// Gives free memory back to the kernel, all but about `keep` bytes. True if any went.
pub fn trim(keep: usize) -> bool {
    // SAFETY: no preconditions.
    unsafe { sys::coffer_malloc_trim(keep) == 1 }
}

/// From now on allocations fail that would make more than `bytes` resident; 0: no limit.
pub fn set_limit(bytes: usize) {
    // SAFETY: no preconditions.
    unsafe { sys::coffer_set_limit(bytes) };
}

/// What [`set_limit`] or `COFFER_CONF=limit:` has set; 0: none.
pub fn limit() -> usize {
    // SAFETY: no preconditions.
    unsafe { sys::coffer_get_limit() }
}

/// The heap profile: samples of who allocates, in a file that `pprof` reads. Feature `profile`.
#[cfg(feature = "profile")]
pub mod profile {
    use crate::sys;
    use core::ffi::CStr;

    /// Samples allocations from now on, one in `mean_bytes` bytes on average (0: the usual mean).
    pub fn start(mean_bytes: usize) {
        // SAFETY: no preconditions.
        unsafe { sys::coffer_profile_start(mean_bytes) };
    }

    /// Samples nothing any more; what was sampled stays.
    pub fn stop() {
        // SAFETY: no preconditions.
        unsafe { sys::coffer_profile_stop() };
    }

    /// The profile could not be written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NotWritten;

    impl core::fmt::Display for NotWritten {
        fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            to.write_str("the heap profile could not be written")
        }
    }

    /// Writes what was sampled to the file `path`, in place of what is there.
    ///
    /// # Errors
    /// The file cannot be written, and is not there.
    pub fn dump(path: &CStr) -> Result<(), NotWritten> {
        // SAFETY: a string that ends with zero, alive for the call.
        match unsafe { sys::coffer_profile_dump(path.as_ptr()) } {
            0 => Ok(()),
            _ => Err(NotWritten),
        }
    }
}

/// Coffer's version.
pub fn version() -> &'static str {
    // SAFETY: a constant string that ends with zero.
    unsafe { CStr::from_ptr(sys::coffer_version()) }.to_str().unwrap_or("")
}
