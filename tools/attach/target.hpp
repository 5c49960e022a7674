// SPDX-License-Identifier: MIT
// What /proc and a process's own memory say of it: its threads, and the code and memory in it that serve a Remote.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attach/remote.hpp"

namespace coffer::attach {

struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  bool readable = false, writable = false, executable = false, shared = false;
  std::string path;  // or [stack], [anon:...], or nothing
};
std::vector<Mapping> mappings(pid_t process);

// Where in the process is what Coffer brings for us (src/inspect/attached.cpp says what each is).
struct Table {
  std::uint64_t start, stop, dump;
  Scratch scratch;
};
// Read from the note that every ELF file with Coffer in it has, as it is mapped: so it is found in programs that were
// stripped or linked statically, and where the file has been replaced since.
std::optional<Table> find_table(pid_t process, const std::vector<Mapping>& mapped);

Gadgets find_gadgets(pid_t process, const std::vector<Mapping>& mapped);

// A field of a thread's status, of which the first has the number of the process; "" if there is none.
std::string status_field(pid_t process, pid_t thread, const std::string& name);

struct Thread {
  pid_t number;
  int rank;  // the less, the less it is disturbed
};
// Those that may be held, the best first.
std::vector<Thread> threads(pid_t process);
// From here on a stop ends what a thread waits in by EINTR, and a Remote has it begin again: whoever kills us before
// that lets the program see it. So these wait until no better one has served for long.
constexpr int kInterrupted = 2;
// From here on a thread is left for later: it waits for something with a time limit, and would wait too long.
constexpr int kLate = 3;

// Whether its stack may lie there just now. Of one that runs that is not known.
bool may_be_in(pid_t process, pid_t thread, const Scratch& where);

// The contents of /proc/PROCESS/NAME; throws Ended if it is gone.
std::string read_proc(pid_t process, const std::string& name);

}  // namespace coffer::attach
