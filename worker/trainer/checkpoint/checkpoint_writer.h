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

// Called from the writer's thread. They do not throw.
struct CheckpointCalls {
  // For a state that is spread over ranks: blocks until all of them have written their parts, and
  // says how many; null where there are no parts.
  std::function<Result<int>(const StateVersion&, const std::stop_token&)> parts{};
  // Blocks until the launcher grants the checkpoint, or an error says that it never will;
  // kCancelled once stopped.
  std::function<Result<void>(const StateVersion&, const DoneShard&, const std::stop_token&)> grant;
  // It is complete, and so many bytes are held by the complete ones that are kept.
  std::function<void(const StateVersion&, int64_t bytes)> complete;
  // Why checkpoints fail now; empty if they succeed again. Called only for changes.
  std::function<void(const std::string& reason)> failing;
};

// Thread-safety: one caller.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointFolder folder, int keep, CheckpointCalls calls);
  // Abandons the current checkpoint.
  ~CheckpointWriter();

  // Copies `state` and has it written in this world with `header`, whose parts and checksum are
  // filled in here. False: the last one is still under way, and this one is skipped.
  bool Offer(const control::Epoch& world, ShardHeader header, const TrainableState& state);

  // Waits until nothing is under way; false when that takes longer than `limit`.
  bool AwaitIdle(std::chrono::milliseconds limit);

  // The version that was complete last, by this writer or before it came; {} before the first.
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
  // While true the copy is the thread's, else the caller's.
  bool busy_ RINGMASTER_GUARDED_BY(mutex_) = false;
  StateVersion completed_ RINGMASTER_GUARDED_BY(mutex_);

  control::Epoch world_;
  ShardHeader header_;
  std::vector<std::vector<float>> copy_;

  std::string failing_;  // of the thread
  std::jthread thread_;  // last member: it ends first
};

}  // namespace ringmaster::trainer
