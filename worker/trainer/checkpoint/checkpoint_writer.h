#pragma once

// Writes checkpoints in the background. Offer() copies the state and returns; a thread writes the
// copy, asks for the grant, completes the checkpoint and removes old ones. Training never waits for
// the disk: an offer is skipped while the previous one is still being written.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/checkpoint_folder.h"
#include "worker/trainer/numeric/checksum.h"

namespace ringmaster::trainer {

// Called from the writer's thread. They must not throw.
struct CheckpointCalls {
  // For a sharded state: blocks until all ranks have written their parts, and returns the number of
  // parts. Null if there are no parts.
  std::function<Result<int>(const StateVersion&, const std::stop_token&)> parts{};
  // Blocks until the launcher grants the checkpoint, or an error says that it never will;
  // kCancelled once stopped.
  std::function<Result<void>(const StateVersion&, const DoneShard&, const std::stop_token&)> grant;
  // The checkpoint is complete. `bytes` is the size of all complete checkpoints that are kept.
  std::function<void(const StateVersion&, int64_t bytes)> complete;
  // Why checkpoints fail now; empty if they succeed again. Called only for changes.
  std::function<void(const std::string& reason)> failing;
};

// Not thread-safe.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointFolder folder, int keep, CheckpointCalls calls);
  // Abandons the current checkpoint.
  ~CheckpointWriter();

  // Copies `state` and starts to write it in this world with `header`, whose parts and checksum it
  // fills in. Returns false if the last checkpoint is still being written; this one is skipped.
  bool Offer(const control::Epoch& world, ShardHeader header, const TrainableState& state);

  // Waits until nothing is being written. Returns false if that takes longer than `limit`.
  bool AwaitIdle(std::chrono::milliseconds limit);

  // The last version that was completed, by this writer or before it existed; {} before the first.
  StateVersion completed() const;

 private:
  void Run(const std::stop_token& stop);
  Result<void> Write(const std::stop_token& stop);
  Result<void> Finish(CheckpointDraft& draft, const std::stop_token& stop);

  // Constant.
  const CheckpointFolder folder_;
  const int keep_;
  const CheckpointCalls calls_;

  mutable Mutex mutex_;
  StoppableCondVar changed_;
  // While true the thread owns the copy, otherwise the caller does.
  bool busy_ RINGMASTER_GUARDED_BY(mutex_) = false;
  StateVersion completed_ RINGMASTER_GUARDED_BY(mutex_);

  control::Epoch world_;
  ShardHeader header_;
  std::vector<std::vector<float>> copy_;

  std::string failing_;  // used by the thread
  std::jthread thread_;  // last member: it ends first
};

}  // namespace ringmaster::trainer
