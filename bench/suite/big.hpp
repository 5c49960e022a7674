// SPDX-License-Identifier: MIT
// Natural numbers of any length, in the manner of programs that compute with them: every result is a new block of its
// own length, freed when its value is no longer needed. 32-bit limbs, lowest first, schoolbook methods.
#pragma once

#include <bit>

#include "suite.hpp"

namespace suite {

class Big {
 public:
  explicit Big(uint64_t value = 0) : Big(2, Room{}) {
    number_->limbs[0] = static_cast<uint32_t>(value);
    number_->limbs[1] = static_cast<uint32_t>(value >> 32);
    trim();
  }

  static Big decimal(const char* text) {
    Big result;
    for (; *text >= '0' && *text <= '9'; ++text) result = result * 10 + Big(static_cast<uint64_t>(*text - '0'));
    return result;
  }

  Big(Big&& other) : number_(other.number_) { other.number_ = nullptr; }
  Big& operator=(Big&& other) {
    Number* mine = number_;
    number_ = other.number_;
    other.number_ = mine;
    return *this;
  }
  Big(const Big& other) : Big(other.size(), Room{}) { memcpy(limbs(), other.limbs(), size() * sizeof(uint32_t)); }
  Big& operator=(const Big& other) { return *this = Big(other); }
  ~Big() {
    if (number_ != nullptr) release(number_);
  }

  size_t size() const { return number_->size; }
  bool zero() const { return size() == 0; }
  bool even() const { return zero() || limbs()[0] % 2 == 0; }
  size_t bits() const { return zero() ? 0 : size() * 32 - static_cast<size_t>(std::countl_zero(limbs()[size() - 1])); }
  // The value, if it has 64 bits at most.
  uint64_t low() const { return zero() ? 0 : limbs()[0] + (size() > 1 ? static_cast<uint64_t>(limbs()[1]) << 32 : 0); }
  uint64_t hash() const { return hash_bytes(limbs(), size() * sizeof(uint32_t)); }

  // Below, equal, above: -1, 0, 1.
  int compare(const Big& other) const {
    if (size() != other.size()) return size() < other.size() ? -1 : 1;
    for (size_t i = size(); i-- > 0;) {
      if (limbs()[i] != other.limbs()[i]) return limbs()[i] < other.limbs()[i] ? -1 : 1;
    }
    return 0;
  }
  bool operator==(const Big& other) const { return compare(other) == 0; }
  bool operator<(const Big& other) const { return compare(other) < 0; }

