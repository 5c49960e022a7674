// SPDX-License-Identifier: MIT
#include <memory>

#include "analyse/export.hpp"
#include "analyse/json.hpp"
#include "analyse/rt_heap.h"
#include "analyse/shortfall.hpp"
#include "analyse/text_file.hpp"
#include "replay/flat_map.hpp"

namespace coffer::analyse {

using trace::Error;
using trace::Event;
using trace::Op;
using trace::Reader;

namespace {

constexpr u64 kLeastHeap = 64, kMostHeap = u64{1} << 30;
constexpr u64 kLeastBlock = 16;  // of both policies
constexpr double kMostRate = 1000;
constexpr u64 kMostGap = 100'000'000;  // that the hardware's bench reads

// What a program does between two calls, in cycles of the hardware's logic.
class Gaps {
 public:
  explicit Gaps(const RtOptions& options) : options_(options) {}

  // The cycles from the last call to this one.
  u64 until(const Event& event) {
    const double ns = has_begun_ && event.time > last_ ? static_cast<double>(event.time - last_) : 0;
    last_ = event.time;
    has_begun_ = true;
    if ((event.flags & trace::kCounted) != 0) {
      ++counted_;
      left_ += static_cast<double>(event.instructions) * options_.cycles_per_instruction;
    } else {
      left_ += ns * options_.cycles_per_ns;
    }
    if (left_ >= static_cast<double>(options_.longest)) {
      left_ = 0;
      ++shortened_;
      return options_.longest;
    }
    const u64 cycles = static_cast<u64>(left_);
    left_ -= static_cast<double>(cycles);
    return cycles;
  }

  [[nodiscard]] u64 counted() const { return counted_; }
  [[nodiscard]] u64 shortened() const { return shortened_; }

 private:
  RtOptions options_;
  bool has_begun_ = false;
  u64 last_ = 0, counted_ = 0, shortened_ = 0;
  double left_ = 0;
};

struct EndHeap {
  void operator()(rt_heap* heap) const { rt_heap_end(heap); }
};

class Vectors {
 public:
  Vectors(const std::string& to, const RtOptions& options)
      : out_(to), options_(options), heap_(rt_heap_make(options.is_knuth ? 1 : 0, options.heap)) {
    if (heap_ == nullptr) throw Error("no memory for a heap of " + std::to_string(options.heap) + " bytes");
    out_.put("# coffer-rt vectors 1\npolicy %s\nheap %llu\nmin %llu\n", options.is_knuth ? "knuth" : "estranged",
             static_cast<unsigned long long>(options.heap), static_cast<unsigned long long>(kLeastBlock));
  }

  void pause(u64 cycles) {
    if (cycles != 0) out_.put("g %llu\n", static_cast<unsigned long long>(cycles));
  }
  void allocate(u64 block, u64 size) {
    // What no heap can have is asked for as a request that it has to refuse.
    const u64 asked = size < options_.heap ? size : options_.heap;
    const std::uint32_t offset = rt_heap_alloc(heap_.get(), asked);
    out_.put("a %llu %08x\n", static_cast<unsigned long long>(asked), offset);
    ++requests_;
    if (offset == RT_HEAP_NO_BLOCK) ++refused_;
    if (offset != RT_HEAP_NO_BLOCK) live_.insert(block, offset);
  }
  void release(u64 block) {
    if (live_.find(block) == nullptr) return;  // it was refused
    give_back(live_.take(block));
  }
  void reallocate(u64 block, u64 size) {
    const std::uint32_t* const known = live_.find(block);
    const std::uint32_t old = known == nullptr ? RT_HEAP_NO_BLOCK : live_.take(block);
    allocate(block, size);
    if (old != RT_HEAP_NO_BLOCK) give_back(old);
  }

  std::string finish(const Gaps& gaps) {
    if (rt_heap_check(heap_.get()) != 0) throw Error("the heap is damaged");
    for (u64 at = 0; at < options_.heap;) {
      const std::uint32_t header = rt_heap_header(heap_.get(), static_cast<std::uint32_t>(at));
      out_.put("h %08x %08x\n", static_cast<unsigned>(at), header);
      const u64 bytes = header & ~1u;
      if (bytes == 0) throw Error("the heap is damaged");
      at += bytes;
    }
    out_.close();
    Json json;
    json.open('{').number("requests", requests_).number("refused", refused_).number("frees", frees_);
    json.number("live_at_end", live_.size());
    if (options_.gaps) json.number("gaps_counted", gaps.counted()).number("gaps_shortened", gaps.shortened());
    return json.close('}').text();
  }

 private:
  void give_back(std::uint32_t offset) {
    if (rt_heap_free(heap_.get(), offset) != 0) throw Error("the heap does not take a block back");
    out_.put("f %08x\n", offset);
    ++frees_;
  }

  TextFile out_;
  RtOptions options_;
  std::unique_ptr<rt_heap, EndHeap> heap_;
  replay::FlatMap<std::uint32_t> live_;
  u64 requests_ = 0, refused_ = 0, frees_ = 0;
};

}  // namespace

std::string export_rt(const std::string& from, const std::string& to, const RtOptions& options) {
  const bool is_power = options.heap != 0 && (options.heap & (options.heap - 1)) == 0;
  if (!is_power || options.heap < kLeastHeap || options.heap > kMostHeap) {
    throw Error("the heap's bytes: a power of two from 64 to 2^30");
  }
  const auto is_rate = [](double rate) { return rate >= 0 && rate <= kMostRate; };
  if (!is_rate(options.cycles_per_instruction) || !is_rate(options.cycles_per_ns)) {
    throw Error("cycles an instruction or a nanosecond: from 0 to 1000");
  }
  if (options.longest > kMostGap) throw Error("the longest gap: at most 100000000 cycles");
  if (to == "-") throw Error("vectors go to a file");
  Reader reader(trace::open_file(from));
  Vectors vectors(to, options);
  Gaps gaps(options);
  for (Event event; reader.next(event);) {
    if (!trace::has_block(event.op) || (event.flags & trace::kFailed) != 0) continue;
    if (options.gaps) vectors.pause(gaps.until(event));
    if (event.op == Op::free) {
      vectors.release(event.block);
    } else if (event.op == Op::realloc) {
      vectors.reallocate(event.block, event.size);
    } else {
      vectors.allocate(event.block, event.size);
    }
  }
  say_shortfall(from, reader);
  return vectors.finish(gaps);
}

}  // namespace coffer::analyse
