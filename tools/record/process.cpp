// SPDX-License-Identifier: MIT
#include "record/process.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "record/machine.hpp"

namespace coffer::record {

namespace {

using trace::BatchHead;
using trace::Kind;
using trace::Op;

constexpr u64 kFlushNs = 200'000'000, kSampleNs = 50'000'000, kModulesNs = 250'000'000;
// Behind it a chunk and the recorder's own records still fit a frame.
constexpr std::size_t kFlushBytes = trace::kMaxRecords - 2 * kChunkBytes;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

// A memory file counts as a file that is written, so it may be longer than the limit only if this process may.
int make_memory(u64 length) {
  const int memory = memfd_create("coffer-record", MFD_CLOEXEC);
  if (memory < 0) fail("memfd_create");
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &raised);
  const int result = ftruncate(memory, static_cast<off_t>(length));
  const int error = errno;
  setrlimit(RLIMIT_FSIZE, &limit);
  if (result == 0) return memory;
  ::close(memory);
  errno = error;
  return -1;
}

// Of the program that a process executes; the name may have gone to another file meanwhile. 0: not to be seen.
std::pair<u64, u64> program_file(pid_t pid) {
  struct stat status{};
  if (stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &status) != 0) return {0, 0};
  return {status.st_dev, status.st_ino};
}

}  // namespace

Process::Process(pid_t pid, const Hello& hello, const Settings& settings, Output output)
    : pid_(pid),
      settings_(settings),
      output_(std::move(output)),
      counts_(hello.counts != 0),
      writer_(output_.take_file()) {
  const trace::Clock now = read_clock(settings_.use_tsc);
  const int failure = writer_.write_head(describe(hello), trace::Blocks::addresses, now, realtime_ns());
  if (failure != 0) throw std::system_error(failure, std::generic_category(), path());
  map(hello.room);
  file_ = program_file(pid);
  end_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  own_base_.time = own_begin_.time = now.ticks;
  flushed_ns_ = now.ns;
  if (settings_.stacks != Stacks::none) write_modules();  // a short program may end before the first look
}

Process::~Process() {
  if (area_ != nullptr) munmap(area_, length_);
  if (end_ >= 0) ::close(end_);
  if (memory_ >= 0) ::close(memory_);
}

void Process::map(u64 room) {
  capacity_ = kMaxChunks;
  while (capacity_ > 64 && area_bytes(capacity_) > room) capacity_ /= 2;
  while ((memory_ = make_memory(area_bytes(capacity_))) < 0) {
    if (capacity_ <= 64) fail("no memory to share with the program");
    capacity_ /= 2;
  }
  length_ = area_bytes(capacity_);
  void* const base = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_, 0);
  if (base == MAP_FAILED) fail("no memory to share with the program");
  area_ = static_cast<Area*>(base);
  area_->capacity = capacity_;
  heads_ = reinterpret_cast<ChunkHead*>(static_cast<u8*>(base) + kHeadsOffset);
  data_ = static_cast<u8*>(base) + data_offset(capacity_);
  progress_.resize(capacity_);
}

trace::Information Process::describe(const Hello& hello) {
  trace::Information information = machine_information();
  program_ = link_of("/proc/" + std::to_string(pid_) + "/exe");
  information["program"] = program_;
  information["arguments"] = contents_of("/proc/" + std::to_string(pid_) + "/cmdline");
  if (counts_) {
    program_ = information["program"] = std::string(hello.program, strnlen(hello.program, sizeof hello.program));
    information["arguments"] = settings_.arguments;
    information["instructions"] = "1";
  }
  information["pid"] = std::to_string(pid_);
  information["allocator"] = std::string(hello.allocator, strnlen(hello.allocator, sizeof hello.allocator));
  const std::string version(hello.version, strnlen(hello.version, sizeof hello.version));
  if (!version.empty()) information["allocator_version"] = version;
  constexpr const char* names[] = {"none", "frames", "unwind"};
  information["stacks"] = names[static_cast<u32>(settings_.stacks)];
  return information;
}

bool Process::has_ended() const {
  if (end_ < 0) return kill(pid_, 0) != 0 && errno == ESRCH;
  pollfd wanted{end_, POLLIN, 0};
  return poll(&wanted, 1, 0) > 0;
}

// The chunks in use, by thread and sequence. What is read belongs to the program, and is checked where it is used.
void Process::collect(std::vector<Item>& items) {
  const u32 fresh = std::min(area_->fresh.load(std::memory_order_relaxed), capacity_);  // relaxed: later ones later
  backlog_ = 0;
  for (u32 i = 0; i < fresh; ++i) {
    ChunkHead& head = heads_[i];
    // acquire: pairs with the thread's release; the rest of the head, and after `full` also `used`, are final.
    const auto state = static_cast<ChunkState>(head.state.load(std::memory_order_acquire));
    if (state != ChunkState::active && state != ChunkState::full) continue;
    if (state == ChunkState::full) ++backlog_;
    // acquire: the records up to here.
    const u32 used = std::min(head.used.load(std::memory_order_acquire), kChunkBytes);
    items.push_back({head.thread, head.sequence, i, state, used});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.sequence < b.sequence;
  });
}

