// SPDX-License-Identifier: MIT
#include "cache.h"

#include <stdlib.h>

#define WORD 4U
#define MOST_BYTES (1U << 24U)
#define MOST_LINE 128U

struct line {
  uint32_t address;  // of its first byte
  uint32_t dirty;    // a bit a word
  uint64_t used;     // when; 0: the line is empty
};

struct cache {
  uint32_t line_bytes, sets, ways;
  struct line* lines;
  uint64_t clock;
  struct cache_below below;
  struct cache_figures figures;
};

static int is_power(uint32_t number) { return number != 0U && (number & (number - 1U)) == 0U; }

struct cache* cache_make(uint32_t bytes, uint32_t ways, uint32_t line_bytes, struct cache_below below) {
  if (!is_power(bytes) || !is_power(ways) || !is_power(line_bytes) || bytes > MOST_BYTES || line_bytes < WORD ||
      line_bytes > MOST_LINE || bytes / line_bytes < ways) {
    return NULL;
  }
  struct cache* cache = calloc(1, sizeof(*cache));
  if (cache == NULL) {
    return NULL;
  }
  cache->line_bytes = line_bytes;
  cache->ways = ways;
  cache->sets = bytes / line_bytes / ways;
  cache->below = below;
  cache->lines = calloc(bytes / line_bytes, sizeof(*cache->lines));
  if (cache->lines == NULL) {
    free(cache);
    return NULL;
  }
  return cache;
}

void cache_end(struct cache* cache) {
  free(cache->lines);
  free(cache);
}

static struct line* set_of(const struct cache* cache, uint32_t address) {
  return &cache->lines[(size_t)(address / cache->line_bytes % cache->sets) * cache->ways];
}

// NULL if the line is not there.
static struct line* find(const struct cache* cache, uint32_t address) {
  struct line* set = set_of(cache, address);
  for (uint32_t i = 0; i < cache->ways; ++i) {
    if (set[i].used != 0U && set[i].address == address) {
      return &set[i];
    }
  }
  return NULL;
}

static struct line* bring(struct cache* cache, uint32_t address) {
  struct line* set = set_of(cache, address);
  struct line* oldest = &set[0];
  for (uint32_t i = 1; i < cache->ways; ++i) {
    if (set[i].used < oldest->used) {
      oldest = &set[i];
    }
  }
  for (uint32_t word = 0; word < cache->line_bytes / WORD; ++word) {
    if ((oldest->dirty >> word & 1U) != 0U) {
      ++cache->figures.written_back;
      cache->below.write_back(cache->below.context, oldest->address + word * WORD);
    }
  }
  ++cache->figures.misses;
  cache->below.fill(cache->below.context, address, cache->line_bytes);
  oldest->address = address;
  oldest->dirty = 0;
  return oldest;
}

// The words of a line that lie in [from, to).
static uint32_t words(uint32_t line, uint32_t line_bytes, uint32_t from, uint32_t to) {
  const uint32_t first = from > line ? (from - line) / WORD : 0U;
  const uint32_t last = to < line + line_bytes ? (to - line - 1U) / WORD : line_bytes / WORD - 1U;
  return (uint32_t)((((uint64_t)1 << (last + 1U)) - 1U) & ~(((uint64_t)1 << first) - 1U));
}

void cache_access(struct cache* cache, uint32_t address, uint32_t bytes, int is_store) {
  const uint32_t end = address + bytes;
  ++cache->figures.accesses;
  for (uint32_t line = address & ~(cache->line_bytes - 1U); line < end; line += cache->line_bytes) {
    struct line* found = find(cache, line);
    if (found == NULL) {
      found = bring(cache, line);
    }
    found->used = ++cache->clock;
    if (is_store != 0) {
      found->dirty |= words(line, cache->line_bytes, address, end);
    }
  }
}

void cache_forget(struct cache* cache, uint32_t address, uint32_t bytes) {
  const uint32_t end = address + bytes;
  const uint32_t count = cache->sets * cache->ways;
  if (bytes / cache->line_bytes >= count) {
    // More lines than the cache has: look at these.
    for (uint32_t i = 0; i < count; ++i) {
      struct line* one = &cache->lines[i];
      if (one->address < end && one->address + cache->line_bytes > address) {
        one->dirty &= ~words(one->address, cache->line_bytes, address, end);
      }
    }
    return;
  }
  for (uint32_t line = address & ~(cache->line_bytes - 1U); line < end; line += cache->line_bytes) {
    struct line* found = find(cache, line);
    if (found != NULL) {
      found->dirty &= ~words(line, cache->line_bytes, address, end);
    }
  }
}

struct cache_figures cache_figures(const struct cache* cache) { return cache->figures; }
