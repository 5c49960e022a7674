// SPDX-License-Identifier: MIT
#include "observe/interpreted.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "heaps.hpp"
#include "inspect/profiling.hpp"
#include "observe/samples.hpp"

namespace {

// What a library that knows an interpreter does, while a test asks for it: the last call of each stack is interpreted.
bool g_interprets = false;
const char g_place = 0;
const std::string g_long_name(500, 'n');

}  // namespace

extern "C" unsigned coffer_interpreted_stack(uintptr_t* frames, unsigned count, unsigned most) {
  if (!g_interprets || count == 0) return count;
  for (unsigned i = count < most ? count : most - 1; i > 0; --i) frames[i] = frames[i - 1];
  frames[0] = reinterpret_cast<uintptr_t>(&g_place);
  return count < most ? count + 1 : most;
}

extern "C" int coffer_interpreted_place(uintptr_t frame, coffer_interpreted* place) {
  if (frame != reinterpret_cast<uintptr_t>(&g_place)) return 0;
  *place = {g_long_name.c_str(), "shop/basket.py", 1234};
  return 1;
}

namespace coffer {
namespace {

using namespace test;

std::string dumped() {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("coffer-interpreted-" + std::to_string(getpid()))).string();
  EXPECT_TRUE(profile_dump(path.c_str()));
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::filesystem::remove(path);
  return content;
}

// The content is stored as it is, in parts of 2 KiB with 5 bytes before each, which may lie within a name.
usize longest_run(const std::string& content, char of) {
  usize longest = 0, run = 0;
  for (const char one : content) {
    run = one == of ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}

void sample_one() {
  seed_samples(1);
  start_heaps();
  profile_start(1);
  give(take(100));
}

FRESH_TEST(Interpreted, ItsFunctionsAreInStackAndFile) {
  g_interprets = true;
  sample_one();
  const Samples& samples = profile_samples();
  ASSERT_GE(samples.stacks(), 2u);
  uptr first = 0;
  samples.for_each_frame(1, [&](u32 index) { first = first == 0 ? samples.address(index) : first; });
  EXPECT_EQ(first, reinterpret_cast<uptr>(&g_place));
  const std::string content = dumped();
  EXPECT_GE(longest_run(content, 'n'), 250u);
  EXPECT_NE(content.find("shop/basket.py"), std::string::npos);
}

FRESH_TEST(Interpreted, CodeHasNoFunctionsInTheFile) {
  sample_one();
  const std::string content = dumped();
  EXPECT_LT(longest_run(content, 'n'), 20u);
  EXPECT_EQ(content.find("shop/basket.py"), std::string::npos);
}

}  // namespace
}  // namespace coffer
