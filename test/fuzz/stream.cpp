// SPDX-License-Identifier: MIT
// The memory that a recorded program shares with its collector, from bytes: heads of chunks that may lie, and records,
// whole ones or not. The collector believes nothing of it, and writes whole frames.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "record/process.hpp"
#include "support/check.hpp"
#include "trace/frames.hpp"
#include "trace/reader.hpp"

namespace {

using namespace coffer::record;
using coffer::trace::Op;

constexpr u32 kChunks = 64;  // the fewest that a collector has

// Records as a thread writes them, into a chunk.
u32 write_records(FuzzedDataProvider& data, u8* chunk, u64 time) {
  coffer::trace::Base base{time, 0};
  u8* at = chunk;
  for (u32 count = data.ConsumeIntegralInRange<u32>(1, 12); count > 0; --count) {
    coffer::trace::Record record;
    record.op = static_cast<Op>(data.ConsumeIntegralInRange<u32>(0, coffer::trace::kOps - 1));
    record.time = base.time + data.ConsumeIntegral<u16>();
    record.a = data.ConsumeBool() ? data.ConsumeIntegral<u8>() : data.ConsumeIntegral<u64>();
    record.b = data.ConsumeBool() ? 16 * data.ConsumeIntegral<u8>() : data.ConsumeIntegral<u64>();
    record.old = 16 * data.ConsumeIntegral<u8>();
    record.duration = data.ConsumeIntegral<u8>();
    record.detail = data.ConsumeIntegral<u8>();
    record.stack = data.ConsumeIntegral<u8>() % 4;
    if (record.op == Op::stack) {
      const u64 frames[] = {record.a, record.b, 3};
      at = coffer::trace::encode_stack(at, record.time, record.stack, frames, 3, base);
    } else {
      at = coffer::trace::encode(at, record, base);
    }
  }
  return static_cast<u32>(at - chunk);
}

void write_area(FuzzedDataProvider& data, Area& area, ChunkHead* heads, u8* chunks) {
  area.fresh.store(data.ConsumeBool() ? 4 : data.ConsumeIntegral<u32>(), std::memory_order_relaxed);
  area.mapped.store(data.ConsumeIntegral<u8>(), std::memory_order_relaxed);
  area.lost[data.ConsumeIntegral<u8>() % kLostKinds].store(data.ConsumeIntegral<u64>(), std::memory_order_relaxed);
  for (u32 i = 0; i < 4; ++i) {
    ChunkHead& head = heads[i];
    head.thread = data.ConsumeBool() ? 1 + i % 2 : data.ConsumeIntegral<u32>();
    head.sequence = data.ConsumeBool() ? i / 2 : data.ConsumeIntegral<u32>();
    head.base_time = data.ConsumeBool() ? 100 * i : data.ConsumeIntegral<u64>();
    u8* const chunk = chunks + u64{i} * kChunkBytes;
    u32 used = write_records(data, chunk, head.base_time);
    for (u32 damaged = data.ConsumeIntegralInRange<u32>(0, 3); damaged > 0; --damaged) {
      chunk[data.ConsumeIntegral<u16>() % (used + 1)] = data.ConsumeIntegral<u8>();
    }
    if (data.ConsumeIntegralInRange<u32>(0, 3) == 0) used = data.ConsumeIntegral<u32>();
    head.used.store(used, std::memory_order_relaxed);
    head.state.store(data.ConsumeIntegral<u8>() % 4, std::memory_order_relaxed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t length) {
  FuzzedDataProvider data(bytes, length);
  const std::string path = "/tmp/coffer_fuzz_stream." + std::to_string(getpid());
  Settings settings;
  settings.use_tsc = false;
  Hello hello{};
  hello.room = area_bytes(kChunks);
  {
    Process process(getpid(), hello, settings, Output(path));
    const u64 whole = area_bytes(process.capacity());
    void* const base = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, process.memory(), 0);
    REQUIRE(base != MAP_FAILED, "the memory cannot be mapped");
    Area& area = *static_cast<Area*>(base);
    auto* const heads = reinterpret_cast<ChunkHead*>(static_cast<u8*>(base) + kHeadsOffset);
    for (u32 turn = 0; turn < 3 && (turn == 0 || data.remaining_bytes() > 0); ++turn) {
      write_area(data, area, heads, static_cast<u8*>(base) + data_offset(process.capacity()));
      process.drain();
    }
    munmap(base, whole);
    process.close("exited", 0);
  }
  // Its frames are whole. What the records say is the program's, and the reader may refuse it.
  const coffer::trace::FrameFile file(coffer::trace::open_file(path));
  REQUIRE(file.complete() && !file.missing().any(), "the trace is not whole: %s", file.shortfall().c_str());
  try {
    coffer::trace::Reader reader(coffer::trace::open_file(path));
    for (coffer::trace::Event event; reader.next(event);) {
    }
  } catch (const coffer::trace::Error&) {
  }
  unlink(path.c_str());
  return 0;
}
