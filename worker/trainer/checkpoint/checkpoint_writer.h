#pragma once

// Writes checkpoints in the background. Offer() copies the state and returns. A thread writes the
// copy, asks for the grant, completes the checkpoint and removes old checkpoints. Training never
// waits for the disk: Offer() skips a checkpoint while the previous one is still being written.

#include <atomic>
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

// Functions that the writer's thread calls. They must not throw.
struct CheckpointCalls {
  // For a sharded state: blocks until all ranks have written their parts, and returns the number of
  // parts. Null if checkpoints have no parts.
  std::function<Result<int>(const StateVersion&, const std::stop_token&)> parts{};
  // Blocks until the launcher grants the checkpoint. An error means that it will not be granted;
  // kCancelled: `stop` was requested.
  std::function<Result<void>(const StateVersion&, const DoneShard&, const std::stop_token&)> grant;
  // Called when the checkpoint is complete. `bytes` is the total size of the checkpoints kept.
  std::function<void(const StateVersion&, int64_t bytes)> complete;
  // Called with the reason when checkpoints start to fail, and with "" when they succeed again.
  std::function<void(const std::string& reason)> failing;
};

// Not thread-safe.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointFolder folder, int keep, CheckpointCalls calls);
  // Calls Stop() and waits without a limit.
  ~CheckpointWriter();

  // Copies `state` and starts to write it in this world. Sets the parts and checksum of `header`.
  // Returns false, and skips this state, if the last checkpoint is still being written.
  bool Offer(const control::Epoch& world, ShardHeader header, const TrainableState& state);

  // Waits up to `limit` until nothing is being written. Returns false after a timeout.
  bool AwaitIdle(std::chrono::milliseconds limit);

  // Abandons the checkpoint that is being written, and writes no more. Returns false if the writer
  // still uses the volume after `limit`.
  bool Stop(std::chrono::milliseconds limit);

  // Returns the number of bytes that the volume has taken so far.
  uint64_t taken() const { return taken_; }
  // Returns whether the writer is using the volume, and not waiting for parts or for the grant.
  bool uses_volume() const { return uses_volume_; }

  // Returns the last version that this writer completed or found complete; {} if there is none.
  StateVersion completed() const;

 private:
  void Run(const std::stop_token& stop);
  Result<void> Write(const std::stop_token& stop);
  Result<void> Finish(CheckpointDraft& draft, const std::stop_token& stop);

  // Constant after construction.
  const CheckpointFolder folder_;
  const int keep_;
  const CheckpointCalls calls_;

  mutable Mutex mutex_;
  StoppableCondVar changed_;
  // True: the thread owns the copy; false: the caller does.
  bool busy_ RINGMASTER_GUARDED_BY(mutex_) = false;
  StateVersion completed_ RINGMASTER_GUARDED_BY(mutex_);

  control::Epoch world_;
  ShardHeader header_;
  std::vector<std::vector<float>> copy_;

  std::atomic<uint64_t> taken_ = 0;
  std::atomic<bool> uses_volume_ = false;
  std::string failing_;  // used only by the thread
  std::jthread thread_;  // the last member, so it is destroyed first
};

}  // namespace ringmaster::trainer
