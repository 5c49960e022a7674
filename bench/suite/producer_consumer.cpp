// SPDX-License-Identifier: MIT
// Producers and consumers in ACDC's manner: every thread shares every object that it allocates with all threads, all of
// them read it, and the last one to do so frees it. Each thread goes over the objects in an order of its own, parcel by
// parcel, so that any thread may be the last: with n threads a free is remote with a probability of about 1 - 1/n;
// `remote_share` says what it was. The paper gives the sizes, 16 to 512 bytes; cycles and objects a cycle are chosen
// here. Its metric is the time spent in the allocator: allocator_ns, the sum over all threads. An operation is an
// object: a malloc and a free.
#include "suite.hpp"

namespace {

constexpr size_t kParcel = 64;

struct Object {
  std::atomic<uint32_t> users;  // threads that have still to read it
  uint16_t size, owner;
  unsigned char content[8];
};

struct State {
  size_t threads, objects, cycles, low, high;
  Object** all;  // of all threads, in the order in which they are allocated
  std::atomic<uint64_t> checksum{0}, allocator_ns{0}, remote{0};

  size_t parcels() const { return objects * threads / kParcel; }
};

void produce(const State& state, Object** mine, size_t thread, suite::Random& random) {
  for (size_t i = 0; i < state.objects; ++i) {
    size_t size = random.between(state.low, state.high);
    Object* object = static_cast<Object*>(suite::allocate(size));
    object->users.store(static_cast<uint32_t>(state.threads), std::memory_order_relaxed);
    object->size = static_cast<uint16_t>(size);
    object->owner = static_cast<uint16_t>(thread);
    object->content[0] = reinterpret_cast<unsigned char*>(object)[size - 1] = static_cast<unsigned char>(size);
    mine[i] = object;
  }
}

void shuffle(size_t* order, size_t count, suite::Random& random) {
  for (size_t i = count; i > 1; --i) {
    size_t other = random.below(i), value = order[i - 1];
    order[i - 1] = order[other];
    order[other] = value;
  }
}

struct Used {
  size_t count;  // objects whose last user this thread was
  size_t remote;
};

// Reads all objects of all threads, parcel by parcel in the order given. Those whose last user this is are kept in
// `last`, so that the time of their frees can be taken.
Used use_all(const State& state, size_t thread, const size_t* order, Object** last, uint64_t& sum) {
  Used used{};
  for (size_t turn = 0; turn < state.parcels(); ++turn) {
    for (size_t i = 0; i < kParcel; ++i) {
      size_t place = order[turn] * kParcel + i;
      Object* object = state.all[place];
      unsigned char end = reinterpret_cast<unsigned char*>(object)[object->size - 1];
      suite::require(end == static_cast<unsigned char>(object->size), "an object was damaged");
      sum += suite::mix(object->size + place);
      size_t remote = object->owner != thread;
      // Release what was read, acquire what others did, before the object is freed.
      if (object->users.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      last[used.count++] = object;
      used.remote += remote;
    }
  }
  return used;
}

void run_thread(suite::Run& run, State& state, suite::Barrier& barrier, size_t thread) {
  Object** mine = state.all + thread * state.objects;
  Object** last = suite::table<Object*>(state.objects * state.threads);
  suite::Random random(run.seed() * 1000 + thread);
  size_t* order = suite::table<size_t>(state.parcels());
  for (size_t i = 0; i < state.parcels(); ++i) order[i] = i;
  uint64_t sum = 0, allocator_ns = 0;
  size_t remote = 0;
  run.start(thread);
  for (size_t cycle = 0; cycle < state.cycles; ++cycle) {
    suite::Stopwatch producing;
    produce(state, mine, thread, random);
    allocator_ns += producing.ns();
    barrier.wait();
    shuffle(order, state.parcels(), random);
    Used used = use_all(state, thread, order, last, sum);
    remote += used.remote;
    suite::Stopwatch freeing;
    for (size_t i = 0; i < used.count; ++i) suite::release(last[i]);
    allocator_ns += freeing.ns();
    barrier.wait();
  }
  run.stop();
  state.checksum.fetch_add(suite::mix(sum), std::memory_order_relaxed);
  state.allocator_ns.fetch_add(allocator_ns, std::memory_order_relaxed);
  state.remote.fetch_add(remote, std::memory_order_relaxed);
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "producer_consumer", "scalloc 7.3, figure 9",
                 "every object is shared by all threads, its last user frees it");
  State state{};
  state.threads = run.threads(2);
  state.low = run.number("low", 16, "bytes of the smallest object", 16);
  state.high = run.number("high", 512, "bytes of the largest object", 16, 65535);
  state.objects = run.number("objects", 4'096, "objects that each thread allocates in a cycle");
  state.cycles = run.scaled("cycles", 1'000, "cycles of allocating, sharing and freeing");
  if (state.low > state.high) run.reject("low is above high");
  if (state.objects % kParcel != 0) run.reject("objects is a multiple of %zu", kParcel);
  run.begin(state.threads);

  state.all = suite::table<Object*>(state.objects * state.threads);
  suite::Barrier barrier(state.threads);
  bench::run_threads(state.threads, [&](size_t thread) { run_thread(run, state, barrier, thread); });
  size_t operations = state.objects * state.cycles * state.threads;
  run.add("allocator_ns", static_cast<double>(state.allocator_ns));
  run.add("remote_share", static_cast<double>(state.remote) / static_cast<double>(operations));
  run.live(state.objects * state.threads * (state.low + state.high) / 2);
  run.report(operations, state.checksum);
}
