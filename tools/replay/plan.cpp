// SPDX-License-Identifier: MIT
// Compiles a trace into a plan: replay_plan TRACE PLAN [gaps|instructions]. Prints what the trace is, as JSON.
#include <cstdio>
#include <exception>
#include <string>

#include "replay/compile.hpp"

namespace {

using namespace coffer;

void run(const std::string& path, const std::string& plan_path, replay::Gaps gaps) {
  trace::Reader reader(trace::open_file(path));
  if (gaps == replay::Gaps::instructions && reader.information().count("instructions") == 0) {
    throw trace::Error(path + ": no instructions were counted; coffer record --instructions does it");
  }
  replay::CompileOptions options;
  options.gaps = gaps;
  for (const trace::Frame& frame : reader.file().frames()) options.operations += frame.head.records;
  replay::Compiler compiler(options);
  for (trace::Event event; reader.next(event);) compiler.add(event);
  const std::string shortfall = reader.file().shortfall();
  if (!shortfall.empty() && reader.summary().allocations == 0) {
    throw trace::Error(path + ": there is nothing to replay in this trace; " + shortfall);
  }
  const replay::Plan plan = compiler.finish();
  plan.write(plan_path);
  const trace::Summary& summary = reader.summary();
  std::printf(
      "{\"complete\":%s,\"operations\":%llu,\"threads\":%llu,\"peak_live\":%llu,\"end_live\":%llu,\"left_out\":%llu,"
      "\"lost\":%llu,\"unknown_frees\":%llu,\"duration_ns\":%llu,\"instructions\":%llu,\"plan_bytes\":%llu,"
      "\"shortfall\":\"%s\"}\n",
      reader.file().complete() ? "true" : "false", static_cast<unsigned long long>(plan.head.all_operations),
      static_cast<unsigned long long>(plan.head.threads), static_cast<unsigned long long>(plan.head.peak_live),
      static_cast<unsigned long long>(plan.head.end_live), static_cast<unsigned long long>(plan.head.left_out),
      static_cast<unsigned long long>(summary.lost), static_cast<unsigned long long>(summary.unknown_frees),
      static_cast<unsigned long long>(plan.head.duration_ns), static_cast<unsigned long long>(plan.head.instructions),
      static_cast<unsigned long long>(plan.head.bytes), shortfall.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  replay::Gaps gaps = replay::Gaps::none;
  if (argc == 4 && std::string(argv[3]) == "gaps") gaps = replay::Gaps::time;
  if (argc == 4 && std::string(argv[3]) == "instructions") gaps = replay::Gaps::instructions;
  if (argc != 3 && gaps == replay::Gaps::none) {
    std::fprintf(stderr, "usage: replay_plan TRACE PLAN [gaps|instructions]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], gaps);
  } catch (const trace::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: not enough memory to compile it; cut it first (coffer trace cut)\n", argv[1]);
    return 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
