// SPDX-License-Identifier: MIT
#include "record/unwind_rules.hpp"

namespace coffer::record {

namespace {

// The registers' rules at one instruction.
struct State {
  Cfa cfa = Cfa::none;
  bool is_odd = false;  // a rule that is not understood
  bool is_outermost = false;
  u64 cfa_register = kSpNumber;  // where cfa is sp or bp
  i64 offset = 0;
  SavedBp bp = SavedBp::same;
  i64 bp_offset = 0;
};

// A CFA that is an expression: what lies at a register's offset (realigned stacks), or the one of the PLT.
void read_cfa(Cursor in, State& state) {
  state.cfa = Cfa::none;
  const u8* const begin = in.at();
  const u64 size = in.left();
  constexpr u8 kPlt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22};
  if (size == sizeof kPlt) {
    bool is_plt = true;
    for (u32 i = 0; i < sizeof kPlt; ++i) is_plt = is_plt && (i == 6 ? begin[i] >= 0x30 : begin[i] == kPlt[i]);
    if (is_plt && begin[6] < 0x40) {
      state.cfa = Cfa::plt;
      state.offset = begin[6] - 0x30;
      return;
    }
  }
  const u8 operation = in.number<u8>();
  if (operation != 0x70 + kBpNumber && operation != 0x70 + kSpNumber) return;
  state.offset = in.sleb();
  if (in.left() != 1 || in.number<u8>() != 0x06) return;  // and what lies there
  state.cfa = operation == 0x70 + kBpNumber ? Cfa::at_bp : Cfa::at_sp;
}

Rule rule_of(const State& state) {
  Rule rule;
  if (state.is_outermost) {
    rule.cfa = Cfa::end;
    return rule;
  }
  Cfa cfa = state.cfa;
  if (cfa == Cfa::sp)
    cfa = state.cfa_register == kSpNumber ? Cfa::sp : state.cfa_register == kBpNumber ? Cfa::bp : Cfa::none;
  if (state.is_odd || cfa == Cfa::none) return rule;
  if (state.offset != static_cast<std::int32_t>(state.offset)) return rule;
  if (state.bp_offset != static_cast<std::int16_t>(state.bp_offset)) return rule;
  rule.cfa = cfa;
  rule.offset = static_cast<std::int32_t>(state.offset);
  rule.bp = state.bp;
  rule.bp_offset = static_cast<std::int16_t>(state.bp_offset);
  return rule;
}

class Interpreter {
 public:
  Interpreter(const Common& common, const Range& range, UnwindTable& table)
      : common_(common), table_(table), base_(range.base), pc_(range.begin), end_(range.end) {}

  // false: no memory. The common part first, then the function's own.
  bool run(Cursor own) {
    execute(Cursor(common_.begin, common_.end));
    initial_ = now_;
    execute(own);
    emit();
    return has_memory_;
  }

 private:
  void emit() {
    if (!has_memory_ || pc_ < base_ || pc_ - base_ > ~u32{0}) return;
    has_memory_ = table_.add(static_cast<u32>(pc_ - base_), is_lost_ ? Rule{} : rule_of(now_));
  }
  void advance(u64 units) {
    emit();
    const u64 next = pc_ + units * common_.code_unit;
    if (next < pc_ || next > end_) {
      is_lost_ = true;
      return;
    }
    pc_ = next;
  }
  void set_cfa(u64 number, i64 offset) {
    now_.cfa = Cfa::sp;
    now_.cfa_register = number;
    now_.offset = offset;
  }
  void saved(u64 number, i64 factored) {
    if (number == kBpNumber) {
      now_.bp = SavedBp::at_cfa;
      now_.bp_offset = factored * common_.data_unit;
    } else if (number == kReturnNumber) {
      now_.is_outermost = false;
      now_.is_odd = factored * common_.data_unit != -8;
    }
  }
  void unchanged(u64 number) {
    if (number == kBpNumber) now_.bp = SavedBp::same;
    if (number == kReturnNumber) now_.is_odd = true;
  }
  void lose(u64 number) {
    if (number == kBpNumber) now_.bp = SavedBp::lost;
    if (number == kReturnNumber) now_.is_odd = true;
  }
  void restore(u64 number) {
    if (number == kBpNumber) {
      now_.bp = initial_.bp;
      now_.bp_offset = initial_.bp_offset;
    } else if (number == kReturnNumber) {
      now_.is_odd = initial_.is_odd;
      now_.is_outermost = initial_.is_outermost;
    }
  }
  void expression(u64 number, Cursor in) {
    lose(number);
    if (number != kBpNumber || in.number<u8>() != 0x70 + kBpNumber) return;
    const i64 offset = in.sleb();
    if (!in.good() || in.more()) return;
    now_.bp = SavedBp::at_bp;
    now_.bp_offset = offset;
  }

