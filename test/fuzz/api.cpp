// SPDX-License-Identifier: MIT
// A program from bytes: calls of the whole interface by three threads, one call at a time, so that a run is the same
// each time. Blocks are judged as in test/trial; in the end everything is freed, and coffer_check finds nothing.
#include <coffer/coffer.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>

#include "support/live_ranges.hpp"
#include "support/pattern.hpp"

namespace coffer {
namespace {

constexpr usize kSlots = 64;
constexpr usize kMostLive = usize{4} << 20;
constexpr int kWorkers = 2;

// A thread that does what it is told while its caller waits.
class Worker {
 public:
  Worker()
      : thread_([this] {
          for (;;) {
            begin_.acquire();
            if (!work_) return;
            work_();
            end_.release();
          }
        }) {}
  ~Worker() {
    work_ = nullptr;
    begin_.release();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void run(const std::function<void()>& work) {
    work_ = work;
    begin_.release();
    end_.acquire();
  }

 private:
  std::binary_semaphore begin_{0}, end_{0};
  std::function<void()> work_;
  std::thread thread_;  // last: it uses the others
};
std::unique_ptr<Worker> g_workers[kWorkers];

struct Held {
  unsigned char* at = nullptr;
  usize size = 0, alignment = 0;
  u64 seed = 0;
};

enum class Call : u8 {
  malloc,
  calloc,
  aligned_alloc,
  memalign,
  realloc,
  free,
  free_again,  // commoner than the others
  free_sized,
  limit,
  trim,
  figures,
  check,
  conf,
  renew,
  heap_create,
  heap_malloc,
  heap_realloc,
  heap_free,
  kMaxValue = heap_free
};

class Program {
 public:
  explicit Program(FuzzedDataProvider& data) : data_(data) {}

  void run() {
    while (data_.remaining_bytes() > 2) {
      const u8 thread = data_.ConsumeIntegralInRange<u8>(0, 7);
      const auto call = data_.ConsumeEnum<Call>();
      if (call == Call::renew) {
        g_workers[thread % kWorkers] = std::make_unique<Worker>();
      } else if (thread < kWorkers) {
        g_workers[thread]->run([&] { apply(call); });
      } else {
        apply(call);
      }
    }
    coffer_set_limit(0);
    for (Held& held : slots_) release(held, false);
    check();
    coffer_heap_destroy(heap_);
  }

 private:
  // Each doubling as likely as the others; now and then one that no machine has.
  usize size() {
    const u8 log2 = data_.ConsumeIntegralInRange<u8>(0, 23);
    if (log2 > 21) return ~usize{0} >> data_.ConsumeIntegralInRange<u8>(0, 17);
    return (usize{1} << log2) - 1 + data_.ConsumeIntegral<u32>() % (usize{1} << log2);
  }
  usize alignment() { return usize{1} << data_.ConsumeIntegralInRange<u8>(0, 24); }
  Held& slot() { return slots_[data_.ConsumeIntegral<u8>() % kSlots]; }

  static void verify(const Held& held, usize kept, const char* when) {
    const usize damage = test::find_damage(held.at, held.size, kept, held.seed);
    REQUIRE(damage == test::kPatternGood, "%s: block %p of %zu bytes is damaged at offset %zu", when,
            static_cast<void*>(held.at), held.size, damage);
  }

  void enter(Held& held, void* at, usize size, usize alignment) {
    if (at == nullptr) return;
    ranges_.enter(at, size, coffer_malloc_usable_size(at), alignment);
    held = {static_cast<unsigned char*>(at), size, alignment, ++seed_ * 0x9e3779b97f4a7c15u};
    live_ += size;
    test::fill_pattern(at, size, held.seed);
  }

  void leave(const Held& held) {
    ranges_.leave(held.at);
    live_ -= held.size;
  }

  void release(Held& held, bool sized) {
    if (held.at == nullptr) return;
    verify(held, held.size, "before free");
    leave(held);
    if (!sized) {
      coffer_free(held.at);
    } else if (held.alignment == 0) {
      coffer_free_sized(held.at, held.size);
    } else {
      coffer_free_aligned_sized(held.at, held.alignment, held.size);
    }
    held = {};
  }

  void reallocate(Held& held, usize size) {
    if (held.at == nullptr || (size > kMostLive && size < kHuge)) return;
    verify(held, held.size, "before realloc");
    const Held old = held;
    leave(old);
    void* const at = coffer_realloc(old.at, size);
    if (at == nullptr && size == 0) {
      held = {};
      return;
    }
    Held moved = old;
    if (at != nullptr) moved.at = static_cast<unsigned char*>(at);
    verify(moved, at != nullptr && size < old.size ? size : old.size, "after realloc");
    enter(held, moved.at, at != nullptr ? size : old.size, at != nullptr ? 0 : old.alignment);
  }

