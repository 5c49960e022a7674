// SPDX-License-Identifier: MIT
// All of a peer that is hardened_malloc; which build is the crate's feature. Its own names have an h_ in front,
// by a flag in the peer's manifest: those of the C library are the shim's.
mod peer {
    use core::ffi::c_void;
    // Has the library, but declares it by the C library's names.
    use hardened_malloc_sys as _;

    extern "C" {
        #[link_name = "h_malloc"]
        pub fn malloc(size: usize) -> *mut c_void;
        #[link_name = "h_free"]
        pub fn free(block: *mut c_void);
        #[link_name = "h_calloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "h_realloc"]
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "h_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "h_malloc_usable_size"]
        pub fn usable_size(block: *const c_void) -> usize;
        #[link_name = "h_free_sized"]
        fn sized(block: *mut c_void, size: usize);
    }

    // A sized delete, which a compiler calls for most of C++'s objects, compares the size.
    #[no_mangle]
    pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize) {
        sized(block, size)
    }
    #[no_mangle]
    pub unsafe extern "C" fn _ZdlPvm(block: *mut c_void, size: usize) {
        sized(block, size)
    }
    #[no_mangle]
    pub unsafe extern "C" fn _ZdaPvm(block: *mut c_void, size: usize) {
        sized(block, size)
    }
}

include!("shim.rs");
include!("no_std.rs");
