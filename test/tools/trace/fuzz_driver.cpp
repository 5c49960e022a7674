// SPDX-License-Identifier: MIT
// A short run of the fuzzer's entry with changes of small traces, the same ones each time: fuzz_driver [RUNS [SEED]].
// The reader is built without checksums here, as for libFuzzer (tools/trace/fuzz.cpp).
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "trace/writer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace coffer::trace;
using Bytes = std::vector<std::uint8_t>;

struct Random {
  u64 state;
  u64 below(u64 limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
  }
};

// A trace with every operation, and blocks that change threads.
Bytes sample(Blocks blocks, Random& random) {
  const std::string path = "/tmp/coffer_fuzz_driver." + std::to_string(getpid());
  {
    Writer writer(path, {{"program", "fuzz"}}, blocks, FrameWriter::kStored);
    writer.modules({0, {{1, 2, 3, "/x", "ab"}}});
    writer.stack(1, 0, 1, {1, 2, 3});
    for (u64 i = 1; i <= 12; ++i) {
      Record record;
      record.op = static_cast<Op>(random.below(3));
      record.time = 10 * i;
      record.a = random.below(1u << 20);
      record.b = blocks == Blocks::addresses ? 0x1000 * (1 + i % 4) : i;
      record.stack = i % 3 == 0 ? 1 : 0;
      writer.append(static_cast<u32>(1 + i % 2), record);
      if (i % 4 == 0) {
        record.op = Op::realloc;
        record.old = record.b;
        record.duration = 2;
        writer.append(static_cast<u32>(1 + i % 2), record);
      }
      record.op = i % 3 == 1 ? Op::figure : Op::free;
      record.detail = 1;
      record.time += 5;
      if (record.op == Op::figure) record.b = 0;
      writer.append(static_cast<u32>(1 + i % 3), record);
      if (i % 5 == 0) writer.flush();
    }
    writer.close({{"end", "exited"}});
  }
  std::ifstream file(path, std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(file), {}};
  unlink(path.c_str());
  return bytes;
}

void mutate(Bytes& bytes, Random& random) {
  static constexpr std::uint8_t kInteresting[] = {0, 1, 2, 4, 0x7F, 0x80, 0xFE, 0xFF};
  for (u64 i = 1 + random.below(6); i > 0 && !bytes.empty(); --i) {
    const std::size_t at = random.below(bytes.size());
    switch (random.below(6)) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1u << random.below(8));
        break;
      case 1:
        bytes[at] = kInteresting[random.below(std::size(kInteresting))];
        break;
      case 2:
        bytes[at] = static_cast<std::uint8_t>(random.below(256));
        break;
      case 3:
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 4:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes[random.below(bytes.size())]);
        break;
      default: {  // a piece over another
        const std::size_t from = random.below(bytes.size());
        const std::size_t length = std::min({bytes.size() - at, bytes.size() - from, std::size_t{16}});
        std::copy_n(Bytes(bytes).begin() + static_cast<std::ptrdiff_t>(from), length,
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const u64 runs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  Random random{argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1};
  const Bytes samples[] = {sample(Blocks::addresses, random), sample(Blocks::identities, random)};
  u64 read = 0;
  for (u64 i = 0; i < runs; ++i) {
    Bytes bytes = samples[i % 2];
    mutate(bytes, random);
    try {
      Reader reader(from_memory(bytes.data(), bytes.size()));
      for (Event event; reader.next(event);) {
      }
      ++read;
    } catch (const Error&) {
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%llu runs, of which %llu were read whole\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(read));
  // A driver whose changes are all refused at the door, or all read, would test nothing.
  return read > runs / 50 && read < runs - runs / 50 ? 0 : 1;
}
