// SPDX-License-Identifier: MIT
// Two-level logic minimisation, in the place of espresso: covers of cubes, each cube a block, are cofactored, tested
// for tautology and thrown away by the thousand, in blocks of many small sizes; little lives at any time.
//
// A function has `inputs` inputs and `outputs` outputs. A cube is a product of literals and the outputs that it belongs
// to: two bits for each input (may it be 0, may it be 1), one for each output. As in espresso, outputs are one more
// variable with many values, and the steps are
//   expand:       raise bits of a cube one by one as long as it meets nothing of the complement; drop cubes it covers
//   irredundant:  drop cubes that the others cover
//   reduce:       lower bits of a cube whose part the others cover
// again and again, as long as cubes or literals become fewer. The functions are made up: random cubes. The result is
// checked at every point of the input space. An operation is a function that is minimised.
#include <bit>

#include "suite.hpp"

namespace {

constexpr size_t kMostInputs = 14, kMostOutputs = 32;

size_t inputs, outputs;
uint64_t output_mask, full;

// A cube in a block of its own. Bits 2i and 2i+1 are those of input i, outputs follow.
struct Cube {
  uint64_t bits;
  uint64_t weight;
};

uint64_t part(size_t variable) { return variable == inputs ? output_mask : uint64_t{3} << 2 * variable; }

bool empty(uint64_t bits) {
  // An input without a value, or no output.
  uint64_t either = (bits | bits >> 1) & 0x5555555555555555u & ~output_mask & full;
  return either != (0x5555555555555555u & ~output_mask & full) || (bits & output_mask) == 0;
}

class Cover {
 public:
  Cover() = default;
  Cover(Cover&& other) : cubes_(other.cubes_), count_(other.count_), capacity_(other.capacity_) {
    other.cubes_ = nullptr;
    other.count_ = other.capacity_ = 0;
  }
  Cover& operator=(Cover&&) = delete;
  ~Cover() {
    for (size_t i = 0; i < count_; ++i) suite::release(cubes_[i]);
    suite::release(cubes_);
  }

  void add(uint64_t bits) {
    if (count_ == capacity_) {
      capacity_ = capacity_ == 0 ? 4 : capacity_ + capacity_ / 2;
      cubes_ = static_cast<Cube**>(suite::reallocate(cubes_, capacity_ * sizeof *cubes_));
    }
    Cube* cube = static_cast<Cube*>(suite::allocate(sizeof(Cube)));
    *cube = {bits, 0};
    cubes_[count_++] = cube;
  }

  void drop(size_t index) {
    suite::release(cubes_[index]);
    for (size_t i = index + 1; i < count_; ++i) cubes_[i - 1] = cubes_[i];
    --count_;
  }

  // Cubes with many bits first, or last.
  void sort(bool large_first) {
    for (size_t i = 0; i < count_; ++i) {
      cubes_[i]->weight = static_cast<uint64_t>(std::popcount(cubes_[i]->bits));
      if (large_first) cubes_[i]->weight = 64 - cubes_[i]->weight;
    }
    // By insertion, which keeps the order of equal ones.
    for (size_t i = 1; i < count_; ++i) {
      Cube* cube = cubes_[i];
      size_t at = i;
      for (; at > 0 && cubes_[at - 1]->weight > cube->weight; --at) cubes_[at] = cubes_[at - 1];
      cubes_[at] = cube;
    }
  }

  size_t count() const { return count_; }
  uint64_t& operator[](size_t index) { return cubes_[index]->bits; }
  uint64_t operator[](size_t index) const { return cubes_[index]->bits; }

