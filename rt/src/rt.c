// SPDX-License-Identifier: MIT
// The calls of coffer_rt.h: regions, locks, errors; what a policy does is in its own file.
#include "lists.h"

static void lock(const struct coffer_rt* heap) {
  if (heap->options.lock != NULL) {
    heap->options.lock(heap->options.context);
  }
}

static void unlock(const struct coffer_rt* heap) {
  if (heap->options.lock != NULL) {
    heap->options.unlock(heap->options.context);
  }
}

// Within the lock.
static enum coffer_rt_error report(const struct coffer_rt* heap, enum coffer_rt_error error, const void* block) {
  if (error != COFFER_RT_OK && heap->options.on_error != NULL) {
    heap->options.on_error(heap->options.context, error, block);
  }
  return error;
}

static bool is_power_of_two(size_t x) { return x != 0U && (x & (x - 1U)) == 0U; }

// How far `address` is below the next multiple of a power of two.
static size_t gap(uintptr_t address, size_t alignment) { return (size_t)((0U - address) & (alignment - 1U)); }

// Its state stands before the blocks, not in them.
static bool is_outside(enum coffer_rt_policy policy) { return policy == COFFER_RT_TREE || policy == COFFER_RT_LISTS; }

static bool are_options_good(const struct coffer_rt_options* options, size_t min_block) {
  const bool is_known = is_outside(options->policy) || options->policy == COFFER_RT_KNUTH ||
                        options->policy == COFFER_RT_ESTRANGED || options->policy == COFFER_RT_FIRST_FIT;
  const size_t smallest = is_outside(options->policy) ? 8U : 16U;
  return is_known && (options->sums == 0 || is_outside(options->policy)) && is_power_of_two(min_block) &&
         min_block >= smallest && min_block <= 65536U &&
         (options->alignment == 0U || is_power_of_two(options->alignment)) &&
         ((options->lock == NULL) == (options->unlock == NULL));
}

static size_t choose_alignment(const struct coffer_rt_options* options, size_t min_block, size_t bytes) {
  size_t alignment = options->alignment;
  if (alignment == 0U) {
    alignment = min_block;
    while (alignment < RT_MAX_DEFAULT_ALIGNMENT && alignment * 2U <= bytes / 64U) {
      alignment *= 2U;
    }
  }
  return alignment < min_block ? min_block : alignment;
}

_Static_assert(sizeof(struct coffer_rt) % sizeof(rt_word) == 0U, "the tree's words follow the heap's state");

static bool has_no_hooks(const struct coffer_rt* heap) {
  return heap->options.lock == NULL && heap->options.on_error == NULL;
}

// Lays a region out: the heap's state, the tree, then the blocks. The tree is sized for a little more than there is.
static bool lay_out(struct coffer_rt* heap, size_t used, size_t bytes) {
  unsigned char* region = (unsigned char*)heap;
  size_t before = used;
  rt_word* words = (rt_word*)(void*)(region + before);
  const size_t units = (bytes - before) >> heap->min_log2;
  if (heap->policy == NULL) {
    before += coffer_rt_tree_words(units) * sizeof(rt_word);
  } else if (heap->policy->words != NULL) {
    before += heap->policy->words(units) * sizeof(rt_word);
  } else {
    // Its state is in the blocks.
  }
  before += gap((uintptr_t)(region + before), heap->alignment);
  const size_t min_block = (size_t)1 << heap->min_log2;
  if (before > bytes || bytes - before < min_block) {
    return false;
  }
  heap->base = region + before;
  heap->bytes = (bytes - before) & ~(min_block - 1U);
  if (heap->policy == NULL) {
    coffer_rt_tree_init(heap, words);
  } else {
    heap->u.nodes.level = (struct rt_lists_level*)(void*)words;  // the lists' levels; the others set what they need
    heap->policy->init(heap);
  }
  if (heap->options.policy == COFFER_RT_LISTS && has_no_hooks(heap)) {
    heap->lists_limit = heap->sums ? min_block : heap->u.nodes.limit;
    heap->lists_bytes = heap->bytes;
  }
  return true;
}

