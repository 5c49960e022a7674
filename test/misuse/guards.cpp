// SPDX-License-Identifier: MIT
// Crimes against guarded blocks, one a process; test_guards.py says which, and reads what Coffer tells of it. On stdout
// are facts, a line each: "block 0x...", "function NAME 0x...", "handler ...", "survived".
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "coffer/coffer.h"

namespace {

// The compiler knows nothing of the value any more.
template <class T>
T hide(T value) {
  __asm__ volatile("" : "+r"(value) : : "memory");
  return value;
}

const char* const* g_arguments;

const char* argument(int index) { return g_arguments[index] != nullptr ? g_arguments[index] : ""; }
bool says(int index, const char* word) { return strcmp(argument(index), word) == 0; }
long number(int index) { return strtol(argument(index), nullptr, 0); }

// Facts are written at once and without memory.
template <class... Values>
void tell(const char* format, Values... values) {
  char line[200];
  const int length = snprintf(line, sizeof line, format, values...);
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) != length) _exit(99);
}
#define REQUIRE(condition) ((condition) ? (void)0 : (tell("not so: %s\n", #condition), _exit(98)))

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
std::uintptr_t page() { return static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)); }

// The three that must be found on the stacks.
__attribute__((noinline)) char* allocating(std::size_t size) {
  char* block = static_cast<char*>(hide(malloc(size)));
  return hide(block);
}
__attribute__((noinline)) void freeing(void* block) {
  free(hide(block));
  hide(block);
}
__attribute__((noinline)) void touching(char* at, bool writes) {
  volatile char* place = hide(at);
  if (writes) {
    *place = 7;
  } else {
    static_cast<void>(*place);
  }
  hide(at);
}

std::size_t slack(const char* block, std::size_t size) {
  return (page() - (address_of(block) + size) % page()) % page();
}

// A block at the begin of its pages, at their end, or anywhere.
char* block_at(const char* side, std::size_t size) {
  std::vector<char*> others;
  char* found = nullptr;
  for (int i = 0; i < 100 && found == nullptr; ++i) {
    char* block = allocating(size);
    const bool left = address_of(block) % page() == 0;
    const bool right = slack(block, size) < 16;
    if (strcmp(side, "left") == 0 ? left : strcmp(side, "right") == 0 ? right : true) {
      found = block;
    } else {
      others.push_back(block);
    }
  }
  REQUIRE(found != nullptr);
  tell("block 0x%lx\n", address_of(found));
  return found;
}

void tell_functions() {
  tell("function allocating 0x%lx\n", address_of(reinterpret_cast<void*>(&allocating)));
  tell("function freeing 0x%lx\n", address_of(reinterpret_cast<void*>(&freeing)));
  tell("function touching 0x%lx\n", address_of(reinterpret_cast<void*>(&touching)));
}

// touch SIDE SIZE OFFSET write|read [free]: OFFSET "end": just behind the block's last page.
void touch() {
  const std::size_t size = static_cast<std::size_t>(number(3));
  char* block = block_at(argument(2), size);
  const long offset = says(4, "end") ? static_cast<long>(size + slack(block, size)) : number(4);
  touching(block + offset, says(5, "write"));
  if (says(6, "free")) freeing(block);
}

// after_free SIZE OFFSET write|read [thread]: another thread frees it.
void after_free() {
  char* block = block_at("any", static_cast<std::size_t>(number(2)));
  if (says(5, "thread")) {
    std::thread([block] { freeing(block); }).join();
  } else {
    freeing(block);
  }
  touching(block + number(3), says(4, "write"));
}

// twice SIZE CALL
void twice() {
  char* block = block_at("any", static_cast<std::size_t>(number(2)));
  freeing(block);
  if (says(3, "free")) freeing(block);
  if (says(3, "thread")) std::thread([block] { freeing(block); }).join();
  if (says(3, "realloc")) hide(realloc(hide(block), 50));
  if (says(3, "usable_size")) hide(malloc_usable_size(hide(block)));
  if (says(3, "delete")) ::operator delete(hide(block));
}

// inside SIZE OFFSET CALL
void inside() {
  char* block = block_at("any", static_cast<std::size_t>(number(2)));
  char* at = block + number(3);
  if (says(4, "free")) freeing(at);
  if (says(4, "realloc")) hide(realloc(hide(at), 50));
  if (says(4, "usable_size")) hide(malloc_usable_size(hide(at)));
}

// sized SIZE GIVEN
void sized() {
  char* block = static_cast<char*>(::operator new(static_cast<std::size_t>(number(2))));
  tell("block 0x%lx\n", address_of(block));
  ::operator delete(hide(block), static_cast<std::size_t>(number(3)));
}

