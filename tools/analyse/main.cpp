// SPDX-License-Identifier: MIT
// What `coffer trace` and `coffer report` do with a trace: libexec/coffer/trace COMMAND KEY=VALUE... Files are checked
// and arguments explained by the Python front; here a wrong one is only refused. Errors are one line, status 1.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "analyse/edit.hpp"
#include "analyse/export.hpp"
#include "analyse/flows.hpp"
#include "analyse/moment.hpp"
#include "analyse/statistics.hpp"

namespace {

using namespace coffer;
using namespace coffer::analyse;
using trace::Error;
using trace::Event;
using trace::Reader;

class Arguments {
 public:
  Arguments(int count, char** values) {
    for (int i = 2; i < count; ++i) {
      const std::string text = values[i];
      const auto at = text.find('=');
      if (at == std::string::npos) throw Error("an argument is KEY=VALUE: " + text);
      values_[text.substr(0, at)].push_back(text.substr(at + 1));
    }
  }

  std::vector<std::string> all(const std::string& key) {
    const auto it = values_.find(key);
    if (it == values_.end()) return {};
    std::vector<std::string> result = std::move(it->second);
    values_.erase(it);
    return result;
  }
  // Those that all() will give.
  std::vector<std::string> seen(const std::string& key) const {
    const auto it = values_.find(key);
    return it == values_.end() ? std::vector<std::string>{} : it->second;
  }
  std::string one(const std::string& key) {
    std::string text = one(key, "");
    if (text.empty()) throw Error(key + "= is missing");
    return text;
  }
  std::string one(const std::string& key, const std::string& fallback) {
    const std::vector<std::string> found = all(key);
    return found.empty() ? fallback : found.back();
  }
  u64 number(const std::string& key, u64 fallback) {
    const std::string text = one(key, "");
    return text.empty() ? fallback : parse(key, text);
  }
  double real(const std::string& key, double fallback) {
    const std::string text = one(key, "");
    if (text.empty()) return fallback;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != 0) throw Error(key + "=" + text + " is no number");
    return value;
  }
  std::set<u32> numbers(const std::string& key) {
    std::set<u32> result;
    for (const std::string& text : all(key)) result.insert(static_cast<u32>(parse(key, text)));
    return result;
  }
  void done() const {
    if (!values_.empty()) throw Error("no argument is called " + values_.begin()->first);
  }

 private:
  static u64 parse(const std::string& key, const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const u64 value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end != 0 || errno != 0 || text[0] == '-') throw Error(key + "=" + text + " is no number");
    return value;
  }

  std::map<std::string, std::vector<std::string>> values_;
};

u64 expected_records(const Reader& reader) {
  u64 records = 0;
  for (const trace::Frame& frame : reader.file().frames()) records += frame.head.records;
  return records;
}

bool has_addresses(const Reader& reader) {
  return static_cast<trace::Blocks>(reader.file().head().blocks) == trace::Blocks::addresses;
}

// Lines `DONE ALL` of records to this descriptor, a few a second, for whoever waits.
int g_progress_to = -1;
u64 g_records_read = 0, g_records_in_all = 0;

void tell_progress(u64 records) {
  static std::chrono::steady_clock::time_point told;
  g_records_read += records;
  const auto now = std::chrono::steady_clock::now();
  if (now - told < std::chrono::milliseconds(100)) return;
  told = now;
  dprintf(g_progress_to, "%llu %llu\n", static_cast<unsigned long long>(g_records_read),
          static_cast<unsigned long long>(g_records_in_all));
}

void begin_progress(Arguments& arguments, const std::string& command) {
  const u64 to = arguments.number("progress", ~u64{0});
  if (to > 1023) return;
  for (const std::string& path : arguments.seen("in")) {
    g_records_in_all += expected_records(Reader(trace::open_file(path))) * (command == "survey" ? 2 : 1);
  }
  g_progress_to = static_cast<int>(to);
  trace::g_frame_was_read = tell_progress;
}

