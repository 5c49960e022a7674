// SPDX-License-Identifier: MIT
#include "trial/world.hpp"

#include <coffer/coffer.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "inspect/watching.hpp"
#include "os/fake/fake.hpp"
#include "support/check.hpp"
#include "support/pattern.hpp"
#include "trial/blocks.hpp"
#include "trial/clean.hpp"
#include "trial/handle.hpp"
#include "trial/misuse.hpp"
#include "trial/rest.hpp"
#include "trial/room.hpp"

namespace coffer::trial {

namespace {

constexpr u64 kIdleNs = 10'000'000'000;  // the reclaimer needs no more to give back what may not stay
constexpr u64 kLongestCall = 4'000'000;  // steps; the longest that was seen is a tenth of it

class World {
 public:
  World(const Scene& scene, Result* result)
      : scene_(scene), result_(*result), scheduler_(scene.schedule, scene.operations.size() * 60), blocks_(kSlots) {}

  void run() {
    limited_ = scene_.options.find(",limit:") != std::string::npos;
    for (const Operation& one : scene_.operations) {
      work_[one.thread].push_back(&one);
      if (one.action == Action::start) waits_for_start_[one.slot % kMostThreads] = true;
    }
    scheduler_.run([this] { live_first(); });
  }

 private:
  void live_first() {
    began_[0] = true;
    for (u32 thread = 1; thread < kMostThreads; ++thread) {
      if (!waits_for_start_[thread] && !work_[thread].empty()) begin(thread);
    }
    live(0, 0);
    scheduler_.wait(Wait::join);
    note_choices();
    finish();
    result_.whole = true;
  }

  void begin(u32 thread) {
    if (began_[thread]) return;
    began_[thread] = scheduler_.start([this, thread] { live(thread, 0); }) != nullptr;
  }

  void live(u32 thread, usize from) {
    scheduler_.current().part = thread;
    for (usize i = from; i < work_[thread].size(); ++i) {
      const Operation& one = *work_[thread][i];
      scheduler_.boundary();
      result_.operations += 1;
      note_choices();
      if (is_cancelled_[thread] && thread != 0) {
        clean_up();
        break;
      }
      if (one.action != Action::renew) {
        apply(one);
      } else if (thread != 0 && scheduler_.start([this, thread, i] { live(thread, i + 1); }) != nullptr) {
        drop_signals();
        return;
      }
    }
    drop_signals();
    if (is_child_ && thread == part_of_child_) end_child();
  }

 public:
  // A process more, in which this thread alone goes on; it is looked at as any world, and the parent waits for that.
  // Returns true in the child.
  bool fork() {
    const Thread& self = scheduler_.current();
    if (!split(&fork_process)) return false;
    is_child_ = true;
    part_of_child_ = self.part;
    // What is in the hands of threads that are not here is nobody's.
    for (Held& held : blocks_.all()) {
      if (held.busy && held.by != self.number) held = {};
    }
    returns_.ended = returns_.begun;  // they give nothing back any more
    return true;
  }

 private:
  // true: in the process that is more. The other one waits until that has ended well, and is as it was before.
  bool split(long (*make)()) {
    note_choices();
    char before[offsetof(Result, choices)];
    std::memcpy(before, &result_, sizeof before);
    const long child = make();
    if (child == 0) return true;
    int status = 0;
    REQUIRE(child > 0 && waitpid(static_cast<pid_t>(child), &status, 0) == child, "fork failed");
    if (status != 0 && result_.failure[0] != 0) _exit(1);  // it has said why
    REQUIRE(status == 0 && result_.whole, "a child ended with status %#x", static_cast<unsigned>(status));
    g_pulse.hash = (g_pulse.hash ^ result_.hash) * 0x9e3779b97f4a7c15u;
    std::memcpy(static_cast<void*>(&result_), before, sizeof before);
    ++result_.children;
    return false;
  }

  // Static objects give back what they have, and others are made for it, while all other threads go on or are stopped
  // for ever; then what the library does at its end.
  void exit_in_copy(bool others_stop) {
    if (!split(&copy_process)) return;
    // Who starts the process is waited for, as for a lock: then there was a block.
    if (others_stop && largest_ != 0) scheduler_.put_others_to_sleep();
    for (usize i = 0; i < blocks_.all().size(); ++i) {
      if (blocks_[i].busy) continue;
      if (blocks_[i].at != nullptr) {
        release(blocks_[i], false);
      } else if (i % 16 == 0) {
        allocate(blocks_[i], {Action::malloc, 0, static_cast<u32>(i), 1 + i});
      }
    }
    watching_end();
    note_choices();
    result_.whole = true;
    _exit(0);
  }

