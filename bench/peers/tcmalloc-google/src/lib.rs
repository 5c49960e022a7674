// SPDX-License-Identifier: MIT
//! Google's tcmalloc, with its caches for each processor; gperftools, which Debian has, is another library. Abseil in it
//! divides by Rust's runtime, which needs Rust's standard library; nothing here calls that.

mod peer {
    use core::ffi::c_void;
    // Has the library, but declares none of these.
    use libtcmalloc_sys as _;

    extern "C" {
        #[link_name = "TCMallocInternalMalloc"]
        pub fn malloc(size: usize) -> *mut c_void;
        #[link_name = "TCMallocInternalFree"]
        pub fn free(block: *mut c_void);
        #[link_name = "TCMallocInternalCalloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "TCMallocInternalRealloc"]
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "TCMallocInternalMemalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "TCMallocInternalMallocSize"]
        pub fn usable_size(block: *const c_void) -> usize;
        #[link_name = "TCMalloc_Internal_ForceCpuCacheActivation"]
        fn activate_caches();
    }

    // The caches are switched on when the library is loaded, by an object file that the linker leaves out of it where
    // nothing names one of its functions: every call would take its slow path.
    #[used]
    static CACHES: unsafe extern "C" fn() = activate_caches;
}

include!("../../shim/shim.rs");
