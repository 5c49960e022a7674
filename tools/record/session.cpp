// SPDX-License-Identifier: MIT
// How the recorder finds its collector: once a process, at its first allocation or the library's constructor. What
// happens here leaves no descriptor, no thread and no block behind.
#include "record/session.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace coffer::record {

constinit Session g_session;
bool g_use_tsc = false;
Stacks g_stacks = Stacks::none;

namespace {

// Address space for the mapping: what a process with a limit can spare.
u64 address_room() {
  rlimit limit;
  const u64 all = area_bytes(kMaxChunks);
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return all;
  return limit.rlim_cur / 16 < all ? limit.rlim_cur / 16 : all;
}

int connect_collector(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const timeval patience{5, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return socket;
  close(socket);
  return -1;
}

// The answer and, unless the mode is off, the mapping's descriptor.
bool receive(int socket, Answer& answer, int& descriptor) {
  iovec part{&answer, sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof answer || answer.magic != kHelloMagic) return false;
  const cmsghdr* const part_of = CMSG_FIRSTHDR(&message);
  if (part_of != nullptr && part_of->cmsg_type == SCM_RIGHTS) memcpy(&descriptor, CMSG_DATA(part_of), sizeof(int));
  return answer.mode == Mode::on && descriptor >= 0 && answer.capacity > 0 && answer.capacity <= kMaxChunks;
}

bool map_area(int descriptor, u32 capacity) {
  const u64 length = area_bytes(capacity), heads = data_offset(capacity);
  // The chunks become accessible as they are used: a process that locks its memory would have them all backed.
  void* const base = mmap(nullptr, length, PROT_NONE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED) return false;
  madvise(base, length, MADV_DONTDUMP);
  madvise(base, length, MADV_DONTFORK);
  if (mprotect(base, heads, PROT_READ | PROT_WRITE) != 0) {
    munmap(base, length);
    return false;
  }
  g_session.area = static_cast<Area*>(base);
  g_session.heads = reinterpret_cast<ChunkHead*>(static_cast<u8*>(base) + kHeadsOffset);
  g_session.data = static_cast<u8*>(base) + heads;
  g_session.length = length;
  g_session.capacity = capacity;
  g_session.writable.store(0, std::memory_order_relaxed);  // relaxed: no other thread records yet
  return true;
}

bool map_threads() {
  if (g_session.table != nullptr) return true;  // a fork child: it was wiped
  const u64 length = sizeof(Table);
  void* const base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  madvise(base, length, MADV_DONTDUMP);
  if (madvise(base, length, MADV_WIPEONFORK) != 0) {  // Linux 4.14
    munmap(base, length);
    return false;
  }
  g_session.table = static_cast<Table*>(base);
  return true;
}

bool say_hello(bool is_fork) {
  const char* const place = getenv(kSocketVariable);
  if (place == nullptr || strlen(place) <= kTokenBytes || place[kTokenBytes] != ':') return false;
  const int socket = connect_collector(place + kTokenBytes + 1);
  if (socket < 0) return false;
  Hello hello{};
  hello.magic = kHelloMagic;
  hello.is_fork = is_fork ? 1 : 0;
  hello.room = address_room();
  memcpy(hello.token, place, sizeof hello.token);
  Dl_info info;
  if (!is_fork && dladdr(reinterpret_cast<void*>(g_next.malloc), &info) != 0 && info.dli_fname != nullptr) {
    strncpy(hello.allocator, info.dli_fname, sizeof hello.allocator - 1);
  }
  if (g_next.coffer_version != nullptr) strncpy(hello.version, g_next.coffer_version(), sizeof hello.version - 1);
  hello.counts = can_count() ? 1 : 0;
  if (hello.counts != 0 && readlink("/proc/self/exe", hello.program, sizeof hello.program - 1) < 0)
    hello.program[0] = 0;
  Answer answer{};
  int descriptor = -1;
  bool ok = send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello && receive(socket, answer, descriptor);
  ok = ok && map_area(descriptor, answer.capacity) && map_threads();
  if (descriptor >= 0) close(descriptor);
  close(socket);
  if (!ok) return false;
  g_use_tsc = answer.use_tsc != 0;
  g_stacks = start_stacks(answer.stacks, answer.depth) ? answer.stacks : Stacks::none;
  return true;
}

}  // namespace

// Called with all signals blocked.
bool start_session() {
  if (!is_resolved()) return false;
  State seen = g_session.state.load(std::memory_order_acquire);  // acquire: pairs with the release below
  if (seen == State::on && g_session.table->alive == 0) {
    // This process is a fork child: the table is empty, and the mapping did not come along.
    g_session.area = nullptr;
    const bool ok = say_hello(true);
    if (ok) g_session.table->alive = 1;
    seen = ok ? State::on : State::off;
    g_session.state.store(seen, std::memory_order_release);  // pairs with the acquire of this function
  }
  if (seen != State::untried) return seen == State::on;
  // The C library has not found its environment yet: later.
  if (environ == nullptr) return false;
  // acq_rel: one thread tries; the others record nothing meanwhile.
  if (!g_session.state.compare_exchange_strong(seen, State::trying, std::memory_order_acq_rel)) return false;
  bool ok = say_hello(false);
  if (ok) {
    g_session.table->alive = 1;
    bind_system(reinterpret_cast<void*>(g_next.malloc));
    ok = start_thread_ends();
  }
  // release: pairs with the acquire above; who sees `on` sees the mapping.
  g_session.state.store(ok ? State::on : State::off, std::memory_order_release);
  return ok;
}

}  // namespace coffer::record
