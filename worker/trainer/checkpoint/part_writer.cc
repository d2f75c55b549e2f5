#include "worker/trainer/checkpoint/part_writer.h"

#include <exception>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {

PartWriter::PartWriter(CheckpointFolder folder,
                       std::function<void(const std::string& reason)> failing)
    : folder_(std::move(folder)), failing_(std::move(failing)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

PartWriter::~PartWriter() = default;

bool PartWriter::Offer(const control::Epoch& world, ShardHeader header,
                       std::span<const float> rows) {
  {
    const MutexLock lock(mutex_);
    if (busy_) return false;
  }
  world_ = world;
  header_ = std::move(header);
  copy_.assign(rows.begin(), rows.end());
  const MutexLock lock(mutex_);
  busy_ = true;
  changed_.NotifyAll();
  return true;
}

StateVersion PartWriter::written() const {
  const MutexLock lock(mutex_);
  return written_;
}

bool PartWriter::AwaitIdle(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, limit, [&]() RINGMASTER_REQUIRES(mutex_) { return !busy_; });
}

bool PartWriter::Stop(std::chrono::milliseconds limit) {
  thread_.request_stop();
  return AwaitIdle(limit);
}

void PartWriter::Run(const std::stop_token& stop) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!changed_.Wait(mutex_, stop, [&]() RINGMASTER_REQUIRES(mutex_) { return busy_; })) return;
    }
    Result<void> outcome;
    try {
      header_.checksum = Checksum(TrainableState{copy_});
      uses_volume_ = true;
      outcome = folder_.WritePart(world_, header_, copy_, stop, &taken_);
    } catch (const std::exception& error) {
      outcome = Error{ErrorKind::kInternal, error.what()};
    }
    uses_volume_ = false;
    Report(outcome);
    const MutexLock lock(mutex_);
    if (outcome.ok()) written_ = header_.version;
    busy_ = false;
    changed_.NotifyAll();
  }
}

void PartWriter::Report(const Result<void>& outcome) {
  if (outcome.ok() == !fails_) return;
  if (!outcome.ok() && outcome.error().kind == ErrorKind::kCancelled) return;
  fails_ = !outcome.ok();
  if (fails_) {
    LogWarn("Failed to write part of a checkpoint; training continues without new ones",
            {{"reason", outcome.error().message}});
  }
  failing_(fails_ ? outcome.error().message : "");
}

void PartsGate::Expect(const StateVersion& version, int count) {
  const MutexLock lock(mutex_);
  expected_ = version;
  count_ = count;
  complete_ = false;
  changed_.NotifyAll();
}

void PartsGate::Complete(const StateVersion& version) {
  const MutexLock lock(mutex_);
  if (version == expected_) complete_ = true;
  changed_.NotifyAll();
}

void PartsGate::GiveUp() {
  const MutexLock lock(mutex_);
  if (!complete_) expected_ = {};
  changed_.NotifyAll();
}

Result<int> PartsGate::Await(const StateVersion& version, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_, stop,
                [&]() RINGMASTER_REQUIRES(mutex_) { return version != expected_ || complete_; });
  if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "asked to stop"};
  if (version == expected_) return count_;
  return Error{ErrorKind::kUnavailable,
               "not all ranks wrote their parts of the checkpoint of step " +
                   std::to_string(version.step) +
                   " before one of them failed or the world changed"};
}

}  // namespace ringmaster::trainer
