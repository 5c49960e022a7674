// SPDX-License-Identifier: MIT
// A translator from a part of Pascal to C, in the place of p2c: names, symbols and the nodes of each routine's tree are
// blocks of 16 to 48 bytes, most of which are freed when the routine is written; the output is one buffer that grows.
//
// Pascal here: constants, integers, booleans, arrays of integers, procedures and functions with value and var
// parameters, all statements but case, with and goto. The input is made up (pascal_input.hpp). Hoard's table 4:
// 199,361 objects of 27.5 bytes on average, 441,432 bytes in use at most.
//
// An operation is a byte of input. output=FILE keeps the C program; a test compiles it.
#include "pascal.hpp"
#include "pascal_input.hpp"

namespace {

using namespace pascal;

class Translator {
 public:
  Translator(const char* text, Output& out) : lexer_(text), out_(out) {}

  void program() {
    out_.put("#include <stdio.h>\n");
    lexer_.expect("program");
    suite::release(lexer_.take());
    lexer_.expect(";");
    constants();
    variables(0, "static ");
    while (lexer_.is("procedure") || lexer_.is("function")) routine();
    out_.put("\n\nint main(void) {");
    block(1);
    out_.put("\n  return 0;\n}\n");
    suite::require(lexer_.is("."), "the Pascal program does not end");
    scope_.forget(false);
  }

 private:
  void constants() {
    if (!lexer_.skip("const")) return;
    while (!lexer_.is("var")) {
      Symbol* symbol = scope_.declare(lexer_.take(), Type::integer, Role::constant, false);
      lexer_.expect("=");
      symbol->low = lexer_.take_number();
      lexer_.expect(";");
      out_.put_all("\n#define ", symbol->name, " ", symbol->low);
    }
  }

  // name, name: type. Returns how many there are; writes declarations, or parameters if `separator` is a comma.
  size_t names(size_t depth, const char* before, bool local, bool parameters, bool reference, bool first) {
    Symbol* symbols[8];
    size_t count = 0;
    do {
      suite::require(count < 8, "too many names at once");
      symbols[count++] =
          scope_.declare(lexer_.take(), Type::integer, reference ? Role::reference : Role::variable, local);
    } while (lexer_.skip(","));
    lexer_.expect(":");
    size_t low = 0, high = 0;
    Type type = lexer_.is("boolean") ? Type::boolean : Type::integer;
    if (lexer_.skip("array")) {
      type = Type::array;
      lexer_.expect("[");
      low = lexer_.take_number();
      lexer_.next();
      high = lexer_.take_number();
      lexer_.expect("]");
      lexer_.expect("of");
    }
    lexer_.next();
    for (size_t i = 0; i < count; ++i) {
      symbols[i]->type = type;
      symbols[i]->low = low;
      if (parameters && !(first && i == 0)) out_.put(", ");
      if (!parameters) out_.line(depth);
      out_.put_all(before, "int ", reference ? "*" : "", symbols[i]->name);
      if (type == Type::array) out_.put_all("[", high - low + 1, "]");
      if (!parameters) out_.put(type == Type::array || depth == 0 ? ";" : " = 0;");
    }
    return count;
  }

  void variables(size_t depth, const char* before) {
    if (!lexer_.skip("var")) return;
    while (lexer_.token == kName && !lexer_.is("begin") && !lexer_.is("procedure") && !lexer_.is("function")) {
      names(depth, before, depth > 0, false, false, false);
      lexer_.expect(";");
    }
  }

  void routine() {
    bool function = lexer_.is("function");
    lexer_.next();
    Symbol* self = scope_.declare(lexer_.take(), function ? Type::integer : Type::none, Role::routine, false);
    out_.put_all("\n\nstatic ", function ? "int " : "void ", self->name, "(");
    lexer_.expect("(");
    size_t count = 0;
    do {
      bool reference = lexer_.skip("var");
      size_t more = names(0, "", true, true, reference, count == 0);
      for (size_t i = 0; reference && i < more; ++i) self->by_reference |= 1u << (count + i);
      count += more;
    } while (lexer_.skip(";"));
    lexer_.expect(")");
    if (lexer_.skip(":")) lexer_.next();
    lexer_.expect(";");
    out_.put(") {");
    if (function) out_.put("\n  int result_ = 0;");
    current_ = self;
    variables(1, "");
    block(1);
    lexer_.expect(";");
    out_.put(function ? "\n  return result_;\n}" : "\n}");
    scope_.forget(true);
  }

