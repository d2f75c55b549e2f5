#pragma once

// An in-memory NCCL and device for one rank. Operations complete at once, or are held until the
// test releases, revokes or aborts them. Copies and operations run when they are launched; only
// their completion is held. The other ranks contribute the same values as this rank.
//
// The fake is as strict as NCCL (2.28.9, 2.30.7; src/init.cc, src/group.cc). Shrinking and growing
// return success and continue during the next polls. A shrink belongs to the parent, which stores
// the child at the end. A grow belongs to the child, which reads the parent until then. If the
// parent is aborted meanwhile, a shrunk child ends with it and a growing child crashes; the abort
// of a growing child hangs unless the parent was revoked. A failed communicator cannot create
// another one. Revoking during a launch and using an aborted communicator crash; a communicator
// that is still being created rejects calls.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/patience.h"
#include "worker/trainer/comm/nccl/nccl_runtime.h"

namespace ringmaster::trainer {

// The time limit for operations that must be fast.
inline constexpr std::chrono::seconds kSoon{20};

// Thread-safe.
class FakeNccl {
 public:
  // Settings that tests change.
  std::atomic<int> version = 23007;
  std::atomic<bool> hold_init = false;
  std::atomic<bool> hold_making = false;    // shrinking and growing do not complete
  std::atomic<bool> hold_launches = false;  // operations are not put on the stream yet
  std::atomic<bool> hold_operations = false;
  std::atomic<bool> hang_aborts = false;
  std::atomic<bool> hold_computing = false;     // work on the caller's stream does not complete
  std::atomic<bool> device_broken = false;      // CUDA keeps an error, which all calls return
  std::atomic<bool> revoke_frees = true;        // a revoke ends pending operations, as NCCL does
  std::atomic<bool> peer_gave_up = false;       // operations succeed with garbage
  std::atomic<bool> peer_gave_nothing = false;  // sums lack the values of one rank
  std::atomic<NcclResult> init_result = NcclResult::kSuccess;
  std::atomic<NcclResult> async_error = NcclResult::kSuccess;
  std::atomic<NcclResult> launch_result = NcclResult::kSuccess;
  std::atomic<NcclResult> revoke_result = NcclResult::kSuccess;
  std::atomic<NcclResult> shrink_result = NcclResult::kSuccess;
  std::atomic<NcclResult> late_result =
      NcclResult::kSuccess;  // result of shrinking and growing, once they complete
  std::atomic<NcclResult> memory_result = NcclResult::kSuccess;
  std::atomic<NcclResult> register_result = NcclResult::kSuccess;
  std::function<void()> on_abort;      // called before an abort returns
  std::atomic<int> looks_at_init = 0;  // number of polls of an init that is held

  // Returns only the functions that exist in `version`.
  NcclApi Api();

  // Returns all calls: "init 0/3", "abort", "revoke", "shrink 1 [2,]", "grow -1/3 id", …
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  bool Called(const std::string& call) {
    const std::vector<std::string> all = calls();
    return std::ranges::find(all, call) != all.end();
  }
  // Returns the number of communicators that were created and not aborted.
  int alive() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(alive_.size());
  }
  bool held() const { return hold_operations; }
  int ranks() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(ranks_);
  }
  // Returns the inputs of integer sums.
  std::vector<uint64_t> summed() {
    const std::lock_guard lock(mutex_);
    return summed_;
  }

 private:
  // A child communicator that a thread of NCCL is creating.
  struct Making {
    NcclComm parent;  // null for a joiner, which has no parent
    NcclComm child;
    NcclComm* slot;
    bool grows;
    int looks = 3;
    NcclComm reports() const { return grows ? child : parent; }
  };

  NcclResult Note(const std::string& call, NcclResult result = NcclResult::kSuccess) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    return result;
  }
  NcclComm New(int ranks) {
    ranks_ = static_cast<uint64_t>(ranks);
    NcclComm const made = reinterpret_cast<NcclComm>(static_cast<std::uintptr_t>(++made_) * 16);
    alive_.insert(made);
    return made;
  }
  NcclResult Make(NcclComm* made, int ranks) {
    const std::lock_guard lock(mutex_);
    *made = New(ranks);
    return hold_init ? NcclResult::kInProgress : init_result.load();
  }
  NcclResult Descend(bool grows, NcclComm parent, NcclComm* slot, int ranks);
  NcclResult StateOf(NcclComm comm);
  // Records the call, and checks that `comm` can be used.
  NcclResult Use(NcclComm comm, const std::string& call, NcclResult result);
  void SumOfAll(const uint64_t* from, std::size_t count, void* to) {
    const std::lock_guard lock(mutex_);
    summed_.insert(summed_.end(), from, from + count);
    const uint64_t given = ranks_ - (peer_gave_nothing ? 1 : 0);
    for (std::size_t i = 0; i < count; ++i) static_cast<uint64_t*>(to)[i] = from[i] * given;
  }
  NcclResult Abort(NcclComm comm);
  NcclResult Revoke(NcclComm comm);
  NcclResult Register(NcclComm comm, const void* memory, std::size_t bytes);

  std::mutex mutex_;
  std::vector<std::string> calls_;
  std::vector<uint64_t> summed_;
  uint64_t ranks_ = 1;  // size of the newest communicator
  std::set<NcclComm> alive_;
  std::set<NcclComm> failed_;  // communicators whose creation failed
  std::set<NcclComm> revoked_;
  std::set<NcclComm> launching_;
  std::optional<Making> making_;
  int made_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

