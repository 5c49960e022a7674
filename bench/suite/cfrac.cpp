// SPDX-License-Identifier: MIT
// Factors a number by continued fractions (Morrison and Brillhart), in the place of cfrac: hardly anything lives, and
// short-lived small blocks of numbers come and go.
//
// The expansion of the root of kN gives A(n)^2 = (-1)^(n+1) Q(n+1) modulo N with Q below 2 sqrt(kN). Those Q that have
// no prime factors outside of a factor base are kept; from more of them than the base has primes, Gaussian elimination
// over GF(2) makes products of Q that are squares, and so X^2 = Y^2 modulo N; gcd(X - Y, N) is often a factor.
//
// The number grows with scale=, up to 40 digits: four digits more are five to ten times the work. An operation is a
// step of the expansion. The result is checked: the factors' product is the number.
#include <utility>

#include "big.hpp"

namespace {

using suite::Big;

// Products of two primes of about the same length, and the share of the work of the last one (measured).
struct Task {
  double share;
  const char* number;
};

constexpr Task kTasks[] = {
    {0, "1165292925197581"},
    {0.0007, "38380950372519020027"},
    {0.0022, "191969418435907103242841"},
    {0.0066, "7733346750063439292234458201"},
    {0.043, "31378026359617638513912114447077"},
    {0.1, "4591026621908317222385743361700751"},
    {0.22, "127684932715075365029828770557735349"},
    {1, "4947279453462714646493046596472882843049"},
};

struct Relation {
  Big a;               // A(n) modulo N
  uint8_t* exponents;  // of -1 and each prime of the base in Q
  uint64_t* parities;  // of the exponents, a bit each
  uint64_t* combined;  // the relations in this row of the elimination, a bit each
};

struct Base {
  uint32_t* primes;
  size_t count;
};

// Primes modulo which kN is a square, and so may divide a Q.
Base make_base(const Big& kn, size_t count) {
  Base base{suite::make<uint32_t>(count), 0};
  base.primes[base.count++] = 2;
  for (uint32_t p = 3; base.count < count; p += 2) {
    bool prime = true;
    for (uint32_t d = 3; prime && d * d <= p; d += 2) prime = p % d != 0;
    if (!prime) continue;
    // Euler's criterion.
    uint64_t power = 1, value = kn % p;
    for (uint32_t exponent = (p - 1) / 2; exponent > 0; exponent /= 2, value = value * value % p) {
      if (exponent % 2 == 1) power = power * value % p;
    }
    if (power <= 1) base.primes[base.count++] = p;
  }
  return base;
}

// The exponents of q over the base; null if another prime divides it. A q of which the first primes have divided out
// hardly anything is given up early.
uint8_t* factor(const Base& base, const Big& q, bool negative) {
  uint8_t* exponents = suite::make<uint8_t>(base.count + 1);
  exponents[0] = negative;
  Big rest = q;
  size_t early = base.count / 8;
  for (size_t i = 0; i < base.count && rest.bits() > 1; ++i) {
    uint32_t p = base.primes[i];
    while (rest % p == 0) {
      rest = rest / p;
      ++exponents[i + 1];
    }
    if (i == early && rest.bits() + 8 > q.bits()) break;
  }
  if (rest.bits() == 1) return exponents;
  suite::release(exponents);
  return nullptr;
}

class Factoriser {
 public:
  Factoriser(const Big& n, size_t primes) : n_(n), base_(make_base(n, primes)), wanted_(base_.count + 16) {
    words_ = (wanted_ + 63) / 64;
    relations_ = suite::make<Relation>(wanted_);
  }

  ~Factoriser() {
    for (size_t i = 0; i < count_; ++i) {
      relations_[i].a.~Big();
      suite::release(relations_[i].exponents);
      suite::release(relations_[i].parities);
      suite::release(relations_[i].combined);
    }
    suite::release(relations_);
    suite::release(base_.primes);
  }

  // Expands the root and keeps relations until there are enough of them. Returns the number of steps.
  size_t collect() {
    Big root = square_root(n_), p, q(1), q_before = n_, quotient = root, a_before(1), a = root;
    size_t steps = 0;
    for (; count_ < wanted_; ++steps) {
      Big p_next = quotient * q - p;
      // Q(n+1) = Q(n-1) + quotient (P(n) - P(n+1)), whose difference may be below zero.
      Big q_next = steps == 0 ? n_ - p_next * p_next
                              : (p < p_next ? q_before - quotient * (p_next - p) : q_before + quotient * (p - p_next));
      keep(a, q_next, steps % 2 == 0);
      q_before = static_cast<Big&&>(q);
      q = static_cast<Big&&>(q_next);
      p = static_cast<Big&&>(p_next);
      suite::require(q.bits() > 1, "the expansion has come to its end");
      quotient = (root + p) / q;
      Big a_next = (quotient * a + a_before) % n_;
      a_before = static_cast<Big&&>(a);
      a = static_cast<Big&&>(a_next);
    }
    return steps;
  }

