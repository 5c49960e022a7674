// SPDX-License-Identifier: MIT
// What the papers' allocators share, under Relacy: the lock, the start of the process and fork, pieces of superblocks.
// See double/ for what stands below it. common_relacy [--weaken FILE:LINE:s=ORDER] [ITERATIONS]
#include <new>

#include "config/config.hpp"
#include "papers/common/adapter.hpp"
#include "papers/common/pieces.hpp"
// Its handlers of fork have no other name.
#include "papers/common/process.cpp"  // NOLINT(bugprone-suspicious-include)
#include "simulate.hpp"

namespace coffer {

void config::load() {}
bool os::on_fork(void (*)(), void (*)(), void (*)()) { return true; }
void os::write_error(const char*, usize) {}
void os::note_process() {}
void os::forget_locking() {}
u64 os::call_count() { return 0; }

namespace papers {
namespace {

// --- The lock, and what it guards. ---

struct LockTest : rl::test_suite<LockTest, 3> {
  SpinLock lock;
  Plain<u32> guarded{0};
  void thread(unsigned index) {
    if (index == 0) {
      if (!lock.try_lock()) return;
    } else {
      lock.lock();
    }
    guarded = guarded + 1;
    lock.unlock();
  }
};

// --- A paper that only starts: what start() writes must be there for everybody who comes in. ---

struct Paper {
  Plain<u32> records{0};
  u32 starts = 0;  // simulated threads run one at a time
};
Paper* g_paper;

struct Probe {
  static void look() { RL_ASSERT(g_paper->records == 1); }
  static bool start() {
    RL_ASSERT(++g_paper->starts == 1);
    g_paper->records = 1;
    return true;
  }
  static void thread_ended(void*) {}
  static void fork_prepare() { look(); }
  static void fork_parent() { look(); }
  static void fork_child() {}
  static void* allocate(usize) {
    look();
    return g_paper;
  }
  static void* allocate_aligned(usize size, usize) { return allocate(size); }
  static void deallocate(void*) {}
  static usize usable_size(void*) { return 1; }
  static bool is_zero(void*) { return true; }
  static void* resize(void*, usize) { return nullptr; }
  static bool trim() { return false; }
  static void statistics(Statistics&) {}
  static void describe(Text&) {}
  static usize check() {
    look();
    return 0;
  }
};
using Probed = Adapter<Probe>;

template <class Test, int kThreads>
struct ProcessTest : rl::test_suite<Test, kThreads> {
  Paper paper;
  Fresh<Atomic<u32>> started{g_started};
  Fresh<Atomic<uptr>> forking{g_forking};
  Fresh<Process> process{g_process};
  void before() { g_paper = &paper; }
  static void fork_with(bool allocates) {
    prepare();
    // Either nobody starts until the fork is done, or the paper's locks are held.
    RL_ASSERT(g_paper->starts == 0 || is_forking());
    if (allocates) RL_ASSERT(Probed::allocate(1) != nullptr);
    parent();
    RL_ASSERT(!is_forking());
  }
};

struct StartTest : ProcessTest<StartTest, 3> {
  void thread(unsigned index) {
    if (index < 2) {
      RL_ASSERT(Probed::allocate(1) != nullptr);
    } else {
      Probed::check();
    }
  }
};

// kAllocates: another library's fork handler makes the first allocation.
template <bool kAllocates>
struct ForkTest : ProcessTest<ForkTest<kAllocates>, 3> {
  void thread(unsigned index) {
    if (index == 1) {
      this->fork_with(kAllocates);
    } else {
      RL_ASSERT(Probed::allocate(1) != nullptr);
    }
  }
};

// --- Pieces: each is given out once, and is as it was mapped. ---

constexpr usize kPiece = 4096;
alignas(kPiece) unsigned char g_memory[4 * kPiece];
usize g_mapped;
usize g_released;

struct PiecesTest : rl::test_suite<PiecesTest, 2> {
  Pieces pieces;
  Plain<u32> owners[4];
  void before() {
    g_mapped = 0;
    g_released = 0;
    pieces.set_size(kPiece);
    for (Plain<u32>& owner : owners) owner = 0;
  }
  void thread(unsigned index) {
    for (int i = 0; i < 2; ++i) {
      auto* piece = static_cast<unsigned char*>(pieces.take());
      if (piece == nullptr) continue;
      Plain<u32>& owner = owners[static_cast<usize>(piece - g_memory) / kPiece];
      RL_ASSERT(owner == 0);
      owner = index + 1;
    }
  }
};

}  // namespace
}  // namespace papers

// Two pieces at a time, twice.
void* os::map(usize length, usize) {
  if (length > 2 * papers::kPiece || papers::g_mapped == 2) return nullptr;
  return papers::g_memory + 2 * papers::kPiece * papers::g_mapped++;
}
void os::release(void*, usize) { ++papers::g_released; }
void os::advise_huge_pages(void*, usize, HugePages) {}

}  // namespace coffer

int main(int count, char** arguments) {
  using namespace coffer::papers;
  using coffer::simulate;
  return coffer::run_program(count, arguments, [](rl::iteration_t iterations) {
    return simulate<LockTest>("lock", iterations) && simulate<StartTest>("start", iterations) &&
           simulate<ForkTest<false>>("fork and start", iterations) &&
           simulate<ForkTest<true>>("start in a fork", iterations) && simulate<PiecesTest>("pieces", iterations);
  });
}