inline NcclResult FakeNccl::Register(NcclComm comm, const void* memory, std::size_t bytes) {
  Note("register " + std::to_string(bytes));
  const std::lock_guard lock(mutex_);
  // A real program would crash if the communicator is gone or the memory is not the device's.
  const bool known =
      std::ranges::any_of(memory_, [memory](const auto& piece) { return piece.get() == memory; });
  if (!alive_.contains(comm) || !known) std::abort();
  return register_result;
}

inline NcclResult FakeNccl::Descend(bool grows, NcclComm parent, NcclComm* slot, int ranks) {
  const std::lock_guard lock(mutex_);
  if (parent != nullptr && !alive_.contains(parent)) std::abort();
  if (parent != nullptr && async_error.load() != NcclResult::kSuccess) return async_error;
  making_ = {.parent = parent, .child = New(ranks), .slot = slot, .grows = grows};
  *slot = grows ? making_->child : nullptr;
  return NcclResult::kSuccess;
}

inline NcclResult FakeNccl::StateOf(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  if (!alive_.contains(comm)) std::abort();
  if (hold_init) ++looks_at_init;
  if (hold_init || (hold_launches && launching_.contains(comm))) return NcclResult::kInProgress;
  launching_.erase(comm);
  if (making_ && making_->reports() == comm) {
    if (hold_making || --making_->looks > 0) return NcclResult::kInProgress;
    std::atomic_ref<NcclComm>(*making_->slot).store(making_->child);
    if (late_result.load() != NcclResult::kSuccess) failed_.insert(making_->child);
    making_.reset();
    if (late_result.load() != NcclResult::kSuccess) return late_result;
  }
  if (failed_.contains(comm)) return NcclResult::kInternalError;
  return async_error.load() != NcclResult::kSuccess ? async_error.load() : init_result.load();
}

inline NcclResult FakeNccl::Use(NcclComm comm, const std::string& call, NcclResult result) {
  const std::lock_guard lock(mutex_);
  if (!alive_.contains(comm)) std::abort();
  calls_.push_back(call);
  const bool unfinished = making_ && (making_->child == comm || making_->reports() == comm);
  if (unfinished || failed_.contains(comm)) return NcclResult::kInvalidArgument;
  if (!hold_launches) return result;
  launching_.insert(comm);
  return NcclResult::kInProgress;
}

inline NcclResult FakeNccl::Abort(NcclComm comm) {
  Note("abort");
  if (on_abort) on_abort();
  while (hang_aborts) std::this_thread::yield();
  hold_operations = false;
  const std::lock_guard lock(mutex_);
  if (making_ && making_->parent == comm) {
    if (making_->grows) std::abort();
    failed_.insert(making_->child);
    std::atomic_ref<NcclComm>(*making_->slot).store(making_->child);
    making_.reset();
  }
  if (making_ && making_->child == comm) {
    if (making_->parent != nullptr && !revoked_.contains(making_->parent)) std::abort();
    making_.reset();
  }
  launching_.erase(comm);
  // A real program would crash on a second abort, or on an abort of an unknown communicator.
  if (alive_.erase(comm) != 1) std::abort();
  return NcclResult::kSuccess;
}

inline NcclResult FakeNccl::Revoke(NcclComm comm) {
  Note("revoke");
  const std::lock_guard lock(mutex_);
  if (!alive_.contains(comm) || launching_.contains(comm)) std::abort();
  if (!revoked_.insert(comm).second) return NcclResult::kInvalidArgument;
  if (revoke_result.load() == NcclResult::kSuccess && revoke_frees) hold_operations = false;
  return revoke_result;
}

