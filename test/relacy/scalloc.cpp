// SPDX-License-Identifier: MIT
// scalloc's lock-free parts under Relacy: the stack with tags, the two free lists, the epoch and owner words, adoption.
// The code is the library's own, front_end.cpp and span.cpp whole; see double/ for what stands below it.
//
//   scalloc_relacy [--weaken FILE:LINE:s=ORDER] [ITERATIONS]   exit status 1: some test found an error
#include <new>

#include "papers/scalloc/front_end.hpp"
#include "papers/scalloc/treiber_stack.hpp"
#include "simulate.hpp"

namespace coffer {

namespace scalloc {
namespace {

// --- The stack: two threads take and put, a third takes all. What is in a span belongs to whoever has it. ---

struct Links {
  Atomic<u32>& link(u32 number) { return links[number]; }
  Atomic<u32> links[4];
};

struct StackTest : rl::test_suite<StackTest, 3> {
  TreiberStack stack;
  Links links;
  Owned<Block*> payload[4];

  void before() {
    for (u32 i = 1; i <= 3; ++i) stack.put(links, i);
  }
  void use(u32 number) {
    payload[number].get();
    payload[number].set(nullptr);
  }
  void thread(unsigned index) {
    if (index < 2) {
      for (int round = 0; round < 2; ++round) {
        const u32 number = stack.get(links);
        if (number == 0) continue;
        use(number);
        stack.put(links, number);
      }
      return;
    }
    const u32 first = stack.take_all();
    u32 last = 0;
    for (u32 number = first; number != 0; number = links.link(number).load(relaxed)) {
      use(number);
      last = number;
    }
    if (first != 0) stack.put_chain(links, first, links.link(last));
  }
  void after() {
    u32 count = 0;
    while (stack.get(links) != 0) ++count;
    RL_ASSERT(count == 3);
  }
};

// --- The front end: one span of three blocks, up to two LABs. ---

constexpr u32 kBlocks = blocks_of(1);
constexpr usize kSpanBytes = usize{64} << 10;
alignas(kSpanBytes) unsigned char g_memory[kSpanBytes];
alignas(4096) unsigned char g_lab_memory[2][round_up(sizeof(Lab), 4096)];

struct World {
  explicit World(u32 reusability) : pool(make_span()) {
    Parameters parameters;
    parameters.reusability = reusability;
    front_end.start(&pool, parameters);
    for (u32 i = 0; i < 2; ++i) {
      new (g_lab_memory[i]) Lab();
      begin(i, 1);
    }
  }
  ~World() {
    for (u32 i = 0; i < 2; ++i) lab(i)->~Lab();
    for (u32 i = 0; i < kBlocks; ++i) span()->block(i)->~Block();
    span()->~Span();
  }
  static Span* make_span() {
    Span* made = new (g_memory) Span();
    for (u32 i = 0; i < kBlocks; ++i) new (g_memory + kHeaderBytes + i * block_bytes(1)) Block();
    return made;
  }
  Span* span() { return reinterpret_cast<Span*>(g_memory); }
  Lab* lab(u32 index) { return reinterpret_cast<Lab*>(g_lab_memory[index]); }
  void begin(u32 index, u64 identity) {
    front_end.init(lab(index), identity << kIdentityShift | reinterpret_cast<uptr>(lab(index)));
  }
  Block* allocate(u32 index) {
    auto* block = static_cast<Block*>(front_end.allocate(lab(index), 1));
    if (block != nullptr) {  // the program writes to it
      block->next.set(nullptr);
      ++live;
    }
    return block;
  }
  void deallocate(u32 index, Block* block) {
    block->next.get();
    --live;
    front_end.deallocate(lab(index), span(), block);
  }
  // An empty span is in the pool, or hot; and no other is.
  void check() {
    const State state = load_epoch(span()).state();
    RL_ASSERT(pool.has_span() == (state == State::free));
    if (live == 0) RL_ASSERT(state == State::free || state == State::hot);
    if (live != 0) RL_ASSERT(free_blocks(span()) + static_cast<u32>(live) == kBlocks);
  }

