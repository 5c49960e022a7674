// SPDX-License-Identifier: MIT
#include "trial/grammar.hpp"

#include <algorithm>

#include "os/fake/fake.hpp"
#include "support/random.hpp"
#include "support/sizes.hpp"

namespace coffer::trial {

namespace {

using test::kKiB;
using test::kMiB;
using test::Random;

class Author {
 public:
  Author(u64 seed, u64 length) : random_(seed), length_(length) {}

  std::vector<Operation> write() {
    threads_ = static_cast<u32>(random_.between(1, random_.one_in(3) ? 8 : 4));
    by_handle_ = random_.one_in(8);
    const u64 plays = random_.between(1, 3);
    for (u64 i = 0; i < plays; ++i) {
      // A play has slots of its own, and some threads or all.
      first_ = static_cast<u32>(i) * (kSlots / 4);
      left_ = length_ / plays;
      sizes_ = static_cast<u32>(random_.below(6));
      one_size_ = test::border_size(random_);
      play();
    }
    if (threads_ > 2 && random_.one_in(2)) start_late();
    if (random_.one_in(2)) put_to_sleep();
    sprinkle();
    if (by_handle_) make_handle();
    return join();
  }

 private:
  using Part = std::vector<Operation>;

  u32 any_thread() { return static_cast<u32>(random_.below(threads_)); }
  u32 slot(u64 number) const { return first_ + static_cast<u32>(number % (kSlots / 4)); }

  u64 size() {
    if (random_.one_in(400)) return test::chunk_size(random_, 6 * kMiB);
    if (random_.one_in(60)) return test::slice_run_size(random_);
    switch (sizes_) {
      case 0:
        return one_size_;
      case 1:
        return random_.by_magnitude(1, 64 * kKiB);
      case 2:
        return random_.between(1, 256);
      case 3:
        return random_.between(8 * kKiB, 64 * kKiB);
      default:
        return test::mixed_size(random_) % (512 * kKiB);
    }
  }

  void put(u32 thread, Action action, u32 at, u64 size = 0) {
    Operation one{action, static_cast<u8>(thread), at, size, 0};
    if (action == Action::malloc) {
      const u64 dice = random_.below(20);
      if (dice < 3) one.action = Action::calloc;
      if (dice == 3) {
        one.action = Action::aligned;
        const u32 most = random_.one_in(64) ? 23 : random_.one_in(8) ? 21 : 12;
        one.alignment_log2 = static_cast<u32>(random_.between(4, most));
      }
      if (by_handle_ && dice >= 17) one.action = Action::by_handle;
    }
    if (action == Action::free && random_.one_in(8)) one.action = Action::free_sized;
    parts_[thread].push_back(one);
    if (left_ > 0) --left_;
  }
  void fill(u32 thread, u32 at) { put(thread, Action::malloc, at, size()); }

  void play() {
    switch (random_.below(8)) {
      case 0:
        return serve();
      case 1:
        return phases();
      case 2:
        return pool();
      case 3:
        return ring();
      case 4:
        return crowd();
      case 6:
        return relay();
      case 7:
        return keep_house();
      default:
        return chains();
    }
  }

  // Threads replace blocks at random, their own for the most part.
  void serve() {
    const u64 each = random_.by_magnitude(2, 128);
    while (left_ > 0) {
      const u32 thread = any_thread();
      const u32 lane = random_.one_in(5) ? any_thread() : thread;
      const u32 at = slot(lane * each + random_.below(each));
      put(thread, Action::free, at);
      fill(thread, at);
    }
  }

  // Much is taken, most of it freed in some order, by somebody; then other sizes.
  void phases() {
    while (left_ > 0) {
      const u64 count = random_.by_magnitude(8, 512);
      const u32 maker = any_thread();
      const u32 breaker = random_.one_in(2) ? maker : any_thread();
      one_size_ = test::border_size(random_);
      for (u64 i = 0; i < count; ++i) fill(maker, slot(i));
      const u64 stride = random_.one_in(2) ? 1 : random_.between(1, 9) * 2 + 1;
      const u64 keep = random_.below(12);
      for (u64 i = 0; i < count; ++i) {
        const u32 at = slot(i * stride % count);
        if (breaker != maker && i == 0) put(breaker, Action::await, slot(count - 1));
        if (keep == 0 || !random_.one_in(keep)) put(breaker, Action::free, at);
      }
    }
  }