inline NcclApi FakeNccl::Api() {
  NcclApi api;
  api.version = version;
  api.error_string = [](NcclResult) { return "a fake error"; };
  api.get_unique_id = [](NcclUniqueId* id) {
    id->bytes[0] = 7;
    return NcclResult::kSuccess;
  };
  api.comm_init = [this](NcclComm* made, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
    if (id.bytes[0] != 7 || config->blocking != 0) return NcclResult::kInvalidArgument;
    Note("init " + std::to_string(rank) + "/" + std::to_string(ranks));
    return Make(made, ranks);
  };
  api.comm_abort = [this](NcclComm comm) { return Abort(comm); };
  api.comm_async_error = [this](NcclComm comm, NcclResult* error) {
    *error = StateOf(comm);
    return NcclResult::kSuccess;
  };
  // Adds one to every float, so that a test can see that the result was on the device.
  api.all_reduce = [this](const void* from, void* to, std::size_t count, NcclType type, NcclOp,
                          NcclComm comm, NcclStream) {
    if (type == NcclType::kFloat32) {
      for (std::size_t i = 0; i < count; ++i) {
        static_cast<float*>(to)[i] = static_cast<const float*>(from)[i] + 1;
      }
    }
    if (type == NcclType::kUint64) SumOfAll(static_cast<const uint64_t*>(from), count, to);
    if (peer_gave_up) std::memset(to, 0x41, count * (type == NcclType::kUint8 ? 1 : 4));
    return Use(comm, "all_reduce", launch_result);
  };
  api.reduce_scatter = [this](const void* from, void* to, std::size_t count, NcclType, NcclOp,
                              NcclComm comm, NcclStream) {
    std::memcpy(to, from, count * sizeof(float));
    return Use(comm, "reduce_scatter", launch_result);
  };
  api.all_gather = [this](const void* from, void* to, std::size_t bytes, NcclType, NcclComm comm,
                          NcclStream) {
    std::memcpy(to, from, bytes);
    return Use(comm, "all_gather", launch_result);
  };
  api.broadcast = [this](const void*, void*, std::size_t, NcclType, int root, NcclComm comm,
                         NcclStream) {
    return Use(comm, "broadcast " + std::to_string(root), launch_result);
  };
  api.reduce = [this](const void*, void*, std::size_t, NcclType, NcclOp, int root, NcclComm comm,
                      NcclStream) {
    return Use(comm, "reduce " + std::to_string(root), launch_result);
  };
  api.send = [this](const void*, std::size_t bytes, NcclType, int peer, NcclComm, NcclStream) {
    return Note("send " + std::to_string(bytes) + " to " + std::to_string(peer), launch_result);
  };
  api.receive = [this](void*, std::size_t bytes, NcclType, int peer, NcclComm comm, NcclStream) {
    return Use(comm, "receive " + std::to_string(bytes) + " from " + std::to_string(peer),
               NcclResult::kSuccess);
  };
  api.group_start = [this] { return Note("group_start"); };
  api.group_end = [this] { return Note("group_end"); };
  if (api.version >= kNcclShrinkSince) {
    api.comm_shrink = [this](NcclComm parent, int* excluded, int count, NcclComm* made, NcclConfig*,
                             int mode) {
      std::string list;
      for (int i = 0; i < count; ++i) list += std::to_string(excluded[i]) + ",";
      Note("shrink " + std::to_string(mode) + " [" + list + "]");
      if (shrink_result.load() != NcclResult::kSuccess) return shrink_result.load();
      return Descend(/*grows=*/false, parent, made, ranks() - count);
    };
  }
  if (api.version >= kNcclRevokeSince) {
    api.comm_revoke = [this](NcclComm comm, int) { return Revoke(comm); };
  }
  if (api.version >= kNcclGrowSince) {
    api.comm_unique_id = [this](NcclComm, NcclUniqueId* id) {
      id->bytes[0] = 9;
      return Note("grow id");
    };
    api.comm_grow = [this](NcclComm parent, int ranks, const NcclUniqueId* id, int rank,
                           NcclComm* made, NcclConfig*) {
      if (id != nullptr && id->bytes[0] != 9) return NcclResult::kInvalidArgument;
      Note("grow " + std::to_string(rank) + "/" + std::to_string(ranks) +
           (parent == nullptr ? " joins" : "") + (id == nullptr ? "" : " id"));
      return Descend(/*grows=*/true, parent, made, ranks);
    };
  }
  if (api.version >= kNcclRegisterSince) {
    api.memory_alloc = [this](void** memory, std::size_t bytes) {
      const std::lock_guard lock(mutex_);
      if (memory_result.load() != NcclResult::kSuccess) return memory_result.load();
      *memory = memory_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
      return NcclResult::kSuccess;
    };
    api.comm_register = [this](NcclComm comm, void* memory, std::size_t bytes, void**) {
      return Register(comm, memory, bytes);
    };
  }
  return api;
}

// `nccl` must outlive the device. Memory from MakeMemory() or passed to Own() is on the device.
class FakeDevice final : public DeviceApi {
 public:
  explicit FakeDevice(FakeNccl& nccl) : nccl_(nccl) {}

