// SPDX-License-Identifier: MIT
// Preloaded behind Coffer where heap profiles are taken: says which Python functions a sample's call stack runs.
//
// Each call of _PyEval_EvalFrameDefault on the stack is replaced by the functions that it interprets, read from the
// frames of this thread's interpreter. What else the interpreter has on the stack says no more and is left out, but for
// what it does in the innermost function: the table of stacks has room for so much more.
//
// Why that is sound: only a thread itself changes its frames, so in an allocation of its own they are whole. A function
// that is just being left may have its code half freed; the code's count of references is 0 then, and it is left out.
// Nothing of Python's is called but two functions that say whose thread this is. Without the interpreter's lock,
// though, a daemon thread may come here while or after the interpreter, at its end, frees what it has of that thread.
// In threads without the lock all is read by process_vm_readv, which fails where there is no memory; and what is read
// is taken for an object only if it has its type. The main thread needs no such care: it is the one that ends it.
//
// Where things lie: for 3.11 and 3.12 as their headers have it, which within a version does not change; 3.13 says it
// itself, for debuggers. Other versions have no Python functions in their stacks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "observe/interpreted.h"

enum {
  kMostFrames = 256,
  kMostPlaces = 32 * 1024,
  kTextBytes = 8 * 1024 * 1024,
  kMostFunction = 256,  // bytes
  kMostFile = 1024,
  kMostCode = 512,         // of a code object, before its instructions
  kMostTable = 64 * 1024,  // of its table of lines, where that is not read in place
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
struct offsets {
  size_t frame_of_thread;  // of the frame, or of what has it
  int has_cframe;          // at frame_of_cframe then
  size_t frame_of_cframe;
  size_t code, previous, instruction;
  size_t entry;  // a byte: in 3.11 whether C called the function; since then who owns the frame
  int entry_is_owner;
  size_t filename, qualname, first_line, lines, bytecode;  // of a code object
  size_t ascii, text;                                      // of a string: its characters, if all are ASCII, and else
};
static struct offsets g_at;

static const struct offsets k311 = {.frame_of_thread = 56,
                                    .has_cframe = 1,
                                    .frame_of_cframe = 8,
                                    .code = 32,
                                    .previous = 48,
                                    .instruction = 56,
                                    .entry = 68};
static const struct offsets k312 = {.frame_of_thread = 56,
                                    .has_cframe = 1,
                                    .frame_of_cframe = 0,
                                    .code = 0,
                                    .previous = 8,
                                    .instruction = 56,
                                    .entry = 70,
                                    .entry_is_owner = 1};

enum { kOwnedByC = 3 };

static int g_ready;
static uintptr_t g_eval, g_eval_end;      // the function that interprets
static uintptr_t g_object, g_object_end;  // the file that it is in
static uintptr_t g_code_type, g_text_type, g_bytes_type;
static void* (*g_this_thread)(void);     // that is known to Python, whether it has the lock or not
static void* (*g_running_thread)(void);  // that has the lock
static pthread_t g_main_thread;

// --- Memory of the interpreter. ---

static int g_is_careful;  // for this stack; under the lock

static int take(void* to, uintptr_t from, size_t bytes) {
  if (!g_is_careful) {
    memcpy(to, (const void*)from, bytes);
    return 1;
  }
  const struct iovec here = {to, bytes}, there = {(void*)from, bytes};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

// 0 where there is nothing.
static uintptr_t word(uintptr_t object, size_t offset) {
  uintptr_t value;
  return take(&value, object + offset, sizeof value) ? value : 0;
}

static uintptr_t word_in(const unsigned char* object, size_t offset) {
  uintptr_t value;
  memcpy(&value, object + offset, sizeof value);
  return value;
}

// --- Objects of Python. ---

enum { kReferences = 0, kType = 8, kLength = 16, kTextState = 32 };  // as all supported versions have them

// The first bytes of an object, if it is a live one of the type.
static int take_object(uintptr_t object, uintptr_t type, unsigned char* to, size_t bytes) {
  return object != 0 && take(to, object, bytes) && word_in(to, kType) == type && (intptr_t)word_in(to, kReferences) > 0;
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
  unsigned char head[kTextState + sizeof(uint32_t)], characters[kMostFile];
  to[0] = 0;
  if (!take_object(object, g_text_type, head, sizeof head)) return 0;
  uint32_t state;
  memcpy(&state, head + kTextState, sizeof state);
  const unsigned size = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
  if (!is_compact || (size != 1 && size != 2 && size != 4)) return 0;
  uintptr_t count = word_in(head, kLength);
  if (count > sizeof characters / size) count = sizeof characters / size;
  if (!take(characters, object + (is_ascii ? g_at.ascii : g_at.text), count * size)) return 0;
  unsigned used = 0;
  for (uintptr_t i = 0; i < count && used + 5 <= room; ++i) {
    uint32_t character = 0;
    memcpy(&character, characters + i * size, size);
    used += put_character(to + used, character);
  }
  to[used] = 0;
  return used;
}

// --- Lines: the table that a code object has of them. ---

static unsigned char g_table[kMostTable];

static unsigned read_number(const unsigned char** at, const unsigned char* end) {
  unsigned value = 0, shift = 0, part = 0x40;
  for (; (part & 0x40) != 0 && *at < end && shift < 30; shift += 6) {
    part = *(*at)++;
    value |= (part & 0x3f) << shift;
  }
  return value;
}

// Of the instruction so many units into the code; 0: it has none. An entry has its kind, how many units it is for, and
// how far its line is from that of the one before.
static unsigned line_of(const unsigned char* code, uintptr_t unit) {
  enum { kHead = 32, kLong = 14, kNone = 15, kOneLine = 10 };
  unsigned char head[kHead];
  int32_t line;
  memcpy(&line, code + g_at.first_line, sizeof line);
  const uintptr_t object = word_in(code, g_at.lines);
  if (!take_object(object, g_bytes_type, head, sizeof head)) return 0;
  uintptr_t length = word_in(head, kLength);
  const unsigned char* table = (const unsigned char*)(object + kHead);
  if (g_is_careful) {
    if (length > sizeof g_table) length = sizeof g_table;
    if (!take(g_table, object + kHead, length)) return 0;
    table = g_table;
  }
  const unsigned char* const end = table + length;
  for (uintptr_t next = 0; table < end;) {
    const unsigned first = *table++, kind = first >> 3 & 15;
    if (kind == kLong || kind == kNone - 2) {  // the latter has no columns
      const unsigned change = read_number(&table, end);
      line += (change & 1) != 0 ? -(int32_t)(change >> 1) : (int32_t)(change >> 1);
    } else if (kind >= kOneLine && kind < kOneLine + 3) {
      line += (int32_t)kind - kOneLine;
    }
    while (table < end && (*table & 0x80) == 0) ++table;  // columns
    next += (first & 7) + 1;
    if (unit < next) return kind == kNone || line < 0 ? 0 : (unsigned)line;
  }
  return 0;
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

// The address that stands for it; 0: it is no live function, or there is no room for more.
static uintptr_t place_of(uintptr_t object, uintptr_t instruction) {
  unsigned char code[kMostCode];
  if (!take_object(object, g_code_type, code, g_at.bytecode)) return 0;
  char function[kMostFunction], file[kMostFile];
  const unsigned function_length = copy_text(word_in(code, g_at.qualname), function, sizeof function);
  const unsigned file_length = copy_text(word_in(code, g_at.filename), file, sizeof file);
  // A frame that the interpreter puts around a call of a class, from 3.13 on, has its name for a file.
  if (strcmp(function, file) == 0) return 0;
  // Before a function's first instruction it is none of its own.
  const uintptr_t begin = object + g_at.bytecode;
  const unsigned line = line_of(code, instruction < begin ? 0 : (instruction - begin) / 2);
  uint64_t hash = hash_text(line, function, function_length);
  hash = hash_text(hash, file, file_length);
  // Two places of one hash of 64 bits are taken for one.
  for (uint64_t slot = hash >> 17;; ++slot) {
    uint32_t* known = &g_place_at[slot % (2 * kMostPlaces)];
    if (*known == 0) {
      if (g_place_count == kMostPlaces || kTextBytes - g_text_used < function_length + file_length + 2) return 0;
      g_places[g_place_count] = (struct place){.hash = hash,
                                               .function = add_text(function, function_length),
                                               .file = add_text(file, file_length),
                                               .line = line};
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
  g_is_careful = (uintptr_t)g_running_thread() != thread && !pthread_equal(pthread_self(), g_main_thread);
  const uintptr_t found = word(thread, g_at.frame_of_thread);
  return found != 0 && g_at.has_cframe ? word(found, g_at.frame_of_cframe) : found;
}

// Puts the functions of one call of the interpreter, and goes on to the next one's. At most `left` frames are read, of
// all calls: where something else has come to lie (first_frame), what is read there may go round in a circle.
static unsigned put_call(uintptr_t* next, uintptr_t* frames, unsigned count, unsigned most, unsigned* left) {
  enum { kFrame = 72 };
  unsigned char frame[kFrame];
  for (int is_last = 0; *next != 0 && !is_last && count < most; *next = word_in(frame, g_at.previous)) {
    if (*left == 0 || !take(frame, *next, sizeof frame)) {
      *next = 0;
      break;
    }
    --*left;
    const unsigned entry = frame[g_at.entry];
    is_last = g_at.entry_is_owner ? entry == kOwnedByC : entry != 0;
    if (g_at.entry_is_owner && is_last) continue;  // it is none of the program's
    const uintptr_t place = place_of(word_in(frame, g_at.code), word_in(frame, g_at.instruction));
    if (place != 0) frames[count++] = place;
  }
  return count;
}

unsigned coffer_interpreted_stack(uintptr_t* frames, unsigned count, unsigned most) {
  if (!g_ready || count > kMostFrames) return count;
  uintptr_t frame = first_frame();
  if (frame == 0) return count;
  memcpy(g_before, frames, count * sizeof *frames);
  unsigned put = 0, calls = 0, left = 2 * most;  // a frame in two, at least, is a function's
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
    put = put_call(&frame, frames, put, most, &left);
    // What the walk up the stack did not come to is called from further out.
    for (--calls; calls == 0 && frame != 0 && put < most;) put = put_call(&frame, frames, put, most, &left);
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
  enum { kBasicSize = 32, kMostEntry = 72 };
  if (strncmp(version, "3.11.", 5) == 0) {
    g_at = k311;
  } else if (strncmp(version, "3.12.", 5) == 0) {
    g_at = k312;
  } else if (strncmp(version, "3.13.", 5) != 0 || !read_offsets(runtime)) {
    return 0;
  }
  g_at.filename = code_field("co_filename");
  g_at.qualname = code_field("co_qualname");
  g_at.first_line = code_field("co_firstlineno");
  g_at.lines = code_field("co_linetable");
  g_at.bytecode = word(g_code_type, kBasicSize);
  // A string that is not ASCII has two or three fields more before its characters: three with wchar_t, until 3.11.
  const size_t string = word(g_text_type, kBasicSize);
  g_at.ascii = string == 80 ? 48 : 40;
  g_at.text = string - sizeof(void*);
  // A build that differs from all others, as one that traces references, has objects of other sizes.
  return g_at.filename != 0 && g_at.qualname != 0 && g_at.first_line != 0 && g_at.lines != 0 &&
         g_at.bytecode <= kMostCode && g_at.entry < kMostEntry && (string == 80 || string == 64);
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

// Of a function; 0: not known. musl does not say, and Python's functions have no names there.
static size_t size_of(void* function) {
#ifdef __GLIBC__
  Dl_info unused;
  const ElfW(Sym)* symbol = NULL;
  if (function != NULL && dladdr1(function, &unused, (void**)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL) {
    return symbol->st_size;
  }
#else
  (void)function;
#endif
  return 0;
}

__attribute__((constructor)) static void begin(void) {
  const char* runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (runtime == NULL) {
    // What dlsym said of it is the program's first block that is never freed, unless it was asked for twice.
    dlerror();
    dlerror();
    return;
  }
  const char* (*get_version)(void) = NULL;
  void* eval = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  *(void**)&get_version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
  *(void**)&g_this_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  void* running = dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
  if (running == NULL) running = dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
  *(void**)&g_running_thread = running;
  g_code_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
  g_text_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyUnicode_Type");
  g_bytes_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyBytes_Type");
  const size_t size = size_of(eval);
  if (size == 0 || get_version == NULL || g_this_thread == NULL || g_running_thread == NULL || g_code_type == 0 ||
      g_text_type == 0 || g_bytes_type == 0) {
    return;
  }
  g_eval = (uintptr_t)eval;
  g_eval_end = g_eval + size;
  dl_iterate_phdr(&find_object, NULL);
  g_main_thread = pthread_self();
  g_ready = find_offsets(get_version(), runtime);
}
