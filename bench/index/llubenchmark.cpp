// SPDX-License-Identifier: MIT
// After Zilles's llubenchmark, from its description in paper 3: lists of nodes, each node allocated apart, walked again
// and again; with its command line:
//   -i iterations  -n lists  -l nodes a list at first  -g nodes that a list grows by in an iteration  -s bytes a node
// and -a, which lists the addresses of an iteration. A step is a node.
#include <getopt.h>

#include "walk.hpp"

namespace {

struct Node {
  Node* next;
  uint64_t visits;
};

void push(Node*& list, size_t size) {
  Node* node = static_cast<Node*>(bench::allocate(size));
  *node = {list, 0};
  list = node;
}

double number(const char* text) {
  char* end = nullptr;
  double value = strtod(text, &end);
  bench::require(end != text && *end == 0 && value >= 0, "bad number");
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  size_t iterations = 2'000'000, lists = 1, length = 341, size = 250;
  double growth = 0;
  bool list = false;
  for (int option; (option = getopt(argc, argv, "i:n:l:g:s:a")) != -1;) {
    switch (option) {
      case 'i':
        iterations = static_cast<size_t>(number(optarg));
        break;
      case 'n':
        lists = static_cast<size_t>(number(optarg));
        break;
      case 'l':
        length = static_cast<size_t>(number(optarg));
        break;
      case 'g':
        growth = number(optarg);
        break;
      case 's':
        size = static_cast<size_t>(number(optarg));
        break;
      case 'a':
        list = true;
        break;
      default:
        bench::fail("llubenchmark -i iterations -n lists -l length -g growth -s size [-a]");
    }
  }
  bench::require(optind == argc && lists > 0 && length > 0 && size >= sizeof(Node), "bad arguments");

  Node** heads = bench::table<Node*>(lists);
  for (size_t i = 0; i < length; ++i) {
    for (size_t n = 0; n < lists; ++n) push(heads[n], size);
  }
  double grown = 0;
  walk::run(list, iterations, lists * length, [&](auto see) {
    for (size_t n = 0; n < lists; ++n) {
      for (Node* node = heads[n]; node != nullptr; node = node->next) {
        see(node);
        ++node->visits;
      }
    }
    for (grown += growth; grown >= 1; grown -= 1) {
      for (size_t n = 0; n < lists; ++n) push(heads[n], size);
    }
  });
}
