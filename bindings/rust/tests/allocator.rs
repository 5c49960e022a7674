// SPDX-License-Identifier: MIT
//! The allocator under Rust's own collections, and each function of the crate.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::{Mutex, MutexGuard};

#[global_allocator]
static ALLOCATOR: coffer::Coffer = coffer::Coffer;

/// The limit and the figures are the process's: the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap()
}

#[test]
fn collections_allocate_from_coffer() {
    let _alone = alone();
    let before = coffer::stats().live;
    // So much that what other tests freed, and the hardened build keeps for a while as live, makes no difference.
    let strings: Vec<String> = (0..10_000).map(|i| format!("{:04000}", i)).collect();
    assert!(coffer::stats().live >= before + 30_000_000);
    drop(strings);
    assert!(coffer::stats().live < before + 20_000_000);
}

#[test]
fn blocks_keep_alignment_and_contents() {
    let _alone = alone();
    for align in [1, 8, 16, 32, 64, 4096, 1 << 21] {
        for size in [1, 15, 16, 100, 4096, 100_000] {
            let mut layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let mut block = ALLOCATOR.alloc_zeroed(layout);
                assert!(!block.is_null() && coffer::usable_size(block) >= size);
                assert!((0..size).all(|i| *block.add(i) == 0), "{:?}", layout);
                block.write_bytes(7, size);
                for next in [size * 3, size * 2, size / 4 + 1] {
                    block = ALLOCATOR.realloc(block, layout, next);
                    assert_eq!(block as usize % align, 0, "{:?} to {}", layout, next);
                    assert!((0..size.min(next)).all(|i| *block.add(i) == 7), "{:?} to {}", layout, next);
                    layout = Layout::from_size_align(next, align).unwrap();
                    block.write_bytes(7, next);
                }
                ALLOCATOR.dealloc(block, layout);
            }
        }
    }
}

#[test]
fn blocks_may_be_dropped_by_another_thread() {
    let _alone = alone();
    let blocks: Vec<Vec<u8>> = (0..1000).map(|i| vec![i as u8; i]).collect();
    let sum = std::thread::spawn(move || blocks.iter().map(Vec::len).sum::<usize>()).join().unwrap();
    assert_eq!(sum, 499_500);
}

#[test]
fn past_the_limit_there_is_no_memory() {
    let _alone = alone();
    assert_eq!(coffer::limit(), 0);
    coffer::set_limit(coffer::stats().resident + (8 << 20));
    let refused = Vec::<u8>::new().try_reserve_exact(64 << 20).is_err();
    coffer::set_limit(0);
    assert!(refused);
    assert!(Vec::<u8>::new().try_reserve_exact(64 << 20).is_ok());
}

#[test]
fn freed_memory_can_be_given_back() {
    let _alone = alone();
    drop(vec![1u8; 4 << 20]);
    // More than once: as below.
    let trimmed = || {
        coffer::trim(0);
        coffer::stats()
    };
    let stats = (0..5).map(|_| trimmed()).min_by_key(|stats| stats.free_resident).unwrap();
    assert!(stats.free_resident < 1 << 20, "{:?}", stats);
    assert!(stats.held + stats.free_resident + stats.metadata <= stats.bound);
}

#[cfg(feature = "profile")]
#[test]
fn the_profile_is_written() {
    use std::os::unix::ffi::OsStrExt;
    let _alone = alone();
    coffer::profile::start(4096);
    let kept: Vec<Vec<u8>> = (0..1000).map(|_| vec![0; 1000]).collect();
    let path = std::env::temp_dir().join(format!("coffer-{}.pb.gz", std::process::id()));
    coffer::profile::dump(&std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap()).unwrap();
    coffer::profile::stop();
    assert!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]));
    std::fs::remove_file(&path).unwrap();
    let nowhere = std::ffi::CString::new("/nowhere/profile").unwrap();
    assert_eq!(coffer::profile::dump(&nowhere), Err(coffer::profile::NotWritten));
    drop(kept);
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(coffer::version(), env!("CARGO_PKG_VERSION"));
}

extern "C" {
    fn malloc(size: usize) -> *mut u8;
    fn free(block: *mut u8);
}

/// With the feature `replace` C's malloc is Coffer's too, without it it is not.
#[test]
fn the_c_librarys_malloc_is_replaced_if_asked() {
    let _alone = alone();
    let grows = || unsafe {
        let before = coffer::stats().live;
        let block = malloc(16 << 20);
        block.write_volatile(7); // else the optimiser leaves out the pair of calls
        let after = coffer::stats().live;
        free(block);
        after >= before + (8 << 20)
    };
    // More than once: the thread of a test before this one may end now, and what it had freed and kept goes with it.
    assert_eq!((0..5).any(|_| grows()), cfg!(feature = "replace"));
}
