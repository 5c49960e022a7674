// SPDX-License-Identifier: MIT
// Which object an address lies in, and the walk. What is mapped is kept in a sorted list of which there are two: the
// one that counts, and the one that is written anew next.
#include "record/unwind.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>

#include "record/last_walk.hpp"
#include "record/maps.hpp"
#include "record/session.hpp"
#include "record/unwind_objects.hpp"

namespace coffer::record {

namespace {

constexpr u32 kMostParts = 4096;  // executable mappings
constexpr u32 kCached = 1u << 14;
constexpr u32 kLookBeats = 20;  // between looks at what is mapped, at least
constexpr u64 kLookShare = 64;  // and of so many parts of the time they may take one

// An executable mapping. Its table is that of the object whose first mapping begins at `base`.
struct Part {
  std::atomic<u64> begin, end, base, file;
  std::atomic<u32> table;  // 1 + the index; 0: none
};
struct List {
  std::atomic<u32> count;
  Part parts[kMostParts];
};
// A rule that was found, by its address. The words are written one after the other, so whoever reads them believes them
// only if they fit: check ^ rule must give the key.
struct Cached {
  std::atomic<u64> check, rule;
};
struct Unwinding {
  List lists[2];
  Tables tables;
  Cached cached[kCached];
  char text[kMapsText];  // of what is mapped, for who looks
};

Unwinding* g_unwinding = nullptr;
std::atomic<u32> g_locked{0};
std::atomic<u32> g_writing{0};    // numbers of lists: that which is being written or was last
std::atomic<u32> g_published{0};  // that which counts
std::atomic<u32> g_unloaded{0};
std::atomic<u32> g_look_at{0};        // the beat of the next look
std::atomic<u64> g_useless_until{0};  // an unknown address is no reason to look before

// relaxed, here and below: a reader that met a list in change sees it at the end (find_rule).
u32 known_part(const List& list, const Mapping& mapping, u64 base) {
  u32 low = 0, high = list.count.load(std::memory_order_relaxed);
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    const Part& part = list.parts[middle];
    if (part.begin.load(std::memory_order_relaxed) < mapping.begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == list.count.load(std::memory_order_relaxed)) return ~u32{0};
  const Part& part = list.parts[low];
  const bool is_same = part.begin.load(std::memory_order_relaxed) == mapping.begin &&
                       part.end.load(std::memory_order_relaxed) == mapping.end &&
                       part.file.load(std::memory_order_relaxed) == mapping.file &&
                       part.base.load(std::memory_order_relaxed) == base;
  return is_same ? part.table.load(std::memory_order_relaxed) : ~u32{0};
}

// Looks at what is mapped, and reads what is new. Under the lock, with signals blocked. Whether anything was new.
bool look() {
  // relaxed, both: only who has the lock writes them, and the lock orders those.
  const u32 number = g_published.load(std::memory_order_relaxed);
  const List& before = g_unwinding->lists[number & 1];
  List& list = g_unwinding->lists[(number + 1) & 1];
  g_writing.store(number + 1, std::memory_order_relaxed);
  // release: who reads what is written from here on in the list, sees also that it is being written (find_rule).
  std::atomic_thread_fence(std::memory_order_release);
  const Memory memory;
  Mapping object;  // the last one that was an object's first
  u32 count = 0;
  bool is_new = false;
  const bool read = for_each_mapping(g_unwinding->text, [&](const Mapping& mapping) {
    if (mapping.offset == 0 && mapping.file != 0) object = mapping;
    if (!mapping.executable || count == kMostParts) return true;
    const u64 base = mapping.file != 0 && mapping.file == object.file ? object.begin : 0;
    u32 table = known_part(before, mapping, base);
    if (table == ~u32{0}) {
      is_new = true;
      table = base != 0 ? g_unwinding->tables.load(memory, base) : 0;
    }
    Part& part = list.parts[count++];
    part.begin.store(mapping.begin, std::memory_order_relaxed);
    part.end.store(mapping.end, std::memory_order_relaxed);
    part.base.store(base, std::memory_order_relaxed);
    part.file.store(mapping.file, std::memory_order_relaxed);
    part.table.store(table, std::memory_order_relaxed);
    return true;
  });
  if (!read) return false;
  is_new = is_new || count != before.count.load(std::memory_order_relaxed);
  list.count.store(count, std::memory_order_relaxed);
  // release: pairs with the acquire in find_rule, which then sees the list and its tables.
  if (!is_new) return false;
  g_published.store(number + 1, std::memory_order_release);
  if (g_session.area != nullptr) g_session.area->mapped.fetch_add(1, std::memory_order_relaxed);  // relaxed: a hint
  return true;
}

// unknown: for the sake of an address that lies in nothing that is known. If that was in vain, as with one that is no
// code's, the next such look waits; a look that came before what it lies in was loaded says nothing of it.
bool try_look(u32 beat, bool unknown = false) {
  // acquire and release: the lists and tables are as the one before left them. Nobody waits: a handler could be in the
  // middle of it, and who reads what is mapped may have to wait for the loader.
  if (g_locked.exchange(1, std::memory_order_acquire) != 0) return false;
  const int saved = errno;
  sigset_t all, old;
  sigfillset(&all);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, 8);
  // The thread's own time: where others have the processor a look costs no more, and the next must not wait for it.
  const u64 begun = kernel_ns(CLOCK_THREAD_CPUTIME_ID);
  const bool is_new = look();
  const u64 took = kernel_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
  // relaxed, both: when to look again is a matter of cost alone.
  constexpr u64 kBeatNs = 5'000'000;
  const u64 beats = took * kLookShare / kBeatNs;
  g_look_at.store(beat + kLookBeats + static_cast<u32>(beats), std::memory_order_relaxed);
  if (is_new) {
    g_useless_until.store(0, std::memory_order_relaxed);
  } else if (unknown) {
    g_useless_until.store(kernel_ns() + took * kLookShare / 4, std::memory_order_relaxed);
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, nullptr, 8);
  g_locked.store(0, std::memory_order_release);
  errno = saved;
  return is_new;
}

enum class Found { rule, nothing, again };

// The rule for the instruction; nothing: it lies in no mapping that is known.
Found find_in_list(u64 at, u32 number, Rule& rule) {
  const List& list = g_unwinding->lists[number & 1];
  u32 low = 0, high = list.count.load(std::memory_order_relaxed);
  if (high > kMostParts) return Found::again;
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    if (list.parts[middle].begin.load(std::memory_order_relaxed) <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  u64 end = 0, base = 0;
  u32 table = 0;
  if (low != 0) {
    const Part& part = list.parts[low - 1];
    end = part.end.load(std::memory_order_relaxed);
    base = part.base.load(std::memory_order_relaxed);
    table = part.table.load(std::memory_order_relaxed);
  }
  // acquire: if any of the above was written by a later look at this list, its number is seen here.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (g_writing.load(std::memory_order_relaxed) - number > 1) return Found::again;
  if (at >= end) return Found::nothing;
  rule = at - base <= ~u32{0} ? g_unwinding->tables.find(table, static_cast<u32>(at - base)) : Rule{};
  return Found::rule;
}

Found find_rule(u64 at, Rule& rule) {
  for (u32 tries = 0; tries < 4; ++tries) {
    const u32 number = g_published.load(std::memory_order_acquire);  // pairs with the release in look
    const u64 key = at ^ u64 { number } * 0x9E3779B97F4A7C15u;
    Cached& cached = g_unwinding->cached[(at ^ at >> 14) % kCached];
    const u64 seen = cached.rule.load(std::memory_order_relaxed);  // relaxed, all: believed only if they fit
    if ((cached.check.load(std::memory_order_relaxed) ^ seen) == key) {
      rule = __builtin_bit_cast(Rule, seen);
      return Found::rule;
    }
    const Found found = find_in_list(at, number, rule);
    if (found == Found::again) continue;
    if (found == Found::rule) {
      const u64 bits = __builtin_bit_cast(u64, rule);
      cached.rule.store(bits, std::memory_order_relaxed);
      cached.check.store(bits ^ key, std::memory_order_relaxed);
    }
    return found;
  }
  return Found::nothing;
}

struct Registers {
  u64 pc, sp, bp;
  u64 bp_cell;  // as WalkedFrame has it
};

u64 word_at(u64 address) { return *reinterpret_cast<const u64*>(address); }

bool by_frame_pointer(const StackBounds& bounds, Registers& now) {
  if (now.bp < now.sp || !bounds.holds(now.bp) || !bounds.holds(now.bp + 8)) return false;
  now = {word_at(now.bp + 8), now.bp + 16, word_at(now.bp), now.bp};
  return true;
}

// The registers where the signal came, as the kernel left them. They may be another stack's.
bool before_signal(StackBounds& bounds, Registers& now, char* buffer) {
  const u64 registers = now.sp + __builtin_offsetof(ucontext_t, uc_mcontext);
  const u64 bytes = sizeof(mcontext_t::gregs);
  if (!bounds.holds(registers) || !bounds.holds(registers + bytes - 8)) return false;
  const auto saved = [&](int which) { return word_at(registers + 8 * static_cast<u64>(which)); };
  const u64 sp_before = now.sp;
  now = {saved(REG_RIP), saved(REG_RSP), saved(REG_RBP), kNotFixed};
  if (now.sp > sp_before && now.sp < bounds.high) return true;
  bounds = stack_at(now.sp, buffer);
  return bounds.high != 0;
}

// From a frame to its caller's. false: it was the last.
bool step(StackBounds& bounds, const Rule& rule, Registers& now, char* buffer) {
  const auto offset = static_cast<u64>(i64{rule.offset});
  u64 cfa = 0;
  bool is_fixed = true;
  switch (rule.cfa) {
    case Cfa::none:
      return by_frame_pointer(bounds, now);
    case Cfa::end:
      return false;
    case Cfa::signal:
      return before_signal(bounds, now, buffer);
    case Cfa::sp:
      cfa = now.sp + offset;
      break;
    case Cfa::bp:
      cfa = now.bp + offset;
      break;
    case Cfa::at_sp:
    case Cfa::at_bp: {
      const u64 at = (rule.cfa == Cfa::at_sp ? now.sp : now.bp) + offset;
      if (!bounds.holds(at)) return false;
      cfa = word_at(at);
      is_fixed = false;
      break;
    }
    case Cfa::plt:
      cfa = now.sp + 8 + ((now.pc & 15) >= offset ? 8 : 0);
      break;
  }
  // Callers' frames lie higher: so it ends, whatever stands there.
  if (cfa <= now.sp || !bounds.holds(cfa - 8)) return false;
  u64 bp = now.bp, cell = 0;
  if (rule.bp == SavedBp::lost) {
    bp = 0;
  } else if (rule.bp != SavedBp::same) {
    const u64 at = (rule.bp == SavedBp::at_cfa ? cfa : now.bp) + static_cast<u64>(i64{rule.bp_offset});
    const bool is_there = bounds.holds(at);
    bp = is_there ? word_at(at) : 0;
    cell = is_there ? at : 0;
  }
  now = {word_at(cfa - 8), cfa, bp, is_fixed ? cell : kNotFixed};
  return true;
}

// The rule of a frame whose address nothing may cover so far.
Rule rule_at(u64 at, u32 beat) {
  Rule rule;
  if (find_rule(at, rule) == Found::nothing) {
    // relaxed: see try_look.
    if (kernel_ns() >= g_useless_until.load(std::memory_order_relaxed) && try_look(beat, true)) find_rule(at, rule);
  }
  return rule;
}

// A walk, and what is known of it from the last one.
class Walk {
 public:
  Walk(Walker& walker, u32 most) : walker_(walker), most_(most) {}

  // It goes on where enough frames were found, to the end of the stack, so that the next one knows all of it.
  u32 run(Registers now, StackBounds bounds, u32 beat, u64& hash) {
    bool is_return = true;  // the address is behind a call, not where a signal came
    bool is_whole = true, is_plain = true;
    while (now.pc >= LastWalk::kLeastCode) {
      if (is_plain && take_known(now)) break;
      if (new_ == LastWalk::kMost - 1 || (!is_plain && count_ == most_)) {
        is_whole = false;
        break;
      }
      note(now);
      if (count_ < most_) walker_.frames[count_++] = now.pc;
      const Rule rule = rule_at(is_return ? now.pc - 1 : now.pc, beat);
      is_return = rule.cfa != Cfa::signal;
      is_plain = is_plain && is_return;
      if (!step(bounds, rule, now, walker_.text)) break;
      // The end of the stack is known as such, too.
      if (now.pc < LastWalk::kLeastCode) note(now);
    }
    hash = finish(is_plain, is_whole);
    return count_;
  }

 private:
  void note(const Registers& now) { walker_.inner[new_++] = {now.pc, now.sp, now.bp, now.bp_cell}; }

  bool take_known(const Registers& now) {
    // One at least, also where there are frames enough: then the rest is kept for the next walk.
    const u32 wanted = count_ < most_ ? most_ - count_ : 1;
    const u32 entries = walker_.last.known(now.pc, now.sp, now.bp, wanted);
    if (entries == 0) return false;
    kept_ = entries;
    for (u32 i = entries; i-- != 0 && count_ < most_;) {
      const u64 pc = walker_.last.frame(i).pc;
      if (pc >= LastWalk::kLeastCode) walker_.frames[count_++] = pc;
    }
    return true;
  }

  u64 finish(bool is_plain, bool is_whole) {
    if (!is_plain) {
      walker_.last.forget();
      return hash_of_stack(walker_.frames, count_);
    }
    walker_.last.keep(kept_, walker_.inner, new_, is_whole);
    // What was cut off is in the last walk's hash, and not in the stack's.
    const bool is_all = walker_.last.is_whole() && kept_ + new_ <= most_;
    return is_all ? walker_.last.hash() : hash_of_stack(walker_.frames, count_);
  }

  Walker& walker_;
  u32 most_, count_ = 0;
  u32 kept_ = 0, new_ = 0;  // entries of the last walk that hold; frames that are new, and the stack's end
};

}  // namespace

bool start_unwinding() {
  g_locked.store(0, std::memory_order_relaxed);  // relaxed: no other thread yet; one may have vanished with a fork
  if (g_unwinding == nullptr) {
    void* const made =
        mmap(nullptr, sizeof(Unwinding), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return false;
    g_unwinding = static_cast<Unwinding*>(made);
  }
  try_look(0);
  return true;
}

void note_unloading() { g_unloaded.store(1, std::memory_order_relaxed); }  // relaxed: by the thread that walks next

u32 unwind(u64 frame, StackBounds bounds, u32 beat, Walker& walker, u32 most, u64& hash) {
  // relaxed, both: see try_look, note_unloading.
  if (static_cast<std::int32_t>(beat - g_look_at.load(std::memory_order_relaxed)) > 0) try_look(beat);
  if (g_unloaded.load(std::memory_order_relaxed) != 0 && g_unloaded.exchange(0, std::memory_order_relaxed) != 0) {
    try_look(beat);
  }
  // The recorder's own function keeps a frame pointer.
  if (!bounds.holds(frame) || !bounds.holds(frame + 8)) return 0;
  // relaxed: an older list's walk is taken for another's.
  walker.last.begin(bounds, g_published.load(std::memory_order_relaxed));
  return Walk(walker, most).run({word_at(frame + 8), frame + 16, word_at(frame), frame}, bounds, beat, hash);
}

}  // namespace coffer::record