  // begin ... end, without braces.
  void block(size_t depth) {
    lexer_.expect("begin");
    while (!lexer_.skip("end")) {
      statement(depth);
      lexer_.skip(";");
    }
  }

  // The body of a loop or condition, with braces.
  void body(size_t depth) {
    out_.put(" {");
    if (lexer_.is("begin")) {
      block(depth + 1);
    } else {
      statement(depth + 1);
    }
    out_.line(depth);
    out_.put("}");
  }

  void write(Node* tree) {
    emit(out_, tree, 0);
    drop(tree);
  }

  void statement(size_t depth) {
    out_.line(depth);
    if (lexer_.skip("if")) {
      out_.put("if (");
      write(expression());
      out_.put(")");
      lexer_.expect("then");
      body(depth);
      if (!lexer_.skip("else")) return;
      out_.put(" else");
      body(depth);
    } else if (lexer_.skip("while")) {
      out_.put("while (");
      write(expression());
      out_.put(")");
      lexer_.expect("do");
      body(depth);
    } else if (lexer_.skip("repeat")) {
      out_.put("do {");
      while (!lexer_.skip("until")) {
        statement(depth + 1);
        lexer_.skip(";");
      }
      out_.line(depth);
      out_.put("} while (!");
      Node* condition = expression();
      emit(out_, condition, 9);
      drop(condition);
      out_.put(");");
    } else if (lexer_.skip("for")) {
      for_statement(depth);
    } else {
      simple_statement();
    }
  }

  void for_statement(size_t depth) {
    Symbol* counter = scope_.find(lexer_.text());
    lexer_.next();
    lexer_.expect(":=");
    out_.put_all("for (", counter->name, " = ");
    write(expression());
    bool down = lexer_.is("downto");
    lexer_.next();
    out_.put_all("; ", counter->name, down ? " >= " : " <= ");
    write(expression());
    out_.put_all("; ", down ? "--" : "++", counter->name, ")");
    lexer_.expect("do");
    body(depth);
  }

  void simple_statement() {
    if (lexer_.skip("writeln")) return print();
    Symbol* symbol = scope_.find(lexer_.text());
    if (symbol == current_ && symbol->type == Type::integer) {
      lexer_.next();
      out_.put("result_");
    } else {
      Node* target = factor();
      emit(out_, target, 0);
      bool call = target->kind == Kind::call;
      drop(target);
      if (call) return out_.put(";");
    }
    lexer_.expect(":=");
    out_.put(" = ");
    write(expression());
    out_.put(";");
  }

  void print() {
    lexer_.expect("(");
    Node* values[8];
    size_t count = 0;
    do {
      values[count++] = expression();
    } while (count < 8 && lexer_.skip(","));
    lexer_.expect(")");
    out_.put("printf(\"");
    for (size_t i = 0; i < count; ++i) out_.put(i == 0 ? "%d" : " %d");
    out_.put("\\n\"");
    for (size_t i = 0; i < count; ++i) {
      out_.put(", ");
      write(values[i]);
    }
    out_.put(");");
  }

  // Expressions become trees, with C's precedences: or 1, and 2, relations 3 and 4, sums 5, products 6, unary 9.
  Node* binary(Node* left, const char* sign, int precedence, Type type, Node* right) {
    Binary* result = node<Binary>(Kind::binary, type, precedence);
    result->sign = sign;
    result->left = left;
    result->right = right;
    return result;
  }

