// SPDX-License-Identifier: MIT
// accesses [CALLS] [CYCLES_PER_INSTRUCTION] [FROM_SIZE] [WITH_ACCESSES] < LACKEY > CALLS: what valgrind's lackey
// (--trace-mem=yes) has printed of a program with marks.c, as calls for `answers`. An allocation of FROM_SIZE bytes
// begins it (0: at once), CALLS calls end it (0: none); accesses are told before the first WITH_ACCESSES calls
// (without: before all of them).
//
// Between calls come gaps in cycles, and every access to data: in a block by name and offset, else by address. A block
// from before the beginning is other memory. What the C library's own allocator does is left out. A program that tells
// nothing for its first ten million lines was started without marks.c, and is not waited for.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace {

using u64 = std::uint64_t;

// As in marks.c.
constexpr u64 kPage = 0x200000000000;
enum Field : unsigned { field_enter = 0, field_end = 1, field_size = 2, field_block = 10, field_old = 18 };
enum Call : unsigned { call_alloc = 1, call_free = 2, call_realloc = 3 };

class Converter {
 public:
  Converter(u64 most, double rate, u64 from_size, u64 with_accesses)
      : most_(most), rate_(rate), from_size_(from_size), with_accesses_(with_accesses) {}

  void instruction() {
    if (begun_ && !inside_) left_ += rate_;
  }

  // False: that was the last call.
  bool access(char kind, u64 address, u64 bytes) {
    if (address >= kPage && address - kPage < 0x2000) {
      marked_ = true;
      return mark(static_cast<unsigned>(address - kPage));
    }
    if (!begun_ || inside_ || calls_ >= with_accesses_) return true;
    if (kind != 'S') put(kind == 'M' ? 'L' : kind, address, bytes);
    if (kind != 'L') put('S', address, bytes);
    return true;
  }

  [[nodiscard]] u64 calls() const { return calls_; }
  [[nodiscard]] bool marked() const { return marked_; }

 private:
  struct Block {
    u64 size, name;
  };

  bool mark(unsigned offset) {
    const unsigned field = offset / 256, value = offset % 256;
    if (field == field_enter) {
      inside_ = true;
    } else if (field == field_end) {
      const u64 size = number(field_size), block = number(field_block), old = number(field_old);
      std::memset(bytes_, 0, sizeof(bytes_));
      inside_ = false;
      if (!begun_) {
        begun_ = from_size_ == 0 || (value == call_alloc && size == from_size_);
        if (from_size_ != 0) return true;
      }
      call(value, size, block, old);
    } else if (field < field_old + 8) {
      bytes_[field] = static_cast<unsigned char>(value);
    } else {
      throw std::runtime_error("a mark that marks.c does not make");
    }
    return most_ == 0 || calls_ < most_;
  }

  u64 number(unsigned field) const {
    u64 value = 0;
    for (unsigned i = 8; i-- > 0;) value = value << 8 | bytes_[field + i];
    return value;
  }

  void call(unsigned what, u64 size, u64 block, u64 old) {
    if (what == call_realloc) {
      // A new block, then the old one back, as where blocks cannot grow.
      const auto it = blocks_.find(old);
      if (it == blocks_.end()) return;
      const u64 name = it->second.name;
      blocks_.erase(it);
      allocate(size, block);
      release(name);
    } else if (what == call_free) {
      const auto it = blocks_.find(block);
      if (it == blocks_.end()) return;
      const u64 name = it->second.name;
      blocks_.erase(it);
      release(name);
    } else if (what == call_alloc) {
      if (block != 0) allocate(size, block);
    } else {
      throw std::runtime_error("a mark that marks.c does not make");
    }
  }

  void allocate(u64 size, u64 block) {
    pause();
    std::printf("a %" PRIu64 " %" PRIu64 "\n", ++name_, size);
    blocks_[block] = {size, name_};
    ++calls_;
  }
  void release(u64 name) {
    pause();
    std::printf("f %" PRIu64 "\n", name);
    ++calls_;
  }

  void put(char kind, u64 address, u64 bytes) {
    pause();
    const char letter = kind == 'S' ? 's' : 'l';
    auto it = blocks_.upper_bound(address);
    if (it != blocks_.begin()) {
      --it;
      if (address - it->first < it->second.size) {
        std::printf("%c %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", letter, it->second.name, address - it->first, bytes);
        return;
      }
    }
    std::printf("%c 0 %" PRIu64 " %" PRIu64 "\n", letter, address, bytes);
  }

  void pause() {
    const u64 cycles = static_cast<u64>(left_);
    if (cycles != 0) std::printf("g %" PRIu64 "\n", cycles);
    left_ -= static_cast<double>(cycles);
  }

