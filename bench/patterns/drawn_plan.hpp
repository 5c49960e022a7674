// SPDX-License-Identifier: MIT
// What a program drawn at random does: everything about it follows from its seed.
//
// Sizes come from tables of quantiles, so that a draw is one load. Exponentials and powers go through libm once for
// each entry of a table and are rounded to whole bytes, so that the same seed is the same program on every machine.
#pragma once

#include <math.h>

#include "pattern.hpp"

namespace drawn {

using pattern::Random;

// Of kEntries blocks that a real program asked for, how many had this size.
struct Part {
  uint32_t size, count;
};
struct Trace {
  const char* name;
  const Part* parts;
};
#include "drawn_histograms.inc"
inline constexpr size_t kHistograms = sizeof kTraces / sizeof kTraces[0];

inline constexpr size_t kMostThreads = 64, kMostPhases = 20, kEntries = 4096;
inline constexpr size_t kLeastBytes = 8'000'000, kMostBytes = 200'000'000;
// What keeps a run under two seconds: blocks at a time, blocks in all, bytes in all.
inline constexpr double kMostBlocks = 600e3, kMostCalls = 4e6, kMostWritten = 1.5e9;

// Independent of the streams of other seeds: those that Random gives for neighbours are the same numbers, shifted.
inline Random stream(size_t seed, size_t index) { return Random(Random(seed * (kMostThreads + 1) + index).next()); }

inline double unit(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }
inline bool chance(Random& random, double p) { return unit(random) < p; }
inline double uniform(Random& random, double low, double high) { return low + (high - low) * unit(random); }
// As many in each octave.
inline double spread(Random& random, double low, double high) { return low * pow(high / low, unit(random)); }

enum class Kind : uint8_t { fixed, narrow, uniform, exponential, octaves, bimodal, histogram };
inline constexpr const char* kKinds[] = {"fixed",   "narrow",  "uniform",  "exponential",
                                         "octaves", "bimodal", "histogram"};
inline constexpr size_t kKindCount = sizeof kKinds / sizeof kKinds[0];

// A distribution of sizes. `mean` is about the mean for the first four; where a bimodal one has its smaller sizes; the
// geometric middle of `octaves`.
struct Shape {
  Kind kind;
  double mean, wide, share;
  size_t trace;

  static Shape draw(Random& random) {
    Shape shape{};
    // Real programs twice as often as any formula.
    const size_t kind = random.below(kKindCount + 1);
    shape.kind = kind < kKindCount ? static_cast<Kind>(kind) : Kind::histogram;
    // One in six has large blocks.
    shape.mean = chance(random, 1.0 / 6) ? spread(random, 4096, 32768) : spread(random, 24, 4096);
    shape.wide = shape.kind == Kind::bimodal ? spread(random, 8, 256) : spread(random, 1.2, 2);
    shape.share = uniform(random, 0.8, 0.99);
    shape.trace = random.below(kHistograms);
    return shape;
  }

  // The size below which the part q of all blocks is.
  double quantile(double q) const {
    switch (kind) {
      case Kind::fixed:
        return mean;
      case Kind::narrow:
        return mean * (1 + (wide - 1) * q);
      case Kind::uniform:
        return 16 + (2 * mean - 16) * q;
      case Kind::exponential:
        return 1 - mean * log(1 - q);
      case Kind::octaves:
        return mean * exp2(8 * q - 4);
      case Kind::bimodal:
        return q < share ? mean * (1 + q / share / 2) : mean * wide * (1 + (q - share) / (1 - share));
      case Kind::histogram:
        break;
    }
    const Part* part = kTraces[trace].parts;
    for (double left = q * kEntries; left > part->count; ++part) left -= part->count;
    return part->size;
  }
};

// Sizes of one phase. No block is larger than `most`, so that each thread has several.
struct Sizes {
  uint32_t entries[kEntries];
  double mean, deviation;

  void make(const Shape& shape, double most) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < kEntries; ++i) {
      double size = floor(shape.quantile((static_cast<double>(i) + 0.5) / kEntries) + 0.5);
      size = size < 1 ? 1 : size > most ? floor(most) : size;
      entries[i] = static_cast<uint32_t>(size);
      sum += size, squares += size * size;
    }
    mean = sum / kEntries;
    deviation = sqrt(squares / kEntries - mean * mean);
  }

  size_t draw(Random& random) const { return entries[random.below(kEntries)]; }

  // More blocks than this do not fit `bytes`, but by a chance that nobody meets.
  size_t most_blocks(double bytes) const {
    double count = bytes / mean + 1;
    return static_cast<size_t>(count + 10 * sqrt(count) * (1 + deviation / mean)) + 100;
  }
};

