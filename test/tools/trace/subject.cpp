// SPDX-License-Identifier: MIT
// Every form of operator new and delete, and an exception through the recorder; "done" when all went as it should. With
// an argument, without the exception: mimalloc of Debian aborts instead.
#include <cstdio>
#include <new>
#include <string>
#include <vector>

struct alignas(256) Wide {
  char bytes[300];
};

static int g_handled = 0;

int main(int argc, char**) {
  delete new int(1);
  delete[] new double[20];
  delete new (std::nothrow) int(2);
  delete[] new (std::nothrow) char[100];
  delete new Wide;
  delete[] new Wide[3];
  delete new (std::nothrow) Wide;
  ::operator delete(::operator new(40), std::size_t{40});
  ::operator delete[](::operator new[](41));
  bool thrown = argc > 1;
  std::set_new_handler([] {
    if (++g_handled == 3) std::set_new_handler(nullptr);
  });
  volatile std::size_t huge = std::size_t{1} << 60;
  try {
    if (!thrown) delete[] new char[huge];
  } catch (const std::bad_alloc&) {
    thrown = g_handled == 3;
  }
  const bool is_null = argc > 1 || new (std::nothrow) char[huge] == nullptr;
  std::vector<std::string> strings(100, std::string(100, 'x'));
  if (thrown && is_null) std::puts("done");
}
