// SPDX-License-Identifier: MIT
//! mimalloc's newest 2.x.
#![no_std]

include!("../../shim/mimalloc.rs");
