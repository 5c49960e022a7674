// SPDX-License-Identifier: MIT
#include "analyse/edit.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "analyse/shortfall.hpp"
#include "replay/flat_map.hpp"

namespace coffer::analyse {

using trace::Error;
using trace::Event;
using trace::Information;
using trace::Op;
using trace::Reader;
using trace::Writer;

namespace {

Information with_maker(Information information, const std::string& made_by) {
  information["made_by"] = made_by;
  return information;
}

// Writes events, and before each the stack that it names.
class Output {
 public:
  Output(const std::string& path, const Information& information)
      : writer_(path, information, trace::Blocks::identities) {}

  Writer& writer() { return writer_; }

  void put(const Event& event, const std::vector<u64>* stack) {
    Event written = event;
    if (event.stack != 0) {
      if (stack == nullptr) {
        written.stack = 0;  // the recorder lost it
      } else if (written_.insert(event.stack).second) {
        writer_.stack(event.thread, event.time, event.stack, *stack);
      }
    }
    writer_.append(written);
  }

  u64 close(const Information& footer) {
    Information rest = footer;
    rest.erase("records");
    rest.erase("threads");
    writer_.close(rest);
    return writer_.records();
  }

 private:
  Writer writer_;
  std::set<u32> written_;
};

const std::vector<u64>* stack_of(const Reader& reader, u32 number) {
  const auto it = reader.stacks().find(number);
  return it == reader.stacks().end() ? nullptr : &it->second;
}

void copy_modules(const Reader& reader, Writer& writer, u64 start) {
  for (trace::ModuleSet set : reader.modules()) {
    set.time = set.time > start ? set.time - start : 0;
    writer.modules(set);
  }
}

bool is_block_event(const Event& event) { return trace::has_block(event.op); }

}  // namespace

u64 cut(const std::string& from, const std::string& to, const CutOptions& options, const std::string& made_by) {
  Reader reader(trace::open_file(from));
  Output output(to, with_maker(reader.information(), made_by));
  replay::FlatMap<Event> live;  // before the cut: each block's allocation, as it is by now
  replay::FlatMap<u8> dropped;  // those that the cut does not have
  u64 index = 0, start = 0;
  bool is_inside = false;
  const auto begin = [&](const Event& first) {
    is_inside = true;
    start = first.time;
    std::vector<Event> blocks;
    live.each([&](u64, const Event& event) { blocks.push_back(event); });
    std::sort(blocks.begin(), blocks.end(), [](const Event& a, const Event& b) { return a.block < b.block; });
    for (Event& event : blocks) {
      event.time = 0;
      event.flags = 0;
      if (options.with_live) output.put(event, stack_of(reader, event.stack));
      if (!options.with_live) dropped.insert(event.block, 0);
    }
  };
  for (Event event; reader.next(event); ++index) {
    if (index > options.events.last || event.time > options.time.last) break;
    const bool is_wanted = options.events.has(index) && options.time.has(event.time);
    if (is_wanted) {
      if (!is_inside) begin(event);
      if (is_block_event(event) && dropped.find(event.block) != nullptr) {
        if (event.op == Op::free) dropped.take(event.block);
        continue;
      }
      event.time -= start;
      output.put(event, stack_of(reader, event.stack));
      continue;
    }
    if (!is_block_event(event) || (event.flags & trace::kFailed) != 0) continue;
    if (event.op == Op::free) {
      live.take(event.block);
    } else if (Event* const known = live.find(event.block); known != nullptr) {
      known->size = event.size;  // realloc: the last size counts, and no alignment is left
      known->op = Op::malloc;
      if (event.stack != 0) known->stack = event.stack;
    } else {
      if (event.op == Op::realloc) event.op = Op::malloc;
      live.insert(event.block, event);
    }
  }
  if (!is_inside) throw Error(from + ": nothing lies in the cut");
  copy_modules(reader, output.writer(), start);
  say_shortfall(from, reader);
  return output.close({{"end", "unknown"}});
}

u64 filter(const std::string& from, const std::string& to, const FilterOptions& options, const std::string& made_by) {
  Reader reader(trace::open_file(from));
  Output output(to, with_maker(reader.information(), made_by));
  replay::FlatMap<u8> kept;
  for (Event event; reader.next(event);) {
    if (is_block_event(event)) {
      const bool begins =
          event.op != Op::free && (event.op != Op::realloc || (event.flags & trace::kUnknownBefore) != 0);
      const bool matches = (options.threads.empty() || options.threads.count(event.thread) != 0) &&
                           (options.stacks.empty() || options.stacks.count(event.stack) != 0) &&
                           options.sizes.has(event.size);
      if (begins ? !matches : kept.find(event.block) == nullptr) continue;
      if (begins && event.block != 0) kept.insert(event.block, 0);
      if (event.op == Op::free) kept.take(event.block);
    }
    output.put(event, stack_of(reader, event.stack));
  }
  copy_modules(reader, output.writer(), 0);
  say_shortfall(from, reader);
  return output.close(reader.file().footer());
}

namespace {

// One of the traces that become one. Its addresses of code get its number in their highest byte, so that modules of
// different processes do not overlap.
struct Input {
  explicit Input(const std::string& path) : reader(trace::open_file(path)) {}
  Reader reader;
  Event event;
  bool has_event = false;
  u64 shift = 0;  // added to its times
  u64 number = 0;
  replay::FlatMap<u64> blocks;
  std::map<u32, u32> threads, stacks;

