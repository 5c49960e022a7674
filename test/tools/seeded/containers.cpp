// SPDX-License-Identifier: MIT
// Sessions in containers, held by pointers that form a circle: no destructor runs.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Session {
  std::vector<std::string> lines;
  std::shared_ptr<Session> peer;
};

static void add_lines(Session& session, int count) {
  for (int i = 0; i < count; ++i) session.lines.push_back("line " + std::string(200, 'x') + std::to_string(i));
}

static void open_pair(int number) {
  auto one = std::make_shared<Session>(), other = std::make_shared<Session>();
  add_lines(*one, 5);
  add_lines(*other, 5);
  one->peer = other;
  if (number % 4 == 0) other->peer = one;  // the circle
}

int main() {
  std::map<int, std::string> fine;
  for (int number = 0; number < 4000; ++number) {
    open_pair(number);
    fine[number] = std::string(100, 'y');
  }
  std::puts("served");
  return 0;
}
