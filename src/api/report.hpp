// SPDX-License-Identifier: MIT
// The report of the option `stats`.
#pragma once

namespace coffer::api {

// The text of malloc_stats to descriptor 2, without stdio: when a process ends, its streams may be closed.
void report_statistics();

}  // namespace coffer::api