  void execute(Cursor in) {
    while (in.more() && !is_lost_ && has_memory_) {
      const u8 operation = in.number<u8>();
      const u64 low = operation & 0x3f;
      switch (operation >> 6) {
        case 1:
          advance(low);
          break;
        case 2:
          saved(low, static_cast<i64>(in.uleb()));
          break;
        case 3:
          restore(low);
          break;
        default:
          extended(operation, in);
          break;
      }
    }
    if (!in.good()) is_lost_ = true;
  }

  void extended(u8 operation, Cursor& in) {
    switch (operation) {
      case 0x00:  // nop
        break;
      case 0x02:  // advance_loc1
        advance(in.number<u8>());
        break;
      case 0x03:  // advance_loc2
        advance(in.number<u16>());
        break;
      case 0x04:  // advance_loc4
        advance(in.number<u32>());
        break;
      case 0x0a:  // remember_state
        if (depth_ == kDepth) is_lost_ = true;
        if (depth_ < kDepth) remembered_[depth_++] = now_;
        break;
      case 0x0b:  // restore_state
        if (depth_ == 0) is_lost_ = true;
        if (depth_ > 0) now_ = remembered_[--depth_];
        break;
      case 0x2e:  // GNU_args_size
        in.uleb();
        break;
      default:
        if (!change_cfa(operation, in) && !change_register(operation, in)) is_lost_ = true;
        break;
    }
  }

  bool change_cfa(u8 operation, Cursor& in) {
    u64 number = 0;
    switch (operation) {
      case 0x0c:  // def_cfa
        number = in.uleb();
        set_cfa(number, static_cast<i64>(in.uleb()));
        return true;
      case 0x0d:  // def_cfa_register
        set_cfa(in.uleb(), now_.offset);
        return true;
      case 0x0e:  // def_cfa_offset
        now_.offset = static_cast<i64>(in.uleb());
        return true;
      case 0x0f:  // def_cfa_expression
        read_cfa(in.block(), now_);
        return true;
      case 0x12:  // def_cfa_sf
        number = in.uleb();
        set_cfa(number, in.sleb() * common_.data_unit);
        return true;
      case 0x13:  // def_cfa_offset_sf
        now_.offset = in.sleb() * common_.data_unit;
        return true;
      default:
        return false;
    }
  }

  // All of these begin with a register's number.
  bool change_register(u8 operation, Cursor& in) {
    if (operation < 0x05 || operation > 0x16) return false;
    const u64 number = in.uleb();
    switch (operation) {
      case 0x05:  // offset_extended
        saved(number, static_cast<i64>(in.uleb()));
        return true;
      case 0x06:  // restore_extended
        restore(number);
        return true;
      case 0x07:  // undefined
        if (number == kReturnNumber) now_.is_outermost = true;
        if (number == kBpNumber) now_.bp = SavedBp::lost;
        return true;
      case 0x08:  // same_value
        unchanged(number);
        return true;
      case 0x09:  // register
      case 0x14:  // val_offset
      case 0x15:  // val_offset_sf
        in.uleb();
        lose(number);
        return true;
      case 0x10:  // expression
        expression(number, in.block());
        return true;
      case 0x11:  // offset_extended_sf
        saved(number, in.sleb());
        return true;
      case 0x16:  // val_expression
        in.block();
        lose(number);
        return true;
      default:
        return false;
    }
  }

  static constexpr u32 kDepth = 16;
  const Common& common_;
  UnwindTable& table_;
  u64 base_, pc_, end_;
  State now_, initial_, remembered_[kDepth];
  u32 depth_ = 0;
  bool is_lost_ = false, has_memory_ = true;
};

}  // namespace

bool add_rules(const Common& common, Cursor own, const Range& range, UnwindTable& table) {
  return Interpreter(common, range, table).run(own);
}

}  // namespace coffer::record
