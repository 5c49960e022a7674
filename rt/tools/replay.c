// SPDX-License-Identifier: MIT
// Replays a program's calls through each policy; replay.py runs it, and puts the calls in as the file RT_CALLS: words
// of 32 bits, the bytes of a request, or FREE + which request's block is given back.
//
// On the machine it was built for, it finds the smallest region in which a policy serves every request. On a bare
// RISC-V machine (RT_NO_LIBC) it counts the instructions of each call in a region of RT_REGION bytes, which has to be
// enough.
#include "check.h"
#include "coffer/coffer_rt.h"

#define FREE 0x80000000U
#ifdef RT_PEER  // another allocator under these names (peers.py), whose free says nothing
#define POLICIES 1U
#define IS_FREED(error) ((void)(error), true)
#else
#define POLICIES 5U
#define IS_FREED(error) ((error) == COFFER_RT_OK)
#endif
#define MOST_CALLS 100000U
#define MOST_REGION ((size_t)64U * 1024U * 1024U)
#define MOST_COUNTED 65536U

__asm__(".section .rodata\n.balign 4\n.globl g_calls\ng_calls:\n.incbin \"" RT_CALLS
        "\"\n.globl g_calls_end\ng_calls_end:\n.text\n");
extern const uint32_t g_calls[];
extern const uint32_t g_calls_end[];

static void* g_blocks[MOST_CALLS];
#ifdef RT_NO_LIBC
static unsigned char g_region[RT_REGION] __attribute__((aligned(4096)));
#else
static unsigned char g_region[MOST_REGION] __attribute__((aligned(4096)));
#endif

static size_t call_count(void) { return (size_t)((uintptr_t)g_calls_end - (uintptr_t)g_calls) / sizeof(uint32_t); }

// A request as a program would make it of this policy: the published Estranged Buddy is told to recombine when it has
// nothing, and asked again.
__attribute__((noinline)) static void* alloc(struct coffer_rt* heap, size_t size) {
  void* block = coffer_rt_alloc(heap, size);
  if (block == NULL) {
    coffer_rt_panic(heap);
    block = coffer_rt_alloc(heap, size);
  }
  return block;
}

#ifdef RT_NO_LIBC
#include "no_calls.h"

// How often a call took so many instructions; the last row takes all that is longer.
struct counts {
  uint32_t calls[MOST_COUNTED];
  uint32_t most;
  uint64_t sum;
  uint32_t total;
};
static struct counts g_counts[2];

static uint32_t instructions(void) {
  uint32_t value = 0;
  __asm__ volatile("csrr %0, minstret" : "=r"(value)::"memory");
  return value;
}

static void* (*volatile g_alloc)(struct coffer_rt*, size_t);
static enum coffer_rt_error (*volatile g_free)(struct coffer_rt*, void*);

__attribute__((noinline)) static uint32_t alloc_counted(struct coffer_rt* heap, size_t size, void** block) {
  void* (*const function)(struct coffer_rt*, size_t) = g_alloc;
  const uint32_t before = instructions();
  *block = function(heap, size);
  return instructions() - before;
}

__attribute__((noinline)) static uint32_t free_counted(struct coffer_rt* heap, void* block,
                                                       enum coffer_rt_error* error) {
  enum coffer_rt_error (*const function)(struct coffer_rt*, void*) = g_free;
  const uint32_t before = instructions();
  *error = function(heap, block);
  return instructions() - before;
}

static void add(struct counts* counts, uint32_t count) {
  counts->calls[count < MOST_COUNTED ? count : MOST_COUNTED - 1U] += 1U;
  counts->most = count > counts->most ? count : counts->most;
  counts->sum += count;
  counts->total += 1U;
}

