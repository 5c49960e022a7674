// SPDX-License-Identifier: MIT
//! snmalloc with its checks.
#![no_std]

mod peer {
    use core::ffi::c_void;
    pub use snmalloc_sys::{
        sn_calloc as calloc, sn_free as free, sn_malloc as malloc, sn_malloc_usable_size as usable_size,
        sn_realloc as realloc,
    };

    extern "C" {
        #[link_name = "sn_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
    }
}

include!("../../shim/shim.rs");
include!("../../shim/no_std.rs");
