// SPDX-License-Identifier: MIT
// Traces made from traces: parts of one, several as one, and one that gives nothing away. All have identities instead
// of addresses, and `made_by` in their information.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "trace/reader.hpp"
#include "trace/writer.hpp"

namespace coffer::analyse {

using trace::u32;
using trace::u64;
using trace::u8;

struct Range {
  u64 first = 0, last = ~u64{0};  // both within
  bool has(u64 value) const { return first <= value && value <= last; }
};

struct CutOptions {
  Range time;             // nanoseconds
  Range events;           // from 0
  bool with_live = true;  // what lives at the beginning of the cut is allocated there first
};

struct FilterOptions {
  std::set<u32> threads;  // that allocate; empty: all
  std::set<u32> stacks;
  Range sizes;
};

struct AnonymizeOptions {
  u64 size_step = 1;  // sizes are rounded up to a multiple
  u64 time_step = 1;  // times down
};

// Each returns how many records it wrote. Throws trace::Error.
u64 cut(const std::string& from, const std::string& to, const CutOptions& options, const std::string& made_by);
u64 filter(const std::string& from, const std::string& to, const FilterOptions& options, const std::string& made_by);
// together: all begin at the same time; otherwise as far apart as they were recorded.
u64 merge(const std::vector<std::string>& from, const std::string& to, bool together, const std::string& made_by);
u64 anonymize(const std::string& from, const std::string& to, const AnonymizeOptions& options);

}  // namespace coffer::analyse
