// SPDX-License-Identifier: MIT
#include "guard/guard.hpp"

#include <string.h>

#include "base/bits.hpp"
#include "budget/budget.hpp"
#include "guard/report.hpp"
#include "observe/callers.hpp"
#include "observe/counters.hpp"
#include "observe/sampling.hpp"
#include "os/os.hpp"
#include "os/spin_lock.hpp"

namespace coffer::guard {

namespace {

constexpr u8 kPattern = 0xa5;  // fresh pages are zero, and a program writes zeros most of all

struct Guards {
  Atomic<uptr> base{uptr{1} << 63};
  Atomic<usize> bytes;  // of the range; 0: there is none yet
  Atomic<usize> held;
  Atomic<u32> at_work;  // threads that make or free a block
  // As they are from the start on.
  usize page = 0;
  u32 pages = 0;
  Record* records = nullptr;
  Atomic<u16>* page_map = nullptr;  // 1 + the record's index; worth something if the record has the page
  u64 seed = 0;
  // Under the lock.
  SpinLock lock;
  u32 cursor = 1;  // the page from which on the next block is placed
  u32 next_record = 0;
  u32 live = 0;   // records that have pages
  u32 stuck = 0;  // of these
  usize waste = 0;
  u64 samples = 0;
  u64 starts = 0;  // that were wanted
};

constinit Guards g_guards;

// relaxed, for all loads of states in this file: who has a block has its record from after it was made; for who has
// none, what is read is last words or a figure.
State state_of(const Record& record) { return record.state.load(relaxed); }
bool has_pages(State state) { return state != State::none && state != State::freed; }
usize bytes_of(const Record& record) {
  return record.size.get() != 0 ? record.pages.get() * g_guards.page : 0;  // of size 0 nothing may be touched
}
usize waste_of(const Record& record) {
  const usize bytes = bytes_of(record);
  return bytes - (bytes != 0 ? record.size.get() : 0);
}
char* start_of(const Record& record) {
  return reinterpret_cast<char*>(g_guards.base.load(relaxed) + record.first_page.get() * g_guards.page);
}

Record* record_of_page(u32 page) {
  const Guards& g = g_guards;
  const u32 number = g.page_map[page].load(relaxed);  // relaxed, here and below: see state_of
  if (number == 0) return nullptr;
  Record& record = g.records[number - 1];
  const bool has = page - record.first_page.get() < record.pages.get();
  return has && state_of(record) != State::none ? &record : nullptr;
}

u32 page_of(uptr address) {
  return static_cast<u32>((address - g_guards.base.load(relaxed)) / g_guards.page);  // relaxed: it is there
}

// --- The start. ---

// Under the lock.
bool start() {
  Guards& g = g_guards;
  // Where it failed it is tried ever more seldom: it asks the kernel for its limits, which takes long.
  if (!is_power_of_two(++g.starts)) return false;
  const usize page = os::page_size();
  const usize wanted = round_down(os::reservation_limit(4 * kRangeBytes) / 4, kMostSize);
  const usize range = wanted < kRangeBytes ? wanted : kRangeBytes;
  if (range < kLeastRangeBytes || !watch_faults()) return false;
  const usize records = round_up(kRecords * sizeof(Record), page);
  const usize map = round_up(range / page * sizeof(u16), page);
  char* base = static_cast<char*>(os::reserve(range + records + map, kMostSize));
  if (base == nullptr) return false;
  if (!charge(records + map)) {
    os::release(base, range + records + map);
    return false;
  }
  if (!os::commit(base + range, records + map)) {
    uncharge(records + map);
    os::release(base, range + records + map);
    return false;
  }
  os::name_mapping(base, range + records + map, "coffer guards");
  // So that what is freed merges with what was never used (os::decommit).
  os::advise_huge_pages(base, range, os::HugePages::forbid);
  counters().reserved.fetch_add(range + records + map, relaxed);  // relaxed, both: figures
  counters().metadata.fetch_add(records + map, relaxed);
  g.page = page;
  g.pages = static_cast<u32>(range / page);
  g.records = reinterpret_cast<Record*>(base + range);
  g.page_map = reinterpret_cast<Atomic<u16>*>(base + range + records);
  g.seed = os::random_seed();
  g.base.store(reinterpret_cast<uptr>(base), relaxed);  // relaxed: the release below publishes it
  g.bytes.store(range, release);                        // release: pairs with the acquire in owns
  return true;
}

bool is_started() { return g_guards.bytes.load(acquire) != 0; }  // acquire: as in owns

// --- Choosing a place; under the lock. ---

bool may_be_reused(const Record& record) {
  const State state = state_of(record);
  return state == State::none || (state == State::freed && g_guards.samples - record.freed_at.get() >= kRest);
}

// The first free run of `pages` pages, with one before and one behind that nobody has, from the cursor on; its first a
// multiple of `step`. 0: there is none.
u32 find_gap(u32 pages, u32 step) {
  const Guards& g = g_guards;
  for (u32 turn = 0; turn < 2; ++turn) {
    for (u32 at = turn == 0 ? g.cursor : 1;;) {
      at = static_cast<u32>(round_up(at, step));
      if (at + pages + 1 > g.pages) break;
      u32 behind = 0;
      for (u32 page = at - 1; page < at + pages + 1 && behind == 0; ++page) {
        const Record* record = record_of_page(page);
        if (record != nullptr && !may_be_reused(*record)) behind = record->first_page.get() + record->pages.get();
      }
      if (behind == 0) return at;
      at = behind + 1;
    }
  }
  return 0;
}

Record* find_record() {
  Guards& g = g_guards;
  for (u32 i = 0; i < kRecords; ++i) {
    Record& record = g.records[(g.next_record + i) % kRecords];
    if (!may_be_reused(record)) continue;
    g.next_record = (g.next_record + i + 1) % kRecords;
    return &record;
  }
  return nullptr;
}

// What was there before is known no more.
void forget_records(u32 first, u32 end) {
  for (u32 page = first; page < end; ++page) {
    if (Record* record = record_of_page(page)) record->state.store(State::none, relaxed);  // relaxed: see state_of
  }
}

Record* choose(usize size, usize alignment) {
  Guards& g = g_guards;
  const u64 chance = mix_bits(g.seed, ++g.samples);
  const u32 pages = size != 0 ? static_cast<u32>(divide_up(size, g.page)) : 1;
  const usize waste = size != 0 ? pages * g.page - size : 0;
  if (g.live == kMostLive || g.waste + waste > kMostWaste) return nullptr;
  const u32 first = find_gap(pages, alignment > g.page ? static_cast<u32>(alignment / g.page) : 1);
  Record* record = first != 0 ? find_record() : nullptr;
  if (record == nullptr) return nullptr;
  forget_records(first, first + pages + 1);
  // At the end, or at the begin; aligned to more than a page it stands at the begin.
  const usize offset = (chance & 1) != 0 ? round_down(waste, alignment) : 0;
  record->state.store(State::none, relaxed);  // relaxed, all: see state_of
  record->first_page.set(first);
  record->pages.set(pages);
  record->size.set(size);
  record->block.set(g.base.load(relaxed) + first * g.page + offset);
  record->allocated.count = record->freed.count = 0;
  const u16 number = static_cast<u16>(record - g.records + 1);
  for (u32 page = first; page < first + pages; ++page) g.page_map[page].store(number, relaxed);
  compiler_fence();  // a fork child must not see a record that has pages before they are its own
  record->state.store(State::making, relaxed);
  g.cursor = first + pages + 1;
  ++g.live;
  g.waste += waste;
  return record;
}

// --- A block's pages. ---

void note_stack(Stack& stack) {
  stack.thread = os::thread_number();
  stack.count = find_callers(stack.frames, kFrames);
}

// Calls look(from, bytes) for what the block's pages have before and behind it.
template <class Look>
void for_each_slack(const Record& record, Look&& look) {
  const usize bytes = bytes_of(record);
  if (bytes == 0) return;
  char* const start = start_of(record);
  char* const block = reinterpret_cast<char*>(record.block.get());
  char* const end = block + record.size.get();
  look(start, static_cast<usize>(block - start));
  look(end, static_cast<usize>(start + bytes - end));
}

// Where the pattern beside the block is broken, nearest to the block; 0: nowhere.
uptr find_damage(const Record& record) {
  uptr found = 0;
  for_each_slack(record, [&](const char* from, usize bytes) {
    const bool before = reinterpret_cast<uptr>(from) < record.block.get();
    for (usize i = 0; i < bytes && (before || found == 0); ++i) {
      if (static_cast<u8>(from[i]) != kPattern) found = reinterpret_cast<uptr>(from + i);
    }
  });
  return found;
}

void hold(usize bytes) {
  g_guards.held.fetch_add(bytes, relaxed);  // relaxed, both: figures
  counters().held.fetch_add(bytes, relaxed);
  note_peak();
}

void let_go(usize bytes) {
  uncharge(bytes);
  g_guards.held.fetch_sub(bytes, relaxed);  // relaxed, both: figures
  counters().held.fetch_sub(bytes, relaxed);
}

// Nobody may touch the pages any more. `bytes`: what was charged for them. `end`: what the record is then.
void close_pages(Record& record, usize bytes, State end) {
  Guards& g = g_guards;
  if (bytes != 0 && !os::decommit(start_of(record), bytes)) end = State::stuck;
  if (end != State::stuck) let_go(bytes);
  const LockGuard guard(g.lock);
  record.freed_at.set(g.samples);
  if (end == State::stuck) {
    ++g.stuck;
  } else {
    --g.live;
    g.waste -= waste_of(record);
  }
  record.state.store(end, release);  // release: what was done comes before what its next user does
}

// What the kernel did not take back, once more.
void close_stuck() {
  Guards& g = g_guards;
  Record* record = nullptr;
  {
    const LockGuard guard(g.lock);
    if (g.stuck == 0) return;
    Record* const records = g.records;
    COFFER_ASSERT(records != nullptr);
    for (u32 i = 0; i < kRecords && record == nullptr; ++i) {
      if (state_of(records[i]) == State::stuck) record = &records[i];
    }
    if (record == nullptr) return;
    --g.stuck;
    record->state.store(State::ending, relaxed);  // relaxed: under the lock
  }
  close_pages(*record, bytes_of(*record), State::freed);
}

// relaxed, both: a fork child has to see what it was when a thread vanished, and no more.
struct AtWork {
  AtWork() { g_guards.at_work.fetch_add(1, relaxed); }
  ~AtWork() { g_guards.at_work.fetch_sub(1, relaxed); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

// The record of the live block that starts here. Reports what is none; `freed`: what it is then if it was freed.
Record* live_record(const char* call, uptr address, Misuse freed) {
  Record* record = record_of_page(page_of(address));
  if (record == nullptr || record->block.get() != address) {
    refuse(Misuse::invalid_free, call, address, record != nullptr ? record : find_near(address));
  }
  if (state_of(*record) != State::live) refuse(freed, call, address, record);
  return record;
}

}  // namespace

void* allocate(usize size, usize alignment) {
  Guards& g = g_guards;
  if (size > kMostSize || alignment > kMostSize) return nullptr;
  const AtWork work;
  if (is_started()) close_stuck();
  Record* record = nullptr;
  {
    const LockGuard guard(g.lock);
    if (is_started()) {
      watch_faults();  // once more: the program may have installed a handler
    } else if (!start()) {
      return nullptr;
    }
    record = choose(size, alignment);
  }
  if (record == nullptr) return nullptr;
  const usize bytes = bytes_of(*record);
  if (!charge(bytes)) {
    close_pages(*record, 0, State::none);
    return nullptr;
  }
  hold(bytes);
  if (bytes != 0 && !os::commit(start_of(*record), bytes)) {
    close_pages(*record, bytes, State::none);  // some of them may be open
    return nullptr;
  }
  for_each_slack(*record, [](char* from, usize length) { memset(from, kPattern, length); });
  note_stack(record->allocated);
  record->state.store(State::live, release);  // release: publishes the record, as the program publishes the block
  return reinterpret_cast<void*>(record->block.get());
}

bool owns(const void* address) {
  const usize bytes = g_guards.bytes.load(acquire);  // acquire: pairs with the release in start
  return reinterpret_cast<uptr>(address) - g_guards.base.load(relaxed) < bytes;  // relaxed: written before
}

void deallocate(void* block, usize given) {
  const uptr address = reinterpret_cast<uptr>(block);
  Record* record = live_record("free", address, Misuse::double_free);
  if (given != kNoSize && given != record->size.get()) refuse(Misuse::wrong_size, "free", address, record, given);
  if (const uptr damage = find_damage(*record)) {
    refuse(damage < address ? Misuse::underflow : Misuse::overflow, "free", damage, record);
  }
  const AtWork work;
  State seen = State::live;
  // acquire: pairs with the release in allocate. Of two that free at once, one finds that it is too late.
  while (!record->state.compare_exchange(seen, State::ending, acquire, relaxed)) {
    if (seen != State::live) refuse(Misuse::double_free, "free", address, record);
  }
  note_stack(record->freed);
  close_pages(*record, bytes_of(*record), State::freed);
}

usize size_of(const char* call, void* block) {
  return live_record(call, reinterpret_cast<uptr>(block), Misuse::use_after_free)->size.get();
}

usize size_if_live(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  const Record* record = record_of_page(page_of(address));
  const bool live = record != nullptr && record->block.get() == address && state_of(*record) == State::live;
  return live ? record->size.get() : 0;
}

usize held_bytes() { return g_guards.held.load(relaxed); }  // relaxed: a figure

usize live_bytes() {
  usize bytes = 0;
  if (!is_started()) return 0;
  for (u32 i = 0; i < kRecords; ++i) {
    if (state_of(g_guards.records[i]) == State::live) bytes += g_guards.records[i].size.get();
  }
  return bytes;
}

const char* find_fault() {
  const Guards& g = g_guards;
  if (!is_started()) return nullptr;
  usize held = 0, waste = 0;
  u32 live = 0;
  for (u32 i = 0; i < kRecords; ++i) {
    const Record& record = g.records[i];
    const State state = state_of(record);
    if (!has_pages(state)) continue;
    ++live;
    held += bytes_of(record);
    waste += waste_of(record);
    for (u32 page = 0; page < record.pages.get(); ++page) {
      if (record_of_page(record.first_page.get() + page) != &record) return "a guarded block's page is not its own";
    }
    const Record* before = record_of_page(record.first_page.get() - 1);
    const Record* behind = record_of_page(record.first_page.get() + record.pages.get());
    if ((before != nullptr && has_pages(state_of(*before))) || (behind != nullptr && has_pages(state_of(*behind)))) {
      return "a guarded block has no guard beside it";
    }
    if (state == State::live && find_damage(record) != 0) return "what lies beside a guarded block was written";
  }
  if (live != g.live || waste != g.waste) return "the guarded blocks are not as many as were counted";
  if (live > kMostLive || waste > kMostWaste) return "guarded blocks hold more than their bound";
  return held == held_bytes() ? nullptr : "the bytes of guarded blocks are not what was counted";
}

bool forget_others() {
  forget_reporters();
  const bool locked = g_guards.lock.forget_others();
  return locked || g_guards.at_work.load(relaxed) != 0;  // relaxed: see AtWork
}

void count_anew() {
  Guards& g = g_guards;
  if (!is_started()) return;
  usize held = 0;
  g.live = g.stuck = 0;
  g.waste = 0;
  for (u32 i = 0; i < kRecords; ++i) {
    const Record& record = g.records[i];
    const State state = state_of(record);
    if (!has_pages(state)) continue;
    ++g.live;
    if (state == State::stuck) ++g.stuck;
    held += bytes_of(record);
    g.waste += waste_of(record);
  }
  g.held.store(held, relaxed);  // relaxed, both: the child's other threads wait
  g.at_work.store(0, relaxed);
}

const Record* find_near(uptr address) {
  const Guards& g = g_guards;
  const u32 page = page_of(address);
  for (u32 distance = 0; distance < g.pages; ++distance) {
    const Record* before = distance <= page ? record_of_page(page - distance) : nullptr;
    const Record* behind = distance < g.pages - page ? record_of_page(page + distance) : nullptr;
    if (before == nullptr) before = behind;
    if (before == nullptr) continue;
    if (behind == nullptr) return before;
    const uptr end = before->block.get() + before->size.get();
    return address - end <= behind->block.get() - address ? before : behind;
  }
  return nullptr;
}

}  // namespace coffer::guard
