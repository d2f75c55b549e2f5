#include "worker/trainer/comm/nccl/nccl_runtime.h"

#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {

void NcclHolders::Join(const void* holder, Mark mark) {
  const MutexLock lock(mutex_);
  marks_[holder] = std::move(mark);
}

void NcclHolders::Leave(const void* holder) {
  const MutexLock lock(mutex_);
  marks_.erase(holder);
}

void NcclHolders::MarkOthers(const void* holder, const Error& reason) {
  const MutexLock lock(mutex_);
  for (const auto& [other, mark] : marks_) {
    if (other != holder) mark(reason);
  }
}

NcclRuntime::NcclRuntime(NcclApi nccl, std::unique_ptr<DeviceApi> device, const Options& options)
    : options_(options),
      nccl_(std::move(nccl)),
      device_(std::move(device)),
      staging_(*device_),
      limit_(options.abort_limit, options.end_process) {}

NcclRuntime::~NcclRuntime() {
  if (const std::optional<NcclParent> parent = TakeParked()) Abort(parent->comm);
}

void NcclRuntime::Abort(NcclComm comm) {
  const AbortLimit::Watch watch(limit_, "aborting the NCCL communicator");
  // Ignore the result, because the communicator no longer exists in either case.
  static_cast<void>(nccl_.comm_abort(comm));
}

NcclComm* NcclRuntime::MakeSlot() {
  const MutexLock lock(mutex_);
  return &slots_.emplace_back(nullptr);
}

void NcclRuntime::Park(NcclParent parent) {
  std::optional<NcclParent> before;
  {
    const MutexLock lock(mutex_);
    before = std::exchange(parked_, std::move(parent));
  }
  if (before) Abort(before->comm);
}

void NcclRuntime::ParkAgain(NcclParent parent) {
  {
    const MutexLock lock(mutex_);
    if (!parked_) {
      parked_ = std::move(parent);
      return;
    }
  }
  Abort(parent.comm);
}

std::optional<NcclParent> NcclRuntime::TakeParked() {
  const MutexLock lock(mutex_);
  return std::exchange(parked_, std::nullopt);
}

void* NcclRuntime::MakeRegistered(std::size_t bytes) {
  if (!nccl_.memory_alloc || !nccl_.comm_register) return nullptr;
  void* memory = nullptr;
  const NcclResult made = nccl_.memory_alloc(&memory, bytes);
  if (made != NcclResult::kSuccess) {
    LogWarn("Failed to allocate memory with NCCL",
            {{"reason", NcclError(nccl_, "ncclMemAlloc", made).message}});
    return nullptr;
  }
  const MutexLock lock(mutex_);
  registered_.emplace_back(static_cast<std::byte*>(memory), bytes);
  return memory;
}

std::vector<std::span<std::byte>> NcclRuntime::registered() {
  const MutexLock lock(mutex_);
  return registered_;
}

void NcclRuntime::StopRegistering() {
  const MutexLock lock(mutex_);
  registered_.clear();
}

Error NcclError(const NcclApi& nccl, const std::string& call, NcclResult result) {
  return {ErrorKind::kUnavailable, call + ": NCCL reported \"" + nccl.error_string(result) + "\""};
}

}  // namespace ringmaster::trainer
