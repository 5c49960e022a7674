// SPDX-License-Identifier: MIT
// A unit and the SDRAM's controller, both compiled by Verilator from the entities' own text, and the memory behind
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

class Vunit;
class Vcontroller;

namespace fast {

inline constexpr unsigned kInit = 1, kAlloc = 2, kFree = 3, kLoad = 4, kStore = 5, kMarks = 6;
inline constexpr unsigned kOk = 0, kFull = 1, kBad = 2, kDouble = 3;

// Ends the program with one line.
[[noreturn]] void fail(const std::string& message);

// Logic cycles, as tb/tb_trace.vhd counts them.
struct Times {
  std::uint64_t find, block, total, answer, stall;
};

class Machine {
 public:
  // plain: cycles of a transfer of plain memory; 0: SDRAM.
  Machine(unsigned plain, std::uint64_t patience);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void pause(std::uint64_t cycles);

  // One call, from the wish to ask; `where` is the place in the trace, for the watchdog.
  Times call(unsigned op, std::uint32_t argument, bool waits_for_rest, std::uint32_t stored = 0);

  // Till nothing is under way: after its answer a unit may work on, and its last write be on its way to the chips.
  void settle();

  std::uint32_t word(std::uint32_t address) { return cell(address); }
  std::uint64_t cycles() const { return cycles_; }
  std::uint64_t transfers() const { return transfers_; }

  // The last call's answer, and how OHEBS has served it.
  std::uint32_t result = 0;
  unsigned status = 0;
  unsigned how = 0;

 private:
  // The unit's outputs, as they were before the last edge: what the bench's process reads behind it.
  struct Seen {
    bool ready, done, request, writes;
    unsigned status, phase, how, late;
    std::uint32_t result, address, stored;
  };

  void edge();
  void rest();
  bool serve_plain(std::uint32_t& data);
  bool serve_chips(std::uint32_t& data);
  void guard(std::uint64_t cycles) const;

  // 64 MB, as the bench's memory has.
  std::uint32_t& cell(std::uint32_t address) { return memory_[address / 4 % memory_.size()]; }

  unsigned plain_;
  std::uint64_t patience_;
  std::unique_ptr<Vunit> unit_;
  std::unique_ptr<Vcontroller> controller_;
  std::vector<std::uint32_t> memory_ = std::vector<std::uint32_t>(std::size_t{1} << 24U, 0x5A5A5A5A);
  std::uint32_t rows_[4][4] = {};
  std::uint32_t from_chips_ = 0;
  unsigned left_ = 0;
  Seen seen_{};
  std::uint64_t cycles_ = 0;
  std::uint64_t transfers_ = 0;

  // A unit whose state an edge has not changed, under inputs that do not change either, is at a fixed point: further
  // edges need not be computed till an input changes. What is compared is all that Verilator keeps of the unit.
  std::vector<unsigned char> before_;
  bool quiet_ = false;  // the inputs are those of the edge before
  bool asleep_ = false;
};

}  // namespace fast
