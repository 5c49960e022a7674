// SPDX-License-Identifier: MIT
//! snmalloc.
#![no_std]

include!("../../shim/snmalloc.rs");