static void put_counts(struct counts* counts) {
  uint32_t beyond = 0;
  uint32_t at = MOST_COUNTED;
  // The least count that 999 of 1000 calls do not exceed.
  while (at > 0U && (beyond + counts->calls[at - 1U]) * 1000ULL <= counts->total) {
    --at;
    beyond += counts->calls[at];
  }
  rt_put(" ");
  rt_put_number((counts->sum * 10U + (counts->total / 2U)) / (counts->total > 0U ? counts->total : 1U));
  rt_put(" ");
  rt_put_number(at > 0U ? at - 1U : 0U);
  rt_put(" ");
  rt_put_number(counts->most);
  for (uint32_t i = 0; i < MOST_COUNTED; ++i) {
    counts->calls[i] = 0;
  }
  counts->most = 0;
  counts->sum = 0;
  counts->total = 0;
}

// Prints: the policy; of allocations and of frees ten times the mean, 99.9th percentile and maximum.
static void count(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = {.policy = policy};
  struct coffer_rt* heap = coffer_rt_init(g_region, sizeof(g_region), &options);
  CHECK(heap != NULL);
  enum coffer_rt_error error = COFFER_RT_OK;
  size_t requests = 0;
  // What the counting costs; a function that does nothing is one instruction.
  g_alloc = no_alloc;
  g_free = no_free;
  const uint32_t alloc_cost = alloc_counted(heap, 1, &g_blocks[0]) - 2U;
  const uint32_t free_cost = free_counted(heap, NULL, &error) - 2U;
  g_alloc = policy == COFFER_RT_ESTRANGED ? alloc : coffer_rt_alloc;
  g_free = coffer_rt_free;
  for (size_t i = 0; i < call_count(); ++i) {
    if (g_calls[i] < FREE) {
      add(&g_counts[0], alloc_counted(heap, g_calls[i], &g_blocks[requests]) - alloc_cost);
      CHECK(g_blocks[requests] != NULL);
      ++requests;
    } else {
      add(&g_counts[1], free_counted(heap, g_blocks[g_calls[i] - FREE], &error) - free_cost);
      CHECK(IS_FREED(error));
    }
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  rt_put_number(policy);
  put_counts(&g_counts[0]);
  put_counts(&g_counts[1]);
  rt_put("\n");
}

int main(void) {
  for (unsigned policy = 0; policy < POLICIES; ++policy) {
    count((enum coffer_rt_policy)policy);
  }
  return 0;
}

#else

static bool is_enough(enum coffer_rt_policy policy, size_t bytes) {
  const struct coffer_rt_options options = {.policy = policy};
  struct coffer_rt* heap = coffer_rt_init(g_region, bytes, &options);
  size_t requests = 0;
  bool is_served = heap != NULL;
  for (size_t i = 0; is_served && i < call_count(); ++i) {
    if (g_calls[i] < FREE) {
      g_blocks[requests] = alloc(heap, g_calls[i]);
      is_served = g_blocks[requests] != NULL;
      ++requests;
    } else {
      CHECK(IS_FREED(coffer_rt_free(heap, g_blocks[g_calls[i] - FREE])));
    }
  }
  CHECK(!is_served || coffer_rt_check(heap) == COFFER_RT_OK);
  return is_served;
}

// Prints the most bytes that were live at a time; then each policy, and the smallest region for it to within 1 %.
int main(void) {
  static uint32_t sizes[MOST_CALLS];
  CHECK(call_count() <= MOST_CALLS);
  size_t live = 0;
  size_t most = 0;
  size_t requests = 0;
  for (size_t i = 0; i < call_count(); ++i) {
    if (g_calls[i] < FREE) {
      sizes[requests] = g_calls[i];
      live += g_calls[i];
      ++requests;
    } else {
      CHECK(g_calls[i] - FREE < requests);
      live -= sizes[g_calls[i] - FREE];
    }
    most = live > most ? live : most;
  }
  rt_put_number(most);
  rt_put("\n");
  for (unsigned policy = 0; policy < POLICIES; ++policy) {
    size_t bytes = most;
    while (!is_enough((enum coffer_rt_policy)policy, bytes)) {
      bytes += (bytes / 100U) + 1U;
      CHECK(bytes <= MOST_REGION);
    }
    rt_put_number(policy);
    rt_put(" ");
    rt_put_number(bytes);
    rt_put("\n");
  }
  return 0;
}

#endif
