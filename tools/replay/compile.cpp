// SPDX-License-Identifier: MIT
#include "replay/compile.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace coffer::replay {

using trace::Error;
using trace::Event;
using trace::Op;

namespace {

constexpr u64 kGapNs = 1000;  // a step that waits for less is not worth it
constexpr u64 kGapInstructions = 32;
constexpr u64 kMaxSamples = 4096;

bool is_operation(const Event& event) {
  return trace::has_block(event.op) && (event.flags & trace::kFailed) == 0 && event.block != 0;
}

}  // namespace

Compiler::Compiler(const CompileOptions& options)
    : options_(options),
      sample_every_(
          options.operations == 0 ? 4096 : std::max<u64>(1, options.operations / std::max<u64>(1, options.samples))) {}

Compiler::Thread& Compiler::thread_of(u32 number) {
  const auto [it, is_new] = index_.try_emplace(number, static_cast<u32>(threads_.size()));
  if (is_new) {
    Thread& thread = threads_.emplace_back();
    thread.number = number;
    thread.index = it->second;
    thread.first_sequence = thread.sequence = thread.last_sequence = sequence_;
    thread.main_steps = threads_.front().steps.size();
  }
  return threads_[it->second];
}

void Compiler::push(Thread& thread, Step kind, u64 size, u32 slot, u32 other) {
  u64 advance = sequence_ - thread.sequence;
  if (advance > PlanStep::kMaxAdvance) {
    thread.steps.push_back(PlanStep::make(Step::advance, 0, advance));
    advance = 0;
  }
  thread.sequence = sequence_;
  thread.steps.push_back(PlanStep::make(kind, advance, size, slot, other));
}

void Compiler::add(const Event& event) {
  if (event.op == Op::thread_end) {
    // It lives until here, though its last operation was earlier.
    if (index_.count(event.thread) != 0) thread_of(event.thread).last_sequence = sequence_;
    return;
  }
  if (trace::has_block(event.op) && (event.flags & trace::kFailed) != 0) ++plan_.head.left_out;
  if (!is_operation(event)) return;
  if (event.size > PlanStep::kMaxSize) {
    throw Error("an allocation of " + std::to_string(event.size) + " bytes cannot be replayed");
  }
  ++sequence_;
  Thread& thread = thread_of(event.thread);
  thread.last_sequence = sequence_;
  wait(event, thread);
  plan_.head.duration_ns = std::max(plan_.head.duration_ns, event.time);
  switch (event.op) {
    case Op::realloc:
      reallocate(event, thread);
      break;
    case Op::free:
      release(event, thread);
      break;
    default:
      allocate(event, thread);
      break;
  }
  if (sequence_ % sample_every_ == 0 && plan_.samples.size() < kMaxSamples) sample(thread);
}

// Not at every operation: short gaps add up.
void Compiler::wait(const Event& event, Thread& thread) {
  if (options_.gaps == Gaps::time && event.time > thread.waited_for + kGapNs) {
    push(thread, Step::wait, event.time);
    thread.waited_for = event.time;
  }
  if (options_.gaps != Gaps::instructions || (event.flags & trace::kCounted) == 0) return;
  thread.owed += event.instructions;
  if (thread.owed < kGapInstructions) return;
  const u64 now = std::min(thread.owed, PlanStep::kMaxSize);
  push(thread, Step::work, now);
  plan_.head.instructions += now;
  thread.owed -= now;
}

void Compiler::sample(Thread& thread) {
  push(thread, Step::sample, 0, static_cast<u32>(plan_.samples.size()));
  plan_.samples.push_back(live_);
}

void Compiler::live(u64 more, u64 less) {
  live_ += more - less;
  plan_.head.peak_live = std::max(plan_.head.peak_live, live_);
}

u32 Compiler::private_slot(Thread& thread) {
  if (thread.free_slots.empty()) {
    if (thread.slots + 1 >= kShared) throw Error("more than 2^31 blocks live at a time cannot be replayed");
    return thread.slots++;
  }
  const u32 slot = thread.free_slots.back();
  thread.free_slots.pop_back();
  return slot;
}

void Compiler::allocate(const Event& event, Thread& thread) {
  const Step kind = event.op == Op::calloc ? Step::calloc : event.op == Op::aligned ? Step::aligned : Step::malloc;
  const u32 shift =
      event.op == Op::aligned && event.alignment != 0 ? 63u - static_cast<u32>(__builtin_clzll(event.alignment)) : 0;
  const u32 slot = private_slot(thread);
  push(thread, kind, event.size, slot, shift);
  ++plan_.head.operations[static_cast<u32>(kind)];
  blocks_.insert(event.block, {thread.index, slot, thread.steps.size() - 1, event.size});
  live(event.size, 0);
}

// The slot to take from. Only now is it known who takes the block; if it is another thread, the step that fills the
// slot is changed to fill a shared one. The private one was not used in between, since it was not free.
u32 Compiler::consume(const Producer& producer, Thread& thread) {
  Thread& maker = threads_[producer.thread];
  maker.free_slots.push_back(producer.slot);
  if (producer.thread == thread.index) return producer.slot;
  if (shared_slots_ + 1 >= kShared) throw Error("more than 2^31 blocks change hands; cut the trace");
  const u32 shared = static_cast<u32>(shared_slots_++) | kShared;
  PlanStep& step = maker.steps[producer.step];
  (step.kind() == Step::realloc ? step.other : step.slot) = shared;
  return shared;
}

