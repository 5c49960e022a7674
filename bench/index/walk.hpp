// SPDX-License-Identifier: MIT
// What the index benchmarks share. Each makes its blocks, and then goes over them again and again: a lap. A lap is
// either timed, or listed: with list=1 the program prints the addresses that one lap reads or writes, for the simulator
// (tools/index/simulate.cpp), instead of times:
//
//   STREAM ADDRESS      streams are the threads; one line for each access, in order
//
// A lap is written once, over a function `see` that it calls with each address it is about to use; when it is timed,
// that function is empty.
#pragma once

#include <stdarg.h>

#include "../workloads/bench.hpp"

namespace walk {

using bench::require;

class List {
 public:
  List() : text_(bench::table<char>(kBytes)) { put("# library=%s\n", bench::Measurement::library()); }

  void see(size_t stream, const void* address) {
    if (length_ + 64 > kBytes) flush();
    char* out = text_ + length_;
    out = number(out, stream);
    *out++ = ' ';
    *out++ = '0';
    *out++ = 'x';
    out = hexadecimal(out, reinterpret_cast<uintptr_t>(address));
    *out++ = '\n';
    length_ = static_cast<size_t>(out - text_);
  }

  void flush() {
    for (size_t done = 0; done < length_;) {
      ssize_t wrote = write(STDOUT_FILENO, text_ + done, length_ - done);
      require(wrote > 0, "cannot write");
      done += static_cast<size_t>(wrote);
    }
    length_ = 0;
  }

 private:
  static constexpr size_t kBytes = 1 << 20;

  [[gnu::format(printf, 2, 3)]] void put(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    length_ += static_cast<size_t>(vsnprintf(text_ + length_, kBytes - length_, format, arguments));
    va_end(arguments);
  }

  static char* number(char* out, size_t value) {
    char digits[24];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
    } while ((value /= 10) != 0);
    while (count > 0) *out++ = digits[--count];
    return out;
  }

  static char* hexadecimal(char* out, size_t value) {
    int shift = 60;
    while (shift > 0 && (value >> shift) == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) *out++ = "0123456789abcdef"[(value >> shift) & 15];
    return out;
  }

  char* text_;
  size_t length_ = 0;
};

// Keeps a result alive.
inline void use(uint64_t value) { asm volatile("" : : "r"(value)); }

// Times `laps` laps of `steps` steps, at least one, or lists one.
template <class Lap>
void run(bool list, size_t laps, size_t steps, Lap&& lap) {
  if (list) {
    List out;
    lap([&](const void* address) { out.see(0, address); });
    out.flush();
    return;
  }
  auto nothing = [](const void*) {};
  if (laps == 0) laps = 1;
  for (size_t i = 0; i < laps / 16 + 1; ++i) lap(nothing);
  bench::Measurement measurement(1);
  measurement.start();
  for (size_t i = 0; i < laps; ++i) lap(nothing);
  measurement.stop();
  measurement.report(laps * steps, laps * steps);
}

// Keeps the compiler from doing two laps in one.
inline void barrier() { asm volatile("" ::: "memory"); }

}  // namespace walk
