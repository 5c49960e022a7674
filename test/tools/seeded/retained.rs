// SPDX-License-Identifier: MIT
// A registry of tiles that only grows, in Rust.
use std::collections::HashMap;
use std::sync::Mutex;

static REGISTRY: Mutex<Option<HashMap<u32, Vec<u8>>>> = Mutex::new(None);

#[inline(never)]
fn load_tile(number: u32) -> Vec<u8> {
    vec![number as u8; 4000]
}

#[inline(never)]
fn remember(number: u32) {
    let mut registry = REGISTRY.lock().unwrap();
    registry.get_or_insert_with(HashMap::new).insert(number, load_tile(number));
}

fn main() {
    for number in 0..1000 {
        remember(number);
    }
}
