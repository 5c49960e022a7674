// SPDX-License-Identifier: MIT
#include "retain/report.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyse/json.hpp"
#include "retain/groups.hpp"

namespace coffer::retain {

namespace {

using analyse::Json;

constexpr usize kMostTops = 200, kMostChildren = 40;
constexpr u32 kMostDepth = 24;
constexpr u64 kTop = u64{1} << 40;  // a key that no block has
constexpr const char* kKindNames[kKinds] = {"variable", "thread-local", "stack", "registers", "mapping"};

class Writer {
 public:
  explicit Writer(const Outcome& outcome) : o_(outcome) { group(); }

  std::string write() {
    json_.open('{');
    json_.number("blocks", o_.blocks->count()).number("bytes", o_.blocks->total_bytes());
    json_.number("sampled", o_.blocks->sampled());
    json_.number("profiled", o_.blocks->is_profiled() ? 1 : 0);
    json_.number("root_bytes", o_.roots->bytes);
    json_.key("seconds").real(o_.seconds).key("cpu_seconds").real(o_.cpu_seconds);
    write_lost();
    json_.key("holders").open('[');
    std::vector<u32> tops;
    for (const auto& [roots, top] : tops_) tops.push_back(top);
    by_size(&tops);
    for (usize i = 0; i < tops.size() && i < kMostTops; ++i) write_top(tops[i]);
    json_.close(']');
    if (tops.size() > kMostTops) write_rest(tops, kMostTops);
    write_stacks();
    write_mappings();
    json_.close('}');
    return json_.text();
  }

 private:
  using Pair = std::pair<u32, u32>;  // roots: one, or two of several; kNone, kNone: what is lost

  void group() {
    const std::vector<u32>& nodes = o_.dominators->nodes;
    std::vector<u32> group_of(nodes.size(), kNone);
    for (usize i = 1; i < nodes.size(); ++i) {
      const u32 node = nodes[i];
      if (!o_.flow->is_block(node)) {
        group_of[i] = top(node == o_.flow->lost() ? Pair{kNone, kNone} : Pair{node - o_.flow->root_node(0), kNone});
        continue;
      }
      u32 above = group_of[o_.dominators->idom[i]];
      if (above == kNone) above = top({o_.holders->first[node], o_.holders->second[node]});
      group_of[i] = groups_.below(above, Groups::key_of(*o_.blocks, node));
      groups_.count(group_of[i], o_.blocks->bytes(node), o_.blocks->start(node));
    }
    groups_.sum();
  }

  u32 top(Pair roots) {
    if (roots.second != kNone && roots.second < roots.first) std::swap(roots.first, roots.second);
    const auto [place, is_new] = tops_.try_emplace(roots, 0);
    if (is_new) {
      place->second = groups_.add_top(kTop + tops_.size());
      roots_of_[place->second] = roots;
    }
    return place->second;
  }

  void by_size(std::vector<u32>* groups) const {
    std::sort(groups->begin(), groups->end(),
              [&](u32 a, u32 b) { return std::pair(groups_[b].bytes, a) < std::pair(groups_[a].bytes, b); });
    while (!groups->empty() && groups_[groups->back()].blocks == 0) groups->pop_back();
  }

  void write_lost() {
    u64 direct_bytes = 0;
    for (const u32 block : o_.reached->lost) direct_bytes += o_.blocks->bytes(block);
    const auto place = tops_.find({kNone, kNone});
    const bool some = place != tops_.end();
    json_.key("lost").open('{');
    json_.number("bytes", some ? groups_[place->second].bytes : 0);
    json_.number("blocks", some ? groups_[place->second].blocks : 0);
    json_.number("direct_bytes", direct_bytes).number("direct_blocks", o_.reached->lost.size());
    if (some) write_children(place->second, 1);
    json_.close('}');
    if (some) tops_.erase(place);
  }

  void write_root(u32 root) {
    const Root& one = o_.roots->roots[root];
    json_.open('{').key("kind").string(kKindNames[static_cast<usize>(one.kind)]);
    json_.key("name").string(one.name).key("object").string(one.object);
    json_.number("address", one.address).number("offset", one.offset);
    json_.number("thread", static_cast<u64>(one.thread)).key("thread_name").string(one.thread_name).close('}');
    if (one.kind == Kind::stack || one.kind == Kind::registers) code_.insert(one.address);
  }

  void write_top(u32 top) {
    json_.open('{').key("roots").open('[');
    const Pair roots = roots_of_[top];
    if (roots.first != kNone) write_root(roots.first);
    if (roots.second != kNone) write_root(roots.second);
    json_.close(']').number("bytes", groups_[top].bytes).number("blocks", groups_[top].blocks);
    write_children(top, 1);
    json_.close('}');
  }

  void write_rest(const std::vector<u32>& groups, usize from) {
    u64 bytes = 0, blocks = 0;
    for (usize i = from; i < groups.size(); ++i) {
      bytes += groups_[groups[i]].bytes;
      blocks += groups_[groups[i]].blocks;
    }
    json_.key("rest").open('{').number("places", groups.size() - from).number("bytes", bytes).number("blocks", blocks);
    json_.close('}');
  }

  void write_children(u32 group, u32 depth) {
    std::vector<u32> children = groups_.children(group);
    by_size(&children);
    const usize most = depth > kMostDepth ? 0 : kMostChildren;
    json_.key("children").open('[');
    for (usize i = 0; i < children.size() && i < most; ++i) {
      const Groups::Group& one = groups_[children[i]];
      json_.open('{');
      if (one.key < Groups::kBySize) {
        json_.number("stack", one.key);
        stacks_.insert(static_cast<u32>(one.key));
      } else if (one.key < Groups::kRounded) {
        json_.number("size", one.key - Groups::kBySize);
      } else {
        json_.number("up_to", u64{1} << (one.key - Groups::kRounded));
      }
      json_.number("bytes", one.bytes).number("blocks", one.blocks);
      json_.number("own_bytes", one.own_bytes).number("own_blocks", one.own_blocks).number("example", one.example);
      write_children(children[i], depth + 1);
      json_.close('}');
    }
    json_.close(']');
    if (children.size() > most) write_rest(children, most);
  }

  void write_stacks() {
    json_.key("stacks").open('{');
    for (const u32 stack : stacks_) {
      json_.key(std::to_string(stack).c_str()).open('[');
      for (const u64 address : o_.blocks->call_stacks()[stack]) {
        json_.number(address);
        code_.insert(address);
      }
      json_.close(']');
    }
    json_.close('}');
  }

  // Those that the addresses of code lie in, as heap profiles have them.
  void write_mappings() {
    json_.key("mappings").open('[');
    for (const Mapping& one : *o_.mappings) {
      const auto first = code_.lower_bound(one.begin);
      if (!one.executable || first == code_.end() || *first >= one.end) continue;
      json_.open('{').number("begin", one.begin).number("end", one.end).number("offset", one.offset);
      json_.key("path").string(one.path).close('}');
    }
    json_.close(']');
  }

  const Outcome& o_;
  Groups groups_;
  std::map<Pair, u32> tops_;
  std::map<u32, Pair> roots_of_;
  std::set<u32> stacks_;
  std::set<u64> code_;
  Json json_;
};

}  // namespace

std::string report(const Outcome& outcome) { return Writer(outcome).write(); }

}  // namespace coffer::retain
