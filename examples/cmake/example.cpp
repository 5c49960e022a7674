// SPDX-License-Identifier: MIT
// Every allocation of this program is Coffer's, though nothing here says so; coffer.h is only asked for figures.
#include <coffer/coffer.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

int main() {
  std::vector<std::string> words;
  for (int i = 0; i < 10000; ++i) words.push_back("a string too long to live inside its object " + std::to_string(i));
  const auto number = std::make_unique<int>(42);

  struct coffer_stats figures = {};
  coffer_stats(&figures, sizeof figures);
  std::printf("Coffer %s holds %zu bytes for %zu strings\n", coffer_version(), figures.live, words.size());
  return figures.live > words.size() * 40 && *number == 42 ? 0 : 1;
}
