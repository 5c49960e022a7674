// SPDX-License-Identifier: MIT
#include "retain/roots.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "retain/frames.hpp"

namespace coffer::retain {

namespace {

constexpr u64 kRedZone = 128;        // below the stack pointer, a function's own
constexpr u64 kThreadRecord = 4096;  // what a C library keeps behind the thread pointer, at most
constexpr u32 kMostUnnamed = 65536;  // variables without a symbol, of a file

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

class Finder {
 public:
  Finder(const Memory& memory, const std::vector<Mapping>& mappings, const std::vector<Object>& objects,
         const std::vector<Thread>& threads, const Blocks& blocks)
      : memory_(memory),
        mappings_(mappings),
        objects_(objects),
        threads_(threads),
        blocks_(blocks),
        buffer_(std::make_unique<u64[]>(kPiece / sizeof(u64))) {}

  Roots find() {
    for (const Thread& one : threads_) add_registers(one);
    for (const Mapping& one : mappings_) {
      if (is_root(one)) add_mapping(one);
    }
    sort();
    return std::move(found_);
  }

 private:
  struct Part {
    u64 begin, end;
    const Thread* thread;
    Kind kind;
  };

  // Roots by kind, and edges by root.
  void sort() {
    std::vector<u32> order(found_.roots.size()), number(found_.roots.size());
    for (u32 i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](u32 a, u32 b) { return std::pair(found_.roots[a].kind, a) < std::pair(found_.roots[b].kind, b); });
    std::vector<Root> roots;
    for (u32 i = 0; i < order.size(); ++i) {
      number[order[i]] = i;
      roots.push_back(std::move(found_.roots[order[i]]));
    }
    found_.roots = std::move(roots);
    for (RootEdge& edge : found_.edges) edge.root = number[edge.root];
    std::sort(found_.edges.begin(), found_.edges.end(),
              [](const RootEdge& a, const RootEdge& b) { return std::pair(a.root, a.to) < std::pair(b.root, b.to); });
  }

  bool is_root(const Mapping& one) const {
    if (!one.readable || !one.writable) return false;
    if (begins(one.path, "[anon:coffer") || one.path == "[vvar]" || one.path == "[vsyscall]") return false;
    // Of files and devices that are shared reading may wait for a disk or do something; anonymous memory may be shared.
    if (one.shared && !begins(one.path, "/dev/zero") && !begins(one.path, "/memfd:") && !begins(one.path, "/SYSV")) {
      return false;
    }
    // Coffer's own library, which knows of free blocks only.
    return one.path != blocks_.library() || !begins(one.path.substr(one.path.rfind('/') + 1), "libcoffer");
  }

  bool is_own(u64 address) const {
    return std::any_of(blocks_.own().begin(), blocks_.own().end(),
                       [=](const Range& own) { return address - own.begin < own.end - own.begin; });
  }

  u64 local_bytes() const {
    u64 bytes = 0;
    for (const Object& one : objects_) bytes += one.local_bytes != 0 ? one.local_bytes + one.local_alignment : 0;
    return bytes;
  }

  // Where the mapping is a thread's stack or storage; the rest is what it is without them.
  std::vector<Part> parts_of(const Mapping& mapping) const {
    std::vector<Part> parts;
    const u64 locals = local_bytes();
    for (const Thread& one : threads_) {
      u64 storage = 0;
      if (one.tls - mapping.begin < mapping.end - mapping.begin) {
        const u64 room = one.tls - mapping.begin;
        storage = one.tls - std::min(locals, room);
        // On a stack's mapping it must not reach down to the stack.
        if (one.sp >= storage && one.sp < one.tls) storage = one.sp;
        const u64 end = std::min(mapping.end, one.tls + kThreadRecord);
        parts.push_back({storage, end, &one, Kind::thread_local_storage});
      }
      const u64 sp = one.sp - kRedZone;
      if (sp - mapping.begin < mapping.end - mapping.begin) {
        const u64 end = storage > sp ? storage : mapping.end;
        if (mapping.path == "[stack]" || storage > sp) {
          // What is below was a stack's, and is no more.
          parts.push_back({mapping.begin, sp, nullptr, Kind::stack});
          parts.push_back({sp, end, &one, Kind::stack});
        } else {
          // A stack in other memory, whose end nobody knows.
          parts.push_back({sp, mapping.end, &one, Kind::stack});
        }
      }
    }
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    return parts;
  }

  void add_mapping(const Mapping& mapping) {
    u64 at = mapping.begin;
    for (const Part& part : parts_of(mapping)) {
      if (part.begin > at) add_rest(mapping, at, part.begin);
      const u64 from = std::max(at, part.begin);
      if (part.end <= from) continue;
      if (part.thread != nullptr && part.kind == Kind::stack) add_stack(*part.thread, from, part.end);
      if (part.kind == Kind::thread_local_storage) add_storage(*part.thread, from, part.end);
      at = part.end;
    }
    if (at < mapping.end) add_rest(mapping, at, mapping.end);
  }

