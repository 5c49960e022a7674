// SPDX-License-Identifier: MIT
//! The feature `hardened`: a write past the end of a block ends the program, with a report.
#![cfg(feature = "hardened")]

use std::alloc::{GlobalAlloc, Layout};
use std::{env, process};

#[global_allocator]
static ALLOCATOR: coffer::Coffer = coffer::Coffer;

const CHILD: &str = "COFFER_TEST_WRITES_PAST_THE_END";

#[test]
fn a_write_past_the_end_is_reported() {
    let layout = Layout::from_size_align(40, 8).unwrap();
    if env::var_os(CHILD).is_some() {
        unsafe {
            let block = ALLOCATOR.alloc(layout);
            block.add(40).cast::<u64>().write_unaligned(1); // a byte alone may be what the canary has there
            ALLOCATOR.dealloc(block, layout);
        }
        return;
    }
    let mut child = process::Command::new(env::current_exe().unwrap());
    let done = child.args(["--exact", "a_write_past_the_end_is_reported"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("written to behind its end"), "{}", said);
}
