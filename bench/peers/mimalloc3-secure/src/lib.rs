// SPDX-License-Identifier: MIT
//! mimalloc's newest 3.x as its authors build it against attacks.
#![no_std]

include!("../../shim/mimalloc.rs");
