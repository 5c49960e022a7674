// SPDX-License-Identifier: MIT
// simulate_<allocator> workload=NAME [cores=N] [seed=N] [scale=X] [any cost=cycles] ...: runs one experiment on a
// simulated machine and prints what it found as a line of JSON. `help` lists what there is.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "program.hpp"
#include "symbols.hpp"

namespace simulation {

namespace {

constexpr std::size_t kShown = 12;  // lines and places

struct CostName {
  const char* name;
  u64 Costs::* field;
};
constexpr CostName kCostNames[] = {
    {"hit", &Costs::hit},
    {"change", &Costs::change},
    {"fence", &Costs::fence},
    {"pause", &Costs::pause},
    {"read_owned_near", &Costs::read_owned_near},
    {"read_owned_far", &Costs::read_owned_far},
    {"read_shared_near", &Costs::read_shared_near},
    {"read_shared_far", &Costs::read_shared_far},
    {"write_owned_near", &Costs::write_owned_near},
    {"write_owned_far", &Costs::write_owned_far},
    {"write_shared_near", &Costs::write_shared_near},
    {"write_shared_far", &Costs::write_shared_far},
    {"memory", &Costs::memory},
    {"directory", &Costs::directory},
    {"system_call", &Costs::system_call},
    {"map", &Costs::map},
    {"purge", &Costs::purge},
    {"purge_page", &Costs::purge_page},
    {"fault", &Costs::fault},
    {"barrier", &Costs::barrier},
    {"interruption", &Costs::interruption},
    {"thread_start", &Costs::thread_start},
    {"wake", &Costs::wake},
};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "simulate: %s (`help` lists what there is)\n", what.c_str());
  std::exit(2);
}

[[noreturn]] void help() {
  std::printf("simulate_%s workload=NAME [cores=1, 2, 4 ... %u] [seed=1] [scale=1] [socket=32] [COST=cycles]\n",
              subject::name, kMostCores);
  std::puts("workloads:");
  for (u32 i = 0; i < kWorkloadCount; ++i) std::printf("  %-20s %s\n", kWorkloads[i].name, kWorkloads[i].what);
  std::puts("costs, in cycles:");
  const Costs costs;
  for (const CostName& one : kCostNames) std::printf("  %-20s %llu\n", one.name, 0ULL + costs.*one.field);
  std::exit(0);
}

template <class T>
T number(std::string_view key, std::string_view text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= low && value <= high)) {
    refuse(std::string(key) + "=" + std::string(text) + " is not allowed");
  }
  return value;
}

struct Wanted {
  const Workload* workload = nullptr;
  Plan plan;
  Shape shape;
  Costs costs;
};

void set(Wanted& wanted, std::string_view key, std::string_view value) {
  if (key == "workload") {
    for (u32 i = 0; i < kWorkloadCount; ++i) {
      if (value == kWorkloads[i].name) wanted.workload = &kWorkloads[i];
    }
    if (wanted.workload == nullptr) refuse("no workload " + std::string(value));
  } else if (key == "cores") {
    wanted.plan.cores = number<u32>(key, value, 1, kMostCores);
    if ((wanted.plan.cores & (wanted.plan.cores - 1)) != 0) refuse("cores is a power of two");
  } else if (key == "seed") {
    wanted.plan.seed = number<u64>(key, value, 0, ~u64{0});
  } else if (key == "scale") {
    wanted.plan.scale = number<double>(key, value, 0.001, 100);
  } else if (key == "socket") {
    wanted.shape.cores_a_socket = number<u32>(key, value, 1, kMostCores);
  } else {
    for (const CostName& one : kCostNames) {
      if (key != one.name) continue;
      wanted.costs.*one.field = number<u64>(key, value, 0, 1'000'000);
      return;
    }
    refuse("no key " + std::string(key));
  }
}

Wanted read_arguments(int count, char** values) {
  Wanted wanted;
  for (int i = 1; i < count; ++i) {
    const std::string_view text = values[i];
    if (text == "help" || text == "--help") help();
    const auto equal = text.find('=');
    if (equal == std::string_view::npos) refuse("not key=value: " + std::string(text));
    set(wanted, text.substr(0, equal), text.substr(equal + 1));
  }
  if (wanted.workload == nullptr) refuse("which workload?");
  wanted.shape.cores = wanted.plan.cores;
  return wanted;
}

// --- The result. ---

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char one : text) {
    if (one == '"' || one == '\\') result += '\\';
    result += one;
  }
  return result + '"';
}

std::string pair(const char* key, u64 value) { return "\"" + std::string(key) + "\":" + std::to_string(value); }

std::string name_of_line(uptr address) {
  std::string name = subject::name_of(address);
  if (name.empty()) name = variables_on(address);
  if (name.empty())
    name = is_table(address) ? "the program's tables" : is_ground(address) ? "mapped memory" : "static data";
  return name;
}

std::string calls_text(const Machine::Counts& counts) {
  std::string result = "{";
  for (u32 call = 0; call < kCalls; ++call) {
    const CallCounts& one = counts.calls[call];
    if (call != 0) result += ",";
    result += "\"" + std::string(kCallNames[call]) + "\":{" + pair("calls", one.calls) + "," +
              pair("cycles", one.cycles) + "," + pair("p50", one.quantile(0.5)) + "," +
              pair("p99", one.quantile(0.99)) + "," + pair("most", one.most) + "," + pair("accesses", one.accesses) +
              "," + pair("misses", one.misses) + "," + pair("transfers", one.transfers) + "," +
              pair("invalidations", one.invalidations) + "," + pair("failed", one.failed) + "," +
              pair("waited", one.waited) + "," + pair("system", one.system) + "}";
  }
  return result + "}";
}

