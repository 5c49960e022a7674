// SPDX-License-Identifier: MIT
// COFFER_CONF from bytes: complaints are short and printable, and what was understood says the same when it is printed
// and read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "config/parse.hpp"
#include "support/check.hpp"

namespace {

using namespace coffer;
using namespace coffer::config;

void take(const Text& line, void* context) {
  REQUIRE(line.stored() == line.length(), "a complaint of %zu characters does not fit", line.length());
  for (usize i = 0; i < line.stored(); ++i) {
    const char c = line.data()[i];
    REQUIRE(c >= ' ' && c <= '~', "a complaint has the character %d", c);
  }
  ++*static_cast<usize*>(context);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t length) {
  const std::string text(reinterpret_cast<const char*>(bytes), length);
  usize lines = 0;
  const Complaints complaints = {&take, &lines};
  Settings first;
  const bool good = parse(text.c_str(), Source::environment, first, complaints);
  REQUIRE(!good || lines == 0, "a good text has %zu complaints", lines);
  TextBuffer<8192> printed;
  print_all(first.values, printed);
  printed.terminate();
  REQUIRE(printed.stored() == printed.length(), "%zu characters of options", printed.length());
  Settings second;
  // Texts have little room, which what comes before may have used up.
  lines = 0;
  parse(printed.data(), Source::environment, second, complaints);
  for (const Option& option : kOptions) {
    if (option.type == Type::text) continue;
    REQUIRE(option.get(first.values) == option.get(second.values), "%s is another when it is read again", option.name);
  }
  return 0;
}
