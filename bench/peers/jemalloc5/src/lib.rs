// SPDX-License-Identifier: MIT
//! jemalloc's newest 5.x.
#![no_std]

mod peer {
    use core::ffi::c_void;
    pub use tikv_jemalloc_sys::{calloc, free, malloc, realloc};

    // The crate declares memalign for some systems only; a power of two is all that aligned_alloc asks for.
    pub unsafe fn memalign(alignment: usize, size: usize) -> *mut c_void {
        tikv_jemalloc_sys::aligned_alloc(alignment, size)
    }

    pub unsafe fn usable_size(block: *const c_void) -> usize {
        tikv_jemalloc_sys::malloc_usable_size(block)
    }
}

include!("../../shim/shim.rs");
include!("../../shim/no_std.rs");
