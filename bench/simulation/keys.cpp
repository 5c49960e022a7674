// SPDX-License-Identifier: MIT
#include "keys.hpp"

#include <pthread.h>

#include <vector>

namespace {

struct Key {
  void (*destructor)(void*);
};
std::vector<Key> g_keys;

}  // namespace

extern "C" {

int __wrap_pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  *key = static_cast<pthread_key_t>(g_keys.size());
  g_keys.push_back({destructor});
  return 0;
}

int __wrap_pthread_key_delete(pthread_key_t key) {
  g_keys[key].destructor = nullptr;
  return 0;
}

int __wrap_pthread_setspecific(pthread_key_t key, const void* value) {
  if (auto* const specific = simulation::current_specific()) (*specific)[key] = const_cast<void*>(value);
  return 0;
}

void* __wrap_pthread_getspecific(pthread_key_t key) {
  const auto* const specific = simulation::current_specific();
  if (specific == nullptr) return nullptr;
  const auto found = specific->find(key);
  return found == specific->end() ? nullptr : found->second;
}

}  // extern "C"

namespace simulation {

// As the C library does it: again and again while destructors set new values, but not for ever.
void run_destructors() {
  auto& specific = *current_specific();
  for (int round = 0; round < 4 && !specific.empty(); ++round) {
    const auto values = std::move(specific);
    specific.clear();
    for (const auto& [key, value] : values) {
      if (value != nullptr && g_keys[key].destructor != nullptr) g_keys[key].destructor(value);
    }
  }
}

}  // namespace simulation
