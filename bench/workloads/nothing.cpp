// SPDX-License-Identifier: MIT
// A process that allocates nothing: what an allocator costs before anybody asked it for a byte.
#include "bench.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  bool quiet = arguments.number("quiet", 0) != 0;
  arguments.done();
  if (quiet) return 0;

  // The pages counted one by one; the counters of /proc/self/status may be off by some hundred KiB.
  char text[4096];
  bench::read_text("/proc/self/smaps_rollup", text, sizeof text);
  size_t resident = bench::figure(text, "\nRss:");
  size_t anonymous = bench::figure(text, "\nAnonymous:");
  size_t huge = bench::figure(text, "\nAnonHugePages:");
  size_t page_tables = bench::Memory::now().page_tables;
  char line[512];
  int length = snprintf(line, sizeof line,
                        "resident_kib=%zu anonymous_kib=%zu huge_kib=%zu page_tables_kib=%zu peak_kib=%zu library=%s\n",
                        resident, anonymous, huge, page_tables, resident + page_tables, bench::Measurement::library());
  bench::require(write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length, "cannot write");
}
