// SPDX-License-Identifier: MIT
// Small traces of every kind for tests and examples: trace_sample KIND FILE [NUMBER]. The same arguments, the same
// file.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "trace/writer.hpp"

namespace {

using namespace coffer::trace;

// A generator that is the same everywhere.
struct Random {
  u64 state = 1;
  u64 below(u64 limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
  }
};

Record make(Op op, u64 time, u64 a, u64 b, u8 detail = 0) {
  Record record;
  record.op = op;
  record.time = time;
  record.a = a;
  record.b = b;
  record.detail = detail;
  return record;
}

Record make_realloc(u64 time, u64 size, u64 old, u64 to, u64 duration) {
  Record record = make(Op::realloc, time, size, to);
  record.old = old;
  record.duration = duration;
  return record;
}

// One of each operation.
void every(Writer& writer, Blocks blocks) {
  const u64 x = blocks == Blocks::addresses ? 0x7f0000001000 : 1, step = blocks == Blocks::addresses ? 64 : 1;
  writer.modules({0, {{0x400000, 0x500000, 0, "/bin/sample", "\x01\x02\x03"}}});
  writer.append(0, make(Op::figure, 5, 4096, 0, static_cast<u8>(Figure::resident)));
  writer.append(1, make(Op::thread_start, 10, 4242, 0));
  writer.append(1, make(Op::take, 12, 1 << 21, 0x7f0000000000, static_cast<u8>(Take::mprotect)));
  writer.stack(1, 15, 1, {0x400123, 0x400456});
  Record first = make(Op::malloc, 20, 100, x);
  first.stack = 1;
  writer.append(1, first);
  writer.append(1, make(Op::calloc, 30, 200, x + step));
  writer.append(1, make(Op::aligned, 40, 300, x + 2 * step, 12));
  writer.append(1, make_realloc(50, 400, x, blocks == Blocks::addresses ? x + 3 * step : x, 5));
  writer.append(1, make_realloc(60, u64{1} << 62, x + step, 0, 1));
  writer.append(1, make(Op::malloc, 62, ~u64{0}, 0));
  writer.append(2, make(Op::thread_start, 65, 4243, 0));
  writer.append(2, make(Op::free, 70, 0, x + step));
  writer.append(2, make(Op::thread_end, 75, 0, 0));
  Record counted = make(Op::free, 80, 300, x + 2 * step);
  counted.has_instructions = true;
  counted.instructions = 12345;
  writer.append(1, counted);
  writer.append(1, make(Op::fork, 85, 4300, 0));
  writer.append(1, make(Op::lost, 86, 7, 0, static_cast<u8>(Lost::signal_handler)));
  writer.append(1, make(Op::give, 90, 1 << 21, 0x7f0000000000, static_cast<u8>(Give::madvise)));
  writer.append(1, make(Op::thread_end, 95, 0, 0));
}

// `count` operations on one thread: blocks of mixed sizes, a tenth of them long-lived.
void single(Writer& writer, Blocks blocks, u64 count) {
  Random random;
  std::vector<u64> live;
  u64 next = 0;
  for (u64 i = 0; i < count; ++i) {
    const u64 time = 100 * i;
    if (live.size() < 16 || random.below(2) == 0) {
      const u64 block = blocks == Blocks::addresses ? 0x7f0000000000 + 64 * next : next + 1;
      ++next;
      writer.append(1, make(random.below(10) == 0 ? Op::calloc : Op::malloc, time, 1 + random.below(500), block));
      live.push_back(block);
    } else {
      const u64 which = random.below(live.size());
      writer.append(1, make(Op::free, time, 0, live[which]));
      live[which] = live.back();
      live.pop_back();
    }
  }
}

// Thread 1 allocates, thread 2 frees, and one address goes round and round.
void handover(Writer& writer, Blocks blocks, u64 count) {
  for (u64 i = 0; i < count; ++i) {
    const u64 block = blocks == Blocks::addresses ? 0x7f0000000000 + 64 * (i % 4) : i + 1;
    writer.append(1, make(Op::malloc, 1000 * i, 48, block));
    writer.append(2, make(Op::free, 1000 * i + 500, 0, block));
  }
}

// One thread, blocks of 1 MiB that are never freed.
void large(Writer& writer, Blocks blocks, u64 count) {
  for (u64 i = 0; i < count; ++i) {
    const u64 block = blocks == Blocks::addresses ? 0x7f0000000000 + (i << 21) : i + 1;
    writer.append(1, make(Op::malloc, 1000 * i, u64{1} << 20, block));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: trace_sample every|single|handover|large[-addresses][-stored] FILE [NUMBER]\n");
    return 2;
  }
  std::string kind = argv[1];
  const u64 count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1000;
  Blocks blocks = Blocks::identities;
  int level = 3;
  if (const auto at = kind.find("-stored"); at != std::string::npos) {
    kind.erase(at);
    level = FrameWriter::kStored;
  }
  if (const auto at = kind.find("-addresses"); at != std::string::npos) {
    kind.erase(at);
    blocks = Blocks::addresses;
  }
  try {
    Writer writer(argv[2], {{"made_by", "trace_sample " + std::string(argv[1])}, {"program", "sample"}}, blocks, level);
    if (kind == "every") {
      every(writer, blocks);
    } else if (kind == "single") {
      single(writer, blocks, count);
    } else if (kind == "handover") {
      handover(writer, blocks, count);
    } else if (kind == "large") {
      large(writer, blocks, count);
    } else {
      throw Error("no such kind of sample: " + kind);
    }
    writer.close({{"end", "exited"}, {"status", "0"}});
  } catch (const Error& error) {
    std::fprintf(stderr, "trace_sample: %s\n", error.what());
    return 1;
  }
  return 0;
}
