// SPDX-License-Identifier: MIT
// A block is given back by another function than the one that fits, or with another size or alignment.
#include <cstdlib>
#include <new>

#include "scene.hpp"

using namespace attack;

namespace {

using FreeSized = void(void*, std::size_t);
using FreeAligned = void(void*, std::size_t, std::size_t);

struct Deed {
  void* block;
  std::size_t size;
  std::size_t alignment;
  void (*call)(const Deed&);
};

void delete_sized(const Deed& deed) { ::operator delete(hide(deed.block), deed.size); }
void delete_array_sized(const Deed& deed) { ::operator delete[](hide(deed.block), deed.size); }
void delete_plain(const Deed& deed) { ::operator delete(hide(deed.block)); }
void delete_array(const Deed& deed) { ::operator delete[](hide(deed.block)); }
void delete_aligned(const Deed& deed) {
  ::operator delete(hide(deed.block), deed.size, static_cast<std::align_val_t>(deed.alignment));
}
void free_plain(const Deed& deed) { ::free(hide(deed.block)); }
void free_sized(const Deed& deed) { conformance::function<FreeSized>("free_sized")(hide(deed.block), deed.size); }
void free_aligned(const Deed& deed) {
  conformance::function<FreeAligned>("free_aligned_sized")(hide(deed.block), deed.alignment, deed.size);
}

[[noreturn]] void commit(Scene& scene, const Deed& deed) {
  scene.crime(deed.block);
  if (scene.two_threads()) {
    static Helper helper;
    helper.run([](void* given) { static_cast<Deed*>(given)->call(*static_cast<Deed*>(given)); },
               const_cast<Deed*>(&deed));
  } else {
    deed.call(deed);
  }
  scene.finish();
}

void needs(const char* function) {
  if (conformance::symbol(function) == nullptr) no_case("the allocator has no such function");
}

// A size of another class, wherever classes are at most a doubling apart.
std::size_t smaller(const Scene& scene) {
  if (scene.size() < 64) no_case("there is hardly a smaller class");
  return scene.size() / 4;
}
std::size_t larger(const Scene& scene) { return scene.size() * 4 + 64; }

}  // namespace

CASE(delete_with_smaller_size) {
  Scene scene;
  commit(scene, {::operator new(scene.size()), smaller(scene), 0, delete_sized});
}

CASE(delete_with_larger_size) {
  Scene scene;
  commit(scene, {::operator new(scene.size()), larger(scene), 0, delete_sized});
}

CASE(delete_array_with_smaller_size) {
  Scene scene;
  commit(scene, {::operator new[](scene.size()), smaller(scene), 0, delete_array_sized});
}

CASE(free_sized_smaller) {
  Scene scene;
  needs("free_sized");
  commit(scene, {hide(malloc(scene.size())), smaller(scene), 0, free_sized});
}

CASE(free_sized_larger) {
  Scene scene;
  needs("free_sized");
  commit(scene, {hide(malloc(scene.size())), larger(scene), 0, free_sized});
}

CASE(free_aligned_sized_smaller) {
  Scene scene;
  needs("free_aligned_sized");
  commit(scene, {hide(aligned_alloc(64, multiple_of(64, scene.size()))), smaller(scene), 64, free_aligned});
}

CASE(free_aligned_sized_larger) {
  Scene scene;
  needs("free_aligned_sized");
  commit(scene, {hide(aligned_alloc(64, multiple_of(64, scene.size()))), larger(scene), 64, free_aligned});
}

// A block that is not aligned to what is given cannot have been asked for with it.
CASE(free_aligned_sized_of_unaligned) {
  Scene scene(64);
  needs("free_aligned_sized");
  for (std::size_t i = 0; i < 64; ++i) {
    void* block = scene.own(i);
    if (reinterpret_cast<std::uintptr_t>(block) % 4096 == 0) continue;
    scene.forget(block);
    commit(scene, {block, scene.size(), 4096, free_aligned});
  }
  no_case("all blocks are aligned");
}

CASE(aligned_delete_of_unaligned) {
  Scene scene(64);
  for (std::size_t i = 0; i < 64; ++i) {
    void* block = ::operator new(scene.size());
    if (reinterpret_cast<std::uintptr_t>(block) % 4096 == 0) continue;
    commit(scene, {block, scene.size(), 4096, delete_aligned});
  }
  no_case("all blocks are aligned");
}

CASE(plain_delete_of_aligned) {
  Scene scene;
  commit(scene, {::operator new(scene.size(), std::align_val_t(256)), scene.size(), 0, delete_plain});
}

CASE(free_of_new) {
  Scene scene;
  commit(scene, {::operator new(scene.size()), 0, 0, free_plain});
}

CASE(delete_of_malloc) {
  Scene scene;
  commit(scene, {hide(malloc(scene.size())), 0, 0, delete_plain});
}

CASE(delete_of_new_array) {
  Scene scene;
  commit(scene, {::operator new[](scene.size()), 0, 0, delete_plain});
}

CASE(delete_array_of_malloc) {
  Scene scene;
  commit(scene, {hide(malloc(scene.size())), 0, 0, delete_array});
}
