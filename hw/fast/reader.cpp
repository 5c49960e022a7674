// SPDX-License-Identifier: MIT
#include "reader.hpp"

#include "machine.hpp"

namespace fast {

namespace {

constexpr std::size_t kLongestLine = 200, kLongestField = 16;
constexpr std::uint32_t kMostBeforeLastDigit = 200000000;

}  // namespace

Reader::Reader(const std::string& name) : name_(name), input_(name) {
  if (!input_) {
    fast::fail(name + ": cannot be read");
  }
  if (!next_line()) {
    fail("the file is empty");
  }
  if (line_ != "# coffer-rt vectors 1") {
    fail("the first line must be '# coffer-rt vectors 1'");
  }
}

void Reader::fail(const std::string& message) const {
  fast::fail(name_ + ":" + std::to_string(number_) + ": " + message);
}

bool Reader::next_line() {
  if (!std::getline(input_, line_)) {
    return false;
  }
  ++number_;
  at_ = 0;
  // As VHDL's readline does; fast.py has refused any other.
  if (!line_.empty() && line_.back() == '\r') {
    line_.pop_back();
  }
  if (line_.size() > kLongestLine) {
    fail("the line is too long");
  }
  return true;
}

std::string Reader::field() {
  const std::size_t end = line_.find(' ', at_);
  std::string result = line_.substr(at_, end == std::string::npos ? end : end - at_);
  if (result.empty()) {
    fail("a field is missing, or more than one blank separates two");
  }
  if (result.size() > kLongestField) {
    fail("the field is too long");
  }
  // One blank at the line's end is left over, and told.
  at_ = end == std::string::npos ? line_.size() : end + 1 < line_.size() ? end + 1 : end;
  return result;
}

std::uint32_t Reader::decimal() {
  std::uint32_t value = 0;
  for (const char digit : field()) {
    if (digit < '0' || digit > '9') {
      fail("not a decimal number");
    }
    if (value > kMostBeforeLastDigit) {
      fail("the number is too large");
    }
    value = value * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  return value;
}

std::uint32_t Reader::word() {
  const std::string text = field();
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail("eight hexadecimal digits must stand here");
  }
  return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
}

Record Reader::next() {
  Record record;
  do {
    if (!next_line()) {
      return record;
    }
    if (line_.empty()) {
      fail("an empty line");
    }
  } while (line_[0] == '#');
  const std::string kind = field();
  if (kind == "policy") {
    record.kind = Kind::policy;
    record.policy = field();
  } else if (kind == "heap" || kind == "min" || kind == "g") {
    record.kind = kind == "heap" ? Kind::heap : kind == "min" ? Kind::min : Kind::gap;
    record.number = decimal();
  } else if (kind == "a") {
    record.kind = Kind::alloc;
    record.number = decimal();
    record.address = word();
  } else if (kind == "f" || kind == "x") {
    record.kind = kind == "f" ? Kind::free : Kind::wrong_free;
    record.address = word();
    if (kind == "x") {
      const std::string how = field();
      if (how != "bad" && how != "double") {
        fail("'bad' or 'double' must stand here");
      }
      record.status = how == "bad" ? kBad : kDouble;
    }
  } else if (kind == "l" || kind == "s" || kind == "h") {
    record.kind = kind == "l" ? Kind::load : kind == "s" ? Kind::store : Kind::header;
    record.address = word();
    record.value = word();
    record.number = kind == "l" ? decimal() : 0;
  } else {
    fail("no such record");
  }
  if (at_ < line_.size()) {
    fail("something stands behind the last field");
  }
  return record;
}

}  // namespace fast
