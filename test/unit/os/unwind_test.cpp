// SPDX-License-Identifier: MIT
// Rules in a word do what their rows do, and what is remembered of an object is not taken for another one's.
#include "os/linux/unwind.hpp"

#include <gtest/gtest.h>
#include <link.h>

#include <cstring>
#include <random>
#include <vector>

namespace coffer {
namespace {

#if defined(__x86_64__)

// The tables of all objects of this process.
std::vector<const u8*> tables() {
  std::vector<const u8*> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, usize, void* to) {
        for (u32 i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
          static_cast<std::vector<const u8*>*>(to)->push_back(
              reinterpret_cast<const u8*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
        }
        return 0;
      },
      &found);
  return found;
}

uptr function_of(const u8* table, u32 index) {
  i32 distance;
  std::memcpy(&distance, os::entry_row(table, index), sizeof distance);
  return reinterpret_cast<uptr>(table) + static_cast<uptr>(i64{distance});
}

// A stack of words that are all different, with the stack pointer in its midst.
class Words {
 public:
  Words() : words_(kWords) {
    for (uptr i = 0; i < kWords; ++i) words_[i] = 0x10000 + i;
  }
  uptr at(uptr word) const { return reinterpret_cast<uptr>(&words_[word]); }
  static constexpr uptr kWords = 1 << 18;

 private:
  std::vector<uptr> words_;
};

bool operator==(const os::Registers& a, const os::Registers& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// With stack and frame pointer at these words.
void compare(const os::Row& row, const Words& words, uptr stack_word, uptr frame_word) {
  os::Registers by_row = {};
  for (u32 i = 0; i < os::kRegisters; ++i) by_row.value[i] = 1000 + i;
  by_row.value[os::kRsp] = words.at(stack_word);
  by_row.value[os::kRbp] = words.at(frame_word);
  os::Registers by_rule = by_row;
  os::Stack stack(words.at(stack_word)), other(words.at(stack_word));
  const bool stepped = os::step_by_row(row, by_row, stack);
  ASSERT_EQ(os::step_by_rule(os::rule_of(row), by_rule, other), stepped);
  if (stepped) {
    ASSERT_TRUE(by_rule == by_row);
  }
}

TEST(Unwind, ARuleDoesWhatItsRowDoes) {
  const Words words;
  std::mt19937 random(7);
  u32 rows = 0, rules = 0, ends = 0;
  for (const u8* table : tables()) {
    const u32 count = os::entry_count(table);
    for (u32 i = 0; i < count; i += 1 + count / 2000) {
      const uptr function = function_of(table, i);
      for (const uptr offset : {0, 1, 5, 20}) {
        os::Row row;
        if (os::find_row(table, function + offset, &row) != os::Entry::found) continue;
        ++rows;
        if (os::rule_of(row) == 0) continue;
        ++rules;
        const uptr stack_word = Words::kWords / 4 + random() % 1000;
        compare(row, words, stack_word, stack_word + random() % 100);
        compare(row, words, stack_word, stack_word - 5);
        os::Registers registers = {};
        registers.value[os::kRsp] = registers.value[os::kRbp] = words.at(stack_word);
        os::Stack stack(words.at(stack_word));
        ends += os::step_by_rule(os::rule_of(row), registers, stack) ? 0 : 1;
        if (HasFatalFailure()) FAIL() << std::hex << function << "+" << offset;
      }
    }
  }
  EXPECT_GT(rows, 1000u);
  EXPECT_GT(rules, rows * 9 / 10) << "of common forms";
  EXPECT_LT(ends, rules / 10);
}

TEST(Unwind, ATableWithoutAnEntryIsToldFromOneThatIsNotUnderstood) {
  u32 left_out = 0;
  for (const u8* table : tables()) {
    if (os::entry_count(table) == 0) continue;
    os::Row row;
    EXPECT_EQ(os::find_row(table, function_of(table, 0) - 1, &row), os::Entry::none);
    ++left_out;
  }
  EXPECT_GT(left_out, 0u);
  const u8 other[12] = {1, 0xff, 0xff, 0xff};  // no sorted table
  os::Row row;
  EXPECT_EQ(os::find_row(other, reinterpret_cast<uptr>(other), &row), os::Entry::unknown);
}

os::Row simple_row() {
  os::Row row = {};
  row.cfa_register = os::kRsp;
  row.cfa_offset = 16;
  row.rule[os::kReturn] = os::Rule::at_offset;
  row.offset[os::kReturn] = -8;
  return row;
}

TEST(Unwind, WhatDoesNotFitAWordIsNoRule) {
  EXPECT_NE(os::rule_of(simple_row()), 0u);
  const auto changed = [](auto change) {
    os::Row row = simple_row();
    change(row);
    return os::rule_of(row);
  };
  EXPECT_NE(changed([](os::Row& row) { row.cfa_offset = i64{8} << 16; }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.cfa_offset = i64{8} << 17; }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.cfa_offset = 12; }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.cfa_offset = 0; }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.cfa_offset = -16; }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.cfa_register = 10; }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.cfa_expression = reinterpret_cast<const u8*>(""); }), 0u);
  EXPECT_EQ(changed([](os::Row& row) { row.offset[os::kReturn] = -16; }), 0u);
  const auto saved = [&](u32 number, os::Rule rule, i64 offset) {
    return changed([=](os::Row& row) {
      row.rule[number] = rule;
      row.offset[number] = offset;
    });
  };
  EXPECT_NE(saved(os::kRbp, os::Rule::at_offset, -16), 0u);
  EXPECT_NE(saved(15, os::Rule::at_offset, -8 * 127), 0u);
  EXPECT_EQ(saved(15, os::Rule::at_offset, -8 * 128), 0u);
  EXPECT_EQ(saved(15, os::Rule::at_offset, 8), 0u);
  EXPECT_EQ(saved(15, os::Rule::at_offset, -12), 0u);
  EXPECT_EQ(saved(15, os::Rule::in_register, 3), 0u);
  EXPECT_EQ(saved(10, os::Rule::at_offset, -16), 0u) << "a register that is not followed";
  EXPECT_EQ(saved(10, os::Rule::in_register, 3), 0u);
}

