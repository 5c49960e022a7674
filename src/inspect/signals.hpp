// SPDX-License-Identifier: MIT
// Signals that options name.
#pragma once

#include "os/os.hpp"

namespace coffer {

// Has `handler` called for the signal that `option` says, if it says one; tells people when that cannot be.
inline COFFER_COLD void catch_signal(const char* option, u32 signal, void (*handler)(int)) {
  if (signal == 0 || os::on_signal(signal, handler)) return;
  TextBuffer<80> line;
  line.add("coffer: ").add(option).add(':').number(signal).add(": this signal cannot be caught");
  os::write_line(line);
}

}  // namespace coffer
