// SPDX-License-Identifier: MIT
#include "ledger.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "harness.hpp"

namespace attack {
namespace {

// Of larger blocks the first and the last bytes have a pattern, so that memory stays small.
constexpr std::size_t kEnd = 64;

alignas(4096) char decoy_bytes[kDecoyBytes];

template <class T>
T* map(std::size_t count) {
  void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<T*>(memory);
}

void write_pattern(const Block& block) {
  if (block.size <= 2 * kEnd) return conformance::fill(block.address, block.size, block.seed);
  conformance::fill(block.address, kEnd, block.seed);
  conformance::fill(block.address + block.size - kEnd, kEnd, block.seed + 1);
}

bool has_pattern(const Block& block) {
  if (block.size <= 2 * kEnd) return conformance::holds_pattern(block.address, block.size, block.seed);
  return conformance::holds_pattern(block.address, kEnd, block.seed) &&
         conformance::holds_pattern(block.address + block.size - kEnd, kEnd, block.seed + 1);
}

std::size_t hash(const void* address) {
  return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(address) >> 3) * 0x9e3779b97f4a7c15ull >> 40);
}

}  // namespace

char* decoy() { return decoy_bytes; }

void harmless() {
  conformance::note("end harmless");
  _exit(0);
}

void harmed(const char* how, const void* address) {
  conformance::note("end harmed %s %p", how, address);
  _exit(0);
}

void no_case(const char* why) {
  conformance::note("end none %s", why);
  _exit(0);
}

void Ledger::open() {
  if (blocks_ != nullptr) return;
  blocks_ = map<Block>(kBlocks);
  sorted_ = map<Block>(kBlocks);
  slots_ = map<std::uint32_t>(kSlots);
}

Block* Ledger::find(const void* address) const {
  if (slots_ == nullptr) return nullptr;
  for (std::size_t i = hash(address) % kSlots; slots_[i] != 0; i = (i + 1) % kSlots) {
    if (blocks_[slots_[i] - 1].address == address) return &blocks_[slots_[i] - 1];
  }
  return nullptr;
}

bool Ledger::has(const void* address) const { return find(address) != nullptr; }

void Ledger::add(void* address, std::size_t size) {
  CHECK(address != nullptr, "no memory for %zu bytes", size);
  CHECK(used_ < kBlocks, "more blocks than the ledger has room for");
  auto* start = static_cast<char*>(address);
  if (start + size > decoy_bytes && start < decoy_bytes + kDecoyBytes) harmed("attackers-address", address);
  open();
  if (has(address)) harmed("two-owners", address);
  std::size_t slot = hash(address) % kSlots;
  while (slots_[slot] != 0) slot = (slot + 1) % kSlots;
  blocks_[used_] = {start, size, used_ + 1};
  write_pattern(blocks_[used_]);
  slots_[slot] = static_cast<std::uint32_t>(++used_);
  ++count_;
}

void Ledger::remove(void* address) {
  Block* block = find(address);
  CHECK(block != nullptr, "%p is not in the ledger", address);
  if (!has_pattern(*block)) harmed("content", address);
  block->address = nullptr;
  --count_;
}

const Block* Ledger::sorted() {
  open();
  std::size_t found = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    if (blocks_[i].address != nullptr) sorted_[found++] = blocks_[i];
  }
  std::sort(sorted_, sorted_ + found, [](const Block& a, const Block& b) { return a.address < b.address; });
  return sorted_;
}

const Block* Ledger::around(const void* address) {
  const Block* all = sorted();
  for (std::size_t i = 0; i < count_; ++i) {
    if (all[i].address <= address && address < all[i].address + all[i].size) return &all[i];
  }
  return nullptr;
}

const char* Ledger::harm() {
  const Block* all = sorted();
  for (std::size_t i = 0; i + 1 < count_; ++i) {
    if (all[i].address + all[i].size > all[i + 1].address) return "two-owners";
  }
  for (std::size_t i = 0; i < count_; ++i) {
    if (!has_pattern(all[i])) return "content";
  }
  return nullptr;
}

void Ledger::check() {
  const char* how = harm();
  if (how != nullptr) harmed(how, nullptr);
}

}  // namespace attack
