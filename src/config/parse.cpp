// SPDX-License-Identifier: MIT
#include "config/parse.hpp"

namespace coffer::config {

namespace {

bool equal(const char* name, const char* text, usize length) {
  for (usize i = 0; i < length; ++i) {
    if (name[i] == 0 || name[i] != text[i]) return false;
  }
  return name[length] == 0;
}

// Place of the text among words between bars; false if it is none of them.
bool parse_word(const char* words, const char* text, usize length, u64& value) {
  for (value = 0;; ++value) {
    usize end = 0;
    while (words[end] != 0 && words[end] != '|') ++end;
    usize same = 0;
    while (same < length && same < end && words[same] == text[same]) ++same;
    if (same == length && same == end) return true;
    if (words[end] == 0) return false;
    words += end + 1;
  }
}

// The power of two that a suffix stands for; false if it is none.
bool suffix_shift(char suffix, u32& shift) {
  switch (suffix) {
    case 'K':
    case 'k':
      shift = 10;
      return true;
    case 'M':
    case 'm':
      shift = 20;
      return true;
    case 'G':
    case 'g':
      shift = 30;
      return true;
    case 'T':
    case 't':
      shift = 40;
      return true;
    default:
      return false;
  }
}

// Decimal digits and, for a size, one suffix. false on anything else and on overflow.
bool parse_number(const char* text, usize length, bool with_suffix, u64& value) {
  u32 shift = 0;
  if (with_suffix && length > 0 && suffix_shift(text[length - 1], shift)) --length;
  if (length == 0) return false;
  value = 0;
  for (usize i = 0; i < length; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (__builtin_mul_overflow(value, u64{10}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<u64>(text[i] - '0'), &value)) return false;
  }
  return !__builtin_mul_overflow(value, u64{1} << shift, &value);
}

// What the option takes, for a complaint.
void print_wanted(const Option& option, Text& text) {
  switch (option.type) {
    case Type::choice:
    case Type::boolean:
      text.add(option.words);
      return;
    case Type::text:
      text.add("up to 255 characters");
      return;
    case Type::size:
    case Type::unsigned_number:
      text.add(option.type == Type::size ? "a size from " : "a number from ");
      print_value(option, option.least, text);
      text.add(" to ");
      print_value(option, option.greatest, text);
      return;
  }
}

// Whatever the environment holds goes to a terminal: only printable characters pass, and not too many.
void print_quoted(const char* item, usize length, Text& text) {
  constexpr usize kLongest = 80;
  text.add('"');
  for (usize i = 0; i < length && i < kLongest; ++i) text.add(item[i] >= ' ' && item[i] <= '~' ? item[i] : '?');
  text.add(length > kLongest ? "...\"" : "\"");
}

usize item_length(const char* item) {
  usize length = 0;
  while (item[length] != 0 && item[length] != ',') ++length;
  return length;
}

bool is_blank(char character) {
  return character == ' ' || character == '\t' || character == '\n' || character == '\r';
}

struct Part {
  const char* text;
  usize length;
};

// Without the blanks around it.
Part trim(const char* text, usize length) {
  while (length > 0 && is_blank(*text)) ++text, --length;
  while (length > 0 && is_blank(text[length - 1])) --length;
  return {text, length};
}

// What is before the colon; all of an item without one.
usize colon_in(const Part& item) {
  usize colon = 0;
  while (colon < item.length && item.text[colon] != ':') ++colon;
  return colon;
}

Part name_in(const Part& item) { return trim(item.text, colon_in(item)); }

// Whether an item of `text` before `name` has the same name.
bool is_repeated(const char* text, const Part& name) {
  while (text < name.text) {
    const usize length = item_length(text);
    const Part item = trim(text, length);
    const Part other = name_in(item);
    usize same = 0;
    while (same < name.length && same < other.length && other.text[same] == name.text[same]) ++same;
    if (other.text != name.text && item.length > 0 && same == name.length && other.length == name.length) return true;
    text += length + 1;  // past the comma: another item follows
  }
  return false;
}

// One item of `text`, not empty.
bool parse_item(const char* text, const Part& item, Source source, Settings& settings, const Complaints& complaints) {
  const usize colon = colon_in(item);
  const Part name = name_in(item);
  const Option* option = find_option(name.text, name.length);
  if (option != nullptr && colon < item.length) {
    const Part part = trim(item.text + colon + 1, item.length - colon - 1);
    u64 value = 0;
    if (parse_value(*option, part.text, part.length, value)) {
      option->set(settings.values, value);
      settings.sources[option - kOptions] = source;
      return true;
    }
  }
  if (option == nullptr && is_repeated(text, name)) return false;
  TextBuffer<320> line;
  line.add(source_name(source)).add(": ");
  if (option == nullptr) {
    line.add("unknown option ");
    print_quoted(name.text, name.length, line);
  } else {
    line.add("bad value in ");
    print_quoted(item.text, item.length, line);
    line.add(", ").add(option->name).add(" takes ");
    print_wanted(*option, line);
  }
  complaints.take(line, complaints.context);
  return false;
}

}  // namespace

const char* source_name(Source source) {
  switch (source) {
    case Source::standard:
      return "default";
    case Source::program:
      return "coffer_conf_string";
    case Source::environment:
      return kVariable;
  }
  return "";
}

const Option* find_option(const char* name, usize length) {
  for (const Option& option : kOptions) {
    if (equal(option.name, name, length)) return &option;
  }
  return nullptr;
}

namespace {

// Texts outlive where they were read; what a program sets again and again finds no room in the end, and is refused.
constexpr usize kLongestText = 255;
char g_texts[1024];
usize g_texts_used;

bool keep_text(const char* text, usize length, u64& value) {
  if (length > kLongestText || length + 1 > sizeof g_texts - g_texts_used) return false;
  char* kept = g_texts + g_texts_used;
  for (usize i = 0; i < length; ++i) kept[i] = text[i];
  kept[length] = 0;
  g_texts_used += length + 1;
  value = length != 0 ? reinterpret_cast<uptr>(kept) : 0;
  return true;
}

}  // namespace

bool parse_value(const Option& option, const char* text, usize length, u64& value) {
  if (option.type == Type::text) return keep_text(text, length, value);
  u64 read = 0;
  const bool is_number = option.type == Type::size || option.type == Type::unsigned_number;
  if (is_number ? !parse_number(text, length, option.type == Type::size, read)
                : !parse_word(option.words, text, length, read)) {
    return false;
  }
  if (read < option.least || read > option.greatest) return false;
  value = read;
  return true;
}

void print_value(const Option& option, u64 value, Text& text) {
  if (option.type == Type::text) {
    if (value != 0) text.add(reinterpret_cast<const char*>(value));
    return;
  }
  if (option.type == Type::choice || option.type == Type::boolean) {
    const char* word = option.words;
    for (u64 i = 0; i < value; ++word) i += *word == '|' ? 1 : 0;
    while (*word != 0 && *word != '|') text.add(*word++);
    return;
  }
  if (option.type == Type::size && value != 0) {
    constexpr char kSuffixes[] = "TGMK";
    for (u32 i = 0; i < 4; ++i) {
      const u32 shift = 40 - 10 * i;
      if ((value >> shift) << shift == value) {
        text.number(value >> shift).add(kSuffixes[i]);
        return;
      }
    }
  }
  text.number(value);
}

bool parse(const char* text, Source source, Settings& settings, const Complaints& complaints) {
  bool good = true;
  for (const char* item = text; *item != 0;) {
    const usize length = item_length(item);
    const Part part = trim(item, length);
    if (part.length > 0) good &= parse_item(text, part, source, settings, complaints);
    item += length;
    if (*item == ',') ++item;
  }
  return good;
}

void print_all(const Options& options, Text& text) {
  for (const Option& option : kOptions) {
    if (&option != kOptions) text.add(',');
    text.add(option.name).add(':');
    print_value(option, option.get(options), text);
  }
}

}  // namespace coffer::config
