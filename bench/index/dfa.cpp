// SPDX-License-Identifier: MIT
// A matcher such as GNU grep's: each state has a table of 256 ints, 1 KiB, allocated when the state is made; one look
// into a table for each byte of the text. Only the columns of the letters that occur are used: one or two lines of each
// table. A step is a byte. The automaton finds `words` random words of nucleotides (Aho and Corasick's).
#include "walk.hpp"

namespace {

constexpr char kLetters[] = "ACGT";

class Automaton {
 public:
  explicit Automaton(size_t most) : tables_(bench::table<int*>(most)), fail_(bench::table<int>(most)), most_(most) {
    accepts_ = bench::table<bool>(most);
    add_state();
  }

  void add_word(const char* word, size_t length) {
    int state = 0;
    for (size_t i = 0; i < length; ++i) {
      int& next = tables_[state][static_cast<unsigned char>(word[i])];
      if (next < 0) next = add_state();
      state = tables_[state][static_cast<unsigned char>(word[i])];
    }
    accepts_[state] = true;
  }

  // Fills in where a letter leads that continues no word: breadth first, by each state's longest suffix.
  void complete() {
    int* queue = bench::table<int>(states_);
    size_t head = 0, tail = 0;
    for (int byte = 0; byte < 256; ++byte) follow(0, byte, queue, tail);
    while (head < tail) {
      int state = queue[head++];
      accepts_[state] = accepts_[state] || accepts_[fail_[state]];
      for (int byte = 0; byte < 256; ++byte) follow(state, byte, queue, tail);
    }
  }

  template <class See>
  size_t match(const char* text, size_t length, See see) const {
    size_t matches = 0;
    int state = 0;
    for (size_t i = 0; i < length; ++i) {
      const int* place = &tables_[state][static_cast<unsigned char>(text[i])];
      see(place);
      state = *place;
      matches += accepts_[state];
    }
    return matches;
  }

  size_t states() const { return states_; }

 private:
  int add_state() {
    bench::require(states_ < most_, "too many states");
    int* table = static_cast<int*>(bench::allocate(256 * sizeof(int)));
    for (int byte = 0; byte < 256; ++byte) table[byte] = -1;
    tables_[states_] = table;
    return static_cast<int>(states_++);
  }

  void follow(int state, int byte, int* queue, size_t& tail) {
    int& next = tables_[state][byte];
    const int otherwise = state == 0 ? 0 : tables_[fail_[state]][byte];
    if (next < 0) {
      next = otherwise;
    } else {
      fail_[next] = otherwise;
      queue[tail++] = next;
    }
  }

  int** tables_;
  int* fail_;
  bool* accepts_;
  size_t most_, states_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t words = arguments.number("words", 24), length = arguments.number("length", 12);
  size_t steps = arguments.number("operations", 10'000'000), bytes = arguments.number("text", 100'000);
  bool list = arguments.number("list", 0) != 0;
  arguments.done();

  bench::Random random(3);
  Automaton automaton(words * length + 1);
  for (size_t i = 0; i < words; ++i) {
    char word[64];
    bench::require(length < sizeof word, "too long a word");
    for (size_t n = 0; n < length; ++n) word[n] = kLetters[random.below(4)];
    automaton.add_word(word, length);
  }
  automaton.complete();
  char* text = bench::table<char>(bytes);
  // Parts of words, so that the deeper states are visited as well.
  bench::Random again(3);
  for (size_t i = 0; i < bytes; ++i) text[i] = kLetters[(random.below(8) == 0 ? random : again).below(4)];
  walk::run(list, steps / bytes, bytes, [&](auto see) {
    walk::use(automaton.match(text, bytes, see));
    walk::barrier();
  });
}