  template <class Visit>
  void scan(u64 begin, u64 end, bool sparse, Visit&& visit) {
    begin = (begin + 7) / 8 * 8;
    for_each_piece(memory_, begin, end, sparse, buffer_.get(), [&](u64 at, const u64* words, usize count) {
      found_.bytes += count * sizeof(u64);
      for (usize i = 0; i < count; ++i) {
        const u32 block = blocks_.edge(words, i, count);
        if (block != kNone && !is_own(at + i * sizeof(u64))) visit(at + i * sizeof(u64), block);
      }
    });
  }

  void add_rest(const Mapping& mapping, u64 begin, u64 end) {
    // Reservations of Coffer's may have merged with what lies beside them.
    for (const Range& own : blocks_.own()) {
      if (own.begin < end && own.end > begin && own.end - own.begin >= kPage) {
        if (own.begin > begin) add_rest(mapping, begin, own.begin);
        if (own.end < end) add_rest(mapping, own.end, end);
        return;
      }
    }
    const auto object = std::find_if(objects_.begin(), objects_.end(),
                                     [=](const Object& one) { return begin >= one.begin && begin < one.end; });
    if (object != objects_.end()) return add_variables(*object, begin, end);
    u32 root = kNone;
    scan(begin, end, !mapping.shared, [&](u64, u32 block) {
      if (root == kNone) root = add({Kind::mapping, mapping.path, "", mapping.begin, 0, 0, ""});
      found_.edges.push_back({root, block});
    });
  }

  void add_variables(const Object& object, u64 begin, u64 end) {
    u64 last = 0, last_begin = 0;  // words without a symbol that follow each other are taken for one variable's
    scan(begin, end, true, [&](u64 at, u32 block) {
      const Variable* variable = object.at(at);
      u64 address = variable != nullptr ? variable->address + object.bias : at;
      if (variable == nullptr) {
        if (at == last + sizeof(u64)) address = last_begin;
        last = at;
        last_begin = address;
      }
      u32& unnamed = unnamed_[object.begin];
      if (variable == nullptr && ++unnamed > kMostUnnamed) address = begin;
      const auto [place, is_new] = variables_.try_emplace(address, 0);
      if (is_new) {
        place->second = add({Kind::variable, variable != nullptr ? variable->name : "", object.path, address,
                             address - object.bias, 0, ""});
      }
      found_.edges.push_back({place->second, block});
    });
  }

  void add_storage(const Thread& thread, u64 begin, u64 end) {
    std::map<u64, u32> by_variable;  // 0: of none
    const Object* program = objects_.empty() ? nullptr : &objects_.front();
    // x86-64: the program's part ends where the thread pointer is.
    const u64 alignment = program != nullptr ? program->local_alignment : 1;
    const u64 size = program != nullptr ? (program->local_bytes + alignment - 1) / alignment * alignment : 0;
    scan(begin, end, true, [&](u64 at, u32 block) {
      const Variable* variable = nullptr;
      if (at < thread.tls && thread.tls - at <= size) {
        for (const Variable& one : program->locals) {
          if (at - (thread.tls - size) - one.address < one.bytes) variable = &one;
        }
      }
      const u64 key = variable != nullptr ? variable->address + 1 : 0;
      const auto [place, is_new] = by_variable.try_emplace(key, 0);
      if (is_new) {
        place->second = add({Kind::thread_local_storage, variable != nullptr ? variable->name : "",
                             variable != nullptr ? program->path : "", at, 0, thread.id, thread.name});
      }
      found_.edges.push_back({place->second, block});
    });
  }

  void add_stack(const Thread& thread, u64 begin, u64 end) {
    Frames frames(memory_, mappings_, thread.ip);
    std::map<u64, u32> by_function;
    begin = (begin + 7) / 8 * 8;
    for_each_piece(memory_, begin, end, true, buffer_.get(), [&](u64, const u64* words, usize count) {
      found_.bytes += count * sizeof(u64);
      for (usize i = 0; i < count; ++i) {
        const u32 block = blocks_.edge(words, i, count);
        if (block == kNone) {
          frames.pass(words[i]);
          continue;
        }
        const auto [place, is_new] = by_function.try_emplace(frames.current(), 0);
        if (is_new) place->second = add({Kind::stack, "", "", frames.current(), 0, thread.id, thread.name});
        found_.edges.push_back({place->second, block});
      }
    });
  }

  void add_registers(const Thread& thread) {
    u32 root = kNone;
    for (const u64 word : thread.registers) {
      const u32 block = blocks_.at(word);
      if (block == kNone) continue;
      if (root == kNone) root = add({Kind::registers, "", "", thread.ip, 0, thread.id, thread.name});
      found_.edges.push_back({root, block});
    }
  }

  u32 add(Root root) {
    found_.roots.push_back(std::move(root));
    return static_cast<u32>(found_.roots.size() - 1);
  }

  const Memory& memory_;
  const std::vector<Mapping>& mappings_;
  const std::vector<Object>& objects_;
  const std::vector<Thread>& threads_;
  const Blocks& blocks_;
  std::unique_ptr<u64[]> buffer_;
  std::map<u64, u32> variables_;  // by address
  std::map<u64, u32> unnamed_;    // by object
  Roots found_;
};

}  // namespace

Roots find_roots(const Memory& memory, const std::vector<Mapping>& mappings, const std::vector<Object>& objects,
                 const std::vector<Thread>& threads, const Blocks& blocks) {
  return Finder(memory, mappings, objects, threads, blocks).find();
}

}  // namespace coffer::retain
