// SPDX-License-Identifier: MIT
// fast TRACE NAME=VALUE...: a trace through a unit that Verilator has compiled (fast.py), as tb/tb_trace.vhd replays it
// in ghdl: the same checks, the same messages, the same log, the same sums. Names are those of its generics: log,
// exact, strands, gap, gaps, plain, patience, set_low, set_high, heap_log2, passes (loads and stores go through).
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "machine.hpp"
#include "owners.hpp"
#include "reader.hpp"

namespace fast {
namespace {

constexpr std::uint32_t kNothing = 0xFFFFFFFF, kHeader = 4, kUnit = Owners::kUnit, kMemory = 1U << 26U;
constexpr unsigned kNanoseconds = 5;  // a logic cycle

struct Options {
  std::string log;
  bool exact = true, strands = false, gaps = true, passes = false;
  long gap = -1, plain = 0, patience = 100000, set_low = -1, set_high = -1, heap_log2 = 25;
};

struct Sum {
  std::uint64_t least = ~std::uint64_t{0}, most = 0, sum = 0;
  void add(std::uint64_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
};

struct Sums {
  std::uint64_t count = 0;
  Sum find, block, total, answer;
};

std::string hex(std::uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08" PRIX32, value);
  return text;
}

std::string bits(unsigned status) {
  return std::string() + "01"[status >> 2U & 1U] + "01"[status >> 1U & 1U] + "01"[status & 1U];
}

class Replay {
 public:
  Replay(Reader& reader, Machine& machine, const Options& options)
      : reader_(reader), machine_(machine), options_(options) {
    if (!options.log.empty()) {
      log_ = std::fopen(options.log.c_str(), "w");
      expect_written(log_ != nullptr);
    }
  }

  void run() {
    for (;;) {
      item_ = reader_.next();
      if (item_.kind == Kind::end) {
        break;
      }
      expect(heap_ != 0 || item_.kind < Kind::alloc, "the heap's size must come first");
      one();
    }
    expect(calls_ >= 2, "the trace has no call");
    expect_written(log_ == nullptr || std::fclose(log_) == 0);
  }

  void tell(double seconds) const {
    tell("alloc find", allocs_.count, allocs_.find);
    tell("alloc block", allocs_.count, allocs_.block);
    tell("alloc total", allocs_.count, allocs_.total);
    tell("alloc answer", allocs_.count, allocs_.answer);
    tell("free total", frees_.count, frees_.total);
    tell("free answer", frees_.count, frees_.answer);
    tell("access answer", accesses_.count, accesses_.answer);
    std::printf("replayed %" PRIu64 " calls: %" PRIu64 " allocations, %" PRIu64 " refused, %" PRIu64 " frees, %" PRIu64
                " headers, %" PRIu64 " blocks live, %" PRIu64 " accesses, %" PRIu64 " transfers, %" PRIu64
                " cycles, %.2f million a second\n",
                calls_, allocs_.count, refused_, frees_.count, headers_, owners_.live(), accesses_.count,
                machine_.transfers(), machine_.cycles(), static_cast<double>(machine_.cycles()) / seconds / 1e6);
  }

 private:
  void expect(bool is_right, const char* message) const {
    if (!is_right) {
      reader_.fail(message);
    }
  }

  void expect_written(bool is_right) const {
    if (!is_right) {
      fast::fail(options_.log + ": cannot be written");
    }
  }

  static void tell(const char* name, std::uint64_t count, const Sum& sum) {
    if (count != 0) {
      std::printf("%s: min %" PRIu64 ", mean %.1f, max %" PRIu64 " ns\n", name, sum.least * kNanoseconds,
                  static_cast<double>(sum.sum * kNanoseconds) / static_cast<double>(count), sum.most * kNanoseconds);
    }
  }

  void one() {
    switch (item_.kind) {
      case Kind::policy:
        expect(item_.policy == "knuth" || !options_.exact, "this unit's policy is knuth");
        break;
      case Kind::heap:
        init_heap();
        break;
      case Kind::min:
        expect(item_.number == kUnit, "the smallest block has 16 bytes");
        break;
      case Kind::alloc:
        take_gap();
        allocate();
        break;
      case Kind::free:
        take_gap();
        give_back();
        break;
      case Kind::wrong_free:
        if (options_.exact && call(kFree, item_.address) != item_.status) {
          reader_.fail("a wrong free ended with status " + bits(machine_.status));
        }
        break;
      case Kind::gap:
        gap_ = options_.gaps ? item_.number : gap_;
        break;
      case Kind::load:
      case Kind::store:
        machine_.pause(gap_);
        gap_ = 0;
        access();
        break;
      default:
        header();
    }
  }

