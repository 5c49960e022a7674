// Every form of operator new and delete, and an exception through the recorder; "done" when all went as it should.
#include <cstdio>
#include <new>
#include <string>
#include <vector>

struct alignas(256) Wide {
  char bytes[300];
};

static int g_handled = 0;

int main() {
  delete new int(1);
  delete[] new double[20];
  delete new (std::nothrow) int(2);
  delete[] new (std::nothrow) char[100];
  delete new Wide;
  delete[] new Wide[3];
  delete new (std::nothrow) Wide;
  ::operator delete(::operator new(40), std::size_t{40});
  ::operator delete[](::operator new[](41));
  bool thrown = false;
  std::set_new_handler([] {
    if (++g_handled == 3) std::set_new_handler(nullptr);
  });
  volatile std::size_t huge = std::size_t{1} << 60;
  try {
    delete[] new char[huge];
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  const bool is_null = new (std::nothrow) char[huge] == nullptr;
  std::vector<std::string> strings(100, std::string(100, 'x'));
  if (thrown && is_null && g_handled == 3) std::puts("done");
}
