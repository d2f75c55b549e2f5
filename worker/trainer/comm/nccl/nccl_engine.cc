#include "worker/trainer/comm/nccl/nccl_engine.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace ringmaster::trainer {
namespace {

using std::chrono::steady_clock;

// The engine polls continuously for kEager after the last start or end of an operation, which
// covers the reductions of a step. Later it polls every kBetweenLooks, which costs almost nothing.
constexpr std::chrono::microseconds kEager{500};
constexpr std::chrono::microseconds kBetweenLooks{50};
// The limit of AwaitComputing(), much longer than the forward and backward pass of a step take.
constexpr std::chrono::seconds kComputingLimit{30};

std::string Doing(const char* name) {
  return std::string("reducing with the other ranks (") + name + ")";
}

Error Ended() { return {ErrorKind::kCancelled, "the communicator ended"}; }

}  // namespace

NcclEngine::NcclEngine(std::shared_ptr<NcclRuntime> runtime, const World& world)
    : runtime_(std::move(runtime)), world_(world), events_(runtime_->device()) {}

void NcclEngine::Serve(Deadline connect_deadline) {
  runtime_->holders().Join(this, [this](const Error& reason) { Break(reason); });
  Connect(connect_deadline);
  {
    const MutexLock lock(mutex_);
    connecting_ = false;
  }
  while (AwaitWork()) {
    if (broken()) {
      Quiesce();
    } else {
      Advance();
    }
  }
  Finish();
  ended_ = true;
}

void NcclEngine::Connect(Deadline deadline) {
  const std::string connecting =
      "connecting rank " + std::to_string(world_.rank) + " of " + std::to_string(world_.size);
  DeviceApi& device = runtime_->device();
  if (Result<void> used = device.Use(); !used.ok()) {
    return Break(used.error().WithContext(connecting));
  }
  const Result<DeviceStream> stream = device.MakeStream();
  if (!stream.ok()) return Break(stream.error().WithContext(connecting));
  stream_ = *stream;
  const Result<DeviceEvent> last = events_.Take();
  if (!last.ok()) return Break(last.error().WithContext(connecting));
  last_ = *last;
  if (Result<void> made = MakeMark(); !made.ok())
    return Break(made.error().WithContext(connecting));
  const Result<NcclComm> formed =
      FormCommunicator(*runtime_, world_, Patience(deadline, false),
                       {.missing = [this](int rank) { lost_peer_ = rank; },
                        .comes_to = [this](control::ConnectStage stage) { ComesTo(stage); }});
  if (!formed.ok()) return Break(formed.error().WithContext(connecting));
  comm_ = *formed;
  ComesTo(control::ConnectStage::kReady);
}

Result<void> NcclEngine::MakeMark() {
  const Result<StagingPiece> piece = runtime_->staging().Take(sizeof(uint32_t));
  if (!piece.ok()) return piece.error();
  mark_ = *piece;
  {
    const MutexLock lock(mutex_);
    gave_up_ = static_cast<uint32_t*>(mark_.pinned);
    std::atomic_ref<uint32_t>(*gave_up_).store(broken_ ? 1 : 0);
  }
  // The driver loads a kernel at its first launch, and may then wait for the device. Launch this
  // kernel now, while nothing on the stream waits for another rank.
  return runtime_->device().Contribute(static_cast<uint64_t*>(mark_.device), 0,
                                       static_cast<uint32_t*>(mark_.pinned), stream_);
}

// Reports the stage unless the world has ended. Holds the lock, because a report after Break()
// would concern the next world. Other ranks wait for rank 0 only while rank 0 makes the plan.
void NcclEngine::ComesTo(control::ConnectStage stage) {
  const MutexLock lock(mutex_);
  if (broken_) return;
  const bool for_plan = stage == control::ConnectStage::kMeet && world_.rank != 0;
  if (world_.waits_for) world_.waits_for(for_plan ? 0 : -1);
  if (world_.comes_to) world_.comes_to(stage);
}

