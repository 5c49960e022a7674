// SPDX-License-Identifier: MIT
// Hoard's locks under Relacy: figure 2 with its race, over the library's own lock, heaps and superblocks. All of
// Hoard's memory orders are those of the lock; that an owner may be read relaxed is what this shows.
//
//   hoard_relacy [--weaken FILE:LINE:s=ORDER] [ITERATIONS]
#include <new>

#include "os/os.hpp"
#include "papers/common/process.hpp"
#include "papers/hoard/assign.hpp"
#include "papers/hoard/small.hpp"
#include "simulate.hpp"

namespace coffer {

__thread char t_lock_identity;

namespace papers {

__thread void* t_local;
Atomic<uptr> g_forking;
void set_local(void*) {}
bool thread_has_ended() { return true; }  // nothing of a thread's own: by its processor or its number, each time
u32 thread_number() { return rl::thread_index() + 1; }

namespace hoard {

Parameters g_hoard;

namespace {

constexpr u32 kHeaps = 4;  // the global heap, and one a thread
constexpr usize kSuperblock = 16 * 1024;
constexpr u32 kSuperblocks = 4;
constexpr u32 kBlocks = 3;  // of a superblock
alignas(kSuperblock) unsigned char g_memory[kSuperblocks * kSuperblock];
u32 g_mapped;
u32 g_class;

Superblock* superblock_at(u32 number) { return reinterpret_cast<Superblock*>(g_memory + number * kSuperblock); }

// f = 1/2 and K = 0: a superblock goes to the global heap when one of its three blocks is left.
void set_parameters() {
  Parameters& p = g_hoard;
  p.superblock_bytes = kSuperblock;
  p.word = kWord;
  p.threshold = {8, 0};
  p.heaps = kHeaps - 1;
  p.assign = config::Assign::hash;
  p.classes.build(largest_stride(kSuperblock, kWord) - kWord, kWord, 110);
  for (u32 c = 0; c < p.classes.count(); ++c) {
    p.capacity[c] = capacity_of(kSuperblock, p.classes.stride(c), kWord);
    if (p.capacity[c] == kBlocks) g_class = c;
  }
}

struct World {
  World() {
    g_mapped = 0;
    superblock_source().set_size(kSuperblock);
    heaps = new Heap[kHeaps]();
    g_hoard.first_heap = heaps;
  }
  ~World() {
    delete[] heaps;
    for (u32 i = 0; i < g_mapped; ++i) superblock_at(i)->~Superblock();
  }
  Fresh<Atomic<uptr>> forking{g_forking};
  Fresh<Pieces> source{superblock_source()};
  Heap* heaps;
};

template <class Test, int kThreads>
struct HoardTest : rl::test_suite<Test, kThreads> {
  World* world = nullptr;
  void* blocks[kBlocks] = {};
  void before() {
    world = new World;
    for (void*& block : blocks) block = allocate_small(g_class);
  }
  static void deallocate(void* block) { free_small(superblock_of<Superblock>(word_before(block)), block); }
  void after() {
    for (u32 i = 0; i < kHeaps; ++i) {
      const Bin& bin = heap_at(i)->bins[g_class];
      u64 used = 0;
      u64 capacity = 0;
      for (Superblock* front : bin.front) {
        for (Superblock* s = front; s != nullptr; s = s->next) {
          used += s->used;
          capacity += s->capacity;
        }
      }
      RL_ASSERT(used == bin.used && capacity == bin.blocks);
      RL_ASSERT(i == 0 || holds_after_malloc(heap_at(i), g_class));
    }
    delete world;
  }
};

// The superblock leaves its heap at one free, is taken from the global heap by another thread's malloc, and has its
// last block freed by a third, which may have found any of its three owners.
struct OwnersTest : HoardTest<OwnersTest, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      deallocate(blocks[0]);
      deallocate(blocks[1]);
    } else if (index == 1) {
      wait_a_little([] { return superblock_at(0)->owner.load(relaxed) == global_heap(); });
      allocate_small(g_class);
    } else {
      deallocate(blocks[2]);
    }
  }
};

// Two threads free blocks of one superblock while its owner allocates.
struct MeetTest : HoardTest<MeetTest, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      void* block = allocate_small(g_class);
      if (block != nullptr) deallocate(block);
    } else {
      deallocate(blocks[index]);
    }
  }
};

}  // namespace
}  // namespace hoard
}  // namespace papers

u32 os::current_processor() { return rl::thread_index(); }
// A piece at a time, with its cells.
void* os::map(usize length, usize) {
  using namespace papers::hoard;
  if (length > kSuperblock || g_mapped == kSuperblocks) return nullptr;
  return new (superblock_at(g_mapped++)) Superblock();
}
void os::release(void*, usize) {}
void os::advise_huge_pages(void*, usize, HugePages) {}

}  // namespace coffer

int main(int count, char** arguments) {
  using namespace coffer::papers::hoard;
  using coffer::simulate;
  set_parameters();
  return coffer::run_program(count, arguments, [](rl::iteration_t iterations) {
    return simulate<OwnersTest>("owners change", iterations) && simulate<MeetTest>("frees meet", iterations);
  });
}