  u64 most_;
  double rate_;
  u64 from_size_;
  u64 with_accesses_;
  bool begun_ = false, inside_ = false, marked_ = false;
  unsigned char bytes_[32] = {};
  std::map<u64, Block> blocks_;  // by address
  u64 name_ = 0, calls_ = 0;
  double left_ = 0;
};

bool is_number(const char* text) { return *text != 0 && text[std::strspn(text, "0123456789.")] == 0; }

// The dynamic linker takes a tenth of it, for CPython.
constexpr u64 kMostUnmarked = 10'000'000;

constexpr ssize_t kWorthReading = 1 << 15U;
constexpr unsigned kLater = 1000;  // microseconds; a pipe holds what lackey writes in so long

// Lines of standard input, of which there are hundreds of millions: the C library's functions would take most of the
// time.
class Lines {
 public:
  // False at the end. What follows the last line break is a line too.
  bool next(std::string_view& line) {
    for (;;) {
      const void* end = std::memchr(&buffer_[at_], '\n', filled_ - at_);
      if (end != nullptr || (over_ && at_ < filled_)) {
        const std::size_t stop =
            end != nullptr ? static_cast<std::size_t>(static_cast<const char*>(end) - buffer_.data()) : filled_;
        line = {&buffer_[at_], stop - at_};
        at_ = end != nullptr ? stop + 1 : stop;
        ++number_;
        return true;
      }
      if (over_) return false;
      fill();
    }
  }

  [[nodiscard]] u64 number() const { return number_; }

  [[noreturn]] void fail(const char* message) const {
    throw std::runtime_error("line " + std::to_string(number_) + ": " + message);
  }

 private:
  void fill() {
    std::memmove(buffer_.data(), &buffer_[at_], filled_ - at_);
    filled_ -= at_;
    at_ = 0;
    // One byte is left for the place behind the last line.
    if (filled_ + 1 == buffer_.size()) fail("too long");
    const ssize_t got = read(0, &buffer_[filled_], buffer_.size() - 1 - filled_);
    if (got < 0) throw std::runtime_error("cannot read");
    over_ = got == 0;
    filled_ += static_cast<std::size_t>(got);
    // lackey writes line by line. Who waits in read is woken for each; who comes back later finds many.
    if (got != 0 && got < kWorthReading) usleep(kLater);
  }

  std::vector<char> buffer_ = std::vector<char>(std::size_t{1} << 20U);
  std::size_t at_ = 0, filled_ = 0;
  bool over_ = false;
  u64 number_ = 0;
};

// " L 1ffe,8": an address, hexadecimal, and a size. Returns how far the digits reach.
std::size_t digits(std::string_view text, std::size_t at, unsigned base, u64& value) {
  value = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10U : 16U;
    if (digit >= base) break;
    value = value * base + digit;
  }
  return at;
}

void convert(Converter& converter) {
  Lines lines;
  std::string_view line;
  bool going = true;
  while (going && lines.next(line)) {
    if (lines.number() == kMostUnmarked && !converter.marked()) lines.fail("no mark yet: did it run with marks.c?");
    // "I  04000,3", " L 1ffe,8", " S ..", " M .."; other lines are lackey's talk, and begin with "==".
    if (!line.empty() && line[0] == 'I') {
      converter.instruction();
    } else if (line.size() > 3 && line[0] == ' ' && line[2] == ' ' &&
               (line[1] == 'L' || line[1] == 'S' || line[1] == 'M')) {
      u64 address = 0, bytes = 0;
      const std::size_t comma = digits(line, 3, 16, address);
      if (comma == 3 || comma == line.size() || line[comma] != ',') lines.fail("an address and a size");
      if (digits(line, comma + 1, 10, bytes) != line.size() || bytes == 0) lines.fail("no size");
      going = converter.access(line[1], address, bytes);
    } else if (line.substr(0, 2) != "==") {
      lines.fail("not lackey's");
    }
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error("cannot write");
  if (converter.calls() == 0) throw std::runtime_error("no call: did the program run with marks.c, and begin?");
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argc > 5 || !is_number(argv[i])) {
      std::fprintf(stderr,
                   "usage: accesses [CALLS] [CYCLES_PER_INSTRUCTION] [FROM_SIZE] [WITH_ACCESSES] < LACKEY > CALLS\n");
      return 2;
    }
  }
  try {
    Converter converter(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0, argc > 2 ? std::atof(argv[2]) : 0.5,
                        argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0,
                        argc > 4 ? std::strtoull(argv[4], nullptr, 10) : ~u64{0});
    convert(converter);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "accesses: %s\n", error.what());
    return 1;
  }
  return 0;
}
