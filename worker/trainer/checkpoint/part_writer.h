#pragma once

// Writes a sharded state as a checkpoint in parts: each rank writes its part in the background, and
// rank 0 completes the checkpoint once all parts are on disk. Ranks report written parts to each
// other in the reductions of steps (elastic_torch/session.h). Rank 0's writer waits at the
// PartsGate until all parts are reported.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "worker/trainer/checkpoint/checkpoint_folder.h"

namespace ringmaster::trainer {

// Not thread-safe.
class PartWriter {
 public:
  // The writer's thread calls `failing` with the reason when writing starts to fail, and with an
  // empty text when writing succeeds again. It does not call `failing` in between.
  PartWriter(CheckpointFolder folder, std::function<void(const std::string& reason)> failing);
  // Calls Stop() and waits without a limit.
  ~PartWriter();

  // Copies `rows` and starts to write the copy with `header` in this world. Sets the checksum of
  // `header`. Returns false, and skips this part, if the last part is still being written.
  bool Offer(const control::Epoch& world, ShardHeader header, std::span<const float> rows);

  // Returns the version of the last part that was written; {} before the first part.
  StateVersion written() const;

  // Waits up to `limit` until nothing is being written. Returns false after a timeout.
  bool AwaitIdle(std::chrono::milliseconds limit);

  // Abandons the part that is being written, and writes no more. Returns false if the writer still
  // uses the volume after `limit`.
  bool Stop(std::chrono::milliseconds limit);

  // Returns the number of bytes that the volume has taken so far.
  uint64_t taken() const { return taken_; }
  // Returns whether the writer is using the volume.
  bool uses_volume() const { return uses_volume_; }

 private:
  void Run(const std::stop_token& stop);
  void Report(const Result<void>& outcome);

  const CheckpointFolder folder_;
  const std::function<void(const std::string& reason)> failing_;

  mutable Mutex mutex_;
  StoppableCondVar changed_;
  bool busy_ RINGMASTER_GUARDED_BY(mutex_) = false;  // true: the thread owns header and copy
  StateVersion written_ RINGMASTER_GUARDED_BY(mutex_);

  control::Epoch world_;
  ShardHeader header_;
  std::vector<float> copy_;

  std::atomic<uint64_t> taken_ = 0;
  std::atomic<bool> uses_volume_ = false;
  bool fails_ = false;   // used only by the thread
  std::jthread thread_;  // the last member, so it is destroyed first
};

// Thread-safe.
class PartsGate {
 public:
  // Call when `count` ranks are writing the parts of `version`. Abandons the parts of an earlier
  // version.
  void Expect(const StateVersion& version, int count);
  // Call when all parts are on disk. Does nothing if Expect() was not called for `version`.
  void Complete(const StateVersion& version);
  // Call when the parts will never be complete.
  void GiveUp();

  // Blocks until the parts of `version` are complete, and returns their number. kUnavailable: they
  // were abandoned. kCancelled: `stop` was requested.
  Result<int> Await(const StateVersion& version, const std::stop_token& stop);

 private:
  Mutex mutex_;
  StoppableCondVar changed_;
  StateVersion expected_ RINGMASTER_GUARDED_BY(mutex_);  // {}: no version
  int count_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  bool complete_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::trainer
