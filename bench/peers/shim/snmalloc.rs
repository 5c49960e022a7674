// SPDX-License-Identifier: MIT
// All of a peer that is snmalloc; which build is the crate's feature.
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

include!("shim.rs");
include!("no_std.rs");
