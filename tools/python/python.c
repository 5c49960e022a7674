// SPDX-License-Identifier: MIT
// Preloaded behind Coffer where heap profiles are taken: says which Python functions a sample's call stack runs.
//
// Each call of _PyEval_EvalFrameDefault on the stack is replaced by the functions that it interprets, read from the
// frames of this thread's interpreter. What else the interpreter has on the stack says no more and is left out, but for
// what it does in the innermost function: the table of stacks has room for so much more. A thread that allocates is the
// only one that changes its own frames, whether it holds the interpreter's lock or not; so they are whole, but for a
// function that is just being left, whose code may be half freed. Its count of references is 0 then, and it is left
// out. Nothing of Python's is called but two functions that only read: they need no lock and allocate nothing.
//
// Where things lie: for 3.11 and 3.12 as their headers have it, which within a version does not change; 3.13 says it
// itself, for debuggers. Other versions have no Python functions in their stacks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "observe/interpreted.h"

enum {
  kMostFrames = 256,
  kMostPlaces = 32 * 1024,
  kTextBytes = 8 * 1024 * 1024,
  kMostFunction = 256,  // bytes
  kMostFile = 1024,
};

struct place {
  uint64_t hash;
  uint32_t function, file;  // in g_text
  uint32_t line;
};

// What follows is touched as far as it is used. The lock of the samples is around it.
static struct place g_places[kMostPlaces];
static uint32_t g_place_at[2 * kMostPlaces];  // 1 + the index
static uint32_t g_place_count;
static char g_text[kTextBytes];
static uint32_t g_text_used;
static uintptr_t g_before[kMostFrames];

// Offsets in bytes.
static struct {
  size_t frame_of_thread;  // of the frame, or of what has it
  int has_cframe;          // at frame_of_cframe then
  size_t frame_of_cframe;
  size_t code, previous, instruction;
  size_t entry;  // a byte: in 3.11 whether C called the function; since then who owns the frame
  int entry_is_owner;
  size_t filename, qualname, bytecode;  // of a code object
  size_t ascii, text;                   // of a string: its characters, if all are ASCII, and else
} g_at;

enum { kOwnedByC = 3 };

static int g_ready;
static uintptr_t g_eval, g_eval_end;      // the function that interprets
static uintptr_t g_object, g_object_end;  // the file that it is in
static uintptr_t g_code_type, g_text_type;
static void* (*g_this_thread)(void);
static int (*g_line_of)(void* code, int byte);

static uintptr_t word(uintptr_t object, size_t offset) {
  uintptr_t value;
  memcpy(&value, (const void*)(object + offset), sizeof value);
  return value;
}

static unsigned byte(uintptr_t object, size_t offset) { return *(const unsigned char*)(object + offset); }

// --- Objects of Python. ---

enum { kReferences = 0, kType = 8, kLength = 16, kTextState = 32 };  // as all supported versions have them

static int is_live(uintptr_t object, uintptr_t type) {
  return object != 0 && word(object, kType) == type && (intptr_t)word(object, kReferences) > 0;
}

static unsigned put_character(char* to, uint32_t character) {
  if (character < 0x80) {
    to[0] = (char)character;
    return 1;
  }
  const unsigned more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  static const unsigned char kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  to[0] = (char)(kFirst[more] | character >> 6 * more);
  for (unsigned i = 1; i <= more; ++i) to[i] = (char)(0x80 | (character >> 6 * (more - i) & 0x3f));
  return more + 1;
}

// A string as UTF-8, with its 0; what has no room is left out. Its length.
static unsigned copy_text(uintptr_t object, char* to, unsigned room) {
  to[0] = 0;
  if (!is_live(object, g_text_type)) return 0;
  uint32_t state;
  memcpy(&state, (const void*)(object + kTextState), sizeof state);
  const unsigned size = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
  if (!is_compact) return 0;
  const uintptr_t characters = object + (is_ascii ? g_at.ascii : g_at.text);
  const uintptr_t count = word(object, kLength);
  unsigned used = 0;
  for (uintptr_t i = 0; i < count && used + 5 <= room; ++i) {
    uint32_t character = 0;
    memcpy(&character, (const void*)(characters + i * size), size <= 4 ? size : 4);
    used += put_character(to + used, character);
  }
  to[used] = 0;
  return used;
}

// --- Places. ---

