// SPDX-License-Identifier: MIT
// What the library asks of the system to show itself to people (coffer stat, profiles): a simulated process is looked
// at by its machine, and has none of it.
#include "os/os.hpp"

namespace coffer::os {

Purged purged() { return {0, 0}; }
u32 process_number() { return 1; }
u32 user_number() { return 0; }
u64 pid_namespace() { return 0; }
void program_name(char (&name)[kProgramNameBytes]) { name[0] = 0; }
u64 boot_ns() { return monotonic_ns(); }
u64 unix_ns() { return monotonic_ns(); }

void* share_file(const char*, usize) { return nullptr; }
void unshare_file(void*, usize) {}
bool remove_file(const char*) { return false; }
void for_each_name(const char*, u32, void (*)(const char*, void*), void*) {}
bool is_process_gone(u32) { return false; }
int create_file(const char*, Existing) { return -1; }
bool write_file(int, const void*, usize) { return false; }
bool close_file(int) { return false; }

u32 call_stack(uptr*, u32) { return 0; }
u32 interrupted_stack(const void*, uptr*, u32) { return 0; }
uptr library_end(uptr, uptr*) { return 0; }
void for_each_code_mapping(void (*)(const Mapping&, void*), void*) {}
bool on_signal(u32, void (*)(int)) { return false; }
bool on_fault(void (*)(const Fault&)) { return false; }
u32 thread_number() { return 1; }

}  // namespace coffer::os
