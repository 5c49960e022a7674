// SPDX-License-Identifier: MIT
// What code the process has mapped, and from which files: /proc/self/maps, and the build-ids in the files' notes as
// they lie in memory. Memory that may go away meanwhile is read by a system call that fails instead of a crash.
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/uio.h>

#include "os/linux/reader.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

using os::Mapping;

bool read_memory(uptr from, void* to, usize bytes) {
  struct iovec local = {to, bytes};
  struct iovec remote = {reinterpret_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// The build-id in a segment of notes. Returns its bytes; 0: none.
u32 id_in_notes(uptr at, usize bytes, u8 (&id)[os::kMostBuildId]) {
  const uptr end = at + bytes;
  while (end - at >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    if (!read_memory(at, &note, sizeof note)) return 0;
    const uptr name = at + sizeof note;
    const usize name_bytes = (usize{note.n_namesz} + 3) / 4 * 4;
    const usize content_bytes = (usize{note.n_descsz} + 3) / 4 * 4;
    if (name_bytes > end - name || content_bytes > end - name - name_bytes) return 0;
    char owner[4] = {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner && note.n_descsz <= sizeof id &&
        read_memory(name, owner, sizeof owner) && memcmp(owner, "GNU", sizeof owner) == 0) {
      return read_memory(name + name_bytes, id, note.n_descsz) ? note.n_descsz : 0;
    }
    at = name + name_bytes + content_bytes;
  }
  return 0;
}

// The same of the object whose header lies at `base`.
u32 read_build_id(uptr base, u8 (&id)[os::kMostBuildId]) {
  ElfW(Ehdr) header;
  if (!read_memory(base, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  if (header.e_phentsize != sizeof(ElfW(Phdr))) return 0;
  uptr first_load = ~uptr{0};
  for (u32 pass = 0; pass < 2; ++pass) {
    for (u32 i = 0; i < header.e_phnum; ++i) {
      ElfW(Phdr) segment;
      if (!read_memory(base + header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return 0;
      if (pass == 0 && segment.p_type == PT_LOAD && first_load == ~uptr{0}) first_load = segment.p_vaddr;
      if (pass == 0 || segment.p_type != PT_NOTE) continue;
      const u32 bytes = id_in_notes(base + segment.p_vaddr - first_load, segment.p_filesz, id);
      if (bytes != 0) return bytes;
    }
    if (first_load == ~uptr{0}) return 0;
  }
  return 0;
}

// The next line without its end, cut where it is too long; false: there is none.
bool read_line(Reader& reader, char* line, usize most) {
  usize length = 0;
  for (;;) {
    const int character = reader.next();
    if (character == Reader::kEnd && length == 0) return false;
    if (character == Reader::kEnd || character == '\n') break;
    if (length + 1 < most) line[length++] = static_cast<char>(character);
  }
  line[length] = 0;
  return true;
}

u64 hexadecimal(const char*& text) {
  u64 value = 0;
  for (;; ++text) {
    if (*text >= '0' && *text <= '9') {
      value = value * 16 + static_cast<u64>(*text - '0');
    } else if (*text >= 'a' && *text <= 'f') {
      value = value * 16 + static_cast<u64>(*text - 'a' + 10);
    } else {
      return value;
    }
  }
}

void skip_word(const char*& text) {
  while (*text != 0 && *text != ' ') ++text;
  while (*text == ' ') ++text;
}

}  // namespace

void for_each_code_mapping(void (*visit)(const Mapping& mapping, void* context), void* context) {
  const KeepErrno keep;
  Reader reader("/proc/self/maps");
  char line[512];
  uptr base = 0;  // where the file that the last lines are of begins
  while (read_line(reader, line, sizeof line)) {
    Mapping mapping = {};
    const char* text = line;
    mapping.begin = hexadecimal(text);
    if (*text == '-') ++text;
    mapping.end = hexadecimal(text);
    if (*text == ' ') ++text;
    const bool code = text[0] != 0 && text[1] != 0 && text[2] == 'x';
    skip_word(text);
    mapping.offset = hexadecimal(text);
    skip_word(text);
    skip_word(text);  // device
    skip_word(text);  // inode
    mapping.path = text;
    if (mapping.offset == 0) base = mapping.begin;
    if (!code) continue;
    // vsyscall lies beyond all other addresses and has no header.
    if (*text != 0 && base <= mapping.begin) mapping.build_id_bytes = read_build_id(base, mapping.build_id);
    visit(mapping, context);
  }
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
