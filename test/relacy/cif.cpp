// SPDX-License-Identifier: MIT
// CIF's heaps under Relacy: heaps that are made while others look, owners that change before a free finds them; over
// the library's own lock, heaps and superblocks. cif_relacy [--weaken FILE:LINE:s=ORDER] [ITERATIONS]
#include <new>

#include "os/os.hpp"
#include "papers/cif/heap.hpp"
#include "simulate.hpp"

namespace coffer {

__thread char t_lock_identity;

namespace cif {
namespace {

constexpr u32 kHeaps = 4;  // beside the global heap
constexpr usize kSuperblock = 16 * 1024;
constexpr u32 kSuperblocks = 4;
constexpr u32 kBlocks = 3;  // of a superblock
constexpr usize kPage = 4096;
alignas(kSuperblock) unsigned char g_memory[kSuperblocks * kSuperblock];
alignas(kPage) unsigned char g_records[32 * kPage];
u32 g_mapped;
usize g_record_bytes;
u32 g_records_made;
Settings g_settings;
u32 g_class;
u32 g_processors[8];  // of each thread

Superblock* superblock_at(u32 number) { return reinterpret_cast<Superblock*>(g_memory + number * kSuperblock); }
Heap* record_at(u32 number) { return reinterpret_cast<Heap*>(g_records + number * g_record_bytes); }

// f = 1/2 and K = 0: a superblock goes to the global heap when one of its three blocks is left.
void set_parameters() {
  config::Options options;
  options.superblock = kSuperblock;
  options.colours = 1;
  options.f = config::EmptyFraction::half;
  options.k = 0;
  g_settings = make_settings(options, kPage);
  for (u32 c = 0; c < g_settings.class_count; ++c) {
    if (lay_out(g_settings, g_settings.classes.bytes(c), 0).capacity == kBlocks) g_class = c;
  }
}

struct World {
  World() {
    g_mapped = 0;
    g_records_made = 0;
    heaps = new Heaps;
    heaps->start(g_settings, kHeaps, 1);
  }
  ~World() {
    delete heaps;
    for (u32 i = 0; i < g_mapped; ++i) superblock_at(i)->~Superblock();
    for (u32 i = 0; i < g_records_made; ++i) {
      for (u32 c = 0; c < g_settings.class_count; ++c) record_at(i)->of(c).~ClassHeap();
      record_at(i)->~Heap();
    }
  }
  Heaps* heaps;
};

template <class Test, int kThreads>
struct CifTest : rl::test_suite<Test, kThreads> {
  World* world = nullptr;
  void* blocks[kBlocks] = {};
  // The superblock is full, and processor 0's.
  void begin() {
    for (u32& processor : g_processors) processor = 0;
    world = new World;
    for (void*& block : blocks) block = allocate();
  }
  void* allocate() { return world->heaps->allocate(g_class); }
  void deallocate(u32 number) { world->heaps->deallocate(blocks[number]); }
  void after() {
    RL_ASSERT(world->heaps->check() == 0);
    delete world;
  }
};

// Of a superblock in the global heap with one block in use: two threads on one processor that has no heap yet, one of
// which takes it; a third frees the block, and a fourth looks at all heaps.
struct NewHeapTest : CifTest<NewHeapTest, 4> {
  void before() {
    begin();
    deallocate(0);
    deallocate(1);
    g_processors[0] = 1;
    g_processors[1] = 1;
  }
  void thread(unsigned index) {
    if (index < 2) {
      allocate();
    } else if (index == 2) {
      wait_a_little([] { return superblock_at(0)->owner.load(relaxed) != record_at(0); });
      deallocate(2);
    } else {
      u32 visited = 0;
      wait_a_little([] { return g_records_made > 2; });
      world->heaps->visit_heaps([&](Heap&, u32) { ++visited; });
      RL_ASSERT(visited >= 2);
    }
  }
};

// The superblock leaves its heap at one free, is taken from the global heap into a new heap, and has its last block
// freed by a third thread, which may have found any of its three owners.
struct OwnersTest : CifTest<OwnersTest, 3> {
  void before() {
    begin();
    deallocate(0);
    g_processors[1] = 1;
    g_processors[2] = 2;
  }
  void thread(unsigned index) {
    if (index == 0) {
      deallocate(1);
    } else if (index == 1) {
      wait_a_little([] { return superblock_at(0)->owner.load(relaxed) == record_at(0); });
      allocate();
    } else {
      deallocate(2);
    }
  }
};

}  // namespace
}  // namespace cif

usize os::page_size() { return cif::kPage; }
u32 os::current_processor() { return cif::g_processors[rl::thread_index()]; }
void* os::reserve(usize length, usize) {
  cif::g_record_bytes = length / (cif::kHeaps + 1);
  return length <= sizeof cif::g_records ? cif::g_records : nullptr;
}
// A heap's record, with its cells: until here nobody could look at it.
bool os::commit(void* memory, usize) {
  using namespace cif;
  RL_ASSERT(memory == record_at(g_records_made));
  Heap* heap = new (memory) Heap();
  for (u32 c = 0; c < g_settings.class_count; ++c) new (&heap->of(c)) ClassHeap();
  ++g_records_made;
  return true;
}
// A superblock at a time, with its cells.
void* os::map(usize length, usize) {
  using namespace cif;
  if (length > kSuperblock || g_mapped == kSuperblocks) return nullptr;
  return new (superblock_at(g_mapped++)) Superblock();
}
void os::release(void*, usize) {}
void os::advise_huge_pages(void*, usize, HugePages) {}

}  // namespace coffer

int main(int count, char** arguments) {
  using namespace coffer::cif;
  using coffer::simulate;
  set_parameters();
  return coffer::run_program(count, arguments, [](rl::iteration_t iterations) {
    return simulate<NewHeapTest>("new heaps", iterations) && simulate<OwnersTest>("owners change", iterations);
  });
}