  // Objects of one size, last in, first out, or first in.
  void pool() {
    const u64 object = random_.by_magnitude(16, 4 * kKiB);
    const u32 thread = any_thread();
    u64 bottom = 0, top = 0;
    while (left_ > 0) {
      const bool grows = top == bottom || random_.below(100) < (top - bottom > 200 ? 30 : 60);
      if (grows) {
        put(thread, Action::malloc, slot(top++), object);
      } else {
        put(thread, Action::free, random_.one_in(3) ? slot(bottom++) : slot(--top));
      }
    }
  }

  // One makes, the next one frees, or hands on.
  void ring() {
    const u64 length = random_.by_magnitude(4, 256);
    const u32 maker = any_thread();
    const u32 taker = (maker + 1) % threads_;
    for (u64 i = 0; left_ > 0; ++i) {
      fill(maker, slot(i % length));
      if (maker != taker) put(taker, Action::await, slot(i % length));
      put(taker, Action::free, slot(i % length));
    }
  }

  // Every thread leaves blocks behind that the others free.
  void crowd() {
    const u64 each = random_.by_magnitude(8, 200);
    while (left_ > 0) {
      for (u32 thread = 0; thread < threads_; ++thread) {
        for (u64 i = 0; i < each; ++i) fill(thread, slot(thread * each + i));
      }
      for (u32 thread = 0; thread < threads_; ++thread) {
        const u32 of = random_.one_in(3) ? thread : any_thread();
        for (u64 i = 0; i < each; ++i) put(thread, Action::free, slot(of * each + i));
      }
    }
  }

  // Blocks of spans that have few, taken by one thread and freed by all others at once.
  void relay() {
    one_size_ = random_.between(2 * kKiB, 32 * kKiB);
    sizes_ = 0;
    const u32 maker = any_thread();
    while (left_ > 0) {
      const u64 count = random_.between(4, 40);
      for (u64 i = 0; i < count; ++i) put(maker, Action::malloc, slot(i), one_size_);
      for (u32 thread = 0; thread < threads_; ++thread) {
        if (thread == maker && random_.one_in(2)) continue;
        const u64 first = random_.below(count);
        for (u64 i = 0; i < count; ++i) {
          if (random_.one_in(2)) put(thread, Action::free, slot((first + i) % count));
        }
      }
    }
  }

  // One thread takes from all heaps, again and again, what others are at work on: few blocks, freed by anybody.
  void keep_house() {
    const u32 keeper = any_thread();
    const u64 each = random_.by_magnitude(4, 64);
    if (random_.one_in(2)) sizes_ = 0;
    const u64 lives = random_.one_in(2) ? 5 : 40;  // threads may end every few operations
    while (left_ > 0) {
      const u32 busy = any_thread();  // most is this one's to do
      for (u64 i = random_.between(2, 2 * each); i > 0 && left_ > 0; --i) {
        const u32 thread = random_.one_in(2) ? busy : any_thread();
        const u32 at = slot(random_.below(threads_ * each));
        if (random_.one_in(lives)) put(thread, Action::renew, 0);
        if (random_.one_in(2)) {
          put(thread, Action::free, at);
        } else {
          fill(thread, at);
        }
      }
      put(keeper, random_.one_in(4) ? Action::tick : Action::trim, 0, random_.one_in(4) ? 600 : 0);
    }
  }

