// SPDX-License-Identifier: MIT
// A bare-metal RISC-V program with two tasks that share a real-time heap: copy it for your board.
//
// A timer interrupt switches between the tasks every 500 us. The producer takes a block for each message and hands it
// over; the consumer checks and frees it. The heap is guarded by switching interrupts off, which the lock hooks do:
// a call has a proven worst case, so interrupts are off no longer than that.
//
// Here the board is qemu's "virt": a UART to write to, a timer, and a device that ends the machine.
#include "board.h"
#include "coffer/coffer_rt.h"

enum { MESSAGES = 20000, QUEUE = 16, LONGEST = 500 };

struct message {
  uint32_t number;
  uint32_t length;
  uint8_t bytes[];
};

// The largest live amount: a full queue, one message in the hands of each task.
static const struct coffer_rt_load g_load = {
    .live_bytes = (QUEUE + 2) * (sizeof(struct message) + LONGEST),
    .live_blocks = QUEUE + 2,
    .smallest = sizeof(struct message),
    .largest = sizeof(struct message) + LONGEST,
    .alignment = 16,
};
static uint8_t g_region[24 * 1024] __attribute__((aligned(16)));
static struct coffer_rt* g_heap;

static struct message* volatile g_queue[QUEUE];
static volatile uint32_t g_put;
static volatile uint32_t g_taken;
static volatile uint32_t g_wrong;

static void lock(void* context) { *(uint32_t*)context = board_interrupts_off(); }
static void unlock(void* context) { board_interrupts_restore(*(uint32_t*)context); }
static void on_error(void* context, enum coffer_rt_error error, const void* block) {
  (void)context;
  (void)error;
  (void)block;
  g_wrong = g_wrong + 1U;
}

void board_task_0(void) {
  for (uint32_t number = 0; number < MESSAGES; ++number) {
    const uint32_t length = (number * 2654435761U >> 16U) % (LONGEST + 1U);
    struct message* message = coffer_rt_alloc(g_heap, sizeof(struct message) + length);
    if (message == NULL) {  // the region has the computed size: cannot be
      board_exit("out of memory\n", 1);
    }
    message->number = number;
    message->length = length;
    for (uint32_t i = 0; i < length; ++i) {
      message->bytes[i] = (uint8_t)(number + i);
    }
    while (g_put - g_taken == QUEUE) {
      board_yield();
    }
    g_queue[g_put % QUEUE] = message;
    board_barrier();
    g_put = g_put + 1U;
  }
  for (;;) {
    board_yield();
  }
}

void board_task_1(void) {
  for (uint32_t number = 0; number < MESSAGES; ++number) {
    while (g_put == g_taken) {
      board_yield();
    }
    struct message* message = g_queue[g_taken % QUEUE];
    board_barrier();
    g_taken = g_taken + 1U;
    if (message->number != number || coffer_rt_usable_size(g_heap, message) < sizeof(*message) + message->length) {
      g_wrong = g_wrong + 1U;
    }
    for (uint32_t i = 0; i < message->length; ++i) {
      if (message->bytes[i] != (uint8_t)(number + i)) {
        g_wrong = g_wrong + 1U;
      }
    }
    (void)coffer_rt_free(g_heap, message);
  }
  if (g_wrong != 0U || coffer_rt_check(g_heap) != COFFER_RT_OK) {
    board_exit("messages or heap are damaged\n", 1);
  }
  if (board_switches() < 100U) {
    board_exit("the tasks did not interrupt each other\n", 1);
  }
  board_exit("20000 messages passed between two tasks\n", 0);
}

void board_start(void) {
  static uint32_t was_enabled;
  const struct coffer_rt_options options = {
      .alignment = 16, .lock = lock, .unlock = unlock, .on_error = on_error, .context = &was_enabled};
  if (coffer_rt_region_bytes(&g_load) > sizeof(g_region)) {
    board_exit("the region is too small for this load\n", 1);
  }
  g_heap = coffer_rt_init(g_region, sizeof(g_region), &options);
  if (g_heap == NULL) {
    board_exit("no heap\n", 1);
  }
}
