// SPDX-License-Identifier: MIT
// Groups of blocks that are freed out of order, after what is said of SmartHeap's sh6bench and sh8bench: blocks of many
// sizes, mostly small ones; some groups are freed in the order in which they were allocated, some last first, some at
// steps; and in the second program another thread frees a part of them. The programs themselves are not described
// further; the reading here: each thread holds `live` groups; in a round it takes a random one of them, frees its
// blocks, or hands the group to the next thread (`remote` in a hundred), and allocates a new group in its place. Half
// of the groups have one size, the others a size for each block.
//
// Sizes fall off: from low to a bound that is itself drawn, so that small ones are the most. A thread whose neighbour
// has `inbox` groups to free does not wait: it frees the group itself, and `remote_share` says how many were handed
// over. One thread hands groups to itself. An operation is a malloc with its free.
#include "suite.hpp"

namespace {

struct Group {
  Group* next;   // in an inbox
  size_t order;  // of freeing
  unsigned char* blocks[];
};

struct alignas(128) Inbox {
  std::atomic<Group*> first{nullptr};
  std::atomic<size_t> waiting{0};
};

struct State {
  size_t threads, low, high, blocks, live, rounds, remote, inbox;
  Inbox* inboxes;
  std::atomic<uint64_t> checksum{0}, handed{0};
};

// Every block has its size in its first bytes and its last one; a block of few bytes has less of it.
void fill(unsigned char* block, size_t size) {
  memcpy(block, &size, size < 4 ? 1 : 4);
  block[size - 1] = static_cast<unsigned char>(size);
}

// What a thread may still add depends on its own draws only: a block counts where it is made.
Group* make_group(const State& state, suite::Random& random, uint64_t& bytes) {
  Group* group = static_cast<Group*>(suite::allocate(sizeof(Group) + state.blocks * sizeof(void*)));
  group->order = random.below(4);
  bool one_size = random.below(2) == 0;
  size_t size = 0;
  for (size_t i = 0; i < state.blocks; ++i) {
    if (i == 0 || !one_size) size = random.between(state.low, random.between(state.low, state.high));
    group->blocks[i] = static_cast<unsigned char*>(suite::allocate(size));
    fill(group->blocks[i], size);
    bytes += size;
  }
  return group;
}

void free_block(const State& state, unsigned char* block) {
  if (state.low >= 4) {
    uint32_t size;
    memcpy(&size, block, sizeof size);
    suite::require(size >= state.low && size <= state.high && block[size - 1] == static_cast<unsigned char>(size),
                   "a block was damaged");
  }
  suite::release(block);
}

// First first twice in four times, last first, and each third of them in three goes.
void free_group(const State& state, Group* group) {
  size_t count = state.blocks;
  switch (group->order) {
    case 2:
      for (size_t i = count; i > 0; --i) free_block(state, group->blocks[i - 1]);
      break;
    case 3:
      for (size_t from = 0; from < 3; ++from) {
        for (size_t i = from; i < count; i += 3) free_block(state, group->blocks[i]);
      }
      break;
    default:
      for (size_t i = 0; i < count; ++i) free_block(state, group->blocks[i]);
  }
  suite::release(group);
}

void empty_inbox(const State& state, Inbox& inbox) {
  if (inbox.first.load(std::memory_order_relaxed) == nullptr) return;
  for (Group* group = inbox.first.exchange(nullptr, std::memory_order_acquire); group != nullptr;) {
    Group* next = group->next;
    free_group(state, group);
    inbox.waiting.fetch_sub(1, std::memory_order_relaxed);
    group = next;
  }
}

bool hand_over(const State& state, Inbox& inbox, Group* group) {
  if (inbox.waiting.load(std::memory_order_relaxed) >= state.inbox) return false;
  inbox.waiting.fetch_add(1, std::memory_order_relaxed);
  group->next = inbox.first.load(std::memory_order_relaxed);
  while (!inbox.first.compare_exchange_weak(group->next, group, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return true;
}

void run_thread(suite::Run& run, State& state, suite::Barrier& barrier, size_t thread) {
  Group** groups = suite::table<Group*>(state.live);
  Inbox& mine = state.inboxes[thread];
  Inbox& other = state.inboxes[(thread + 1) % state.threads];
  suite::Random random(run.seed() * 1000 + thread);
  uint64_t bytes = 0, handed = 0;
  for (size_t i = 0; i < state.live; ++i) groups[i] = make_group(state, random, bytes);
  run.start(thread);
  for (size_t round = 0; round < state.rounds; ++round) {
    empty_inbox(state, mine);
    Group*& place = groups[random.below(state.live)];
    bool remote = random.below(100) < state.remote;
    if (remote && hand_over(state, other, place)) {
      ++handed;
    } else {
      free_group(state, place);
    }
    place = make_group(state, random, bytes);
  }
  run.stop();
  run.sample();
  barrier.wait();  // nobody hands over any more
  empty_inbox(state, mine);
  for (size_t i = 0; i < state.live; ++i) free_group(state, groups[i]);
  state.checksum.fetch_add(suite::mix(bytes), std::memory_order_relaxed);
  state.handed.fetch_add(handed, std::memory_order_relaxed);
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "groups", "of no paper: after descriptions of sh6bench and sh8bench",
                 "groups of blocks of many sizes, freed out of order, part of them by other threads");
  State state{};
  state.threads = run.threads(1);
  state.low = run.number("low", 8, "bytes of the smallest block", 1);
  state.high = run.number("high", 1'000, "bytes of the largest block", 1, 1 << 20);
  state.blocks = run.number("blocks", 50, "blocks of a group", 1, 1 << 20);
  state.live = run.number("live", 200, "groups that live, of all threads together") / state.threads;
  state.remote = run.number("remote", 0, "groups in a hundred that the next thread frees", 0, 100);
  state.inbox = run.number("inbox", 64, "groups that may wait for a thread");
  size_t operations = run.scaled("operations", 10'000'000, "blocks of all threads together");
  state.rounds = operations / state.threads / state.blocks + 1;
  if (state.live == 0) run.reject("more threads than groups");
  if (state.low > state.high) run.reject("low is above high");
  run.begin(state.threads);

  state.inboxes = suite::table<Inbox>(state.threads);
  suite::Barrier barrier(state.threads);
  bench::run_threads(state.threads, [&](size_t thread) { run_thread(run, state, barrier, thread); });
  size_t groups = state.rounds * state.threads;
  run.add("remote_share", static_cast<double>(state.handed) / static_cast<double>(groups));
  run.report(groups * state.blocks, state.checksum);
}
