// SPDX-License-Identifier: MIT
// A block is freed a second time, without having been handed out again. In cells of two threads the second thread
// does all the freeing, unless the crime's name says otherwise.
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "scene.hpp"

using namespace attack;

namespace {

constexpr std::size_t kSome = 40;

// Frees that come between the two of the victim.
void free_others(Scene& scene, std::size_t count, void (Scene::*free)(void*)) {
  for (std::size_t i = 1; i <= count; ++i) {
    scene.forget(scene.own(i));
    (scene.*free)(scene.own(i));
  }
}

void twice(Scene& scene, void (Scene::*first)(void*), std::size_t between, void (Scene::*others)(void*),
           void (Scene::*last)(void*)) {
  void* victim = scene.own(0);
  scene.forget(victim);
  (scene.*first)(victim);
  free_others(scene, between, others);
  scene.crime(victim);
  (scene.*last)(victim);
  scene.finish();
}

// So many blocks that spans of their own are full of them.
std::size_t whole_spans(std::size_t size) {
  const std::size_t wanted = (std::size_t{1} << 20) / size;
  return wanted < 16 ? 16 : wanted > 15'000 ? 15'000 : wanted;
}

// The memory of a freed block serves blocks of another size now. The victim is none of their starts: best if it lies
// within one.
void after_another_size(Scene& scene, std::size_t victims, std::size_t other) {
  for (std::size_t i = 0; i < victims; ++i) {
    scene.forget(scene.own(i));
    scene.free(scene.own(i));
  }
  malloc_trim(0);
  const std::size_t bytes = victims * (scene.size() < 16 ? 16 : scene.size());
  const std::size_t takes = bytes / other + 8;
  scene.take_many(takes < 20'000 ? takes : 20'000, other);
  void* victim = nullptr;
  const Block* all = Scene::ledger().sorted();
  std::size_t above = 0;
  const std::size_t live = Scene::ledger().count();
  for (std::size_t i = 0; i < victims; ++i) {
    auto* place = static_cast<char*>(scene.own(i));
    if (Scene::ledger().has(place)) continue;
    // Blocks come in order of address mostly; begin anew where they do not.
    if (above == live || all[above].address > place) above = 0;
    while (above < live && all[above].address <= place) ++above;
    const bool within = above > 0 && place < all[above - 1].address + all[above - 1].size;
    if (victim == nullptr || within) victim = place;
    if (within) break;
  }
  if (victim == nullptr) no_case("all places are starts of live blocks");
  scene.crime(victim);
  scene.free(victim);
  scene.finish();
}

}  // namespace

CASE(double_free_at_once) {
  Scene scene;
  twice(scene, &Scene::free, 0, &Scene::free, &Scene::free);
}

CASE(double_free_after_one) {
  Scene scene(2);
  twice(scene, &Scene::free, 1, &Scene::free, &Scene::free);
}

CASE(double_free_after_many) {
  Scene scene(kSome + 1);
  twice(scene, &Scene::free, kSome, &Scene::free, &Scene::free);
}

CASE(double_free_after_thousands) {
  Scene scene(whole_spans(static_cast<std::size_t>(conformance::argument_number(0))));
  const std::size_t between = whole_spans(scene.size()) - 1;
  twice(scene, &Scene::free, between, &Scene::free, &Scene::free);
}

// Neighbours that were freed after it are in use again.
CASE(double_free_after_reuse_of_others) {
  Scene scene(9);
  void* victim = scene.own(0);
  scene.forget(victim);
  scene.free(victim);
  free_others(scene, 8, &Scene::free);
  for (int i = 0; i < 4; ++i) {
    if (scene.take(scene.size()) == victim) no_case("the block was handed out again");
  }
  scene.crime(victim);
  scene.free(victim);
  scene.finish();
}