enum class Order : uint8_t { as_allocated, reversed, shuffled };
inline constexpr const char* kOrders[] = {"as allocated", "reversed", "shuffled"};

struct Plan {
  size_t seed, threads, phases, bytes;
  double survival;    // part of a phase's blocks that stays when the phase ends
  size_t run;         // survivors come in runs of so many neighbours
  size_t life;        // phases that survivors stay for
  double handover;    // part of a phase's blocks that another thread gets and frees
  bool to_one;        // all of that goes to the first thread, else to the next one
  double churn;       // part of the blocks that are replaced, one by one, when a phase is full
  bool renewed;       // threads end with each phase, and others begin
  size_t pause_ms;    // after each phase
  Order order;        // of frees
  const char* shift;  // how sizes move from phase to phase
  Shape shapes[kMostPhases];
  double levels[kMostPhases];  // how full each phase is, of `bytes`

  static size_t draw_threads(Random& random) {
    return chance(random, 0.25) ? 1 : static_cast<size_t>(spread(random, 2, kMostThreads + 0.99));
  }

  // From none to all.
  static double draw_handover(Random& random) {
    const double u = unit(random);
    return u < 1.0 / 3 ? 0 : u < 0.5 ? 1 : uniform(random, 0.01, 0.99);
  }

  void draw(size_t number) {
    seed = number;
    Random random = stream(seed, 0);
    threads = draw_threads(random);
    phases = random.between(3, kMostPhases);
    survival = spread(random, 0.005, 0.2);
    run = chance(random, 0.5) ? 1 : static_cast<size_t>(spread(random, 2, 64));
    life = random.between(1, phases);
    handover = draw_handover(random);
    if (threads == 1) handover = 0;
    to_one = chance(random, 0.25);
    churn = chance(random, 0.5) ? 0 : uniform(random, 0.1, 1);
    renewed = threads > 1 && chance(random, 0.25);
    pause_ms = chance(random, 2.0 / 3) ? 0 : random.between(1, 20);
    order = static_cast<Order>(random.below(3));
    draw_sizes(random);
    for (double& level : levels) level = chance(random, 0.5) ? 1 : uniform(random, 0.4, 1);
    levels[random.below(phases)] = 1;
    const double wanted = spread(random, kLeastBytes, kMostBytes);
    fit(wanted);
  }

  // The same sizes in all phases, others in each, or sizes that grow or shrink by a factor.
  void draw_sizes(Random& random) {
    const size_t way = random.below(3);
    const double factor = spread(random, 1.1, 2);
    const bool down = chance(random, 0.5);
    shift = way == 0 ? "same" : way == 1 ? "other" : down ? "shrink" : "grow";
    for (size_t i = 0; i < kMostPhases; ++i) {
      shapes[i] = i == 0 || way == 1 ? Shape::draw(random) : shapes[i - 1];
      if (i == 0 || way != 2) continue;
      const double mean = shapes[i].mean * (down ? 1 / factor : factor);
      shapes[i].mean = mean < 16 || mean > 65536 ? shapes[0].mean : mean;
    }
  }

  // As large and as long as a run may take.
  void fit(double wanted) {
    double least = 1e9;
    for (size_t i = 0; i < phases; ++i) {
      Sizes sizes;
      sizes.make(shapes[i], largest(wanted));
      if (sizes.mean < least) least = sizes.mean;
    }
    const double most = least * kMostBlocks;
    bytes = static_cast<size_t>(wanted < most ? wanted : most > kLeastBytes ? most : kLeastBytes);
    const double each = static_cast<double>(bytes) * (1 + churn), calls = each / least;
    while (phases > 2 &&
           (static_cast<double>(phases) * calls > kMostCalls || static_cast<double>(phases) * each > kMostWritten)) {
      --phases;
    }
    if (life > phases) life = phases;
    bool full = false;
    for (size_t i = 0; i < phases; ++i) full = full || levels[i] == 1;
    if (!full) levels[phases - 1] = 1;
  }

  double largest(double total) const { return total / static_cast<double>(threads) / 8; }
  size_t goal(size_t phase) const {
    return static_cast<size_t>(static_cast<double>(bytes) / static_cast<double>(threads) * levels[phase]);
  }
};

}  // namespace drawn
