/* SPDX-License-Identifier: MIT */
// Calls of coffer-rt over memory that a program overwrites. What a heap keeps outside the blocks is not touched by
// that, so its calls stay as they are. What is overwritten there, or in blocks where a policy keeps its state in them,
// coffer_rt_check looks at without harm, and what it finds good can be walked over.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../rt/src/lists.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())
#define SLOTS 64U

struct input {
  const uint8_t* at;
  size_t left;
};

static unsigned byte(struct input* input) {
  if (input->left == 0U) {
    return 0;
  }
  --input->left;
  return *input->at++;
}
static size_t number(struct input* input) {
  const size_t low = byte(input);
  return (byte(input) << 8U) | low;
}
// Each doubling as likely as the others.
static size_t size_of(struct input* input) {
  const unsigned log2 = byte(input) % 14U;
  return ((size_t)1 << log2) - 1U + (number(input) & (((size_t)1 << log2) - 1U));
}

struct held {
  unsigned char* block;
  size_t usable;
};

struct program {
  struct coffer_rt* heap;
  struct held held[SLOTS];
  bool outside;  // the state is not in the blocks
};

static void enter(struct program* program, struct held* held, void* block, size_t size, size_t alignment) {
  const struct coffer_rt* heap = program->heap;
  held->block = block;
  if (block == NULL) {
    return;
  }
  held->usable = coffer_rt_usable_size(program->heap, block);
  const size_t at = (size_t)(held->block - heap->base);
  CHECK(held->usable >= size && at < heap->bytes && held->usable <= heap->bytes - at);
  CHECK(((uintptr_t)block & (alignment - 1U)) == 0U);
  for (size_t i = 0; i < SLOTS; ++i) {
    const struct held* other = &program->held[i];
    CHECK(other == held || other->block == NULL || other->block + other->usable <= held->block ||
          held->block + held->usable <= other->block);
  }
}

static void call(struct program* program, struct input* input) {
  struct held* held = &program->held[byte(input) % SLOTS];
  struct coffer_rt* heap = program->heap;
  const unsigned what = byte(input) % 8U;
  if (what < 3U && held->block == NULL) {
    const size_t size = size_of(input);
    const size_t alignment = what == 0U && program->outside ? (size_t)1 << (byte(input) % 13U) : 1U;
    void* block = alignment > 1U ? coffer_rt_alloc_aligned(heap, alignment, size) : coffer_rt_alloc(heap, size);
    enter(program, held, block, size, alignment);
  } else if (what < 5U && held->block != NULL) {
    CHECK(coffer_rt_free(heap, held->block) == COFFER_RT_OK);
    held->block = NULL;
  } else if (what == 5U && held->block != NULL) {
    const size_t size = size_of(input);
    void* block = coffer_rt_realloc(heap, held->block, size);
    if (block != NULL) {
      enter(program, held, block, size, 1);
    }
  } else if (what == 6U) {
    // An address that is none of a live block's changes nothing.
    unsigned char* at = heap->base + (number(input) % heap->bytes);
    bool is_live = false;
    for (size_t i = 0; i < SLOTS; ++i) {
      is_live = is_live || program->held[i].block == at;
    }
    CHECK(is_live || !program->outside || coffer_rt_free(heap, at) != COFFER_RT_OK);
  } else if (what == 7U && program->outside) {
    const size_t from = number(input) % heap->bytes;
    const size_t length = number(input) % 512U;
    (void)memset(heap->base + from, (int)byte(input), length < heap->bytes - from ? length : heap->bytes - from);
  } else if (held->block != NULL) {
    (void)memset(held->block, (int)byte(input), held->usable);
  } else {
    CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  }
}

static int see(void* context, void* block, size_t bytes, int is_live) {
  const struct coffer_rt* heap = context;
  const size_t at = (size_t)((unsigned char*)block - heap->base);
  CHECK(at < heap->bytes && bytes != 0U && bytes <= heap->bytes - at && (is_live == 0 || is_live == 1));
  return 0;
}

// Where state is that may be overwritten: of the lists' heap the nodes, for its heads lead to everything.
static void damage(struct program* program, struct input* input) {
  struct coffer_rt* heap = program->heap;
  unsigned char* from = heap->base;
  size_t bytes = heap->bytes;
  if (heap->options.policy == COFFER_RT_TREE) {
    from = (unsigned char*)(heap->u.tree.level[0].first - 1);
    bytes = coffer_rt_tree_words(heap->bytes >> heap->min_log2) * sizeof(rt_word);
  } else if (heap->options.policy == COFFER_RT_LISTS) {
    from = (unsigned char*)heap->u.nodes.first;
    bytes = (size_t)((unsigned char*)(heap->u.nodes.top->nodes + 1) - from);
  } else {
    // It is in the blocks.
  }
  for (unsigned count = 1U + (byte(input) % 8U); count > 0U; --count) {
    const size_t at = number(input) % bytes;
    from[at] ^= (unsigned char)(1U + (byte(input) % 255U));
  }
  const bool is_good = coffer_rt_check(heap) == COFFER_RT_OK;
  if (is_good || !program->outside) {
    (void)coffer_rt_walk(heap, see, heap);
  }
  if (!program->outside) {
    for (size_t i = 0; i < SLOTS; ++i) {
      if (program->held[i].block != NULL) {
        CHECK(coffer_rt_usable_size(heap, program->held[i].block) <= heap->bytes);
      }
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t length) {
  struct input input = {bytes, length};
  const struct coffer_rt_options options = {
      .policy = (enum coffer_rt_policy)(byte(&input) % 5U),
      .min_block = (size_t)8 << (byte(&input) % 5U),
      .sums = (int)(byte(&input) % 2U),
  };
  const size_t room = 1024U + (number(&input) % 32768U);
  void* region = malloc(room);  // of its own length, so that what is read behind it is seen
  struct program program = {coffer_rt_init(region, room, &options), {{NULL, 0}}, false};
  if (program.heap != NULL) {
    program.outside = options.policy == COFFER_RT_TREE || options.policy == COFFER_RT_LISTS;
    while (input.left > 24U) {
      call(&program, &input);
    }
    CHECK(coffer_rt_check(program.heap) == COFFER_RT_OK);
    damage(&program, &input);
  }
  free(region);
  return 0;
}