void Process::release(u32 index) {
  ChunkHead& head = heads_[index];
  progress_[index] = {};
  // relaxed, twice: the exchange below publishes them (release, pairs with the acquire of the thread that takes it).
  head.state.store(static_cast<u32>(ChunkState::free), std::memory_order_relaxed);
  u64 seen = area_->free_list.load(std::memory_order_relaxed);
  do {
    head.next.store(static_cast<u32>(seen), std::memory_order_relaxed);
  } while (!area_->free_list.compare_exchange_weak(seen, ((seen >> 32) + 1) << 32 | (index + 1),
                                                   std::memory_order_acq_rel, std::memory_order_relaxed));
}

// Copies the chunk's new records to the payload, as a batch.
void Process::copy(const Item& item) {
  Progress& progress = progress_[item.index];
  if (item.used <= progress.drained) return;
  if (progress.drained == 0) progress.base = {heads_[item.index].base_time, 0};
  u64& last_time = last_times_[item.thread];
  const std::size_t start = payload_.size(), bytes = item.used - progress.drained;
  BatchHead head{item.thread, 0, 0, 0, progress.base.time, progress.base.block};
  payload_.resize(start + sizeof head);
  const u8* const from = data_ + u64{item.index} * kChunkBytes + progress.drained;
  payload_.insert(payload_.end(), from, from + bytes);  // what is decoded is what is written, whatever comes after
  const u8* const records = payload_.data() + start + sizeof head;
  progress.drained = item.used;

  trace::Decoder decoder(records, records + bytes, progress.base);
  trace::Record record;
  bool is_good = item.thread != 0 && progress.base.time >= last_time;
  const u8* good = records;
  while (is_good && !decoder.done()) {
    if (const u32 skipped = decoder.skip_usual(); skipped != 0) {
      first_ = std::min(first_, decoder.base().time);
      head.records += skipped;
      good = decoder.at();
      continue;
    }
    is_good = decoder.next(record) == nullptr;
    if (!is_good) break;
    first_ = std::min(first_, record.time);
    ++head.records;
    good = decoder.at();
  }
  if (!is_good) ++overwritten_;
  progress.base = decoder.base();
  if (head.records != 0) {
    last_time = progress.base.time;
    last_ = std::max(last_, last_time);
  }
  head.bytes = static_cast<u32>(good - records);
  payload_.resize(head.records == 0 ? start : start + sizeof head + head.bytes);
  if (head.records != 0) std::memcpy(payload_.data() + start, &head, sizeof head);
  payload_records_ += head.records;
}

// relaxed: a thread that waits sees that it changes, no more.
void Process::show_life() { area_->beat.fetch_add(1, std::memory_order_relaxed); }

bool Process::pass(bool everything, bool final) {
  std::vector<Item> items;
  collect(items);
  bool any = false;
  for (const Item& item : items) {
    show_life();  // a look over thousands of chunks may take seconds where others have the processor
    u32& expected = expected_[item.thread];
    // A thread's chunk that this look came too early to see comes first.
    if (item.sequence != expected && !final) continue;
    if (item.state == ChunkState::full || everything) {
      any = any || item.used > progress_[item.index].drained;
      copy(item);
    }
    if (item.state == ChunkState::full) {
      expected = item.sequence + 1;
      release(item.index);
    }
    if (payload_.size() >= kFlushBytes) flush();
  }
  return any;
}