  Node* expression() {
    Node* left = sum();
    static constexpr struct {
      const char *pascal, *c;
      int precedence;
    } kRelations[] = {{"<", " < ", 4},   {"<=", " <= ", 4}, {">", " > ", 4},
                      {">=", " >= ", 4}, {"=", " == ", 3},  {"<>", " != ", 3}};
    for (auto& relation : kRelations) {
      if (lexer_.skip(relation.pascal)) return binary(left, relation.c, relation.precedence, Type::boolean, sum());
    }
    return left;
  }

  Node* sum() {
    Node* left = product();
    while (true) {
      if (lexer_.skip("+")) {
        left = binary(left, " + ", 5, Type::integer, product());
      } else if (lexer_.skip("-")) {
        left = binary(left, " - ", 5, Type::integer, product());
      } else if (lexer_.skip("or")) {
        left = binary(left, " || ", 1, Type::boolean, product());
      } else {
        return left;
      }
    }
  }

  Node* product() {
    Node* left = factor();
    while (true) {
      if (lexer_.skip("*")) {
        left = binary(left, " * ", 6, Type::integer, factor());
      } else if (lexer_.skip("div")) {
        left = binary(left, " / ", 6, Type::integer, factor());
      } else if (lexer_.skip("mod")) {
        left = binary(left, " % ", 6, Type::integer, factor());
      } else if (lexer_.skip("and")) {
        left = binary(left, " && ", 2, Type::boolean, factor());
      } else {
        return left;
      }
    }
  }

  Node* factor() {
    if (lexer_.token == kNumber) {
      Number* result = node<Number>(Kind::number, Type::integer, 10);
      result->value = lexer_.take_number();
      return result;
    }
    if (lexer_.skip("(")) {
      Node* result = expression();
      lexer_.expect(")");
      return result;
    }
    if (lexer_.skip("not")) {
      Unary* result = node<Unary>(Kind::unary, Type::boolean, 9);
      result->operand = factor();
      return result;
    }
    Symbol* symbol = scope_.find(lexer_.text());
    lexer_.next();
    if (lexer_.skip("[")) {
      Index* result = node<Index>(Kind::index, Type::integer, 10);
      result->symbol = symbol;
      result->at = expression();
      lexer_.expect("]");
      return result;
    }
    if (symbol->role == Role::routine) return call(symbol);
    Name* result = node<Name>(Kind::name, symbol->type, 10);
    result->symbol = symbol;
    return result;
  }

  Node* call(Symbol* symbol) {
    Call* result = node<Call>(Kind::call, symbol->type, 10);
    result->symbol = symbol;
    result->arguments = nullptr;
    lexer_.expect("(");
    Argument** end = &result->arguments;
    do {
      *end = suite::make<Argument>();
      (*end)->value = expression();
      end = &(*end)->next;
    } while (lexer_.skip(","));
    lexer_.expect(")");
    return result;
  }

  Lexer lexer_;
  Output& out_;
  Scope scope_;
  Symbol* current_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "translate", "Hoard 5.4, table 4 (p2c)", "translates a Pascal program to C");
  size_t routines = run.number("routines", 190,
                               "procedures and functions of the program; as many blocks as in the paper", 1, 100'000);
  size_t repeat = run.scaled("repeat", 100, "times that it is translated");
  const char* path = run.text("output", "", "file for the C program");
  run.begin(1);

  Input input(routines, run.seed());
  size_t length = strlen(input.text());
  uint64_t checksum = 0;
  run.start();
  for (size_t i = 0; i < repeat; ++i) {
    Output out;
    Translator(input.text(), out).program();
    uint64_t hash = suite::hash_bytes(out.text(), out.length());
    suite::require(i == 0 || hash == checksum, "two translations differ");
    checksum = hash;
    if (i > 0 || *path == 0) continue;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    suite::require(file >= 0 && write(file, out.text(), out.length()) == static_cast<ssize_t>(out.length()),
                   "the output cannot be written");
    close(file);
  }
  run.stop();
  run.add("input_bytes", static_cast<double>(length));
  run.report(length * repeat, checksum);
}
