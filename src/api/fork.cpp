// What happens when the library is loaded, when the process forks, and when it ends.
//
// The handlers are registered in a constructor and not at the first malloc: that may come from the dynamic loader,
// before libc is ready, or from inside pthread_atfork itself. And they must be registered before everyone else's.
// Handlers that run before a fork do so last registered first, those after it first registered first; so Coffer takes
// its locks after every other handler has run, and gives them back before any of them runs again, and all of them may
// allocate. libcoffer.so is linked with -z initfirst for this: its constructors run before those of all libraries. A
// static library has the first priority that a program may use.
#include "api/fork.hpp"

#include <pthread.h>

#include "api/shim.hpp"
#include "coffer/coffer.h"
#include "config/config.hpp"
#include "os/os.hpp"

namespace coffer::api {

const char fork_handlers_linked = 0;

namespace {

constexpr int kFirst = 101;

void prepare() { Allocator::fork_prepare(); }
void parent() { Allocator::fork_parent(); }
void child() { Allocator::fork_child(); }

__attribute__((constructor(kFirst))) void start() {
  config::load();
  if (pthread_atfork(&prepare, &parent, &child) == 0) return;
  constexpr char kFailed[] = "coffer: fork handlers could not be registered; do not fork while threads allocate\n";
  os::write_error(kFailed, sizeof kFailed - 1);
}

__attribute__((destructor(kFirst))) void end() {
  if (config::options().stats) coffer_malloc_stats();
}

}  // namespace

}  // namespace coffer::api
