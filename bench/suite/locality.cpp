// SPDX-License-Identifier: MIT
// How fast is memory that was allocated in one order read in that order, or in another? Objects of 16 to 32 bytes are
// linked to trees, built depth first from left to right and read from right to left, and to lists, read in the order
// of their allocation. lists= is the share of objects in lists, the x axis of the paper's figure. Only reading counts:
// phase.access_ns. compact=1 is the paper's baseline, no allocator: objects lie one behind the other, in the order in
// which they are read.
//
// Trees and lists of a cycle are allocated together and freed when the next cycle's stand, so that all but the first
// are made from memory that was freed in another order. An operation is the reading of an object.
#include "suite.hpp"

namespace {

struct Item {
  union {
    Item* next;      // of a list
    Item* parts[2];  // of a tree; an item of 16 bytes has no more
  };
};

// Items of 24 and 32 bytes have one or two words behind the links.
struct Group {
  Item* root;
  bool list;
};

class Cursor {
 public:
  explicit Cursor(char* at) : at_(at) {}

  Item* take(size_t size) {
    if (at_ == nullptr) return static_cast<Item*>(suite::allocate(size));
    Item* item = reinterpret_cast<Item*>(at_);
    at_ += size;
    return item;
  }

 private:
  char* at_;  // null: every item is a block
};

struct State {
  size_t items, groups, cycles, passes;
  size_t lists;  // of the groups, in percent
  bool compact;
  uint64_t sum = 0;
};

size_t draw_size(suite::Random& random, uint64_t& sum) {
  size_t size = 16 + 8 * random.below(3);
  sum = sum * 31 + size;
  return size;
}

// Depth first, left to right. Compact trees are laid out as they are read: right to left.
Item* build_tree(Cursor& cursor, suite::Random& random, size_t items, bool mirrored, uint64_t& sum) {
  if (items == 0) return nullptr;
  Item* item = cursor.take(draw_size(random, sum));
  size_t first = (items - 1) / 2;
  item->parts[mirrored] = build_tree(cursor, random, first, mirrored, sum);
  item->parts[!mirrored] = build_tree(cursor, random, items - 1 - first, mirrored, sum);
  return item;
}

Item* build_list(Cursor& cursor, suite::Random& random, size_t items, uint64_t& sum) {
  Item* first = nullptr;
  Item** end = &first;
  for (size_t i = 0; i < items; ++i) {
    *end = cursor.take(draw_size(random, sum));
    end = &(*end)->next;
  }
  *end = nullptr;
  return first;
}

size_t read_tree(const Item* item) {
  if (item == nullptr) return 0;
  size_t count = read_tree(item->parts[1]);
  return 1 + count + read_tree(item->parts[0]);
}

// Stops where there are too many, as in a list that has become a ring.
size_t read_list(const Item* item, size_t most) {
  size_t count = 0;
  for (; item != nullptr && count <= most; item = item->next) ++count;
  return count;
}

void free_tree(Item* item) {
  if (item == nullptr) return;
  free_tree(item->parts[0]);
  free_tree(item->parts[1]);
  suite::release(item);
}

void free_list(Item* item) {
  while (item != nullptr) {
    Item* next = item->next;
    suite::release(item);
    item = next;
  }
}

void build(State& state, Group* groups, char* memory, uint64_t seed) {
  Cursor cursor(memory);
  suite::Random random(seed);
  for (size_t i = 0; i < state.groups; ++i) {
    // Lists are spread evenly among the trees.
    groups[i].list = (i + 1) * state.lists / 100 > i * state.lists / 100;
    groups[i].root = groups[i].list ? build_list(cursor, random, state.items, state.sum)
                                    : build_tree(cursor, random, state.items, state.compact, state.sum);
  }
}

void free_all(const State& state, Group* groups) {
  for (size_t i = 0; i < state.groups && !state.compact; ++i) {
    groups[i].list ? free_list(groups[i].root) : free_tree(groups[i].root);
  }
}

// Returns the number of items seen.
size_t read_all(const State& state, const Group* groups) {
  size_t count = 0;
  for (size_t i = 0; i < state.groups; ++i) {
    count += groups[i].list ? read_list(groups[i].root, state.items) : read_tree(groups[i].root);
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "locality", "scalloc 7.6, figure 11",
                 "reading objects in, and out of, the order in which they were allocated");
  State state{};
  state.lists = run.number("lists", 0, "share of objects in lists, in percent; 0, 10 ... 100", 0, 100);
  state.compact = run.number("compact", 0, "1: the baseline, without an allocator", 0, 1) == 1;
  state.items = run.number("items", 1'000, "objects of a tree or list");
  state.groups = run.number("groups", 200, "trees and lists; the paper keeps its objects within the last cache");
  state.cycles = run.number("cycles", 5, "times that all are built anew");
  state.passes = run.scaled("passes", 200, "times that all are read in a cycle");
  run.begin(1);

  Group* groups[2] = {suite::table<Group>(state.groups), suite::table<Group>(state.groups)};
  size_t objects = state.groups * state.items;
  char* memory = state.compact ? suite::table<char>(objects * 32) : nullptr;
  suite::Moment access{}, building{};
  size_t seen = 0;
  run.start();
  for (size_t cycle = 0; cycle < state.cycles; ++cycle) {
    Group* these = groups[cycle % 2];
    Group* others = groups[(cycle + 1) % 2];
    suite::Moment start = suite::Moment::now();
    build(state, these, memory, run.seed() + cycle);
    if (cycle > 0) free_all(state, others);
    suite::Moment built = suite::Moment::now();
    for (size_t pass = 0; pass < state.passes; ++pass) {
      seen += read_all(state, these);
      asm volatile("" ::: "memory");
    }
    building.add(start, built);
    access.add(built, suite::Moment::now());
  }
  run.stop();
  free_all(state, groups[(state.cycles - 1) % 2]);
  suite::require(seen == objects * state.passes * state.cycles, "an object was lost");
  run.phase("access", {}, access);
  run.phase("build", {}, building);
  run.live(2 * objects * 24);
  run.report(seen, suite::mix(seen) + state.sum);
}
