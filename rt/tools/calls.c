// SPDX-License-Identifier: MIT
// The calls that count_calls.py counts: calls POLICY OPERATIONS SEED SUMS. A policy that is none makes no calls, so
// that the instructions between the probes can be taken off.
#include "check.h"
#include "coffer/coffer_rt.h"
#include "no_calls.h"

#define BLOCKS 20000U

static unsigned char g_region[256U * 1024U] __attribute__((aligned(64)));
static void* g_blocks[BLOCKS];
static struct coffer_rt* g_heap;
static bool g_is_empty;

__attribute__((noinline)) void rt_probe(void) { __asm__ volatile(""); }
__attribute__((noinline)) void rt_probe_alloc(void) { __asm__ volatile(""); }
__attribute__((noinline)) void rt_probe_free(void) { __asm__ volatile(""); }

// Either the heap's calls or none, made in the same way.
static void* (*volatile g_alloc)(struct coffer_rt*, size_t) = coffer_rt_alloc;
static enum coffer_rt_error (*volatile g_free)(struct coffer_rt*, void*) = coffer_rt_free;

__attribute__((noinline)) static void* alloc_probed(size_t size) {
  rt_probe();
  void* block = g_alloc(g_heap, size);
  rt_probe_alloc();
  return block;
}

__attribute__((noinline)) static void free_probed(void* block) {
  rt_probe();
  (void)g_free(g_heap, block);
  rt_probe_free();
}

static void mixed(uint64_t operations, uint64_t seed) {
  uint64_t state = seed;
  for (uint64_t i = 0; i < operations; ++i) {
    const size_t at = (size_t)(rt_random(&state) % 400U);
    const size_t size = (size_t)(rt_random(&state) % (16ULL << (rt_random(&state) % 9U)));
    if (g_blocks[at] == NULL) {
      g_blocks[at] = alloc_probed(size);
    } else {
      free_probed(g_blocks[at]);
      g_blocks[at] = NULL;
    }
  }
  for (size_t at = 0; at < 400U; ++at) {
    free_probed(g_blocks[at]);
    g_blocks[at] = NULL;
  }
}

// The whole heap in smallest blocks, every second one freed, then the rest: one cut or join through all sizes, and
// lists as long as they can be.
static void filled(uint64_t operations) {
  size_t count = 0;
  while (count < BLOCKS && count < operations * 4U) {
    g_blocks[count] = count % 16U == 0U ? alloc_probed(12) : coffer_rt_alloc(g_heap, 12);
    if (g_blocks[count] == NULL) {
      break;
    }
    ++count;
  }
  for (size_t start = 0; start < 2U; ++start) {
    for (size_t i = start; i < count; i += 2U) {
      if (i % 16U == start) {
        free_probed(g_blocks[i]);
      } else {
        (void)coffer_rt_free(g_heap, g_blocks[i]);
      }
    }
  }
}

int main(int argc, char** argv) {
  const uint64_t policy = argc > 1 ? rt_parse(argv[1]) : 0U;
  const uint64_t operations = argc > 2 ? rt_parse(argv[2]) : 1000U;
  g_is_empty = policy > 4U;
  const struct coffer_rt_options options = {.policy = (enum coffer_rt_policy)(g_is_empty ? 0U : policy),
                                            .sums = argc > 4 ? (int)rt_parse(argv[4]) : 0};
  g_heap = coffer_rt_init(g_region, sizeof(g_region), &options);
  CHECK(g_heap != NULL);
  if (g_is_empty) {
    g_alloc = no_alloc;
    g_free = no_free;
  }
  mixed(operations, argc > 3 ? rt_parse(argv[3]) : 1U);
  if (!g_is_empty) {
    filled(operations);
    coffer_rt_panic(g_heap);
    CHECK(coffer_rt_check(g_heap) == COFFER_RT_OK);
  }
  return 0;
}
