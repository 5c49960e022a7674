// SPDX-License-Identifier: MIT
// The memory limits of the process's control group on Linux: version 2 (memory.max, memory.high) and version 1
// (memory.limit_in_bytes). Read with bare system calls, and with as few as do, for this runs inside malloc.
#include "os/linux/reader.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

using os::kNoMemoryLimit;

namespace {

constexpr usize kPathBytes = 640;                // longer paths count as unreadable; all of them lie on the stack
constexpr u64 kBeyondAnyMachine = u64{1} << 60;  // version 1 writes "none" as a number near 2^63

// A word or a path; what does not fit makes it unusable.
class Word {
 public:
  void clear() { length_ = 0; }
  void add(char character) {
    if (length_ < kPathBytes - 1) text_[length_] = character;
    ++length_;
  }
  void add(const char* text) {
    while (*text != 0) add(*text++);
  }
  void cut(usize length) { length_ = length; }
  void set(usize index, char character) { text_[index] = character; }
  bool fits() const { return length_ < kPathBytes; }
  usize length() const { return length_; }
  char operator[](usize index) const { return text_[index]; }
  const char* text() {
    text_[fits() ? length_ : kPathBytes - 1] = 0;
    return text_;
  }
  bool is(const char* other) const { return same(0, length_, other); }
  // Whether it is among the words between commas.
  bool lists(const char* word) const {
    if (!fits()) return false;
    for (usize from = 0; from <= length_;) {
      usize to = from;
      while (to < length_ && text_[to] != ',') ++to;
      if (same(from, to, word)) return true;
      from = to + 1;
    }
    return false;
  }

 private:
  bool same(usize from, usize to, const char* other) const {
    if (!fits()) return false;
    while (from < to && *other != 0 && text_[from] == *other) ++from, ++other;
    return from == to && *other == 0;
  }

  usize length_ = 0;
  char text_[kPathBytes];
};

// Reads into `word` up to a separator or the line's end; returns what ended it.
int read_until(Reader& reader, char separator, Word& word) {
  word.clear();
  for (;;) {
    const int character = reader.next();
    if (character == Reader::kEnd || character == '\n' || character == separator) return character;
    word.add(static_cast<char>(character));
  }
}

void skip_line(Reader& reader, int last) {
  while (last != '\n' && last != Reader::kEnd) last = reader.next();
}

// mountinfo writes a space, a tab, a line end and a backslash in a path as \ooo.
void unescape(Word& word) {
  if (!word.fits()) return;
  const auto octal = [&](usize at) { return at < word.length() && word[at] >= '0' && word[at] <= '7'; };
  usize to = 0;
  for (usize from = 0; from < word.length(); ++to) {
    if (word[from] == '\\' && octal(from + 1) && octal(from + 2) && octal(from + 3)) {
      const int code = (word[from + 1] - '0') * 64 + (word[from + 2] - '0') * 8 + (word[from + 3] - '0');
      word.set(to, static_cast<char>(code));
      from += 4;
    } else {
      word.set(to, word[from++]);
    }
  }
  word.cut(to);
}

enum class Version : u8 { two, one };

// The group's path in its hierarchy, from /proc/self/cgroup: "0::PATH" or "7:memory,pids:PATH".
bool find_group(const char* root, Version version, Word& path) {
  Word field;
  field.add(root);
  field.add("/proc/self/cgroup");
  if (!field.fits()) return false;
  Reader reader(field.text());
  for (;;) {
    if (read_until(reader, ':', field) != ':') return false;
    const bool zero = field.is("0");
    if (read_until(reader, ':', field) != ':') return false;
    const bool wanted = version == Version::two ? zero && field.is("") : field.lists("memory");
    const int end = read_until(reader, '\n', path);
    if (wanted) return path.fits() && path.length() > 0 && path[0] == '/';
    if (end == Reader::kEnd) return false;
  }
}

// Whether the path leads out of what is mounted: "/../sibling", as a process sees it from inside a cgroup namespace.
bool leads_out(const Word& path) {
  for (usize i = 0; i + 2 < path.length(); ++i) {
    if (path[i] == '/' && path[i + 1] == '.' && path[i + 2] == '.') return true;
  }
  return false;
}

// Where the hierarchy is mounted, from /proc/self/mountinfo:
//   36 35 0:26 ROOT POINT rw,nosuid [OPTIONAL...] - TYPE SOURCE OPTIONS
// `path` becomes what of it lies below the mount point. ROOT is the group that is mounted there.
bool find_mount(const char* root, Version version, Word& path, Word& point) {
  Word field;
  field.add(root);
  field.add("/proc/self/mountinfo");
  if (!field.fits()) return false;
  Reader reader(field.text());
  for (;;) {
    int end = 0;
    for (u32 i = 0; i < 4; ++i) {
      end = read_until(reader, ' ', field);
      if (end == Reader::kEnd) return false;
      if (end == '\n') break;
    }
    if (end == '\n') continue;
    unescape(field);
    // The mounted group, without the slash of "/" alone.
    const usize above = field.is("/") ? 0 : field.length();
    usize same = 0;
    while (same < above && same < path.length() && field.fits() && field[same] == path[same]) ++same;
    const bool inside = same == above && (above == path.length() || path[above] == '/') && !leads_out(path);
    end = read_until(reader, ' ', point);
    while (end == ' ' && !field.is("-")) end = read_until(reader, ' ', field);
    if (end == ' ') end = read_until(reader, ' ', field);
    const bool is_type = field.is(version == Version::two ? "cgroup2" : "cgroup");
    if (end == ' ') end = read_until(reader, ' ', field);
    if (end == ' ') end = read_until(reader, ' ', field);
    const bool found = is_type && (version == Version::two || field.lists("memory"));
    skip_line(reader, end);
    if (!found) continue;
    unescape(point);
    if (!inside) {
      path.clear();  // the group cannot be seen from here: the limits of the mounted one hold for it too
    } else if (above > 0) {
      for (usize i = above; i < path.length(); ++i) path.set(i - above, path[i]);
      path.cut(path.length() - above);
    }
    return point.fits() && path.fits();
  }
}

// The lowest limit so far, and whether any file was there.
struct Lowest {
  usize limit = kNoMemoryLimit;
  bool found = false;