// --- The program's own handlers. ---

sigjmp_buf g_back;
struct sigaction g_before;

void with_info(int signal, siginfo_t* info, void* context) {
  tell("handler info %d 0x%lx %d\n", signal, address_of(info->si_addr), context != nullptr ? 1 : 0);
  _exit(7);
}
void plain(int signal) {
  tell("handler plain %d\n", signal);
  _exit(7);
}
void jumping(int) { siglongjmp(g_back, 1); }
void chaining(int signal, siginfo_t* info, void* context) {
  tell("handler chaining %d\n", signal);
  if ((g_before.sa_flags & SA_SIGINFO) != 0) g_before.sa_sigaction(signal, info, context);
}
void on_small_stack(int signal) {
  char here = 0;
  tell("handler small %d 0x%lx\n", signal, address_of(&here));
  _exit(7);
}

void install(const char* kind, int flags = 0) {
  struct sigaction action = {};
  action.sa_flags = flags;
  if (strcmp(kind, "info") == 0) {
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = &with_info;
  } else if (strcmp(kind, "chaining") == 0) {
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = &chaining;
  } else {
    action.sa_handler = strcmp(kind, "plain") == 0     ? &plain
                        : strcmp(kind, "jumping") == 0 ? &jumping
                        : strcmp(kind, "small") == 0   ? &on_small_stack
                        : strcmp(kind, "ignore") == 0  ? SIG_IGN
                                                       : SIG_DFL;
  }
  REQUIRE(sigaction(SIGSEGV, &action, &g_before) == 0);
}

// handler before|after|last KIND: the program's handler comes before or after the first guarded block, or after the
// last.
void handler() {
  const bool before = says(2, "before");
  static char alternate[16 * 1024];
  const stack_t stack = {alternate, 0, sizeof alternate};
  if (says(3, "small")) REQUIRE(sigaltstack(&stack, nullptr) == 0);
  const int flags = says(3, "small") ? SA_ONSTACK : 0;
  if (before) install(argument(3), flags);
  char* block = block_at("any", 100);
  if (!before) install(argument(3), flags);
  if (!says(2, "last")) free(hide(malloc(100)));
  freeing(block);
  if (says(3, "jumping")) {
    for (static int i = 0; i < 3; ++i) {
      if (sigsetjmp(g_back, 1) == 0) touching(block, true);
    }
    free(malloc(100));
    return;
  }
  touching(block, true);
}

// other null|sent|ignored KIND: a signal that is not of a guarded block.
void other() {
  if (!says(3, "")) install(argument(3));
  block_at("any", 100);
  if (says(2, "null")) touching(nullptr, true);
  if (says(2, "sent")) REQUIRE(kill(getpid(), SIGSEGV) == 0);
}

// --- What is no crime. ---

void verify() { REQUIRE(coffer_check() == 0); }

bool is_default_action() {
  struct sigaction action = {};
  REQUIRE(sigaction(SIGSEGV, nullptr, &action) == 0);
  return action.sa_handler == SIG_DFL;
}

// off: without the option, or where its mean was not reached, nothing is there.
void off() {
  for (int i = 0; i < 1000; ++i) free(hide(malloc(100)));
  REQUIRE(is_default_action());
  char* block = allocating(100);
  freeing(block);
  touching(block, true);
}

std::size_t count_mappings() {
  FILE* maps = fopen("/proc/self/maps", "r");
  REQUIRE(maps != nullptr);
  std::size_t count = 0;
  for (int c = fgetc(maps); c != EOF; c = fgetc(maps)) count += c == '\n' ? 1 : 0;
  fclose(maps);
  return count;
}

struct coffer_stats stats() {
  struct coffer_stats now;
  REQUIRE(coffer_stats(&now, sizeof now) == 0);
  return now;
}

// bounds SIZE COUNT: however many blocks live, guards take little.
void bounds() {
  const std::size_t size = static_cast<std::size_t>(number(2));
  const std::size_t count = static_cast<std::size_t>(number(3));
  std::vector<char*> blocks;
  blocks.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(allocating(size));
    REQUIRE(blocks.back() != nullptr);
    memset(blocks.back(), 1, size);
  }
  std::size_t guarded = 0;
  for (const char* block : blocks) guarded += malloc_usable_size(const_cast<char*>(block)) == size ? 1 : 0;
  verify();
  const struct coffer_stats now = stats();
  tell("guarded %zu mappings %zu live %zu held %zu bound %zu\n", guarded, count_mappings(), now.live, now.held,
       now.bound);
  REQUIRE(now.held <= now.bound);
  for (char* block : blocks) free(block);
  verify();
  REQUIRE(stats().live < now.live);
}