struct coffer_rt* coffer_rt_init(void* region, size_t bytes, const struct coffer_rt_options* options_or_null) {
  static const struct coffer_rt_options defaults;
  static const struct rt_policy* const policies[] = {NULL, &coffer_rt_knuth, &coffer_rt_estranged, &coffer_rt_first_fit,
                                                     &coffer_rt_lists};
  const struct coffer_rt_options* options = options_or_null != NULL ? options_or_null : &defaults;
  const size_t min_block = options->min_block != 0U ? options->min_block : RT_DEFAULT_MIN_BLOCK;
  // The in-band policies' headers have 32 bits.
  const size_t most = is_outside(options->policy) ? (size_t)PTRDIFF_MAX : 0x7FFFFFFFU;
  if (region == NULL || bytes > most || !are_options_good(options, min_block)) {
    return NULL;
  }
  const size_t skipped = gap((uintptr_t)region, _Alignof(struct coffer_rt));
  if (bytes < skipped + sizeof(struct coffer_rt)) {
    return NULL;
  }
  struct coffer_rt* heap = (struct coffer_rt*)(void*)((unsigned char*)region + skipped);
  heap->options = *options;
  heap->policy = policies[options->policy];
  heap->sums = options->sums != 0;
  heap->next = NULL;
  heap->min_log2 = rt_highest(min_block);
  heap->alignment = choose_alignment(options, min_block, bytes);
  heap->region_bytes = bytes;
  heap->is_plain = heap->policy == NULL && has_no_hooks(heap);
  heap->lists_limit = 0;
  heap->lists_bytes = 0;
  return lay_out(heap, sizeof(struct coffer_rt), bytes - skipped) ? heap : NULL;
}

// Whether memory has a byte in common with a heap's regions. (What a region has before its state and behind its blocks
// is less than a block.)
static bool overlaps(const struct coffer_rt* heap, const void* memory, size_t bytes) {
  bool found = false;
  for (const struct coffer_rt* region = heap; !found && region != NULL; region = region->next) {
    RT_LOOP(regions);
    const uintptr_t from = (uintptr_t)region;
    const uintptr_t to = (uintptr_t)(region->base + region->bytes);
    found = (uintptr_t)memory - from < to - from || from - (uintptr_t)memory < bytes;
  }
  return found;
}

enum coffer_rt_error coffer_rt_add_region(struct coffer_rt* heap, void* region, size_t bytes) {
  struct coffer_rt_options options = heap->options;
  options.alignment = heap->alignment;  // what alignment promises is the same everywhere
  lock(heap);
  struct coffer_rt* added = overlaps(heap, region, bytes) ? NULL : coffer_rt_init(region, bytes, &options);
  enum coffer_rt_error error = COFFER_RT_OK;
  if (added == NULL) {
    error = report(heap, COFFER_RT_ARGUMENT, region);
  } else {
    struct coffer_rt* last = heap;
    while (last->next != NULL) {
      last = last->next;
    }
    last->next = added;
    if (has_no_hooks(heap)) {
      heap->is_plain = false;
      heap->lists_limit = 0;
      heap->lists_bytes = 0;
    } else {
      // They are so already, and other threads read them before they take the lock.
    }
  }
  unlock(heap);
  return error;
}

// The region that an address is in, or NULL.
static struct coffer_rt* region_of(struct coffer_rt* heap, const void* block) {
  struct coffer_rt* region = heap;
  do {
    RT_LOOP(regions);
    if ((uintptr_t)block - (uintptr_t)region->base < region->bytes) {
      break;
    }
    region = region->next;
  } while (region != NULL);
  return region;
}

static void* take(struct coffer_rt* heap, size_t size) {
  void* block = NULL;
  struct coffer_rt* region = heap;
  do {
    RT_LOOP(regions);
    block = region->policy == NULL ? coffer_rt_tree_take(region, size) : region->policy->alloc(region, size);
    region = region->next;
  } while (block == NULL && region != NULL);
  return block;
}