  // In the child of a process that is none itself: another thread does the second half of what a vanished one had to.
  void take_over(u32 part) {
    if (!work_[part].empty()) scheduler_.start([this, part] { live(part, work_[part].size() / 2); });
  }

  // What a thread that is cancelled does last.
  void clean_up() {
    const u32 self = scheduler_.current().number;
    u32 left = 16;
    for (Held& held : blocks_.all()) {
      if (held.at == nullptr || held.busy || held.by != self) continue;
      release(held, false);
      if (--left == 0) break;
    }
  }

  [[noreturn]] void end_child() {
    scheduler_.wait(Wait::join);  // for those that it started
    note_choices();
    finish();
    result_.whole = true;
    _exit(0);
  }

  void drop_signals() { scheduler_.current().fork_at = scheduler_.current().show_at = 0; }

  void work_on(Held& held) {
    held.busy = true;
    held.by = scheduler_.current().number;
  }

  // Runs one call of the allocator, and sees what must be true of each.
  template <class Call>
  auto call(const Call& body) {
    const u64 before = scheduler_.own_steps(), began = g_pulse.steps;
    scheduler_.current().in_call = true;
    const auto got = body();
    scheduler_.current().in_call = false;
    began_step_ = began;
    const u64 took = scheduler_.own_steps() - before;
    if (took > result_.longest_call) result_.longest_call = took;
    REQUIRE(took < kLongestCall, "a call took %llu steps", static_cast<unsigned long long>(took));
    REQUIRE(scheduler_.current().locks == 0, "a call ended and holds a lock");
    scheduler_.note_progress();
    return got;
  }

  // A NULL has to have a reason: a limit, or that the kernel refused memory since the call began, or when it was asked
  // last (a search that was in vain is not made again until something came back: heap/failure.hpp).
  void expect_reason(usize size) {
    ++result_.nulls;
    const bool refused = memory_is_refused() || (last_failure() >= began_step_ && failed_calls() != 0);
    REQUIRE(refused || limited_ || last_limited_ >= began_step_, "NULL for %zu bytes, without a reason", size);
  }

  void make_heap(usize bytes) {
    if (handle_made_) return;
    handle_made_ = true;
    handle_ = call([&] { return make_handle(bytes); });
  }

  void allocate(Held& held, const Operation& one) {
    if (one.action == Action::by_handle && handle_ == nullptr) return;
    work_on(held);
    const usize alignment = usize{1} << one.alignment_log2;
    const bool aligned = one.action == Action::aligned;
    held.by_handle = one.action == Action::by_handle;
    const usize each = one.size % 4 == 0 ? 4 : 1;
    const Returns returns = returns_;
    void* const at = call([&]() -> void* {
      if (held.by_handle) return coffer_heap_malloc(handle_, one.size);
      if (one.action == Action::calloc) return coffer_calloc(one.size / each, each);
      return aligned ? coffer_aligned_alloc(alignment, one.size) : coffer_malloc(one.size);
    });
    if (at == nullptr) {
      held.busy = false;
      return held.by_handle ? expect_full(handle_, one.size, returns, returns_) : expect_reason(one.size);
    }
    if (one.action == Action::calloc) {
      const usize found = test::find_nonzero(at, one.size);
      REQUIRE(found == test::kPatternGood, "calloc: block %p of %zu bytes is not zero at offset %zu", at,
              static_cast<usize>(one.size), found);
    }
    enter(held, at, one.size, aligned ? alignment : 0);
  }

  void enter(Held& held, void* at, usize size, usize alignment) {
    const usize usable =
        call([&] { return held.by_handle ? coffer_heap_usable_size(handle_, at) : coffer_malloc_usable_size(at); });
    blocks_.enter(held, at, size, usable, alignment);
    if (!held.by_handle) largest_ = std::max(largest_, size);
    held.busy = false;
  }

  // What another thread did before it handed the block over is seen.
  void take(const Held& held) {
    if (held.by != scheduler_.current().number) scheduler_.send_stores_of(held.by);
  }

  void release(Held& held, bool sized) {
    take(held);
    Blocks::verify(held, held.size, "before free");
    const Held old = held;
    blocks_.leave(old);
    work_on(held);
    returns_.begun += old.by_handle;
    call([&] {
      give_back(handle_, old, sized);
      return 0;
    });
    returns_.ended += old.by_handle;
    held = {};
  }