  void allocate(Call call, Held& held) {
    if (held.at != nullptr) return;
    const usize bytes = size();
    if (bytes < kHuge && bytes + live_ > kMostLive) return;
    if (call == Call::malloc) return enter(held, coffer_malloc(bytes), bytes, 0);
    if (call == Call::calloc) {
      const usize count = data_.ConsumeBool() ? 1 : data_.ConsumeIntegral<u8>();
      void* const at = coffer_calloc(count, bytes);
      usize product = 0;
      const bool overflow = __builtin_mul_overflow(count, bytes, &product);
      REQUIRE(!overflow || at == nullptr, "calloc(%zu, %zu) gave %p", count, bytes, at);
      if (at == nullptr) return;
      REQUIRE(test::find_nonzero(at, product) == test::kPatternGood, "calloc: block %p is not zero", at);
      return enter(held, at, product, 0);
    }
    const usize wanted = alignment();
    if (call == Call::aligned_alloc) return enter(held, coffer_aligned_alloc(wanted, bytes), bytes, wanted);
    const usize odd = data_.ConsumeBool() ? wanted : data_.ConsumeIntegral<u32>();
    void* at = nullptr;
    const int error = coffer_posix_memalign(&at, odd, bytes);
    const bool good = odd % sizeof(void*) == 0 && odd != 0 && (odd & (odd - 1)) == 0;
    REQUIRE(error == 0 ? good && at != nullptr : error == (good ? ENOMEM : EINVAL), "posix_memalign of %zu: %d", odd,
            error);
    if (error == 0) enter(held, at, bytes, odd);
  }

  void check() {
    REQUIRE(coffer_check() == 0, "coffer_check finds violations");
    REQUIRE(heap_ == nullptr || coffer_heap_check(heap_) == 0, "coffer_heap_check finds violations");
  }

  void look_at_figures() {
    struct coffer_stats stats = {};
    coffer_stats(&stats, data_.ConsumeIntegral<u16>() % (sizeof stats + 1));
    struct coffer_class_stats of_class = {};
    coffer_class_stats(data_.ConsumeIntegral<u8>(), &of_class, sizeof of_class);
    struct coffer_heap_stats of_heap = {};
    coffer_heap_stats(data_.ConsumeIntegral<u8>(), &of_heap, sizeof of_heap);
  }

  void ask_conf() {
    const std::string name = data_.ConsumeRandomLengthString(16);
    char text[32];
    const usize room = data_.ConsumeIntegral<u8>() % sizeof text;
    const int length = coffer_conf(name.c_str(), text, room);
    REQUIRE(
        length < 0 || room == 0 || text[static_cast<usize>(length) < room ? static_cast<usize>(length) : room - 1] == 0,
        "coffer_conf does not end its text");
  }

  void in_heap(Call call) {
    if (call == Call::heap_create) {
      coffer_heap_destroy(heap_);
      for (void*& block : heap_blocks_) block = nullptr;
      struct coffer_heap_options options = {};
      options.min_block = data_.ConsumeBool() ? 0 : usize{1} << data_.ConsumeIntegralInRange<u8>(0, 18);
      options.alignment = data_.ConsumeBool() ? 0 : alignment();
      options.allow_unlocked = 1;
      heap_ = coffer_heap_create(data_.ConsumeIntegral<u32>() % (1u << 17), &options);
      return;
    }
    void*& block = heap_blocks_[data_.ConsumeIntegral<u8>() % kSlots];
    if (heap_ == nullptr) return;
    if (call == Call::heap_free) {
      REQUIRE(coffer_heap_free(heap_, block) == 0, "a block of a heap is refused");
      block = nullptr;
    } else {
      const usize bytes = size();
      if (call == Call::heap_malloc && block != nullptr) return;
      void* const at =
          call == Call::heap_malloc ? coffer_heap_malloc(heap_, bytes) : coffer_heap_realloc(heap_, block, bytes);
      if (at == nullptr) return;
      REQUIRE(coffer_heap_usable_size(heap_, at) >= bytes, "a block of a heap is too short for %zu bytes", bytes);
      block = at;
    }
  }

  void apply(Call call) {
    switch (call) {
      case Call::malloc:
      case Call::calloc:
      case Call::aligned_alloc:
      case Call::memalign:
        return allocate(call, slot());
      case Call::realloc: {
        Held& held = slot();
        return reallocate(held, size());
      }
      case Call::free:
      case Call::free_again:
      case Call::free_sized:
        return release(slot(), call == Call::free_sized);
      case Call::limit:
        coffer_set_limit(data_.ConsumeBool() ? 0 : size());
        return;
      case Call::trim:
        coffer_malloc_trim(size());
        return;
      case Call::figures:
        return look_at_figures();
      case Call::check:
        return check();
      case Call::conf:
        return ask_conf();
      case Call::renew:
        return;
      case Call::heap_create:
      case Call::heap_malloc:
      case Call::heap_realloc:
      case Call::heap_free:
        return in_heap(call);
    }
  }

  static constexpr usize kHuge = usize{1} << 46;  // no machine has so much

  FuzzedDataProvider& data_;
  Held slots_[kSlots];
  test::LiveRanges ranges_;
  usize live_ = 0;
  u64 seed_ = 0;
  struct coffer_heap* heap_ = nullptr;
  void* heap_blocks_[kSlots] = {};
};

}  // namespace
}  // namespace coffer

// Blocks are not the sanitizer's.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t length) {
  for (auto& worker : coffer::g_workers) {
    if (worker == nullptr) worker = std::make_unique<coffer::Worker>();
  }
  FuzzedDataProvider data(bytes, length);
  coffer::Program(data).run();
  return 0;
}