static enum coffer_rt_error give_back(struct coffer_rt* heap, void* block) {
  struct coffer_rt* region = region_of(heap, block);
  enum coffer_rt_error error = COFFER_RT_FOREIGN;
  if (region != NULL) {
    error = region->policy == NULL ? coffer_rt_tree_free(region, (unsigned char*)block)
                                   : region->policy->give_back(region, (unsigned char*)block);
  }
  if (error != COFFER_RT_OK) {
    (void)report(heap, error, block);
  }
  return error;
}

static __attribute__((noinline)) void* alloc_hooked(struct coffer_rt* heap, size_t size) {
  lock(heap);
  void* block = take(heap, size);
  unlock(heap);
  return block;
}

void* coffer_rt_alloc(struct coffer_rt* heap, size_t size) {
  const size_t size_less_1 = size - (size != 0U ? 1U : 0U);
  void* block = NULL;
  if (size_less_1 < heap->lists_limit) {
    block = rt_lists_take(heap, size_less_1);
  } else if (heap->is_plain) {
    block = coffer_rt_tree_take(heap, size);
  } else if (heap->lists_bytes == 0U) {
    block = alloc_hooked(heap, size);
  } else if (heap->sums) {
    block = coffer_rt_lists_take_sum(heap, size);
  } else {
    // More than the lists' heap can have.
  }
  return block;
}

void* coffer_rt_alloc_aligned(struct coffer_rt* heap, size_t alignment, size_t size) {
  if (!is_power_of_two(alignment) || !is_outside(heap->options.policy) || alignment > heap->alignment) {
    lock(heap);
    (void)report(heap, COFFER_RT_ARGUMENT, NULL);
    unlock(heap);
    return NULL;
  }
  lock(heap);
  struct rt_request request;
  void* block = NULL;
  if (heap->policy != NULL) {
    block = take(heap, alignment > size ? alignment : size);  // blocks are aligned to their size
  } else if (coffer_rt_tree_request(heap, alignment, size, &request)) {
    for (struct coffer_rt* region = heap; block == NULL && region != NULL; region = region->next) {
      RT_LOOP(regions);
      block = coffer_rt_tree_take_request(region, &request);
    }
  } else {
    // More than any region can have.
  }
  unlock(heap);
  return block;
}

static __attribute__((noinline)) enum coffer_rt_error free_hooked(struct coffer_rt* heap, void* block) {
  enum coffer_rt_error error = COFFER_RT_OK;
  if (block != NULL) {
    lock(heap);
    error = give_back(heap, block);
    unlock(heap);
  }
  return error;
}

enum coffer_rt_error coffer_rt_free(struct coffer_rt* heap, void* block) {
  const size_t offset = (uintptr_t)block - (uintptr_t)heap->base;
  if (offset < heap->lists_bytes) {
    struct rt_lists_place place;
    if (!rt_lists_find(heap, offset, &place)) {
      return coffer_rt_lists_blame(heap, (unsigned char*)block, place.level, place.cell);
    }
    rt_lists_vacate(&place);
    return COFFER_RT_OK;
  }
  const bool is_here = offset < heap->bytes;
  return heap->is_plain && is_here ? coffer_rt_tree_free(heap, (unsigned char*)block) : free_hooked(heap, block);
}

static size_t usable_size(const struct coffer_rt* region, const void* block) {
  return region->policy == NULL ? coffer_rt_tree_usable_size(region, (const unsigned char*)block)
                                : region->policy->usable_size(region, (const unsigned char*)block);
}