 private:
  Cube** cubes_ = nullptr;
  size_t count_ = 0, capacity_ = 0;
};

// The part of the cover within the cube, seen from there; without cube number `except`.
Cover cofactor(const Cover& cover, uint64_t within, size_t except = SIZE_MAX) {
  Cover result;
  for (size_t i = 0; i < cover.count(); ++i) {
    if (i != except && !empty(cover[i] & within)) result.add(cover[i] | (full & ~within));
  }
  return result;
}

// The variable on which most cubes depend; inputs + 1 if none does.
size_t choose_variable(const Cover& cover) {
  size_t best = inputs + 1, most = 0;
  for (size_t variable = 0; variable <= inputs; ++variable) {
    size_t depending = 0;
    for (size_t i = 0; i < cover.count(); ++i) depending += (cover[i] & part(variable)) != part(variable);
    if (depending > most) {
      most = depending;
      best = variable;
    }
  }
  return best;
}

// Does the cover contain every point?
bool tautology(const Cover& cover) {
  uint64_t together = 0;
  for (size_t i = 0; i < cover.count(); ++i) {
    if (cover[i] == full) return true;
    together |= cover[i];
  }
  if (together != full) return false;
  size_t variable = choose_variable(cover);
  for (uint64_t rest = part(variable); rest != 0; rest &= rest - 1) {
    uint64_t value = rest & -rest;
    if (!tautology(cofactor(cover, (full & ~part(variable)) | value))) return false;
  }
  return true;
}

bool covers(const Cover& cover, uint64_t cube, size_t except = SIZE_MAX) {
  return tautology(cofactor(cover, cube, except));
}

// Adds the points within `within` that the cover, seen from there, does not contain.
void complement(const Cover& cover, uint64_t within, Cover& result) {
  if (cover.count() == 0) return result.add(within);
  for (size_t i = 0; i < cover.count(); ++i) {
    if (cover[i] == full) return;
  }
  size_t variable = choose_variable(cover);
  for (uint64_t rest = part(variable); rest != 0; rest &= rest - 1) {
    uint64_t half = (full & ~part(variable)) | (rest & -rest);
    complement(cofactor(cover, half), within & half, result);
  }
}

// Raises bits as long as the cube meets no cube of `off`; the bits that most cubes of the cover have come first.
uint64_t expand_cube(uint64_t cube, const Cover& cover, const Cover& off) {
  uint64_t tried = cube;
  while (tried != full) {
    uint64_t best = 0;
    size_t most = 0;
    for (uint64_t rest = full & ~tried; rest != 0; rest &= rest - 1) {
      uint64_t bit = rest & -rest;
      size_t having = 1;
      for (size_t i = 0; i < cover.count(); ++i) having += (cover[i] & bit) != 0;
      if (having > most) {
        most = having;
        best = bit;
      }
    }
    tried |= best;
    bool meets = false;
    for (size_t i = 0; i < off.count() && !meets; ++i) meets = !empty(off[i] & (cube | best));
    if (!meets) cube |= best;
  }
  return cube;
}

void expand(Cover& cover, const Cover& off) {
  cover.sort(false);
  for (size_t i = 0; i < cover.count(); ++i) {
    uint64_t cube = cover[i] = expand_cube(cover[i], cover, off);
    for (size_t j = cover.count(); j-- > 0;) {
      if (j == i || (cover[j] & ~cube) != 0) continue;
      cover.drop(j);
      i -= j < i;
    }
  }
}

void irredundant(Cover& cover) {
  cover.sort(false);
  for (size_t i = 0; i < cover.count();) {
    covers(cover, cover[i], i) ? cover.drop(i) : static_cast<void>(++i);
  }
}

void reduce(Cover& cover) {
  cover.sort(true);
  for (size_t i = 0; i < cover.count(); ++i) {
    for (size_t variable = 0; variable <= inputs; ++variable) {
      uint64_t rest = cover[i] & part(variable);
      for (; rest != 0; rest &= rest - 1) {
        uint64_t bit = rest & -rest, slice = (cover[i] & ~part(variable)) | bit;
        if ((cover[i] & part(variable)) != bit && covers(cover, slice, i)) cover[i] &= ~bit;
      }
    }
  }
}

size_t cost(const Cover& cover) {
  size_t literals = 0;
  for (size_t i = 0; i < cover.count(); ++i) literals += static_cast<size_t>(std::popcount(full & ~cover[i]));
  return cover.count() * 1000 + literals;
}

// Returns the number of turns.
size_t minimise(Cover& cover) {
  Cover off;
  complement(cover, full, off);
  expand(cover, off);
  irredundant(cover);
  size_t turns = 1;
  for (size_t best = cost(cover); turns < 20; ++turns) {
    reduce(cover);
    expand(cover, off);
    irredundant(cover);
    size_t now = cost(cover);
    if (now >= best) break;
    best = now;
  }
  return turns;
}

Cover make_function(suite::Random& random, size_t cubes) {
  Cover result;
  for (size_t i = 0; i < cubes; ++i) {
    uint64_t bits = full;
    for (size_t input = 0; input < inputs; ++input) {
      if (random.below(100) < 45) bits &= ~(uint64_t{1} << (2 * input + random.below(2)));
    }
    uint64_t chosen = 0;
    for (size_t turn = 0; turn < 2; ++turn) chosen |= uint64_t{1} << (2 * inputs + random.below(outputs));
    result.add((bits & ~output_mask) | chosen);
  }
  return result;
}

// The outputs at a point.
uint64_t value(const Cover& cover, size_t point) {
  uint64_t bits = 0, result = 0;
  for (size_t input = 0; input < inputs; ++input) bits |= uint64_t{1} << (2 * input + (point >> input & 1));
  for (size_t i = 0; i < cover.count(); ++i) {
    if ((cover[i] & bits) == bits) result |= cover[i] & output_mask;
  }
  return result;
}

void check(const Cover& a, const Cover& b) {
  for (size_t point = 0; point < size_t{1} << inputs; ++point) {
    suite::require(value(a, point) == value(b, point), "the minimised function is another one");
  }
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "minimise", "Hoard 5.4, table 4 (espresso)", "two-level minimisation of logic functions");
  inputs = run.number("inputs", 10, "inputs of a function", 1, kMostInputs);
  outputs = run.number("outputs", 4, "outputs of a function", 1, kMostOutputs);
  size_t cubes = run.number("cubes", 60, "cubes of a function before", 1, 10'000);
  size_t functions =
      run.scaled("functions", 18, "functions; so that as many blocks are allocated as in the paper, 1.7 million");
  run.begin(1);

  output_mask = ((uint64_t{1} << outputs) - 1) << 2 * inputs;
  full = ((uint64_t{1} << 2 * inputs) - 1) | output_mask;
  suite::Random random(run.seed());
  uint64_t checksum = 0, check_ns = 0;
  size_t before = 0, after = 0;
  run.start();
  for (size_t i = 0; i < functions; ++i) {
    suite::Random copy = random;
    Cover function = make_function(random, cubes), same = make_function(copy, cubes);
    before += function.count();
    size_t turns = minimise(function);
    after += function.count();
    suite::Stopwatch checking;
    check(function, same);
    check_ns += checking.ns();
    for (size_t j = 0; j < function.count(); ++j) checksum = suite::mix(checksum + function[j] + turns);
  }
  run.stop();
  run.phase("check", check_ns);
  run.add("cubes_before", static_cast<double>(before));
  run.add("cubes_after", static_cast<double>(after));
  run.report(functions, checksum);
}
