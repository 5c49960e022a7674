// SPDX-License-Identifier: MIT
// The oracle: every live block that the program knows of, with a pattern in it. After a crime it tells whether two of
// them overlap, whether one of them changed, or whether malloc returned an address that the attacker chose. It calls
// nothing that allocates; one thread at a time uses it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attack {

// What an attacker writes into links: malloc must never return anything in it.
constexpr std::size_t kDecoyBytes = 1 << 16;
char* decoy();

// How a crime ends where the allocator did not stop it. The runner reads the first word (cells.py).
[[noreturn]] void harmless();
[[noreturn]] void harmed(const char* how, const void* address);
// The cell says nothing: what it needs did not come about.
[[noreturn]] void no_case(const char* why);

struct Block {
  char* address;  // nullptr: it is gone
  std::size_t size;
  std::uint64_t seed;
};

class Ledger {
 public:
  // Ends the process by harmed() if the address belongs to the decoy or to another live block.
  void add(void* address, std::size_t size);
  // The block is no longer live; its pattern must still be there.
  void remove(void* address);
  // All patterns, and no two overlap.
  void check();
  // The same as check, but only tells: for the handler of SIGABRT.
  const char* harm();

  std::size_t count() const { return count_; }
  bool has(const void* address) const;
  // The live block that has this byte, or nullptr; by a walk.
  const Block* around(const void* address);
  // Live blocks by address.
  const Block* sorted();

 private:
  static constexpr std::size_t kBlocks = std::size_t{1} << 18;
  static constexpr std::size_t kSlots = 2 * kBlocks;

  void open();
  Block* find(const void* address) const;

  Block* blocks_ = nullptr;  // in the order in which they came, with those that are gone
  Block* sorted_ = nullptr;
  std::uint32_t* slots_ = nullptr;  // hashed by address: 1 + the place among blocks_
  std::size_t used_ = 0;
  std::size_t count_ = 0;
};

}  // namespace attack