static uint64_t hash_text(uint64_t hash, const char* text, unsigned length) {
  uint64_t part = 0;
  for (unsigned i = 0; i < length; i += 8) {
    part = 0;
    memcpy(&part, text + i, length - i < 8 ? length - i : 8);
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return (hash ^ length) * 0xbf58476d1ce4e5b9u;
}

static uint32_t add_text(const char* text, unsigned length) {
  memcpy(g_text + g_text_used, text, length + 1);
  g_text_used += length + 1;
  return g_text_used - length - 1;
}

// The address that stands for it; 0: there is no room for more.
static uintptr_t place_of(uintptr_t frame, uintptr_t code) {
  char function[kMostFunction], file[kMostFile];
  const unsigned function_length = copy_text(word(code, g_at.qualname), function, sizeof function);
  const unsigned file_length = copy_text(word(code, g_at.filename), file, sizeof file);
  const intptr_t at = (intptr_t)(word(frame, g_at.instruction) - (code + g_at.bytecode));
  const int line = g_line_of((void*)code, at < 0 || at > INT32_MAX ? -1 : (int)at);
  uint64_t hash = hash_text((uint64_t)(line > 0 ? line : 0), function, function_length);
  hash = hash_text(hash, file, file_length);
  // Two places of one hash of 64 bits are taken for one.
  for (uint64_t slot = hash >> 17;; ++slot) {
    uint32_t* known = &g_place_at[slot % (2 * kMostPlaces)];
    if (*known == 0) {
      if (g_place_count == kMostPlaces || kTextBytes - g_text_used < function_length + file_length + 2) return 0;
      g_places[g_place_count] = (struct place){.hash = hash,
                                               .function = add_text(function, function_length),
                                               .file = add_text(file, file_length),
                                               .line = line > 0 ? (uint32_t)line : 0};
      *known = ++g_place_count;
      return (uintptr_t)&g_places[*known - 1];
    }
    if (g_places[*known - 1].hash == hash) return (uintptr_t)&g_places[*known - 1];
  }
}

int coffer_interpreted_place(uintptr_t frame, struct coffer_interpreted* place) {
  if (frame < (uintptr_t)g_places || frame >= (uintptr_t)(g_places + g_place_count)) return 0;
  const struct place* found = (const struct place*)frame;
  *place = (struct coffer_interpreted){g_text + found->function, g_text + found->file, found->line};
  return 1;
}

// --- Stacks. ---

static uintptr_t first_frame(void) {
  const uintptr_t thread = (uintptr_t)g_this_thread();
  if (thread == 0) return 0;
  const uintptr_t found = word(thread, g_at.frame_of_thread);
  return found != 0 && g_at.has_cframe ? word(found, g_at.frame_of_cframe) : found;
}

// Puts the functions of one call of the interpreter, and goes on to the next one's.
static unsigned put_call(uintptr_t* frame, uintptr_t* frames, unsigned count, unsigned most) {
  for (int is_last = 0; *frame != 0 && !is_last && count < most; *frame = word(*frame, g_at.previous)) {
    const unsigned entry = byte(*frame, g_at.entry);
    is_last = g_at.entry_is_owner ? entry == kOwnedByC : entry != 0;
    const uintptr_t code = word(*frame, g_at.code);
    // That of a frame that C owns is none of the program's.
    if ((g_at.entry_is_owner && is_last) || !is_live(code, g_code_type)) continue;
    const uintptr_t place = place_of(*frame, code);
    if (place != 0) frames[count++] = place;
  }
  return count;
}

unsigned coffer_interpreted_stack(uintptr_t* frames, unsigned count, unsigned most) {
  if (!g_ready || count > kMostFrames) return count;
  uintptr_t frame = first_frame();
  if (frame == 0) return count;
  memcpy(g_before, frames, count * sizeof *frames);
  unsigned put = 0, calls = 0;
  int was_called = 0;  // not the interpreter, or a function of it that is interpreted, has been put
  for (unsigned i = 0; i < count; ++i) calls += g_before[i] >= g_eval && g_before[i] < g_eval_end;
  for (unsigned i = 0; i < count && put < most; ++i) {
    const int is_call = g_before[i] >= g_eval && g_before[i] < g_eval_end;
    if (frame == 0 || !is_call) {
      const int is_own = g_before[i] >= g_object && g_before[i] < g_object_end;
      if (!is_own || !was_called) frames[put++] = g_before[i];
      was_called |= !is_own;
      continue;
    }
    was_called = 1;
    const unsigned before = put;
    put = put_call(&frame, frames, put, most);
    // What the walk up the stack did not come to is called from further out.
    for (--calls; calls == 0 && frame != 0 && put < most;) put = put_call(&frame, frames, put, most);
    if (put == before) frames[put++] = g_before[i];
  }
  return put;
}

// --- The interpreter. ---

// The offset of a field of code objects, as Python code reads it by its name; 0: there is none.
static size_t code_field(const char* name) {
  enum { kMembers = 240 };
  struct member {
    const char* name;
    int type;
    ptrdiff_t offset;
    int flags;
    const char* text;
  };
  const struct member* member = (const struct member*)word(g_code_type, kMembers);
  for (; member != NULL && member->name != NULL; ++member) {
    if (strcmp(member->name, name) == 0) return (size_t)member->offset;
  }
  return 0;
}

// What 3.13 says of itself begins so; a number of 8 bytes each.
static int read_offsets(const char* runtime) {
  enum {
    kVersion = 1,
    kFreeThreaded = 2,
    kThreadFrame = 23,
    kPrevious = 29,
    kCode = 30,
    kInstruction = 31,
    kOwner = 33
  };
  uint64_t said[kOwner + 1];
  memcpy(said, runtime, sizeof said);
  if (memcmp(said, "xdebugpy", 8) != 0 || said[kVersion] >> 16 != 0x030d || said[kFreeThreaded] != 0) return 0;
  g_at.frame_of_thread = said[kThreadFrame];
  g_at.previous = said[kPrevious];
  g_at.code = said[kCode];
  g_at.instruction = said[kInstruction];
  g_at.entry = said[kOwner];
  g_at.entry_is_owner = 1;
  return 1;
}

static int find_offsets(const char* version, const char* runtime) {
  enum { kBasicSize = 32 };
  if (strncmp(version, "3.11.", 5) == 0) {
    g_at.frame_of_thread = 56;
    g_at.has_cframe = 1;
    g_at.frame_of_cframe = 8;
    g_at.code = 32;
    g_at.previous = 48;
    g_at.instruction = 56;
    g_at.entry = 68;
  } else if (strncmp(version, "3.12.", 5) == 0) {
    g_at.frame_of_thread = 56;
    g_at.has_cframe = 1;
    g_at.frame_of_cframe = 0;
    g_at.code = 0;
    g_at.previous = 8;
    g_at.instruction = 56;
    g_at.entry = 70;
    g_at.entry_is_owner = 1;
  } else if (strncmp(version, "3.13.", 5) != 0 || !read_offsets(runtime)) {
    return 0;
  }
  g_at.filename = code_field("co_filename");
  g_at.qualname = code_field("co_qualname");
  g_at.bytecode = word(g_code_type, kBasicSize);
  // A string that is not ASCII has two or three fields more before its characters: three with wchar_t, until 3.11.
  const size_t string = word(g_text_type, kBasicSize);
  g_at.ascii = string == 80 ? 48 : 40;
  g_at.text = string - sizeof(void*);
  // A build that differs from all others, as one that traces references, has objects of other sizes.
  return g_at.filename != 0 && g_at.qualname != 0 && (string == 80 || string == 64);
}

static int find_object(struct dl_phdr_info* object, size_t size, void* unused) {
  (void)size;
  (void)unused;
  uintptr_t first = UINTPTR_MAX, end = 0;
  for (unsigned i = 0; i < object->dlpi_phnum; ++i) {
    if (object->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t at = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
    if (at < first) first = at;
    if (at + object->dlpi_phdr[i].p_memsz > end) end = at + object->dlpi_phdr[i].p_memsz;
  }
  if (g_eval < first || g_eval >= end) return 0;
  g_object = first;
  g_object_end = end;
  return 1;
}

__attribute__((constructor)) static void begin(void) {
  const char* runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime == NULL) return;
  const char* (*get_version)(void) = NULL;
  void* eval = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  *(void**)&get_version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
  *(void**)&g_this_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  *(void**)&g_line_of = dlsym(RTLD_DEFAULT, "PyCode_Addr2Line");
  g_code_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
  g_text_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyUnicode_Type");
  Dl_info unused;
  const ElfW(Sym)* symbol = NULL;
  if (eval == NULL || get_version == NULL || g_this_thread == NULL || g_line_of == NULL || g_code_type == 0 ||
      g_text_type == 0 || dladdr1(eval, &unused, (void**)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL) {
    return;
  }
  g_eval = (uintptr_t)eval;
  g_eval_end = g_eval + symbol->st_size;
  dl_iterate_phdr(&find_object, NULL);
  g_ready = find_offsets(get_version(), runtime);
}