  // Blocks that grow step by step and shrink: from nothing, or as large ones that stay so.
  void chains() {
    const u64 count = random_.between(1, 12);
    const u32 thread = any_thread();
    const u64 largest = random_.one_in(4) ? 4 * kMiB : random_.by_magnitude(kKiB, 300 * kKiB);
    const u64 least = random_.one_in(2) ? 16 : 1 + largest / 16;
    std::vector<u64> now(count, least);
    for (u64 i = 0; i < count; ++i) put(thread, Action::malloc, slot(i), now[i]);
    while (left_ > 0) {
      const u64 i = random_.below(count);
      const u64 less = random_.one_in(2) ? now[i] / random_.between(2, 9) : now[i] - random_.below(1 + now[i] / 2);
      const u64 more = random_.one_in(2) ? random_.below(1 + now[i]) : random_.by_magnitude(1, 1 + now[i]);
      now[i] = random_.one_in(4) ? 1 + less : now[i] + more;
      if (now[i] > largest || now[i] < least) now[i] = least;
      put(random_.one_in(10) ? any_thread() : thread, Action::realloc, slot(i), now[i]);
      if (random_.one_in(10)) fill(thread, slot(count + random_.below(50)));
      if (random_.one_in(12)) put(thread, Action::free, slot(random_.below(count + 50)));
    }
  }

  void insert(u32 thread, const Operation& one) {
    Part& part = parts_[thread];
    part.insert(part.begin() + static_cast<std::ptrdiff_t>(random_.below(part.size() + 1)), one);
  }

  // Threads that others start in the middle of what they do; by then some may have ended.
  void start_late() {
    for (u32 thread = 1; thread < threads_; ++thread) {
      if (!random_.one_in(2)) continue;
      const u32 starter = static_cast<u32>(random_.below(thread));
      insert(starter, {Action::start, static_cast<u8>(starter), thread, 0});
    }
  }

  void put_to_sleep() {
    for (u64 i = random_.between(1, 3); i > 0; --i) {
      const u32 thread = any_thread();
      insert(thread, {Action::sleep, static_cast<u8>(thread), 0, random_.by_magnitude(1, 400)});
    }
  }

  // What happens seldom, to any thread.
  void sprinkle() {
    const auto some = [&](u64 one_in, u64 most, Action action, const auto& number) {
      if (!random_.one_in(one_in)) return;
      for (u64 i = random_.between(1, most); i > 0; --i) {
        const u32 thread = any_thread();
        insert(thread, {action, static_cast<u8>(thread), static_cast<u32>(random_.below(200)), number()});
      }
    };
    some(2, 16, Action::renew, [&] { return u64{0}; });
    some(2, 8, Action::tick, [&] { return random_.by_magnitude(1, random_.one_in(4) ? 100'000'000 : 2000); });
    some(4, 4, Action::limit, [&] { return random_.one_in(3) ? 0 : random_.by_magnitude(kMiB, 64 * kMiB); });
    some(4, 3, Action::trim, [&] { return random_.below(2) * kMiB; });
    some(6, 3, Action::stats, [&] { return u64{0}; });
    some(2, 4, Action::check, [&] { return random_.below(2); });
    // A handler that forks, and has interrupted a call of a heap by handle, waits for that call for ever.
    some(6, 2, Action::fork, [&] { return by_handle_ || random_.one_in(3) ? 0 : random_.by_magnitude(1, 400); });
    some(6, 4, Action::group, [&] { return random_.one_in(3) ? 0 : random_.by_magnitude(kMiB, 64 * kMiB); });
    some(8, 2, Action::cancel, [&] { return u64{0}; });
    some(8, 1, Action::exit, [&] { return random_.below(2); });
    some(6, 60, Action::show, [&] { return random_.by_magnitude(1, 400); });
    some(6, 4, Action::cores, [&] { return random_.below(128); });
    some(8, 2, Action::freed_twice, [&] { return random_.below(60); });
    some(8, 2, Action::freed_inside, [&] { return u64{0}; });
  }

  // Early, for most: what comes before takes its blocks from nowhere.
  void make_handle() {
    const u32 thread = any_thread();
    Part& part = parts_[thread];
    const auto at = static_cast<std::ptrdiff_t>(random_.below(part.size() / 4 + 1));
    part.insert(part.begin() + at, {Action::handle, static_cast<u8>(thread), 0, random_.by_magnitude(8 * kKiB, kMiB)});
  }

