// SPDX-License-Identifier: MIT
// One stack of the span pool (section 3.3): Treiber's, with the top as one word of a span number and a tag.
//
// The paper puts 16 bits of tag above a pointer, which makes ABA unlikely. Its tag wraps after 65,536 pushes, in less
// than a millisecond. Here the top names a span by its number, 25 bits (2^24 virtual spans are 32 TiB), and the tag
// has the other 39 bits. It wraps after some hours of pushes to one stack without a pause. ABA is left only for a
// thread that is stopped inside a pop for exactly that long. Only a push changes the tag: for a stack to look the same
// after a pop, a push must have come between.
//
// A pop reads the link of the top span. Meanwhile another thread may have taken that span, handed it out and written
// to it. The link is an atomic field of the header, in the first page of the span, and that page is never given back
// or protected (Span, Arena). So the read is of valid memory, though perhaps of a wrong link. The CAS then finds
// another top.
#pragma once

#include "base/atomic.hpp"

namespace coffer::scalloc {

inline constexpr u32 kNumberBits = 25;

// Links: a type with `Atomic<u32>& link(u32 number)`, for numbers from 1 on.
class alignas(64) TreiberStack {
 public:
  template <class Links>
  void put(Links& links, u32 number) {
    put_chain(links, number, links.link(number));
  }

  // Puts a chain that is linked already, down to `last`, the link of its last span.
  template <class Links>
  void put_chain(Links&, u32 first, Atomic<u32>& last) {
    u64 top = top_.load(relaxed);  // relaxed: a first guess for the CAS
    do {
      last.store(number_of(top), relaxed);  // relaxed: published by the CAS
      // release: pairs with the acquire in get and take_all, for the link and for what is in the span. relaxed: as
      // above.
    } while (!top_.compare_exchange(top, word(first, tag_of(top) + 1), release, relaxed));
  }

  // The number of the span that was on top; 0: the stack was empty.
  template <class Links>
  u32 get(Links& links) {
    // acquire, also on failure: pairs with the release in put_chain, for the link that is read next.
    u64 top = top_.load(acquire);
    for (;;) {
      const u32 number = number_of(top);
      if (number == 0) return 0;
      const u32 below = links.link(number).load(relaxed);  // relaxed: acquired with the top, or of no account
      // acquire: as above; the span is the caller's from here on.
      if (top_.compare_exchange(top, word(below, tag_of(top)), acquire, acquire)) return number;
    }
  }

  // Empties the stack: the number of its top span, from which the links lead to the others, 0 at the end.
  u32 take_all() {
    u64 top = top_.load(relaxed);  // relaxed: a first guess for the CAS
    do {
      if (number_of(top) == 0) return 0;
      // acquire: pairs with the release in put_chain, for all links: each put continues the release sequence of the
      // last. relaxed: as above.
    } while (!top_.compare_exchange(top, word(0, tag_of(top)), acquire, relaxed));
    return number_of(top);
  }

  bool empty() const { return number_of(top_.load(relaxed)) == 0; }  // relaxed: a hint

 private:
  static constexpr u64 kNumberMask = (u64{1} << kNumberBits) - 1;
  static u32 number_of(u64 top) { return static_cast<u32>(top & kNumberMask); }
  static u64 tag_of(u64 top) { return top >> kNumberBits; }
  static u64 word(u32 number, u64 tag) { return tag << kNumberBits | number; }

  Atomic<u64> top_;
};

}  // namespace coffer::scalloc