// A table with one function, which has one entry, whose frame has so many words.
struct Object {
  static constexpr u8 kShared = 24, kEntry = 48;
  alignas(8) u8 bytes[256] = {};

  void fill(u8 words, u8 function_bytes) {
    const u8 head[] = {1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0, 128, 0, 0, 0, kEntry, 0, 0, 0};
    // Frame: the stack pointer and so many bytes; the return address right below it.
    const u8 shared[] = {20,   0, 0, 0,    0,  0, 0,    0,    1, 'z',
                         'R',  0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, static_cast<u8>(8 * words),
                         0x90, 1, 0, 0};
    const u8 own[] = {16, 0, 0, 0, kEntry + 4 - kShared, 0, 0, 0, 128 - kEntry - 8, 0, 0, 0, function_bytes, 0, 0, 0,
                      0,  0, 0, 0};
    std::memcpy(bytes, head, sizeof head);
    std::memcpy(bytes + kShared, shared, sizeof shared);
    std::memcpy(bytes + kEntry, own, sizeof own);
  }
  uptr pc() const { return reinterpret_cast<uptr>(bytes + 130); }
};

// What is loaded where something else was before: the same address has another rule.
TEST(Unwind, AnObjectInAnothersPlaceHasItsOwnRules) {
  const Words words;
  Object object;
  const auto frame_words = [&] {
    os::Registers registers = {};
    registers.value[os::kRsp] = words.at(100);
    os::Stack stack(words.at(100));
    if (!os::step_by_table(object.bytes, os::mark_of(object.bytes), object.pc(), registers, stack)) return uptr{0};
    return (registers.value[os::kRsp] - words.at(100)) / sizeof(uptr);
  };
  object.fill(4, 40);
  EXPECT_EQ(frame_words(), 4u);
  EXPECT_EQ(frame_words(), 4u);
  object.fill(7, 40);
  object.bytes[4] = 1;  // its entries lie elsewhere, or there are others
  EXPECT_EQ(frame_words(), 7u);
  object.fill(4, 40);
  EXPECT_EQ(frame_words(), 4u);
}

#endif

}  // namespace
}  // namespace coffer
