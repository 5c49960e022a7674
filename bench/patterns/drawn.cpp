// SPDX-License-Identifier: MIT
// A program drawn at random from its seed (drawn_plan.hpp): phases in which threads fill memory with blocks of drawn
// sizes, replace some, hand some over, and free all but a few. Nobody tuned it, and there are as many as there are
// seeds.
//
// Threads meet at the end of each part of a phase, so that what is live then, and the most that is ever live, is the
// same in every run and under every allocator; within a part they run as they are scheduled. Blocks are written whole,
// and what was written is looked at again when they are freed. describe=1 prints the plan and does nothing.
#include "drawn_plan.hpp"

namespace {

using drawn::Plan;
using drawn::Sizes;
using pattern::Random;
using pattern::require;

struct Block {
  unsigned char* place;
  uint32_t size, mark;
};

uint64_t word_of(const Block& block) { return (block.mark + uint64_t{1}) * 0x9e3779b97f4a7c15u; }

void fill(const Block& block) {
  const uint64_t word = word_of(block);
  size_t at = 0;
  for (; at + sizeof word <= block.size; at += sizeof word) memcpy(block.place + at, &word, sizeof word);
  memcpy(block.place + at, &word, block.size - at);
}

bool is_whole(const Block& block) {
  const uint64_t word = word_of(block);
  uint64_t difference = 0;
  size_t at = 0;
  for (; at + sizeof word <= block.size; at += sizeof word) {
    uint64_t found;
    memcpy(&found, block.place + at, sizeof found);
    difference |= found ^ word;
  }
  return difference == 0 && memcmp(block.place + at, &word, block.size - at) == 0;
}

// Blocks with their bytes, in a table that is resident from the start.
struct List {
  Block* blocks = nullptr;
  size_t count = 0, capacity = 0, bytes = 0;

  void make(size_t most) {
    blocks = bench::table<Block>(most);
    capacity = most;
  }

  void add(const Block& block) {
    require(count < capacity, "the table of blocks is full");
    blocks[count++] = block;
    bytes += block.size;
  }

  void take(List& other) {
    for (size_t i = 0; i < other.count; ++i) add(other.blocks[i]);
    other.count = other.bytes = 0;
  }
};

// Of one thread of the program. Where threads are renewed, each goes on with what the one before has left.
struct Worker {
  Random random{0};
  List current, given, kept;
  size_t kept_of[drawn::kMostPhases];  // survivors of each phase, in the order of `kept`
  uint32_t marks;
  uint64_t calls, digest;

  size_t bytes() const { return current.bytes + kept.bytes; }

  // What was done, in order: the same in every run.
  void note(uint64_t what) {
    digest = (digest ^ what) * 0x100000001b3u;
    ++calls;
  }

  void allocate(size_t size) {
    Block block{static_cast<unsigned char*>(malloc(size)), static_cast<uint32_t>(size), marks++};
    require(block.place != nullptr, "malloc failed");
    fill(block);
    current.add(block);
    note(size * 2);
  }

