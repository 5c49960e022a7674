// SPDX-License-Identifier: MIT
// Whether a filter of system calls (seccomp) is there, and since when.
#pragma once

#include "base/base.hpp"
#include "os/linux/namespace.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

// at_start: when it was asked first. since: one came later, so the program closed it behind itself.
enum class Filter : u32 { unknown, none, at_start, since };

// Asks the kernel as long as there is none.
Filter filter_now();

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
