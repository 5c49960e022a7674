// SPDX-License-Identifier: MIT
//! hardened_malloc, the light build.
#![no_std]

include!("../../shim/hardened.rs");
