// SPDX-License-Identifier: MIT
// 1,000 threads that each once used 1 MB, freed it and now sleep: what does each of them hold? Their stacks do not
// count: memory is first taken when all threads have started and touched as much stack as the work will need, and
// nothing is allocated.
//
// churn=1: threads start, work and end, one after the other, 10,000 in all: does memory grow?
#include "pattern.hpp"

namespace {

struct State {
  size_t bytes, rounds;
  pattern::Mix mix;
  pattern::Blocks blocks;  // the threads work one after the other
  sem_t ready, work, worked;
};

State state;

// As deep as any allocator goes.
__attribute__((noinline)) void touch_stack() {
  volatile char bytes[24 * 1024];
  for (size_t i = 0; i < sizeof bytes; i += 512) bytes[i] = 1;
}

void use_memory(size_t index) {
  pattern::Random random(500 + index);
  for (size_t i = 0; i < state.rounds; ++i) {
    state.blocks.fill(state.bytes, state.mix, random);
    state.blocks.shuffle(random);
    state.blocks.release_all();
  }
}

void* work_and_sleep(void* argument) {
  touch_stack();
  sem_post(&state.ready);
  pattern::wait(state.work);
  use_memory(reinterpret_cast<size_t>(argument));
  sem_post(&state.worked);
  pattern::sleep_for_ever();
}

void* work_and_end(void* argument) {
  touch_stack();
  use_memory(reinterpret_cast<size_t>(argument));
  return nullptr;
}

pthread_t start(void* (*body)(void*), size_t index) {
  pthread_attr_t attributes;
  pthread_t thread;
  pattern::require(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 256 * 1024) == 0,
                   "no attributes");
  pattern::require(pthread_create(&thread, &attributes, body, reinterpret_cast<void*>(index)) == 0,
                   "cannot start a thread");
  pthread_attr_destroy(&attributes);
  return thread;
}

void run_idle(pattern::Figures& figures, size_t threads, size_t quiet_ms) {
  for (size_t i = 0; i < threads; ++i) {
    start(work_and_sleep, i);
    pattern::wait(state.ready);
  }
  double base = static_cast<double>(figures.now());
  for (size_t i = 0; i < threads; ++i) {
    sem_post(&state.work);
    pattern::wait(state.worked);
  }
  figures.sample(state.bytes);
  double at_once = static_cast<double>(figures.now());
  pattern::sleep_ms(quiet_ms);
  size_t end = figures.now();
  double count = static_cast<double>(threads);
  figures.add("base_kib", base);
  figures.add("at_once_bytes_a_thread", (at_once - base) * 1024 / count);
  figures.add("bytes_a_thread", (static_cast<double>(end) - base) * 1024 / count);
  figures.report(end);
}

void run_churn(pattern::Figures& figures, size_t threads) {
  size_t early = 0;
  for (size_t i = 0; i < threads; ++i) {
    pthread_join(start(work_and_end, i), nullptr);
    if (i + 1 == threads / 10) {
      figures.sample(state.bytes);
      early = figures.now();
    }
  }
  figures.sample(state.bytes);
  figures.add("early_kib", static_cast<double>(early));
  figures.add("growth_kib", static_cast<double>(figures.now()) - static_cast<double>(early));
  figures.report(figures.now());
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  bool churn = arguments.number("churn", 0) != 0;
  pattern::Figures figures(churn ? "thread_churn" : "idle_threads");
  size_t threads = arguments.number("threads", churn ? 10'000 : 1'000);
  state.bytes = arguments.number("bytes", churn ? 100'000 : 1'000'000);
  state.rounds = arguments.number("rounds", churn ? 1 : 3);
  state.mix = {arguments.number("low", 16), arguments.number("high", 32768), true};
  size_t quiet_ms = arguments.number("quiet_ms", 2000);
  arguments.done();

  for (sem_t* semaphore : {&state.ready, &state.work, &state.worked}) sem_init(semaphore, 0, 0);
  state.blocks.make(state.bytes / 16);
  figures.own_memory_done();
  if (churn) {
    run_churn(figures, threads);
  } else {
    run_idle(figures, threads, quiet_ms);
  }
  _exit(0);
}
