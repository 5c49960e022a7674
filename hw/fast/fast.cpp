// fast TRACE LOG EXACT GAP PLAIN PATIENCE: a trace through a unit that Verilator has compiled (fast.py), with the log
// of tb/tb_trace.vhd, line by line. EXACT 1: addresses must be the trace's; PLAIN: cycles of a transfer, 0: SDRAM; LOG
// -: none. Blocks that overlap, wrong answers and calls without end stop it with one line, as in the bench.
//
// What the bench's process reads behind a rising edge is what was there before it; so here outputs are looked at before
// the clock rises, and inputs change after it has.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "Vfast_top.h"
#include "verilated.h"

namespace {

constexpr std::uint32_t kNothing = 0xFFFFFFFF;
constexpr std::uint32_t kHeader = 4;
constexpr std::uint32_t kUnit = 16;
constexpr unsigned kInit = 1, kAlloc = 2, kFree = 3;
constexpr unsigned kOk = 0, kFull = 1;
constexpr unsigned kActivate = 3, kRead = 5, kWrite = 4;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

struct Times {
  std::uint64_t find, block, total, answer, stall;
};

// The outputs, as they were before the last edge.
struct Seen {
  bool ready, done;
  unsigned status, phase, how, late;
  std::uint32_t result;
};

class Machine {
 public:
  Machine(unsigned plain, std::uint64_t patience) : plain_(plain), patience_(patience) {
    unit_->rst_i = 1;
    pause(4);
    unit_->rst_i = 0;
    pause(1);
  }
  ~Machine() { unit_->final(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void pause(std::uint64_t cycles) {
    for (std::uint64_t i = 0; i < cycles; ++i) {
      edge();
    }
  }

  Times call(unsigned op, std::uint32_t argument, bool waits_for_rest) {
    Times times{};
    while (!seen_.ready) {
      edge();
      guard(++times.stall);
    }
    unit_->op_i = op;
    unit_->data_i = argument;
    edge();
    unit_->op_i = 0;
    for (bool answered = false; !answered || (waits_for_rest && !seen_.ready);) {
      edge();
      guard(++times.total);
      times.find += seen_.phase == 1 ? 1 : 0;
      times.block += seen_.phase == 2 ? 1 : 0;
      if (seen_.done) {
        answered = true;
        result = seen_.result;
        status = seen_.status;
        how = seen_.how;
        times.answer = times.stall + times.total;
      }
    }
    // What the bench logs is the way of the last allocation at the end of the call.
    how = how_now_;
    return times;
  }

  std::uint32_t word(std::uint32_t address) { return cell(address); }
  std::uint64_t cycles() const { return cycles_; }

  std::uint32_t result = 0;
  unsigned status = 0;
  unsigned how = 0;

 private:
  void guard(std::uint64_t cycles) const {
    if (cycles > patience_) {
      fail("watchdog: no end of the call after " + std::to_string(patience_) + " cycles");
    }
  }

  // 64 MB, as the bench's memory has.
  std::uint32_t& cell(std::uint32_t address) { return memory_[address / 4 % memory_.size()]; }

  void edge() {
    unit_->clk_i = 0;
    unit_->eval();
    how_now_ = unit_->how_o;
    seen_ = {unit_->ready_o != 0, unit_->done_o != 0, unit_->status_o, unit_->phase_o,
             unit_->how_o,        unit_->late_o,      unit_->result_o};
    if (unit_->rst_i == 0 && seen_.late != 0) {
      fail("a posted free has gone wrong: status " + std::to_string(seen_.late));
    }
    bool ack = false;
    std::uint32_t data = unit_->rdata_i;
    if (plain_ != 0) {
      ack = serve_plain(data);
    } else {
      serve_chips(data);
    }
    unit_->clk_i = 1;
    unit_->eval();
    unit_->ack_i = ack ? 1 : 0;
    unit_->rdata_i = data;
    ++cycles_;
  }

  // tb/plain_memory.vhd
  bool serve_plain(std::uint32_t& data) {
    if (unit_->req_o != 0 && unit_->ack_i == 0 && left_ == 0) {
      left_ = plain_;
    }
    if (left_ == 0 || --left_ != 0) {
      return false;
    }
    if (unit_->we_o != 0) {
      cell(unit_->addr_o) = unit_->wdata_o;
    } else {
      data = cell(unit_->addr_o);
    }
    return true;
  }

  // Four chips: what the controller reads is there when it looks. Their timing is the bench's to check.
  void serve_chips(std::uint32_t& data) {
    if (unit_->tick_o == 0 || unit_->rst_i != 0) {
      return;
    }
    for (unsigned chip = 0; chip < 4; ++chip) {
      if ((unit_->cs_n_o >> chip & 1U) != 0) {
        continue;
      }
      std::uint32_t& row = rows_[chip][unit_->bank_o];
      const std::uint32_t address = chip << 24U | row << 12U | unit_->bank_o << 10U | (unit_->a_o & 0xFFU) << 2U;
      if (unit_->command_o == kActivate) {
        row = unit_->a_o;
      } else if (unit_->command_o == kRead) {
        data = cell(address);
      } else if (unit_->command_o == kWrite) {
        cell(address) = unit_->dq_o;
      }
    }
  }

  unsigned plain_;
  std::uint64_t patience_;
  std::unique_ptr<Vfast_top> unit_ = std::make_unique<Vfast_top>();
  std::vector<std::uint32_t> memory_ = std::vector<std::uint32_t>(std::size_t{1} << 24U, 0x5A5A5A5A);
  std::uint32_t rows_[4][4] = {};
  unsigned left_ = 0;
  unsigned how_now_ = 0;
  Seen seen_{};
  std::uint64_t cycles_ = 0;
};

class Replay {
 public:
  Replay(Machine& machine, std::FILE* log, bool exact, long gap)
      : machine_(machine), log_(log), exact_(exact), given_gap_(gap) {}

  void line(const std::string& text) {
    std::istringstream fields(text);
    std::string kind, rest;
    fields >> kind;
    if (kind == "heap") {
      fields >> heap_;
      parsed(fields, text);
      machine_.call(kInit, heap_, waits());
      expect(machine_.status == kOk, "the unit takes no heap of " + std::to_string(heap_) + " bytes");
      sizes_.assign(heap_ / kUnit, 0);
      taken_.assign(heap_ / kUnit, false);
    } else if (kind == "policy" || kind == "min") {
      fields >> rest;
      parsed(fields, text);
    } else if (heap_ == 0) {
      fail("the heap's size must come first");
    } else if (kind == "a") {
      std::uint32_t bytes = 0;
      fields >> std::dec >> bytes >> std::hex >> address_;
      parsed(fields, text);
      take_gap();
      allocate(bytes);
    } else if (kind == "f") {
      fields >> std::hex >> address_;
      parsed(fields, text);
      take_gap();
      give_back();
    } else if (kind == "g") {
      fields >> gap_;
      parsed(fields, text);
    } else if (kind == "x") {
      fields >> std::hex >> address_ >> rest;
      parsed(fields, text);
      if (exact_) {
        machine_.call(kFree, address_, waits());
        expect(machine_.status == (rest == "bad" ? 2U : 3U), "a wrong free ended with another status");
      }
    } else if (kind == "h") {
      std::uint32_t value = 0;
      fields >> std::hex >> address_ >> value;
      parsed(fields, text);
      // The last write may still be on its way to the chips. The unit marks free blocks with 0, the trace with 1.
      machine_.pause(headers_++ == 0 ? 100 : 0);
      expect(!exact_ || machine_.word(address_) == (value ^ 1U), "a wrong header at the end");
    } else {
      fail("no record that is replayed here: " + kind);
    }
  }

  std::uint64_t calls() const { return calls_; }

 private:
  void parsed(const std::istringstream& fields, const std::string& text) const {
    expect(!fields.fail(), "a field is missing or wrong: " + text);
  }

  bool waits() const { return given_gap_ < 0; }

  void expect(bool is_right, const std::string& message) const {
    if (!is_right) {
      fail(message);
    }
  }

  void take_gap() {
    machine_.pause(gap_);
    gap_ = given_gap_ < 0 ? 0 : static_cast<std::uint64_t>(given_gap_);
  }

  static std::uint32_t block_size(std::uint64_t bytes) {
    std::uint64_t size = kUnit;
    while (size < bytes + kHeader) {
      size *= 2;
    }
    return static_cast<std::uint32_t>(size);
  }

  void note(char letter, std::uint32_t bytes, const Times& times) {
    ++calls_;
    if (log_ != nullptr) {
      const char how = letter == 'a' && machine_.status == kOk ? "-dpc"[machine_.how & 3U] : '-';
      std::fprintf(
          log_, "%c %" PRIu32 " %08" PRIX32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %c\n", letter,
          bytes, machine_.result, times.find, times.block, times.total, times.answer, times.stall, how);
    }
  }

  void mark(std::uint32_t offset, std::uint32_t bytes, bool live) {
    for (std::uint32_t i = offset / kUnit; i < (offset + bytes) / kUnit; ++i) {
      expect(!live || !taken_[i], "handed out twice: byte " + std::to_string(i * kUnit));
      taken_[i] = live;
    }
    sizes_[offset / kUnit] = live ? bytes : 0;
  }

  void allocate(std::uint32_t bytes) {
    const Times times = machine_.call(kAlloc, bytes, waits());
    const std::uint32_t got = machine_.result;
    if (machine_.status == kOk) {
      const std::uint32_t size = block_size(bytes);
      expect(got >= kHeader && got < heap_ && (got - kHeader) % size == 0, "the block lies wrong");
      if (exact_ || address_ != kNothing) {
        mark(got - kHeader, size, true);
      }
    } else {
      expect(machine_.status == kFull && got == kNothing, "an allocation ended with another status");
    }
    expect(!exact_ || got == address_, "the model answers otherwise than the unit");
    if (!exact_ && address_ != kNothing) {
      places_[address_] = machine_.status == kOk ? got : kNothing;
    }
    note('a', bytes, times);
    if (!exact_ && machine_.status == kOk && address_ == kNothing) {
      machine_.call(kFree, got, waits());
    }
  }

  void give_back() {
    std::uint32_t address = address_;
    if (!exact_) {
      const auto found = places_.find(address);
      if (found == places_.end() || found->second == kNothing) {
        return;
      }
      address = found->second;
      found->second = kNothing;
    }
    expect(address >= kHeader && address < heap_, "no block can be there");
    const std::uint32_t bytes = sizes_[(address - kHeader) / kUnit];
    expect(bytes != 0, "the trace frees what is not live");
    mark(address - kHeader, bytes, false);
    const Times times = machine_.call(kFree, address, waits());
    expect(machine_.status == kOk, "a free ended with another status");
    note('f', bytes, times);
  }

  Machine& machine_;
  std::FILE* log_;
  bool exact_;
  long given_gap_;
  std::uint32_t heap_ = 0;
  std::uint32_t address_ = 0;
  std::uint64_t gap_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t headers_ = 0;
  std::vector<std::uint32_t> sizes_;
  std::vector<bool> taken_;
  std::unordered_map<std::uint32_t, std::uint32_t> places_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fail("usage: fast TRACE LOG|- EXACT GAP PLAIN PATIENCE");
  }
  std::ifstream trace(argv[1]);
  std::string text;
  if (!std::getline(trace, text) || text != "# coffer-rt vectors 1") {
    fail(std::string(argv[1]) + ": cannot be read, or is no trace");
  }
  std::FILE* log = std::strcmp(argv[2], "-") == 0 ? nullptr : std::fopen(argv[2], "w");
  if (log == nullptr && std::strcmp(argv[2], "-") != 0) {
    fail(std::string(argv[2]) + ": cannot be written");
  }
  Machine machine(static_cast<unsigned>(std::strtoul(argv[5], nullptr, 10)), std::strtoull(argv[6], nullptr, 10));
  Replay replay(machine, log, std::strcmp(argv[3], "1") == 0, std::strtol(argv[4], nullptr, 10));
  const auto begin = std::chrono::steady_clock::now();
  while (std::getline(trace, text)) {
    if (!text.empty() && text[0] != '#') {
      replay.line(text);
    }
  }
  if (replay.calls() == 0) {
    fail("the trace has no call");
  }
  if (log != nullptr && std::fclose(log) != 0) {
    fail(std::string(argv[2]) + ": cannot be written");
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("replayed %" PRIu64 " calls in %" PRIu64 " cycles: %.2f million a second\n", replay.calls(),
              machine.cycles(), static_cast<double>(machine.cycles()) / seconds / 1e6);
  return 0;
}
