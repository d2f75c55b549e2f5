#include "worker/trainer/session.h"

#include <ATen/ATen.h>
#include <cstddef>
#include <string>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

// What travels with the last bucket.
constexpr std::size_t kLossScalar = 0;
constexpr std::size_t kSwitchScalar = 1;

}  // namespace

Session::Session(MembershipSource& membership, CommunicatorFactory make_communicator,
                 Buckets& buckets, TrainableState state, AuditLog& audit, const Clock& clock,
                 SessionOptions options)
    : membership_(membership),
      make_communicator_(std::move(make_communicator)),
      buckets_(buckets),
      state_(std::move(state)),
      audit_(audit),
      clock_(clock),
      options_(std::move(options)) {}

Session::~Session() { CloseWorld(); }

Result<void> Session::Join() { return EnterNext(Error{ErrorKind::kUnavailable, "no world came"}); }

// --- worlds
// ----------------------------------------------------------------------------------------

// Tries world after world until one stands. `cause` is why there is none now.
Result<void> Session::EnterNext(const Error& cause) {
  Error last = cause;
  for (;;) {
    Result<World> next = membership_.AwaitWorld(world_.epoch);
    if (!next.ok() && next.error().kind == ErrorKind::kNotFound) {
      if (next.error().reason == kReplayed) return next.error();
      last.reason = kPeerLost;
      return last;
    }
    if (!next.ok()) return next.error().WithContext("waiting for the next world");
    world_ = *std::move(next);
    const Result<void> entered = Enter();
    if (entered.ok()) return {};
    last = entered.error();
    if (last.kind == ErrorKind::kInvalid || last.kind == ErrorKind::kInternal) return last;
  }
}

Result<void> Session::Enter() {
  const auto start = clock_.Now();
  Result<std::unique_ptr<Communicator>> made = make_communicator_(world_, StepDeadline());
  if (!made.ok()) return made.error();
  communicator_ = *std::move(made);
  membership_.Watch(world_.epoch, [communicator = communicator_.get()](const std::string& reason) {
    communicator->Abort(reason);
  });
  Levelling levelling(state_, version_, clock_,
                      {.fingerprint = options_.fingerprint, .timeout = options_.timeout});
  const Result<Adopted> adopted = levelling.Run(*communicator_);
  if (!adopted.ok()) {
    Leave(adopted.error());  // before the memory that its operations work on
    return adopted.error();
  }
  version_ = adopted->version;
  switching_ = false;
  unreported_.reset();
  audit_.Entered(world_, options_.global_batch, *adopted);
  if (options_.entered) options_.entered(world_);
  LogInfo("Entered a world",
          {{"term", world_.epoch.term},
           {"number", world_.epoch.number},
           {"rank", world_.rank},
           {"size", world_.size},
           {"step", version_.step},
           {"took_over", adopted->changed},
           {"millis",
            std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now() - start).count()}});
  return {};
}

Result<void> Session::Recover(const Error& cause) {
  Leave(cause);
  return EnterNext(cause);
}

// The world is over for this rank because of `cause`.
void Session::Leave(const Error& cause) {
  const int lost_peer = communicator_->LostPeer();
  communicator_->Abort(cause.message);
  CloseWorld();
  LogWarn("Left a world", {{"term", world_.epoch.term},
                           {"number", world_.epoch.number},
                           {"rank", world_.rank},
                           {"step", version_.step},
                           {"lost_peer", lost_peer},
                           {"reason", cause.message}});
  const bool told = cause.kind == ErrorKind::kCancelled;  // whoever decides gave it up
  if (!told && cause.kind != ErrorKind::kInvalid) {
    membership_.Broken(world_, lost_peer, cause.message);
  }
}

void Session::CloseWorld() {
  membership_.Unwatch();  // before what the watch aborts
  communicator_.reset();
}

// --- steps
// -----------------------------------------------------------------------------------------

void Session::Begin() {
  works_.clear();
  audit_.Begun(world_, version_.step + 1, share());
  const Deadline deadline = StepDeadline();
  buckets_.Arm([this, deadline](int index) {
    works_.push_back(communicator_->AllReduce(buckets_.Bucket(index), deadline));
  });
  buckets_.scalars()[kSwitchScalar] =
      membership_.SwitchWanted(world_.epoch, version_.step + 1) ? 1 : 0;
}

void Session::SetLoss(double sum) { buckets_.scalars()[kLossScalar] = static_cast<float>(sum); }

Result<std::optional<StepResult>> Session::Reduce() {
  buckets_.Flush();
  const auto start = clock_.Now();
  for (const WorkHandle& work : works_) {
    const Result<void> reduced = work->Wait();
    if (reduced.ok()) continue;
    const Result<void> recovered =
        Recover(reduced.error().WithContext("reducing step " + std::to_string(version_.step + 1)));
    if (!recovered.ok()) return recovered.error();
    return std::optional<StepResult>();
  }
  ReportCommitted();
  StepResult result{.waited = clock_.Now() - start};
  const auto batch = static_cast<double>(options_.global_batch);
  buckets_.flat_gradients().mul_(1.0 / batch);
  result.loss = buckets_.scalars()[kLossScalar] / batch;
  switching_ = buckets_.scalars()[kSwitchScalar] > 0;
  return std::optional<StepResult>(result);
}

Result<void> Session::Applied(const control::Progress& progress) {
  version_ = {.epoch = world_.epoch, .step = version_.step + 1};
  if (audit_.on()) audit_.Applied(world_, version_.step, share(), Checksum(state_));
  unreported_ = progress;
  if (!switching_) return {};
  CloseWorld();
  membership_.AtBoundary(world_, version_.step);
  return EnterNext(Error{ErrorKind::kUnavailable, "no world followed"});
}

// A collective has completed, so every rank has applied the step before it.
void Session::ReportCommitted() {
  if (unreported_ && world_.rank == 0) membership_.Report(world_, *unreported_);
  unreported_.reset();
}

Result<bool> Session::Sum(std::span<float> values) {
  const Result<void> summed = communicator_->AllReduce(values, StepDeadline())->Wait();
  if (summed.ok()) {
    ReportCommitted();
    return true;
  }
  const Result<void> recovered = Recover(summed.error());
  if (!recovered.ok()) return recovered.error();
  return false;
}

Result<bool> Session::Finish(const control::Progress& progress) {
  const Result<bool> released = membership_.Finish(world_, progress);
  if (!released.ok() || *released) return released;
  const Result<void> recovered = Recover(Error{ErrorKind::kCancelled, "the world is over"});
  if (!recovered.ok()) return recovered.error();
  return false;
}

}  // namespace ringmaster::trainer
