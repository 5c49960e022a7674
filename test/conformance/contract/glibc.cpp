// SPDX-License-Identifier: MIT
// What glibc adds to the standards, and its own functions that return blocks for the program to free.
#include <dirent.h>
#include <unistd.h>
#include <wchar.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

// uordblks alone in some allocators, with hblkhd (mapped blocks) beside it in glibc.
std::size_t reported_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void** allocate_many(std::size_t count, std::size_t size) {
  auto** blocks = static_cast<void**>(malloc(count * sizeof(void*)));
  for (std::size_t i = 0; i < count; ++i) {
    blocks[i] = malloc(size);
    CHECK(blocks[i] != nullptr);
    memset(blocks[i], 1, size);
  }
  return blocks;
}

void free_many(void** blocks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
  free(blocks);
}

}  // namespace

CASE(sized_frees) {
  auto* sized = function<void(void*, std::size_t)>("free_sized");
  auto* aligned_sized = function<void(void*, std::size_t, std::size_t)>("free_aligned_sized");
  if (sized == nullptr || aligned_sized == nullptr) {
    CHECK(!is_coffer(), "Coffer must export both");
    skip("free_sized is not there");
  }
  for (std::size_t size = 0; size < 50'000; size += size < 2000 ? 1 : 777) {
    sized(malloc(hide(size)), size);
    sized(calloc(1, hide(size)), size);
    sized(realloc(malloc(10), size + 1), size + 1);
    for (std::size_t alignment = 16; alignment <= 8192; alignment *= 8) {
      aligned_sized(aligned_alloc(alignment, hide(size)), alignment, size);
    }
  }
  for (const std::size_t size : {100'000, 1'000'000, 3'000'000, 50'000'000}) {
    sized(malloc(size), size);
    aligned_sized(aligned_alloc(4096, size), 4096, size);
  }
  errno = 4242;
  sized(nullptr, 100);
  aligned_sized(nullptr, 64, 100);
  CHECK(errno == 4242);
  check_metadata();
}

CASE(cfree_where_exported) {
  auto* cfree = function<void(void*)>("cfree");
  if (cfree == nullptr) {
    CHECK(!is_coffer(), "Coffer must export cfree");
    skip("cfree is not there");
  }
  for (int i = 0; i < 1000; ++i) cfree(malloc(static_cast<std::size_t>(i)));
}

CASE(reallocarray_works) {
  auto* numbers = static_cast<int*>(reallocarray(nullptr, 10, sizeof(int)));
  CHECK(numbers != nullptr);
  for (int i = 0; i < 10; ++i) numbers[i] = i;
  numbers = static_cast<int*>(reallocarray(numbers, 100'000, sizeof(int)));
  CHECK(numbers != nullptr && malloc_usable_size(numbers) >= 100'000 * sizeof(int));
  for (int i = 0; i < 10; ++i) CHECK(numbers[i] == i);
  free(numbers);
}

CASE(mallinfo_changes_plausibly) {
  const std::size_t before = reported_in_use();
  void** blocks = allocate_many(64'000, 1000);
  const std::size_t during = reported_in_use();
  CHECK(during >= before + 60'000'000 && during <= before + 90'000'000, "from %zu to %zu", before, during);
  free_many(blocks, 64'000);
  const std::size_t after = reported_in_use();
  CHECK(after <= before + 2'000'000, "from %zu to %zu", before, after);
  void* large = malloc(200'000'000);
  const std::size_t with_large = reported_in_use();
  CHECK(with_large >= after + 200'000'000 && with_large < after + 210'000'000, "from %zu to %zu", after, with_large);
  free(large);
  CHECK(reported_in_use() < after + 2'000'000);
  const struct mallinfo2 info = mallinfo2();
  CHECK(info.uordblks <= info.arena + info.hblkhd, "in use %zu of %zu + %zu", info.uordblks, info.arena, info.hblkhd);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  CHECK(narrow.uordblks >= 0 && narrow.arena >= 0);
}

// Prints the document; the driver parses it.
CASE(malloc_info_is_xml) {
  void** blocks = allocate_many(10'000, 100);
  void* large = malloc(3'000'000);
  CHECK(malloc_info(0, stdout) == 0);
  fflush(stdout);
  FILE* nowhere = fopen("/dev/null", "w");
  CHECK(malloc_info(0, nowhere) == 0);
  errno = 0;
  const int status = malloc_info(1, nowhere);
  CHECK(status == EINVAL || (status == -1 && errno == EINVAL), "options other than 0: %d", status);
  fclose(nowhere);
  free(large);
  free_many(blocks, 10'000);
}

CASE(malloc_stats_writes_to_stderr) {
  fflush(stderr);
  const int saved = dup(2);
  int ends[2];
  CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
  malloc_stats();
  fflush(stderr);
  CHECK(dup2(saved, 2) == 2 && close(ends[1]) == 0);
  char text[4096];
  const ssize_t length = read(ends[0], text, sizeof text);
  CHECK(length > 10, "%zd bytes", length);
  CHECK(text[length - 1] == '\n' || length == sizeof text);
}

// A program may put another stream in the place of `stderr` (issue 16).
CASE(malloc_stats_writes_to_a_replaced_stderr) {
  char* text = nullptr;
  std::size_t length = 0;
  FILE* const own = open_memstream(&text, &length);
  CHECK(own != nullptr);
  FILE* const saved = stderr;
  replace_stderr(own);
  malloc_stats();
  replace_stderr(saved);
  CHECK(fclose(own) == 0);
  CHECK(length > 10 && strncmp(text, "Arena 0:", 8) == 0, "%zu bytes", length);
  free(text);
}

CASE(malloc_trim_gives_memory_back) {
  const std::size_t before = resident_kib();
  void** blocks = allocate_many(100'000, 1000);
  void** large = allocate_many(100, 500'000);
  CHECK(resident_kib() >= before + 140'000);
  free_many(blocks, 100'000);
  free_many(large, 100);
  const int went = malloc_trim(0);
  CHECK(went == 0 || went == 1, "%d", went);
  const int again = malloc_trim(hide(std::size_t{1} << 20));
  CHECK(again == 0 || again == 1, "%d", again);
  const std::size_t after = resident_kib();
  note("resident before %zu KiB, after trim %zu KiB", before, after);
  // What may stay is metadata, under 2 % of the 150 MB.
  if (is_coffer()) CHECK(after < before + 3'000, "from %zu to %zu KiB", before, after);
  check_metadata();
}

CASE(mallopt_answers_0_or_1) {
  const int parameters[] = {M_MXFAST,
                            M_TRIM_THRESHOLD,
                            M_TOP_PAD,
                            M_MMAP_THRESHOLD,
                            M_MMAP_MAX,
                            M_CHECK_ACTION,
                            M_PERTURB,
                            M_ARENA_TEST,
                            M_ARENA_MAX,
                            12345,
                            0};
  for (const int parameter : parameters) {
    const int status = mallopt(parameter, parameter == M_MXFAST ? 64 : 1);
    CHECK(status == 0 || status == 1, "mallopt(%d) = %d", parameter, status);
  }
  for (int i = 0; i < 1000; ++i) free(malloc(static_cast<std::size_t>(i) * 100));
}

// Blocks that glibc allocated inside itself.
CASE(blocks_made_by_the_c_library) {
  char* copy = strdup("coffer");
  CHECK(strcmp(copy, "coffer") == 0 && malloc_usable_size(copy) >= 7);
  free(copy);
  copy = strndup("coffer", 3);
  CHECK(strcmp(copy, "cof") == 0);
  free(copy);
  free(wcsdup(L"coffer"));

  CHECK(asprintf(&copy, "%d and %s", 5, "seven") == 11 && strcmp(copy, "5 and seven") == 0);
  free(copy);
  CHECK(asprintf(&copy, "%100000d", 5) == 100'000);
  copy = static_cast<char*>(realloc(copy, 300'000));
  CHECK(copy != nullptr && copy[99'999] == '5');
  free(copy);

  char* text = nullptr;
  std::size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  for (int i = 0; i < 100'000; ++i) fprintf(stream, "%d\n", i);
  fclose(stream);
  CHECK(length == 588'890 && strlen(text) == length);

  stream = fmemopen(text, length, "r");
  char* line = nullptr;
  std::size_t capacity = 0;
  for (int i = 0; i < 100'000; ++i) CHECK(getline(&line, &capacity, stream) > 1 && atoi(line) == i);
  fclose(stream);
  free(line);
  free(text);

  copy = realpath("/proc/self/..", nullptr);
  CHECK(copy != nullptr && strcmp(copy, "/proc") == 0);
  free(copy);
  copy = getcwd(nullptr, 0);
  CHECK(copy != nullptr && copy[0] == '/');
  free(copy);

  struct dirent** entries = nullptr;
  const int count = scandir("/proc/self", &entries, nullptr, alphasort);
  CHECK(count > 10);
  for (int i = 0; i < count; ++i) free(entries[i]);
  free(entries);
}

CASE(hundreds_of_streams) {
  FILE* streams[300];
  for (FILE*& stream : streams) {
    stream = tmpfile();
    CHECK(stream != nullptr);
    fprintf(stream, "line\n");
  }
  for (FILE* stream : streams) fclose(stream);
  check_metadata();
}