  // A factor of n, or 1.
  Big solve() {
    for (size_t column = 0, row = 0; column <= base_.count; ++column) {
      size_t pivot = row;
      while (pivot < count_ && !bit(relations_[pivot].parities, column)) ++pivot;
      if (pivot == count_) continue;
      swap_rows(relations_[row], relations_[pivot]);
      for (size_t i = row + 1; i < count_; ++i) {
        if (bit(relations_[i].parities, column)) add_row(relations_[i], relations_[row]);
      }
      ++row;
      first_free_ = row;
    }
    for (size_t i = first_free_; i < count_; ++i) {
      Big factor = try_row(relations_[i].combined);
      if (factor.bits() > 1 && factor < n_) return factor;
    }
    return Big(1);
  }

  size_t relations() const { return count_; }

 private:
  static bool bit(const uint64_t* bits, size_t index) { return bits[index / 64] >> index % 64 & 1; }

  void keep(const Big& a, const Big& q, bool negative) {
    uint8_t* exponents = factor(base_, q, negative);
    if (exponents == nullptr) return;
    uint64_t* parities = suite::make<uint64_t>(words_);
    for (size_t i = 0; i <= base_.count; ++i) parities[i / 64] |= static_cast<uint64_t>(exponents[i] % 2) << i % 64;
    uint64_t* combined = suite::make<uint64_t>(words_);
    combined[count_ / 64] = uint64_t{1} << count_ % 64;
    new (&relations_[count_++]) Relation{a, exponents, parities, combined};
  }

  // The elimination moves its rows only: relations stay where they are, since `combined` names them by number.
  static void swap_rows(Relation& a, Relation& b) {
    std::swap(a.parities, b.parities);
    std::swap(a.combined, b.combined);
  }

  void add_row(Relation& to, const Relation& from) const {
    for (size_t i = 0; i < words_; ++i) {
      to.parities[i] ^= from.parities[i];
      to.combined[i] ^= from.combined[i];
    }
  }

  Big try_row(const uint64_t* combined) {
    size_t* sums = suite::make<size_t>(base_.count + 1);
    Big x(1), y(1);
    for (size_t i = 0; i < count_; ++i) {
      if (!bit(combined, i)) continue;
      x = x * relations_[i].a % n_;
      for (size_t j = 0; j <= base_.count; ++j) sums[j] += relations_[i].exponents[j];
    }
    for (size_t j = 0; j <= base_.count; ++j) {
      suite::require(sums[j] % 2 == 0, "a product is no square");
      for (size_t k = 0; j > 0 && k < sums[j] / 2; ++k) y = y * base_.primes[j - 1] % n_;
    }
    suite::release(sums);
    suite::require(x * x % n_ == y * y % n_, "squares differ");
    return gcd(x < y ? y - x : x - y, n_);
  }

  const Big& n_;
  Base base_;
  size_t wanted_, words_ = 0, count_ = 0, first_free_ = 0;
  Relation* relations_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "cfrac", "Wilson and Johnstone's programs, of which Hoard 5 takes some",
                 "factors a number by continued fractions");
  const char* number = run.text("number", "", "the number; default: one of our own, the longest that scale= allows");
  size_t primes = run.number("primes", 0, "primes in the factor base; 0: as many as suit the number", 0, 5000);
  run.begin(1);

  if (*number == 0) {
    number = kTasks[0].number;
    for (const Task& task : kTasks) number = task.share <= run.scale() ? task.number : number;
  }
  run.start();
  size_t steps = 0;
  uint64_t checksum = 0;
  {
    Big n = Big::decimal(number);
    suite::require(!n.even() && n.bits() > 40, "the number is odd and has 13 digits at least");
    if (primes == 0) primes = n.bits() * n.bits() / 40;
    Factoriser factoriser(n, primes);
    steps = factoriser.collect();
    Big factor = factoriser.solve(), other = n / factor;
    suite::require(factor.bits() > 1 && other.bits() > 1 && factor * other == n, "no factor was found");
    checksum = suite::mix(factor.hash()) + suite::mix(other.hash()) + steps;
    run.add("digits", static_cast<double>(strlen(number)));
    run.add("relations", static_cast<double>(factoriser.relations()));
  }
  run.stop();
  run.report(steps, checksum);
}
