// SPDX-License-Identifier: MIT
// What the lines of scalloc's records are.
#include "papers/scalloc/scalloc.hpp"
#include "program.hpp"

namespace simulation::subject {

namespace {

// Whether a line of 64 bytes begins in the object, or before it and reaches into it.
template <class T>
bool in(uptr line, const T& object) {
  const uptr from = reinterpret_cast<uptr>(&object) / kLineBytes * kLineBytes;
  return line - from < reinterpret_cast<uptr>(&object) + sizeof object - from;
}

}  // namespace

std::string name_of(uptr address) {
  using namespace coffer::scalloc;
  if (g_core.contains(address)) {
    const uptr offset = address - g_core.span_around(address)->base();
    if (offset >= kHeaderBytes) return "blocks";
    constexpr const char* kLines[] = {"span: epoch, owner", "span: local list", "span: remote list",
                                      "span: links of the reusable set"};
    return kLines[offset / kLineBytes];
  }
  for (u32 i = 0; i < g_core.registry().made(); ++i) {
    const uptr lab = reinterpret_cast<uptr>(g_core.registry().lab(i));
    if (address - lab >= sizeof(Lab)) continue;
    return address - lab < offsetof(Lab, owner) ? "LAB: hot spans" : "LAB: owner, reusable sets";
  }
  if (in(address, g_core.arena())) return "arena: bump pointer, counts";
  if (in(address, g_core.pool())) return "span pool: stacks";
  if (in(address, g_core.registry())) return "registry of LABs";
  return "";
}

}  // namespace simulation::subject
