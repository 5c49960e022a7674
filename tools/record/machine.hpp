// SPDX-License-Identifier: MIT
// What the collector reads of the machine and of a process from outside.
#pragma once

#include <sys/types.h>

#include <string>

#include "trace/frames.hpp"

namespace coffer::record {

trace::Information machine_information();
std::string contents_of(const std::string& path);  // "" if it cannot be read
std::string link_of(const std::string& path);
trace::u64 realtime_ns();
// Resident bytes that are no file's and not shared; 0: not to be had.
trace::u64 private_resident_bytes(pid_t pid);
// The payload of a frame of modules; "" if the process is gone.
std::string module_payload(pid_t pid);

}  // namespace coffer::record