  std::vector<Operation> join() {
    std::vector<Operation> all;
    for (const Part& part : parts_) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  Random random_;
  const u64 length_;
  u64 left_ = 0;
  u32 threads_ = 1, first_ = 0, sizes_ = 0;
  bool by_handle_ = false;
  u64 one_size_ = 16;
  Part parts_[kMostThreads];
};

std::string draw_options(Random& random) {
  constexpr const char* kHuge[] = {"huge:never", "huge:never", "huge:auto", "huge:always"};
  std::string options = kHuge[random.below(std::size(kHuge))];
  const auto add = [&](u64 one_in, const char* const(&values)[3]) {
    if (random.one_in(one_in)) options += std::string(",") + values[random.below(3)];
  };
  add(2, {"slack:0", "slack:4K", "slack:1M"});
  add(2, {"free_limit:0", "free_limit:256K", "free_limit:1M"});
  add(3, {"mixed:never", "mixed:always", "mixed:always"});
  add(2, {"shards:1", "shards:2", "shards:8"});
  add(3, {"arena:64M", "arena:256M", "arena:1G"});
  add(4, {"placement:flat", "placement:flat", "colour:false"});
  add(4, {"span:64K", "span:256K", "align:all"});
  add(4, {"empty_fraction:1/2", "empty_fraction:1/8", "empty_fraction:1/16"});
  add(4, {"reclaimer:false", "reclaimer:false", "cgroup:false"});
  add(3, {"share_signal:10", "share_signal:10", "share_signal:12"});
  add(6, {"limit:4M", "limit:16M", "limit:64M"});
  return options;
}

Kernel draw_kernel(Random& random, u64 length, bool faults) {
  Kernel kernel;
  kernel.seed = random.next() % 1'000'000;
  kernel.processors = static_cast<u32>(random.by_magnitude(1, 64));
  kernel.roams = random.one_in(4);
  kernel.sparse = random.one_in(4);
  kernel.torn = random.one_in(2);
  kernel.barrier = !random.one_in(6);
  if (random.one_in(6)) kernel.memory_limit = random.by_magnitude(2 * kMiB, 128 * kMiB);
  const u64 calls = 4 + length / 20;  // about as many are made
  if (faults && random.one_in(2)) {
    for (u64 i = random.between(1, 6); i > 0; --i) {
      // Often the first calls, which start everything.
      kernel.faults.push_back({random.by_magnitude(1, calls), Effect::fail, random.by_magnitude(1, 30)});
    }
  }
  if (faults && random.one_in(4)) {
    // Something is refused from then on, as by a filter of system calls, or for long.
    const u32 kind = 1u << random.below(os::fake::kKinds);
    const u64 count = random.one_in(2) ? 1'000'000 : random.by_magnitude(20, 1000);
    kernel.faults.push_back({random.by_magnitude(1, calls), Effect::fail, count, kind});
  }
  if (random.one_in(3)) {
    for (u64 i = random.between(1, 4); i > 0; --i) {
      kernel.faults.push_back({random.by_magnitude(1, calls), Effect::slow, random.by_magnitude(50, 20'000)});
    }
  }
  return kernel;
}

}  // namespace

Scene draw(u64 seed, u64 length, bool faults) {
  Random random(seed);
  Scene scene;
  length = random.by_magnitude(std::max<u64>(1, length / 8), length);
  scene.options = draw_options(random);
  scene.page = random.one_in(4) ? u64{16} * kKiB << random.below(2) * 2 : 4 * kKiB;
  scene.kernel = draw_kernel(random, length, faults);
  scene.schedule.order = random.one_in(3) ? Order::pct : Order::walk;
  scene.schedule.seed = random.next() % 1'000'000'000;
  scene.schedule.rate =
      static_cast<u32>(scene.schedule.order == Order::pct ? random.between(1, 40) : random.by_magnitude(10, 5000));
  scene.operations = Author(random.next(), length).write();
  constexpr Memory kMemories[] = {Memory::at_once, Memory::as_x86, Memory::as_arm};
  scene.schedule.memory = kMemories[random.below(std::size(kMemories))];
  return scene;
}

}  // namespace coffer::trial
