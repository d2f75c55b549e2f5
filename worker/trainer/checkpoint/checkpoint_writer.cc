#include "worker/trainer/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {

CheckpointWriter::CheckpointWriter(CheckpointFolder folder, int keep, CheckpointCalls calls)
    : folder_(std::move(folder)), keep_(keep), calls_(std::move(calls)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

CheckpointWriter::~CheckpointWriter() = default;

bool CheckpointWriter::Offer(const control::Epoch& world, ShardHeader header,
                             const TrainableState& state) {
  {
    const MutexLock lock(mutex_);
    if (busy_) return false;
  }
  copy_.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    copy_[i].assign(state[i].begin(), state[i].end());
  }
  world_ = world;
  header_ = std::move(header);
  const MutexLock lock(mutex_);
  busy_ = true;
  changed_.NotifyAll();
  return true;
}

bool CheckpointWriter::AwaitIdle(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, limit, [&]() RINGMASTER_REQUIRES(mutex_) { return !busy_; });
}

bool CheckpointWriter::Stop(std::chrono::milliseconds limit) {
  thread_.request_stop();
  return AwaitIdle(limit);
}

StateVersion CheckpointWriter::completed() const {
  const MutexLock lock(mutex_);
  return completed_;
}

void CheckpointWriter::Run(const std::stop_token& stop) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!changed_.Wait(mutex_, stop, [&]() RINGMASTER_REQUIRES(mutex_) { return busy_; })) return;
    }
    Result<void> written;
    try {
      written = Write(stop);
    } catch (const std::exception& error) {
      written = Error{ErrorKind::kInternal, error.what()};
    }
    uses_volume_ = false;
    const bool stopped = !written.ok() && written.error().kind == ErrorKind::kCancelled;
    const std::string reason = written.ok() || stopped ? "" : written.error().message;
    if (!stopped && reason.empty() != failing_.empty()) {
      if (!reason.empty()) {
        LogWarn("Failed to write a checkpoint; training continues without new ones",
                {{"reason", reason}});
      }
      calls_.failing(reason);
    }
    if (!stopped) failing_ = reason;
    const MutexLock lock(mutex_);
    if (written.ok()) completed_ = header_.version;
    busy_ = false;
    changed_.NotifyAll();
  }
}

Result<void> CheckpointWriter::Write(const std::stop_token& stop) {
  const TrainableState state(copy_.begin(), copy_.end());
  header_.parts = PartsOf(state);
  header_.checksum = Checksum(state);
  uses_volume_ = true;
  Result<CheckpointDraft> draft = folder_.Write(header_, state, stop, &taken_);
  if (!draft.ok() && draft.error().kind == ErrorKind::kAlreadyExists) return {};
  if (!draft.ok()) return draft.error();
  Result<void> finished = Finish(*draft, stop);
  std::error_code unknown;
  if (!finished.ok() && !std::filesystem::exists(draft->aside, unknown) && !unknown) {
    return Error{ErrorKind::kCancelled, "rank 0 of a later world writes a newer checkpoint"};
  }
  if (!finished.ok()) folder_.Discard(*draft);
  // Rank 0 of another world with the same state has already written this checkpoint.
  if (!finished.ok() && finished.error().kind == ErrorKind::kAlreadyExists) return {};
  return finished;
}

Result<void> CheckpointWriter::Finish(CheckpointDraft& draft, const std::stop_token& stop) {
  const DoneShard shard = draft.shards.front();
  if (calls_.parts) {
    uses_volume_ = false;
    const Result<int> count = calls_.parts(draft.version, stop);
    uses_volume_ = true;
    if (!count.ok()) return count.error();
    const Result<void> adopted = folder_.AdoptParts(draft, world_, *count);
    if (!adopted.ok()) return adopted;
  }
  uses_volume_ = false;
  Result<void> step = calls_.grant(draft.version, shard, stop);
  uses_volume_ = true;
  if (step.ok()) step = folder_.Publish(draft);
  if (!step.ok()) return step;
  const Result<std::vector<StateVersion>> complete = folder_.Complete();
  const Result<int64_t> bytes =
      complete.ok() ? folder_.BytesOfNewest(*complete, keep_) : complete.error();
  LogInfo("Completed a checkpoint",
          {{"path", folder_.PathOf(draft.version)}, {"bytes", static_cast<int64_t>(shard.bytes)}});
  calls_.complete(draft.version, bytes.ok() ? *bytes : 0);
  folder_.Retain(draft.version, keep_);
  return {};
}

}  // namespace ringmaster::trainer
