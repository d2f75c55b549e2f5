#include "worker/trainer/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {

CheckpointWriter::CheckpointWriter(CheckpointFolder folder, int keep, CheckpointCalls calls)
    : folder_(std::move(folder)), keep_(keep), calls_(std::move(calls)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

CheckpointWriter::~CheckpointWriter() = default;

bool CheckpointWriter::Offer(ShardHeader header, const TrainableState& state) {
  {
    const std::lock_guard lock(mutex_);
    if (busy_) return false;
  }
  copy_.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    copy_[i].assign(state[i].begin(), state[i].end());
  }
  header_ = std::move(header);
  const std::lock_guard lock(mutex_);
  busy_ = true;
  changed_.notify_all();
  return true;
}

bool CheckpointWriter::AwaitIdle(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return !busy_; });
}

void CheckpointWriter::Run(const std::stop_token& stop) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return busy_; })) return;
    }
    Result<void> written;
    try {
      written = Write(stop);
    } catch (const std::exception& error) {
      written = Error{ErrorKind::kInternal, error.what()};
    }
    const bool stopped = !written.ok() && written.error().kind == ErrorKind::kCancelled;
    const std::string reason = written.ok() || stopped ? "" : written.error().message;
    if (!stopped && reason.empty() != failing_.empty()) {
      if (!reason.empty()) {
        LogWarn("Checkpoints fail; training goes on without new ones", {{"reason", reason}});
      }
      calls_.failing(reason);
    }
    if (!stopped) failing_ = reason;
    const std::lock_guard lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
}

Result<void> CheckpointWriter::Write(const std::stop_token& stop) {
  const TrainableState state(copy_.begin(), copy_.end());
  header_.parts = PartsOf(state);
  header_.checksum = Checksum(state);
  const StateVersion version = header_.version;
  const Result<DoneShard> shard = folder_.Write(header_, state, stop);
  if (!shard.ok() && shard.error().kind == ErrorKind::kAlreadyExists) return {};
  if (!shard.ok()) return shard.error();
  std::vector<DoneShard> shards{*shard};
  if (calls_.parts) {
    const Result<int> count = calls_.parts(version, stop);
    if (!count.ok()) return count.error();
    const Result<std::vector<DoneShard>> parts = folder_.AdoptParts(version, *count);
    if (!parts.ok()) return parts.error();
    shards.insert(shards.end(), parts->begin(), parts->end());
  }
  Result<void> step = calls_.grant(version, *shard, stop);
  if (!step.ok()) return step;
  step = folder_.MarkDone(version, shards);
  if (!step.ok()) return step;
  LogInfo("Completed a checkpoint",
          {{"path", folder_.PathOf(version)}, {"bytes", static_cast<int64_t>(shard->bytes)}});
  calls_.complete(version);
  folder_.Retain(version, keep_);
  return {};
}

}  // namespace ringmaster::trainer
