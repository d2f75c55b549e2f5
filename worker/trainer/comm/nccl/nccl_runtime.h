#pragma once

// The resources that all NCCL communicators of a process share: the library, the device, staging
// memory, the limit on aborts, the last world's communicator for creating the next one, and memory
// that NCCL reduces in place.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/comm/nccl/abort_limit.h"
#include "worker/trainer/comm/nccl/device_api.h"
#include "worker/trainer/comm/nccl/nccl_api.h"
#include "worker/trainer/comm/nccl/nccl_path.h"
#include "worker/trainer/comm/nccl/staging.h"

namespace ringmaster::trainer {

// A communicator that outlived its world.
struct NcclParent {
  NcclComm comm = nullptr;
  std::string name;  // the same on all its ranks, and unique
  int rank = 0;
  int size = 0;
  ParentState state = ParentState::kNone;
};

// The owners of communicators in this process. Before one aborts its own, it must mark all others:
// an abort may wait for the device, where an operation of another communicator whose peer is also
// gone would wait forever. Thread-safe.
class NcclHolders {
 public:
  using Mark = std::function<void(const Error& reason)>;

  void Join(const void* holder, Mark mark);
  // After this returns, the mark is not running and will not run.
  void Leave(const void* holder);
  // Calls the marks of all holders except `holder`. They must return at once.
  void MarkOthers(const void* holder, const Error& reason);

 private:
  Mutex mutex_;
  std::map<const void*, Mark> marks_ RINGMASTER_GUARDED_BY(mutex_);
};

// Thread-safe.
class NcclRuntime {
 public:
  struct Options {
    std::chrono::milliseconds abort_limit = kAbortLimit;
    std::chrono::milliseconds revoke_limit{1'000};  // then the communicator is aborted
    std::function<void(const std::string& what)> end_process = EndProcessThatHangs;
  };

  NcclRuntime(NcclApi nccl, std::unique_ptr<DeviceApi> device, const Options& options);
  // Aborts the parked communicator. REQUIRES: no communicator of this runtime lives.
  ~NcclRuntime();
  NcclRuntime(const NcclRuntime&) = delete;
  NcclRuntime& operator=(const NcclRuntime&) = delete;

  const NcclApi& nccl() const { return nccl_; }
  DeviceApi& device() { return *device_; }
  Staging& staging() { return staging_; }
  NcclHolders& holders() { return holders_; }
  std::chrono::milliseconds revoke_limit() const { return options_.revoke_limit; }
  // Ends the process if releasing the device takes longer than the limit.
  AbortLimit& limit() { return limit_; }

  // Aborts a communicator. It never destroys one: some versions then wait for ranks that
  // are gone. Ends the process if that exceeds the limit.
  void Abort(NcclComm comm);

  // Where NCCL stores a communicator. Valid as long as this object, because an abandoned call may
  // still use it.
  NcclComm* MakeSlot();

  // Keeps a communicator for the next world, and aborts one that is already kept.
  void Park(NcclParent parent);
  // Puts back the result of TakeParked(), or aborts it if a newer one is kept by now.
  void ParkAgain(NcclParent parent);
  std::optional<NcclParent> TakeParked();

  // Device memory that each later communicator registers, so that NCCL makes no copies of its own
  // for reductions in place. Never freed: it must outlive every communicator, also parked ones.
  // Null: this NCCL cannot register memory, or there is no space; any other memory will do.
  void* MakeRegistered(std::size_t bytes);
  // All registered memory; none once a rank has failed to register it.
  std::vector<std::span<std::byte>> registered();
  void StopRegistering();

 private:
  const Options options_;
  const NcclApi nccl_;
  const std::unique_ptr<DeviceApi> device_;
  Staging staging_;
  NcclHolders holders_;
  AbortLimit limit_;
  Mutex mutex_;
  std::deque<NcclComm> slots_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<NcclParent> parked_ RINGMASTER_GUARDED_BY(mutex_);
  std::vector<std::span<std::byte>> registered_ RINGMASTER_GUARDED_BY(mutex_);
};

// kUnavailable with the name of the call and NCCL's message.
Error NcclError(const NcclApi& nccl, const std::string& call, NcclResult result);

}  // namespace ringmaster::trainer
