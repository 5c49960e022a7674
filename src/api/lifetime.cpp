// SPDX-License-Identifier: MIT
// What happens when the library is loaded and when the process ends. (fork: exchange/forking.cpp.)
#include "api/lifetime.hpp"

#include "api/report.hpp"
#include "api/shim.hpp"
#include "config/config.hpp"
#include "os/os.hpp"

#if !defined(COFFER_PREFIX_ONLY) && !defined(COFFER_STATIC_LIBRARY)
// libcoffer.so is linked without the compiler's start files: what they do at load and at exit is for others, and would
// map 64 KiB for two calls. One name of theirs is asked for, by pthread_atfork: which library registers handlers, so
// that they go when it is closed, as this one never is.
extern "C" __attribute__((visibility("hidden"))) void* const __dso_handle = nullptr;
#endif

namespace coffer::api {

const char lifetime_linked = 0;

namespace {

constexpr int kFirst = 101;  // before the constructors, and after the destructors, of the program itself

template <class A>
void loaded() {
  if constexpr (WatchedAllocator<A>) A::loaded();
}

template <class A>
void ending() {
  if constexpr (WatchedAllocator<A>) A::ending();
}

// Options that ask for a message get it even if the program never allocates. This is all of Coffer that such a program
// runs where no option is set, and libcoffer.ld gives it a page of its own. Where fork handlers cannot be registered
// while others run it is done here: the first allocation may be one of theirs.
__attribute__((constructor(kFirst), section(".coffer_load"))) void start() {
  if (COFFER_UNLIKELY(!os::on_fork_while_forking())) Allocator::handle_forks();
  if (!config::is_said()) return;
  config::load();
  loaded<Allocator>();
}

__attribute__((destructor(kFirst), section(".coffer_load"))) void end() {
  if (!config::is_read()) return;
  ending<Allocator>();
  if (config::options().stats) report_statistics();
}

}  // namespace

}  // namespace coffer::api
