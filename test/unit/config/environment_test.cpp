// SPDX-License-Identifier: MIT
#include "config/environment.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

namespace coffer::config {
namespace {

uptr word(const char* text) { return reinterpret_cast<uptr>(text); }

TEST(Environment, FindsWholeNames) {
  setenv("COFFER_TEST_NAME", "value=1", 1);
  setenv("COFFER_TEST_EMPTY", "", 1);
  EXPECT_STREQ(find_variable("COFFER_TEST_NAME"), "value=1");
  EXPECT_STREQ(find_variable("COFFER_TEST_EMPTY"), "");
  EXPECT_EQ(find_variable("COFFER_TEST_NAM"), nullptr);
  EXPECT_EQ(find_variable("COFFER_TEST_NAME_"), nullptr);
  unsetenv("COFFER_TEST_NAME");
  EXPECT_EQ(find_variable("COFFER_TEST_NAME"), nullptr);
}

TEST(Environment, LiesBehindTheArguments) {
  uptr stack[] = {2, word("program"), word("argument"), 0, word("A=1"), word("B=2"), 0};
  char** found = environment_after(stack);
  ASSERT_NE(found, nullptr);
  EXPECT_STREQ(found[0], "A=1");
  EXPECT_STREQ(found[1], "B=2");
  EXPECT_EQ(found[2], nullptr);
}

TEST(Environment, IsThereWithoutArguments) {
  uptr stack[] = {0, 0, word("A=1"), 0};
  char** found = environment_after(stack);
  ASSERT_NE(found, nullptr);
  EXPECT_STREQ(found[0], "A=1");
}

TEST(Environment, IsNotTakenFromSomethingElse) {
  EXPECT_EQ(environment_after(nullptr), nullptr);
  uptr not_a_count[] = {~uptr{0}, 1, 2, 3};
  EXPECT_EQ(environment_after(not_a_count), nullptr);
  uptr too_few[] = {2, word("program"), 0, 0};
  EXPECT_EQ(environment_after(too_few), nullptr);
  uptr not_ended[] = {1, word("program"), word("more"), 0};
  EXPECT_EQ(environment_after(not_ended), nullptr);
}

}  // namespace
}  // namespace coffer::config
