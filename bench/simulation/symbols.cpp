// SPDX-License-Identifier: MIT
#include "symbols.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace simulation {

namespace {

struct Symbol {
  uptr from;
  u64 bytes;
  bool function;
  std::string name;
};

std::string demangle(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  // Arguments say nothing here, and unnamed namespaces little.
  if (const auto bracket = result.find('(', result.starts_with("(") ? 21 : 1); bracket != std::string::npos) {
    if (result.compare(bracket, 21, "(anonymous namespace)") != 0) result.resize(bracket);
  }
  for (const char* part : {"(anonymous namespace)::", "coffer::", "simulation::", "[abi:cxx11]"}) {
    for (auto at = result.find(part); at != std::string::npos; at = result.find(part)) {
      result.erase(at, std::strlen(part));
    }
  }
  if (const auto bracket = result.find('('); bracket != std::string::npos && bracket > 0) result.resize(bracket);
  return result;
}

std::vector<Symbol> read_symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<Symbol> result;
  if (bytes.size() < sizeof(Elf64_Ehdr)) return result;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(bytes.data() + sections[i].sh_offset);
    const char* names = bytes.data() + sections[sections[i].sh_link].sh_offset;
    for (u64 s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      const auto type = ELF64_ST_TYPE(symbols[s].st_info);
      if ((type != STT_FUNC && type != STT_OBJECT) || symbols[s].st_size == 0) continue;
      result.push_back({symbols[s].st_value, symbols[s].st_size, type == STT_FUNC, names + symbols[s].st_name});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const Symbol& a, const Symbol& b) { return a.from != b.from ? a.from < b.from : a.name < b.name; });
  return result;
}

const std::vector<Symbol>& symbols() {
  static const std::vector<Symbol> all = read_symbols();
  return all;
}

auto first_behind(uptr address) {
  return std::upper_bound(symbols().begin(), symbols().end(), address,
                          [](uptr wanted, const Symbol& symbol) { return wanted < symbol.from; });
}

}  // namespace

std::string function_at(uptr address) {
  for (auto at = first_behind(address); at != symbols().begin();) {
    --at;
    if (at->function) return address - at->from < at->bytes ? demangle(at->name.c_str()) : "";
  }
  return "";
}

std::string variables_on(uptr line) {
  constexpr std::size_t kMost = 80;
  std::string result;
  auto at = first_behind(line + kLineBytes - 1);
  // Large ones may begin far before.
  const auto end = at;
  while (at != symbols().begin() && (at - 1)->from + (u64{1} << 20) > line) --at;
  for (; at != end; ++at) {
    if (at->function || at->from + at->bytes <= line) continue;
    if (!result.empty()) result += ", ";
    result += demangle(at->name.c_str());
    if (at->from < line) result += "+" + std::to_string(line - at->from);
  }
  if (result.size() > kMost) result = result.substr(0, kMost) + " ...";
  return result;
}

}  // namespace simulation
