/* SPDX-License-Identifier: MIT */
// A data cache between a program and OHEBS: set-associative, least recently used out first, write-back, filled also for
// stores. Dirty are single words, so that what the allocator keeps beside a program's words is never written back.
#ifndef COFFER_HW_CACHE_H
#define COFFER_HW_CACHE_H

#include <stdint.h>

struct cache;

// What reaches memory: a line is filled, a word is written back.
struct cache_below {
  void (*fill)(void* context, uint32_t address, uint32_t bytes);
  void (*write_back)(void* context, uint32_t address);
  void* context;
};

// NULL if the numbers make no cache (powers of two, lines of 4 to 128 bytes, at most 16 MiB) or there is no memory.
struct cache* cache_make(uint32_t bytes, uint32_t ways, uint32_t line_bytes, struct cache_below below);
void cache_end(struct cache* cache);

void cache_access(struct cache* cache, uint32_t address, uint32_t bytes, int is_store);

// Nobody needs these bytes any more: their words are no longer dirty, and so are not written over the links that the
// allocator keeps there.
void cache_forget(struct cache* cache, uint32_t address, uint32_t bytes);

struct cache_figures {
  uint64_t accesses, misses, written_back;
};
struct cache_figures cache_figures(const struct cache* cache);

#endif
