#include "worker/trainer/comm/shared_memory/meeting.h"

#include <algorithm>
#include <chrono>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::trainer {
namespace {

using std::chrono::steady_clock;

// How long a waiting rank polls, with sched_yield(), before it sleeps.
constexpr std::chrono::microseconds kPatience{100};
// How often a sleeping rank checks whether the process that it waits for has ended.
constexpr std::chrono::milliseconds kGlance{20};

constexpr int kRankBits = 16;

// Encodes in one word the rank and the point for which a rank sleeps.
uint64_t Awaiting(int peer, uint64_t point) {
  return point << kRankBits | static_cast<uint64_t>(peer);
}

// The futex is not private to the process, because several processes map the memory.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit / std::chrono::seconds(1));
  time.tv_nsec = static_cast<long>((limit % std::chrono::seconds(1)).count());
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void FutexWake(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

int OpenProcess(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

PeerProcess::PeerProcess(int pid) {
  if (pid == ::getpid()) return;
  fd_ = OpenProcess(pid);
  ended_ = fd_ < 0;
}

PeerProcess::~PeerProcess() {
  if (fd_ >= 0) ::close(fd_);
}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), ended_(other.ended_) {}

bool PeerProcess::HasEnded() const {
  if (fd_ < 0) return ended_;
  pollfd process{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&process, 1, 0) > 0;
}

bool PeerProcess::CanBeWatched() {
  const int fd = OpenProcess(::getpid());
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

Meeting::Meeting(std::span<MeetingCell> cells, int rank, std::vector<PeerProcess> processes)
    : cells_(cells), rank_(rank), processes_(std::move(processes)) {}

// A rank that is about to sleep sets `awaits` before its last check of `arrived`. Arrive() sets
// `arrived` before it reads `awaits`, so at least one of the two ranks sees the other's value.
uint64_t Meeting::Arrive() {
  ++arrived_;
  Self().arrived.store(arrived_, std::memory_order_seq_cst);
  for (MeetingCell& cell : cells_) {
    const uint64_t awaits = cell.awaits.load(std::memory_order_seq_cst);
    const bool for_me = awaits != 0 && awaits <= Awaiting(rank_, arrived_) &&
                        awaits % (uint64_t{1} << kRankBits) == static_cast<uint64_t>(rank_);
    if (for_me) Ring(cell);
  }
  return arrived_;
}

void Meeting::Settle() { Self().settled = arrived_; }

bool Meeting::Came(int peer, uint64_t point) const {
  const MeetingCell& cell = cells_[static_cast<std::size_t>(peer)];
  if (cell.arrived.load(std::memory_order_seq_cst) < point) return false;
  return cell.gone == 0 || cell.settled >= point;
}

void Meeting::Await(int peer, uint64_t point, Deadline deadline) {
  if (Came(peer, point)) return;
  const auto patience = steady_clock::now() + kPatience;
  while (!down_ && steady_clock::now() < patience) {
    ::sched_yield();
    if (Came(peer, point)) return;
  }
  Sleep(peer, point, deadline);
}

void Meeting::Sleep(int peer, uint64_t point, Deadline deadline) {
  MeetingCell& self = Self();
  MeetingCell& other = cells_[static_cast<std::size_t>(peer)];
  for (;;) {
    const uint32_t bell = self.bell.load();
    const bool gone = other.gone != 0;  // read first, because a peer may arrive and then leave
    self.awaits.store(Awaiting(peer, point), std::memory_order_seq_cst);
    const bool came = Came(peer, point);
    const auto left = deadline - steady_clock::now();
    const bool late = left <= left.zero();
    if (!came && !gone && !late && !down_) {
      FutexWait(self.bell, bell, std::min<std::chrono::nanoseconds>(left, kGlance));
    }
    self.awaits.store(0);
    if (came) return;
    if (down_) throw std::runtime_error("the shared memory was closed");
    if (gone) throw std::runtime_error("rank " + std::to_string(peer) + " has left the world");
    if (late) throw std::runtime_error("rank " + std::to_string(peer) + " did not join in time");
    if (processes_[static_cast<std::size_t>(peer)].HasEnded()) other.gone = 1;
  }
}

void Meeting::AwaitAll(uint64_t point, Deadline deadline) {
  for (int peer = 0; peer < size(); ++peer) Await(peer, point, deadline);
}

void Meeting::Ring(MeetingCell& cell) {
  cell.bell.fetch_add(1);
  FutexWake(cell.bell);
}

void Meeting::ShutDown() {
  down_ = true;
  Self().gone = 1;
  for (MeetingCell& cell : cells_) Ring(cell);
}

}  // namespace ringmaster::trainer
