// SPDX-License-Identifier: MIT
// Preloaded into a program that valgrind's lackey runs (--trace-mem=yes): tells every call of malloc and free, by
// stores to a page of its own, which lackey prints. What is told lies in the address: field * 256 + a byte.
// accesses.cpp reads it. From `enter` to the end of the call nothing is the program's own work. And it is always the
// same time, for programs that seed their tables from it.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

// glibc's own allocator, which nothing replaces.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

PUBLIC void* malloc(size_t size);
PUBLIC void* calloc(size_t count, size_t size);
PUBLIC void* realloc(void* block, size_t size);
PUBLIC void* memalign(size_t alignment, size_t size);
PUBLIC void* aligned_alloc(size_t alignment, size_t size);
PUBLIC int posix_memalign(void** place, size_t alignment, size_t size);
PUBLIC void free(void* block);
PUBLIC time_t time(time_t* place);

// As accesses.cpp has them.
enum { field_enter = 0, field_end = 1, field_size = 2, field_block = 10, field_old = 18, field_count = 26 };
enum { call_alloc = 1, call_free = 2, call_realloc = 3 };
#define PAGE 0x200000000000UL

static volatile unsigned char* g_page;

// The page at its address is what lackey's output is searched for. Without it nothing is told.
__attribute__((constructor)) static void make_page(void) {
  void* page =
      mmap((void*)PAGE, 2U * 4096U, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (page == (void*)PAGE) {
    g_page = page;
  } else {
    static const char message[] = "marks: the page is taken\n";
    (void)!write(2, message, sizeof(message) - 1U);
    _exit(127);
  }
}

static void tell(unsigned field, uint64_t value) {
  for (unsigned i = 0; i < 8U; ++i, value >>= 8U) {
    g_page[(field + i) * 256U + (value & 0xFFU)] = 0;
  }
}

static void enter(void) {
  if (g_page != NULL) {
    g_page[field_enter] = 0;
  }
}

static void end(unsigned call, const void* block, size_t size, const void* old) {
  if (g_page != NULL) {
    tell(field_size, size);
    tell(field_block, (uintptr_t)block);
    tell(field_old, (uintptr_t)old);
    g_page[field_end * 256U + call] = 0;
  }
}

void* malloc(size_t size) {
  enter();
  void* block = __libc_malloc(size);
  end(call_alloc, block, size, NULL);
  return block;
}

void* calloc(size_t count, size_t size) {
  enter();
  void* block = __libc_calloc(count, size);
  end(call_alloc, block, count * size, NULL);
  return block;
}

void* realloc(void* old, size_t size) {
  enter();
  void* block = __libc_realloc(old, size);
  if (old == NULL) {
    end(call_alloc, block, size, NULL);
  } else if (block == NULL && size != 0U) {
    end(call_alloc, NULL, size, NULL);
  } else {
    end(call_realloc, block, size, old);
  }
  return block;
}

void* memalign(size_t alignment, size_t size) {
  enter();
  void* block = __libc_memalign(alignment, size);
  end(call_alloc, block, size, NULL);
  return block;
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** place, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1U)) != 0U) {
    return EINVAL;
  }
  void* block = memalign(alignment, size);
  if (block == NULL) {
    return ENOMEM;
  }
  *place = block;
  return 0;
}

void free(void* block) {
  enter();
  __libc_free(block);
  end(call_free, block, 0, NULL);
}

time_t time(time_t* place) {
  const time_t always = 1000000000;
  if (place != NULL) {
    *place = always;
  }
  return always;
}