  void reallocate(Held& held, usize size) {
    take(held);
    Blocks::verify(held, held.size, "before realloc");
    const Held old = held;
    blocks_.leave(old);
    work_on(held);
    const Returns returns = returns_;
    returns_.begun += old.by_handle;
    void* const at =
        call([&] { return old.by_handle ? coffer_heap_realloc(handle_, old.at, size) : coffer_realloc(old.at, size); });
    at == nullptr ? returns_.begun -= old.by_handle : returns_.ended += old.by_handle;  // one that failed gave nothing
    Held moved = old;
    if (at != nullptr) moved.at = static_cast<unsigned char*>(at);
    Blocks::verify(moved, at != nullptr && size < old.size ? size : old.size, "after realloc");
    if (at == nullptr) {
      REQUIRE(size > old.usable, "realloc to %zu bytes, which the block has, failed", size);
      old.by_handle ? expect_full(handle_, size, returns, returns_) : expect_reason(size);
    }
    enter(held, moved.at, at != nullptr ? size : old.size, at != nullptr ? 0 : old.alignment);
  }

  void misuse(Held& held, const Operation& one) {
    const bool inside = one.action == Action::freed_inside;
    if (held.busy || held.at == nullptr || held.by_handle || (inside && held.size < 32)) return;
    take(held);
    drop_signals();  // no handler comes in the process that goes wrong
    work_on(held);   // others go on until the process is split off
    commit_misuse(held, inside ? Wrong::freed_inside : Wrong::freed_twice, static_cast<u32>(one.size), blocks_.all());
    held.busy = false;
    ++result_.misuses;
  }

  // Until the slot is full, or nobody can fill it any more.
  void await(const Held& held, u32 thread) {
    for (bool gone = false; !gone && !is_cancelled_[thread] && (held.busy || held.at == nullptr);) {
      scheduler_.wait(Wait::slot);
      gone = scheduler_.current().given_up;
    }
  }

  void set_limit(u64 bytes) {
    limited_ = true;
    ++setting_limit_;
    call([&] { return coffer_set_limit(bytes); });
    --setting_limit_;
    send_own_stores();  // what is known of the limit goes by this order
    // Of two threads that set it at a time the one whose call ends first may have the last word.
    limited_ = coffer_get_limit() != 0 || setting_limit_ != 0;
    last_limited_ = g_pulse.steps;
  }

  void apply(const Operation& one) {
    Held& held = blocks_[one.slot];
    switch (one.action) {
      case Action::malloc:
      case Action::calloc:
      case Action::aligned:
      case Action::by_handle:
        if (!held.busy && held.at == nullptr) return allocate(held, one);
        break;
      case Action::free:
      case Action::free_sized:
        if (!held.busy && held.at != nullptr) return release(held, one.action == Action::free_sized);
        break;
      case Action::realloc:
        if (!held.busy && held.at != nullptr) return reallocate(held, one.size);
        break;
      case Action::verify:
        if (!held.busy && held.at != nullptr) return Blocks::verify(held, held.size, "when looked at");
        break;
      case Action::await:
        await(held, one.thread);
        break;
      case Action::start:
        return begin(one.slot % kMostThreads);
      case Action::renew:
        break;  // see live
      case Action::sleep:
        scheduler_.current().sleep_at = scheduler_.own_steps() + one.size + 1;
        break;
      case Action::tick:
        scheduler_.pass_time(one.size * 1'000'000);
        break;
      case Action::limit:
        set_limit(one.size);
        break;
      case Action::trim:
        call([&] { return coffer_malloc_trim(one.size); });
        break;
      case Action::stats:
        call([&] {
          struct coffer_stats stats = {};
          return coffer_stats(&stats, sizeof stats);
        });
        break;
      case Action::check:
        look(scheduler_.begin_rest(), one.size != 0);
        scheduler_.end_rest();
        break;
      case Action::fork:
        if (one.size != 0) {
          scheduler_.current().fork_at = scheduler_.own_steps() + one.size;
        } else if (const bool child = is_child_; fork() && !child) {
          call([] { return coffer_get_limit(); });  // the child begins here and not in a new thread: known gaps
          take_over((one.thread + 1) % kMostThreads);
        }
        break;
      case Action::cancel:
        is_cancelled_[one.slot % kMostThreads] = true;
        break;
      case Action::exit:
        return exit_in_copy(one.size % 2 != 0);
      case Action::show:
        scheduler_.current().show_at = scheduler_.own_steps() + one.size;
        scheduler_.current().shown = static_cast<Shown>(one.slot % 4);
        break;
      case Action::handle:
        return make_heap(one.size);
      case Action::group:
        set_group_limit(one.size);
        break;
      case Action::cores:
        set_cores(1 + static_cast<u32>(one.size % 64), one.size % 2 != 0);
        break;
      case Action::freed_twice:
      case Action::freed_inside:
        return misuse(held, one);
    }
    scheduler_.wake(Wait::slot);
  }

