#pragma once

// Drives one NCCL communicator, with a queue of operations and one thread. The thread makes all
// NCCL calls, launches operations on a separate stream and watches them. It polls the device and
// never blocks on it, so a collective with a lost peer cannot block it. Only this thread revokes or
// aborts, so an operation that this rank abandoned never counts as completed. An operation that a
// peer abandoned may look completed: the peer's kernels then stop waiting for data and send
// whatever their buffers contain, and the kernels here end normally (NCCL's prims_simple.h and
// prims_ll.h: the flag ends the wait, not the send). Confirmations detect this: they follow the
// confirmed operations on the stream, and the device adds this rank's contribution unless the host
// has set a flag. The host sets it before it revokes or aborts. Private to nccl_communicator.cc.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/nccl/event_pool.h"
#include "worker/trainer/comm/nccl/nccl_forming.h"
#include "worker/trainer/comm/nccl/nccl_runtime.h"
#include "worker/trainer/comm/nccl/staging.h"

namespace ringmaster::trainer {

// An operation's host memory, and the device memory that is used instead.
struct NcclStaged {
  StagingPiece piece;
  std::span<std::byte> host;
  bool in = false;   // copied to the device before the operation
  bool out = false;  // copied back after the operation
};

struct NcclOperation {
  using Launch = std::function<NcclResult(const NcclApi& nccl, NcclComm comm, NcclStream stream)>;

  control::CollectiveKind kind = control::CollectiveKind::kNone;
  const char* name() const { return control::kCollectiveNames[static_cast<std::size_t>(kind)]; }
  WorkHandle work{};
  Launch launch{};
  DeviceEvent ready = nullptr;  // completes when the data is computed; null: already computed
  std::vector<NcclStaged> staged{};
  // For a confirmation: `part` is this rank's contribution, which the device writes into the only
  // staged piece, unless the rank has given up by then. `sound` returns whether the received sum
  // includes every rank's contribution.
  uint64_t part = 0;
  std::function<bool()> sound{};
  DeviceEvent done = nullptr;  // set by the engine at the launch
  bool begun = false;
};

// Enqueue(), Break() and Stop() are thread-safe. One thread runs Serve() from its start to its end.
class NcclEngine {
 public:
  NcclEngine(std::shared_ptr<NcclRuntime> runtime, const World& world);

  const World& world() const { return world_; }
  NcclRuntime& runtime() { return *runtime_; }
  const std::atomic<bool>& ended() const { return ended_; }

  void Serve(Deadline connect_deadline);

  // Queues the operation. If the engine is broken, the operation fails at once with that error.
  void Enqueue(NcclOperation operation);

  // Keeps only the first error. Starts no further operation; the thread ends running operations.
  void Break(const Error& error);
  std::optional<Error> broken();

  int LostPeer() const { return lost_peer_; }

  // Ends all operations. Returns true if the thread is about to end, false if it is connecting.
  bool Stop();

  EventPool& events() { return events_; }

 private:
  static constexpr std::size_t kMostLaunched = 32;  // more could fill the device's queue and block

  void Connect(Deadline deadline);
  Result<void> MakeMark();
  void ComesTo(control::ConnectStage stage);
  void ReportCounts(bool launching);
  bool AwaitWork();
  void Advance();
  bool Launch();
  Result<void> PutOnStream(NcclOperation& operation);
  bool FirstHasBegun();
  bool CompleteFirst();
  void CheckLaunched();
  void Quiesce();
  ParentState StopLaunched();
  void AwaitComputing();
  bool StreamEmpties(Deadline deadline);
  bool Await(DeviceEvent event, Deadline deadline);
  void Finish();
  void Release(NcclOperation& operation);
  void Pause();
  NcclPatience Patience(Deadline deadline, bool even_if_broken);

  // Constant after construction.
  const std::shared_ptr<NcclRuntime> runtime_;
  const World world_;

  // Thread-safe by itself.
  EventPool events_;

  // Used only by the thread.
  NcclComm comm_ = nullptr;
  DeviceStream stream_ = nullptr;
  DeviceEvent last_ = nullptr;  // recorded after all work on the stream
  StagingPiece mark_;           // its host memory tells the device that this rank gave up
  std::deque<NcclOperation> launched_;
  control::CollectiveCounts counts_{.launched = 0, .begun = 0};
  ParentState state_ = ParentState::kHealthy;
  bool quiesced_ = false;
  std::chrono::steady_clock::time_point moved_{};  // time of the last start or end of an operation

  std::atomic<int> lost_peer_ = -1;
  std::atomic<bool> ended_ = false;

  Mutex mutex_;
  CondVar wake_;
  std::deque<NcclOperation> queue_ RINGMASTER_GUARDED_BY(mutex_);
  std::optional<Error> broken_ RINGMASTER_GUARDED_BY(mutex_);  // set once
  // The device reads this number, which is not 0 after Break(). Null: the device does not use it.
  uint32_t* gave_up_ RINGMASTER_GUARDED_BY(mutex_) = nullptr;
  bool connecting_ RINGMASTER_GUARDED_BY(mutex_) = true;
  bool stopping_ RINGMASTER_GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::trainer