struct LineSum {
  std::string name;
  u64 lines = 0, hottest = 0;
  LineCounts counts, in_calls;
};

void add(LineCounts& sum, const LineCounts& one) {
  sum.transfers += one.transfers;
  sum.invalidations += one.invalidations;
  sum.failed += one.failed;
  sum.waited += one.waited;
}

std::string line_counts_text(const LineCounts& one) {
  return pair("transfers", one.transfers) + "," + pair("invalidations", one.invalidations) + "," +
         pair("failed", one.failed) + "," + pair("waited", one.waited);
}

// By name: all lines of a kind together, and the share of the hottest one.
std::string lines_text(const Memory& memory) {
  std::map<std::string, LineSum> sums;
  for (const auto& [number, line] : memory.lines()) {
    const LineCounts& counts = line.counts;
    if (counts.transfers + counts.invalidations + counts.failed + counts.waited == 0) continue;
    const std::string name = name_of_line(number * kLineBytes);
    LineSum& sum = sums[name];
    sum.name = name;
    ++sum.lines;
    add(sum.counts, counts);
    add(sum.in_calls, line.in_calls);
    sum.hottest = std::max(sum.hottest, counts.transfers);
  }
  std::vector<LineSum> sorted;
  for (const auto& [name, sum] : sums) sorted.push_back(sum);
  std::sort(sorted.begin(), sorted.end(), [](const LineSum& a, const LineSum& b) {
    const u64 ours = a.counts.waited + 100 * a.counts.transfers, theirs = b.counts.waited + 100 * b.counts.transfers;
    return ours != theirs ? ours > theirs : a.name < b.name;
  });
  std::string result = "[";
  for (std::size_t i = 0; i < sorted.size() && i < kShown; ++i) {
    const LineSum& one = sorted[i];
    if (i != 0) result += ",";
    result += "{\"name\":" + quoted(one.name) + "," + pair("lines", one.lines) + "," + line_counts_text(one.counts) +
              "," + pair("hottest", one.hottest) + ",\"in_calls\":{" + line_counts_text(one.in_calls) + "}}";
  }
  return result + "]";
}

std::string places_text(const Machine::Counts& counts) {
  std::map<std::string, PlaceCounts> sums;
  for (const auto& [where, one] : counts.places) {
    std::string name;
    if (where.function == nullptr) {
      name = function_at(where.line) + " (plain)";
    } else {
      const char* const from = std::strstr(where.file, "src/");
      name =
          std::string(where.function) + " " + (from != nullptr ? from : where.file) + ":" + std::to_string(where.line);
    }
    PlaceCounts& sum = sums[name];
    sum.misses += one.misses;
    sum.transfers += one.transfers;
    sum.invalidations += one.invalidations;
    sum.failed += one.failed;
    sum.waited += one.waited;
  }
  std::vector<std::pair<std::string, PlaceCounts>> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const u64 ours = a.second.waited + 100 * a.second.transfers, theirs = b.second.waited + 100 * b.second.transfers;
    return ours != theirs ? ours > theirs : a.first < b.first;
  });
  std::string result = "[";
  for (std::size_t i = 0; i < sorted.size() && i < kShown; ++i) {
    const auto& [name, one] = sorted[i];
    if (i != 0) result += ",";
    result += "{\"name\":" + quoted(name) + "," + pair("misses", one.misses) + "," + pair("transfers", one.transfers) +
              "," + pair("invalidations", one.invalidations) + "," + pair("failed", one.failed) + "," +
              pair("waited", one.waited) + "}";
  }
  return result + "]";
}

void print(const Wanted& wanted, const Measured& measured, Machine& machine) {
  std::string system;
  for (const auto& [name, count] : machine.counts().system) {
    if (!system.empty()) system += ",";
    system += pair(name.c_str(), count);
  }
  std::printf(
      "{\"allocator\":\"%s\",\"workload\":\"%s\",%s,%s,\"scale\":%g,%s,%s,%s,%s,\"calls\":%s,\"system\":{%s},"
      "\"lines\":%s,\"places\":%s}\n",
      subject::name, wanted.workload->name, pair("cores", wanted.plan.cores).c_str(),
      pair("seed", wanted.plan.seed).c_str(), wanted.plan.scale, pair("operations", measured.operations).c_str(),
      pair("cycles", measured.cycles).c_str(), pair("remote", measured.checksum).c_str(),
      pair("switches", machine.counts().switches).c_str(), calls_text(machine.counts()).c_str(), system.c_str(),
      lines_text(machine.memory()).c_str(), places_text(machine.counts()).c_str());
}

}  // namespace

}  // namespace simulation

int main(int count, char** values) {
  using namespace simulation;
  const Wanted wanted = read_arguments(count, values);
  // What depends on threads that come and go goes with the process.
  static Machine machine(wanted.shape, wanted.costs, wanted.plan.seed);
  const Measured measured = wanted.workload->run(machine, wanted.plan);
  print(wanted, measured, machine);
  std::fflush(stdout);
  std::_Exit(0);
}