  // At rest. `outside`: no thread is in the middle of a call. trimmed: after everything that can be was given back.
  void look(bool outside, bool trimmed) {
    for (const Held& held : blocks_.all()) {
      if (held.at != nullptr && !held.busy) Blocks::verify(held, held.size, "at rest");
    }
    if (!outside) return;
    ++result_.rests;
    if (is_child_) coffer_malloc_trim(0);  // a slow call, which settles what threads left that are not here
    expect_nothing_left_behind(is_child_);
    if (trimmed) trim_all();
    REQUIRE(coffer_check() == 0, "coffer_check finds violations");
    expect_room_is_known();
    if (trimmed) expect_clean_is_zero();
    struct coffer_stats stats = {};
    coffer_stats(&stats, sizeof stats);
    // In a child some blocks are lost, which threads had in hand that are not here.
    REQUIRE(trimmed && !is_child_ ? stats.live == blocks_.live() : stats.live >= blocks_.live(),
            "stats say that %zu bytes are live, the program holds %zu", stats.live, blocks_.live());
    REQUIRE(stats.held >= stats.live, "held %zu is less than live %zu", stats.held, stats.live);
  }

  void trim_all() {
    const u64 failed = failed_calls();
    coffer_malloc_trim(0);
    coffer_malloc_trim(0);  // what the first one sent on its way
    if (!is_child_ && scene_.page == kCarvePage && failed_calls() == failed) expect_nothing_resident();
  }

  // All threads but the first have ended: everything is freed, and can be had again though the kernel gives nothing.
  void finish() {
    if (!is_child_) scheduler_.wait(Wait::pause, scheduler_.now() + kIdleNs);
    scheduler_.begin_rest();
    if (!is_child_ && scene_.page == kCarvePage && failed_calls() == 0) expect_little_resident();
    coffer_set_limit(0);
    look(true, false);
    look(true, true);
    for (Held& held : blocks_.all()) {
      if (held.at == nullptr) continue;
      blocks_.leave(held);
      give_back(handle_, held, false);
      held = {};
    }
    if (handle_ != nullptr) expect_sound(handle_, 0, is_child_);
    coffer_heap_destroy(handle_);
    look(true, true);
    expect_room(scene_.kernel.seed, largest_, is_child_);
    // Slots are smaller than larger pages, which go back only whole: each call at the limit walks in vain.
    if (!is_child_ && scene_.page == kCarvePage) expect_limit_holds();
    look(true, true);
    note_choices();
    scheduler_.end_rest();
  }

  void note_choices() {
    result_.steps = g_pulse.steps;
    result_.hash = g_pulse.hash;
    result_.kernel_calls = kernel_calls();
    result_.failed_calls = failed_calls();
    result_.threads = scheduler_.threads_ever();
    result_.most_yields = scheduler_.longest_yields();
    const auto& choices = scheduler_.choices();
    result_.switches = choices.size();
    for (; result_.choices_kept < choices.size() && result_.choices_kept < std::size(result_.choices);
         ++result_.choices_kept) {
      result_.choices[result_.choices_kept] = choices[result_.choices_kept];
    }
  }

  const Scene& scene_;
  Result& result_;
  Scheduler scheduler_;
  Blocks blocks_;
  std::vector<const Operation*> work_[kMostThreads];
  bool waits_for_start_[kMostThreads] = {};
  bool began_[kMostThreads] = {};
  bool is_cancelled_[kMostThreads] = {};
  usize largest_ = 0;
  bool is_child_ = false;
  u32 part_of_child_ = 0;  // of the program
  coffer_heap* handle_ = nullptr;
  Returns returns_;           // to it
  bool handle_made_ = false;  // or it is in the making
  bool limited_ = false;      // there is a limit, or a call that changes it is under way
  u32 setting_limit_ = 0;     // threads whose call changes it
  u64 last_limited_ = 0;      // the step at which the limit changed last
  u64 began_step_ = 0;        // of the call that ended last: no other thread runs between its end and who asks
};

World* g_world;

}  // namespace

void fork_wherever_it_is() { g_world->fork(); }

void run_scene(const Scene& scene, Result* result) {
  if (!scene.options.empty()) setenv("COFFER_CONF", scene.options.c_str(), 1);
  setenv("COFFER_FAKE_PAGE", std::to_string(scene.page).c_str(), 1);
  start_kernel(scene.kernel);
  // Theirs are the machine's own. A copy for an exit is no child.
  os::fake::set_wiped_pages(scene.page == 4096 && !has(scene, Action::exit));
  World world(scene, result);
  g_world = &world;
  world.run();
}

}  // namespace coffer::trial
