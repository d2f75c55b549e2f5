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
    const std::lock_guard lock(mutex_);
    if (busy_) return false;
  }
  world_ = world;
  header_ = std::move(header);
  copy_.assign(rows.begin(), rows.end());
  const std::lock_guard lock(mutex_);
  busy_ = true;
  changed_.notify_all();
  return true;
}

StateVersion PartWriter::written() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

bool PartWriter::AwaitIdle(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return !busy_; });
}

void PartWriter::Run(const std::stop_token& stop) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return busy_; })) return;
    }
    Result<void> outcome;
    try {
      header_.checksum = Checksum(TrainableState{copy_});
      outcome = folder_.WritePart(world_, header_, copy_, stop);
    } catch (const std::exception& error) {
      outcome = Error{ErrorKind::kInternal, error.what()};
    }
    Report(outcome);
    const std::lock_guard lock(mutex_);
    if (outcome.ok()) written_ = header_.version;
    busy_ = false;
    changed_.notify_all();
  }
}

void PartWriter::Report(const Result<void>& outcome) {
  if (outcome.ok() == !fails_) return;
  if (!outcome.ok() && outcome.error().kind == ErrorKind::kCancelled) return;
  fails_ = !outcome.ok();
  if (fails_) {
    LogWarn("Parts of checkpoints fail; training goes on without new ones",
            {{"reason", outcome.error().message}});
  }
  failing_(fails_ ? outcome.error().message : "");
}

void PartsGate::Expect(const StateVersion& version, int count) {
  const std::lock_guard lock(mutex_);
  expected_ = version;
  count_ = count;
  complete_ = false;
  changed_.notify_all();
}

void PartsGate::Complete(const StateVersion& version) {
  const std::lock_guard lock(mutex_);
  if (version == expected_) complete_ = true;
  changed_.notify_all();
}

void PartsGate::GiveUp() {
  const std::lock_guard lock(mutex_);
  if (!complete_) expected_ = {};
  changed_.notify_all();
}

Result<int> PartsGate::Await(const StateVersion& version, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return version != expected_ || complete_; });
  if (stop.stop_requested()) return Error{ErrorKind::kCancelled, "asked to stop"};
  if (version == expected_) return count_;
  return Error{ErrorKind::kUnavailable,
               "not all ranks wrote their parts of the checkpoint of step " +
                   std::to_string(version.step) +
                   " before the next one was due, or before the world changed"};
}

}  // namespace ringmaster::trainer
