// SPDX-License-Identifier: MIT
// Paper 3's xml: a document that libxml2 has parsed is walked again and again, node by node. Nodes are allocated one by
// one by the library, and few of their fields are used. A step is a node.
#include <libxml/parser.h>
#include <libxml/tree.h>

#include "walk.hpp"

namespace {

// <list><item n="0"><name>a</name><value>b</value></item>...</list>
size_t write_document(char* text, size_t size, size_t items) {
  size_t length = static_cast<size_t>(snprintf(text, size, "<list>"));
  for (size_t i = 0; i < items; ++i) {
    length += static_cast<size_t>(snprintf(text + length, size - length,
                                           "<item n=\"%zu\"><name>a%zu</name><value>%zu</value></item>", i, i, i * i));
  }
  return length + static_cast<size_t>(snprintf(text + length, size - length, "</list>"));
}

template <class See>
uint64_t visit(const xmlNode* node, See see) {
  uint64_t sum = 0;
  for (; node != nullptr; node = node->next) {
    see(node);
    sum += static_cast<uint64_t>(node->type);
    if (node->type == XML_ELEMENT_NODE && node->children != nullptr) sum += visit(node->children, see);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t items = arguments.number("items", 50), steps = arguments.number("operations", 10'000'000);
  bool list = arguments.number("list", 0) != 0;
  arguments.done();

  size_t size = items * 128 + 64;
  char* text = bench::table<char>(size);
  size_t length = write_document(text, size, items);
  xmlDoc* document = xmlReadMemory(text, static_cast<int>(length), "list.xml", nullptr, 0);
  bench::require(document != nullptr, "libxml2 cannot read the document");
  const xmlNode* root = xmlDocGetRootElement(document);
  size_t nodes = 0;
  visit(root, [&](const void*) { ++nodes; });
  walk::run(list, steps / nodes, nodes, [&](auto see) {
    walk::use(visit(root, see));
    walk::barrier();
  });
}