  void take_gap() {
    machine_.pause(gap_);
    gap_ = options_.gap < 0 ? 0 : static_cast<std::uint64_t>(options_.gap);
  }

  unsigned call(unsigned op, std::uint32_t argument, std::uint32_t stored = 0) {
    times_ = machine_.call(op, argument, options_.gap < 0, stored);
    ++calls_;
    return machine_.status;
  }

  void init_heap() {
    expect(heap_ == 0, "a second heap");
    heap_ = item_.number;
    for (long index = 4; options_.set_low >= 0 && index <= options_.heap_log2; ++index) {
      const auto argument = static_cast<std::uint32_t>(options_.set_high * 65536 + options_.set_low * 256 + index);
      if (call(kMarks, argument) != kOk) {
        reader_.fail("the unit does not take these marks: " + std::to_string(options_.set_low) + ", " +
                     std::to_string(options_.set_high));
      }
      --calls_;
    }
    if (call(kInit, heap_) != kOk) {
      reader_.fail("the unit takes no heap of " + std::to_string(heap_) + " bytes");
    }
    owners_.begin(heap_);
  }

  static std::uint64_t block_size(std::uint64_t bytes) {
    std::uint64_t size = kUnit;
    while (size < bytes + kHeader) {
      size *= 2;
    }
    return size;
  }

  void note(Sums& sums, char letter) {
    ++sums.count;
    sums.find.add(times_.find);
    sums.block.add(times_.block);
    sums.total.add(times_.total);
    sums.answer.add(times_.answer);
    if (log_ != nullptr && letter != 'l') {
      const char how = letter == 'a' && machine_.status == kOk ? "-dpc"[machine_.how & 3U] : '-';
      std::fprintf(
          log_, "%c %" PRIu32 " %08" PRIX32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %c\n", letter,
          item_.number, machine_.result, times_.find, times_.block, times_.total, times_.answer, times_.stall, how);
    }
  }

  void take(std::uint32_t offset, std::uint32_t bytes) {
    if (const auto twice = owners_.take(offset, bytes)) {
      reader_.fail("handed out twice: byte " + std::to_string(*twice) + " in the block of " + std::to_string(bytes) +
                   " at " + std::to_string(offset));
    }
  }

  // A block's address as the file has it: within the heap, behind a header.
  void check_address() const {
    if (item_.address < kHeader || item_.address >= heap_ || item_.address % kUnit != kHeader) {
      reader_.fail("no block can be at " + hex(item_.address));
    }
  }

  // Without exact: where a block of the file is.
  std::uint32_t place() const {
    const auto found = places_.find(item_.address);
    return found == places_.end() ? kNothing : found->second;
  }

  void allocate() {
    if (!options_.exact && item_.address != kNothing) {
      check_address();
      if (place() != kNothing) {
        reader_.fail("the trace gives out what is live: " + hex(item_.address));
      }
    }
    const unsigned status = call(kAlloc, item_.number);
    const std::uint32_t got = machine_.result;
    const std::uint64_t size = block_size(item_.number);
    const bool is_named = item_.address != kNothing;
    if (status == kOk) {
      if (got < kHeader || got >= heap_) {
        reader_.fail("the block lies outside of the heap: " + hex(got));
      }
      if ((got - kHeader) % size != 0) {
        reader_.fail("the block is not aligned to its size: " + hex(got));
      }
      if (options_.exact || is_named) {
        take(got - kHeader, static_cast<std::uint32_t>(size));
      }
    } else if (status == kFull) {
      expect(got == kNothing, "a refusal with an address");
      ++refused_;
      if (!options_.strands && size <= heap_ && owners_.has_room(size)) {
        reader_.fail("refused, though " + std::to_string(size) + " bytes are free at a multiple of that");
      }
    } else {
      reader_.fail("an allocation ended with status " + bits(status));
    }
    if (options_.exact && got != item_.address) {
      reader_.fail("the model answers " + hex(item_.address) + ", the unit " + hex(got));
    }
    if (!options_.exact && is_named) {
      places_[item_.address] = got;
    }
    note(allocs_, 'a');
    // The file does not know this block: it goes back at once.
    if (!options_.exact && status == kOk && !is_named) {
      call(kFree, got);
    }
  }

