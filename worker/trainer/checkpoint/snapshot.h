#pragma once

// The newest state of one slot in memory that outlives its rank: two files in a folder of the agent
// (in a Pod, of /dev/shm), written in turn. Each has the format of shard_format.h, its first bytes
// last: a rank that is killed while it writes leaves the other one whole.
//
// A rank that is started again on the same Pod goes on from there without disk or network.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/shard_file.h"

namespace ringmaster::trainer {

// When the next snapshot is due: as often as copying costs at most 1 % of the time, and at least
// once a minute. Pure.
class SnapshotPace {
 public:
  bool Due(Clock::Time now) const { return !last_ || now >= *last_ + interval_; }
  void Took(Clock::Time began, Clock::Time ended);

 private:
  std::optional<Clock::Time> last_;
  Clock::Time::duration interval_{0};
};

// Thread-safety: one thread.
class SnapshotFiles {
 public:
  // Files of `slot` in `folder`, which exists. Nothing is touched before Load() or Write().
  SnapshotFiles(std::string folder, int slot);
  ~SnapshotFiles();
  SnapshotFiles(const SnapshotFiles&) = delete;
  SnapshotFiles& operator=(const SnapshotFiles&) = delete;

  // The newest whole one of this run that is above `than`; nothing where there is none. What is
  // damaged or of another run is of no use and is overwritten.
  std::optional<LoadedShard> Load(const StateVersion& than, const StateIdentity& identity,
                                  const std::vector<uint64_t>& parts);

  // Over the older of the two. kUnavailable: there is no room, in a sentence.
  Result<void> Write(const ShardHeader& header, const TrainableState& state);

 private:
  std::string PathOf(std::size_t which) const;
  Result<void> Map(std::size_t which, std::size_t bytes);

  const std::string folder_;
  const int slot_;
  std::size_t next_ = 0;  // which is overwritten next
  std::array<std::span<std::byte>, 2> mapped_;
};

}  // namespace ringmaster::trainer
