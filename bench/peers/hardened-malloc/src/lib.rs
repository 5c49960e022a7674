// SPDX-License-Identifier: MIT
//! hardened_malloc.
#![no_std]

include!("../../shim/hardened.rs");
