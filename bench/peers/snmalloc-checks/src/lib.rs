// SPDX-License-Identifier: MIT
//! snmalloc with its checks.
#![no_std]

include!("../../shim/snmalloc.rs");
