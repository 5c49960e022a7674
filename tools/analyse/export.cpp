// SPDX-License-Identifier: MIT
#include "analyse/export.hpp"

#include <cinttypes>
#include <map>

#include "analyse/json.hpp"
#include "analyse/shortfall.hpp"
#include "analyse/text_file.hpp"
#include "replay/flat_map.hpp"

namespace coffer::analyse {

using trace::Event;
using trace::Op;
using trace::Reader;

namespace {

constexpr u64 kCounterPoints = 20'000;
constexpr u64 kMaxSlices = 200'000;
constexpr u64 kLeastRange = 16;

const char* const kNames[trace::kOps] = {"malloc",       "calloc",     "aligned", "realloc", "free",
                                         "thread_start", "thread_end", "fork",    "take",    "give",
                                         "figure",       "stack",      "lost"};
const char* const kFigureNames[6] = {"", "resident", "live", "held", "allocator resident", "bound"};

}  // namespace

void export_csv(const std::string& from, const std::string& to) {
  Reader reader(trace::open_file(from));
  TextFile out(to);
  out.put("time_ns,thread,operation,block,size,old_size,alignment,address,stack,instructions,detail,flags\n");
  for (Event event; reader.next(event);) {
    out.put("%" PRIu64 ",%u,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u,%" PRIu64 ",%u,%u\n",
            event.time, event.thread, kNames[static_cast<u8>(event.op)], event.block, event.size, event.old_size,
            event.alignment, event.address, event.stack, event.instructions, event.detail, event.flags);
  }
  say_shortfall(from, reader);
  out.close();
}

namespace {

// One line an event; times are microseconds.
class Chrome {
 public:
  Chrome(TextFile& out, u64 least) : out_(out), least_(least) { out_.put_text("{\"traceEvents\":["); }

  void process(const std::string& name) {
    Json text;
    text.open('{').key("name").string("process_name").key("ph").string("M").number("pid", 1).number("tid", 0);
    text.key("args").open('{').key("name").string(name).close('}').close('}');
    line();
    out_.put_text(text.text());
  }
  void counter(const char* name, u64 time, u64 value) {
    line();
    out_.put("{\"name\":\"%s\",\"ph\":\"C\",\"pid\":1,\"tid\":0,\"ts\":%.3f,\"args\":{\"value\":%" PRIu64 "}}", name,
             static_cast<double>(time) / 1000, value);
  }
  void born(const Event& event) {
    if (event.size < least_ || slices_ >= kMaxSlices) {
      left_out_ += event.size >= least_ ? 1 : 0;
      return;
    }
    const Shown shown{event.size, ++slices_};
    shown_.insert(event.block, shown);
    slice('b', event.block, shown, event.thread, event.stack, event.time);
  }
  void died(const Event& event) {
    if (shown_.find(event.block) == nullptr) return;
    slice('e', event.block, shown_.take(event.block), event.thread, 0, event.time);
  }
  void thread(u32 number, u64 first, u64 last) {
    line();
    out_.put("{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"args\":{\"name\":\"thread %u\"}}", number,
             number);
    line();
    out_.put("{\"name\":\"thread %u\",\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}", number, number,
             static_cast<double>(first) / 1000, static_cast<double>(last - first) / 1000);
  }
  void end(u64 time) {
    shown_.each([&](u64 block, const Shown& shown) { slice('e', block, shown, 0, 0, time); });
    out_.put("],\"displayTimeUnit\":\"ns\",\"otherData\":{\"slices\":%" PRIu64 ",\"slices_left_out\":%" PRIu64 "}}\n",
             slices_, left_out_);
  }

 private:
  void line() {
    out_.put_text(is_first_ ? "\n" : ",\n");
    is_first_ = false;
  }
  // A block between two calls that changed its size.
  struct Shown {
    u64 size, number;
  };

  // A track has what has one name, so names are those of ranges; but a number that comes again stays on the track that
  // it began on, whatever its name is then, so a block has another one after each realloc. That it is the process's own
  // (id2) puts the track to the process.
  void slice(char phase, u64 block, const Shown& shown, u32 thread, u32 stack, u64 time) {
    u64 most = kLeastRange;
    while (most < shown.size && most <= ~u64{0} / 2) most *= 2;
    line();
    out_.put("{\"name\":\"blocks of %" PRIu64 " to %" PRIu64 " bytes\",\"cat\":\"block\",\"ph\":\"%c\"",
             most == kLeastRange ? 0 : most / 2 + 1, most, phase);
    out_.put(",\"id2\":{\"local\":\"0x%" PRIx64 "\"},\"pid\":1,\"tid\":%u,\"ts\":%.3f", shown.number, thread,
             static_cast<double>(time) / 1000);
    out_.put(",\"args\":{\"bytes\":%" PRIu64 ",\"block\":%" PRIu64 ",\"stack\":%u}}", shown.size, block, stack);
  }

  TextFile& out_;
  u64 least_, slices_ = 0, left_out_ = 0;
  replay::FlatMap<Shown> shown_;
  bool is_first_ = true;
};

struct Span {
  u64 first = ~u64{0}, last = 0;
};

}  // namespace

void export_chrome(const std::string& from, const std::string& to, u64 least) {
  Reader reader(trace::open_file(from));
  u64 expected = 0;
  for (const trace::Frame& frame : reader.file().frames()) expected += frame.head.records;
  const u64 every = expected / kCounterPoints + 1;
  TextFile out(to);
  Chrome chrome(out, least);
  const auto program = reader.information().find("program");
  chrome.process(program == reader.information().end() ? "trace" : program->second);
  std::map<u32, Span> threads;
  u64 events = 0, last = 0;
  for (Event event; reader.next(event);) {
    last = event.time;
    if (event.thread != 0) {
      Span& span = threads[event.thread];
      span.first = span.first < event.time ? span.first : event.time;
      span.last = event.time;
    }
    const bool is_failed = (event.flags & trace::kFailed) != 0;
    const bool is_new = trace::is_allocation(event.op) && !is_failed;
    if (event.op == Op::free || (event.op == Op::realloc && !is_failed)) chrome.died(event);
    if (is_new) chrome.born(event);
    if (event.op == Op::figure && event.detail >= 1 && event.detail <= 5) {
      chrome.counter(kFigureNames[event.detail], event.time, event.size);
    }
    if (++events % every == 0) {
      chrome.counter("live bytes in the trace", event.time, reader.summary().live_bytes);
      chrome.counter("live blocks in the trace", event.time, reader.summary().live_blocks);
    }
  }
  for (const auto& [number, span] : threads) chrome.thread(number, span.first, span.last);
  chrome.end(last);
  say_shortfall(from, reader);
  out.close();
}

}  // namespace coffer::analyse