  Big operator+(const Big& other) const {
    const Big& longer = size() < other.size() ? other : *this;
    const Big& shorter = size() < other.size() ? *this : other;
    Big result(longer.size() + 1, Room{});
    uint64_t carry = 0;
    for (size_t i = 0; i < longer.size(); ++i) {
      carry += static_cast<uint64_t>(longer.limbs()[i]) + (i < shorter.size() ? shorter.limbs()[i] : 0);
      result.limbs()[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    result.limbs()[longer.size()] = static_cast<uint32_t>(carry);
    return result.trim();
  }

  // Not below other.
  Big operator-(const Big& other) const {
    Big result(size(), Room{});
    int64_t borrow = 0;
    for (size_t i = 0; i < size(); ++i) {
      borrow += static_cast<int64_t>(limbs()[i]) - (i < other.size() ? other.limbs()[i] : 0);
      result.limbs()[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    require(borrow == 0, "a difference below zero");
    return result.trim();
  }

  Big operator*(const Big& other) const {
    Big result(size() + other.size(), Room{});
    memset(result.limbs(), 0, result.size() * sizeof(uint32_t));
    for (size_t i = 0; i < size(); ++i) {
      uint64_t carry = 0;
      for (size_t j = 0; j < other.size(); ++j) {
        carry += static_cast<uint64_t>(limbs()[i]) * other.limbs()[j] + result.limbs()[i + j];
        result.limbs()[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
      result.limbs()[i + other.size()] = static_cast<uint32_t>(carry);
    }
    return result.trim();
  }
  Big operator*(uint32_t other) const { return *this * Big(other); }

  Big operator/(uint32_t divisor) const {
    Big result(size(), Room{});
    uint64_t rest = 0;
    for (size_t i = size(); i-- > 0;) {
      rest = rest << 32 | limbs()[i];
      result.limbs()[i] = static_cast<uint32_t>(rest / divisor);
      rest %= divisor;
    }
    return result.trim();
  }
  uint32_t operator%(uint32_t divisor) const {
    uint64_t rest = 0;
    for (size_t i = size(); i-- > 0;) rest = (rest << 32 | limbs()[i]) % divisor;
    return static_cast<uint32_t>(rest);
  }

  Big operator/(const Big& divisor) const {
    Big rest;
    return divide(divisor, rest);
  }
  Big operator%(const Big& divisor) const {
    Big rest;
    divide(divisor, rest);
    return rest;
  }

 private:
  struct Number {
    uint32_t size;
    uint32_t limbs[];
  };
  struct Room {};

  // Limbs that still have to be written.
  Big(size_t size, Room) : number_(static_cast<Number*>(allocate(sizeof(Number) + size * sizeof(uint32_t)))) {
    number_->size = static_cast<uint32_t>(size);
  }

  uint32_t* limbs() { return number_->limbs; }
  const uint32_t* limbs() const { return number_->limbs; }

  Big&& trim() {
    while (number_->size > 0 && limbs()[number_->size - 1] == 0) --number_->size;
    return static_cast<Big&&>(*this);
  }

  Big shifted(size_t bits) const {
    Big result(size() + 1, Room{});
    uint64_t carry = 0;
    for (size_t i = 0; i < size(); ++i) {
      carry |= static_cast<uint64_t>(limbs()[i]) << bits;
      result.limbs()[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    result.limbs()[size()] = static_cast<uint32_t>(carry);
    return result;
  }

  // Knuth's algorithm D.
  Big divide(const Big& divisor, Big& rest) const {
    require(!divisor.zero(), "division by zero");
    if (*this < divisor) {
      rest = *this;
      return Big();
    }
    if (divisor.size() == 1) {
      rest = Big(*this % divisor.limbs()[0]);
      return *this / divisor.limbs()[0];
    }
    size_t shift = static_cast<size_t>(std::countl_zero(divisor.limbs()[divisor.size() - 1])), n = divisor.size();
    Big above = shifted(shift), below = divisor.shifted(shift);
    uint32_t* u = above.limbs();
    const uint32_t* v = below.limbs();
    Big result(size() - n + 1, Room{});
    for (size_t j = size() - n + 1; j-- > 0;) {
      uint64_t top = static_cast<uint64_t>(u[j + n]) << 32 | u[j + n - 1], guess = top / v[n - 1],
               left = top % v[n - 1];
      while (guess >> 32 != 0 || guess * v[n - 2] > (left << 32 | u[j + n - 2])) {
        --guess;
        left += v[n - 1];
        if (left >> 32 != 0) break;
      }
      int64_t borrow = 0;
      uint64_t carry = 0;
      for (size_t i = 0; i <= n; ++i) {
        carry += i < n ? guess * v[i] : 0;
        borrow += static_cast<int64_t>(u[i + j]) - static_cast<uint32_t>(carry);
        u[i + j] = static_cast<uint32_t>(borrow);
        borrow >>= 32;
        carry >>= 32;
      }
      if (borrow < 0) {
        --guess;
        carry = 0;
        for (size_t i = 0; i <= n; ++i) {
          carry += static_cast<uint64_t>(u[i + j]) + (i < n ? v[i] : 0);
          u[i + j] = static_cast<uint32_t>(carry);
          carry >>= 32;
        }
      }
      result.limbs()[j] = static_cast<uint32_t>(guess);
    }
    above.trim();
    rest = Big(n, Room{});
    for (size_t i = 0; i < n; ++i) {
      uint64_t low = i < above.size() ? above.limbs()[i] : 0, high = i + 1 < above.size() ? above.limbs()[i + 1] : 0;
      rest.limbs()[i] = static_cast<uint32_t>((high << 32 | low) >> shift);
    }
    rest.trim();
    return result.trim();
  }

  Number* number_;
};

inline Big square_root(const Big& of) {
  // Newton's iteration from above.
  Big guess(1);
  for (size_t i = 0; i < of.bits() / 2 + 1; ++i) guess = guess * 2;
  while (true) {
    Big next = (guess + of / guess) / 2;
    if (!(next < guess)) return guess;
    guess = static_cast<Big&&>(next);
  }
}

inline Big gcd(Big a, Big b) {
  while (!b.zero()) {
    Big rest = a % b;
    a = static_cast<Big&&>(b);
    b = static_cast<Big&&>(rest);
  }
  return a;
}

}  // namespace suite
