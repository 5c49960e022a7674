// SPDX-License-Identifier: MIT
//! Sorts words on all processors with rayon, on Coffer: blocks are made by one thread and freed by another.

use rayon::prelude::*;

#[global_allocator]
static ALLOCATOR: coffer::Coffer = coffer::Coffer;

fn word(mut seed: u64) -> String {
    let mut letters = String::new();
    while seed > 0 {
        letters.push((b'a' + (seed % 26) as u8) as char);
        seed /= 26;
    }
    letters
}

fn main() {
    let mut words: Vec<String> = (1..=200_000u64).into_par_iter().map(|i| word(i * 2_654_435_761)).collect();
    words.par_sort();
    let letters: usize = words.par_iter().map(String::len).sum();
    println!("{} words, {} letters, from {} to {}", words.len(), letters, words[0], words[words.len() - 1]);
    println!("on Coffer {} with {} threads", coffer::version(), rayon::current_num_threads());
}
