// SPDX-License-Identifier: MIT
// Buffers whose owner is forgotten.
use std::collections::HashMap;

#[inline(never)]
fn load_tile(number: usize) -> Vec<u8> {
    vec![(number % 251) as u8; 4000]
}

#[inline(never)]
fn render_tile(number: usize, drawn: &mut HashMap<usize, usize>) {
    let tile = load_tile(number);
    drawn.insert(number, tile.iter().map(|&byte| byte as usize).sum());
    if number % 5 == 0 {
        std::mem::forget(tile);
    }
}

fn main() {
    let mut drawn = HashMap::new();
    for number in 0..5000 {
        render_tile(number, &mut drawn);
    }
    println!("{} drawn", drawn.len());
}
