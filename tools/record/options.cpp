// SPDX-License-Identifier: MIT
#include "record/options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace coffer::record {

void give_up(const std::string& what) {
  std::fprintf(stderr, "coffer record: %s\n", what.c_str());
  std::exit(125);
}
std::string with_reason(const std::string& what) { return what + ": " + std::strerror(errno); }

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--") {
      options.program = argv + i + 1;
      break;
    }
    if (name == "--children") {
      options.children = true;
      continue;
    }
    if (name == "--quiet") {
      options.quiet = true;
      continue;
    }
    if (i + 1 >= argc) give_up("no value for " + name);
    const std::string value = argv[++i];
    if (name == "--output") {
      options.output = value;
    } else if (name == "--preload") {
      options.preload = value;
    } else if (name == "--stacks" && (value == "none" || value == "frames" || value == "unwind")) {
      options.settings.stacks = value == "none" ? Stacks::none : value == "frames" ? Stacks::frames : Stacks::unwind;
#if !defined(__x86_64__)
      if (value == "unwind") give_up("--stacks unwind is for x86-64; here there is --stacks frames");
#endif
    } else if (name == "--depth") {
      options.settings.depth = static_cast<u32>(std::atoi(value.c_str()));
    } else if (name == "--instructions") {
      options.tool = value;
      options.settings.instructions = true;
    } else if (name == "--level") {
      options.settings.level = std::atoi(value.c_str());
    } else {
      give_up("unknown argument " + name + " " + value);
    }
  }
  if (options.output.empty() || options.program == nullptr || options.program[0] == nullptr) {
    give_up("usage: record --output FILE --preload LIBRARIES [OPTIONS] -- PROGRAM [ARGUMENT...]");
  }
  if (options.settings.instructions) {
    for (char** argument = options.program; *argument != nullptr; ++argument) {
      options.settings.arguments += std::string(*argument) + '\0';
    }
  }
  return options;
}

// Valgrind's own messages would say it later and differently.
std::string find_program(const std::string& name) {
  const auto is_program = [](const std::string& path) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) return false;
    if (S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0) return true;
    errno = EACCES;
    return false;
  };
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  const char* const given = std::getenv("PATH");
  std::istringstream folders(given != nullptr ? given : "/usr/local/bin:/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(path)) return path;
  }
  errno = ENOENT;
  return "";
}

}  // namespace coffer::record
