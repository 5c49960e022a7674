// SPDX-License-Identifier: MIT
// Writes samples as profile.proto, gzipped: what pprof and its kin read (docs/reference/heap-profile.md). Compressed is
// nothing: gzip knows blocks that are stored as they are, and a heap profile is small.
#pragma once

#include "observe/samples.hpp"

namespace coffer {

struct ProfileTimes {
  u64 period;       // mean bytes between samples
  u64 time_ns;      // since 1970
  u64 duration_ns;  // since it began
  u64 peak_ns;      // the highest moment, as duration_ns
  bool is_on;       // sampling is
};

// To an open file. false: it could not be written whole. The caller has the lock of the samples.
bool write_pprof(const Samples& samples, const ProfileTimes& times, int file);

}  // namespace coffer