// Statistics, then the fullest moment and the one in which most is pinned.
void survey(Arguments& arguments) {
  const std::string path = arguments.one("in");
  const u64 window = arguments.number("window", 32768);
  arguments.done();
  if (window < 64 || (window & (window - 1)) != 0) throw Error("window=: a power of two, at least 64");
  Json out;
  out.open('{');
  u64 peak = 0, worst = 0;
  {
    Reader reader(trace::open_file(path));
    Statistics statistics(expected_records(reader));
    Windows windows(window, has_addresses(reader));
    for (Event event; reader.next(event);) {
      statistics.add(event);
      windows.add(event);
    }
    statistics.write(out);
    peak = statistics.peak_event();
    worst = windows.worst_event();
  }
  Reader reader(trace::open_file(path));
  Windows windows(window, has_addresses(reader));
  for (Event event; windows.events() < (peak > worst ? peak : worst) && reader.next(event);) {
    windows.add(event);
    for (const auto& [name, moment] : {std::pair{"at_peak", peak}, std::pair{"at_worst", worst}}) {
      if (windows.events() != moment) continue;
      out.key(name).open('{');
      windows.write(out);
      out.close('}');
    }
  }
  out.close('}');
  std::printf("%s\n", out.text().c_str());
}

// By call site over time. Duration and peak are those that survey has told.
void flows(Arguments& arguments) {
  const std::string path = arguments.one("in");
  const u64 duration = arguments.number("duration", 0);
  const u64 parts = arguments.number("parts", 120);
  const u64 peak_event = arguments.number("peak_event", 0);
  arguments.done();
  if (parts == 0 || parts > 100000) throw Error("parts=: from 1 to 100000");
  Reader reader(trace::open_file(path));
  Flows found(duration, static_cast<u32>(parts), peak_event);
  for (Event event; reader.next(event);) found.add(event);
  Json out;
  out.open('{');
  found.write(out);
  out.close('}');
  std::printf("%s\n", out.text().c_str());
}

Range range(Arguments& arguments, const std::string& key) {
  return {arguments.number(key + "_from", 0), arguments.number(key + "_to", ~u64{0})};
}

void run(const std::string& command, Arguments& arguments) {
  if (command == "survey") return survey(arguments);
  if (command == "flows") return flows(arguments);
  const std::vector<std::string> inputs = arguments.all("in");
  if (inputs.empty()) throw Error("in= is missing");
  const std::string to = arguments.one("out");
  const std::string made_by = "coffer trace " + command;
  u64 records = 0;
  if (command == "cut") {
    CutOptions options{range(arguments, "time"), range(arguments, "event"), arguments.number("live", 1) != 0};
    arguments.done();
    records = cut(inputs[0], to, options, made_by);
  } else if (command == "filter") {
    FilterOptions options{arguments.numbers("thread"), arguments.numbers("stack"), range(arguments, "size")};
    arguments.done();
    records = filter(inputs[0], to, options, made_by);
  } else if (command == "merge") {
    const bool together = arguments.number("together", 0) != 0;
    arguments.done();
    records = merge(inputs, to, together, made_by);
  } else if (command == "anonymize") {
    AnonymizeOptions options{arguments.number("size_step", 1), arguments.number("time_step", 1)};
    arguments.done();
    if (options.size_step == 0 || options.time_step == 0) throw Error("a step of 0");
    records = anonymize(inputs[0], to, options);
  } else if (command == "csv") {
    arguments.done();
    return export_csv(inputs[0], to);
  } else if (command == "chrome") {
    const u64 least = arguments.number("least", 65536);
    arguments.done();
    return export_chrome(inputs[0], to, least);
  } else if (command == "rt" || command == "hw") {
    const bool is_hw = command == "hw";
    const std::string policy = arguments.one("policy", is_hw ? "knuth" : "estranged");
    RtOptions options{.is_knuth = policy == "knuth", .heap = arguments.number("heap", is_hw ? 32 << 20 : 1 << 20)};
    options.gaps = is_hw;
    if (is_hw) {
      options.cycles_per_instruction = arguments.real("cycles_per_instruction", options.cycles_per_instruction);
      options.cycles_per_ns = arguments.real("cycles_per_ns", options.cycles_per_ns);
      options.longest = arguments.number("longest_gap", options.longest);
    }
    arguments.done();
    if (!options.is_knuth && policy != "estranged") throw Error("policy: knuth or estranged");
    std::printf("%s\n", export_rt(inputs[0], to, options).c_str());
    return;
  } else {
    throw Error("no command is called " + command);
  }
  std::printf("{\"records\":%llu}\n", static_cast<unsigned long long>(records));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: trace survey|flows|cut|filter|merge|anonymize|csv|chrome|rt|hw KEY=VALUE...\n");
    return 2;
  }
  try {
    Arguments arguments(argc, argv);
    begin_progress(arguments, argv[1]);
    run(argv[1], arguments);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "not enough memory for this trace; cut it first\n");
    return 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
