// SPDX-License-Identifier: MIT
// Coffer's own functions.
#include <coffer/coffer.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/base.hpp"

namespace coffer {
namespace {

TEST(CofferStats, CountsWhatIsLive) {
  void* small = coffer_malloc(1000);
  struct coffer_stats before;
  ASSERT_EQ(coffer_stats(&before, sizeof before), 0);
  EXPECT_GE(before.live, 1000u);
  EXPECT_GE(before.held, before.live);
  EXPECT_GE(before.reserved, before.committed);
  EXPECT_GE(before.heaps, 1u);
  EXPECT_GE(before.heaps_ever, before.heaps);
  EXPECT_GE(before.spans, 1u);
  EXPECT_GE(before.chunks, 1u);
  EXPECT_GE(before.system_calls, 1u);
  void* large = coffer_malloc(10'000'000);
  struct coffer_stats after;
  ASSERT_EQ(coffer_stats(&after, sizeof after), 0);
  EXPECT_GE(after.live, before.live + 10'000'000);
  EXPECT_GE(after.large, before.large + 10'000'000);
  coffer_free(large);
  coffer_free(small);
  ASSERT_EQ(coffer_stats(&after, sizeof after), 0);
  EXPECT_EQ(after.large, before.large);
}

TEST(CofferStats, WritesWhatTheCallerKnows) {
  struct {
    struct coffer_stats stats;
    size_t behind[4];
  } room;
  // An older program, with fewer fields.
  std::memset(&room, 0xa5, sizeof room);
  EXPECT_EQ(coffer_stats(&room.stats, offsetof(struct coffer_stats, resident)), 0);
  EXPECT_EQ(room.stats.resident, 0xa5a5a5a5a5a5a5a5u);
  EXPECT_NE(room.stats.held, 0xa5a5a5a5a5a5a5a5u);
  // A newer one, with more: they read 0.
  std::memset(&room, 0xa5, sizeof room);
  EXPECT_EQ(coffer_stats(&room.stats, sizeof room.stats + 2 * sizeof(size_t)), 0);
  EXPECT_EQ(room.behind[0], 0u);
  EXPECT_EQ(room.behind[1], 0u);
  EXPECT_EQ(room.behind[2], 0xa5a5a5a5a5a5a5a5u);
}

TEST(CofferStats, RefusesNoRoom) {
  struct coffer_stats stats;
  EXPECT_EQ(coffer_stats(nullptr, sizeof stats), EINVAL);
  EXPECT_EQ(coffer_stats(&stats, 0), EINVAL);
}

TEST(CofferLimit, IsSetReadAndObeyed) {
  EXPECT_EQ(coffer_get_limit(), 0u);
  coffer_free(coffer_malloc(1));
  EXPECT_EQ(coffer_set_limit(64 << 20), 0);
  EXPECT_EQ(coffer_get_limit(), usize{64} << 20);
  struct coffer_stats stats;
  ASSERT_EQ(coffer_stats(&stats, sizeof stats), 0);
  EXPECT_EQ(stats.limit, usize{64} << 20);
  errno = 0;
  EXPECT_EQ(coffer_malloc(65 << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(coffer_calloc(65, 1 << 20), nullptr);
  EXPECT_EQ(coffer_aligned_alloc(4096, 65 << 20), nullptr);
  void* block = coffer_malloc(50 << 20);
  ASSERT_NE(block, nullptr);
  errno = 0;
  EXPECT_EQ(coffer_realloc(block, 65 << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  coffer_free(block);
  EXPECT_EQ(coffer_set_limit(0), 0);
  block = coffer_malloc(65 << 20);
  EXPECT_NE(block, nullptr);
  coffer_free(block);
}

TEST(CofferCheck, FindsNothingWrong) {
  std::vector<void*> blocks;
  for (usize i = 0; i < 2000; ++i) blocks.push_back(coffer_malloc(i * 37 % 5000));
  for (usize i = 0; i < blocks.size(); i += 2) coffer_free(blocks[i]);
  EXPECT_EQ(coffer_check(), 0u);
  for (usize i = 1; i < blocks.size(); i += 2) coffer_free(blocks[i]);
  EXPECT_EQ(coffer_check(), 0u);
}

TEST(CofferVersion, IsTheHeaders) {
  const std::string expected = std::to_string(COFFER_VERSION_MAJOR) + "." + std::to_string(COFFER_VERSION_MINOR) + "." +
                               std::to_string(COFFER_VERSION_PATCH);
  EXPECT_EQ(coffer_version(), expected);
}

TEST(CofferConf, GivesOneOptionOrAll) {
  char text[1024];
  int length = coffer_conf("huge", text, sizeof text);
  EXPECT_EQ(length, static_cast<int>(std::strlen(text)));
  length = coffer_conf(nullptr, text, sizeof text);
  EXPECT_EQ(length, static_cast<int>(std::strlen(text)));
  EXPECT_EQ(std::strncmp(text, "arena:", 6), 0);
  EXPECT_NE(std::strstr(text, ",slack:"), nullptr);
}

TEST(CofferConf, CutsAsSnprintfDoes) {
  char text[8] = "xxxxxxx";
  const int length = coffer_conf(nullptr, nullptr, 0);
  EXPECT_GT(length, 20);
  EXPECT_EQ(coffer_conf(nullptr, text, 4), length);
  EXPECT_STREQ(text, "are");
  EXPECT_EQ(text[4], 'x');
  EXPECT_EQ(coffer_conf(nullptr, text, 1), length);
  EXPECT_STREQ(text, "");
}

TEST(CofferConf, KnowsNoOther) {
  char text[8];
  for (const char* name : {"", "slac", "slackk", "slack:", "Slack"}) {
    errno = 0;
    EXPECT_EQ(coffer_conf(name, text, sizeof text), -1);
    EXPECT_EQ(errno, ENOENT);
  }
}

}  // namespace
}  // namespace coffer
