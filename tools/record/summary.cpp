// SPDX-License-Identifier: MIT
#include "record/summary.hpp"

#include <cstdio>
#include <string>

namespace coffer::record {

void say_done(const Process& process, const Settings& settings, bool quiet) {
  const char* const path = process.path().c_str();
  if (!process.other().empty()) {
    std::fprintf(stderr,
                 "coffer record: %s ends where the process became %s, which did not load the recorder (a static or "
                 "setuid program, or an environment without LD_PRELOAD)\n",
                 path, process.other().c_str());
  }
  if (settings.instructions && !process.counts()) {
    std::fprintf(stderr,
                 "coffer record: %s has no instruction counts: %s was executed, and valgrind stays behind then\n", path,
                 process.program().c_str());
  }
  if (quiet) return;
  const auto bytes = static_cast<double>(process.bytes());
  char size[32];
  std::snprintf(size, sizeof size, bytes < 1e6 ? "%.1f kB" : "%.1f MB", bytes / (bytes < 1e6 ? 1e3 : 1e6));
  std::fprintf(stderr, "coffer record: %s: %s, %llu records of %zu thread%s, %s%s\n", path, process.program().c_str(),
               static_cast<unsigned long long>(process.records()), process.threads(), process.threads() == 1 ? "" : "s",
               size, process.lost() == 0 ? "" : (", " + std::to_string(process.lost()) + " LOST").c_str());
}

}  // namespace coffer::record
