// SPDX-License-Identifier: MIT
// Another machine, as far as the kernel's words to a process tell: OTHER_PAGE bytes in a page, and a kernel of version
// OTHER_KERNEL (LINUX_VERSION_CODE), both of the environment. Preloaded, or linked into a static program.
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#ifdef __GLIBC__
#define COFFER_AS_DECLARED noexcept
#else
#define COFFER_AS_DECLARED
#endif

// What the kernel maps into every process, but nothing of it except the note with its version.
struct Object {
  ElfW(Ehdr) header;
  ElfW(Phdr) segment;
  struct {
    ElfW(Nhdr) header;
    char name[8];
    unsigned version;
  } note;
};
static Object g_object;

static unsigned long object_of_kernel(unsigned version) {
  memcpy(g_object.header.e_ident, ELFMAG, SELFMAG);
  g_object.header.e_phoff = offsetof(Object, segment);
  g_object.header.e_phnum = 1;
  g_object.segment.p_type = PT_NOTE;
  g_object.segment.p_offset = offsetof(Object, note);
  g_object.segment.p_filesz = sizeof g_object.note;
  g_object.note.header.n_namesz = sizeof "Linux";
  g_object.note.header.n_descsz = sizeof g_object.note.version;
  memcpy(g_object.note.name, "Linux", sizeof "Linux");
  g_object.note.version = version;
  return reinterpret_cast<unsigned long>(&g_object);
}

extern char** environ;

// Called before the C library is ready.
static unsigned long number(const char* name) {
  const size_t length = strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return strtoul(*entry + length + 1, nullptr, 0);
  }
  return 0;
}

extern "C" unsigned long getauxval(unsigned long type) COFFER_AS_DECLARED {
  const unsigned long page = number("OTHER_PAGE");
  const unsigned long kernel = number("OTHER_KERNEL");
  if (type == AT_PAGESZ) return page != 0 ? page : 4096;
  if (type == AT_SYSINFO_EHDR) return kernel != 0 ? object_of_kernel(static_cast<unsigned>(kernel)) : 0;
  return 0;
}
