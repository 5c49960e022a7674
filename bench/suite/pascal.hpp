// SPDX-License-Identifier: MIT
// What the translator works on: Pascal's tokens, symbols and expressions' trees, and the growing text of the C program.
// Each is a block, or has its text in one.
#pragma once

#include "suite.hpp"

namespace pascal {

using suite::allocate;
using suite::reallocate;
using suite::release;
using suite::require;

enum Token : int { kEnd, kName, kNumber, kAssign, kLessEqual, kGreaterEqual, kNotEqual, kRange, kOther };
enum class Type : uint8_t { integer, boolean, array, none };
enum class Role : uint8_t { constant, variable, reference, routine, result };

struct Symbol {
  Symbol* chain;
  char* name;
  size_t low;             // of an array, or a constant's value
  uint32_t by_reference;  // of a routine: a bit for each parameter
  Type type;
  Role role;
  bool local;
};

enum class Kind : uint8_t { number, name, index, call, unary, binary };

struct Node {
  Kind kind;
  Type type;
  uint8_t precedence;
};
struct Number : Node {
  size_t value;
};
struct Name : Node {
  Symbol* symbol;
};
struct Index : Node {
  Symbol* symbol;
  Node* at;
};
struct Argument {
  Node* value;
  Argument* next;
};
struct Call : Node {
  Symbol* symbol;
  Argument* arguments;
};
struct Unary : Node {
  Node* operand;
};
struct Binary : Node {
  const char* sign;
  Node *left, *right;
};

template <class T>
T* node(Kind kind, Type type, int precedence) {
  T* result = static_cast<T*>(allocate(sizeof(T)));
  result->kind = kind;
  result->type = type;
  result->precedence = static_cast<uint8_t>(precedence);
  return result;
}

inline void drop(Node* tree) {
  switch (tree->kind) {
    case Kind::index:
      drop(static_cast<Index*>(tree)->at);
      break;
    case Kind::unary:
      drop(static_cast<Unary*>(tree)->operand);
      break;
    case Kind::binary:
      drop(static_cast<Binary*>(tree)->left);
      drop(static_cast<Binary*>(tree)->right);
      break;
    case Kind::call:
      for (Argument* argument = static_cast<Call*>(tree)->arguments; argument != nullptr;) {
        Argument* next = argument->next;
        drop(argument->value);
        release(argument);
        argument = next;
      }
      break;
    default:
      break;
  }
  release(tree);
}

// The symbols that can be seen: those of the program and those of one routine.
class Scope {
 public:
  Symbol* declare(char* name, Type type, Role role, bool local) {
    Symbol* symbol = suite::make<Symbol>();
    Symbol** place = &table_[suite::hash_bytes(name, strlen(name)) % kBuckets];
    symbol->chain = *place;
    symbol->name = name;
    symbol->type = type;
    symbol->role = role;
    symbol->local = local;
    return *place = symbol;
  }

  Symbol* find(const char* name) {
    Symbol* symbol = table_[suite::hash_bytes(name, strlen(name)) % kBuckets];
    while (symbol != nullptr && strcmp(symbol->name, name) != 0) symbol = symbol->chain;
    require(symbol != nullptr, "a name is not declared");
    return symbol;
  }

  // Frees the symbols of a routine, or all.
  void forget(bool only_local) {
    for (Symbol*& first : table_) {
      while (first != nullptr && (first->local || !only_local)) {
        Symbol* symbol = first;
        first = symbol->chain;
        release(symbol->name);
        release(symbol);
      }
    }
  }

 private:
  static constexpr size_t kBuckets = 64;
  Symbol* table_[kBuckets] = {};
};

class Lexer {
 public:
  explicit Lexer(const char* at) : at_(at) { next(); }
  ~Lexer() { release(text_); }