// Waits for work. Returns false if the thread should end.
bool NcclEngine::AwaitWork() {
  MutexLock lock(mutex_);
  wake_.Wait(mutex_, [&]() RINGMASTER_REQUIRES(mutex_) {
    return stopping_ || (broken_ ? !quiesced_ : !queue_.empty() || !launched_.empty());
  });
  return !stopping_;
}

void NcclEngine::Advance() {
  const bool completed = CompleteFirst();
  const bool started = Launch();
  if (completed || started) {
    moved_ = steady_clock::now();
    return;
  }
  CheckLaunched();
  Pause();
}

// Launches the queue's next operation on the stream. Returns whether it launched an operation.
bool NcclEngine::Launch() {
  if (launched_.size() >= kMostLaunched) return false;
  {
    const MutexLock lock(mutex_);
    if (broken_ || queue_.empty()) return false;
    // Even if the launch fails halfway, move the operation, so that it ends with the others.
    launched_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  NcclOperation& operation = launched_.back();
  const Result<void> put = PutOnStream(operation);
  if (!put.ok()) Break(put.error().WithContext(Doing(operation.name())));
  return true;
}

Result<void> NcclEngine::PutOnStream(NcclOperation& operation) {
  DeviceApi& device = runtime_->device();
  const Result<DeviceEvent> done = events_.Take();
  if (!done.ok()) return done.error();
  operation.done = *done;
  if (operation.ready != nullptr) {
    if (Result<void> after = device.Follow(stream_, operation.ready); !after.ok()) return after;
  }
  for (const NcclStaged& staged : operation.staged) {
    if (!staged.in) continue;
    const Result<void> copied =
        device.Copy(staged.piece.device, staged.piece.pinned, staged.host.size(), stream_);
    if (!copied.ok()) return copied;
  }
  if (operation.part != 0) {
    const Result<void> contributed =
        device.Contribute(static_cast<uint64_t*>(operation.staged.front().piece.device),
                          operation.part, static_cast<uint32_t*>(mark_.pinned), stream_);
    if (!contributed.ok()) return contributed;
  }
  const NcclResult first = operation.launch(runtime_->nccl(), comm_, stream_);
  ++counts_.launched;
  ReportCounts(/*launching=*/first == NcclResult::kInProgress);
  const Result<void> settled = Settle(runtime_->nccl(), comm_, first, operation.name(),
                                      Patience(operation.work->deadline(), false));
  if (!settled.ok()) return settled;
  ReportCounts(/*launching=*/false);
  for (const NcclStaged& staged : operation.staged) {
    if (!staged.out) continue;
    const Result<void> copied =
        device.Copy(staged.piece.pinned, staged.piece.device, staged.host.size(), stream_);
    if (!copied.ok()) return copied;
  }
  return device.Record(operation.done, stream_);
}

// Returns whether the oldest operation has begun: it begins when its data is computed.
bool NcclEngine::FirstHasBegun() {
  NcclOperation& first = launched_.front();
  if (first.begun) return true;
  const Result<bool> computed =
      first.ready == nullptr ? Result<bool>(true) : runtime_->device().Done(first.ready);
  if (!computed.ok()) Break(computed.error().WithContext(Doing(first.name())));
  first.begun = computed.ok() && *computed;
  if (first.begun) {
    first.work->Begin();
    ++counts_.begun;
    counts_.kind = first.kind;
    ReportCounts(/*launching=*/false);
  }
  return first.begun;
}

// Reports the counts. While `launching`, the number of operations that have begun is unknown.
void NcclEngine::ReportCounts(bool launching) {
  if (!world_.counts) return;
  control::CollectiveCounts reported = counts_;
  if (launching) reported.begun = -1;
  world_.counts(reported);
}

// Completes the oldest operation if it has succeeded. Returns whether it completed an operation.
bool NcclEngine::CompleteFirst() {
  if (launched_.empty() || !FirstHasBegun()) return false;
  NcclOperation& first = launched_.front();
  const Result<bool> done = runtime_->device().Done(first.done);
  if (!done.ok()) {
    Break(done.error().WithContext(Doing(first.name())));
    return false;
  }
  if (!*done) return false;
  // An operation that ended because of an error also looks complete.
  const NcclResult state = StateOf(runtime_->nccl(), comm_);
  if (state == NcclResult::kInProgress) return false;
  if (state != NcclResult::kSuccess) {
    Break(NcclError(runtime_->nccl(), first.name(), state).WithContext(Doing(first.name())));
    return false;
  }
  for (const NcclStaged& staged : first.staged) {
    if (staged.out) std::memcpy(staged.host.data(), staged.piece.pinned, staged.host.size());
  }
  if (first.sound && !first.sound()) {
    Break(Error{ErrorKind::kUnavailable,
                "another rank aborted an earlier operation, so the received data is invalid"}
              .WithContext(Doing(first.name())));
    return false;
  }
  const WorkHandle work = first.work;
  Release(first);
  launched_.pop_front();
  work->Complete({});
  return true;
}

// Breaks the engine if the running operations can no longer succeed.
void NcclEngine::CheckLaunched() {
  if (launched_.empty()) return;
  const auto now = steady_clock::now();
  for (const NcclOperation& operation : launched_) {
    if (now < operation.work->deadline()) continue;
    const Error late{ErrorKind::kTimeout, "the other ranks did not participate in time"};
    return Break(late.WithContext(Doing(operation.name())));
  }
  const NcclResult state = StateOf(runtime_->nccl(), comm_);
  if (state == NcclResult::kSuccess || state == NcclResult::kInProgress) return;
  Break(NcclError(runtime_->nccl(), launched_.front().name(), state)
            .WithContext(Doing(launched_.front().name())));
}

// Ends all operations after Break(): stops them on the device, and completes each with the error.
void NcclEngine::Quiesce() {
  const Error reason = *broken();
  if (comm_ != nullptr) {
    // Not kCancelled: the other worlds have not ended, so their ranks must report the error.
    const Error other{ErrorKind::kUnavailable, "stopped another communicator: " + reason.message};
    runtime_->holders().MarkOthers(this, other);
    AwaitComputing();
    const AbortLimit::Watch watch(runtime_->limit(), "aborting the NCCL communicator at the end");
    state_ = StopLaunched();
    if (state_ == ParentState::kNone) {
      runtime_->Abort(std::exchange(comm_, nullptr));
      StreamEmpties(Deadline::max());  // `watch` ends the process at the limit
    }
  }
  for (NcclOperation& operation : launched_) {
    operation.work->Complete(reason);
    Release(operation);
  }
  launched_.clear();
  quiesced_ = true;
}

// Returns the state in which the communicator can be kept; kNone: it must be aborted.
ParentState NcclEngine::StopLaunched() {
  const NcclApi& nccl = runtime_->nccl();
  const Deadline deadline = steady_clock::now() + runtime_->revoke_limit();
  if (!nccl.comm_shrink) return ParentState::kNone;
  if (nccl.comm_revoke) {
    // Revoking frees a launch that is in progress or has failed, and leaves a pointer to it in the
    // communicator (2.28.9 to 2.30.7, src/init.cc: ncclCommEnsureReady).
    if (StateOf(nccl, comm_) != NcclResult::kSuccess) return ParentState::kNone;
    const Result<void> revoked =
        Settle(nccl, comm_, nccl.comm_revoke(comm_, 0), "ncclCommRevoke", Patience(deadline, true));
    if (revoked.ok() && StreamEmpties(deadline)) return ParentState::kRevoked;
    return ParentState::kNone;
  }
  return launched_.empty() ? ParentState::kBroken : ParentState::kNone;
}

// Waits until the data that the operations send is computed. A long computation does not mean that
// the communicator hangs.
void NcclEngine::AwaitComputing() {
  const Deadline deadline = steady_clock::now() + kComputingLimit;
  for (const NcclOperation& operation : launched_) {
    if (operation.ready != nullptr) static_cast<void>(Await(operation.ready, deadline));
  }
}

// Returns whether all work on the stream ends before the deadline. This includes an operation whose
// launch failed halfway: its own event was not recorded and would look complete.
bool NcclEngine::StreamEmpties(Deadline deadline) {
  return runtime_->device().Record(last_, stream_).ok() && Await(last_, deadline);
}

bool NcclEngine::Await(DeviceEvent event, Deadline deadline) {
  for (;;) {
    const Result<bool> done = runtime_->device().Done(event);
    if (!done.ok() || *done) return done.ok();
    if (steady_clock::now() >= deadline) return false;
    Pause();
  }
}

void NcclEngine::Finish() {
  if (!launched_.empty()) Break(Ended());
  if (broken() && !quiesced_) Quiesce();
  runtime_->holders().Leave(this);
  const NcclApi& nccl = runtime_->nccl();
  if (comm_ != nullptr && nccl.comm_shrink) {
    runtime_->Park({.comm = comm_,
                    .name = CommunicatorName(world_),
                    .rank = world_.rank,
                    .size = world_.size,
                    .state = state_});
  } else if (comm_ != nullptr) {
    runtime_->Abort(comm_);
  }
  comm_ = nullptr;
  events_.Return(last_);
  events_.Clear();
  if (stream_ != nullptr) runtime_->device().DropStream(stream_);
  {
    const MutexLock lock(mutex_);
    gave_up_ = nullptr;
  }
  if (mark_.pinned != nullptr) runtime_->staging().Return(mark_);
}

void NcclEngine::Enqueue(NcclOperation operation) {
  std::optional<Error> broken;
  {
    const MutexLock lock(mutex_);
    broken = broken_;
    if (!broken) queue_.push_back(std::move(operation));
  }
  wake_.NotifyOne();
  if (!broken) return;
  operation.work->Complete(*broken);
  Release(operation);
}

void NcclEngine::Break(const Error& error) {
  std::deque<NcclOperation> dropped;
  Error reason = error;
  {
    const MutexLock lock(mutex_);
    if (!broken_) broken_ = error;
    if (gave_up_ != nullptr) std::atomic_ref<uint32_t>(*gave_up_).store(1);
    reason = *broken_;
    dropped.swap(queue_);
  }
  wake_.NotifyOne();
  for (NcclOperation& operation : dropped) {
    operation.work->Complete(reason);
    Release(operation);
  }
}

std::optional<Error> NcclEngine::broken() {
  const MutexLock lock(mutex_);
  return broken_;
}

bool NcclEngine::Stop() {
  bool connecting = false;
  bool waiting = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    connecting = connecting_;
    waiting = !queue_.empty();
  }
  if (connecting || waiting) Break(Ended());
  wake_.NotifyOne();
  return !connecting;
}

void NcclEngine::Release(NcclOperation& operation) {
  for (const NcclStaged& staged : operation.staged) runtime_->staging().Return(staged.piece);
  operation.staged.clear();
  events_.Return(operation.ready);
  events_.Return(operation.done);
}

void NcclEngine::Pause() {
  if (steady_clock::now() - moved_ < kEager) return std::this_thread::yield();
  MutexLock lock(mutex_);
  wake_.WaitFor(mutex_, kBetweenLooks);
}

NcclPatience NcclEngine::Patience(Deadline deadline, bool even_if_broken) {
  return {.deadline = deadline,
          .given_up = [this, even_if_broken] { return !even_if_broken && broken().has_value(); },
          .pause = [this] { Pause(); }};
}

}  // namespace ringmaster::trainer
