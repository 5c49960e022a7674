// SPDX-License-Identifier: MIT
// Allocates through the C++ library's templates, from functions whose names have more than 500 characters, for the
// tests of coffer trace info, frag and stack.
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace application::request_processing::with_a_long_namespace {

template <class Key, class Value, class... More>
struct Registry {
  std::map<Key, std::vector<Value>> entries;

  [[gnu::noinline]] void remember(const Key& key, const Value& value) {
    entries[key].push_back(value);
    entries[key].reserve(1000);
  }
};

// As programs give one to the library's containers.
template <class T>
struct Pool {
  using value_type = T;
  Pool() = default;
  template <class U>
  explicit Pool(const Pool<U>&) {}
  [[gnu::noinline]] T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T))); }
  void deallocate(T* block, std::size_t) { ::operator delete(block); }
  bool operator==(const Pool&) const { return true; }
};

[[gnu::noinline]] void from_a_pool() {
  static std::list<int, Pool<int>> kept;
  for (int i = 0; i < 300; ++i) kept.push_back(i);
}

}  // namespace application::request_processing::with_a_long_namespace

int main() {
  using namespace application::request_processing::with_a_long_namespace;
  using Inner = std::map<std::string, std::vector<std::pair<std::string, std::map<int, std::string>>>>;
  static Registry<std::string, std::map<std::string, Inner>, std::vector<Inner>, std::map<int, Inner>> registry;
  for (int i = 0; i < 200; ++i) registry.remember(std::to_string(i % 20) + " is a name that is not short", {});
  from_a_pool();
  for (int i = 0; i < 100; ++i) std::make_unique<std::vector<Inner>>(7);
  std::puts("done");
}
