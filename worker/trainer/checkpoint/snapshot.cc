#include "worker/trainer/checkpoint/snapshot.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::trainer {
namespace {

constexpr int kCostShare = 100;  // snapshots take at most 1/100 of the time
constexpr std::chrono::seconds kAtLeastEvery{60};
constexpr int kMostShare = 10;  // once a minute, snapshots may take up to 1/10 of the time
constexpr mode_t kSnapshotMode = 0600;

}  // namespace

void SnapshotPace::Took(Clock::Time began, Clock::Time ended) {
  last_ = began;
  const Clock::Time::duration took = ended - began;
  const auto cheap = std::min<Clock::Time::duration>(took * kCostShare, kAtLeastEvery);
  interval_ = std::max<Clock::Time::duration>(cheap, took * kMostShare);
}

SnapshotFiles::SnapshotFiles(std::string folder) : folder_(std::move(folder)) {}

SnapshotFiles::~SnapshotFiles() {
  for (Mapped& mapped : mapped_) Unmap(mapped);
}

std::string SnapshotFiles::PathOf(std::size_t which) const {
  return folder_ + (which == 0 ? "/state-a" : "/state-b");
}

std::optional<LoadedShard> SnapshotFiles::Load(const StateVersion& than,
                                               const StateIdentity& identity,
                                               const std::vector<uint64_t>& parts) {
  std::optional<LoadedShard> newest;
  StateVersion best = than;
  for (std::size_t which = 0; which < mapped_.size(); ++which) {
    const Result<ShardHeader> header = ReadShardHeader(PathOf(which));
    if (!header.ok() || header->identity.run != identity.run) continue;
    if (!(best < header->version)) continue;
    Result<LoadedShard> loaded = ReadShard(PathOf(which), identity, parts);
    if (!loaded.ok()) continue;
    newest = *std::move(loaded);
    best = newest->header.version;
  }
  return newest;
}

// Returns the older file's index. A snapshot that is incomplete or of another run counts as older.
std::size_t SnapshotFiles::Older(const StateIdentity& identity) const {
  std::array<StateVersion, 2> versions;
  for (std::size_t which = 0; which < versions.size(); ++which) {
    const Result<ShardHeader> header = ReadShardHeader(PathOf(which));
    if (header.ok() && header->identity.run == identity.run) versions[which] = header->version;
  }
  return versions[0] <= versions[1] ? 0 : 1;
}

Result<void> SnapshotFiles::Write(const ShardHeader& header, const TrainableState& state) {
  const std::vector<std::byte> head = EncodeShardHeader(header);
  const Result<uint64_t> data = ShardDataBytes(header);
  if (!data.ok()) return data.error();
  const std::size_t older = Older(header.identity);
  if (Result<void> mapped = Map(older, head.size() + *data); !mapped.ok()) return mapped;
  const std::span<std::byte> memory = mapped_[older].memory;
  std::memset(memory.data(), 0, kShardPrefixBytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::size_t at = head.size();
  for (const std::span<float> values : state) {
    std::memcpy(memory.data() + at, values.data(), values.size_bytes());
    at += values.size_bytes();
  }
  std::memcpy(memory.data() + kShardPrefixBytes, head.data() + kShardPrefixBytes,
              head.size() - kShardPrefixBytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::memcpy(memory.data(), head.data(), kShardPrefixBytes);
  return {};
}

// Allocates all memory in advance: if memory runs out when a page is first touched, the process
// gets SIGBUS. Replaces a file that does not belong to this object.
Result<void> SnapshotFiles::Map(std::size_t which, std::size_t bytes) {
  Mapped& mapped = mapped_[which];
  const std::string path = PathOf(which);
  struct stat status {};
  if (mapped.memory.size() == bytes && ::stat(path.c_str(), &status) == 0 &&
      status.st_ino == mapped.file) {
    return {};
  }
  const auto failed = [&](int why) {
    return Error{ErrorKind::kUnavailable, "failed to reserve space for two snapshots of " +
                                              std::to_string((bytes >> 20) + 1) + " MiB each in " +
                                              folder_ + ": " + std::strerror(why)};
  };
  Unmap(mapped);
  ::unlink(path.c_str());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kSnapshotMode);
  if (file < 0) return failed(errno);
  struct statvfs room {};
  int why = ::fstat(file, &status) == 0 && ::fstatvfs(file, &room) == 0 ? 0 : errno;
  // Each file takes at most half of the free space, because NCCL and data loaders also need it.
  if (why == 0 && bytes > room.f_bavail * room.f_frsize / 2) why = ENOSPC;
  if (why == 0) why = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (why == 0) {
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) why = errno;
  }
  ::close(file);
  if (why != 0) {
    ::unlink(path.c_str());
    return failed(why);
  }
  mapped = {.memory = {static_cast<std::byte*>(memory), bytes}, .file = status.st_ino};
  return {};
}

void SnapshotFiles::Unmap(Mapped& mapped) {
  if (!mapped.memory.empty()) ::munmap(mapped.memory.data(), mapped.memory.size());
  mapped = {};
}

}  // namespace ringmaster::trainer
