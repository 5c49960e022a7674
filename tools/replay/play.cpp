// SPDX-License-Identifier: MIT
// Replays a plan under whichever allocator is preloaded, and prints what it measured as JSON:
//
//   replay_play plan=FILE touch=all|first|none lead=OPERATIONS
//
// Uses no C++ runtime and asks the allocator for nothing but what the plan says.
#include "../../bench/suite/arguments.hpp"
#include "player.hpp"

namespace {

using namespace coffer::replay;

const PlanHead& map_plan(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) stop(kUsage, "%s: %s", path, strerror(errno));
  const off_t bytes = lseek(file, 0, SEEK_END);
  if (bytes < static_cast<off_t>(sizeof(PlanHead))) stop(kUsage, "%s: not a plan", path);
  void* const memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  if (memory == MAP_FAILED) stop(kFailed, "%s: %s", path, strerror(errno));
  close(file);
  own_bytes += static_cast<size_t>(bytes);
  const auto* const head = static_cast<const PlanHead*>(memory);
  if (memcmp(head->magic, kPlanMagic, sizeof kPlanMagic) != 0 || head->bytes != static_cast<u64>(bytes)) {
    stop(kUsage, "%s: not a plan", path);
  }
  return *head;
}

void put_calls(suite::Text& out, const char* name, const Histogram& latency, u64 ticks) {
  const auto count = static_cast<size_t>(latency.total());
  const double clock = Ticks::overhead_ns() * static_cast<double>(count);
  const double ns = Ticks::to_ns(ticks) > clock ? Ticks::to_ns(ticks) - clock : 0;
  out.put("\"%s\":{\"count\":%zu,\"ns\":%.0f,\"p50\":%.0f,\"p90\":%.0f,\"p99\":%.0f,\"p99.9\":%.0f,\"max\":%.0f}", name,
          count, ns, latency.quantile_ns(0.5), latency.quantile_ns(0.9), latency.quantile_ns(0.99),
          latency.quantile_ns(0.999), latency.most_ns());
}

void put_latencies(suite::Text& out, const Player& player) {
  static Histogram sums[kCalls], all;
  u64 ticks[kCalls] = {}, all_ticks = 0;
  for (size_t i = 0; i < player.head().threads; ++i) {
    for (size_t call = 0; call < kCalls; ++call) {
      sums[call].merge(player.worker(i).latency[call]);
      all.merge(player.worker(i).latency[call]);
      ticks[call] += player.worker(i).ticks[call];
      all_ticks += player.worker(i).ticks[call];
    }
  }
  out.put("\"calls\":{");
  constexpr const char* kNames[kCalls] = {"malloc", "realloc", "free"};
  for (size_t call = 0; call < kCalls; ++call) {
    put_calls(out, kNames[call], sums[call], ticks[call]);
    out.put(",");
  }
  put_calls(out, "all", all, all_ticks);
  out.put("},\"clock\":\"%s\",\"clock_ns\":%.1f", Ticks::name(), Ticks::overhead_ns());
}

void put_operations(suite::Text& out, const Player& player) {
  constexpr const char* kNames[kOperations] = {"malloc", "calloc", "aligned", "realloc", "free"};
  u64 all = 0;
  out.put("\"operations\":{");
  for (u32 kind = 0; kind < kOperations; ++kind) {
    u64 done = 0;
    for (size_t i = 0; i < player.head().threads; ++i) done += player.worker(i).done[kind];
    if (done != player.head().operations[kind]) stop(kFailed, "the replay did not do what its plan says");
    all += done;
    out.put("\"%s\":%zu,", kNames[kind], static_cast<size_t>(done));
  }
  out.put("\"all\":%zu}", static_cast<size_t>(all));
}

void put_text(suite::Text& out, const char* text) {
  for (; *text != 0; ++text) {
    const bool is_plain = static_cast<unsigned char>(*text) >= 0x20 && *text != '"' && *text != '\\';
    if (is_plain) out.put("%c", *text);
    if (!is_plain) out.put("\\u%04x", static_cast<unsigned char>(*text));
  }
}

void report(const Player& player) {
  const PlanHead& head = player.head();
  suite::Text out(size_t{1} << 20);
  out.put("{\"library\":\"");
  put_text(out, bench::Measurement::library());
  out.put("\",\"threads\":%zu,\"wall_ns\":%zu,\"processor_ns\":%zu,\"faults\":%zu,", static_cast<size_t>(head.threads),
          static_cast<size_t>(player.wall_ns()), static_cast<size_t>(player.processor_ns()),
          static_cast<size_t>(player.faults()));
  put_operations(out, player);
  out.put(",");
  put_latencies(out, player);
  out.put(",\"memory\":{\"own_kib\":%zu,\"start_kib\":%zu,\"peak_kib\":%zu,\"final_kib\":%zu,\"samples_exact\":%s}",
          own_bytes / 1024, player.start_kib(), player.peak_kib(), player.final_kib(),
          player.is_exact() ? "true" : "false");
  out.put(",\"peak_live\":%zu,\"end_live\":%zu,\"left_out\":%zu,\"samples\":[", static_cast<size_t>(head.peak_live),
          static_cast<size_t>(head.end_live), static_cast<size_t>(head.left_out));
  const auto* const live = reinterpret_cast<const u64*>(reinterpret_cast<const char*>(&head) + samples_offset(head));
  for (size_t i = 0; i < head.samples; ++i) {
    const SampleResult& one = player.sample(i);
    out.put("%s[%zu,%zu,%zu,%zu,%zu]", i == 0 ? "" : ",", static_cast<size_t>(one.operation),
            static_cast<size_t>(one.ns), static_cast<size_t>(one.kib), static_cast<size_t>(live[i]),
            static_cast<size_t>(one.live));
  }
  out.put("]}\n");
  out.write_to(STDOUT_FILENO);
}

}  // namespace

int main(int count, char** values) {
  bench::Arguments arguments(count, values);
  const char* const path = arguments.text("plan", "");
  const char* const touch = arguments.text("touch", "all");
  PlayOptions options;
  options.touch = strcmp(touch, "all") == 0 ? Touch::all : strcmp(touch, "first") == 0 ? Touch::first : Touch::none;
  if (options.touch == Touch::none && strcmp(touch, "none") != 0) stop(kUsage, "touch=%s: all, first or none", touch);
  options.lead = arguments.number("lead", 0);
  if (arguments.unread() != nullptr) stop(kUsage, "no argument is called %s", arguments.unread());
  const PlanHead& head = map_plan(path);
  if (options.lead == 0) options.lead = head.all_operations / 1000 < 1000 ? 1000 : head.all_operations / 1000;
  // More than all there are is no bound either, and added to a place it must not go around.
  if (options.lead > head.all_operations) options.lead = head.all_operations;
  Player player(head, options);
  report_crashes();
  player.play();
  report(player);
  _exit(0);
}
