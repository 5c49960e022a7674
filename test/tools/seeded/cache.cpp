// SPDX-License-Identifier: MIT
// A cache that nothing is ever thrown out of, and beside it work that comes and goes. All is freed at the end, so this
// is no leak. cache [LOOKUPS].
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

static std::string page_of(int number) { return std::string(3000, static_cast<char>('a' + number % 26)); }

class Cache {
 public:
  const std::string& lookup(int number) {
    auto found = pages_.find(number);
    if (found == pages_.end()) found = pages_.emplace(number, page_of(number)).first;
    return found->second;
  }

 private:
  std::unordered_map<int, std::string> pages_;
};

static size_t answer(Cache& cache, int number) {
  std::vector<char> work(40'000, 'x');
  const std::string& page = cache.lookup(number);
  return page.size() + work.size();
}

int main(int argc, char** argv) {
  const int lookups = argc > 1 ? std::atoi(argv[1]) : 600;
  Cache cache;
  size_t sum = 0;
  for (int number = 0; number < lookups; ++number) {
    sum += answer(cache, number);
    const timespec pause = {0, 1'500'000};
    nanosleep(&pause, nullptr);
  }
  std::printf("%zu\n", sum);
  return 0;
}
