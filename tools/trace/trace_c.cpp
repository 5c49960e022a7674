// SPDX-License-Identifier: MIT
#include "trace/trace_c.h"

#include <cstdio>
#include <exception>
#include <string>

#include "trace/reader.hpp"

using namespace coffer::trace;

struct coffer_trace {
  explicit coffer_trace(const char* path) : reader(open_file(path)) {}
  Reader reader;
  std::string description;
};

namespace {

thread_local std::string t_error;

std::string hex(const std::string& bytes) {
  std::string text;
  char digits[3];
  for (const char byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

// Bytes that are no UTF-8 are given as the characters of the same numbers; a path need not be text.
void quote(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  void end() { out_ += '}'; }
  std::string& key(const char* name) {
    if (out_.back() != '{') out_ += ',';
    quote(out_, name);
    out_ += ':';
    return out_;
  }
  void number(const char* name, u64 value) { key(name) += std::to_string(value); }
  void flag(const char* name, bool value) { key(name) += value ? "true" : "false"; }
  void text(const char* name, const std::string& value) { quote(key(name), value); }

 private:
  std::string& out_;
};

void describe_information(Object& parent, const char* name, const Information& information) {
  Object object(parent.key(name));
  for (const auto& [key, value] : information) object.text(key.c_str(), value);
  object.end();
}

void describe_modules(Object& parent, const Reader& reader) {
  std::string& out = parent.key("modules");
  out += '[';
  for (const ModuleSet& set : reader.modules()) {
    if (out.back() != '[') out += ',';
    Object object(out);
    object.number("time", set.time);
    object.key("modules") += '[';
    for (const Module& module : set.modules) {
      if (out.back() != '[') out += ',';
      Object one(out);
      one.number("start", module.start);
      one.number("end", module.end);
      one.number("offset", module.offset);
      one.text("path", module.path);
      one.text("build_id", hex(module.build_id));
      one.end();
    }
    out += ']';
    object.end();
  }
  out += ']';
}

void describe_stacks(Object& parent, const Reader& reader) {
  std::string& out = parent.key("stacks");
  out += '{';
  for (const auto& [number, frames] : reader.stacks()) {
    if (out.back() != '{') out += ',';
    quote(out, std::to_string(number));
    out += ":[";
    for (const u64 frame : frames) {
      if (out.back() != '[') out += ',';
      out += std::to_string(frame);
    }
    out += ']';
  }
  out += '}';
}

void describe_missing(Object& parent, const FrameFile& file) {
  const Missing& missing = file.missing();
  Object object(parent.key("missing"));
  object.number("bytes", missing.bytes);
  object.number("frames", missing.frames);
  object.number("records", missing.records);
  object.flag("head", missing.is_head);
  object.end();
  parent.text("shortfall", file.shortfall());
}

std::string describe(const Reader& reader) {
  const FrameFile& file = reader.file();
  const Summary& summary = reader.summary();
  std::string out;
  Object object(out);
  object.text("version", std::to_string(file.head().major) + "." + std::to_string(file.head().minor));
  object.text("blocks", file.head().blocks == 0 ? "addresses" : "identities");
  object.number("realtime_ns", file.head().realtime_ns);
  object.number("bytes", file.size());
  object.flag("complete", file.complete());
  describe_missing(object, file);
  object.number("frames", file.frames().size());
  describe_information(object, "information", file.information());
  describe_information(object, "footer", file.footer());
  Object counts(object.key("summary"));
  counts.number("events", summary.events);
  counts.number("allocations", summary.allocations);
  counts.number("frees", summary.frees);
  counts.number("reallocs", summary.reallocs);
  counts.number("failed", summary.failed);
  counts.number("unknown_frees", summary.unknown_frees);
  counts.number("implied_frees", summary.implied_frees);
  counts.number("lost", summary.lost);
  counts.number("live_blocks", summary.live_blocks);
  counts.number("live_bytes", summary.live_bytes);
  counts.number("peak_bytes", summary.peak_bytes);
  counts.number("threads", reader.threads());
  counts.end();
  describe_modules(object, reader);
  describe_stacks(object, reader);
  object.end();
  return out;
}

// Runs `body`; what it throws becomes t_error and `failure`.
template <class T, class F>
T guarded(T failure, F body) {
  try {
    return body();
  } catch (const std::exception& error) {
    t_error = error.what();
  }
  return failure;
}

}  // namespace

extern "C" {

coffer_trace* coffer_trace_open(const char* path) {
  return guarded<coffer_trace*>(nullptr, [&] { return new coffer_trace(path); });
}

void coffer_trace_close(coffer_trace* trace) { delete trace; }

const char* coffer_trace_error(void) { return t_error.c_str(); }

int64_t coffer_trace_next(coffer_trace* trace, void* events, size_t count) {
  return guarded<int64_t>(-1, [&] {
    auto* const out = static_cast<Event*>(events);
    size_t got = 0;
    while (got < count && trace->reader.next(out[got])) ++got;
    return static_cast<int64_t>(got);
  });
}

const char* coffer_trace_describe(coffer_trace* trace) {
  return guarded<const char*>(nullptr, [&] {
    trace->description = describe(trace->reader);
    return trace->description.c_str();
  });
}
}
