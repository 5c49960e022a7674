// SPDX-License-Identifier: MIT
// What allocators write into free blocks is overwritten, by a write after free or from the block beside. An attacker
// wants malloc to return an address of his: the decoy, or a block that somebody has.
#include <cstring>

#include "scene.hpp"

using namespace attack;

namespace {

void* target() { return decoy() + 8192; }

// Frees two blocks and writes into the one that was freed last.
[[noreturn]] void write_words(std::size_t first, std::size_t last, void* value) {
  Scene scene(6);
  void* victim = scene.own(2);
  if (value == nullptr) value = scene.own(4);
  if ((last + 1) * sizeof value > scene.size()) no_case("the block is smaller");
  for (const std::size_t index : {1, 2}) {
    scene.forget(scene.own(index));
    scene.free(scene.own(index));
  }
  scene.crime(victim);
  auto* words = hide(static_cast<void**>(victim));
  for (std::size_t i = first; i <= last; ++i) words[i] = value;
  scene.finish();
}

// From the end of a block into the free one behind it.
[[noreturn]] void overflow_into_freed(std::size_t bytes) {
  Scene scene(8);
  const auto [lower, upper] = scene.closest();
  char* end = lower->address + lower->size;
  void* freed = upper->address;
  scene.forget(freed);
  scene.free(freed);
  scene.crime(end);
  void* words[4] = {target(), target(), target(), target()};
  memcpy(hide(end), words, bytes);
  scene.finish();
}

}  // namespace

CASE(link_to_attackers_place) { write_words(0, 0, target()); }
CASE(link_to_live_block) { write_words(0, 0, nullptr); }
CASE(link_to_nothing) { write_words(0, 0, reinterpret_cast<void*>(0x4141414141414140)); }
CASE(second_word_overwritten) { write_words(1, 1, target()); }
CASE(all_words_overwritten) {
  const auto size = static_cast<std::size_t>(conformance::argument_number(0));
  write_words(0, size < 8 ? 0 : (size < 4096 ? size : 4096) / 8 - 1, target());
}

// Within the heap, where no block begins.
CASE(link_into_a_block) {
  Scene scene(6);
  void* victim = scene.own(2);
  scene.forget(scene.own(1));
  scene.free(scene.own(1));
  scene.forget(victim);
  scene.free(victim);
  void* inside = at(scene.own(4), scene.size() < 48 ? 8 : 16);
  scene.crime(victim);
  *hide(static_cast<void**>(victim)) = inside;
  scene.finish();
}

// What the allocator itself wrote into one free block is copied into another: a key alone does not tell.
CASE(link_copied) {
  Scene scene(8);
  for (const std::size_t index : {1, 2, 3, 4}) {
    scene.forget(scene.own(index));
    scene.free(scene.own(index));
  }
  const std::size_t bytes = scene.size() < 16 ? scene.size() : 16;
  scene.crime(scene.own(2));
  memcpy(hide(scene.own(2)), hide(scene.own(4)), bytes);
  scene.finish();
}

CASE(overflow_8_into_freed) { overflow_into_freed(8); }
CASE(overflow_32_into_freed) { overflow_into_freed(32); }
