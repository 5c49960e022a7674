// SPDX-License-Identifier: MIT
#include "scene.hpp"

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace attack {
namespace {

// Neighbours and traffic may be this many bytes at most, so that no cell needs much memory.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostBlocks = 4'000;
constexpr std::size_t kLeastBlocks = 32;
constexpr std::size_t kFirstSize = 8;
constexpr int kRounds = 4;
constexpr unsigned kMostSeconds = 120;

Ledger the_ledger;
Helper second;
Helper third;
bool crime_is_done = false;

// A report that comes late may come too late: the ledger knows.
void on_abort(int) {
  if (!crime_is_done) return;
  const char* how = the_ledger.harm();
  if (how != nullptr) conformance::note("end harmed %s before the report", how);
}

void end_quietly() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // A crime may end in a loop. The runner waits for less; this is for one whose runner is gone.
  alarm(kMostSeconds);
  struct sigaction action = {};
  action.sa_handler = on_abort;
  sigaction(SIGABRT, &action, nullptr);
}

void say_library() {
  Dl_info info = {};
  CHECK(dladdr(conformance::symbol("malloc"), &info) != 0);
  conformance::note("library %s", info.dli_fname);
}

}  // namespace

void Helper::start() {
  started_ = true;
  pthread_t thread;
  CHECK(pthread_create(
            &thread, nullptr,
            [](void* helper) -> void* {
              static_cast<Helper*>(helper)->serve();
              return nullptr;
            },
            this) == 0);
}

void Helper::serve() {
  // It has a heap of its own, as a thread at work has.
  ::free(hide(malloc(100)));
  pthread_mutex_lock(&lock_);
  for (;;) {
    while (function_ == nullptr) pthread_cond_wait(&changed_, &lock_);
    function_(argument_);
    function_ = nullptr;
    pthread_cond_broadcast(&changed_);
  }
}

void Helper::run(void (*function)(void*), void* argument) {
  pthread_mutex_lock(&lock_);
  if (!started_) start();
  function_ = function;
  argument_ = argument;
  pthread_cond_broadcast(&changed_);
  while (function_ != nullptr) pthread_cond_wait(&changed_, &lock_);
  pthread_mutex_unlock(&lock_);
}

Ledger& Scene::ledger() { return the_ledger; }

Scene::Scene(std::size_t own)
    : size_(static_cast<std::size_t>(conformance::argument_number(0))),
      neighbours_(static_cast<std::size_t>(conformance::argument_number(1))),
      two_(conformance::argument_number(2) == 2) {
  CHECK(size_ > 0 && own <= kOwn, "attack CRIME SIZE NEIGHBOURS THREADS");
  end_quietly();
  say_library();
  void* memory = mmap(nullptr, kOwn * sizeof(void*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  own_ = static_cast<void**>(memory);
  neighbours_ = std::min(neighbours_, kMostBytes / size_);
  if (two_) second.run([](void*) {}, nullptr);
  take_many(neighbours_ / 2, size_);
  for (std::size_t i = 0; i < own; ++i) own_[i] = take(size_);
  take_many(neighbours_ - neighbours_ / 2, size_);
}

void Scene::needs_two_threads() const {
  if (!two_) no_case("it takes two threads");
}

void Scene::needs_first_size() const {
  if (size_ != kFirstSize) no_case("it is the same for every size");
}

void* Scene::take(std::size_t size) {
  void* block = hide(malloc(size));
  ledger().add(block, size);
  return block;
}

void Scene::give(void* block) {
  ledger().remove(block);
  ::free(hide(block));
}

void Scene::free_here(void* block) { ::free(hide(block)); }

void Scene::free_by_second(void* block) {
  second.run([](void* given) { ::free(hide(given)); }, block);
}

void Scene::free_by_third(void* block) {
  third.run([](void* given) { ::free(hide(given)); }, block);
}

void Scene::free(void* block) {
  if (two_) return free_by_second(block);
  free_here(block);
}

Scene::Pair Scene::closest() {
  const Block* all = ledger().sorted();
  Pair found = {};
  std::size_t best = ~std::size_t{0};
  for (std::size_t i = 0; i + 1 < ledger().count(); ++i) {
    const auto gap = static_cast<std::size_t>(all[i + 1].address - (all[i].address + all[i].size));
    // The last such pair: the first blocks of a small process are not as all others are.
    if (gap > best) continue;
    best = gap;
    found = {&all[i], &all[i + 1]};
  }
  if (best == ~std::size_t{0}) no_case("it takes two blocks");
  return found;
}

void Scene::crime(const void* address) {
  ledger().check();
  conformance::note("crime %p", address);
}

void Scene::done() {
  crime_is_done = true;
  conformance::note("done");
}

std::size_t Scene::many(std::size_t size) const {
  return std::max(kLeastBlocks, std::min(kMostBlocks, kMostBytes / 4 / std::max(size, std::size_t{1})));
}

void Scene::take_many(std::size_t count, std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) take(size);
}

void Scene::give_one_in(std::size_t step) {
  // By lot, so that blocks whose place is even do not go in each round; the same lots in each run.
  static conformance::Random lots(1);
  const std::size_t live = ledger().count();
  const Block* all = ledger().sorted();
  for (std::size_t i = 0; i < live; ++i) {
    if (lots.below(step) == 0) give(all[i].address);
  }
}

void Scene::traffic() {
  const std::size_t live = ledger().count();
  give_one_in(2);
  take_many(live / 2 + many(size_) / 8, size_);
}

void Scene::busy_second() {
  second.run(
      [](void* scene) {
        auto& self = *static_cast<Scene*>(scene);
        const std::size_t other = self.size() * 2 + 8;
        self.take_many(self.many(other), other);
      },
      this);
}

void Scene::traffic_of_second() {
  give_one_in(4);
  take_many(many(size_), size_);
}

// Allocators keep what is free of a full span, a chain or a cache to themselves for a while. So half of all blocks go,
// also those beside the victim, and as many come back, some times. Not before the last time may the allocator tidy up:
// that may mend what the crime broke, or bring it to light.
void Scene::aftermath() {
  ledger().check();
  take_many(many(size_) / 4, size_);
  ledger().check();
  for (int round = 1; round <= kRounds; ++round) {
    traffic();
    ledger().check();
    if (two_) second.run([](void* scene) { static_cast<Scene*>(scene)->traffic_of_second(); }, this);
    ledger().check();
    if (round < kRounds - 1) continue;
    if (two_) second.run([](void*) { malloc_trim(0); }, nullptr);
    malloc_trim(0);
  }
  for (const std::size_t other : {size_ / 4 + 1, size_ / 2 + 1, size_ * 2 + 8, size_ * 4 + 64}) {
    take_many(many(other) / 8, other);
  }
  take_many(many(size_), size_);
  give_one_in(3);
  take_many(many(size_), size_);
  ledger().check();
  harmless();
}

}  // namespace attack
