// SPDX-License-Identifier: MIT
// All of a peer that is mimalloc; which one is the crate's feature.
mod peer {
    use core::ffi::c_void;
    pub use libmimalloc_sys2::{mi_free as free, mi_malloc as malloc, mi_realloc as realloc};

    extern "C" {
        #[link_name = "mi_calloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_usable_size"]
        pub fn usable_size(block: *const c_void) -> usize;
    }
}

include!("shim.rs");
include!("no_std.rs");