bool Process::drain() {
  const trace::Clock now = read_clock(settings_.use_tsc);
  show_life();
  const u32 mapped = area_->mapped.load(std::memory_order_relaxed);  // relaxed: a reason to look, no more
  if (settings_.stacks != Stacks::none && (now.ns - modules_ns_ >= kModulesNs || mapped != mapped_)) write_modules();
  mapped_ = mapped;
  if (now.ns - sampled_ns_ >= kSampleNs) sample();
  const bool is_due = now.ns - flushed_ns_ >= kFlushNs;
  const bool any = pass(is_due, false);
  // seq_cst: pairs with take_chunk: either we see that it waits, or it sees that `drained` has risen.
  area_->drained.fetch_add(1, std::memory_order_seq_cst);
  if (area_->waiting.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, &area_->drained, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  if (is_due) flush();
  return any;
}

// A record of the recorder's own, thread 0.
void Process::note(Op op, u64 a, u8 detail) {
  trace::Record record;
  record.op = op;
  record.time = read_clock(settings_.use_tsc).ticks;
  record.a = a;
  record.detail = detail;
  const std::size_t used = own_.size();
  own_.resize(used + trace::kMaxRecord + 8);
  first_ = std::min(first_, std::max(record.time, own_base_.time));
  u8* const end = trace::encode(own_.data() + used, record, own_base_);
  own_.resize(static_cast<std::size_t>(end - own_.data()));
  last_ = std::max(last_, own_base_.time);
  ++own_records_;
}

// One that loads the recorder says hello before long, and has a trace of its own then.
void Process::look_at_program() {
  const std::pair<u64, u64> now = program_file(pid_);
  if (now.second == 0) return;
  other_ = now == file_ ? "" : link_of("/proc/" + std::to_string(pid_) + "/exe");
}

void Process::sample() {
  sampled_ns_ = read_clock(settings_.use_tsc).ns;
  look_at_program();
  if (!other_.empty()) return;
  if (const u64 bytes = private_resident_bytes(pid_); bytes != 0) {
    note(Op::figure, bytes, static_cast<u8>(trace::Figure::resident));
  }
}

void Process::note_losses() {
  for (u32 i = 1; i < kLostKinds; ++i) {
    const u64 now = area_->lost[i].load(std::memory_order_relaxed);  // relaxed: a count
    if (now <= seen_lost_[i]) continue;
    lost_ += now - seen_lost_[i];
    note(Op::lost, now - seen_lost_[i], static_cast<u8>(i));
    seen_lost_[i] = now;
  }
  if (overwritten_ != 0) {
    lost_ += overwritten_;
    note(Op::lost, overwritten_, static_cast<u8>(trace::Lost::overwritten));
    overwritten_ = 0;
  }
  if (unsaid_lost_ != 0) note(Op::lost, unsaid_lost_, static_cast<u8>(trace::Lost::disk_full));
}

// A collector that is behind compresses less, and if that does not help, not at all: its file grows, the program runs.
int Process::choose_level() const {
  if (backlog_ > kSpareChunks * 3 / 4) return trace::FrameWriter::kStored;
  if (backlog_ > kSpareChunks / 4) return -7;
  return settings_.level;
}

void Process::flush() {
  note_losses();
  const trace::Clock now = read_clock(settings_.use_tsc);
  flushed_ns_ = now.ns;
  if (own_records_ != 0) {
    const BatchHead head{0, static_cast<u32>(own_.size()), own_records_, 0, own_begin_.time, own_begin_.block};
    const auto* const from = reinterpret_cast<const u8*>(&head);
    payload_.insert(payload_.end(), from, from + sizeof head);
    payload_.insert(payload_.end(), own_.begin(), own_.end());
  }
  const u32 count = payload_records_ + own_records_;
  if (count != 0) {
    const int failure =
        writer_.write_frame(Kind::records, payload_.data(), payload_.size(), first_, last_, count, now, choose_level());
    if (failure == 0) {
      records_ += count;
      unsaid_lost_ = 0;
    } else {
      lost_ += payload_records_;
      unsaid_lost_ += payload_records_;
      if (failure != failure_) {
        std::fprintf(stderr, "coffer record: %s: %s; the program goes on, what cannot be written is lost\n",
                     path().c_str(), std::strerror(failure));
      }
      failure_ = failure;
    }
  }
  own_.clear();
  own_records_ = 0;
  own_begin_ = own_base_;
  payload_.clear();
  payload_records_ = 0;
  first_ = ~u64{0};
  last_ = 0;
}

void Process::write_modules() {
  const trace::Clock now = read_clock(settings_.use_tsc);
  modules_ns_ = now.ns;
  std::string payload = module_payload(pid_);
  if (payload.empty() || payload == modules_) return;
  if (writer_.write_frame(Kind::modules, payload.data(), payload.size(), now.ticks, now.ticks, 0, now, 3) == 0) {
    modules_ = std::move(payload);
  }
}

void Process::close(const std::string& end, int status) {
  area_->closed.store(1, std::memory_order_release);  // pairs with the acquire of take_chunk
  while (pass(true, true)) {
  }
  flush();
  trace::Information footer;
  footer["end"] = end;
  if (status >= 0) footer["status"] = std::to_string(status);
  footer["records"] = std::to_string(records_);
  footer["lost"] = std::to_string(lost_);
  footer["threads"] = std::to_string(threads());
  const int failure = writer_.write_footer(footer, read_clock(settings_.use_tsc));
  if (failure != 0 && failure != failure_) {
    std::fprintf(stderr, "coffer record: %s: %s; the trace has no footer\n", path().c_str(), std::strerror(failure));
  }
  output_.finish();
}

}  // namespace coffer::record
