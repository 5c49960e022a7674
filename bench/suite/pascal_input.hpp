// SPDX-License-Identifier: MIT
// The translator's input: a Pascal program that is made up by rules, the same for the same seed. Routines call earlier
// ones only, loops are short and divisors are not 0, so that what comes out can be compiled and run.
#pragma once

#include "suite.hpp"

namespace pascal {

class Input {
 public:
  Input(size_t routines, uint64_t seed) : text_(routines * 8192 + 65536), random_(seed) {
    globals_ = suite::table<char[kName]>(kGlobals);
    text_.put("program generated;\nconst limit = 100; width = 16;\nvar\n");
    for (size_t i = 0; i < kGlobals; ++i) {
      name(globals_[i], "global", i);
      text_.put("  %s: integer;\n", globals_[i]);
    }
    text_.put("  line: array [1..16] of integer;\n  done: boolean;\n\n");
    for (size_t i = 0; i < routines; ++i) put_routine(i);
    text_.put("begin\n");
    for (size_t i = 0; i < kGlobals; ++i) text_.put("  %s := %zu;\n", globals_[i], random_.below(100));
    for (size_t i = 0; i < routines; ++i) {
      text_.put(i % 3 == 2 ? "  %s := routine%zu(%zu, %zu);\n" : "  { %s }\n  routine%zu(%zu, %zu, line[1]);\n",
                globals_[i % kGlobals], i, random_.below(100), random_.below(100));
    }
    text_.put("  writeln(%s, line[1])\nend.\n", globals_[0]);
  }

  const char* text() const { return text_.text(); }

 private:
  static constexpr size_t kGlobals = 20, kName = 24, kLocals = 4;

  void name(char* to, const char* kind, size_t index) {
    static constexpr const char* kWords[] = {"count", "sum", "index", "value_of", "temporary", "x", "left_edge", "n"};
    snprintf(to, kName, "%s_%s%zu", kWords[random_.below(8)], kind + random_.below(3), index);
  }

  void indent(size_t depth) { text_.put("%*s", static_cast<int>(2 * depth), ""); }

  // Every third is a function of two values, the others are procedures that change their third argument.
  void put_routine(size_t index) {
    routine_ = index;
    bool function = index % 3 == 2;
    for (size_t i = 0; i < kLocals; ++i) name(locals_[i], "local", i);
    text_.put(function ? "function routine%zu(first, second: integer): integer;\n"
                       : "procedure routine%zu(first, second: integer; var third: integer);\n",
              index);
    text_.put("var %s, %s, %s, %s, counter1, counter2, counter3: integer; flag: boolean;\nbegin\n", locals_[0],
              locals_[1], locals_[2], locals_[3]);
    for (size_t i = 0; i < kLocals; ++i) text_.put("  %s := first + %zu;\n", locals_[i], i);
    text_.put("  flag := first > second;\n");
    for (size_t i = random_.between(4, 12); i > 0; --i) put_statement(1);
    if (function) {
      text_.put("  routine%zu := ", index);
    } else {
      text_.put("  third := ");
    }
    put_integer(2);
    text_.put("\nend;\n\n");
  }

  void put_block(size_t depth) {
    text_.put("begin\n");
    for (size_t i = random_.between(1, 4); i > 0; --i) put_statement(depth + 1);
    indent(depth);
    text_.put("end");
  }

  void put_statement(size_t depth) {
    indent(depth);
    size_t kind = random_.below(depth > 3 ? 4 : 8);
    if (kind < 3) {
      text_.put(random_.below(4) == 0 ? "line[counter1 mod width + 1] := " : "%s := ", locals_[random_.below(kLocals)]);
      put_integer(3);
    } else if (kind == 3) {
      put_call();
    } else if (kind == 4) {
      text_.put("if ");
      put_boolean(2);
      text_.put(" then ");
      put_block(depth);
      if (random_.below(2) == 0) {
        text_.put(" else ");
        put_block(depth);
      }
    } else if (kind == 5) {
      // Loops of one depth share a counter: none is within another.
      text_.put("for counter%zu := 1 to %zu do ", depth, random_.between(2, 5));
      put_block(depth);
    } else if (kind == 6) {
      text_.put("counter%zu := 0;\n", depth);
      indent(depth);
      text_.put("while (counter%zu < %zu) and ", depth, random_.between(1, 4));
      put_boolean(1);
      text_.put(" do begin\n");
      put_statement(depth + 1);
      indent(depth + 1);
      text_.put("counter%zu := counter%zu + 1\n", depth, depth);
      indent(depth);
      text_.put("end");
    } else {
      text_.put("repeat\n");
      put_statement(depth + 1);
      indent(depth + 1);
      text_.put("flag := not flag\n");
      indent(depth);
      text_.put("until flag");
    }
    text_.put(";\n");
  }

  void put_call() {
    size_t callee = routine_ == 0 ? 0 : random_.below(routine_);
    if (routine_ == 0 || callee % 3 == 2 || random_.below(4) != 0) {
      text_.put("flag := ");
      return put_boolean(2);
    }
    text_.put("routine%zu(", callee);
    put_integer(1);
    text_.put(", ");
    put_integer(1);
    text_.put(", %s)", locals_[random_.below(kLocals)]);
  }

  void put_integer(size_t depth) {
    static constexpr const char* kOperators[] = {" + ", " - ", " * "};
    size_t kind = depth == 0 ? random_.below(3) : random_.below(9);
    if (kind == 0) {
      text_.put("%zu", random_.below(1000));
    } else if (kind == 1) {
      text_.put("%s", locals_[random_.below(kLocals)]);
    } else if (kind == 2) {
      text_.put("%s", random_.below(2) == 0 ? "first" : globals_[random_.below(kGlobals)]);
    } else if (kind == 3) {
      text_.put("line[%zu]", random_.between(1, 16));
    } else if (kind == 4 && routine_ > 3) {
      text_.put("routine%zu(second, ", random_.below(routine_ / 3) * 3 + 2);
      put_integer(depth - 1);
      text_.put(")");
    } else if (kind < 7) {
      text_.put("(");
      put_integer(depth - 1);
      text_.put("%s", kOperators[random_.below(3)]);
      put_integer(depth - 1);
      text_.put(")");
    } else {
      put_integer(depth - 1);
      text_.put("%s%zu", random_.below(2) == 0 ? " mod " : " div ", random_.between(1, 50));
    }
  }

  void put_boolean(size_t depth) {
    static constexpr const char* kRelations[] = {" < ", " <= ", " > ", " >= ", " = ", " <> "};
    text_.put("(");
    if (depth == 0 || random_.below(3) == 0) {
      put_integer(1);
      text_.put("%s", kRelations[random_.below(6)]);
      put_integer(1);
    } else if (random_.below(4) == 0) {
      text_.put("not ");
      put_boolean(depth - 1);
    } else {
      put_boolean(depth - 1);
      text_.put("%s", random_.below(2) == 0 ? " and " : " or ");
      put_boolean(depth - 1);
    }
    text_.put(")");
  }

  suite::Text text_;
  suite::Random random_;
  char (*globals_)[kName];
  char locals_[kLocals][kName];
  size_t routine_ = 0;
};

}  // namespace pascal
