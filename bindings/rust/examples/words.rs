// SPDX-License-Identifier: MIT
//! Counts words of standard input on several threads, on Coffer, and says what that took.

use std::collections::HashMap;
use std::io::Read;

#[global_allocator]
static ALLOCATOR: coffer::Coffer = coffer::Coffer;

fn count(text: &str) -> HashMap<String, usize> {
    let mut words = HashMap::new();
    for word in text.split_whitespace() {
        *words.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    words
}

fn main() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let lines: Vec<&str> = text.lines().collect();
    let part = (lines.len() / 4).max(1);
    let counts: Vec<HashMap<String, usize>> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            lines.chunks(part).map(|lines| scope.spawn(move || count(&lines.join("\n")))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut words = HashMap::new();
    for (word, times) in counts.into_iter().flatten() {
        *words.entry(word).or_insert(0) += times;
    }
    let stats = coffer::stats();
    println!("{} words, {} different", words.values().sum::<usize>(), words.len());
    println!("Coffer {}: {} bytes live, at most {} by its bound", coffer::version(), stats.live, stats.bound);
    Ok(())
}
