// SPDX-License-Identifier: MIT
// Reads and writes where the program has nothing to read and to write.
#include <cstdlib>
#include <cstring>

#include "scene.hpp"

using namespace attack;

namespace {

constexpr std::uint64_t kSecret = 0x5ec2e75ec2e75ec2;
constexpr std::size_t kPage = 4096;
constexpr unsigned char kLetter = 0x41;

std::size_t to_next_page(const char* end) { return kPage - reinterpret_cast<std::uintptr_t>(end) % kPage + 8; }

// Behind the block, of all blocks, that another one follows closest. The last word says what is overwritten.
[[noreturn]] void overflow(std::size_t bytes) {
  Scene scene(4);
  const auto [lower, upper] = scene.closest();
  char* end = lower->address + lower->size;
  scene.crime(end);
  memset(hide(end), kLetter, bytes == 0 ? to_next_page(end) : bytes);
  scene.finish();
}

[[noreturn]] void underflow(std::size_t bytes) {
  Scene scene(4);
  const auto [lower, upper] = scene.closest();
  if (bytes == 0) bytes = reinterpret_cast<std::uintptr_t>(upper->address) % kPage + 8;
  char* from = upper->address - bytes;
  scene.crime(from);
  memset(hide(from), kLetter, bytes);
  scene.finish();
}

// To a block of no bytes among blocks of one byte.
[[noreturn]] void write_to_empty(std::size_t bytes) {
  Scene scene;
  scene.needs_first_size();
  scene.take_many(64, 1);
  void* empty = hide(malloc(0));
  scene.take_many(64, 1);
  scene.crime(empty);
  memset(hide(empty), kLetter, bytes);
  scene.finish();
}

// A block full of a secret; its first and last words are looked at later.
std::uint64_t* secret(Scene& scene, void* block) {
  scene.forget(block);
  auto* words = static_cast<std::uint64_t*>(block);
  for (std::size_t i = 0; i < scene.size() / 8; ++i) words[i] = kSecret;
  return words;
}

bool holds_secret(const std::uint64_t* words, std::size_t size) {
  for (std::size_t i = 0; i < size / 8; ++i) {
    if (hide(words)[i] == kSecret) return true;
  }
  return false;
}

// Whether a word is the address of memory that the allocator has: links tell an attacker where blocks are.
bool tells_an_address(std::uint64_t word, const void* block) {
  const auto distance = static_cast<std::int64_t>(word - reinterpret_cast<std::uint64_t>(block));
  return word != 0 && distance < (1ll << 30) && distance > -(1ll << 30);
}

[[noreturn]] void judge_read(Scene& scene, const std::uint64_t* words) {
  const bool old = holds_secret(words, scene.size());
  const bool link = tells_an_address(hide(words)[0], words);
  scene.done();
  if (old) harmed("old-content", words);
  if (link) harmed("link-read", words);
  harmless();
}

}  // namespace

CASE(overflow_1) { overflow(1); }
CASE(overflow_8) { overflow(8); }
CASE(overflow_32) { overflow(32); }
CASE(overflow_to_next_page) { overflow(0); }
CASE(underflow_1) { underflow(1); }
CASE(underflow_8) { underflow(8); }
CASE(underflow_32) { underflow(32); }
CASE(underflow_to_last_page) { underflow(0); }

// As a string is read that has lost its end.
CASE(overread_32) {
  Scene scene(4);
  const auto [lower, upper] = scene.closest();
  char* end = lower->address + lower->size;
  unsigned char expected[32];
  const std::size_t known = upper->size < sizeof expected ? upper->size : sizeof expected;
  memcpy(expected, upper->address, known);
  scene.crime(end);
  unsigned char seen[64];
  memcpy(seen, hide(end), 32);
  scene.done();
  const auto gap = static_cast<std::size_t>(upper->address - end);
  if (gap + 8 <= 32 && memcmp(seen + gap, expected, known < 32 - gap ? known : 32 - gap) == 0) {
    harmed("anothers-content", end);
  }
  harmless();
}

CASE(read_after_free) {
  Scene scene(3);
  const std::uint64_t* words = secret(scene, scene.own(1));
  scene.free(scene.own(1));
  scene.crime(words);
  judge_read(scene, words);
}