  void Own(const void* memory) {
    const std::lock_guard lock(mutex_);
    owned_.insert(memory);
  }
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  // Returns the number of existing events and streams.
  int alive() const { return alive_; }
  // Returns how often a caller asked whether the held work has completed.
  int looks_at_computing() const { return looks_at_computing_; }

  // cudaSetDevice() does not return an error that CUDA keeps.
  Result<void> Use() override { return {}; }
  DeviceStream ComputingStream() override { return &computing_; }
  Result<DeviceStream> MakeStream() override { return Made(); }
  void DropStream(DeviceStream stream) override { Drop(stream); }
  Result<DeviceEvent> MakeEvent() override { return Made(); }
  void DropEvent(DeviceEvent event) override { Drop(event); }
  Result<void> Record(DeviceEvent event, DeviceStream stream) override {
    if (nccl_.device_broken) return Kept("cudaEventRecord");
    const bool computing = stream == &computing_;
    *static_cast<std::atomic<int>*>(event) = computing ? kOfComputing : kOfOperations;
    return Note(computing ? "record computing" : "record own");
  }
  Result<void> Follow(DeviceStream, DeviceEvent) override {
    return nccl_.device_broken ? Kept("cudaStreamWaitEvent") : Note("follow");
  }
  Result<bool> Done(DeviceEvent event) override {
    if (nccl_.device_broken) return Kept("cudaEventQuery");
    const int of = *static_cast<std::atomic<int>*>(event);
    if (of == kOfOperations) return !nccl_.held();
    if (of == kOfNothing || !nccl_.hold_computing) return true;
    ++looks_at_computing_;
    return false;
  }
  bool Holds(const void* memory) override {
    const std::lock_guard lock(mutex_);
    return owned_.contains(memory);
  }
  Result<void*> MakeMemory(std::size_t bytes) override { return Memory(bytes); }
  Result<void*> MakePinned(std::size_t bytes) override { return Memory(bytes); }
  Result<void> Copy(void* to, const void* from, std::size_t bytes, DeviceStream) override {
    if (nccl_.device_broken) return Kept("cudaMemcpyAsync");
    std::memcpy(to, from, bytes);
    return {};
  }
  Result<void> Contribute(uint64_t* to, uint64_t part, const uint32_t* gave_up,
                          DeviceStream) override {
    if (nccl_.device_broken) return Kept("cudaLaunchKernel");
    *to = std::atomic_ref<uint32_t>(const_cast<uint32_t&>(*gave_up)).load() == 0 ? part : 0;
    return {};
  }

 private:
  static Error Kept(const std::string& call) {
    return {ErrorKind::kUnavailable,
            call + ": CUDA reported \"uncorrectable ECC error encountered\""};
  }
  Result<void*> Made() {
    if (nccl_.device_broken) return Kept("cudaEventCreate");
    ++alive_;
    return static_cast<void*>(new std::atomic<int>(kOfNothing));
  }
  void Drop(void* made) {
    --alive_;
    delete static_cast<std::atomic<int>*>(made);
  }
  Result<void*> Memory(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    return static_cast<void*>(memory_.back().get());
  }
  Result<void> Note(const char* call) {
    const std::lock_guard lock(mutex_);
    calls_.emplace_back(call);
    return {};
  }

  // Events map to the work whose end they mark. An event without work is complete.
  static constexpr int kOfNothing = 0;
  static constexpr int kOfComputing = 1;
  static constexpr int kOfOperations = 2;

  FakeNccl& nccl_;
  int computing_ = 0;
  std::atomic<int> looks_at_computing_ = 0;
  std::atomic<int> alive_ = 0;
  std::mutex mutex_;
  std::set<const void*> owned_;
  std::vector<std::string> calls_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

// The process of one rank: NCCL, device and runtime.
struct FakeRank {
  explicit FakeRank(int version = 23007) {
    nccl.version = version;
    auto owned = std::make_unique<FakeDevice>(nccl);
    device = owned.get();
    runtime = std::make_shared<NcclRuntime>(
        nccl.Api(), std::move(owned),
        NcclRuntime::Options{.abort_limit = std::chrono::milliseconds(200) * Patience(),
                             .revoke_limit = std::chrono::milliseconds(100) * Patience(),
                             .end_process = [this](const std::string& what) {
                               const std::lock_guard lock(mutex);
                               ended_for = what;
                               nccl.hang_aborts = false;
                               ended.notify_all();
                             }});
  }

  FakeNccl nccl;
  FakeDevice* device = nullptr;  // owned by `runtime`
  std::mutex mutex;
  std::condition_variable ended;
  std::string ended_for;  // guarded by mutex
  std::shared_ptr<NcclRuntime> runtime;
};

}  // namespace ringmaster::trainer
