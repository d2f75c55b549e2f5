#pragma once

// The resources that all NCCL communicators of a process share: the library, the device, staging
// memory, the limit on aborts, the parked communicator of the last world, and memory that NCCL
// reduces in place.

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

// A communicator that is kept after its world has ended.
struct NcclParent {
  NcclComm comm = nullptr;
  std::string name;  // unique; the same on all ranks of the communicator
  int rank = 0;
  int size = 0;
  ParentState state = ParentState::kNone;
};

// The owners of communicators in this process. Before an owner aborts its communicator, it must
// mark the others, so that they end their operations. An abort may wait for the device, on which an
// operation whose peer is lost would never end. Thread-safe.
class NcclHolders {
 public:
  using Mark = std::function<void(const Error& reason)>;

  void Join(const void* holder, Mark mark);
  // When Leave() returns, the holder's mark is not running and will not be called again.
  void Leave(const void* holder);
  // Calls the marks of all holders except `holder`. A mark must return immediately.
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
    std::chrono::milliseconds revoke_limit{1'000};  // abort if revoking takes longer
    std::function<void(const std::string& what)> end_process = EndProcessThatHangs;
  };

  NcclRuntime(NcclApi nccl, std::unique_ptr<DeviceApi> device, const Options& options);
  // Aborts the parked communicator. REQUIRES: all communicators of this runtime are destroyed.
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

  // Aborts a communicator instead of destroying it, because in some versions of NCCL destroying it
  // waits for ranks that are gone. Ends the process if the abort exceeds the limit.
  void Abort(NcclComm comm);

  // Returns memory in which NCCL stores a communicator's handle. The memory is valid as long as
  // this object exists, because an abandoned call may still use it.
  NcclComm* MakeSlot();

  // Keeps a communicator for the next world. Aborts the previously parked one, if any.
  void Park(NcclParent parent);
  // Parks the result of TakeParked() again, or aborts it if a newer communicator is parked by now.
  void ParkAgain(NcclParent parent);
  std::optional<NcclParent> TakeParked();

  // Returns device memory that each later communicator registers, so that NCCL reduces it in place
  // without copies. It is never freed, because it must outlive every communicator, including parked
  // ones. Returns null if this NCCL cannot register memory, or no memory is left.
  void* MakeRegistered(std::size_t bytes);
  // Returns the memory to register; empty once registering it has failed.
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

// Returns kUnavailable with the name of the call and NCCL's message.
Error NcclError(const NcclApi& nccl, const std::string& call, NcclResult result);

}  // namespace ringmaster::trainer
