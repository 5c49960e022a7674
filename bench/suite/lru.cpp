// SPDX-License-Identifier: MIT
// A simulator of LRU stacks, in the place of LRUsim: for every reference of a trace it finds how deep in the stack of
// recently used pages the page lay, which tells the misses of memories of all sizes at once. The pages are blocks, one
// each, allocated when a page is first seen and never moved; they are found by a hash table of chains and ordered by
// their last use in a splay tree with the size of each subtree (Olken's method).
//
// Hoard's table 4: 39,109 objects of 40.6 bytes on average, 1,571,176 bytes in use at most. There are as many pages
// here, of 40 bytes; the trace is made up: loops over regions, and single pages anywhere. Little is allocated and
// nothing freed before the end, so where the blocks lie is all that an allocator can do about it. An operation is a
// reference. The result is checked against another method: a tree of sums over the times of last use.
#include "suite.hpp"

namespace {

struct Page {
  Page* chain;
  Page* older;
  Page* younger;
  uint32_t number;
  uint32_t size;  // of the subtree
  uint64_t used;
};

// A trace: each turn is a loop over some neighbouring pages, or a single page.
class Trace {
 public:
  Trace(size_t pages, uint64_t seed) : pages_(pages), random_(seed) {}

  uint32_t next() {
    if (left_ == 0) {
      bool loop = random_.below(4) == 0;
      length_ = loop ? random_.between(2, 200) : 1;
      left_ = length_ * (loop ? random_.between(1, 10) : 1);
      // Half of all lies in a sixteenth of the pages.
      first_ = random_.below(2) == 0 ? random_.below(pages_ / 16 + 1) : random_.below(pages_);
    }
    return static_cast<uint32_t>((first_ + left_-- % length_) % pages_);
  }

 private:
  size_t pages_, first_ = 0, length_ = 1, left_ = 0;
  suite::Random random_;
};

uint32_t size_of(const Page* page) { return page == nullptr ? 0 : page->size; }

void update(Page* page) { page->size = 1 + size_of(page->older) + size_of(page->younger); }

// Brings the page that was used at `used`, or the last on the way to it, to the root (Sleator and Tarjan, top down).
Page* splay(Page* root, uint64_t used) {
  Page ends{};
  Page *older = &ends, *younger = &ends;
  // The sizes of the two side trees' spines are known only when the way ends.
  static Page* older_way[1 << 16];
  static Page* younger_way[1 << 16];
  size_t older_count = 0, younger_count = 0;
  while (used != root->used) {
    if (used < root->used) {
      if (root->older == nullptr) break;
      if (used < root->older->used) {
        Page* child = root->older;
        root->older = child->younger;
        child->younger = root;
        update(root);
        root = child;
        if (root->older == nullptr) break;
      }
      younger->older = root;
      younger_way[younger_count++] = younger = root;
      root = root->older;
    } else {
      if (root->younger == nullptr) break;
      if (used > root->younger->used) {
        Page* child = root->younger;
        root->younger = child->older;
        child->older = root;
        update(root);
        root = child;
        if (root->younger == nullptr) break;
      }
      older->younger = root;
      older_way[older_count++] = older = root;
      root = root->younger;
    }
  }
  older->younger = root->older;
  younger->older = root->younger;
  while (older_count > 0) update(older_way[--older_count]);
  while (younger_count > 0) update(younger_way[--younger_count]);
  root->older = ends.younger;
  root->younger = ends.older;
  update(root);
  return root;
}

class Stack {
 public:
  explicit Stack(size_t pages) : buckets_(pages / 2 + 1), table_(suite::make<Page*>(buckets_)) {}

  ~Stack() {
    for (size_t i = 0; i < buckets_; ++i) {
      while (Page* page = table_[i]) {
        table_[i] = page->chain;
        suite::release(page);
      }
    }
    suite::release(table_);
  }

  // The page's depth, 1 for the one used last; 0: it was never used before.
  size_t use(uint32_t number, uint64_t now) {
    Page** place = &table_[suite::mix(number) % buckets_];
    Page* page = *place;
    while (page != nullptr && page->number != number) page = page->chain;
    size_t depth = 0;
    if (page == nullptr) {
      page = suite::make<Page>();
      page->number = number;
      page->chain = *place;
      *place = page;
      ++pages_;
    } else {
      root_ = splay(root_, page->used);
      depth = 1 + size_of(page->younger);
      remove_root();
    }
    // The youngest of all: what is there is older.
    page->used = now;
    page->older = root_;
    page->younger = nullptr;
    update(page);
    root_ = page;
    return depth;
  }

  size_t pages() const { return pages_; }

 private:
  void remove_root() {
    Page *older = root_->older, *younger = root_->younger;
    if (older == nullptr) {
      root_ = younger;
      return;
    }
    root_ = splay(older, UINT64_MAX);
    root_->younger = younger;
    update(root_);
  }

  size_t buckets_, pages_ = 0;
  Page** table_;
  Page* root_ = nullptr;
};

// The same depths from a tree of sums (Fenwick) over times: a page's depth is the number of last uses since its own.
uint64_t sum_of_depths(size_t pages, size_t references, uint64_t seed) {
  Trace trace(pages, seed);
  uint32_t* sums = suite::table<uint32_t>(references + 1);
  uint32_t* last = suite::table<uint32_t>(pages);
  auto add = [&](size_t at, uint32_t value) {
    for (; at <= references; at += at & -at) sums[at] += value;
  };
  auto until = [&](size_t at) {
    uint32_t sum = 0;
    for (; at > 0; at -= at & -at) sum += sums[at];
    return sum;
  };
  uint64_t result = 0;
  for (size_t now = 1; now <= references; ++now) {
    uint32_t page = trace.next();
    if (last[page] != 0) {
      result += until(now - 1) - until(last[page]) + 1;
      add(last[page], UINT32_MAX);
    }
    add(now, 1);
    last[page] = static_cast<uint32_t>(now);
  }
  bench::drop_table(sums, references + 1);
  bench::drop_table(last, pages);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "lru", "Hoard 5.4, table 4 (LRUsim)", "the depth of each reference in an LRU stack");
  size_t pages = run.number("pages", 39'109, "pages in the trace", 1, 1 << 16);
  size_t references = run.scaled("references", 50'000'000, "references");
  size_t checked = run.number("checked", 200'000, "references that are checked with another method", 0, 1 << 30);
  run.begin(1);

  if (checked > references) checked = references;
  uint64_t* histogram = suite::table<uint64_t>(pages + 1);
  uint64_t depths = 0, depths_checked = 0;
  run.start();
  Trace trace(pages, run.seed());
  {
    Stack stack(pages);
    for (size_t now = 1; now <= references; ++now) {
      size_t depth = stack.use(trace.next(), now);
      ++histogram[depth];
      depths += depth;
      if (now == checked) depths_checked = depths;
    }
    run.live(stack.pages() * sizeof(Page) + (pages / 2 + 1) * sizeof(Page*));
    suite::require(histogram[0] == stack.pages(), "not every page was new once");
  }
  run.stop();
  suite::require(depths_checked == sum_of_depths(pages, checked, run.seed()), "depths are wrong");
  run.report(references, suite::hash_bytes(histogram, (pages + 1) * sizeof histogram[0]));
}