CASE(double_free_place_of_larger) {
  const auto size = static_cast<std::size_t>(conformance::argument_number(0));
  Scene scene(whole_spans(size));
  after_another_size(scene, whole_spans(size), size * 3 + 40);
}

CASE(double_free_place_of_smaller) {
  const auto size = static_cast<std::size_t>(conformance::argument_number(0));
  if (size < 24) no_case("there is no smaller size class");
  Scene scene(whole_spans(size));
  after_another_size(scene, whole_spans(size), size / 3);
}

CASE(double_free_local_after_remote) {
  Scene scene;
  scene.needs_two_threads();
  twice(scene, &Scene::free_by_second, 0, &Scene::free, &Scene::free_here);
}

CASE(double_free_remote_after_local) {
  Scene scene;
  scene.needs_two_threads();
  twice(scene, &Scene::free_here, 0, &Scene::free, &Scene::free_by_second);
}

CASE(double_free_local_after_remote_and_others) {
  Scene scene(kSome + 1);
  scene.needs_two_threads();
  twice(scene, &Scene::free_by_second, kSome, &Scene::free_by_second, &Scene::free_here);
}

CASE(double_free_remote_after_local_and_others) {
  Scene scene(kSome + 1);
  scene.needs_two_threads();
  twice(scene, &Scene::free_here, kSome, &Scene::free_here, &Scene::free_by_second);
}

CASE(double_free_by_two_strangers) {
  Scene scene;
  scene.needs_two_threads();
  twice(scene, &Scene::free_by_second, 0, &Scene::free, &Scene::free_by_third);
}

CASE(double_free_by_two_strangers_and_others) {
  Scene scene(kSome + 1);
  scene.needs_two_threads();
  twice(scene, &Scene::free_by_second, kSome, &Scene::free_by_second, &Scene::free_by_third);
}

// The second thread allocates so much in between that it passes on what it held back.
CASE(double_free_by_a_busy_stranger) {
  Scene scene(2);
  scene.needs_two_threads();
  void* victim = scene.own(0);
  scene.forget(victim);
  scene.free_by_second(victim);
  scene.busy_second();
  free_others(scene, 1, &Scene::free_by_second);
  scene.busy_second();
  if (Scene::ledger().has(victim)) no_case("the block was handed out again");
  scene.crime(victim);
  scene.free_by_second(victim);
  scene.finish();
}

CASE(double_sized_delete) {
  Scene scene;
  void* victim = ::operator new(scene.size());
  void* other = ::operator new(scene.size());
  ::operator delete(hide(victim), scene.size());
  ::operator delete(hide(other), scene.size());
  scene.crime(victim);
  ::operator delete(hide(victim), scene.size());
  scene.finish();
}

CASE(double_free_of_aligned) {
  Scene scene;
  const std::size_t size = multiple_of(256, scene.size());
  void* victim = hide(aligned_alloc(256, size));
  void* other = hide(aligned_alloc(256, size));
  scene.free(victim);
  scene.free(other);
  scene.crime(victim);
  scene.free(victim);
  scene.done();
  for (int i = 0; i < 64; ++i) Scene::ledger().add(hide(aligned_alloc(256, size)), size);
  scene.aftermath();
}

CASE(realloc_of_freed) {
  Scene scene(2);
  void* victim = scene.own(0);
  scene.forget(victim);
  scene.free(victim);
  free_others(scene, 1, &Scene::free);
  scene.crime(victim);
  Scene::ledger().add(hide(realloc(hide(victim), scene.size() * 4 + 100)), scene.size() * 4 + 100);
  scene.finish();
}

// The block has another owner when its first owner frees it again. Nothing in the address says who frees it.
CASE(free_of_anothers_block) {
  Scene scene;
  void* victim = scene.own(0);
  scene.forget(victim);
  scene.free(victim);
  scene.traffic();
  if (!Scene::ledger().has(victim)) no_case("nobody else has the block");
  scene.crime(victim);
  scene.free(victim);
  scene.finish();
}
