#pragma once

// Writes a sharded state as a checkpoint in parts: each rank writes its own part in the background,
// and rank 0 completes the checkpoint once all parts are on disk. The ranks report this to each
// other in the reductions of steps (elastic_torch/session.h); rank 0's writer waits at the gate for
// it.

#include <chrono>
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

// Thread-safety: one caller.
class PartWriter {
 public:
  // `failing` is told, from the writer's thread, why parts cannot be written now, and an empty text
  // once they can again; only when that changes.
  PartWriter(CheckpointFolder folder, std::function<void(const std::string& reason)> failing);
  // Abandons the current part.
  ~PartWriter();

  // Copies `rows` and has them written in this world with `header`, whose checksum is filled in
  // here. False: the last part is still under way, and this one is skipped.
  bool Offer(const control::Epoch& world, ShardHeader header, std::span<const float> rows);

  // The version whose part was written last; {} before the first.
  StateVersion written() const;

  // Waits until nothing is under way; false when that takes longer than `limit`.
  bool AwaitIdle(std::chrono::milliseconds limit);

 private:
  void Run(const std::stop_token& stop);
  void Report(const Result<void>& outcome);

  const CheckpointFolder folder_;
  const std::function<void(const std::string& reason)> failing_;

  mutable Mutex mutex_;
  StoppableCondVar changed_;
  bool busy_ RINGMASTER_GUARDED_BY(mutex_) = false;  // while true header and copy are the thread's
  StateVersion written_ RINGMASTER_GUARDED_BY(mutex_);

  control::Epoch world_;
  ShardHeader header_;
  std::vector<float> copy_;

  bool fails_ = false;   // of the thread
  std::jthread thread_;  // last member: it ends first
};

// Thread-safe.
class PartsGate {
 public:
  // The parts of `version` are being written by `count` ranks; what was waited for before is given
  // up.
  void Expect(const StateVersion& version, int count);
  // All parts are on disk. Ignored for an unexpected version.
  void Complete(const StateVersion& version);
  // They will never be.
  void GiveUp();

  // Blocks until the parts of `version` are complete, and returns how many there are. kUnavailable:
  // they were given up; kCancelled: `stop` was asked for.
  Result<int> Await(const StateVersion& version, const std::stop_token& stop);

 private:
  Mutex mutex_;
  StoppableCondVar changed_;
  StateVersion expected_ RINGMASTER_GUARDED_BY(mutex_);  // {}: nothing
  int count_ RINGMASTER_GUARDED_BY(mutex_) = 0;
  bool complete_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::trainer
