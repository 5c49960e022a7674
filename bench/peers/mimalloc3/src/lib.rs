// SPDX-License-Identifier: MIT
//! mimalloc's newest 3.x.
#![no_std]

include!("../../shim/mimalloc.rs");
