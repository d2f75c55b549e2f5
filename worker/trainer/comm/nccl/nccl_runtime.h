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

// The holders of communicators of this process. When one is about to abort its own, all others must
// know first: an abort may wait for the device, where another communicator's operation, whose peer
// is gone as well, would wait for ever. Thread-safe.
class NcclHolders {
 public:
  using Mark = std::function<void(const Error& reason)>;

  void Join(const void* holder, Mark mark);
  // After it, the mark neither runs nor will run.
  void Leave(const void* holder);
  // Calls all marks but `holder`'s; they return at once.
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
    std::chrono::milliseconds revoke_limit{1'000};  // then it is aborted
    std::function<void(const std::string& what)> end_process = EndProcessThatHangs;
  };

  NcclRuntime(NcclApi nccl, std::unique_ptr<DeviceApi> device, const Options& options);
  // Aborts the parked communicator. REQUIRES: no communicator of it lives.
  ~NcclRuntime();
  NcclRuntime(const NcclRuntime&) = delete;
  NcclRuntime& operator=(const NcclRuntime&) = delete;

  const NcclApi& nccl() const { return nccl_; }
  DeviceApi& device() { return *device_; }
  Staging& staging() { return staging_; }
  NcclHolders& holders() { return holders_; }
  std::chrono::milliseconds revoke_limit() const { return options_.revoke_limit; }
  // Sees to it that letting go of the device does not take longer than the limit.
  AbortLimit& limit() { return limit_; }

  // A communicator is aborted, never destroyed: destroying waits, in some versions, for ranks that
  // are gone. Ends the process if that exceeds the limit.
  void Abort(NcclComm comm);

  // Where NCCL stores a communicator: lives as long as this object, since an abandoned call may
  // still use it.
  NcclComm* MakeSlot();

  // Keeps a communicator for the next world; one that is kept already is aborted.
  void Park(NcclParent parent);
  // Puts back what TakeParked() gave, unless a newer one is kept by now: then it is aborted.
  void ParkAgain(NcclParent parent);
  std::optional<NcclParent> TakeParked();

  // Memory of the device that each communicator made from now on registers, so that reductions in
  // place need no copies of NCCL's own. Never given back: it outlives every communicator, parked
  // ones included. Null: this NCCL cannot, or there is no room; any other memory will do.
  void* MakeRegistered(std::size_t bytes);
  // All of it; none once a rank has failed to register it.
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

// kUnavailable with the call's name and NCCL's words.
Error NcclError(const NcclApi& nccl, const std::string& call, NcclResult result);

}  // namespace ringmaster::trainer
