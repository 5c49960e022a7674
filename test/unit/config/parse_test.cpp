// SPDX-License-Identifier: MIT
#include "config/parse.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace coffer::config {
namespace {

struct Result {
  Settings settings;
  std::vector<std::string> complaints;
  bool good;
};

Result parse_text(const char* text) {
  Result result;
  const Complaints complaints = {[](const Text& line, void* context) {
                                   static_cast<std::vector<std::string>*>(context)->emplace_back(line.data(),
                                                                                                 line.stored());
                                 },
                                 &result.complaints};
  result.good = parse(text, Source::environment, result.settings, complaints);
  EXPECT_EQ(result.good, result.complaints.empty());
  return result;
}

const Option& option(const char* name) {
  const Option* found = find_option(name, std::strlen(name));
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

bool accepts(const char* name, const char* text, u64* value = nullptr) {
  u64 read = 0;
  const bool good = parse_value(option(name), text, std::strlen(text), read);
  if (value != nullptr) *value = read;
  return good;
}

std::string print(const char* name, u64 value) {
  TextBuffer<64> text;
  print_value(option(name), value, text);
  return {text.data(), text.stored()};
}

TEST(Parse, Sizes) {
  u64 value = 0;
  EXPECT_TRUE(accepts("slack", "0", &value) && value == 0);
  EXPECT_TRUE(accepts("slack", "1000", &value) && value == 1000);
  EXPECT_TRUE(accepts("slack", "3K", &value) && value == 3 * kKiB);
  EXPECT_TRUE(accepts("slack", "3m", &value) && value == 3 * kMiB);
  EXPECT_TRUE(accepts("arena", "3G", &value) && value == 3 * kGiB);
  EXPECT_TRUE(accepts("arena", "3T", &value) && value == 3 * kTiB);
  for (const char* bad : {"", "K", "-1", "+1", " 1", "1 ", "1KB", "1KK", "0x10", "1.5M", "1P", "auto"}) {
    EXPECT_FALSE(accepts("slack", bad)) << bad;
  }
}

TEST(Parse, RangesAndOverflow) {
  EXPECT_TRUE(accepts("slack", "1G"));
  EXPECT_FALSE(accepts("slack", "1073741825"));
  EXPECT_FALSE(accepts("arena", "4194303"));
  EXPECT_TRUE(accepts("arena", "4M"));
  EXPECT_FALSE(accepts("arena", "18446744073709551615"));
  EXPECT_FALSE(accepts("arena", "18446744073709551616"));
  EXPECT_FALSE(accepts("arena", "16777216T"));  // 2^64
  EXPECT_FALSE(accepts("arena", "18446744073709551615T"));
  EXPECT_FALSE(accepts("slack", "99999999999999999999999"));
}

TEST(Parse, NumbersTakeNoSuffix) {
  u64 value = 0;
  EXPECT_TRUE(accepts("shards", "16", &value) && value == 16);
  EXPECT_FALSE(accepts("shards", "17"));
  EXPECT_FALSE(accepts("shards", "1K"));
}

TEST(Parse, ChoicesAndBooleans) {
  u64 value = 0;
  EXPECT_TRUE(accepts("huge", "auto", &value) && value == static_cast<u64>(HugePolicy::automatic));
  EXPECT_TRUE(accepts("huge", "never", &value) && value == static_cast<u64>(HugePolicy::never));
  EXPECT_TRUE(accepts("huge", "always", &value) && value == static_cast<u64>(HugePolicy::always));
  for (const char* bad : {"", "a", "alway", "alwayss", "auto|never", "|", "1"})
    EXPECT_FALSE(accepts("huge", bad)) << bad;
  EXPECT_TRUE(accepts("stats", "true", &value) && value == 1);
  EXPECT_TRUE(accepts("stats", "false", &value) && value == 0);
  for (const char* bad : {"", "1", "yes", "TRUE", "tru"}) EXPECT_FALSE(accepts("stats", bad)) << bad;
}

TEST(Parse, PrintsWhatItReads) {
  EXPECT_EQ(print("slack", 0), "0");
  EXPECT_EQ(print("slack", 1000), "1000");
  EXPECT_EQ(print("slack", 1024), "1K");
  EXPECT_EQ(print("slack", 1025), "1025");
  EXPECT_EQ(print("arena", 16 * kTiB), "16T");
  EXPECT_EQ(print("arena", 1536 * kMiB), "1536M");
  EXPECT_EQ(print("huge", 2), "always");
  EXPECT_EQ(print("stats", 0), "false");
  EXPECT_EQ(print("stats", 1), "true");
  EXPECT_EQ(print("shards", 12), "12");
}

TEST(Parse, EveryOptionReadsItsOwnPrint) {
  for (const Option& each : kOptions) {
    for (u64 value : {each.least, each.standard, each.greatest}) {
      const std::string text = print(each.name, value);
      u64 read = ~u64{0};
      EXPECT_TRUE(parse_value(each, text.data(), text.size(), read)) << each.name << ' ' << text;
      EXPECT_EQ(read, value) << each.name;
      Options options;
      each.set(options, value);
      EXPECT_EQ(each.get(options), value) << each.name;
    }
    EXPECT_EQ(each.get(Options{}), each.standard) << each.name;
    EXPECT_EQ(find_option(each.name, std::strlen(each.name)), &each);
  }
}

TEST(Parse, AppliesItemsInOrder) {
  const Result result = parse_text("slack:1K,huge:never,slack:2K,stats:true");
  EXPECT_TRUE(result.good);
  EXPECT_EQ(result.settings.values.slack, 2048u);
  EXPECT_EQ(result.settings.values.huge, HugePolicy::never);
  EXPECT_TRUE(result.settings.values.stats);
  EXPECT_EQ(result.settings.values.arena, 16 * kTiB);
  EXPECT_EQ(result.settings.sources[&option("slack") - kOptions], Source::environment);
  EXPECT_EQ(result.settings.sources[&option("arena") - kOptions], Source::standard);
}

TEST(Parse, EmptyItemsAreNothing) {
  for (const char* text : {"", ",", ",,,", ",slack:64K,,"}) EXPECT_TRUE(parse_text(text).good) << text;
}

// Issue 16: "limit: 2G" set no limit.
TEST(Parse, BlanksAreNoPartOfNamesAndValues) {
  for (const char* text : {"limit: 2G", " limit:2G", "limit :2G", "limit:2G ", "\tlimit\t:\t2G\t", "\n limit : 2G \r\n",
                           "slack:1K, limit:2G", "limit: 2G ,slack:1K", " , limit:2G , ", "limit:1G, limit: 2G"}) {
    const Result result = parse_text(text);
    EXPECT_TRUE(result.good) << text;
    EXPECT_EQ(result.settings.values.limit, 2 * kGiB) << text;
  }
  const Result texts = parse_text("profile_to: /tmp/a b ,stats: true,huge: never ,shards: 2");
  EXPECT_TRUE(texts.good);
  EXPECT_STREQ(reinterpret_cast<const char*>(option("profile_to").get(texts.settings.values)), "/tmp/a b");
  EXPECT_TRUE(texts.settings.values.stats);
  EXPECT_EQ(texts.settings.values.huge, HugePolicy::never);
  EXPECT_EQ(texts.settings.values.shards, 2u);
  for (const char* text : {" ", " , ", "\t\n"}) EXPECT_TRUE(parse_text(text).good) << text;
}

TEST(Parse, BlanksInsideAreReported) {
  const auto only = [](const char* text) {
    const Result result = parse_text(text);
    return result.complaints.size() == 1 ? result.complaints[0] : "not one complaint";
  };
  EXPECT_EQ(only(" li mit: 2G"), "COFFER_CONF: unknown option \"li mit\"");
  EXPECT_EQ(only("slack: 2 G "), "COFFER_CONF: bad value in \"slack: 2 G\", slack takes a size from 0 to 1G");
  EXPECT_EQ(only("huge: "), "COFFER_CONF: bad value in \"huge:\", huge takes auto|never|always");
  EXPECT_EQ(only("stats:t rue"), "COFFER_CONF: bad value in \"stats:t rue\", stats takes false|true");
  EXPECT_EQ(only(" : 1"), "COFFER_CONF: unknown option \"\"");
  EXPECT_EQ(only("slac: 1, slac :2,slac"), "COFFER_CONF: unknown option \"slac\"");
}

TEST(Parse, ABadItemLeavesTheOthers) {
  const Result result = parse_text("slack:1K,slack:no,shards:2");
  EXPECT_FALSE(result.good);
  EXPECT_EQ(result.settings.values.slack, 1024u);
  EXPECT_EQ(result.settings.values.shards, 2u);
}

TEST(Parse, ComplaintsSayWhatIsWrong) {
  const auto only = [](const char* text) {
    const Result result = parse_text(text);
    return result.complaints.size() == 1 ? result.complaints[0] : "not one complaint";
  };
  EXPECT_EQ(only("slac:1"), "COFFER_CONF: unknown option \"slac\"");
  EXPECT_EQ(only("slackk:1"), "COFFER_CONF: unknown option \"slackk\"");
  EXPECT_EQ(only(":"), "COFFER_CONF: unknown option \"\"");
  EXPECT_EQ(only("stats"), "COFFER_CONF: bad value in \"stats\", stats takes false|true");
  EXPECT_EQ(only("huge:"), "COFFER_CONF: bad value in \"huge:\", huge takes auto|never|always");
  EXPECT_EQ(only("arena:1:2"), "COFFER_CONF: bad value in \"arena:1:2\", arena takes a size from 4M to 64T");
  EXPECT_EQ(only("\x1b[31m\nx"), "COFFER_CONF: unknown option \"?[31m?x\"");
  EXPECT_LT(only(std::string(5000, 'x').c_str()).size(), 200u);
}

TEST(Parse, AnUnknownNameIsReportedOnce) {
  const auto names = [](const char* text) { return parse_text(text).complaints; };
  const auto unknown = [](const char* name) { return std::string("COFFER_CONF: unknown option \"") + name + '"'; };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(names("slac:1,slac:2,slac,stats:true,slac:1"), Lines{unknown("slac")});
  // Another name, though one starts as the other does.
  EXPECT_EQ(names("slac:1,sla:1,slacc,sla"), (Lines{unknown("slac"), unknown("sla"), unknown("slacc")}));
  EXPECT_EQ(names(":1,:2,,:"), Lines{unknown("")});
  EXPECT_EQ(names("x,,x:1,y:x,x"), (Lines{unknown("x"), unknown("y")}));
  EXPECT_EQ(names("a:b,b:a"), (Lines{unknown("a"), unknown("b")}));  // a value is no mention
  // Names that differ past what a line shows.
  const std::string much(200, 'x');
  EXPECT_EQ(names((much + "1," + much + "2," + much + '1').c_str()).size(), 2u);
  // Bad values differ from each other: each is reported.
  EXPECT_EQ(names("slack:x,slack:x").size(), 2u);
}

TEST(Parse, PrintsAllAsItReads) {
  const Result result = parse_text("slack:1K,huge:always");
  TextBuffer<500> text;
  print_all(result.settings.values, text);
  text.terminate();
  const Result again = parse_text(text.data());
  EXPECT_TRUE(again.good);
  EXPECT_EQ(again.settings.values.slack, 1024u);
  EXPECT_EQ(again.settings.values.huge, HugePolicy::always);
}

}  // namespace
}  // namespace coffer::config
