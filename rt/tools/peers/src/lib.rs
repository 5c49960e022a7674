// SPDX-License-Identifier: MIT
//! A TLSF with the calls of coffer_rt.h, as far as rt/tools/calls.c and replay.c use them. 16 by 16 lists, alignment 16:
//! sizes up to 512 KiB on 32 bits.
#![no_std]

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{null_mut, NonNull};
use rlsf::Tlsf;

type Heap = Tlsf<'static, u32, u32, 16, 16>;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// # Safety
/// `region` is memory of `bytes` bytes that nobody else uses; aligned to 64.
#[no_mangle]
pub unsafe extern "C" fn rlsf_init(region: *mut u8, bytes: usize) -> *mut Heap {
    let heap = region.cast::<Heap>();
    let state = core::mem::size_of::<Heap>().next_multiple_of(64);
    heap.write(Heap::new());
    let pool = core::slice::from_raw_parts_mut(region.add(state).cast::<MaybeUninit<u8>>(), bytes - state);
    (*heap).insert_free_block(pool);
    heap
}

/// # Safety
/// `heap` is of `rlsf_init`.
#[no_mangle]
pub unsafe extern "C" fn rlsf_alloc(heap: *mut Heap, size: usize) -> *mut u8 {
    match (*heap).allocate(Layout::from_size_align_unchecked(size, 16)) {
        Some(block) => block.as_ptr(),
        None => null_mut(),
    }
}

/// # Safety
/// `block` is of `rlsf_alloc`, or null.
#[no_mangle]
pub unsafe extern "C" fn rlsf_free(heap: *mut Heap, block: *mut u8) {
    if let Some(block) = NonNull::new(block) {
        (*heap).deallocate(block, 16);
    }
}