  void release(List& list, const Block& block) {
    require(is_whole(block), "a block was damaged");
    list.bytes -= block.size;
    note(block.size * 2 + 1);
    free(block.place);
  }
};

struct Program {
  Plan plan;
  Sizes* sizes;  // of each phase
  Worker* workers;
  pattern::Figures* figures;
  pthread_barrier_t barrier;
  size_t from, to;  // the phases that the threads do which run now
  size_t show;      // the phase in whose fullest moment malloc_info is asked for; from 1, 0: none
};

// True in one of the threads.
bool meet(Program& program) { return pthread_barrier_wait(&program.barrier) == PTHREAD_BARRIER_SERIAL_THREAD; }

// Up to the thread's share; then the part `churn` of the blocks is replaced, one after the other. Never above it, so
// that what is live at the end of this part is the most.
void fill_up(const Plan& plan, Worker& worker, const Sizes& sizes, size_t phase) {
  const size_t goal = plan.goal(phase);
  size_t next = sizes.draw(worker.random);
  auto allocate = [&] {
    for (; worker.bytes() + next <= goal; next = sizes.draw(worker.random)) worker.allocate(next);
  };
  allocate();
  List& list = worker.current;
  for (size_t i = static_cast<size_t>(static_cast<double>(list.count) * plan.churn); i > 0 && list.count > 0; --i) {
    Block& place = list.blocks[worker.random.below(list.count)];
    worker.release(list, place);
    place = list.blocks[--list.count];
    allocate();
  }
}

void hand_over(Program& program, size_t index) {
  const Plan& plan = program.plan;
  Worker& worker = program.workers[index];
  List& list = worker.current;
  size_t stay = 0;
  for (size_t i = 0; i < list.count; ++i) {
    if (drawn::chance(worker.random, plan.handover)) {
      list.bytes -= list.blocks[i].size;
      worker.given.add(list.blocks[i]);
    } else {
      list.blocks[stay++] = list.blocks[i];
    }
  }
  list.count = stay;
  meet(program);
  if (!plan.to_one) {
    list.take(program.workers[(index + plan.threads - 1) % plan.threads].given);
  } else if (index == 0) {
    for (size_t i = 0; i < plan.threads; ++i) list.take(program.workers[i].given);
  }
  meet(program);
}

void arrange(drawn::Order order, List& list, Random& random) {
  if (order == drawn::Order::as_allocated) return;
  for (size_t i = list.count; i > 1; --i) {
    const size_t other = order == drawn::Order::shuffled ? random.below(i) : list.count - i;
    if (order == drawn::Order::reversed && other >= i - 1) break;
    const Block block = list.blocks[i - 1];
    list.blocks[i - 1] = list.blocks[other];
    list.blocks[other] = block;
  }
}

// Which blocks survive is decided in the order of the list before it is rearranged: neighbours in runs.
void empty(const Plan& plan, Worker& worker, size_t phase) {
  List& list = worker.current;
  const double begin = plan.survival / static_cast<double>(plan.run);
  size_t left = 0, freed = 0, survivors = 0;
  for (size_t i = 0; i < list.count; ++i) {
    if (left == 0 && drawn::chance(worker.random, begin)) left = plan.run;
    if (left > 0) {
      --left;
      ++survivors;
      list.bytes -= list.blocks[i].size;
      worker.kept.add(list.blocks[i]);
    } else {
      list.blocks[freed++] = list.blocks[i];
    }
  }
  list.count = freed;
  worker.kept_of[phase] = survivors;
  arrange(plan.order, list, worker.random);
  for (size_t i = 0; i < list.count; ++i) worker.release(list, list.blocks[i]);
  list.count = 0;
  if (phase + 1 < plan.life) return;
  // The oldest survivors end.
  List& kept = worker.kept;
  const size_t old = worker.kept_of[phase + 1 - plan.life];
  for (size_t i = 0; i < old; ++i) worker.release(kept, kept.blocks[i]);
  memmove(kept.blocks, kept.blocks + old, (kept.count - old) * sizeof(Block));
  kept.count -= old;
}

void take_sample(Program& program, size_t phase) {
  size_t live = 0;
  for (size_t i = 0; i < program.plan.threads; ++i) live += program.workers[i].bytes();
  program.figures->sample(live);
  if (program.show == phase + 1) malloc_info(0, stderr);
}

void work(void* shared, size_t index) {
  Program& program = *static_cast<Program*>(shared);
  const Plan& plan = program.plan;
  for (size_t phase = program.from; phase < program.to; ++phase) {
    fill_up(plan, program.workers[index], program.sizes[phase], phase);
    if (meet(program)) take_sample(program, phase);
    meet(program);
    if (plan.handover > 0) hand_over(program, index);
    empty(plan, program.workers[index], phase);
    meet(program);
    if (plan.pause_ms > 0) pattern::sleep_ms(plan.pause_ms);
  }
}

void make_tables(Program& program) {
  const Plan& plan = program.plan;
  program.sizes = bench::table<Sizes>(plan.phases);
  program.workers = bench::table<Worker>(plan.threads);
  size_t most = 0;  // of one thread, in any phase
  for (size_t i = 0; i < plan.phases; ++i) {
    program.sizes[i].make(plan.shapes[i], plan.largest(static_cast<double>(plan.bytes)));
    const size_t blocks = program.sizes[i].most_blocks(static_cast<double>(plan.goal(i)));
    if (blocks > most) most = blocks;
  }
  for (size_t i = 0; i < plan.threads; ++i) {
    Worker& worker = program.workers[i];
    worker.random = drawn::stream(plan.seed, i + 1);
    const bool gives = plan.handover > 0, collects = gives && plan.to_one && i == 0;
    const size_t all = collects ? most * plan.threads : gives && !plan.to_one ? most * 2 : most;
    worker.current.make(all);
    if (gives) worker.given.make(most);
    // Twice the mean, and what runs add by chance.
    const double survivors = static_cast<double>(all) * plan.survival;
    const double a_phase = survivors + 8 * sqrt((survivors + 1) * static_cast<double>(plan.run)) + 100;
    worker.kept.make(static_cast<size_t>(a_phase * static_cast<double>(plan.life)));
  }
}

void run(Program& program, pattern::Threads& threads) {
  const Plan& plan = program.plan;
  const size_t step = plan.renewed ? 1 : plan.phases;
  for (program.from = 0; program.from < plan.phases; program.from += step) {
    program.to = program.from + step;
    // A program without threads has none at all: allocators know such processes.
    if (plan.threads == 1) {
      work(&program, 0);
      continue;
    }
    for (size_t i = 0; i < plan.threads; ++i) threads.start(work, &program);
    threads.join_all();
  }
}

void describe(const Plan& plan) {
  printf(
      "{\"seed\": %zu, \"threads\": %zu, \"phases\": %zu, \"bytes\": %zu, \"survival\": %.6f, \"run\": %zu, "
      "\"life\": %zu, \"handover\": %.3f, \"to_one\": %s, \"churn\": %.3f, \"renewed\": %s, \"pause_ms\": %zu, "
      "\"order\": \"%s\", \"shift\": \"%s\", \"sizes\": [",
      plan.seed, plan.threads, plan.phases, plan.bytes, plan.survival, plan.run, plan.life, plan.handover,
      plan.to_one ? "true" : "false", plan.churn, plan.renewed ? "true" : "false", plan.pause_ms,
      drawn::kOrders[static_cast<size_t>(plan.order)], plan.shift);
  for (size_t i = 0; i < plan.phases; ++i) {
    Sizes sizes;
    sizes.make(plan.shapes[i], plan.largest(static_cast<double>(plan.bytes)));
    const bool traced = plan.shapes[i].kind == drawn::Kind::histogram;
    printf("%s{\"kind\": \"%s%s%s\", \"mean\": %.1f, \"least\": %u, \"most\": %u, \"level\": %.2f}", i > 0 ? ", " : "",
           drawn::kKinds[static_cast<size_t>(plan.shapes[i].kind)], traced ? " " : "",
           traced ? drawn::kTraces[plan.shapes[i].trace].name : "", sizes.mean, sizes.entries[0],
           sizes.entries[drawn::kEntries - 1], plan.levels[i]);
  }
  printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("drawn");
  bench::Arguments arguments(argc, argv);
  static Program program;
  const size_t seed = arguments.number("seed", 1);
  const bool only_describe = arguments.number("describe", 0) != 0;
  program.show = arguments.number("show", 0);
  arguments.done();
  program.plan.draw(seed);
  if (only_describe) {
    describe(program.plan);
    return 0;
  }

  program.figures = &figures;
  require(pthread_barrier_init(&program.barrier, nullptr, static_cast<unsigned>(program.plan.threads)) == 0,
          "no barrier");
  make_tables(program);
  pattern::Threads threads;
  if (program.plan.threads > 1) threads.make(program.plan.threads);
  figures.own_memory_done();

  const uint64_t start = bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  run(program, threads);
  figures.add("cpu_ms", static_cast<double>(bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / 1e6);
  uint64_t calls = 0, digest = 0, kept = 0;
  for (size_t i = 0; i < program.plan.threads; ++i) {
    calls += program.workers[i].calls;
    digest += program.workers[i].digest * (2 * i + 1);
    kept += program.workers[i].bytes();
  }
  figures.add("calls", static_cast<double>(calls));
  figures.add("digest", static_cast<double>(digest % 1'000'000'000));
  figures.add("survivors_kib", static_cast<double>(kept) / 1024);
  figures.report(figures.now());
}
