// SPDX-License-Identifier: MIT
#include "machine.hpp"

#include <bit>
#include <cstdio>
#include <cstdlib>

namespace simulation {

Machine* g_machine = nullptr;

namespace {

// A core may go on so far ahead of the others while it needs nothing of them: fewer switches, and no access is put
// before one of another core that could have changed it by more than this.
constexpr u64 kAhead = 40;
constexpr u64 kJitter = 8;  // cycles of each call of the allocator that are left to chance
constexpr u64 kHang = u64{1} << 42;

u32 bucket(u64 cycles) {
  if (cycles < 8) return static_cast<u32>(cycles);
  const u32 top = static_cast<u32>(std::bit_width(cycles)) - 1;
  return (top - 2) * 8 + static_cast<u32>(cycles >> (top - 3)) % 8;
}

u64 bucket_end(u32 index) {
  if (index < 8) return index;
  const u32 top = index / 8 + 2;
  return ((u64{8} + index % 8 + 1) << (top - 3)) - 1;
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "simulate: %s\n", what);
  std::exit(1);
}

}  // namespace

void CallCounts::add(u64 taken) {
  ++calls;
  cycles += taken;
  if (taken > most) most = taken;
  ++durations[bucket(taken)];
}

u64 CallCounts::quantile(double share) const {
  u64 left = static_cast<u64>(share * static_cast<double>(calls));
  for (u32 i = 0; i < kBuckets; ++i) {
    if (durations[i] > left) return bucket_end(i);
    left -= durations[i];
  }
  return most;
}

Machine::Machine(const Shape& shape, const Costs& costs, u64 seed)
    : shape_(shape), costs_(costs), memory_(shape, costs), random_(seed), outside_(Fiber::own()) {}

// --- Threads and turns. ---

void Machine::run(std::function<void()> first) {
  g_machine = this;
  start_thread(0, std::move(first));
  const Turn turn = turns_.top();
  turns_.pop();
  current_ = turn.thread;
  limit_ = ~u64{0};
  Fiber::change(*outside_, current_->fiber);
  current_ = nullptr;
  g_machine = nullptr;
}

void Machine::run_body() {
  Machine& machine = *g_machine;
  Thread* const self = machine.current_;
  self->body();
  run_destructors();
  self->body = nullptr;
  --machine.alive_;
  machine.idle_.push_back(self);
  machine.go_on();
}

void Machine::start_thread(u32 core, std::function<void()> body) {
  const u64 now = current_ == nullptr ? 0 : current_->time + costs_.thread_start;
  if (idle_.empty()) {
    threads_.push_back(std::make_unique<Thread>());
    idle_.push_back(threads_.back().get());
  }
  Thread* const thread = idle_.back();
  idle_.pop_back();
  thread->core = core;
  thread->time = now + random_.next() % 1000;
  thread->owed = 0;
  thread->call = kProgram;
  thread->timed = current_ == nullptr || current_->timed;
  thread->spun_on = nullptr;
  thread->looks = 0;
  thread->body = std::move(body);
  thread->fiber.prepare(&run_body);
  ++alive_;
  add_turn(thread);
  if (!turns_.empty()) limit_ = turns_.top().time;
}

void Machine::add_turn(Thread* thread) { turns_.push({thread->time, random_.next(), thread}); }

// The next one continues; this one is not among those that wait for their turn, or has put itself there.
void Machine::go_on() {
  Thread* const self = current_;
  if (turns_.empty()) {
    if (alive_ != 0) give_up("all threads wait for each other");
    Fiber::change(self->fiber, *outside_);
  }
  current_ = turns_.top().thread;
  turns_.pop();
  limit_ = turns_.empty() ? ~u64{0} : turns_.top().time;
  if (current_->time > kHang) give_up("a thread makes no progress");
  if (current_ == self) return;
  ++counts_.switches;
  Fiber::change(self->fiber, current_->fiber);
}

void Machine::give_way() {
  add_turn(current_);
  go_on();
}

void Machine::meet(Meeting& meeting) {
  meeting.waiting.push_back(current_);
  if (meeting.waiting.size() < meeting.count) return go_on();
  u64 latest = 0;
  for (const Thread* thread : meeting.waiting) latest = thread->time > latest ? thread->time : latest;
  for (Thread* thread : meeting.waiting) {
    thread->time = latest + costs_.wake;
    add_turn(thread);
  }
  meeting.waiting.clear();
  go_on();
}

void Machine::pay_interruptions() {
  current_->time += current_->owed;
  current_->owed = 0;
}

// --- Accesses. ---

// Until it is this core's turn and the line can be had. Of those that wait for a line, chance picks the next.
u64 Machine::wait_for_turn(u64 line, Access access) {
  u64 waited = 0;
  for (;;) {
    pay_interruptions();
    Thread& self = *current_;
    const bool hit = memory_.hits(self.core, line, access);
    if (self.time > limit_ && !(hit && access != Access::change && self.time <= limit_ + kAhead)) {
      give_way();
      continue;
    }
    const u64 ready = hit ? 0 : memory_.ready_at(line);
    if (ready <= self.time) return waited;
    waited += ready - self.time;
    self.time = ready;
    if (limit_ <= ready) give_way();
  }
}