// So much was allocated meanwhile that somebody else's content may be there.
CASE(read_after_free_and_traffic) {
  Scene scene(3);
  const std::uint64_t* words = secret(scene, scene.own(1));
  scene.free(scene.own(1));
  scene.traffic();
  const bool owned = Scene::ledger().around(words) != nullptr;
  scene.crime(words);
  const std::uint64_t first = hide(words)[0];
  scene.done();
  if (owned && first != 0) harmed("anothers-content", words);
  judge_read(scene, words);
}

// A list whose second node was freed is walked: the program takes what stands there for its own link.
CASE(read_of_stale_link) {
  Scene scene(4);
  void** node = static_cast<void**>(scene.own(1));
  scene.forget(node);
  *node = scene.own(3);
  void* old = *node;
  scene.forget(scene.own(2));
  scene.free(scene.own(2));
  scene.free(node);
  scene.crime(node);
  void* next = *hide(node);
  scene.done();
  if (next == old) harmed("old-content", next);
  if (tells_an_address(reinterpret_cast<std::uint64_t>(next), node)) harmed("link-read", next);
  harmless();
}

CASE(write_after_free_and_traffic) {
  Scene scene(3);
  void* victim = scene.own(1);
  scene.forget(victim);
  scene.free(victim);
  scene.traffic();
  scene.crime(victim);
  memset(hide(victim), kLetter, scene.size() < kPage ? scene.size() : kPage);
  scene.finish();
}

CASE(uninitialised_read) {
  Scene scene(3);
  secret(scene, scene.own(1));
  scene.free(scene.own(1));
  const std::size_t live = Scene::ledger().count();
  scene.give_one_in(2);
  scene.crime(scene.own(1));
  bool found = false;
  for (std::size_t left = live / 2 + scene.many(scene.size()); left > 0 && !found; --left) {
    found = holds_secret(static_cast<std::uint64_t*>(hide(malloc(scene.size()))), scene.size());
  }
  scene.done();
  if (found) harmed("old-content", nullptr);
  harmless();
}

CASE(write_to_no_bytes) { write_to_empty(1); }
CASE(write_behind_no_bytes) { write_to_empty(32); }

// An attacker fills memory with blocks of the size of one that was freed, and the stale pointer finds his bytes.
CASE(spray_of_same_size) {
  Scene scene(3);
  const auto* stale = static_cast<const std::uint64_t*>(scene.own(1));
  scene.forget(scene.own(1));
  scene.free(scene.own(1));
  const std::size_t live = Scene::ledger().count();
  scene.give_one_in(2);
  scene.crime(stale);
  for (std::size_t left = live / 2 + scene.many(scene.size()); left > 0; --left) {
    auto* sprayed = static_cast<std::uint64_t*>(hide(malloc(scene.size())));
    *sprayed = kSecret;
  }
  const bool found = *hide(stale) == kSecret;
  scene.done();
  if (found) harmed("sprayed", stale);
  harmless();
}

// The same with blocks of another size, so that what was there has another type now.
CASE(spray_of_other_size) {
  const auto size = static_cast<std::size_t>(conformance::argument_number(0));
  const std::size_t count = size >= 1 << 16 ? 16 : (std::size_t{1} << 20) / (size < 16 ? 16 : size) / 4;
  Scene scene(count);
  for (std::size_t i = 0; i < count; ++i) {
    scene.forget(scene.own(i));
    scene.free(scene.own(i));
  }
  const std::size_t other = size * 3 / 2 + 16;
  scene.crime(scene.own(0));
  for (std::size_t left = scene.many(other); left > 0; --left) {
    auto* sprayed = static_cast<std::uint64_t*>(hide(malloc(other)));
    for (std::size_t i = 0; i < (other < kPage ? other : kPage) / 8; ++i) sprayed[i] = kSecret;
  }
  bool found = false;
  for (std::size_t i = 0; i < count && !found; ++i) found = *hide(static_cast<std::uint64_t*>(scene.own(i))) == kSecret;
  scene.done();
  if (found) harmed("sprayed", nullptr);
  harmless();
}