  // Since 1970. 0: it is not known, of a trace that a tool made, or one whose head is damaged.
  u64 start() const { return reader.file().head().realtime_ns; }
  void advance() { has_event = reader.next(event); }
  u64 time() const { return event.time + shift; }
  u64 moved(u64 address) const { return (address & ((u64{1} << 56) - 1)) | number << 56; }
};

class Merger {
 public:
  Merger(const std::string& to, const Information& information) : output_(to, information) {}

  void put(Input& input) {
    Event event = input.event;
    event.time = input.time();
    if (event.thread != 0) event.thread = number_of(input.threads, event.thread, threads_);
    const std::vector<u64>* stack = nullptr;
    if (event.stack != 0) {
      if (const auto* const found = stack_of(input.reader, event.stack); found != nullptr) {
        frames_ = *found;
        for (u64& frame : frames_) frame = input.moved(frame);
        stack = &frames_;
      }
      event.stack = number_of(input.stacks, event.stack, stacks_);
    }
    if (is_block_event(event) && event.block != 0) {
      if (u64* const known = input.blocks.find(event.block); known != nullptr) {
        const u64 old = event.block;
        event.block = *known;
        if (event.op == Op::free) input.blocks.take(old);
      } else {
        input.blocks.insert(event.block, ++blocks_);
        event.block = blocks_;
      }
    }
    output_.put(event, stack);
  }

  u64 close(std::vector<std::unique_ptr<Input>>& inputs) {
    trace::ModuleSet all{0, {}};
    for (const auto& input : inputs) {
      if (input->reader.modules().empty()) continue;
      for (trace::Module module : input->reader.modules().back().modules) {
        module.start = input->moved(module.start);
        module.end = input->moved(module.end);
        all.modules.push_back(std::move(module));
      }
    }
    std::sort(all.modules.begin(), all.modules.end(), [](auto& a, auto& b) { return a.start < b.start; });
    if (!all.modules.empty()) output_.writer().modules(all);
    return output_.close({{"end", "unknown"}});
  }

 private:
  static u32 number_of(std::map<u32, u32>& numbers, u32 old, u32& last) {
    const auto [it, is_new] = numbers.try_emplace(old, last + 1);
    if (is_new) ++last;
    return it->second;
  }

  Output output_;
  std::vector<u64> frames_;
  u64 blocks_ = 0;
  u32 threads_ = 0, stacks_ = 0;
};

}  // namespace

u64 merge(const std::vector<std::string>& from, const std::string& to, bool together, const std::string& made_by) {
  std::vector<std::unique_ptr<Input>> inputs;
  u64 earliest = ~u64{0};
  for (const std::string& path : from) {
    inputs.push_back(std::make_unique<Input>(path));
    inputs.back()->number = inputs.size() & 0xFF;
    if (const u64 start = inputs.back()->start(); start != 0) earliest = std::min(earliest, start);
  }
  Merger merger(to, {{"made_by", made_by}});
  for (const auto& input : inputs) {
    if (!together && input->start() != 0) input->shift = input->start() - earliest;
    input->advance();
  }
  for (;;) {
    Input* first = nullptr;
    for (const auto& input : inputs) {
      if (input->has_event && (first == nullptr || input->time() < first->time())) first = input.get();
    }
    if (first == nullptr) break;
    merger.put(*first);
    first->advance();
  }
  for (std::size_t i = 0; i < from.size(); ++i) say_shortfall(from[i], inputs[i]->reader);
  return merger.close(inputs);
}

// What is left: operations, sizes, times from the start, threads by number, and which allocations came from the same
// place. Frames become numbers in the order in which they come; nothing says what program, machine or address it was.
u64 anonymize(const std::string& from, const std::string& to, const AnonymizeOptions& options) {
  Reader reader(trace::open_file(from));
  Output output(to, {{"made_by", "coffer trace anonymize"}});
  std::map<u64, u64> frames;
  std::map<u32, u32> stacks;
  const auto stepped = [&](u64 size) {
    const u64 rest = size % options.size_step;
    return rest == 0 || size > ~u64{0} - options.size_step ? size : size + options.size_step - rest;
  };
  for (Event event; reader.next(event);) {
    const std::vector<u64>* const stack = event.stack == 0 ? nullptr : stack_of(reader, event.stack);
    std::vector<u64> hidden;
    if (stack != nullptr) {
      for (const u64 frame : *stack) hidden.push_back(frames.try_emplace(frame, frames.size() + 1).first->second);
    }
    if (event.stack != 0) {
      event.stack = stacks.try_emplace(event.stack, static_cast<u32>(stacks.size() + 1)).first->second;
    }
    event.time -= event.time % options.time_step;
    if (is_block_event(event)) event.size = stepped(event.size);
    if (event.op == Op::free) event.stated_size = static_cast<u32>(std::min<u64>(stepped(event.stated_size), ~u32{0}));
    if (event.op == Op::thread_start || event.op == Op::fork) event.size = 0;
    if (event.op == Op::take || event.op == Op::give) event.address = 0;
    output.put(event, stack == nullptr ? nullptr : &hidden);
  }
  say_shortfall(from, reader);
  return output.close({});
}

}  // namespace coffer::analyse
