// SPDX-License-Identifier: MIT
// Text built in a fixed buffer: messages are made where neither stdio nor malloc may be called.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Appends to a buffer of the caller. What does not fit is counted and dropped, as snprintf does.
class Text {
 public:
  constexpr Text(char* buffer, usize capacity) : buffer_(buffer), capacity_(capacity) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  Text& add(char character) {
    if (length_ < capacity_) buffer_[length_] = character;
    ++length_;
    return *this;
  }

  Text& add(const char* text, usize length) {
    for (usize i = 0; i < length; ++i) add(text[i]);
    return *this;
  }

  Text& add(const char* text) {
    while (*text != 0) add(*text++);
    return *this;
  }

  // In decimal, right-aligned to `width` columns.
  Text& number(u64 value, usize width = 0) {
    char digits[20];
    usize count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    for (usize i = count; i < width; ++i) add(' ');
    while (count > 0) add(digits[--count]);
    return *this;
  }

  // In hexadecimal, with 0x before it.
  Text& hex(u64 value) {
    u32 shift = 60;
    while (shift > 0 && (value >> shift) == 0) shift -= 4;
    add("0x");
    for (;; shift -= 4) {
      add("0123456789abcdef"[(value >> shift) & 15]);
      if (shift == 0) return *this;
    }
  }

  // Spaces until `column` characters have been added since `start`.
  Text& pad(usize start, usize column) {
    while (length_ < start + column) add(' ');
    return *this;
  }

  // Ends the text with a 0 inside the buffer, over its last character if need be.
  void terminate() {
    if (capacity_ > 0) buffer_[length_ < capacity_ ? length_ : capacity_ - 1] = 0;
  }

  // Ends the line inside the buffer, as well.
  void end_line() {
    if (length_ >= capacity_) length_ = capacity_ - 1;
    add('\n');
  }

  // Characters added, whether they fitted or not.
  usize length() const { return length_; }
  const char* data() const { return buffer_; }
  usize stored() const { return length_ < capacity_ ? length_ : capacity_; }

 private:
  char* buffer_;
  usize capacity_;
  usize length_ = 0;
};

// A Text with its own buffer.
template <usize kCapacity>
class TextBuffer : public Text {
 public:
  TextBuffer() : Text(storage_, kCapacity) {}

 private:
  char storage_[kCapacity];
};

}  // namespace coffer
