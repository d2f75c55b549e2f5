#include "worker/trainer/session.h"

#include <ATen/ATen.h>
#include <cstddef>
#include <string>
#include <utility>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

using control::RankPhase;

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
      options_(std::move(options)),
      position_(options_.position ? options_.position : std::make_shared<Position>()) {}

Session::~Session() { CloseWorld(); }

Result<void> Session::Join() {
  if (options_.keeper != nullptr) {
    // Only now, while nobody waits. What is wrong counts in a world where nobody has a state.
    const Result<HeldState> restored = options_.keeper->Restore(held_);
    if (restored.ok()) {
      held_ = *restored;
    } else {
      LogWarn("Loaded no checkpoint", {{"reason", restored.error().message}});
    }
  }
  return EnterNext(Error{ErrorKind::kUnavailable, "no world came"});
}

// --- worlds
// ----------------------------------------------------------------------------------------

// Tries world after world until one stands. `cause` is why there is none now.
Result<void> Session::EnterNext(const Error& cause) {
  Error last = cause;
  for (;;) {
    position_->Enter(RankPhase::kWait);
    Result<World> next = membership_.AwaitWorld(world_.epoch);
    if (!next.ok() && next.error().kind == ErrorKind::kNotFound) {
      if (next.error().reason == kReplayed) return next.error();
      last.reason = kPeerLost;
      return last;
    }
    if (!next.ok()) return next.error().WithContext("waiting for the next world");
    world_ = *std::move(next);
    world_.waits_for = [position = position_](int peer) { position->WaitsFor(peer); };
    const Result<void> entered = Enter();
    if (entered.ok()) return {};
    last = entered.error();
    if (last.kind == ErrorKind::kInvalid || last.kind == ErrorKind::kInternal) return last;
  }
}

Result<void> Session::Enter() {
  const auto start = clock_.Now();
  position_->EnterWorld(world_.epoch);
  Result<std::unique_ptr<Communicator>> made = make_communicator_(world_, StepDeadline());
  if (!made.ok()) return made.error();
  communicator_ = *std::move(made);
  membership_.Watch(world_.epoch, [communicator = communicator_.get()](const std::string& reason) {
    communicator->Abort(reason);
  });
  Levelling::Options how{
      .fingerprint = options_.fingerprint,
      .timeout = options_.timeout,
      .moving = [this](int piece) { position_->Enter(RankPhase::kAdopt, piece); }};
  if (options_.keeper != nullptr) {
    how.look_again = [this](const HeldState& held) {
      Result<HeldState> restored = options_.keeper->Restore(held);
      if (restored.ok()) held_ = *restored;
      return restored;
    };
  }
  Levelling levelling(state_, held_, clock_, how);
  const Result<Adopted> adopted = levelling.Run(*communicator_);
  if (!adopted.ok()) {
    Leave(adopted.error());  // before the memory that its operations work on
    return adopted.error();
  }
  held_ = adopted->held;
  resumed_.reset();
  if (*NameOf(held_.origin) != '\0') resumed_ = held_;
  position_->SetStep(held_.version.step);
  switching_ = false;
  unreported_.reset();
  if (options_.keeper != nullptr) options_.keeper->Committed(world_, held_);
  audit_.Entered(world_, options_.global_batch, *adopted);
  if (options_.entered) options_.entered(world_);
  LogInfo("Entered a world",
          {{"term", world_.epoch.term},
           {"number", world_.epoch.number},
           {"rank", world_.rank},
           {"size", world_.size},
           {"step", held_.version.step},
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
                           {"step", held_.version.step},
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
  audit_.Begun(world_, held_.version.step + 1, share());
  const Deadline deadline = StepDeadline();
  buckets_.Arm([this, deadline](int index) {
    works_.push_back(communicator_->AllReduce(buckets_.Bucket(index), deadline));
  });
  buckets_.scalars()[kSwitchScalar] =
      membership_.SwitchWanted(world_.epoch, held_.version.step + 1) ? 1 : 0;
}

void Session::SetLoss(double sum) { buckets_.scalars()[kLossScalar] = static_cast<float>(sum); }

Result<std::optional<StepResult>> Session::Reduce() {
  buckets_.Flush();
  const auto start = clock_.Now();
  int bucket = 0;
  for (const WorkHandle& work : works_) {
    position_->Enter(RankPhase::kReduce, bucket++);
    const Result<void> reduced = work->Wait();
    if (reduced.ok()) continue;
    const Result<void> recovered = Recover(
        reduced.error().WithContext("reducing step " + std::to_string(held_.version.step + 1)));
    if (!recovered.ok()) return recovered.error();
    return std::optional<StepResult>();
  }
  position_->Enter(RankPhase::kUpdate);
  Committed();
  StepResult result{.waited = clock_.Now() - start};
  const auto batch = static_cast<double>(options_.global_batch);
  buckets_.flat_gradients().mul_(1.0 / batch);
  result.loss = buckets_.scalars()[kLossScalar] / batch;
  switching_ = buckets_.scalars()[kSwitchScalar] > 0;
  return std::optional<StepResult>(result);
}

Result<void> Session::Applied(const control::Progress& progress) {
  held_.version = held_.Next(world_.epoch);
  held_.origin = StateOrigin::kTraining;
  position_->SetStep(held_.version.step);
  if (audit_.on()) audit_.Applied(world_, held_.version.step, share(), Checksum(state_));
  unreported_ = progress;
  if (options_.keeper != nullptr) options_.keeper->Applied(world_, held_);
  if (!switching_) return {};
  CloseWorld();
  membership_.AtBoundary(world_, held_.version.step);
  return EnterNext(Error{ErrorKind::kUnavailable, "no world followed"});
}

// A collective has completed, so every rank has applied the step before it.
void Session::Committed() {
  if (!unreported_) return;
  if (world_.rank == 0) membership_.Report(world_, *unreported_);
  if (options_.keeper != nullptr) options_.keeper->Committed(world_, held_);
  unreported_.reset();
}

Result<bool> Session::Sum(std::span<float> values) {
  position_->Enter(RankPhase::kReduce);
  const Result<void> summed = communicator_->AllReduce(values, StepDeadline())->Wait();
  if (summed.ok()) {
    Committed();
    return true;
  }
  const Result<void> recovered = Recover(summed.error());
  if (!recovered.ok()) return recovered.error();
  return false;
}

Result<bool> Session::Finish(const control::Progress& progress) {
  position_->Enter(RankPhase::kDone);
  if (options_.keeper != nullptr) options_.keeper->Finished(world_, held_);
  const Result<bool> released = membership_.Finish(world_, progress);
  if (!released.ok() || *released) return released;
  const Result<void> recovered = Recover(Error{ErrorKind::kCancelled, "the world is over"});
  if (!recovered.ok()) return recovered.error();
  return false;
}

}  // namespace ringmaster::trainer
