// SPDX-License-Identifier: MIT
#include "machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "Vcontroller.h"
#include "Vunit.h"
#include "Vunit___024root.h"

namespace fast {

namespace {

constexpr unsigned kActivate = 3, kRead = 5, kWrite = 4;

}  // namespace

void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

Machine::Machine(unsigned plain, std::uint64_t patience)
    : plain_(plain),
      patience_(patience),
      unit_(std::make_unique<Vunit>()),
      controller_(std::make_unique<Vcontroller>()),
      before_(sizeof(*unit_->rootp)) {
  unit_->rst_i = controller_->rst_i = 1;
  pause(4);
  unit_->rst_i = controller_->rst_i = 0;
  rest();
  pause(1);
}

Machine::~Machine() {
  unit_->final();
  controller_->final();
}

void Machine::pause(std::uint64_t cycles) {
  for (std::uint64_t i = 0; i < cycles; ++i) {
    edge();
  }
}

void Machine::settle() {
  for (std::uint64_t waited = 0; !seen_.ready;) {
    edge();
    guard(++waited);
  }
  pause(100);
}

void Machine::guard(std::uint64_t cycles) const {
  if (cycles > patience_) {
    fail("watchdog: no end of the call after " + std::to_string(patience_) + " cycles");
  }
}

Times Machine::call(unsigned op, std::uint32_t argument, bool waits_for_rest, std::uint32_t stored) {
  Times times{};
  while (!seen_.ready) {
    edge();
    guard(++times.stall);
  }
  unit_->op_i = op;
  unit_->data_i = argument;
  unit_->wdata_i = stored;
  rest();
  edge();
  unit_->op_i = 0;
  rest();
  for (bool answered = false; !answered || (waits_for_rest && !seen_.ready);) {
    edge();
    guard(++times.total);
    times.find += seen_.phase == 1 ? 1 : 0;
    times.block += seen_.phase == 2 ? 1 : 0;
    if (seen_.done) {
      answered = true;
      result = seen_.result;
      status = seen_.status;
      times.answer = times.stall + times.total;
    }
  }
  how = seen_.how;
  return times;
}

// An input has changed.
void Machine::rest() { asleep_ = quiet_ = false; }

void Machine::edge() {
  if (!asleep_) {
    unit_->clk_i = 0;
    unit_->eval();
    seen_ = {unit_->ready_o != 0, unit_->done_o != 0, unit_->mem_req_o != 0, unit_->mem_we_o != 0,
             unit_->status_o,     unit_->phase_o,     unit_->how_o,          unit_->late_o,
             unit_->result_o,     unit_->mem_addr_o,  unit_->mem_wdata_o};
    if (unit_->rst_i == 0 && seen_.late != 0) {
      fail("a posted free has gone wrong: status " + std::to_string(seen_.late));
    }
  }
  transfers_ += unit_->mem_ack_i;
  std::uint32_t data = unit_->mem_rdata_i;
  const bool ack = plain_ != 0 ? serve_plain(data) : serve_chips(data);
  if (!asleep_) {
    unit_->clk_i = 1;
    unit_->eval();
    const void* state = unit_->rootp;
    asleep_ = quiet_ && std::memcmp(before_.data(), state, before_.size()) == 0;
    if (!asleep_) {
      std::memcpy(before_.data(), state, before_.size());
    }
    quiet_ = true;
  }
  if (ack != (unit_->mem_ack_i != 0) || data != unit_->mem_rdata_i) {
    unit_->mem_ack_i = ack ? 1 : 0;
    unit_->mem_rdata_i = data;
    rest();
  }
  ++cycles_;
}

// tb/plain_memory.vhd
bool Machine::serve_plain(std::uint32_t& data) {
  if (seen_.request && unit_->mem_ack_i == 0 && left_ == 0) {
    left_ = plain_;
  }
  if (left_ == 0 || --left_ != 0) {
    return false;
  }
  if (seen_.writes) {
    cell(seen_.address) = seen_.stored;
  } else {
    data = cell(seen_.address);
  }
  return true;
}

// The controller with four chips: what it reads is there when it looks. Their timing is the bench's to check. Its
// answer is a register's, so that the unit's edge may come after its own.
bool Machine::serve_chips(std::uint32_t& data) {
  controller_->clk_i = 0;
  controller_->req_i = seen_.request ? 1 : 0;
  controller_->we_i = seen_.writes ? 1 : 0;
  controller_->addr_i = seen_.address;
  controller_->wdata_i = seen_.stored;
  controller_->dq_i = from_chips_;
  controller_->eval();
  if (controller_->tick_o != 0 && controller_->rst_i == 0) {
    const unsigned command = controller_->ras_n_o * 4U + controller_->cas_n_o * 2U + controller_->we_n_o;
    for (unsigned chip = 0; chip < 4; ++chip) {
      if ((controller_->cs_n_o >> chip & 1U) != 0) {
        continue;
      }
      std::uint32_t& row = rows_[chip][controller_->bank_o];
      const std::uint32_t address =
          chip << 24U | row << 12U | std::uint32_t{controller_->bank_o} << 10U | (controller_->a_o & 0xFFU) << 2U;
      if (command == kActivate) {
        row = controller_->a_o;
      } else if (command == kRead) {
        from_chips_ = cell(address);
      } else if (command == kWrite) {
        cell(address) = controller_->dq_o;
      }
    }
  }
  controller_->clk_i = 1;
  controller_->eval();
  data = controller_->rdata_o;
  return controller_->ack_o != 0;
}

}  // namespace fast