  SpanPool pool;
  FrontEnd front_end;
  SpinLock registry;  // under which threads end and begin
  int live = 0;       // simulated threads run one at a time
};

template <class Test, int kThreads>
struct WorldTest : rl::test_suite<Test, kThreads> {
  World* world = nullptr;
  Block* blocks[kBlocks] = {};
  void begin(u32 reusability) {
    world = new World(reusability);
    for (Block*& block : blocks) block = world->allocate(0);
  }
  // Until the first owner has ended, or, `again`, the next thread has its LAB.
  void wait_for_the_end(bool again) {
    const Owner first = world->span()->owner.load(relaxed);
    wait_a_little([&] {
      const Owner now = world->lab(0)->owner.load(relaxed);
      return now != first && (!again || now != kTerminated);
    });
  }
  void after() {
    world->check();
    delete world;
  }
};

// The owner makes the span floating while another frees all blocks.
template <u32 kReusability>
struct RetireTest : WorldTest<RetireTest<kReusability>, 2> {
  void before() { this->begin(kReusability); }
  void thread(unsigned index) {
    if (index == 0) {
      this->world->allocate(0);
    } else {
      for (Block* block : this->blocks) this->world->deallocate(1, block);
    }
  }
};

// The last local and the last remote free of a floating span meet.
template <u32 kReusability>
struct LastFreesTest : WorldTest<LastFreesTest<kReusability>, 2> {
  void before() {
    this->begin(kReusability);
    this->world->allocate(0);  // there is none: the span floats
  }
  void thread(unsigned index) {
    if (index == 0) this->world->deallocate(0, this->blocks[2]);
    this->world->deallocate(index, this->blocks[index]);
  }
};

// The owner frees one block and ends, and the next thread has its LAB; another frees the other blocks, adopts, and
// allocates what the first owner freed.
struct AdoptionTest : WorldTest<AdoptionTest, 2> {
  void before() { begin(0); }
  void thread(unsigned index) {
    if (index == 0) {
      world->deallocate(0, blocks[0]);
      world->front_end.terminate(world->lab(0));
      world->begin(0, 2);
    } else {
      wait_for_the_end(false);
      world->deallocate(1, blocks[1]);
      world->allocate(1);
      world->allocate(1);
    }
  }
};

// Of two threads that share a LAB one adopts, and then the other's free is a local one: it has what the first owner
// wrote to the list by way of the LAB's word and of the owner word only. kAgain: another thread has the first owner's
// LAB by then.
template <bool kAgain>
struct SharedAdoptionTest : WorldTest<SharedAdoptionTest<kAgain>, 4> {
  void before() {
    this->begin(80);
    this->world->lab(1)->shared.set(1);
    this->world->allocate(0);  // there is none: the span floats
  }
  void thread(unsigned index) {
    World* all = this->world;
    if (index == 0) {
      all->deallocate(0, this->blocks[2]);
      const LockGuard guard(all->registry);
      all->front_end.terminate(all->lab(0));
    } else if (index == 3) {
      if (!kAgain) return;
      this->wait_for_the_end(false);
      const LockGuard guard(all->registry);
      if (all->lab(0)->owner.load(relaxed) == kTerminated) all->begin(0, 2);
    } else {
      if (index == 1) this->wait_for_the_end(kAgain);
      if (index == 2) {
        wait_a_little([&] { return all->span()->owner.load(relaxed) == all->lab(1)->owner.load(relaxed); });
      }
      all->deallocate(1, this->blocks[index - 1]);
    }
  }
};

}  // namespace
}  // namespace scalloc
}  // namespace coffer

int main(int count, char** arguments) {
  using namespace coffer::scalloc;
  using coffer::simulate;
  return coffer::run_program(count, arguments, [](rl::iteration_t iterations) {
    return simulate<StackTest>("stack", iterations) && simulate<LastFreesTest<0>>("last frees", iterations) &&
           simulate<LastFreesTest<80>>("last frees, 80 %", iterations) &&
           simulate<RetireTest<0>>("retire", iterations) && simulate<RetireTest<80>>("retire, 80 %", iterations) &&
           simulate<AdoptionTest>("adoption", iterations) &&
           simulate<SharedAdoptionTest<false>>("shared adoption", iterations) &&
           simulate<SharedAdoptionTest<true>>("the same, LAB again", iterations);
  });
}
