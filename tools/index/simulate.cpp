// SPDX-License-Identifier: MIT
// simulate [l1=64:64:12] [l2=LINE:SETS:WAYS] [tlb=4096:1:64] [tlb2=...] [cores=1] [warm=1] [laps=4]
// [replace=lru|random]
//
// Reads an access list, lets its streams go round it, and says as JSON what missed. Streams are dealt out to the cores
// in turn, as a scheduler disperses threads; those of a core share its caches and TLBs and take turns, one access each,
// as on a core with several hardware threads. What misses the first level asks the second. The first `warm` laps do
// not count.
#include <cstdio>
#include <iostream>
#include <optional>
#include <set>
#include <string>

#include "access_list.hpp"
#include "cache.hpp"

namespace {

using coffer::tools::Cache;
using coffer::tools::Geometry;
using coffer::tools::Replacement;
using coffer::tools::Stream;

struct Options {
  Geometry l1{64, 64, 8};
  std::optional<Geometry> l2, tlb, tlb2;
  uint64_t cores = 1, warm = 1, laps = 4;
  Replacement replacement = Replacement::lru;
};

uint64_t positive(const std::string& text) { return Geometry::parse("1:1:" + text).ways; }

Options parse(int count, char** values) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = values[i];
    const size_t equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (key == "l1")
      options.l1 = Geometry::parse(value);
    else if (key == "l2")
      options.l2 = Geometry::parse(value);
    else if (key == "tlb")
      options.tlb = Geometry::parse(value);
    else if (key == "tlb2")
      options.tlb2 = Geometry::parse(value);
    else if (key == "cores")
      options.cores = positive(value);
    else if (key == "warm")
      options.warm = positive(value);
    else if (key == "laps")
      options.laps = positive(value);
    else if (key == "replace" && value == "lru")
      options.replacement = Replacement::lru;
    else if (key == "replace" && value == "random")
      options.replacement = Replacement::random;
    else
      throw std::invalid_argument("unknown argument " + argument);
  }
  if (options.tlb2 && !options.tlb) throw std::invalid_argument("tlb2 without tlb");
  return options;
}

// One after the other: the second is asked for what the first misses.
class Levels {
 public:
  Levels(const std::optional<Geometry>& first, const std::optional<Geometry>& second, Replacement replacement) {
    if (first) caches_.emplace_back(*first, replacement);
    if (second) caches_.emplace_back(*second, replacement);
  }

  void access(uint64_t address, uint64_t space) {
    for (Cache& cache : caches_) {
      if (cache.access(address, space)) return;
    }
  }

  void forget_counts() {
    for (Cache& cache : caches_) cache.forget_counts();
  }

  uint64_t misses(size_t level) const { return level < caches_.size() ? caches_[level].misses() : 0; }

 private:
  std::vector<Cache> caches_;
};

struct Core {
  Core(const Options& options)
      : data(options.l1, options.l2, options.replacement), pages(options.tlb, options.tlb2, options.replacement) {}

  Levels data, pages;
  std::vector<const Stream*> streams;

  // Every stream goes round its list at least `laps` times: as often as the longest one needs.
  uint64_t run(uint64_t laps) {
    size_t longest = 0;
    for (const Stream* stream : streams) longest = std::max(longest, stream->addresses.size());
    for (uint64_t step = 0; step < laps * longest; ++step) {
      for (const Stream* stream : streams) {
        const uint64_t address = stream->addresses[step % stream->addresses.size()];
        data.access(address, stream->process);
        pages.access(address, stream->process);
      }
    }
    return laps * longest * streams.size();
  }
};

void print_misses(const char* name, uint64_t misses, uint64_t accesses) {
  std::printf(", \"%s\": %.4f", name, 100.0 * static_cast<double>(misses) / static_cast<double>(accesses));
}

void simulate(const Options& options, const std::vector<Stream>& streams) {
  std::vector<Core> cores(options.cores, Core(options));
  for (size_t i = 0; i < streams.size(); ++i) cores[i % cores.size()].streams.push_back(&streams[i]);
  uint64_t accesses = 0, misses[4] = {};
  for (Core& core : cores) {
    core.run(options.warm);
    core.data.forget_counts();
    core.pages.forget_counts();
    accesses += core.run(options.laps);
    for (size_t level = 0; level < 2; ++level) {
      misses[level] += core.data.misses(level);
      misses[2 + level] += core.pages.misses(level);
    }
  }

  const uint64_t page = options.tlb ? options.tlb->line : 4096;
  std::set<std::pair<uint64_t, uint64_t>> lines, pages;
  std::set<uint64_t> indices;
  for (const Stream& stream : streams) {
    for (uint64_t address : stream.addresses) {
      lines.emplace(stream.process, address / options.l1.line);
      pages.emplace(stream.process, address / page);
      indices.insert(options.l1.index(address));
    }
  }
  std::printf("{\"streams\": %zu, \"accesses\": %llu, \"lines\": %zu, \"indices\": %zu, \"pages\": %zu", streams.size(),
              static_cast<unsigned long long>(accesses), lines.size(), indices.size(), pages.size());
  // Misses of 100 accesses.
  print_misses("l1", misses[0], accesses);
  if (options.l2) print_misses("l2", misses[1], accesses);
  if (options.tlb) print_misses("tlb", misses[2], accesses);
  if (options.tlb2) print_misses("tlb2", misses[3], accesses);
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  std::ios::sync_with_stdio(false);
  const std::vector<Stream> streams = coffer::tools::read_access_list(std::cin);
  if (streams.empty()) throw std::runtime_error("the access list has no access");
  simulate(options, streams);
  return std::fflush(stdout) == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "simulate: %s\n", error.what());
  return 1;
}
