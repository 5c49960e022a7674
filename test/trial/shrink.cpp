// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

#include "support/stretches.hpp"
#include "trial/driver.hpp"

namespace coffer::trial {

namespace {

using Clock = std::chrono::steady_clock;

// Another program runs in another order, so each is tried with some: the one that failed last, and new ones.
constexpr u64 kOrders = 6;

// What went wrong, without addresses, sizes and lines: a shorter world that fails by something else is another one.
std::string kind_of(const std::string& how) {
  std::istringstream words(how);
  std::string kind;
  for (std::string word; words >> word;) {
    if (word.find_first_of("0123456789") == std::string::npos) kind += word + ' ';
  }
  return kind;
}

class Shrinker {
 public:
  Shrinker(Scene scene, const Verdict& verdict, u32 seconds)
      : scene_(std::move(scene)),
        kind_(kind_of(verdict.how)),
        end_(Clock::now() + std::chrono::seconds(seconds)),
        result_(new Result) {}

  Scene run() {
    if (scene_.schedule.order != Order::given) {
      for (usize before = ~usize{0}; size() < before && in_time();) {
        before = size();
        remove_threads();
        remove(scene_.operations);
        remove(scene_.kernel.faults);
      }
      plainer();
      cut_short_ = !in_time();
      if (!give_switches()) return scene_;
    }
    end_ += std::chrono::seconds(10);  // the switches are worth some time of their own
    one_order_ = true;
    remove(scene_.schedule.switches);
    remove(scene_.kernel.faults);
    cut_short_ = cut_short_ || !in_time();
    return scene_;
  }
  bool cut_short() const { return cut_short_; }

 private:
  bool in_time() const { return Clock::now() < end_; }
  usize size() const { return scene_.operations.size() + scene_.kernel.faults.size(); }

  bool fails(const Scene& scene) {
    const Verdict verdict = run_one(scene, result_.get());
    return verdict.failed && kind_of(verdict.how) == kind_;
  }

  bool take(Scene candidate) {
    const u64 first = candidate.schedule.seed;
    for (u64 order = 0; order < (one_order_ ? 1 : kOrders) && in_time(); ++order) {
      candidate.schedule.seed = order == 0 ? first : 1000 + order;
      if (!fails(candidate)) continue;
      scene_ = std::move(candidate);
      return true;
    }
    return false;
  }

  // Of a list of the scene, as much as can be.
  template <class T>
  void remove(std::vector<T>& list) {
    test::remove_stretches(
        list,
        [&](std::vector<T> rest) {
          Scene candidate = scene_;
          swap_in(candidate, std::move(rest));
          return take(std::move(candidate));
        },
        [&] { return in_time(); });
  }
  static void swap_in(Scene& scene, std::vector<Operation> rest) { scene.operations = std::move(rest); }
  static void swap_in(Scene& scene, std::vector<Fault> rest) { scene.kernel.faults = std::move(rest); }
  static void swap_in(Scene& scene, std::vector<Switch> rest) { scene.schedule.switches = std::move(rest); }

  void remove_threads() {
    for (u32 thread = 0; thread < kMostThreads && in_time(); ++thread) {
      Scene candidate = scene_;
      auto& all = candidate.operations;
      all.erase(std::remove_if(all.begin(), all.end(), [&](const Operation& one) { return one.thread == thread; }),
                all.end());
      if (all.size() < scene_.operations.size()) take(std::move(candidate));
    }
  }

  // Options and kernel as they are without a word.
  void plainer() {
    const auto attempt = [&](const auto& change) {
      Scene candidate = scene_;
      change(candidate);
      take(std::move(candidate));
    };
    attempt([](Scene& one) { one.options = "huge:never"; });
    for (usize comma = scene_.options.size(); (comma = scene_.options.rfind(',', comma)) != std::string::npos;) {
      Scene candidate = scene_;
      const usize next = candidate.options.find(',', comma + 1);
      candidate.options.erase(comma, next == std::string::npos ? next : next - comma);
      take(std::move(candidate));
      if (comma-- == 0) break;
    }
    attempt([](Scene& one) { one.schedule.memory = Memory::at_once; });
    attempt([](Scene& one) { one.page = 4096; });
    attempt([](Scene& one) { one.kernel.torn = false; });
    attempt([](Scene& one) { one.kernel.roams = one.kernel.sparse = false; });
    attempt([](Scene& one) { one.kernel.memory_limit = 0; });
    attempt([](Scene& one) { one.kernel.barrier = true; });
    attempt([](Scene& one) { one.kernel.processors = 1; });
  }

  // From a seed to the list of what was chosen.
  bool give_switches() {
    if (!fails(scene_) || result_->choices_kept < result_->switches) return false;
    Scene candidate = scene_;
    candidate.schedule.order = Order::given;
    candidate.schedule.switches.assign(result_->choices, result_->choices + result_->choices_kept);
    if (!fails(candidate)) return false;
    scene_ = std::move(candidate);
    return true;
  }

  Scene scene_;
  const std::string kind_;
  Clock::time_point end_;
  std::unique_ptr<Result> result_;
  bool one_order_ = false;
  bool cut_short_ = false;
};

}  // namespace

Scene shrink(Scene scene, const Verdict& verdict, u32 seconds, bool* cut_short) {
  Shrinker shrinker(std::move(scene), verdict, seconds);
  Scene least = shrinker.run();
  *cut_short = shrinker.cut_short();
  return least;
}

}  // namespace coffer::trial
