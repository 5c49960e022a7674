// SPDX-License-Identifier: MIT
// A program that holds memory in ways that `coffer leaks` and `coffer heap` are to tell apart, by its first argument.
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#define APART __attribute__((noinline))

namespace seeded {

// What a compiler may not leave out.
void* volatile g_last;

void pause_ms(long ms) {
  timespec left = {ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {  // a signal ends it early
  }
}

__attribute__((always_inline)) inline void* session(size_t bytes) { return std::malloc(bytes); }

// --- Nobody frees the sessions. ---

APART void leak_session(int number) {
  char* block = static_cast<char*>(session(5000));
  block[0] = static_cast<char>(number);
  g_last = block;
}

APART void handle_request(int number) {
  leak_session(number);
  g_last = nullptr;
}

APART int leak() {
  for (int i = 0; i < 1560; ++i) handle_request(i);
  g_last = strdup("the caller's");
  puts("output has a buffer");
  return 0;
}

// --- Nobody frees what has no bytes. ---

APART int leak_nothing() {
  for (int i = 0; i < 50; ++i) g_last = std::malloc(0);
  g_last = nullptr;
  return 0;
}

// --- All is freed. ---

APART void temporary() {
  std::string text(100'000, 'x');
  g_last = text.data();
}

APART int clean() {
  for (int i = 0; i < 200; ++i) temporary();
  g_last = nullptr;
  puts("output has a buffer");
  return 0;
}

// --- A peak in the middle, and a part that grows; all is freed in the end. ---

APART void fill(std::vector<std::string>& into, int blocks) {
  for (int i = 0; i < blocks; ++i) into.emplace_back(10'000, 'x');
}

APART void remember(std::map<int, std::string>& cache, int key) { cache.emplace(key, std::string(2'000, 'x')); }

APART int peak() {
  std::map<int, std::string> cache;
  int key = 0;
  for (int phase = 0; phase < 4; ++phase) {
    std::vector<std::string> batch;
    if (phase == 1) fill(batch, 1'000);
    for (int i = 0; i < 12; ++i) {
      for (int k = 0; k < 20; ++k) remember(cache, key++);
      pause_ms(12);
    }
  }
  return 0;
}

// --- A peak that is over at once, beside much that lives. ---

APART int spike() {
  std::vector<std::string> kept;
  fill(kept, 2'000);
  pause_ms(30);
  for (int i = 0; i < 400; ++i) delete[] new char[100'000];
  std::vector<char*> high;
  for (int i = 0; i < 200; ++i) high.push_back(new char[100'000]);
  for (char* one : high) delete[] one;
  pause_ms(30);
  return 0;
}

// --- Waits to be asked, and holds more from time to time. ---

// As servers do that show their state in the list of processes.
void write_over_environment() {
  for (char** one = environ; *one != nullptr; ++one) memset(*one, ' ', strlen(*one));
}

APART int serve(bool writes_over) {
  if (writes_over) write_over_environment();
  std::map<int, std::string> cache;
  for (int key = 0; key < 500; ++key) remember(cache, key);
  puts("ready");
  fflush(stdout);
  for (int key = 500; key < 10'000; ++key) {
    remember(cache, key);
    pause_ms(5);
  }
  return 0;
}

// --- Many blocks are freed, and one on each page stays. ---

APART void* keep_index(int number) {
  void* block = std::malloc(500);
  return memset(block, number, 500);
}

APART void* load_row(int number) {
  void* block = std::malloc(500);
  return memset(block, number, 500);
}

APART int fragment(long ms) {
  std::vector<void*> kept, rows;
  for (int i = 0; i < 50'000; ++i) {
    if (i % 7 == 0) kept.push_back(keep_index(i));
    rows.push_back(load_row(i));
  }
  for (void* row : rows) std::free(row);
  puts("ready");
  fflush(stdout);
  pause_ms(ms);
  for (void* block : kept) std::free(block);
  return 0;
}

// --- Blocks that are smaller than their class. ---

APART int rounded() {
  for (int i = 0; i < 10'000; ++i) g_last = memset(std::malloc(900), 1, 900);
  puts("ready");
  fflush(stdout);
  pause_ms(60'000);
  return 0;
}

}  // namespace seeded

int main(int argc, char** argv) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // for coffer heap --pid, on systems that let only parents look
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "leak") return seeded::leak();
  if (what == "leak_nothing") return seeded::leak_nothing();
  if (what == "clean") return seeded::clean();
  if (what == "peak") return seeded::peak();
  if (what == "spike") return seeded::spike();
  if (what == "fragment") return seeded::fragment(argc > 2 ? std::atol(argv[2]) : 60'000);
  if (what == "rounded") return seeded::rounded();
  if (what == "serve") return seeded::serve(argc > 2);
  if (what == "killed") {
    seeded::leak();
    seeded::pause_ms(300);
    kill(getpid(), SIGKILL);
  }
  return what == "status" ? 7 : 2;
}
