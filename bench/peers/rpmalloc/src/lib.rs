// SPDX-License-Identifier: MIT
//! rpmalloc. Its feature `preload` starts it at the first call of each thread; at the end of a thread it must be told.
//! The crate needs Rust's standard library; nothing here calls it.

mod peer {
    use core::ffi::{c_int, c_uint, c_void};
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicU32, Ordering};
    pub use rpmalloc_sys::rpmalloc_usable_size as usable_size;

    extern "C" {
        fn pthread_key_create(key: *mut c_uint, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
        fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
        // The crate declares it without the argument that the library has: whether to give the caches back.
        #[link_name = "rpmalloc_thread_finalize"]
        fn thread_finalize(release_caches: c_int);
    }

    // The key plus one; 0: not made yet. The first call comes before any thread is started.
    static KEY: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn thread_ends(_: *mut c_void) {
        thread_finalize(1);
    }

    // Sees to it that this thread's end is noticed. Also a thread whose end was noticed already and that allocates in
    // another destructor comes here again, and is noticed again.
    #[inline]
    unsafe fn enter() {
        if rpmalloc_sys::rpmalloc_is_thread_initialized() == 0 {
            enter_first();
        }
    }

    #[cold]
    unsafe fn enter_first() {
        rpmalloc_sys::rpmalloc_initialize();
        rpmalloc_sys::rpmalloc_thread_initialize();
        if KEY.load(Ordering::Relaxed) == 0 {
            let mut key: c_uint = 0;
            if pthread_key_create(&mut key, Some(thread_ends)) == 0 {
                KEY.store(key + 1, Ordering::Relaxed);
            }
        }
        let key = KEY.load(Ordering::Relaxed);
        if key != 0 {
            pthread_setspecific(key - 1, 1 as *const c_void);
        }
    }

    pub unsafe fn malloc(size: usize) -> *mut c_void {
        enter();
        rpmalloc_sys::rpmalloc(size)
    }

    pub unsafe fn free(block: *mut c_void) {
        if !block.is_null() {
            enter();
            rpmalloc_sys::rpfree(block);
        }
    }

    pub unsafe fn calloc(count: usize, size: usize) -> *mut c_void {
        enter();
        rpmalloc_sys::rpcalloc(count, size)
    }

    pub unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
        enter();
        if size == 0 && !block.is_null() {
            rpmalloc_sys::rpfree(block);
            return null_mut();
        }
        rpmalloc_sys::rprealloc(block, size)
    }

    pub unsafe fn memalign(alignment: usize, size: usize) -> *mut c_void {
        enter();
        rpmalloc_sys::rpmemalign(alignment, size)
    }
}

include!("../../shim/shim.rs");
