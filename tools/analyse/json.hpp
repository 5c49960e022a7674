// SPDX-License-Identifier: MIT
// Writes JSON. Commas come by themselves; whoever opens closes.
#pragma once

#include <cstdio>
#include <string>

#include "trace/format.hpp"

namespace coffer::analyse {

using trace::u32;
using trace::u64;
using trace::u8;

class Json {
 public:
  const std::string& text() const { return out_; }

  Json& open(char bracket) {
    separate();
    out_ += bracket;
    return *this;
  }
  Json& close(char bracket) {
    out_ += bracket;
    return *this;
  }
  Json& key(const char* name) {
    separate();
    quote(name);
    out_ += ':';
    return *this;
  }
  Json& number(u64 value) {
    separate();
    out_ += std::to_string(value);
    return *this;
  }
  Json& real(double value) {
    separate();
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.6g", value);
    out_ += digits;
    return *this;
  }
  Json& string(const std::string& value) {
    separate();
    quote(value);
    return *this;
  }
  Json& null(const char* name) {
    key(name);
    out_ += "null";
    return *this;
  }
  Json& number(const char* name, u64 value) { return key(name).number(value); }

 private:
  void separate() {
    if (out_.empty()) return;
    const char last = out_.back();
    if (last != '{' && last != '[' && last != ':' && last != ',') out_ += ',';
  }
  // Bytes that are no ASCII are given as the characters of the same numbers, as the reader for Python does.
  void quote(const std::string& text) {
    out_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\') {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", byte);
        out_ += escape;
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  std::string out_;
};

}  // namespace coffer::analyse
