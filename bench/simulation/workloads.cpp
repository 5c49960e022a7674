// SPDX-License-Identifier: MIT
// The papers' experiments on scaling, smaller: docs/design/simulation.md has the parameters beside theirs. Compiled so
// that every access of theirs is reported.
#include "base/atomic.hpp"
#include "program.hpp"

namespace simulation {

namespace {

using coffer::acq_rel;
using coffer::Atomic;
using coffer::relaxed;
using coffer::u16;
using coffer::u8;

// Starts a thread a core; the one that calls runs the first part itself. `body` outlives all of them.
template <class Body>
void on_all_cores(u32 cores, const Body& body) {
  for (u32 core = 1; core < cores; ++core) {
    g_machine->start_thread(core, [&body, core] { body(core); });
  }
  body(0);
}

// What comes before the timed part, core by core: as much is done as in a long run, without the crowd of the start.
template <class Body>
void warm_up(Machine::Meeting& meeting, u32 core, const Body& body) {
  for (u32 turn = 0; turn < meeting.count; ++turn) {
    if (turn == core) body();
    g_machine->meet(meeting);
  }
}

// --- Threads that share nothing (Hoard 5.2, scalloc 7.2.1). ---

template <u64 kSize>
Measured threadtest(Machine& machine, const Plan& plan) {
  const u64 all = plan.scaled(100'000) / plan.cores * plan.cores;
  const u64 objects = all / plan.cores == 0 ? 1 : all / plan.cores;
  constexpr u64 kRounds = 3;
  Clock clock(plan.cores);
  void*** const tables = table<void**>(plan.cores);
  for (u32 core = 0; core < plan.cores; ++core) tables[core] = table<void*>(objects);
  auto round = [&](u32 core) {
    void** const mine = tables[core];
    for (u64 i = 0; i < objects; ++i) {
      mine[i] = allocate(kSize);
      *static_cast<u64*>(mine[i]) = i;
    }
    for (u64 i = 0; i < objects; ++i) release(mine[i]);
  };
  Machine::Meeting warm{plan.cores, {}};
  const auto body = [&](u32 core) {
    warm_up(warm, core, [&] { round(core); });
    round(core);
    clock.begin();
    for (u64 i = 0; i < kRounds; ++i) round(core);
    clock.end();
  };
  machine.run([&] { on_all_cores(plan.cores, body); });
  return {objects * plan.cores * kRounds, clock.cycles(), 0};
}

// --- A server whose threads hand their blocks to new threads and end (Hoard 5.2, scalloc 7.2.3). ---

struct Lane {
  void** blocks;
  u64 replacements, generations;
};

struct Server {
  Clock clock;
  u64 slots, low, high, seed, warm_rounds;
  Lane* lanes;
  Machine::Meeting warm;

  void fill(void*& slot, Random& random) const {
    slot = allocate(random.between(low, high));
    *static_cast<u64*>(slot) = 1;
  }
  void replace(const Lane& lane, u64 times, Random& random) const {
    for (u64 i = 0; i < times; ++i) {
      void*& slot = lane.blocks[random.below(slots)];
      release(slot);
      fill(slot, random);
    }
  }
  void live(u32 core, u64 generation) {
    Lane& lane = lanes[core];
    Random random(seed * 1'000'003 + core * 1'009 + generation);
    if (generation == 0) {
      if (warm_rounds != 0) {
        warm_up(warm, core, [&] {
          for (u64 i = 0; i < slots; ++i) fill(lane.blocks[i], random);
          replace(lane, warm_rounds, random);
        });
        clock.begin();
      } else {
        clock.begin();
        for (u64 i = 0; i < slots; ++i) fill(lane.blocks[i], random);
      }
    }
    replace(lane, lane.replacements, random);
    if (generation + 1 < lane.generations) {
      g_machine->start_thread(core, [this, core, generation] { live(core, generation + 1); });
    } else {
      clock.end();
    }
  }
};

// Timed from the beginning, or when it has run for a while: `warm` replacements by each first thread.
Measured serve(Machine& machine, const Plan& plan, u64 slots, u64 life, u64 generations, u64 warm) {
  Server server{Clock(plan.cores), slots, 10, 100, plan.seed, warm, table<Lane>(plan.cores), {plan.cores, {}}};
  for (u32 core = 0; core < plan.cores; ++core) {
    server.lanes[core] = {table<void*>(slots), life, generations};
  }
  const auto body = [&server](u32 core) { server.live(core, 0); };
  machine.run([&] { on_all_cores(plan.cores, body); });
  return {life * generations * plan.cores, server.clock.cycles(), 0};
}

u64 lives_a_core(const Plan& plan, u64 all) {
  const u64 lives = plan.scaled(all) / plan.cores;
  return lives < 2 ? 2 : lives;
}

Measured larson(Machine& machine, const Plan& plan) {
  return serve(machine, plan, 1000, 2000, lives_a_core(plan, 256), 4000);
}

// The crowd of the start is over soon, and takes long to simulate.
Measured larson_start(Machine& machine, const Plan& plan) { return serve(machine, plan, 100, 200, 2, 0); }

// As large as the paper has it: each block is replaced once, as often as in a thread's life, before the time begins.
Measured larson_paper(Machine& machine, const Plan& plan) {
  const u64 slots = plan.scale < 1 ? plan.scaled(10'000) : 10'000;
  return serve(machine, plan, slots, slots, lives_a_core(plan, 64), slots);
}

// --- Do blocks of different threads share lines? (Hoard 5.3, scalloc 7.4) ---

template <bool kPassive>
Measured false_sharing(Machine& machine, const Plan& plan) {
  constexpr u64 kSize = 8, kWrites = 1000, kWarmUp = 300;
  const u64 rounds = plan.scaled(5'120) / plan.cores + 1;
  Clock clock(plan.cores);
  void** const handed = table<void*>(plan.cores);
  Machine::Meeting freed{plan.cores, {}}, warm{plan.cores, {}};
  const auto body = [&](u32 core) {
    if (kPassive) release(handed[core]);
    // All have freed, and hold their first object, at the same time.
    g_machine->meet(freed);
    volatile u8* object = static_cast<u8*>(allocate(kSize));
    warm_up(warm, core, [&] {
      for (u64 round = 0; round < kWarmUp; ++round) {
        release(const_cast<u8*>(object));
        object = static_cast<u8*>(allocate(kSize));
      }
    });
    clock.begin();
    for (u64 round = 0; round < rounds; ++round) {
      for (u64 i = 0; i < kWrites; ++i) object[i % kSize] = static_cast<u8>(object[i % kSize] + 1);
      release(const_cast<u8*>(object));
      object = static_cast<u8*>(allocate(kSize));
    }
    clock.end();
    release(const_cast<u8*>(object));
  };
  machine.run([&] {
    if (kPassive) {
      for (u32 core = 0; core < plan.cores; ++core) handed[core] = allocate(kSize);
    }
    on_all_cores(plan.cores, body);
  });
  return {rounds * plan.cores * kWrites, clock.cycles(), 0};
}

// --- Everything is shared by all threads, the last user frees it (scalloc 7.3). ---

struct Object {
  Atomic<u32> users;
  u16 size, owner;
};

struct Crowd {
  u32 cores;
  u64 objects, seed;  // of a thread in a cycle
  Object** all;
  u64 remote = 0;

  void produce(u32 core, Random& random) const {
    for (u64 i = 0; i < objects; ++i) {
      const u64 size = random.between(16, 512);
      Object* const object = static_cast<Object*>(allocate(size));
      object->users.store(cores, relaxed);
      object->size = static_cast<u16>(size);
      object->owner = static_cast<u16>(core);
      all[core * objects + i] = object;
    }
  }
  // Parcel by parcel from a place of its own on, so that any thread may be the last.
  void use(u32 core, Random& random, void** last) {
    constexpr u64 kParcel = 8;
    const u64 parcels = cores * objects / kParcel, start = random.below(parcels),
              step = 2 * random.below(parcels / 2) + 1;
    u64 kept = 0;
    for (u64 turn = 0; turn < parcels; ++turn) {
      const u64 parcel = (start + turn * step) % parcels;
      for (u64 i = 0; i < kParcel; ++i) {
        Object* const object = all[parcel * kParcel + i];
        if (object->users.fetch_sub(1, acq_rel) != 1) continue;
        last[kept++] = object;
        if (object->owner != core) ++remote;
      }
    }
    for (u64 i = 0; i < kept; ++i) release(last[i]);
  }
};

Measured producer_consumer(Machine& machine, const Plan& plan) {
  // The number of all parcels is a power of two, so that an odd step meets each of them.
  u64 objects = 4096 / plan.cores;
  for (double scale = plan.scale; scale < 0.75 && objects > 32; scale *= 2) objects /= 2;
  constexpr u64 kCycles = 3;
  Crowd crowd{plan.cores, objects, plan.seed, table<Object*>(objects * plan.cores)};
  Clock clock(plan.cores);
  Machine::Meeting produced{plan.cores, {}}, used{plan.cores, {}};
  void*** const last = table<void**>(plan.cores);
  for (u32 core = 0; core < plan.cores; ++core) last[core] = table<void*>(objects * plan.cores);
  const auto body = [&](u32 core) {
    Random random(plan.seed * 1'000 + core);
    clock.begin();
    for (u64 cycle = 0; cycle < kCycles; ++cycle) {
      crowd.produce(core, random);
      g_machine->meet(produced);
      crowd.use(core, random, last[core]);
      g_machine->meet(used);
    }
    clock.end();
  };
  machine.run([&] { on_all_cores(plan.cores, body); });
  return {objects * plan.cores * kCycles, clock.cycles(), crowd.remote};
}

}  // namespace

const Workload kWorkloads[] = {
    {"threadtest", "objects of 8 bytes in rounds, threads share nothing", &threadtest<8>},
    {"threadtest-64", "the same with 64 bytes", &threadtest<64>},
    {"threadtest-256", "the same with 256 bytes", &threadtest<256>},
    {"larson", "a server whose threads hand their blocks on and end", &larson},
    {"larson-start", "the same from the first block on", &larson_start},
    {"larson-paper", "the same with the paper's 10,000 blocks a thread", &larson_paper},
    {"active-false", "writes to small objects of the threads' own", &false_sharing<false>},
    {"passive-false", "the same, after each freed one that another allocated", &false_sharing<true>},
    {"producer-consumer", "every object is shared by all, the last user frees it", &producer_consumer},
};
const u32 kWorkloadCount = sizeof kWorkloads / sizeof kWorkloads[0];

}  // namespace simulation