// Of a line, and what of it is in malloc and free.
template <class Add>
void Machine::count_line(Line* line, const Add& add) {
  if (line == nullptr) return;
  add(line->counts);
  if (current_->call != kProgram) add(line->in_calls);
}

void Machine::touch(u64 line, Access access, const Where& where) {
  const u64 waited = wait_for_turn(line, access);
  Thread& self = *current_;
  // What is not timed goes where nobody looks.
  Counts& all = self.timed ? counts_ : untimed_;
  CallCounts& counts = all.calls[self.call];
  ++counts.accesses;
  const u64 page = line * kLineBytes / kPageBytes;
  const bool ground = is_ground(line * kLineBytes);
  const Outcome outcome = memory_.access(self.core, line, access, self.time);
  self.time += costs_.hit + outcome.cycles;
  self.looks = outcome.hit && access == Access::read ? self.looks + 1 : 2;
  self.looked_at = line;
  if (outcome.invalidations != 0 && !watchers_.empty()) wake_watchers(line);
  if (outcome.hit && waited == 0) return;
  if (ground && pages_.insert(page).second) {
    self.time += costs_.fault;
    counts.system += costs_.fault;
    ++all.system["page fault"];
  }
  ++counts.misses;
  counts.transfers += outcome.transfers;
  counts.invalidations += outcome.invalidations;
  counts.waited += waited;
  if (outcome.line != nullptr) self.spun_on = outcome.line;
  if (self.timed) {
    count_line(self.spun_on, [&](LineCounts& counted) { counted.waited += waited; });
    count_line(outcome.line, [&](LineCounts& counted) {
      counted.transfers += outcome.transfers;
      counted.invalidations += outcome.invalidations;
    });
  }
  self.spun_at = where;
  PlaceCounts& place = all.places[where];
  ++place.misses;
  place.transfers += outcome.transfers;
  place.invalidations += outcome.invalidations;
  place.waited += waited;
}

void Machine::access(uptr address, u64 bytes, Access access, const Where& where) {
  const u64 last = (address + bytes - 1) / kLineBytes;
  for (u64 line = address / kLineBytes; line <= last; ++line) touch(line, access, where);
}

void Machine::failed(uptr address, const Where& where) {
  if (!current_->timed) return;
  ++counts_.calls[current_->call].failed;
  count_line(&memory_.line(address / kLineBytes), [](LineCounts& counted) { ++counted.failed; });
  ++counts_.places[where].failed;
}

void Machine::note_waiting(u64 cycles) {
  const Thread& self = *current_;
  if (!self.timed) return;
  counts_.calls[self.call].waited += cycles;
  if (self.spun_on == nullptr) return;
  count_line(self.spun_on, [&](LineCounts& counted) { counted.waited += cycles; });
  counts_.places[self.spun_at].waited += cycles;
}

void Machine::spin(u64 cycles) {
  Thread& self = *current_;
  const u64 began = self.time;
  self.time += cycles;
  const bool watches = self.looks == 1 && memory_.hits(self.core, self.looked_at, Access::read);
  self.looks = 0;
  if (watches) {
    watchers_[self.looked_at].push_back(&self);
    go_on();
  }
  note_waiting(self.time - began);
}

// Somewhere in their pauses they see that the line is gone.
void Machine::wake_watchers(u64 line) {
  const auto found = watchers_.find(line);
  if (found == watchers_.end()) return;
  for (Thread* thread : found->second) {
    if (thread->time < current_->time) thread->time = current_->time;
    thread->time += random_.next() % costs_.pause;
    add_turn(thread);
  }
  watchers_.erase(found);
  limit_ = turns_.top().time;
}

void Machine::forget(uptr from, u64 bytes) {
  while (!watchers_.empty()) wake_watchers(watchers_.begin()->first);
  memory_.forget(from, bytes);
  for (u64 page = from / kPageBytes; page < (from + bytes) / kPageBytes; ++page) pages_.erase(page);
}

// --- The kernel. ---

void Machine::system_call(const char* name, u64 cycles, bool alone, bool interrupts) {
  // Whoever is behind in time goes first.
  while (current_->time > limit_) give_way();
  Thread& self = *current_;
  const u64 began = self.time;
  self.time += costs_.system_call;
  if (alone) {
    if (kernel_free_at_ > self.time) self.time = kernel_free_at_;
    kernel_free_at_ = self.time + cycles;
  }
  self.time += cycles;
  Counts& counts = self.timed ? counts_ : untimed_;
  counts.calls[self.call].system += self.time - began;
  ++counts.system[name];
  if (!interrupts) return;
  for (const auto& thread : threads_) {
    if (thread.get() != &self && thread->body != nullptr) thread->owed += costs_.interruption;
  }
}

// --- Calls of the allocator. ---

void Machine::enter(Call call) {
  current_->call = call;
  current_->time += random_.next() % kJitter;
}

void Machine::leave(Call call, u64 began) {
  (current_->timed ? counts_ : untimed_).calls[call].add(current_->time - began);
  current_->call = kProgram;
}

void Machine::begin_to_count() {
  counts_ = {};
  memory_.forget_counts();
}

std::map<u32, void*>* current_specific() { return g_machine != nullptr ? &g_machine->current().specific : nullptr; }

}  // namespace simulation
