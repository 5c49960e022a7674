// SPDX-License-Identifier: MIT
// Written in a signal handler, perhaps on a small stack, by a process that is about to die: no memory is allocated, no
// lock is taken but the one here, and what is large is static.
#include "guard/report.hpp"

#include <stdlib.h>

#include "config/config.hpp"
#include "observe/callers.hpp"
#include "os/os.hpp"
#include "os/spin_lock.hpp"

namespace coffer::guard {

namespace {

constexpr u32 kMostReports = 16;  // of a process that goes on after faults

struct Report {
  SpinLock lock;  // around all that follows
  u32 written = 0;
  int file = -1;
  char line[768] = {};
  Stack access = {};
  // The code that the last frame lay in: the next one mostly lies there, too.
  os::Mapping code = {};
  char code_path[512] = {};
  uptr wanted = 0;
};
constinit Report g_report;

class Line : public Text {
 public:
  Line() : Text(g_report.line, sizeof g_report.line) { add("coffer: guard: "); }
  ~Line() {
    end_line();
    os::write_error(data(), stored());
    if (g_report.file >= 0) os::write_file(g_report.file, data(), stored());
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
};

const char* name_of(Misuse what) {
  switch (what) {
    case Misuse::overflow:
      return "overflow";
    case Misuse::underflow:
      return "underflow";
    case Misuse::use_after_free:
      return "use after free";
    case Misuse::double_free:
      return "double free";
    case Misuse::invalid_free:
      return "invalid free";
    case Misuse::wrong_size:
      return "wrong size";
  }
  return "unknown";
}

void keep_code(const os::Mapping& mapping, void*) {
  Report& r = g_report;
  if (r.wanted < mapping.begin || r.wanted >= mapping.end) return;
  r.code = mapping;
  usize length = 0;
  for (; mapping.path[length] != 0 && length + 1 < sizeof r.code_path; ++length) {
    r.code_path[length] = mapping.path[length];
  }
  r.code_path[length] = 0;
}

void write_frame(uptr address) {
  Report& r = g_report;
  if (address < r.code.begin || address >= r.code.end) {
    r.wanted = address;
    r.code = {};
    os::for_each_code_mapping(&keep_code, nullptr);
  }
  Line line;
  line.add("  ").hex(address);
  if (address < r.code.begin || address >= r.code.end) return;
  line.add(' ').add(r.code_path).add('+').hex(address - r.code.begin + r.code.offset);
}

void write_stack(const char* what, const Stack& stack) {
  {
    Line line;
    line.add(what).add(" by thread ").number(stack.thread);
    if (stack.count == 0) line.add(", stack unknown");
  }
  for (u32 i = 0; i < stack.count && i < kFrames; ++i) write_frame(stack.frames[i]);
}

void write_head(Misuse what, const char* call, uptr address, const Record* record, usize given) {
  Line line;
  line.add(name_of(what)).add(": ").add(call).add(" at ").hex(address);
  if (record == nullptr) {
    line.add(", near no block that is known");
    return;
  }
  const uptr block = record->block.get();
  line.add(", offset ");
  if (address < block) line.add('-');
  line.number(address < block ? block - address : address - block);
  line.add(" of a block of ").number(record->size.get()).add(" bytes at ").hex(block);
  if (given != kNoSize) line.add(", size ").number(given).add(" was given");
}

// The stack of who did it is in `access` already.
void write(Misuse what, const char* call, uptr address, const Record* record, usize given) {
  Report& r = g_report;
  const char* path = config::options().crash_report;
  r.file = path != nullptr ? os::create_file(path, os::Existing::append) : -1;
  write_head(what, call, address, record, given);
  {
    char name[os::kProgramNameBytes] = {};
    os::program_name(name);
    Line line;
    line.add("process ").number(os::process_number()).add(" (").add(name).add("), thread ").number(os::thread_number());
  }
  write_stack("access", r.access);
  if (record != nullptr) {
    write_stack("allocated", record->allocated);
    if (record->freed.count != 0) write_stack("freed", record->freed);
  }
  if (r.file >= 0) os::close_file(r.file);
  r.file = -1;
}

Misuse kind_of(uptr address, const Record* record) {
  // relaxed: last words.
  const State state = record != nullptr ? record->state.load(relaxed) : State::freed;
  if (state != State::live && state != State::making) return Misuse::use_after_free;
  return address < record->block.get() ? Misuse::underflow : Misuse::overflow;
}

void at_fault(const os::Fault& fault) {
  Report& r = g_report;
  if (!owns(reinterpret_cast<const void*>(fault.address)) || r.lock.is_mine()) return;
  const LockGuard guard(r.lock);
  if (r.written++ >= kMostReports) return;
  r.access.thread = os::thread_number();
  r.access.count = os::interrupted_stack(fault.context, r.access.frames, kFrames);
  const Record* record = find_near(fault.address);
  const char* call = fault.access == os::Access::write ? "write" : "access";
  if (fault.access == os::Access::read) call = "read";
  write(kind_of(fault.address, record), call, fault.address, record, kNoSize);
}

}  // namespace

bool watch_faults() { return os::on_fault(&at_fault); }

void forget_reporters() { g_report.lock.forget_others(); }

void refuse(Misuse what, const char* call, uptr address, const Record* record, usize given) {
  Report& r = g_report;
  {
    const LockGuard guard(r.lock);
    r.access.thread = os::thread_number();
    r.access.count = find_callers(r.access.frames, kFrames);
    write(what, call, address, record, given);
  }
  abort();
}

}  // namespace coffer::guard
