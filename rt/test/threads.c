// SPDX-License-Identifier: MIT
// Calls of several threads under lock hooks, while regions are added: built with ThreadSanitizer.
#include <pthread.h>

#include "check.h"
#include "coffer/coffer_rt.h"

#define REGIONS 16U

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct coffer_rt* g_heap;

static void lock(void* context) { CHECK(context == NULL && pthread_mutex_lock(&g_mutex) == 0); }
static void unlock(void* context) { CHECK(context == NULL && pthread_mutex_unlock(&g_mutex) == 0); }

static void* call_everything(void* seed) {
  uint64_t state = *(uint64_t*)seed;
  for (unsigned i = 0; i < 500U; ++i) {
    void* block = coffer_rt_alloc(g_heap, (size_t)(rt_random(&state) % 100U));
    void* moved = coffer_rt_realloc(g_heap, block, (size_t)(rt_random(&state) % 200U));
    CHECK(coffer_rt_free(g_heap, moved != NULL ? moved : block) == COFFER_RT_OK);
    CHECK(coffer_rt_free(g_heap, seed) == COFFER_RT_FOREIGN && coffer_rt_usable_size(g_heap, seed) == 0U);
    CHECK(coffer_rt_alloc_aligned(g_heap, 3, 1) == NULL);
  }
  return NULL;
}

static void run(enum coffer_rt_policy policy) {
  static unsigned char first[64U * 1024U] __attribute__((aligned(64)));
  static unsigned char more[REGIONS][4096] __attribute__((aligned(64)));
  uint64_t seeds[2] = {3, 5};
  const struct coffer_rt_options options = {.policy = policy, .lock = lock, .unlock = unlock};
  g_heap = coffer_rt_init(first, sizeof(first), &options);
  CHECK(g_heap != NULL);
  pthread_t threads[2];
  for (unsigned i = 0; i < 2U; ++i) {
    CHECK(pthread_create(&threads[i], NULL, call_everything, &seeds[i]) == 0);
  }
  for (unsigned i = 0; i < REGIONS; ++i) {
    CHECK(coffer_rt_add_region(g_heap, more[i], sizeof(more[i])) == COFFER_RT_OK);
  }
  for (unsigned i = 0; i < 2U; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  struct coffer_rt_stats stats;
  coffer_rt_stats(g_heap, &stats);
  CHECK(stats.live_blocks == 0U && coffer_rt_check(g_heap) == COFFER_RT_OK);
}

int main(void) {
  run(COFFER_RT_TREE);
  run(COFFER_RT_LISTS);
  rt_put("calls under lock hooks race with none\n");
  return 0;
}
