// SPDX-License-Identifier: MIT
// What is freed is no block: it lies elsewhere, or within a block, or beside one.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "scene.hpp"

using namespace attack;

namespace {

int static_bytes[1000] = {1};

[[noreturn]] void free_it(Scene& scene, void* address) {
  if (Scene::ledger().has(address)) no_case("a block begins there");
  scene.crime(address);
  scene.free(address);
  scene.finish();
}

[[noreturn]] void free_within(std::size_t offset) {
  Scene scene(3);
  if (offset >= scene.size()) no_case("the block is smaller");
  free_it(scene, at(scene.own(1), static_cast<std::ptrdiff_t>(offset)));
}

// Where blocks lie in a row, what comes after them in the row but was never handed out.
[[noreturn]] void free_later_in_the_row(std::size_t steps) {
  Scene scene(3);
  const std::ptrdiff_t step = static_cast<char*>(scene.own(1)) - static_cast<char*>(scene.own(0));
  if (step <= 0 || step != static_cast<char*>(scene.own(2)) - static_cast<char*>(scene.own(1))) {
    no_case("the blocks do not lie in a row");
  }
  char* victim = static_cast<char*>(scene.own(2));
  while (steps > 0) {
    victim += step;
    if (!Scene::ledger().has(victim)) --steps;
  }
  if (Scene::ledger().around(victim) != nullptr) no_case("a block is there");
  free_it(scene, victim);
}

std::size_t size_of_cell() { return static_cast<std::size_t>(conformance::argument_number(0)); }

}  // namespace

CASE(free_of_stack) {
  Scene scene;
  char bytes[4096];
  free_it(scene,
          at(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(hide(&bytes[0])) & ~std::uintptr_t{15}), 1024));
}

CASE(free_of_static_data) {
  Scene scene;
  free_it(scene, reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(static_bytes + 400) & ~std::uintptr_t{15}));
}

CASE(free_of_code) {
  Scene scene;
  free_it(scene, reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&free_within) & ~std::uintptr_t{15}));
}

CASE(free_of_mapped_file) {
  Scene scene;
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  void* mapped = mmap(nullptr, 1 << 16, PROT_READ, MAP_PRIVATE, file, 0);
  CHECK(mapped != MAP_FAILED);
  free_it(scene, at(mapped, 4096));
}

// An attacker builds what a block looks like to allocators that write sizes in front of blocks.
CASE(free_of_false_block) {
  Scene scene;
  auto* words = reinterpret_cast<std::size_t*>(decoy() + 4096);
  const std::size_t whole = (scene.size() + 8 + 15) / 16 * 16;
  for (std::size_t i = 0; i < 1000; ++i) words[i] = (whole < 32 ? 32 : whole) | 1;
  free_it(scene, words + 2);
}

CASE(free_of_wild_pointer) {
  Scene scene;
  free_it(scene, at(scene.own(0), std::ptrdiff_t{1} << 26));
}

CASE(free_within_at_1) { free_within(1); }
CASE(free_within_at_8) { free_within(8); }
CASE(free_within_at_16) { free_within(16); }
CASE(free_within_at_half) { free_within(size_of_cell() / 2 / 16 * 16 + (size_of_cell() < 32 ? 4 : 0)); }
CASE(free_within_at_last) { free_within(size_of_cell() - 1); }
CASE(free_within_at_page) { free_within(4096); }

// A copy of a block's first bytes within it, as a nested structure would have.
CASE(free_within_freed) {
  Scene scene(3);
  void* victim = scene.own(1);
  const std::ptrdiff_t offset = scene.size() < 48 ? 8 : 16;
  scene.forget(victim);
  scene.free(victim);
  free_it(scene, at(victim, offset));
}

// One past the end, where no block begins.
CASE(free_of_end) {
  Scene scene(3);
  const Block* all = Scene::ledger().sorted();
  for (std::size_t i = Scene::ledger().count(); i-- > 0;) {
    void* end = all[i].address + all[i].size;
    if (!Scene::ledger().has(end)) free_it(scene, end);
  }
  no_case("blocks begin at all ends");
}

CASE(free_of_never_handed_out) { free_later_in_the_row(2); }
CASE(free_of_never_handed_out_far) { free_later_in_the_row(150); }

CASE(free_in_front) {
  Scene scene(3);
  free_it(scene, at(scene.own(1), -8));
}

// One past the end, where the next block begins: nothing in the address says that it was meant otherwise.
CASE(free_of_end_that_is_a_block) {
  Scene scene(3);
  const auto [lower, upper] = scene.closest();
  if (lower->address + lower->size != upper->address) no_case("no block begins at an end");
  void* victim = upper->address;
  scene.crime(victim);
  scene.free(victim);
  scene.finish();
}

CASE(realloc_within) {
  Scene scene(3);
  void* inside = at(scene.own(1), scene.size() < 48 ? 4 : 16);
  scene.crime(inside);
  Scene::ledger().add(hide(realloc(inside, scene.size() * 4 + 100)), scene.size() * 4 + 100);
  scene.finish();
}
