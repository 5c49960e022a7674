// SPDX-License-Identifier: MIT
#include "retain/objects.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace coffer::retain {

namespace {

// A file as bytes, whose parts are asked for with their bounds.
class File {
 public:
  explicit File(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      void* mapped = mmap(nullptr, static_cast<usize>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (mapped != MAP_FAILED) {
        bytes_ = static_cast<const char*>(mapped);
        length_ = static_cast<usize>(status.st_size);
      }
    }
    if (file >= 0) close(file);
  }
  ~File() {
    if (bytes_ != nullptr) munmap(const_cast<char*>(bytes_), length_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  template <class T>
  bool get(u64 at, T* to) const {
    if (at > length_ || length_ - at < sizeof(T)) return false;
    std::memcpy(to, bytes_ + at, sizeof(T));
    return true;
  }
  std::string text(u64 at) const {
    if (at >= length_) return "";
    return {bytes_ + at, strnlen(bytes_ + at, length_ - at)};
  }

 private:
  const char* bytes_ = nullptr;
  usize length_ = 0;
};

void read_table(const File& file, const Elf64_Shdr& table, const Elf64_Shdr& strings, Object* object) {
  for (u64 at = table.sh_offset; at + sizeof(Elf64_Sym) <= table.sh_offset + table.sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    if (!file.get(at, &symbol)) return;
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0 || (type != STT_OBJECT && type != STT_TLS)) continue;
    (type == STT_TLS ? object->locals : object->variables)
        .push_back({symbol.st_value, symbol.st_size, file.text(strings.sh_offset + symbol.st_name)});
  }
}

void sort_variables(std::vector<Variable>* variables) {
  std::sort(variables->begin(), variables->end(), [](const Variable& a, const Variable& b) {
    return std::tie(a.address, a.name) < std::tie(b.address, b.name);
  });
  const auto same = [](const Variable& a, const Variable& b) { return a.address == b.address; };
  variables->erase(std::unique(variables->begin(), variables->end(), same), variables->end());
}

// false: it is no ELF file of 64 bits, or is not mapped as one.
bool read_object(const File& file, const Mapping& first, Object* object) {
  Elf64_Ehdr header;
  if (!file.get(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  bool is_placed = false;
  u64 low = ~u64{0}, high = 0;
  for (u64 i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!file.get(header.e_phoff + i * sizeof part, &part)) return false;
    if (part.p_type == PT_TLS) {
      object->local_bytes = part.p_memsz;
      object->local_alignment = part.p_align != 0 ? part.p_align : 1;
    }
    if (part.p_type != PT_LOAD) continue;
    if (!is_placed && part.p_offset / kPage * kPage == first.offset) {
      object->bias = first.begin - part.p_vaddr / kPage * kPage;
      is_placed = true;
    }
    low = std::min<u64>(low, part.p_vaddr);
    high = std::max<u64>(high, part.p_vaddr + part.p_memsz);
  }
  if (!is_placed) return false;
  object->begin = object->bias + low;
  object->end = (object->bias + high + kPage - 1) / kPage * kPage;
  std::vector<Elf64_Shdr> sections;
  for (u64 i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!file.get(header.e_shoff + i * sizeof section, &section)) break;
    sections.push_back(section);
  }
  for (const Elf64_Shdr& section : sections) {
    if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || section.sh_link >= sections.size())
      continue;
    object->has_symbols |= section.sh_type == SHT_SYMTAB;
    read_table(file, section, sections[section.sh_link], object);
  }
  sort_variables(&object->variables);
  sort_variables(&object->locals);
  return true;
}

}  // namespace

const Variable* Object::at(u64 address) const {
  const u64 wanted = address - bias;
  auto after = std::upper_bound(variables.begin(), variables.end(), wanted,
                                [](u64 value, const Variable& one) { return value < one.address; });
  if (after == variables.begin()) return nullptr;
  --after;
  return wanted - after->address < after->bytes ? &*after : nullptr;
}

std::vector<Object> find_objects(int process, const std::vector<Mapping>& mappings) {
  std::vector<Object> found;
  std::string last;
  for (const Mapping& one : mappings) {
    if (one.path.empty() || one.path[0] != '/' || one.path == last || one.shared) continue;
    // Files that are no code, such as fonts, begin with a mapping of their own, too: they are no ELF files.
    last = one.path;
    if (std::any_of(found.begin(), found.end(), [&](const Object& object) {
          return object.path == one.path && one.begin >= object.begin && one.begin < object.end;
        })) {
      continue;
    }
    Object object{};
    object.path = one.path;
    // As the process sees its files.
    const File file("/proc/" + std::to_string(process) + '/' + "root" + one.path);
    if (read_object(file, one, &object)) found.push_back(std::move(object));
  }
  return found;
}

}  // namespace coffer::retain
