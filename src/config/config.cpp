// SPDX-License-Identifier: MIT
#include "config/config.hpp"

#include <stdlib.h>

#include "os/os.hpp"

namespace coffer::config {

namespace {

void complain(const Text& complaint, void*) {
  TextBuffer<400> line;
  line.add("coffer: ").add(complaint.data(), complaint.stored());
  os::write_line(line);
}

constexpr Complaints kComplaints = {&complain, nullptr};

bool starts_with(const char* text, const char* start) {
  while (*start != 0) {
    if (*text++ != *start++) return false;
  }
  return true;
}

bool contains(const char* text, const char* part) {
  for (; *text != 0; ++text) {
    if (starts_with(text, part)) return true;
  }
  return false;
}

// Variables by which people tune glibc's malloc and others: they would wonder why nothing changes.
void name_foreign_variables() {
  char** variables = environment();
  if (variables == nullptr) return;
  for (; *variables != nullptr; ++variables) {
    const char* variable = *variables;
    const bool tunables = starts_with(variable, "GLIBC_TUNABLES=") && contains(variable, "glibc.malloc.");
    if (!tunables && !starts_with(variable, "MALLOC_")) continue;
    TextBuffer<160> line;
    line.add("coffer: ");
    for (usize i = 0; variable[i] != 0 && variable[i] != '=' && i < 64; ++i) line.add(variable[i]);
    line.add(" has no meaning for Coffer's malloc");
    os::write_line(line);
  }
}

void print_confirmation() {
  for (usize i = 0; i < kOptionCount; ++i) {
    const Option& option = kOptions[i];
    TextBuffer<160> line;
    line.add("coffer: ").add(option.name).add(':');
    print_value(option, option.get(g_settings.values), line);
    line.add(" (").add(source_name(g_settings.sources[i])).add(')');
    os::write_line(line);
  }
  name_foreign_variables();
}

void print_help() {
  TextBuffer<160> head;
  head.add("coffer: the options of ").add(kVariable).add("=\"key:value,key:value\"");
  os::write_line(head);
  for (const Option& option : kOptions) {
    TextBuffer<240> line;
    line.add("  ").add(option.name).pad(0, 16).add(' ');
    if (option.type == Type::size || option.type == Type::unsigned_number) {
      print_value(option, option.least, line);
      line.add("..");
      print_value(option, option.greatest, line);
    } else {
      line.add(option.words);
    }
    line.pad(0, 35).add(" default ");  // a blank even after the widest choice
    print_value(option, option.standard, line);
    line.pad(0, 50).add(' ').add(option.help);
    os::write_line(line);
  }
}

// false if something was not understood and that shall end the program.
bool read_all() {
  bool good = true;
  if (kProgramString && &coffer_conf_string != nullptr && coffer_conf_string != nullptr) {
    good &= parse(coffer_conf_string, Source::program, g_settings, kComplaints);
  }
  const char* variable = os::elevated() ? nullptr : find_variable(kVariable);
  if (variable != nullptr) good &= parse(variable, Source::environment, g_settings, kComplaints);
  if (g_settings.values.help) print_help();
  if (g_settings.values.confirm) print_confirmation();
  return good || !g_settings.values.strict;
}

}  // namespace

constinit Atomic<u32> g_phase{kUnread};
constinit Settings g_settings;

void load() {
  if (is_read()) return;
  u32 expected = kUnread;
  // acquire on failure: the same pair. On success nothing was written before.
  while (!g_phase.compare_exchange(expected, kReading, acquire, acquire)) {
    if (expected == kRead) return;
    if (expected == kReading) os::yield();
    expected = kUnread;
  }
  const bool acceptable = read_all();
  g_phase.store(kRead, release);  // release: pairs with the acquire in is_read
  if (acceptable) return;
  // Only now: a handler of SIGABRT may allocate, and come here again.
  constexpr char kStop[] = "coffer: stopped, since strict:true is set\n";
  os::write_error(kStop, sizeof kStop - 1);
  abort();
}

void forget_reading() {
  // relaxed, both: the child has one thread.
  if (g_phase.load(relaxed) == kReading) g_phase.store(kUnread, relaxed);
}

}  // namespace coffer::config
