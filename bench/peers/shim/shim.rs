// SPDX-License-Identifier: MIT
// The names of the C library over an allocator's own. A peer defines `mod peer` with the functions called here, and
// includes this file; it uses nothing of Rust's standard library, which would allocate and be in the figures.

use core::ffi::{c_int, c_void};

const EINVAL: c_int = 22;
const ENOMEM: c_int = 12;
const PAGE: usize = 4096;

#[link(name = "c")]
extern "C" {
    fn __errno_location() -> *mut c_int;
}

unsafe fn checked(block: *mut c_void) -> *mut c_void {
    if block.is_null() {
        *__errno_location() = ENOMEM;
    }
    block
}

#[no_mangle]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    checked(peer::malloc(size))
}

#[no_mangle]
pub unsafe extern "C" fn free(block: *mut c_void) {
    peer::free(block)
}

#[no_mangle]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    peer::free(block)
}

#[no_mangle]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    checked(peer::calloc(count, size))
}

#[no_mangle]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let moved = peer::realloc(block, size);
    // Of no bytes, NULL says that the block was freed.
    if size == 0 {
        moved
    } else {
        checked(moved)
    }
}

#[no_mangle]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => realloc(block, bytes),
        None => checked(core::ptr::null_mut()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    checked(peer::memalign(alignment, size))
}

#[no_mangle]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    checked(peer::memalign(alignment, size))
}

#[no_mangle]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if alignment % core::mem::size_of::<*mut c_void>() != 0 || !alignment.is_power_of_two() {
        return EINVAL;
    }
    let block = peer::memalign(alignment, size);
    if block.is_null() {
        return ENOMEM;
    }
    *result = block;
    0
}

#[no_mangle]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(PAGE, size)
}

#[no_mangle]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.checked_add(PAGE - 1) {
        Some(bytes) => memalign(PAGE, bytes & !(PAGE - 1)),
        None => checked(core::ptr::null_mut()),
    }
}

#[no_mangle]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        0
    } else {
        peer::usable_size(block)
    }
}
