//! mimalloc's newest 3.x.
#![no_std]

mod peer {
    use core::ffi::c_void;
    pub use libmimalloc_sys::{mi_free as free, mi_malloc as malloc, mi_realloc as realloc};

    extern "C" {
        #[link_name = "mi_calloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_usable_size"]
        pub fn usable_size(block: *const c_void) -> usize;
    }
}

include!("../../shim/shim.rs");

// Nothing here panics, but a library without Rust's standard one must say what would happen.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
