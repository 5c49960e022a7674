// SPDX-License-Identifier: MIT
// tools/retain/dominators.hpp against what dominators are: nodes that are no longer reached without one.
#include "retain/dominators.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace coffer::retain {
namespace {

struct Graph {
  std::vector<std::vector<u32>> edges;
  u32 begin = 0;

  u32 nodes() const { return static_cast<u32>(edges.size()); }
  u32 first() const { return begin; }
  u32 count(u32 node) const { return static_cast<u32>(edges[node].size()); }
  u32 at(u32 node, u32 i) const { return edges[node][i]; }
};

std::set<u32> reached(const Graph& graph, u32 without) {
  std::set<u32> seen;
  std::vector<u32> todo;
  if (graph.begin != without) todo.push_back(graph.begin);
  while (!todo.empty()) {
    const u32 node = todo.back();
    todo.pop_back();
    if (!seen.insert(node).second) continue;
    for (const u32 to : graph.edges[node]) {
      if (to != without && to != ~u32{0}) todo.push_back(to);
    }
  }
  return seen;
}

// By the definition, for each node all that dominate it, itself too.
std::map<u32, std::set<u32>> by_definition(const Graph& graph) {
  const std::set<u32> all = reached(graph, ~u32{0});
  std::map<u32, std::set<u32>> found;
  for (const u32 one : all) {
    const std::set<u32> left = reached(graph, one);
    for (const u32 node : all) {
      if (left.count(node) == 0) found[node].insert(one);
    }
  }
  return found;
}

std::map<u32, std::set<u32>> by_tree(const Graph& graph) {
  const Dominators dominators = find_dominators(graph);
  std::map<u32, std::set<u32>> found;
  for (u32 i = 0; i < dominators.nodes.size(); ++i) {
    if (i != 0) found[dominators.nodes[i]] = found[dominators.nodes[dominators.idom[i]]];
    found[dominators.nodes[i]].insert(dominators.nodes[i]);
    EXPECT_TRUE(i == 0 || dominators.idom[i] < i);
  }
  return found;
}

TEST(Dominators, OfGraphsDrawnAtRandom) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 400; ++turn) {
    Graph graph;
    const u32 nodes = 1 + random() % 24;
    graph.edges.resize(nodes);
    graph.begin = random() % nodes;
    const u32 edges = random() % (3 * nodes);
    for (u32 i = 0; i < edges; ++i) graph.edges[random() % nodes].push_back(random() % nodes);
    if (edges != 0) graph.edges[graph.begin].push_back(~u32{0});  // an edge that does not count
    ASSERT_EQ(by_tree(graph), by_definition(graph)) << "turn " << turn;
  }
}

TEST(Dominators, TheExampleOfLengauerAndTarjan) {
  // R A B C D E F G H I J K L, as in their paper of 1979.
  Graph graph;
  graph.edges = {{1, 2, 3}, {4}, {1, 4, 5}, {6, 7}, {12}, {8}, {9}, {9, 10}, {5, 11}, {11}, {9}, {9, 0}, {8}};
  const Dominators found = find_dominators(graph);
  std::map<u32, u32> idom;
  for (u32 i = 1; i < found.nodes.size(); ++i) idom[found.nodes[i]] = found.nodes[found.idom[i]];
  const std::map<u32, u32> right = {{1, 0}, {2, 0}, {3, 0}, {4, 0},  {5, 0},  {6, 3},
                                    {7, 3}, {8, 0}, {9, 0}, {10, 7}, {11, 0}, {12, 4}};
  EXPECT_EQ(idom, right);
}

TEST(Dominators, AListOfAMillionNeedsNoStack) {
  Graph graph;
  graph.edges.resize(1'000'000);
  for (u32 i = 0; i + 1 < graph.nodes(); ++i) graph.edges[i].push_back(i + 1);
  const Dominators found = find_dominators(graph);
  ASSERT_EQ(found.nodes.size(), graph.nodes());
  for (u32 i = 1; i < graph.nodes(); ++i) ASSERT_EQ(found.idom[i], i - 1);
}

}  // namespace
}  // namespace coffer::retain