// Within the lock.
static void* resize(struct coffer_rt* heap, void* block, size_t size) {
  struct coffer_rt* region = region_of(heap, block);
  const size_t old_size = region == NULL ? 0U : usable_size(region, block);
  if (old_size == 0U) {
    (void)report(heap, region == NULL ? COFFER_RT_FOREIGN : COFFER_RT_BAD, block);
    return NULL;
  }
  struct rt_request request;
  if (region->policy == NULL) {
    if (!coffer_rt_tree_request(heap, 1, size, &request)) {
      return NULL;
    }
    if (coffer_rt_tree_resize(region, (unsigned char*)block, &request)) {
      return block;
    }
  } else if (region->policy->resize != NULL ? region->policy->resize(region, (unsigned char*)block, size)
                                            : size <= old_size) {
    return block;
  } else {
    // The in-band policies move what grows.
  }
  void* moved = take(heap, size);
  if (moved != NULL) {
    (void)__builtin_memcpy(moved, block, old_size < size ? old_size : size);
    (void)give_back(heap, block);
  } else {
    // It stays as it was. (What shrinks has been served where it stands.)
  }
  return moved;
}

void* coffer_rt_realloc(struct coffer_rt* heap, void* block, size_t size) {
  lock(heap);
  void* moved = block == NULL ? take(heap, size) : resize(heap, block, size);
  unlock(heap);
  return moved;
}

size_t coffer_rt_usable_size(struct coffer_rt* heap, const void* block) {
  lock(heap);
  const struct coffer_rt* region = region_of(heap, block);
  const size_t size = region == NULL ? 0U : usable_size(region, block);
  unlock(heap);
  return size;
}

static size_t largest_free(struct coffer_rt* heap) {
  size_t largest = 0;
  for (struct coffer_rt* region = heap; region != NULL; region = region->next) {
    RT_LOOP(regions);
    const size_t here =
        region->policy == NULL ? coffer_rt_tree_largest_free(region) : region->policy->largest_free(region);
    largest = here > largest ? here : largest;
  }
  return largest;
}

size_t coffer_rt_largest_free(struct coffer_rt* heap) {
  lock(heap);
  const size_t largest = largest_free(heap);
  unlock(heap);
  return largest;
}

void coffer_rt_panic(struct coffer_rt* heap) {
  lock(heap);
  for (struct coffer_rt* region = heap; region != NULL; region = region->next) {
    if (region->policy != NULL && region->policy->panic != NULL) {
      region->policy->panic(region);
    }
  }
  unlock(heap);
}

static int walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                void* context) {
  int result = 0;
  for (struct coffer_rt* region = heap; result == 0 && region != NULL; region = region->next) {
    result = region->policy == NULL ? coffer_rt_tree_walk(region, visit, context)
                                    : region->policy->walk(region, visit, context);
  }
  return result;
}

int coffer_rt_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                   void* context) {
  lock(heap);
  const int result = walk(heap, visit, context);
  unlock(heap);
  return result;
}

static int add_live(void* context, void* block, size_t bytes, int is_live) {
  struct coffer_rt_stats* stats = (struct coffer_rt_stats*)context;
  (void)block;
  if (is_live != 0) {
    stats->live_bytes += bytes;
    ++stats->live_blocks;
  }
  return 0;
}

void coffer_rt_stats(struct coffer_rt* heap, struct coffer_rt_stats* stats) {
  lock(heap);
  *stats = (struct coffer_rt_stats){.alignment = heap->alignment, .largest_free = largest_free(heap)};
  for (const struct coffer_rt* region = heap; region != NULL; region = region->next) {
    stats->region_bytes += region->region_bytes;
    stats->heap_bytes += region->bytes;
  }
  stats->metadata_bytes = stats->region_bytes - stats->heap_bytes;
  (void)walk(heap, add_live, stats);
  unlock(heap);
}

enum coffer_rt_error coffer_rt_check(struct coffer_rt* heap) {
  lock(heap);
  enum coffer_rt_error error = COFFER_RT_OK;
  for (struct coffer_rt* region = heap; error == COFFER_RT_OK && region != NULL; region = region->next) {
    error = region->policy == NULL ? coffer_rt_tree_check(region) : region->policy->check(region);
  }
  error = report(heap, error, NULL);
  unlock(heap);
  return error;
}
