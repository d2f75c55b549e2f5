#pragma once

// Keeps a worker's latest state in memory that outlives its ranks: two files in a folder of the
// agent (in a Pod, in /dev/shm). The worker's first rank writes them alternately, because all ranks
// have the same state. The files have the format of shard_format.h. The first bytes of a file are
// written last. If a rank is killed while it writes, the other file is intact.
//
// Ranks that restart in the same Pod resume from a snapshot without disk or network access.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/shard_file.h"

namespace ringmaster::trainer {

// Decides when the next snapshot is due. Snapshots take at most 1 % of the time, or at most 10 % if
// 1 % is not enough for a snapshot every minute. Does not access files.
class SnapshotPace {
 public:
  bool Due(Clock::Time now) const { return !last_ || now >= *last_ + interval_; }
  void Took(Clock::Time began, Clock::Time ended);

 private:
  std::optional<Clock::Time> last_;
  Clock::Time::duration interval_{0};
};

// Not thread-safe.
class SnapshotFiles {
 public:
  // Keeps the files in `folder`, which must exist but is not accessed before Load() or Write().
  explicit SnapshotFiles(std::string folder);
  ~SnapshotFiles();
  SnapshotFiles(const SnapshotFiles&) = delete;
  SnapshotFiles& operator=(const SnapshotFiles&) = delete;

  // Returns this run's newest complete snapshot that is newer than `than`; empty if there is none.
  // Skips damaged snapshots and snapshots of another run, which are overwritten later.
  std::optional<LoadedShard> Load(const StateVersion& than, const StateIdentity& identity,
                                  const std::vector<uint64_t>& parts);

  // Overwrites the older snapshot. Replaces an earlier writer's file, to which that writer may
  // still be writing. kUnavailable: there is not enough space; the message is for users.
  Result<void> Write(const ShardHeader& header, const TrainableState& state);

 private:
  struct Mapped {
    std::span<std::byte> memory;
    ino_t file = 0;
  };

  std::string PathOf(std::size_t which) const;
  std::size_t Older(const StateIdentity& identity) const;
  Result<void> Map(std::size_t which, std::size_t bytes);
  static void Unmap(Mapped& mapped);

  const std::string folder_;
  std::array<Mapped, 2> mapped_;
};

}  // namespace ringmaster::trainer