  void give_back() {
    check_address();
    std::uint32_t address = item_.address;
    if (!options_.exact) {
      address = place();
      if (address == kNothing) {
        return;
      }
      places_[item_.address] = kNothing;
    }
    item_.number = owners_.size_of(address - kHeader);
    if (item_.number == 0) {
      reader_.fail("the trace frees what is not live: " + hex(item_.address));
    }
    owners_.give_back(address - kHeader);
    if (call(kFree, address) != kOk) {
      reader_.fail("a free ended with status " + bits(machine_.status));
    }
    note(frees_, 'f');
  }

  // Loads of a line, or the store of a word.
  void access() {
    expect(options_.passes && !options_.exact, "loads and stores go through OHEBS only");
    std::uint32_t address = item_.value;
    if (address >= 1U << 27U || address % 4 != 0 || (item_.address == kNothing && address >= heap_)) {
      reader_.fail("no word has this offset: " + hex(item_.value));
    }
    if (item_.address == kNothing) {
      address += heap_;
    } else {
      check_address();
      const std::uint32_t base = place();
      // Refused here, though not by the model: nothing to access.
      if (base == kNothing && refused_ != 0) {
        return;
      }
      if (base == kNothing || address + kHeader >= owners_.size_of(base - kHeader)) {
        reader_.fail("an access outside of live blocks: " + hex(item_.address) + " " + hex(item_.value));
      }
      address += base;
    }
    if (item_.kind == Kind::store) {
      call(kStore, address, random());
      --calls_;
      note(accesses_, 'l');
      return;
    }
    expect(item_.number != 0 && item_.number <= 64 && 64 % item_.number == 0, "a line has 1, 2, 4 ... 64 words");
    address -= address % (item_.number * 4);
    for (std::uint32_t i = 0; i < item_.number; ++i) {
      call(kLoad, (address + i * 4) % kMemory);
      --calls_;
      note(accesses_, 'l');
    }
  }

  std::uint32_t random() {
    seed_ = seed_ * 1664525U + 1013904223U;
    return seed_ >> 8U & (heap_ - 1);
  }

  void header() {
    if (options_.exact) {
      if (item_.address >= heap_ || item_.address % kUnit != 0) {
        reader_.fail("no header can be at " + hex(item_.address));
      }
      if (headers_++ == 0) {
        machine_.settle();
      }
      // The unit marks free blocks with 0, the trace with 1.
      const std::uint32_t expected = item_.value ^ 1U, got = machine_.word(item_.address);
      if (got != expected) {
        reader_.fail("the header is " + hex(got) + ", not " + hex(expected));
      }
    }
  }

  Reader& reader_;
  Machine& machine_;
  const Options& options_;
  std::FILE* log_ = nullptr;
  Record item_;
  Times times_{};
  std::uint32_t heap_ = 0, seed_ = 11;
  std::uint64_t gap_ = 0, calls_ = 0, refused_ = 0, headers_ = 0;
  Sums allocs_, frees_, accesses_;
  Owners owners_;
  std::unordered_map<std::uint32_t, std::uint32_t> places_;  // without exact: where a block of the file is
};

Options options_of(int argc, char** argv) {
  Options options;
  const std::map<std::string, long*> numbers = {{"gap", &options.gap},           {"plain", &options.plain},
                                                {"patience", &options.patience}, {"set_low", &options.set_low},
                                                {"set_high", &options.set_high}, {"heap_log2", &options.heap_log2}};
  const std::map<std::string, bool*> flags = {
      {"exact", &options.exact}, {"strands", &options.strands}, {"gaps", &options.gaps}, {"passes", &options.passes}};
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const std::string name = text.substr(0, text.find('=')),
                      value = text.substr(std::min(name.size() + 1, text.size()));
    if (name == "log") {
      options.log = value;
    } else if (const auto number = numbers.find(name); number != numbers.end()) {
      *number->second = std::strtol(value.c_str(), nullptr, 10);
    } else if (const auto flag = flags.find(name); flag != flags.end()) {
      *flag->second = value == "true";
    } else {
      fail("no such option: " + text);
    }
  }
  return options;
}

}  // namespace
}  // namespace fast

int main(int argc, char** argv) {
  if (argc < 2) {
    fast::fail("usage: fast TRACE NAME=VALUE...");
  }
  const fast::Options options = fast::options_of(argc, argv);
  fast::Reader reader(argv[1]);
  fast::Machine machine(static_cast<unsigned>(options.plain), static_cast<std::uint64_t>(options.patience));
  fast::Replay replay(reader, machine, options);
  const auto begin = std::chrono::steady_clock::now();
  replay.run();
  replay.tell(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return 0;
}