  // The number in a file counts; "max" and what cannot be read do not.
  void read(Word& directory, const char* name) {
    const usize length = directory.length();
    directory.add(name);
    if (directory.fits()) {
      Reader reader(directory.text());
      found = found || reader.is_open();
      int character = reader.next();
      u64 value = 0;
      bool any = false;
      for (; character >= '0' && character <= '9' && value < kBeyondAnyMachine; character = reader.next()) {
        value = value * 10 + static_cast<u64>(character - '0');
        any = true;
      }
      if (any && value < kBeyondAnyMachine && value < limit) limit = value;
    }
    directory.cut(length);
  }

  void read_group(Word& directory, Version version) {
    if (version == Version::one) return read(directory, "/memory.limit_in_bytes");
    read(directory, "/memory.max");
    read(directory, "/memory.high");
  }
};

// Of the group at `path` and of all above it, up to the mount point. Without `wants_own`; with it, nothing is found if
// the group itself has no limits to read.
Lowest read_groups(const char* root, const char* point, Word& path, Version version, bool wants_own) {
  Word directory;
  directory.add(root);
  directory.add(point);
  const usize top = directory.length();
  if (!path.is("/")) directory.add(path.text());
  Lowest lowest;
  while (directory.fits()) {
    lowest.read_group(directory, version);
    if (directory.length() <= top || (wants_own && !lowest.found)) break;
    usize length = directory.length() - 1;
    while (length > top && directory[length] != '/') --length;
    directory.cut(length);
  }
  return lowest;
}

// Where nearly every system has the hierarchy. A group that is found there by its whole path is the process's; and the
// list of mounts, which takes the kernel longer than all else here, is not read.
const char* usual_point(Version version) {
  return version == Version::two ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
}

usize lowest_limit(const char* root, Version version, Word& path) {
  if (!leads_out(path)) {
    const Lowest usual = read_groups(root, usual_point(version), path, version, true);
    if (usual.found) return usual.limit;
  }
  Word point;
  if (!find_mount(root, version, path, point)) return kNoMemoryLimit;
  return read_groups(root, point.text(), path, version, false).limit;
}

}  // namespace

usize cgroup_memory_limit(const char* root) {
  const KeepErrno keep;
  // Memory is limited in one hierarchy: where one of version 1 has it, version 2 knows no limits of memory.
  Word path;
  if (find_group(root, Version::one, path)) return lowest_limit(root, Version::one, path);
  return find_group(root, Version::two, path) ? lowest_limit(root, Version::two, path) : kNoMemoryLimit;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
