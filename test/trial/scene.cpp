// SPDX-License-Identifier: MIT
#include "trial/scene.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <sstream>

namespace coffer::trial {

const char* const kActionNames[kActions] = {
    "malloc", "calloc", "aligned", "by_handle", "free",   "free_sized", "realloc",     "verify",      "await",
    "start",  "renew",  "sleep",   "tick",      "limit",  "trim",       "stats",       "check",       "fork",
    "group",  "cancel", "exit",    "show",      "handle", "cores",      "freed_twice", "freed_inside"};

namespace {

constexpr const char* kOrderNames[] = {"walk", "pct", "given"};
constexpr const char* kMemoryNames[] = {"at_once", "as_x86", "as_arm"};
constexpr const char* kEffectNames[] = {"fail", "slow"};

constexpr u64 kMostPage = 65536;
constexpr u32 kMostAlignmentLog2 = 40;

template <usize kCount>
bool find_name(const char* const (&names)[kCount], const std::string& word, u32& index) {
  for (index = 0; index < kCount; ++index) {
    if (word == names[index]) return true;
  }
  return false;
}

// A last number, which may be missing.
void read_if_there(std::istream& words, u32& value) {
  u32 found = 0;
  if (!words) return;
  if (words >> found) {
    value = found;
  } else {
    words.clear();
  }
}

template <class... Values>
void add(std::string& text, const char* format, Values... values) {
  char line[160];
  std::snprintf(line, sizeof line, format, values...);
  text += line;
}

}  // namespace

bool has(const Scene& scene, Action action) {
  const auto& all = scene.operations;
  return std::any_of(all.begin(), all.end(), [&](const Operation& one) { return one.action == action; });
}

std::string to_text(const Scene& scene) {
  const Kernel& kernel = scene.kernel;
  std::string text;
  if (!scene.options.empty()) text += "options " + scene.options + "\n";
  add(text,
      "kernel %" PRIu64 " page %" PRIu64 " processors %u roams %d sparse %d torn %d barrier %d memory %" PRIu64 "\n",
      kernel.seed, scene.page, kernel.processors, kernel.roams, kernel.sparse, kernel.torn, kernel.barrier,
      kernel.memory_limit);
  add(text, "order %s %" PRIu64 " %u\n", kOrderNames[static_cast<u32>(scene.schedule.order)], scene.schedule.seed,
      scene.schedule.rate);
  if (scene.schedule.memory != Memory::at_once)
    add(text, "memory %s\n", kMemoryNames[static_cast<u32>(scene.schedule.memory)]);
  for (const Fault& fault : kernel.faults) {
    add(text, "call %" PRIu64 " %s %" PRIu64, fault.call, kEffectNames[static_cast<u32>(fault.effect)], fault.count);
    if (fault.kinds != ~u32{0}) add(text, " %u", fault.kinds);
    text += '\n';
  }
  for (const Operation& one : scene.operations) {
    add(text, "%u %s %u %" PRIu64, one.thread, kActionNames[static_cast<u32>(one.action)], one.slot, one.size);
    if (one.alignment_log2 != 0) add(text, " %u", one.alignment_log2);
    text += '\n';
  }
  for (const Switch& one : scene.schedule.switches) add(text, "switch %" PRIu64 " %u\n", one.step, one.to);
  return text;
}

bool from_text(const std::string& text, Scene& scene, std::string& wrong) {
  scene = {};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string first, word;
    u32 index = 0;
    if (!(words >> first)) continue;
    bool good = true;
    if (first == "options") {
      words >> scene.options;
    } else if (first == "kernel") {
      Kernel& kernel = scene.kernel;
      words >> kernel.seed >> word >> scene.page >> word >> kernel.processors >> word >> kernel.roams >> word >>
          kernel.sparse >> word >> kernel.torn >> word >> kernel.barrier >> word >> kernel.memory_limit;
      const u64 page = scene.page;
      good = kernel.processors != 0 && page >= 4096 && page <= kMostPage && (page & (page - 1)) == 0;
    } else if (first == "order") {
      words >> word >> scene.schedule.seed >> scene.schedule.rate;
      good = find_name(kOrderNames, word, index);
      scene.schedule.order = static_cast<Order>(index);
    } else if (first == "memory") {
      words >> word;
      good = find_name(kMemoryNames, word, index);
      scene.schedule.memory = static_cast<Memory>(index);
    } else if (first == "call") {
      Fault fault{};
      words >> fault.call >> word >> fault.count;
      good = find_name(kEffectNames, word, index);
      fault.effect = static_cast<Effect>(index);
      read_if_there(words, fault.kinds);
      scene.kernel.faults.push_back(fault);
    } else if (first == "switch") {
      Switch one{};
      words >> one.step >> one.to;
      scene.schedule.switches.push_back(one);
    } else {
      Operation one{};
      const u32 thread = static_cast<u32>(std::strtoul(first.c_str(), nullptr, 10));
      words >> word >> one.slot >> one.size;
      good = first.find_first_not_of("0123456789") == std::string::npos && find_name(kActionNames, word, index) &&
             thread < kMostThreads && one.slot < kSlots;
      one.thread = static_cast<u8>(thread);
      one.action = static_cast<Action>(index);
      read_if_there(words, one.alignment_log2);
      good = good && one.alignment_log2 <= kMostAlignmentLog2;
      scene.operations.push_back(one);
    }
    good = good && words && (first == "options" || line.find('-') == std::string::npos);
    if (good && !(words >> word)) continue;  // nothing follows
    wrong = "not understood: " + line;
    return false;
  }
  return true;
}

}  // namespace coffer::trial