  // The text of each token is a block of its own.
  void next() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '{') at_ = *at_ == '{' ? strchr(at_, '}') + 1 : at_ + 1;
    const char* start = at_;
    auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (*at_ == 0) {
      token = kEnd;
    } else if (is_letter(*at_)) {
      while (is_letter(*at_) || is_digit(*at_)) ++at_;
      token = kName;
    } else if (is_digit(*at_)) {
      while (is_digit(*at_)) ++at_;
      token = kNumber;
    } else {
      static constexpr struct {
        const char* text;
        Token token;
      } kPairs[] = {{":=", kAssign}, {"<=", kLessEqual}, {">=", kGreaterEqual}, {"<>", kNotEqual}, {"..", kRange}};
      token = kOther;
      ++at_;
      for (auto& pair : kPairs) {
        if (strncmp(start, pair.text, 2) == 0) {
          token = pair.token;
          ++at_;
        }
      }
    }
    release(text_);
    size_t length = static_cast<size_t>(at_ - start);
    text_ = static_cast<char*>(allocate(length + 1));
    memcpy(text_, start, length);
    text_[length] = 0;
  }

  bool is(const char* text) const { return strcmp(text_, text) == 0; }
  bool skip(const char* text) {
    if (!is(text)) return false;
    next();
    return true;
  }
  void expect(const char* text) { require(skip(text), "the Pascal program is not correct"); }
  char* take() {
    char* text = text_;
    text_ = nullptr;
    next();
    return text;
  }
  size_t take_number() {
    size_t value = strtoull(text_, nullptr, 10);
    next();
    return value;
  }
  const char* text() const { return text_; }

  Token token = kEnd;

 private:
  const char* at_;
  char* text_ = nullptr;
};

class Output {
 public:
  ~Output() { release(text_); }

  void put(const char* text) {
    size_t length = strlen(text);
    while (length_ + length + 1 > capacity_) {
      capacity_ = capacity_ == 0 ? 1024 : capacity_ * 2;
      text_ = static_cast<char*>(reallocate(text_, capacity_));
    }
    memcpy(text_ + length_, text, length + 1);
    length_ += length;
  }
  void put(size_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%zu", number);
    put(digits);
  }
  template <class... Parts>
  void put_all(Parts... parts) {
    (put(parts), ...);
  }
  void line(size_t depth) {
    put("\n");
    for (size_t i = 0; i < depth; ++i) put("  ");
  }

  const char* text() const { return text_; }
  size_t length() const { return length_; }

 private:
  char* text_ = nullptr;
  size_t length_ = 0, capacity_ = 0;
};

inline void emit_call(Output& out, const Call* call);

// Parentheses where what is around binds more closely; and between || and &&, for compilers that warn.
inline void emit(Output& out, const Node* tree, int around) {
  bool parentheses = tree->precedence < around || (tree->precedence < 3 && around > 0);
  if (parentheses) out.put("(");
  switch (tree->kind) {
    case Kind::number:
      out.put(static_cast<const Number*>(tree)->value);
      break;
    case Kind::name: {
      const Symbol* symbol = static_cast<const Name*>(tree)->symbol;
      out.put_all(symbol->role == Role::reference ? "*" : "", symbol->name);
      break;
    }
    case Kind::index: {
      const Index* index = static_cast<const Index*>(tree);
      out.put_all(index->symbol->name, "[");
      emit(out, index->at, 5);
      out.put_all(" - ", index->symbol->low, "]");
      break;
    }
    case Kind::unary:
      out.put("!");
      emit(out, static_cast<const Unary*>(tree)->operand, 9);
      break;
    case Kind::binary: {
      const Binary* pair = static_cast<const Binary*>(tree);
      emit(out, pair->left, pair->precedence);
      out.put(pair->sign);
      // The same sign again, right of it, would be read the other way.
      emit(out, pair->right, pair->precedence + 1);
      break;
    }
    case Kind::call:
      emit_call(out, static_cast<const Call*>(tree));
      break;
  }
  if (parentheses) out.put(")");
}

inline void emit_call(Output& out, const Call* call) {
  out.put_all(call->symbol->name, "(");
  uint32_t references = call->symbol->by_reference;
  for (const Argument* argument = call->arguments; argument != nullptr; argument = argument->next, references /= 2) {
    if (references % 2 == 1) out.put("&");
    emit(out, argument->value, 0);
    if (argument->next != nullptr) out.put(", ");
  }
  out.put(")");
}

}  // namespace pascal