// calls: every function that gets or gives a block, while each is guarded.
void calls() {
  for (const std::size_t size : {1, 16, 100, 4096, 5000, 70'000, 1'000'000}) {
    char* zeros = static_cast<char*>(calloc(1, size));
    for (std::size_t i = 0; i < size; ++i) REQUIRE(zeros[i] == 0);
    REQUIRE(malloc_usable_size(zeros) == size);
    free(zeros);
    for (std::size_t alignment = 16; alignment <= (1u << 20); alignment *= 2) {
      for (int i = 0; i < 4; ++i) {
        char* block = static_cast<char*>(aligned_alloc(alignment, size));
        REQUIRE(address_of(block) % alignment == 0);
        memset(block, 3, size);
        const bool right = slack(block, size) < alignment;
        REQUIRE(address_of(block) % page() == 0 || right || malloc_usable_size(block) != size);
        free(block);
      }
    }
    void* aligned = ::operator new(size, std::align_val_t(64));
    ::operator delete(aligned, size, std::align_val_t(64));
    ::operator delete(::operator new(size), size);
  }
  char* block = nullptr;
  std::size_t kept = 0;
  for (const std::size_t size : {10, 11, 100, 99, 5000, 200'000, 2'000'000, 500'000, 30}) {
    block = static_cast<char*>(realloc(block, size));
    for (std::size_t i = 0; i < (kept < size ? kept : size); ++i) REQUIRE(block[i] == static_cast<char>(i * 7));
    for (std::size_t i = 0; i < size; ++i) block[i] = static_cast<char>(i * 7);
    kept = size;
  }
  free(block);
  char* empty = allocating(0);
  REQUIRE(malloc_usable_size(empty) < 32);
  free(empty);
  verify();
}

// threads: blocks go from thread to thread.
void threads() {
  constexpr int kThreads = 4, kRounds = 3000;
  static std::atomic<char*> places[64];
  std::vector<std::thread> all;
  for (int t = 0; t < kThreads; ++t) {
    all.emplace_back([t] {
      std::uint64_t state = static_cast<std::uint64_t>(t) + 1;
      for (int i = 0; i < kRounds; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const std::size_t size = 1 + (state >> 40) % 3000;
        char* block = allocating(size);
        memset(block, t, size);
        free(places[(state >> 33) % 64].exchange(block));
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  for (std::atomic<char*>& place : places) free(place.load());
  verify();
}

// forked: blocks of the parent in its child, and new ones there; then the child's crime.
void forked() {
  char* kept = block_at("any", 100);
  std::atomic<bool> stop = false;
  // Whoever is at work in the parent vanishes in the child, here and there with the lock.
  std::thread busy([&stop] {
    while (!stop.load()) free(allocating(300));
  });
  int status = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int j = 0; j < 50; ++j) free(allocating(64));
      freeing(kept);
      verify();
      if (i < 19) _exit(0);
      tell("child %d\n", getpid());
      touching(kept, false);
      _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(i == 19 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  stop.store(true);
  busy.join();
  REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  free(kept);
  verify();
}

// limited: guards do not pass the limit, and what has none goes on.
void limited() {
  REQUIRE(coffer_set_limit(24u << 20) == 0);
  std::vector<char*> blocks;
  blocks.reserve(400);
  for (int i = 0; i < 400; ++i) {
    char* block = allocating(50'000);
    if (block == nullptr) break;
    memset(block, 1, 50'000);
    blocks.push_back(block);
    REQUIRE(stats().held <= 24u << 20);
  }
  REQUIRE(blocks.size() > 200);
  for (char* block : blocks) free(block);
  verify();
}

struct Named {
  const char* name;
  void (*run)();
};
constexpr Named kCases[] = {
    {"touch", &touch},     {"after_free", &after_free}, {"twice", &twice},     {"inside", &inside}, {"sized", &sized},
    {"handler", &handler}, {"other", &other},           {"off", &off},         {"bounds", &bounds}, {"calls", &calls},
    {"threads", &threads}, {"forked", &forked},         {"limited", &limited},
};

}  // namespace

int main(int, char** arguments) {
  g_arguments = arguments;
  for (const Named& named : kCases) {
    if (!says(1, named.name)) continue;
    tell_functions();
    named.run();
    tell("survived\n");
    return 0;
  }
  return 97;
}
