// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include <bit>
#include <utility>

namespace simulation {

Memory::Memory(const Shape& shape, const Costs& costs)
    : shape_(shape), costs_(costs), sets_(std::size_t{shape.cores} * shape.cache_sets) {
  lines_.reserve(1 << 18);
}

// The way that holds the line; it is moved to the front of its set, where it is looked for first.
u64* Memory::find(u32 core, u64 line) const {
  auto& ways = set_of(core, line).ways;
  for (u32 i = 0; i < kWays; ++i) {
    if (ways[i] >> 2 != line || ways[i] == 0) continue;
    for (; i > 0; --i) std::swap(ways[i], ways[i - 1]);
    return ways.data();
  }
  return nullptr;
}

State Memory::state(u32 core, u64 line) const {
  const u64* way = find(core, line);
  return way == nullptr ? State::none : static_cast<State>(*way & 3);
}

bool Memory::hits(u32 core, u64 line, Access access) const {
  const State held = state(core, line);
  return held >= (access == Access::read ? State::shared : State::exclusive);
}

void Memory::insert(u32 core, u64 number, State state) {
  u64* way = find(core, number);
  if (way == nullptr) {
    auto& ways = set_of(core, number).ways;
    if (ways.back() != 0) {
      remove(core, ways.back() >> 2);  // its way, now at the front, is free
    } else {
      std::swap(ways.front(), ways.back());
    }
    way = ways.data();
  }
  *way = pack(number, state);
}

// The last-level cache still has it then.
void Memory::remove(u32 core, u64 number) {
  u64* way = find(core, number);
  if (way == nullptr) return;
  *way = 0;
  Line& line = lines_[number];
  line.sharers[core / 64] &= ~(u64{1} << (core % 64));
  if (line.owner == static_cast<int>(core)) line.owner = -1;
}

// Whether its socket has the line.
bool Memory::near(u32 core, const Line& line) const {
  if (line.home == socket(core)) return true;
  for (u32 other = socket(core) * shape_.cores_a_socket; other < shape_.cores && socket(other) == socket(core);
       ++other) {
    if (shares(line, other)) return true;
  }
  return false;
}

// Who walks over memory in order finds its next line fetched.
bool Memory::prefetched(u32 core, u64 number) const {
  return find(core, number - 1) != nullptr || find(core, number + 1) != nullptr;
}

u64 Memory::read(u32 core, u64 number, Line& line, Outcome& outcome) {
  if (line.owner >= 0) {
    const u32 owner = static_cast<u32>(line.owner);
    outcome.transfers = 1;
    insert(owner, number, State::shared);
    line.owner = -1;
    insert(core, number, State::shared);
    return socket(owner) == socket(core) ? costs_.read_owned_near : costs_.read_owned_far;
  }
  bool alone = true;
  for (u64 word : line.sharers) alone = alone && word == 0;
  if (alone) line.owner = static_cast<int>(core);
  const u64 cost = outcome.fresh      ? (prefetched(core, number) ? costs_.read_shared_near : costs_.memory)
                   : near(core, line) ? costs_.read_shared_near
                                      : costs_.read_shared_far;
  insert(core, number, alone ? State::exclusive : State::shared);
  return cost;
}

// Takes the line from every core but one; what the farthest costs.
u64 Memory::take_copies(u32 core, u64 number, Line& line, Outcome& outcome) {
  u64 cost = 0;
  for (u32 word = 0; word < line.sharers.size(); ++word) {
    for (u64 rest = line.sharers[word]; rest != 0; rest &= rest - 1) {
      const u32 other = word * 64 + static_cast<u32>(std::countr_zero(rest));
      if (other == core) continue;
      ++outcome.invalidations;
      const u64 its = socket(other) == socket(core) ? costs_.write_shared_near : costs_.write_shared_far;
      if (its > cost) cost = its;
      remove(other, number);
    }
  }
  return cost;
}

u64 Memory::write(u32 core, u64 number, Line& line, Outcome& outcome) {
  u64 cost = 0;
  const bool far = !near(core, line);
  if (line.owner >= 0 && line.owner != static_cast<int>(core)) {
    const u32 owner = static_cast<u32>(line.owner);
    outcome.transfers = outcome.invalidations = 1;
    cost = socket(owner) == socket(core) ? costs_.write_owned_near : costs_.write_owned_far;
    remove(owner, number);
  } else {
    const bool had = shares(line, core);
    cost = take_copies(core, number, line, outcome);
    // Data that the core did not have came from another one's copy.
    if (outcome.invalidations != 0 && !had) outcome.transfers = 1;
    if (cost == 0) {
      cost = outcome.fresh ? (prefetched(core, number) ? costs_.read_shared_near : costs_.memory)
             : far         ? costs_.read_shared_far
                           : costs_.read_shared_near;
    }
  }
  line.owner = static_cast<int>(core);
  insert(core, number, State::modified);
  return cost;
}

Outcome Memory::access(u32 core, u64 number, Access access, u64 now) {
  Outcome outcome;
  u64* const way = find(core, number);
  const u64 change = access == Access::change ? costs_.change : 0;
  if (way != nullptr && (*way & 3) >= static_cast<u64>(access == Access::read ? State::shared : State::exclusive)) {
    if (access != Access::read) *way = pack(number, State::modified);
    outcome.hit = true;
    outcome.cycles = change;
    return outcome;
  }
  const auto [at, fresh] = lines_.try_emplace(number);
  Line& line = at->second;
  outcome.line = &line;
  outcome.fresh = fresh;
  // Who reads what nobody holds alone asks the directory and leaves it to the next one; a hand-over takes the whole
  // time.
  const bool handed_over = line.owner >= 0 || access != Access::read;
  const u64 cost = access == Access::read ? read(core, number, line, outcome) : write(core, number, line, outcome);
  line.sharers[core / 64] |= u64{1} << (core % 64);
  line.home = socket(core);
  outcome.cycles = cost + change;
  line.busy_until = now + (handed_over ? outcome.cycles : costs_.directory);
  return outcome;
}

u64 Memory::ready_at(u64 number) const {
  const auto at = lines_.find(number);
  return at == lines_.end() ? 0 : at->second.busy_until;
}

void Memory::forget(uptr from, u64 bytes) {
  for (u64 number = from / kLineBytes; number < (from + bytes + kLineBytes - 1) / kLineBytes; ++number) {
    const auto at = lines_.find(number);
    if (at == lines_.end()) continue;
    for (u32 core = 0; core < shape_.cores; ++core) {
      if (shares(at->second, core)) remove(core, number);
    }
    // Not erased: what the line was is still counted. It is as one never seen, but for the counts.
    at->second.owner = -1;
    at->second.busy_until = 0;
  }
}

void Memory::forget_counts() {
  for (auto& [number, line] : lines_) line.counts = line.in_calls = {};
}

}  // namespace simulation
