// SPDX-License-Identifier: MIT
#include "harden/report.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"

namespace coffer::harden {
namespace {

using test::Outcome;
using test::outcome_of;

const void* at(uptr address) { return reinterpret_cast<const void*>(address); }

TEST(Report, SaysWhatIsWrongWithAPointer) {
  const struct {
    const char* call;
    uptr address;
    BadPointer what;
    usize block_bytes;
    const char* line;
  } cases[] = {
      {"free", 0x10, BadPointer::foreign, 0, "coffer: free of 0x10: not a block of this allocator\n"},
      {"realloc", 0x7f0123456789, BadPointer::not_a_start, 48,
       "coffer: realloc of 0x7f0123456789: not the start of a block (size class 48)\n"},
      {"free", ~uptr{0}, BadPointer::already_free, 32768,
       "coffer: free of 0xffffffffffffffff: already free (size class 32768)\n"},
      {"malloc_usable_size", 0, BadPointer::free_span, 0,
       "coffer: malloc_usable_size of 0x0: in a span that is free\n"},
  };
  for (const auto& one : cases) {
    const Outcome outcome = outcome_of([&] { bad_pointer(one.call, at(one.address), one.what, one.block_bytes); });
    EXPECT_TRUE(outcome.aborted()) << one.line;
    EXPECT_EQ(outcome.errors, one.line);
  }
}

TEST(Report, NamesBothSizes) {
  const Outcome outcome = outcome_of([] { bad_size(at(0xabcdef0), 100, 64); });
  EXPECT_TRUE(outcome.aborted());
  EXPECT_EQ(outcome.errors, "coffer: free of 0xabcdef0: size 100 was given, the block has 64\n");
  EXPECT_EQ(outcome_of([] { bad_size(at(0x10), ~usize{0}, 16); }).errors,
            "coffer: free of 0x10: size 18446744073709551615 was given, the block has 16\n");
}

TEST(Report, CutsALineThatIsTooLong) {
  const std::string name(1000, 'x');
  const Outcome outcome = outcome_of([&] { bad_pointer(name.c_str(), at(16), BadPointer::foreign, 16); });
  EXPECT_TRUE(outcome.aborted());
  ASSERT_EQ(outcome.errors.size(), 256u);
  EXPECT_EQ(outcome.errors, "coffer: " + name.substr(0, 247) + "\n");
}

TEST(Report, NamesABlockThatWasWrittenTo) {
  const Outcome outcome = outcome_of([] { broken_link(at(0xabcdef0), 64); });
  EXPECT_TRUE(outcome.aborted());
  EXPECT_EQ(outcome.errors, "coffer: free block 0xabcdef0: written to after it was freed (size class 64)\n");
  EXPECT_EQ(outcome_of([] { broken_link(at(0x10), 0); }).errors,
            "coffer: free block 0x10: written to after it was freed\n");
}

}  // namespace
}  // namespace coffer::harden