void Compiler::reallocate(const Event& event, Thread& thread) {
  Producer* const known = blocks_.find(event.block);
  // From before the recording: it begins here.
  if (known == nullptr) return allocate(event, thread);
  const Producer producer = blocks_.take(event.block);
  const u32 from = consume(producer, thread);
  const u32 to = private_slot(thread);
  push(thread, Step::old_size, producer.size);
  push(thread, Step::realloc, event.size, from, to);
  ++plan_.head.operations[static_cast<u32>(Step::realloc)];
  blocks_.insert(event.block, {thread.index, to, thread.steps.size() - 1, event.size});
  live(event.size, producer.size);
}

void Compiler::release(const Event& event, Thread& thread) {
  if (blocks_.find(event.block) == nullptr) throw Error("a free of a block that is not live");
  const Producer producer = blocks_.take(event.block);
  push(thread, Step::free, producer.size, consume(producer, thread));
  ++plan_.head.operations[static_cast<u32>(Step::free)];
  live(0, producer.size);
}

// The main thread's steps with those that start and join the others. A thread is started where its first operation is
// in the order of the trace; before that, those whose last one was earlier are joined, so that no more threads live at
// a time than were recorded. This cannot block for ever: what those still have to do depends on earlier operations
// only.
std::vector<PlanStep> Compiler::with_threads(Plan& plan) const {
  const Thread& main = threads_.front();
  std::vector<const Thread*> by_start, by_end;
  for (std::size_t i = 1; i < threads_.size(); ++i) by_start.push_back(&threads_[i]);
  by_end = by_start;
  std::sort(by_end.begin(), by_end.end(), [](const Thread* a, const Thread* b) {
    return a->last_sequence != b->last_sequence ? a->last_sequence < b->last_sequence : a->index < b->index;
  });
  std::vector<PlanStep> steps;
  u64 copied = 0, sequence = main.first_sequence, alive = 1;
  // As push() does, for a sequence that steps of both origins share.
  const auto put = [&](PlanStep step, u64 at) {
    const u64 advance = at - sequence;
    sequence = at;
    if (advance > PlanStep::kMaxAdvance) steps.push_back(PlanStep::make(Step::advance, 0, advance));
    const u64 small = advance > PlanStep::kMaxAdvance ? 0 : advance;
    steps.push_back(PlanStep::make(step.kind(), small, step.size(), step.slot, step.other));
  };
  u64 at = main.first_sequence;
  const auto copy_until = [&](u64 end) {
    for (; copied < end; ++copied) {
      const PlanStep& step = main.steps[copied];
      if (step.kind() == Step::advance) {
        at += step.size();
        continue;
      }
      at += step.advance();
      put(step, at);
    }
  };
  plan.head.most_threads = 1;
  std::size_t joined = 0;
  for (const Thread* thread : by_start) {
    copy_until(thread->main_steps);
    for (; joined < by_end.size() && by_end[joined]->last_sequence < thread->first_sequence; ++joined, --alive) {
      put(PlanStep::make(Step::join, 0, 0, by_end[joined]->index), std::max(sequence, thread->first_sequence));
    }
    put(PlanStep::make(Step::start, 0, 0, thread->index), std::max(sequence, thread->first_sequence));
    plan.head.most_threads = std::max(plan.head.most_threads, ++alive);
  }
  copy_until(main.steps.size());
  for (; joined < by_end.size(); ++joined) put(PlanStep::make(Step::join, 0, 0, by_end[joined]->index), sequence_);
  return steps;
}

Plan Compiler::finish() {
  if (threads_.empty()) throw Error("there is nothing to replay in this trace");
  Plan plan;
  std::swap(plan, plan_);
  std::memcpy(plan.head.magic, kPlanMagic, sizeof kPlanMagic);
  plan.steps = with_threads(plan);
  for (Thread& thread : threads_) {
    const bool is_main = &thread == &threads_.front();
    const u64 first = is_main ? 0 : plan.steps.size();
    if (!is_main) plan.steps.insert(plan.steps.end(), thread.steps.begin(), thread.steps.end());
    plan.threads.push_back(
        {first, plan.steps.size() - first, plan.head.private_slots, thread.first_sequence, thread.number});
    plan.head.private_slots += thread.slots;
    thread.steps = {};
  }
  plan.head.threads = plan.threads.size();
  plan.head.steps = plan.steps.size();
  plan.head.samples = plan.samples.size();
  plan.head.shared_slots = shared_slots_;
  plan.head.all_operations = sequence_;
  plan.head.end_live = live_;
  plan.head.bytes = plan_bytes(plan.head);
  return plan;
}

void Plan::write(const std::string& path) const {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw Error(path + ": " + std::strerror(errno));
  int failure = 0;
  const auto put = [&](const void* data, u64 length, u64 offset) {
    const char* at = static_cast<const char*>(data);
    while (length > 0 && failure == 0) {
      const ssize_t wrote = ::pwrite(file, at, length, static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) {
        failure = wrote < 0 ? errno : EIO;
        break;
      }
      at += wrote;
      offset += static_cast<u64>(wrote);
      length -= static_cast<u64>(wrote);
    }
  };
  put(&head, sizeof head, 0);
  put(threads.data(), threads.size() * sizeof(PlanThread), threads_offset());
  put(samples.data(), samples.size() * 8, samples_offset(head));
  put(steps.data(), steps.size() * sizeof(PlanStep), steps_offset(head));
  if (::close(file) != 0 && failure == 0) failure = errno;
  if (failure != 0) throw Error(path + ": " + std::strerror(failure));
}

}  // namespace coffer::replay
